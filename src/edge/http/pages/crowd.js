// Simulated viewers: each has a socket of its own, and some follow the streamer. They come over a quarter of a minute,
// and then some of them leave and come back, so that every figure moves. Only a gateway with --auth off believes them.

import { Rollcall } from "/rollcall.js";
import { Api, path } from "./api.js";

export const CROWD = 200;
const ARRIVAL = 15_000;
/** This often one of them may leave or come back. Whoever left comes back sooner than others leave. */
const TURN = 150;
const LEAVES = 0.2;
const FAN_OF_TEN = 4;
/** More of them would be refused too. */
const NO_ROOM = new Set(["full", "too_many_sockets"]);

export class Crowd {
  #live;
  #told;
  #viewers = [];
  #stopped = new AbortController();
  #here = 0;
  #refused = new Map();
  #isFull = false;

  /** `told` hears how many are in the live, and who was refused, and why. */
  constructor(live, told) {
    this.#live = live;
    this.#told = told;
  }

  async run() {
    const name = Math.random().toString(36).slice(2, 6);
    const { streamer_id } = await new Api().get(path`/v1/lives/${this.#live}`);
    for (let n = 0; n < CROWD && !this.#isFull && !this.#stopped.signal.aborted; n += 1) {
      this.#arrive(`sim-${name}-${String(n + 1).padStart(3, "0")}`, n, streamer_id);
      await this.#pause(ARRIVAL / CROWD);
    }
    while (!this.#stopped.signal.aborted) {
      await this.#pause(TURN);
      this.#turn(this.#viewers[Math.floor(Math.random() * this.#viewers.length)]);
    }
  }

  async #arrive(userId, n, streamer) {
    try {
      if (n % 10 < FAN_OF_TEN) await new Api().put(path`/v1/users/${userId}/following/${streamer}`);
    } catch (error) {
      this.#refuse(error);
    }
    if (this.#stopped.signal.aborted) return;
    // Over HTTP each viewer has a stream of its own, and a browser opens six connections to a host.
    const client = new Rollcall({ userId, way: "socket" });
    const viewer = { client, here: false, wished: true, refused: false };
    this.#viewers.push(viewer);
    client.on("state", ({ state, reason, message }) => {
      if (state !== "open") this.#count(viewer, false);
      const refused = (state === "closed" || state === "waiting") && reason !== "page_left";
      if (refused && !this.#stopped.signal.aborted && !viewer.refused) {
        viewer.refused = true;
        this.#refuse({ code: reason, message });
      }
      if (state === "open") viewer.refused = false;
      if (NO_ROOM.has(reason)) {
        this.#isFull = true;
        client.close();
      }
    });
    client.on("joined", () => this.#count(viewer, true));
    client.on("left", () => this.#count(viewer, false));
    client.on("closed", () => this.stop());
    client.join(this.#live).catch((error) => this.#stopped.signal.aborted || this.#refuse(error));
  }

  #turn(viewer) {
    if (viewer?.client.status.state !== "open" || (viewer.wished && Math.random() > LEAVES)) return;
    viewer.wished = !viewer.wished;
    const done = viewer.wished ? viewer.client.join(this.#live) : viewer.client.leave();
    done.catch((error) => this.#stopped.signal.aborted || this.#refuse(error));
  }

  #count(viewer, here) {
    this.#here += Number(here) - Number(viewer.here);
    viewer.here = here;
    this.#tell();
  }

  #refuse({ code, message }) {
    const why = message ?? code;
    this.#refused.set(why, (this.#refused.get(why) ?? 0) + 1);
    this.#tell();
  }

  #tell() {
    this.#told({ joined: this.#here, wanted: CROWD, refused: [...this.#refused], over: this.#stopped.signal.aborted });
  }

  #pause(ms) {
    return new Promise((resolve) => setTimeout(resolve, ms));
  }

  stop() {
    if (this.#stopped.signal.aborted) return;
    this.#stopped.abort();
    for (const { client } of this.#viewers) client.close();
    this.#tell();
  }
}
