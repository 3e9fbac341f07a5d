// One live, as its streamer sees it: the connection and how far to trust the figures, the figures, the chart, and the
// buttons that open and close the live. fans.js and bans.js have the lists below.

import { path } from "./api.js";
import { Bans } from "./bans.js";
import { Chart } from "./chart.js";
import { hasApi } from "./credentials.js";
import { byId, say } from "./dom.js";
import { Fans } from "./fans.js";
import { Rates } from "./figures.js";
import { PastLives } from "./lives.js";
import { clock, number, problemText, span, t } from "./words.js";

/** How often to look whether somebody opened the live. */
const LOOK_AGAIN = 5_000;
/** How often the figures are said to a screen reader, at most. */
const ANNOUNCE_EVERY = 10_000;
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
/** Lifted bans, bans that end, and fans who change places at once are not in the figures: the lists are read anyway. */
const READ_LISTS_EVERY = 30 * SECOND;
/** The gateway keeps a point per so long. Of six hours the chart has them all, of longer streams fewer. */
const STEP = 10 * SECOND;
const MOST_POINTS = 2_160;
/** Of a live that was opened so long ago, the gateway may not keep the beginning any more. */
const KEPT_WHOLE = 24 * 3_600 * SECOND;

let chart;

export class LiveView {
  #api;
  #client;
  #live;
  #who;
  #stop = new AbortController();
  #fans;
  #bans;
  #past;
  #rates = new Rates();
  #counts = null;
  /** How far the gateway's clock is ahead of the time since this page was opened, which nobody sets. */
  #ahead = 0;
  /** When the gateway was heard last, by the clock that readers see. */
  #heardAt = 0;
  /** Figures may have been missed while there was no connection. */
  #missed = false;
  /** The live is open, not open, or nothing is known yet. */
  #phase = "unknown";
  /** What is left of the live, if it closed. */
  #summary = null;
  #refusal = null;
  #announced = { at: 0, text: "" };
  #unhear = [];
  #timer;
  #lists;
  #wake = () => {};

  constructor({ api, client, live, who }) {
    this.#api = api;
    this.#client = client;
    this.#live = live;
    this.#who = who;
    chart ??= new Chart();
    chart.clear();
    say(byId("live-title"), live);
    say(byId("note"), hasApi ? "" : t("noApi"));
    byId("lists").hidden = !hasApi;
    this.#fans = hasApi ? new Fans({ api, live, moderate: (user) => this.#bans.ask(user) }) : null;
    this.#bans = hasApi ? new Bans({ api, live, told: (text) => say(byId("note"), text) }) : null;
    byId("open-form").onsubmit = (event) => this.#open(event);
    byId("close-live").onclick = () => this.#askToClose();
    byId("close-form").onsubmit = (event) => this.#close(event);
    byId("close-cancel").onclick = () => byId("close-dialog").close();
    for (const type of ["heartbeat_ack", "counts", "welcome"]) {
      this.#unhear.push(client.on(type, () => { this.#heardAt = Date.now(); }));
    }
    this.#unhear.push(client.on("state", ({ state }) => {
      this.#missed ||= state === "open" && this.#counts !== null;
      this.draw();
    }));
    this.#timer = setInterval(() => document.hidden || this.#tick(), SECOND);
    this.#lists = setInterval(() => document.hidden || this.#readLists(), READ_LISTS_EVERY);
    byId("past").hidden = !hasApi;
    this.#past = hasApi ? new PastLives({ api, streamer: () => this.#streamer() }) : null;
    this.#follow();
    this.draw();
  }

  /** Whose past lives are shown. */
  async #streamer() {
    if (this.#who.role === "streamer") return this.#who.user;
    return (await this.#api.get(path`/v1/lives/${this.#live}`)).streamer_id;
  }

  /** Watches the live for as long as this view is shown, through its closings and openings. */
  async #follow() {
    const { signal } = this.#stop;
    while (!signal.aborted) {
      try {
        for await (const message of this.#client.watch(this.#live, { signal })) {
          if (signal.aborted) return;
          if (message.type === "counts") this.#counted(message);
          else await this.#closed(message);
        }
      } catch (error) {
        if (signal.aborted) return;
        this.#refusal = error;
        if (error.code !== "live_not_open" && error.code !== "timeout") return this.draw();
        if (error.code === "live_not_open" && this.#phase !== "closed") this.#foundClosed();
      }
      if (signal.aborted) return;
      this.draw();
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, LOOK_AGAIN);
        this.#wake = () => clearTimeout(timer) || resolve();
      });
    }
  }

  #counted(counts) {
    const isNew = this.#counts?.epoch !== counts.epoch;
    if (isNew || this.#phase !== "open") this.#begin(isNew);
    const moved = ["fans", "joins", "leaves"].some((name) => this.#counts?.[name] !== counts[name]);
    if (isNew || moved || this.#missed) this.#fans?.changed(counts.fans);
    this.#counts = counts;
    this.#heardAt = Date.now();
    const isExact = counts.quality === "exact";
    // Other figures may be as of a while ago.
    if (isNew || isExact) this.#ahead = counts.as_of - performance.now();
    if (isExact) {
      // Totals from before a gap would be taken for those of its end.
      if (this.#missed) this.#rates.clear();
      chart.add({ at: counts.as_of, viewers: counts.viewers, fans: counts.fans });
      this.#rates.add({ at: counts.as_of, ...counts });
    }
    if (isNew || (isExact && this.#missed)) this.#recall();
    this.#missed = !isExact && (isNew || this.#missed);
    this.draw();
  }

  /** Only of an open live that this user may see, and while the gateway answers, there is something to read. */
  #readLists() {
    if (!["exact", "partial"].includes(this.#trust())) return;
    this.#fans?.changed(this.#counts.fans);
    this.#bans?.read();
  }

  #begin(isNew) {
    this.#phase = "open";
    this.#refusal = this.#summary = null;
    if (isNew) {
      chart.clear();
      this.#rates.clear();
    }
    this.#bans?.read();
  }

  /** Reads what the stream was before this page was opened, or while it had no connection. */
  async #recall() {
    if (!hasApi) return;
    const { epoch, opened_at, as_of: since } = this.#counts;
    const age = since - opened_at;
    const step = (Math.ceil(age / MOST_POINTS / STEP) * STEP) / SECOND;
    const query = new URLSearchParams({ from: opened_at, epoch, ...(step * SECOND > STEP && { step }) });
    try {
      const { items } = await this.#api.get(`${path`/v1/lives/${this.#live}/history`}?${query}`);
      if (this.#stop.signal.aborted || this.#counts.epoch !== epoch) return;
      // A point tells the end of its time. At the opening nobody had come.
      const points = items.map((point) => ({ ...point, at: point.began_at + STEP }));
      if (age < KEPT_WHOLE) points.unshift({ at: opened_at, viewers: 0, fans: 0, joins: 0, leaves: 0 });
      chart.load(points, since);
      this.#rates.load(points, since);
      this.draw();
    } catch {
      // The chart begins now.
    }
  }

  async #closed(message) {
    this.#phase = "closed";
    this.#summary = message;
    this.#refusal = null;
    this.#fans?.stop();
    this.draw();
    if (!hasApi) return;
    this.#past.read();
    const { summary } = await this.#api.get(path`/v1/lives/${this.#live}`).catch(() => ({}));
    // Somebody may have opened it again, and even closed it.
    if (summary && summary.epoch === this.#counts?.epoch) this.#summary = summary;
  }

  /** This page was opened after the end of the live: the streamer's past lives have what is left of it. */
  async #foundClosed() {
    this.#phase = "closed";
    if (!hasApi || this.#who.role !== "streamer") return;
    const { items } = await this.#api.get(path`/v1/streamers/${this.#who.user}/lives`).catch(() => ({ items: [] }));
    if (this.#stop.signal.aborted || this.#phase !== "closed") return;
    this.#summary ??= items.find(({ live_id }) => live_id === this.#live) ?? null;
    this.draw();
  }

  #drawSummary() {
    byId("summary").hidden = this.#summary === null;
    const { reason, ...summary } = this.#summary ?? {};
    const why = t(`reason_${reason}`);
    say(byId("summary-why"), why.startsWith("reason_") ? "" : why);
    // Of a close that this page missed, and without an API, less is known.
    const known = (key, viewers, fans, more = {}) =>
      (Number.isFinite(viewers) ? t(key, { viewers: number(viewers), fans: number(fans), ...more }) : "");
    const time = span(summary.duration_ms);
    say(byId("summary-peaks"), known("summary", summary.peak_viewers, summary.peak_fans, { time }));
    const minutes = summary.watched_ms / MINUTE;
    const watched = Number.isFinite(minutes) ? t("watched", { n: number(Math.round(minutes * 10) / 10) }) : "";
    say(byId("summary-unique"), known("unique", summary.unique_viewers, summary.unique_fans));
    say(byId("summary-watched"), watched);
  }

  async #open(event) {
    event.preventDefault();
    const streamer_id = byId("open-streamer").value.trim();
    const title = byId("open-title").value.trim();
    await this.#act(() => this.#api.put(path`/v1/lives/${this.#live}`, { streamer_id, ...(title && { title }) }));
    this.#wake();
  }

  #askToClose() {
    say(byId("close-title"), t("closeAsk", { id: this.#live }));
    byId("close-dialog").showModal();
  }

  async #close(event) {
    event.preventDefault();
    byId("close-dialog").close();
    await this.#act(() => this.#api.delete(path`/v1/lives/${this.#live}`));
    // The button that had the focus goes.
    byId("live-title").focus();
  }

  async #act(call) {
    try {
      say(byId("note"), "");
      await call();
    } catch (error) {
      say(byId("note"), problemText(error));
    }
  }

  /** What the time alone changes: how long the live is open, the rates, the end of the chart. */
  #tick() {
    if (this.#trust() === "exact" && this.#counts) {
      const { viewers, fans } = this.#counts;
      chart.add({ at: this.#gatewayNow(), viewers, fans });
    }
    this.draw();
  }

  #gatewayNow() {
    return Math.round(performance.now() + this.#ahead);
  }

  /** How far to trust the figures that are shown. */
  #trust() {
    const { state } = this.#client.status;
    if (state === "closed") return "closed";
    // Attempts come and go; until one succeeds, there is no connection.
    if (state !== "open") return state === "waiting" || this.#counts ? "waiting" : "connecting";
    if (this.#refusal && this.#refusal.code !== "live_not_open") return "refused";
    if (this.#phase !== "open" || !this.#counts) return "idle";
    return this.#counts.quality;
  }

  /** Writes everything that the state of the live decides. */
  draw() {
    const trust = this.#trust();
    const counts = this.#phase === "unknown" ? null : this.#counts;
    const open = this.#phase === "open";
    byId("live").dataset.trust = trust;
    byId("live").dataset.phase = this.#phase;
    this.#drawState(trust);
    this.#drawSummary();
    byId("open-form").hidden = !hasApi || this.#phase !== "closed";
    byId("open-streamer-field").hidden = this.#who.role === "streamer";
    if (this.#who.role === "streamer") byId("open-streamer").value = this.#who.user;
    byId("close-live").hidden = !hasApi || !open;
    byId("moderate-open").hidden = !open;
    byId("lists").hidden = !hasApi || !open;
    const show = (name, value) => say(byId(name), value ?? "–");
    show("viewers", counts && number(counts.viewers));
    show("fans", counts && number(counts.fans));
    say(byId("guests"), counts?.guests ? t("guests", { n: number(counts.guests) }) : "");
    say(byId("peak-viewers"), counts ? t("peak", { n: number(counts.peak_viewers) }) : "");
    say(byId("peak-fans"), counts ? t("peak", { n: number(counts.peak_fans) }) : "");
    say(byId("watching"), counts?.watching ? t("watching", { n: number(counts.watching) }) : "");
    say(byId("away"), counts?.away ? t("away", { n: number(counts.away) }) : "");
    const rates = counts && open && trust === "exact" ? this.#rates.perMinute(this.#gatewayNow()) : null;
    show("joins", rates && number(rates.joins));
    show("leaves", rates && number(rates.leaves));
    const since = counts && open ? this.#onAir(counts) : "";
    say(byId("on-air"), trust === "exact" || trust === "partial" ? since : "");
    this.#announce(trust);
  }

  /** How long the live is open, or, once a media server has lost its stream, how long it will be. */
  #onAir({ opened_at, stream }) {
    const now = this.#gatewayNow();
    if (stream?.state !== "lost") return t("onAir", { time: span(now - opened_at) });
    if (!stream.closes_at) return t("streamLost");
    return t("streamLostClosing", { s: number(Math.max(0, Math.ceil((stream.closes_at - now) / SECOND))) });
  }

  #drawState(trust) {
    const status = this.#client.status;
    const refusal = status.state === "closed" ? { code: status.reason, message: status.message } : this.#refusal;
    const asOf = trust === "stale" ? this.#counts.as_of : this.#heardAt;
    const texts = {
      idle: () => t(this.#phase === "closed" ? "notOpen" : "s_connecting"),
      connecting: () => t("s_connecting"),
      waiting: () => (this.#counts ? t("s_waiting", { time: clock(asOf) }) : t("s_waitingNew")),
      closed: () => `${t("s_closed", { why: problemText(refusal) })} ${t("s_reload")}`,
      refused: () => problemText(refusal),
    };
    say(byId("state-text"), texts[trust]?.() ?? t(`s_${trust}`, { time: clock(asOf) }));
    const left = Math.max(0, Math.ceil(((status.retry_at ?? 0) - Date.now()) / SECOND));
    say(byId("state-retry"), status.state === "waiting" ? t("retry", { s: left }) : "");
  }

  /** Says everything in the language that the reader chose. */
  speak() {
    this.#fans?.draw();
    this.#bans?.draw();
    this.#past?.draw();
    this.draw();
  }

  #announce(trust) {
    if (trust !== "exact" || !this.#counts || Date.now() - this.#announced.at < ANNOUNCE_EVERY) return;
    const text = t("now", { viewers: number(this.#counts.viewers), fans: number(this.#counts.fans) });
    if (text === this.#announced.text) return;
    this.#announced = { at: Date.now(), text };
    say(byId("announcer"), text);
  }

  stop() {
    this.#stop.abort();
    this.#wake();
    clearInterval(this.#timer);
    clearInterval(this.#lists);
    this.#unhear.forEach((unhear) => unhear());
    this.#fans?.stop();
    this.#bans?.stop();
    this.#past?.stop();
    byId("close-dialog").close();
    say(byId("announcer"), "");
  }
}
