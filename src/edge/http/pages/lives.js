// Tables of lives: the open ones, for a service; and the past ones of a streamer.

import { path } from "./api.js";
import { byId, make, say } from "./dom.js";
import { dateTime, number, problemText, span, t } from "./words.js";

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
  #asked = 0;

  /** `read` asks the API for so many; `row` shows one; `none` is the text instead of the table. */
  constructor({ name, read, row, none }) {
    this.#name = name;
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

  async read() {
    const asked = ++this.#asked;
    try {
      const { items, cursor } = await this.#read(this.#limit);
      // A later question is under way, or something else is shown.
      if (asked !== this.#asked) return;
      this.#items = items;
      this.#part("more").hidden = cursor === null || this.#limit === MOST;
      this.draw();
    } catch (error) {
      if (asked !== this.#asked) return;
      say(this.#part("note"), error.code === "live_not_found" ? t(this.#none) : problemText(error));
    }
  }

  draw() {
    if (this.#items === null) return;
    const focused = document.activeElement?.dataset.live;
    const body = this.#part("body");
    body.replaceChildren(...this.#items.map(this.#row));
    if (focused) body.querySelector(`[data-live="${CSS.escape(focused)}"]`)?.focus();
    this.#part("table").hidden = !this.#items.length;
    say(this.#part("note"), this.#items.length ? "" : t(this.#none));
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

  /** `show` opens one of them. */
  constructor({ api, show }) {
    const read = (limit) => api.get(`/v1/lives?${new URLSearchParams({ sort: byId("lives-sort").value, limit })}`);
    this.#table = new Table({ name: "lives", read, row: (live) => openRow(live, show), none: "noLives" });
    byId("lives-sort").onchange = () => this.#table.read();
    this.#timer = setInterval(() => document.hidden || this.#table.read(), READ_EVERY);
    this.#table.read();
  }

  speak() {
    this.#table.draw();
  }

  stop() {
    clearInterval(this.#timer);
    this.#table.stop();
  }
}

function openRow({ live_id, streamer_id, title, opened_at, viewers, fans }, show) {
  const open = make("button", { type: "button", className: "link", textContent: live_id });
  open.dataset.live = live_id;
  open.onclick = () => show(live_id);
  const name = make("th", { scope: "row" }, ...named(open, title));
  const figures = [cell(number(viewers), "number"), cell(number(fans), "number")];
  return make("tr", {}, name, cell(streamer_id), ...figures, cell(dateTime(opened_at)));
}

/** The past lives of a streamer, read when the reader opens their part of the page. */
export class PastLives {
  #table;

  /** `streamer` finds out whose they are. */
  constructor({ api, streamer }) {
    const read = async (limit) => api.get(`${path`/v1/streamers/${await streamer()}/lives`}?limit=${limit}`);
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
