// Tables of lives: the open ones, for a service; and the past ones of a streamer.

import { path } from "./api.js";
import { byId, make, say } from "./dom.js";
import { clock, dateTime, number, problemText, span, t } from "./words.js";

const READ_EVERY = 5_000;
const PAGE = 50;
/** The gateway answers no more at once. */
const MOST = 1_000;

const cell = (text, className = "") => make("td", { textContent: text, className });

const named = (live, title) => [live, " ", make("span", { className: "soft", textContent: title ?? "" })];

/** A table with a page of lives, and more on request. */
class Table {
  #name;
  #read;
  #row;
  #none;
  #items = null;
  #limit = PAGE;
  #more = false;
  #asked = 0;
  #answered = 0;
  #told;

  /**
   * `read` asks the API for so many; `row` shows one; `none` is the text instead of the table; `told` hears after each
   * question what the table shows and what went wrong.
   */
  constructor({ name, read, row, none, told = (_, failed) => this.#complain(failed) }) {
    this.#name = name;
    this.#told = told;
    this.#read = read;
    this.#row = row;
    this.#none = none;
    this.#part("more").onclick = () => {
      this.#limit = Math.min(MOST, this.#limit + PAGE);
      this.read();
    };
  }

  #part(name) {
    return byId(`${this.#name}-${name}`);
  }

  /** Reads anew, unless an answer is awaited: a gateway that is slow must not seem to be asked for the first time. */
  follow() {
    if (this.#asked === this.#answered) this.read();
  }

  async read() {
    const asked = ++this.#asked;
    let failed = null;
    const answer = await this.#read(this.#limit).catch((error) => { failed = error; });
    // A later question is under way, or something else is shown.
    if (asked !== this.#asked) return;
    this.#answered = asked;
    if (answer) {
      this.#items = answer.items;
      this.#more = answer.more;
      this.draw();
    }
    this.#told(this.#items, failed);
  }

  #complain(failed) {
    if (failed) say(this.#part("note"), failed.code === "live_not_found" ? t(this.#none) : problemText(failed));
  }

  draw() {
    if (this.#items === null) return;
    const focused = document.activeElement?.dataset.live;
    const body = this.#part("body");
    body.replaceChildren(...this.#items.map(this.#row));
    if (focused) body.querySelector(`[data-live="${CSS.escape(focused)}"]`)?.focus();
    this.#part("table").hidden = !this.#items.length;
    const isCut = this.#more && this.#limit === MOST;
    this.#part("more").hidden = !this.#more || isCut;
    say(this.#part("note"), this.#items.length ? isCut ? t("first", { n: number(MOST) }) : "" : t(this.#none));
  }

  stop() {
    this.#asked += 1;
    this.#part("body").replaceChildren();
    this.#part("table").hidden = this.#part("more").hidden = true;
    say(this.#part("note"), "");
  }
}

/** The open lives, in the order that the reader chose. */
export class OpenLives {
  #table;
  #timer;
  #lives = null;
  #failed = null;
  /** When the figures were read. */
  #readAt = 0;

  /** `show` opens one of them. */
  constructor({ api, show }) {
    const read = (limit) => api.list(`/v1/lives?sort=${byId("lives-sort").value}`, limit);
    const told = (lives, failed) => this.#heard(lives, failed);
    this.#table = new Table({ name: "lives", read, row: (live) => openRow(live, show), none: "noLives", told });
    byId("lives-sort").onchange = () => this.#table.read();
    this.#timer = setInterval(() => document.hidden || this.#table.follow(), READ_EVERY);
    this.#drawState();
    this.#table.read();
  }

  #heard(lives, failed) {
    this.#lives = lives;
    this.#failed = failed;
    if (!failed) this.#readAt = Date.now();
    this.#drawState();
  }

  /** How far to trust the figures: those of each live say it in their row, and all are old while nobody answers. */
  #drawState() {
    byId("overview").dataset.trust = this.#failed ? "waiting" : this.#lives ? "read" : "connecting";
    const asOf = (key) => (this.#lives ? t(key, { time: clock(this.#readAt) }) : "");
    const problem = this.#failed && `${problemText(this.#failed)} ${asOf("oldAsOf")}`;
    say(byId("lives-state"), problem ?? (this.#lives ? "" : t("s_connecting")));
    // Nobody wants to hear a clock.
    say(byId("lives-as-of"), problem ? "" : asOf("asOf"));
  }

  speak() {
    this.#table.draw();
    this.#drawState();
  }

  stop() {
    clearInterval(this.#timer);
    this.#table.stop();
    delete byId("overview").dataset.trust;
    for (const part of ["lives-state", "lives-as-of"]) say(byId(part), "");
  }
}

const doubt = (textContent) => make("span", { className: "doubt", textContent });

function openRow({ live_id, streamer_id, title, opened_at, viewers, fans, quality, counted_at }, show) {
  const open = make("button", { type: "button", className: "link", textContent: live_id });
  open.dataset.live = live_id;
  open.onclick = () => show(live_id);
  const name = make("th", { scope: "row" }, ...named(open, title));
  const figures = [cell(number(viewers), "number"), cell(number(fans), "number")];
  if (quality === "partial") name.append(" ", doubt(t("incomplete")));
  if (quality === "stale") name.append(" ", doubt(t("oldAsOf", { time: clock(counted_at) })));
  const row = make("tr", {}, name, cell(streamer_id), ...figures, cell(dateTime(opened_at)));
  row.dataset.trust = quality ?? "";
  return row;
}

/** The past lives of a streamer, read when the reader opens their part of the page. */
export class PastLives {
  #table;

  /** `streamer` finds out whose they are. */
  constructor({ api, streamer }) {
    const read = async (limit) => api.list(path`/v1/streamers/${await streamer()}/lives`, limit);
    this.#table = new Table({ name: "past", read, row: pastRow, none: "noPast" });
    byId("past").open = false;
    byId("past").ontoggle = () => this.read();
  }

  read() {
    if (byId("past").open) this.#table.read();
  }

  draw() {
    this.#table.draw();
  }

  stop() {
    byId("past").ontoggle = null;
    this.#table.stop();
  }
}

const pair = (...figures) => figures.map((n) => (Number.isFinite(n) ? number(n) : "–")).join(" / ");

function pastRow({ live_id, title, opened_at, duration_ms, ...summary }) {
  const name = make("th", { scope: "row" }, ...named(live_id, title));
  const peaks = pair(summary.peak_viewers, summary.peak_fans);
  const uniques = pair(summary.unique_viewers, summary.unique_fans);
  return make("tr", {}, name, ...[dateTime(opened_at), span(duration_ms), peaks, uniques].map((text) => cell(text)));
}
