// Lists of lives: the open ones, for a service; and the past ones of a streamer.

import { path } from "./api.js";
import { byId, make, say } from "./dom.js";
import { dateTime, number, problemText, span, t } from "./words.js";

const READ_EVERY = 5_000;
const PAGE = 50;

const cell = (text, className = "") => make("td", { textContent: text, className });

/** The open lives, in the order that the reader chose. */
export class OpenLives {
  #api;
  #show;
  #timer;
  #limit = PAGE;

  /** `show` opens one of them. */
  constructor({ api, show }) {
    this.#api = api;
    this.#show = show;
    byId("lives-sort").onchange = () => this.read();
    byId("lives-more").onclick = () => {
      this.#limit = Math.min(1_000, this.#limit + PAGE);
      this.read();
    };
    this.#timer = setInterval(() => document.hidden || this.read(), READ_EVERY);
    this.read();
  }

  async read() {
    try {
      const query = new URLSearchParams({ sort: byId("lives-sort").value, limit: this.#limit });
      const { items, cursor } = await this.#api.get(`/v1/lives?${query}`);
      if (!this.#timer) return;
      const focused = document.activeElement?.dataset.live;
      byId("lives-body").replaceChildren(...items.map((live) => this.#row(live)));
      if (focused) byId("lives-body").querySelector(`[data-live="${CSS.escape(focused)}"]`)?.focus();
      byId("lives-more").hidden = cursor === null;
      say(byId("lives-note"), items.length ? "" : t("noLives"));
    } catch (error) {
      if (this.#timer) say(byId("lives-note"), problemText(error));
    }
  }

  #row({ live_id, streamer_id, title, opened_at, viewers, fans }) {
    const open = make("button", { type: "button", className: "link", textContent: live_id });
    open.dataset.live = live_id;
    open.onclick = () => this.#show(live_id);
    const name = make("th", { scope: "row" }, open, make("span", { className: "soft", textContent: title ?? "" }));
    const figures = [cell(number(viewers ?? 0), "number"), cell(number(fans ?? 0), "number")];
    return make("tr", {}, name, cell(streamer_id), ...figures, cell(dateTime(opened_at)));
  }

  stop() {
    clearInterval(this.#timer);
    this.#timer = null;
  }
}

/** Reads the past lives of a streamer when the reader opens their part of the page. */
export function showPastLives({ api, streamer }) {
  const details = byId("past");
  details.open = false;
  details.hidden = false;
  details.ontoggle = async () => {
    if (!details.open) return;
    const note = byId("past-note");
    try {
      const { items } = await api.get(`${path`/v1/streamers/${streamer}/lives`}?limit=20`);
      byId("past-body").replaceChildren(...items.map(pastRow));
      byId("past-table").hidden = !items.length;
      say(note, items.length ? "" : t("noPast"));
    } catch (error) {
      say(note, error.status === 404 ? t("notKept") : problemText(error));
    }
  };
}

const pair = (...figures) => figures.map((n) => (Number.isFinite(n) ? number(n) : "–")).join(" / ");

function pastRow(live) {
  const name = make("th", { scope: "row", textContent: live.title ?? live.live_id });
  const figures = [pair(live.peak_viewers, live.peak_fans), pair(live.unique_viewers, live.unique_fans)];
  const cells = [dateTime(live.opened_at), span(live.duration_ms), ...figures];
  return make("tr", {}, name, ...cells.map((text) => cell(text)));
}
