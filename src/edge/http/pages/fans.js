// The fans online: the beginning of the list, and more on request; found by the beginning of their ids.

import { path } from "./api.js";
import { byId, make, say, showList, throttle } from "./dom.js";
import { number, problemText, t } from "./words.js";

const PAGE = 50;
/** The reader finds others by the beginning of their ids. */
const MOST = 1_000;
/** How often the list follows the figures. Reading a large one costs the store something. */
const EVERY = 5_000;
const EVERY_IF_LARGE = 30_000;
const LARGE = 1_000;

export class Fans {
  #api;
  #live;
  #moderate;
  #fans = 0;
  #users = [];
  /** So many are shown, if there are so many. */
  #most = PAGE;
  #more = false;
  #asked = 0;
  /** The list is on the page. Reading it may have been put off until after that. */
  #shown = false;
  #follow = throttle(() => (this.#fans > LARGE ? EVERY_IF_LARGE : EVERY), () => this.read());

  constructor({ api, live, moderate }) {
    this.#api = api;
    this.#live = live;
    this.#moderate = moderate;
    byId("fan-search").oninput = throttle(() => 300, () => this.#readTo(PAGE));
    byId("fans-more").onclick = () => this.#readTo(Math.min(MOST, this.#most + PAGE));
  }

  /** Some fans came or left, or may have: two who change places do not change their number. */
  changed(fans) {
    this.#fans = fans;
    this.#shown = true;
    this.#follow();
  }

  async #readTo(most) {
    this.#most = most;
    await this.read();
  }

  /** Reads as much of the list as is shown. */
  async read() {
    if (!this.#shown) return;
    const prefix = byId("fan-search").value.trim();
    const query = prefix && `?${new URLSearchParams({ prefix })}`;
    const asked = ++this.#asked;
    try {
      const { items, more } = await this.#api.list(path`/v1/lives/${this.#live}/fans` + query, this.#most);
      // A later question is under way, or another live is shown.
      if (asked !== this.#asked) return;
      this.#users = items.map((fan) => fan.user_id);
      this.#more = more;
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
    const isCut = this.#more && this.#most === MOST;
    byId("fans-more").hidden = !this.#more || isCut;
    const none = t(byId("fan-search").value.trim() ? "noneFound" : "noFans");
    say(byId("fans-note"), this.#users.length ? isCut ? t("first", { n: number(MOST) }) : "" : none);
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
    this.#most = PAGE;
    this.#more = false;
    showList(byId("fans-list"), [], null, null);
    byId("fans-more").hidden = true;
    say(byId("fans-note"), "");
  }
}
