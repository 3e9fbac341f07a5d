// Moderation: the dialog that removes or bans somebody, and the list of those who are banned.

import { path } from "./api.js";
import { byId, make, say, showList } from "./dom.js";
import { dateTime, problemText, t } from "./words.js";

const READ_EVERY = 30_000;

export class Bans {
  #api;
  #live;
  #told;
  #timer;
  #bans = null;

  /** `told` hears what was done. */
  constructor({ api, live, told }) {
    this.#api = api;
    this.#live = live;
    this.#told = told;
    byId("moderate-form").onsubmit = (event) => this.#remove(event);
    byId("moderate-cancel").onclick = () => byId("moderate").close();
    byId("moderate-open").onclick = () => this.ask("");
    this.#timer = setInterval(() => document.hidden || this.read(), READ_EVERY);
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
      const { banned_until } = await this.#api.delete(path`/v1/lives/${this.#live}/viewers/${user}`, { ban_s });
      byId("moderate").close();
      const until = banned_until && dateTime(banned_until);
      this.#told(t(until ? "banned" : "removed", { id: user, time: until }));
      await this.read();
    } catch (error) {
      say(byId("moderate-note"), problemText(error));
    }
  }

  async read() {
    try {
      const { items } = await this.#api.get(`${path`/v1/lives/${this.#live}/bans`}?limit=1000`);
      if (!this.#timer) return;
      this.#bans = items;
      this.#show();
    } catch (error) {
      if (this.#timer) say(byId("bans-note"), problemText(error));
    }
  }

  #show() {
    const row = ({ user_id, banned_until }) => {
      const button = make("button", { type: "button", className: "small", textContent: t("lift") });
      button.dataset.t = "lift";
      button.setAttribute("aria-label", t("liftOf", { id: user_id }));
      button.onclick = () => this.#lift(user_id);
      const until = make("span", { className: "soft", textContent: t("until", { time: dateTime(banned_until) }) });
      return make("li", {}, make("span", { className: "id", textContent: user_id }), until, button);
    };
    const key = ({ user_id, banned_until }) => `${user_id} ${banned_until}`;
    showList(byId("bans-list"), this.#bans, key, row);
    say(byId("bans-note"), this.#bans.length ? "" : t("noBans"));
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
    clearInterval(this.#timer);
    this.#timer = null;
    byId("moderate").close();
    showList(byId("bans-list"), [], null, null);
    say(byId("bans-note"), "");
  }
}
