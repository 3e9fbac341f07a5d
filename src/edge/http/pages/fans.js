// The fans online: a page of the list, and more on request; found by the beginning of their ids.

import { path } from "./api.js";
import { byId, make, say, showList, throttle } from "./dom.js";
import { problemText, t } from "./words.js";

const PAGE = 50;
/** How often the list follows the figures. Reading a large one costs the store something. */
const EVERY = 3_000;
const EVERY_IF_LARGE = 30_000;
const LARGE = 1_000;

export class Fans {
  #api;
  #live;
  #moderate;
  #fans = 0;
  #users = [];
  #cursor = null;
  /** More than the first page is shown: it stays until the reader asks anew. */
  #grown = false;
  #asked = 0;
  /** The list is on the page. Reading it may have been put off until after that. */
  #shown = false;
  #follow = throttle(() => (this.#fans > LARGE ? EVERY_IF_LARGE : EVERY), () => this.#grown || this.read());

  constructor({ api, live, moderate }) {
    this.#api = api;
    this.#live = live;
    this.#moderate = moderate;
    byId("fan-search").oninput = throttle(() => 300, () => this.read());
    byId("fans-more").onclick = () => this.#more();
  }

  /** The number of fans changed, or may have. */
  changed(fans) {
    this.#fans = fans;
    this.#shown = true;
    this.#follow();
  }

  /** Reads the list from its beginning. */
  async read() {
    this.#grown = false;
    await this.#read(null, []);
  }

  async #more() {
    this.#grown = true;
    await this.#read(this.#cursor, this.#users);
  }

  async #read(cursor, before) {
    if (!this.#shown) return;
    const prefix = byId("fan-search").value.trim();
    const query = new URLSearchParams({ limit: PAGE, ...(prefix && { prefix }), ...(cursor && { cursor }) });
    const asked = ++this.#asked;
    try {
      const page = await this.#api.get(`${path`/v1/lives/${this.#live}/fans`}?${query}`);
      // A later question is under way, or another live is shown.
      if (asked !== this.#asked) return;
      this.#users = [...before, ...page.items.map((fan) => fan.user_id)];
      this.#cursor = page.cursor;
      this.#show();
    } catch (error) {
      if (asked === this.#asked) say(byId("fans-note"), problemText(error));
    }
  }

  #show() {
    const row = (user) => {
      const button = make("button", { type: "button", className: "small", textContent: t("moderate") });
      button.dataset.t = "moderate";
      button.setAttribute("aria-label", t("moderateWho", { id: user }));
      button.onclick = () => this.#moderate(user);
      return make("li", {}, make("span", { className: "id", textContent: user }), button);
    };
    showList(byId("fans-list"), this.#users, (user) => user, row);
    byId("fans-more").hidden = this.#cursor === null;
    say(byId("fans-note"), this.#users.length ? "" : t(byId("fan-search").value.trim() ? "noneFound" : "noFans"));
  }

  /** Shows the list in the language that the reader chose. */
  draw() {
    if (!this.#shown) return;
    showList(byId("fans-list"), [], null, null);
    this.#show();
  }

  stop() {
    this.#shown = false;
    this.#asked += 1;
    byId("fan-search").value = "";
    this.#users = [];
    this.#cursor = null;
    showList(byId("fans-list"), [], null, null);
    byId("fans-more").hidden = true;
    say(byId("fans-note"), "");
  }
}
