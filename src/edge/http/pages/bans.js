// Moderation: the dialog that removes or bans somebody, and the list of those who are banned.

import { path } from "./api.js";
import { byId, make, say, showList } from "./dom.js";
import { dateTime, number, problemText, t } from "./words.js";

/** So many are shown: those whose bans end first. */
const MOST = 1_000;

export class Bans {
  #api;
  #live;
  #told;
  #bans = null;
  #more = false;
  #stopped = false;

  /** `told` hears what was done. */
  constructor({ api, live, told }) {
    this.#api = api;
    this.#live = live;
    this.#told = told;
    byId("moderate-form").onsubmit = (event) => this.#remove(event);
    byId("moderate-cancel").onclick = () => byId("moderate").close();
    byId("moderate-open").onclick = () => this.ask("");
  }

  /** Opens the dialog, about this user or one to be named. */
  ask(user) {
    byId("moderate-user").value = user;
    say(byId("moderate-note"), "");
    byId("moderate").showModal();
    byId(user ? "moderate-ban" : "moderate-user").focus();
  }

  async #remove(event) {
    event.preventDefault();
    const user = byId("moderate-user").value.trim();
    const ban_s = Number(byId("moderate-ban").value);
    try {
      const { ban_ends_at } = ban_s > 0
        ? await this.#api.put(path`/v1/lives/${this.#live}/bans/${user}`, { ban_s })
        : await this.#api.delete(path`/v1/lives/${this.#live}/viewers/${user}`);
      byId("moderate").close();
      const until = ban_ends_at && dateTime(ban_ends_at);
      this.#told(t(until ? "banned" : "removed", { id: user, time: until }));
      await this.read();
    } catch (error) {
      say(byId("moderate-note"), error.code === "forbidden" ? t("ownLive") : problemText(error));
    }
  }

  async read() {
    try {
      const { items, more } = await this.#api.list(path`/v1/lives/${this.#live}/bans`, MOST);
      if (this.#stopped) return;
      this.#bans = items;
      this.#more = more;
      this.#show();
    } catch (error) {
      if (!this.#stopped) say(byId("bans-note"), problemText(error));
    }
  }

  #show() {
    const row = ({ user_id, ban_ends_at }) => {
      const button = make("button", { type: "button", className: "small", textContent: t("lift") });
      button.dataset.t = "lift";
      button.setAttribute("aria-label", t("liftOf", { id: user_id }));
      button.onclick = () => this.#lift(user_id);
      const until = make("span", { className: "soft", textContent: t("until", { time: dateTime(ban_ends_at) }) });
      return make("li", {}, make("span", { className: "id", textContent: user_id }), until, button);
    };
    const key = ({ user_id, ban_ends_at }) => `${user_id} ${ban_ends_at}`;
    showList(byId("bans-list"), this.#bans, key, row);
    const cut = this.#more ? t("first", { n: number(MOST) }) : "";
    say(byId("bans-note"), this.#bans.length ? cut : t("noBans"));
  }

  /** Shows the list in the language that the reader chose. */
  draw() {
    if (this.#bans === null) return;
    showList(byId("bans-list"), [], null, null);
    this.#show();
  }

  async #lift(user) {
    try {
      await this.#api.delete(path`/v1/lives/${this.#live}/bans/${user}`);
      this.#told(t("lifted", { id: user }));
      await this.read();
    } catch (error) {
      say(byId("bans-note"), problemText(error));
    }
  }

  stop() {
    this.#stopped = true;
    byId("moderate").close();
    showList(byId("bans-list"), [], null, null);
    say(byId("bans-note"), "");
  }
}
