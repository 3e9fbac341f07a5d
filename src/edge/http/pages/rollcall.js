/*
 * The client of Rollcall, for browsers and Node: one module without dependencies. docs/client.md shows how to use it,
 * rollcall.d.ts has the types.
 *
 * An app says what it wants (to be in a live, to watch lives), and the client keeps that true over reconnects: it waits
 * with full jitter, or as long as the gateway says.
 */

/** The longest and the first wait before another attempt. */
const MOST_BACKOFF = 30_000;
const FIRST_BACKOFF = 500;
/** A connection that lasted so long makes the next wait short again. */
const STEADY_AFTER = 60_000;
/** How many attempts a client that made a mistake counts as failed at least. */
const SLOWLY = 4;
/** Within this time clients return to a gateway that stopped without saying when. */
const SPREAD = 5_000;
/** The next attempt comes within this time once the network is back, or the user looks at the page again. */
const SOON = 1_000;
const REQUEST_TIMEOUT = 10_000;
const CONNECT_TIMEOUT = 15_000;
/** A gateway that may be gone has so long to answer one more heartbeat. */
const DOUBT = 5_000;
/** One of so many attempts goes on without an answer over HTTP: a page's policy may allow only the socket. */
const UNASKED = 3;
/** A page may be hidden so long before its user counts as away. */
const AWAY_AFTER = 1_000;
/** Messages at once, and the time in which one more may follow: well within the gateway's limit. */
const BURST = 15;
const PACE = 125;
const LONGEST_TIMER = 2 ** 31 - 1;
/** `readyState` of a socket that can send. */
const OPEN = 1;
/** A token is renewed so long before its end, less a random part. Timers of a hidden page are up to a minute late. */
const REFRESH_EARLY = 120_000;

/** Close codes after which the same user must not come back by itself. */
const FINAL = new Map([[4003, "removed"], [4009, "too_many_sockets"]]);
/** Close codes that say that the client is wrong. */
const MISTAKES = new Set([1002, 1007, 1009, 4008]);
/** Answers of a gateway to who asks for admission; any other is not about that. 414 and 431: the token is too long. */
const REFUSALS = new Set([400, 401, 403, 414, 429, 431, 503]);
/** Errors that another try may cure. */
const PASSING = new Set(["store_unavailable", "rate_limited"]);
/** Reasons to wait that may be over when the network is back. */
const NETWORK = new Set(["token", "unreachable", "closed_1006", "closed_4000"]);

const OPTIONS = {
  token: ["string", "function"],
  userId: ["string"],
  role: ["string"],
  count: ["boolean"],
  invisible: ["boolean"],
  heartbeat: ["boolean"],
  WebSocket: ["function"],
  fetch: ["function"],
};
/** A JSON Web Token, and how long one may be. */
const TOKEN = /^[\w-]+\.[\w-]+\.[\w-]+$/;
const LONGEST_TOKEN = 8_192;

export class RollcallError extends Error {
  constructor(code, message) {
    super(message ?? code);
    this.name = "RollcallError";
    this.code = code;
  }
}

/** What this platform cannot do now, as to open a WebSocket, it cannot do later. */
const cannotConnect = ({ message }) => ({ final: true, reason: "cannot_connect", message });

const random = (most) => Math.random() * most;

/** A value that an app gave; null, like undefined, says that it gave none. */
function checked(name, value, kinds = ["string"]) {
  if (value === null || value === undefined) return undefined;
  if (kinds.includes(typeof value)) return value;
  throw new RollcallError("invalid_option", `${name}: ${kinds.join(" or ")} expected, not ${typeof value}`);
}

/** The address below which the gateway has its paths. */
function baseOf(address) {
  const wrong = (why) => new RollcallError("invalid_option", `url: ${why}`);
  let url;
  try {
    url = new URL(address ?? globalThis.location?.origin);
  } catch {
    throw wrong("an address is expected, as in https://live.example.org");
  }
  if (!/^(http|ws)s?:$/.test(url.protocol)) throw wrong(`the scheme is ${url.protocol}, not https: or http:`);
  if (url.username || url.password) throw wrong("it must not have a user name or a password");
  if (url.search || url.hash) throw wrong("it must not have a query or a fragment");
  url.protocol = url.protocol.replace("ws", "http");
  // The address of the socket itself will do as well.
  url.pathname = url.pathname.replace(/\/ws$/, "").replace(/\/*$/, "/");
  return url;
}

/** The token in what an app gave, without the white space that files and shells add. */
function tokenOf(found) {
  const token = typeof found === "string" ? found.trim() : "";
  if (TOKEN.test(token) && token.length <= LONGEST_TOKEN) return token;
  let what = typeof found === "string" ? "an empty text" : `a value of the type ${typeof found}`;
  if (token) what = `a text of ${token.length} characters that begins with ${JSON.stringify(token.slice(0, 12))}`;
  throw new RollcallError("invalid_token", `token: ${what} is not a JSON Web Token`);
}

/** When a token ends, in Unix milliseconds; null if it does not say. */
export function expiryOf(token) {
  try {
    const part = token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/");
    const { exp } = JSON.parse(atob(part));
    return typeof exp === "number" ? exp * 1_000 : null;
  } catch {
    return null;
  }
}

/** Keeps the newest of what is pushed until somebody asks. */
class Latest {
  #value = null;
  #end = null;
  #wake = () => {};

  push(value) {
    // The gateway tells each version of `info` once.
    const told = this.#value && "info_version" in this.#value
      ? { info: this.#value.info, info_version: this.#value.info_version }
      : {};
    this.#value = { ...told, ...value };
    this.#wake();
  }

  finish(error = null) {
    this.#end ??= { error };
    this.#wake();
  }

  /** An iterator that may be left at any time: before it was asked, and while somebody waits for it. */
  values(leave) {
    const values = this.#each(leave);
    const end = values.return.bind(values);
    values.return = (value) => {
      leave();
      return end(value);
    };
    return values;
  }

  async *#each(leave) {
    try {
      for (;;) {
        while (!this.#value && !this.#end) await new Promise((wake) => { this.#wake = wake; });
        const value = this.#value;
        this.#value = null;
        if (value) yield value;
        else if (this.#end.error) throw this.#end.error;
        else return;
      }
    } finally {
      leave();
    }
  }
}

export class Rollcall extends EventTarget {
  #options;
  #base;
  #state = { state: "idle" };
  /** Ends the present run; null while none is wanted. */
  #run = null;
  /** Ends what the run waits for: an answer, the end of its socket, the time of the next attempt. */
  #hangUp = () => {};
  #socket = null;
  #openedAt = 0;
  #heardAt = 0;
  /** Attempts in a row without an answer over HTTP. */
  #unasked = 0;
  #failures = 0;
  #tokenWhy = "connect";
  /** When the draining gateway asked to come back. */
  #comeBackAt = null;
  #timers = new Map();
  #heartbeatMs = 5_000;
  #timeoutMs = 15_000;
  #unansweredSince = null;
  #lastId = 0;
  #requests = new Map();
  #openers = new Set();
  #outbox = [];
  #credit = BURST;
  #creditAt = 0;
  #room = null;
  #watches = new Map();
  #away = { wished: null, told: false, known: true };

  constructor(options) {
    super();
    const given = checked("options", options, ["object"]) ?? {};
    const known = Object.entries(OPTIONS).map(([name, kinds]) => [name, checked(name, given[name], kinds)]);
    this.#options = Object.fromEntries(known);
    this.#base = baseOf(given.url);
  }

  /** `state` is idle, connecting, open, waiting (with `reason` and `retry_at`) or closed (with `reason`). */
  get status() {
    return this.#state;
  }

  /** Hears messages of a type, or "state"; answers how to stop that. */
  on(type, listener) {
    const hear = (event) => listener(event.detail);
    this.addEventListener(type, hear);
    return () => this.removeEventListener(type, hear);
  }

  connect() {
    if (this.#run) return;
    this.#listen("addEventListener");
    this.#start();
  }

  /** Leaves, stops watching, and ends the connection cleanly. */
  close() {
    this.#finish("requested");
  }

  /** Joins a live, and again after each reconnect. */
  async join(live_id, wish) {
    const [friends, counts] = ["friends", "counts"].map((name) => checked(name, wish?.[name], ["boolean"]) ?? false);
    checked("live_id", live_id);
    this.#room?.reject(new RollcallError("superseded", "another live was joined"));
    const before = this.#room;
    const room = { message: { type: "join", live_id, friends, counts }, socket: null };
    // A join that fails changes nothing: until this one succeeds, the client is in the live in which it was.
    room.held = before?.socket ? before : before?.held ?? null;
    const joined = new Promise((resolve, reject) => Object.assign(room, { resolve, reject }));
    this.#room = room;
    this.connect();
    if (this.#socket) this.#enter(room);
    return joined;
  }

  async leave() {
    this.#room?.reject(new RollcallError("superseded", "the live was left"));
    this.#room = null;
    if (this.#socket) await this.request({ type: "leave" });
  }

  /**
   * The counts of a live, the newest whenever the loop asks, and `closed` at its end. Over a reconnect the loop waits.
   */
  watch(live_id, how) {
    checked("live_id", live_id);
    const signal = how?.signal;
    const latest = new Latest();
    const watch = this.#watches.get(live_id) ?? { loops: new Set(), seen: false };
    watch.loops.add(latest);
    this.#watches.set(live_id, watch);
    const leave = () => {
      latest.finish();
      signal?.removeEventListener("abort", leave);
      watch.loops.delete(latest);
      if (watch.loops.size || this.#watches.get(live_id) !== watch) return;
      this.#watches.delete(live_id);
      if (this.#socket) this.request({ type: "unwatch", live_id }).catch(() => {});
    };
    signal?.addEventListener("abort", leave);
    this.connect();
    if (signal?.aborted) leave();
    else if (this.#socket) this.#look(live_id);
    return latest.values(leave);
  }

  async openLive(live_id, how) {
    const streamer_id = checked("streamer_id", how?.streamer_id);
    const slices = checked("slices", how?.slices, ["number"]);
    return this.request({ type: "open", live_id: checked("live_id", live_id), streamer_id, slices });
  }

  async closeLive(live_id) {
    return this.request({ type: "close", live_id: checked("live_id", live_id) });
  }

  /** The user looks elsewhere, or is back. Pages need not say it: their visibility does. */
  away() {
    this.#away.wished = true;
    this.#tellAway();
  }

  back() {
    this.#away.wished = false;
    this.#tellAway();
  }

  /** Sends a message as soon as there is a connection; its answer, or its error. */
  async request(message) {
    this.connect();
    while (!this.#socket) await this.#opened();
    return new Promise((resolve, reject) => {
      const id = ++this.#lastId;
      this.#requests.set(id, { resolve, reject, timer: null, live_id: message.live_id });
      this.#post({ ...message, id });
    });
  }

  // ------------------------------------------------------------------------------------------------- the connection

  #start() {
    this.#run = new AbortController();
    this.#keepConnected(this.#run.signal);
  }

  /** Ends the connection, or the attempt. What the app wants stays. */
  #stop() {
    const socket = this.#socket;
    this.#run?.abort();
    this.#hangUp();
    if (socket) this.#ended();
    socket?.close(1000);
    this.#clearTimers();
  }

  async #keepConnected(signal) {
    while (!signal.aborted) {
      this.#become({ state: "connecting" });
      const end = await this.#connection(signal).catch(cannotConnect);
      if (signal.aborted) return;
      if (end.final) return this.#finish(end.reason, end.message);
      const { reason, message = reason, after } = end;
      await new Promise((resolve) => {
        this.#hangUp = resolve;
        this.#wait({ state: "waiting", reason, message }, after);
      });
    }
  }

  #wait(state, ms) {
    this.#after("wait", ms, this.#hangUp);
    this.#become({ ...state, retry_at: Date.now() + ms });
  }

  /** One attempt, to its end: how long to wait before the next one, or why there is none. */
  async #connection(signal) {
    let token;
    try {
      token = await this.#token(this.#tokenWhy);
    } catch (error) {
      const message = error?.message ?? String(error);
      if (error instanceof RollcallError) return { final: true, reason: error.code, message };
      return signal.aborted ? {} : this.#later("token", message);
    }
    if (signal.aborted) return {};
    const refused = await this.#admission(token, signal);
    if (refused || signal.aborted) return refused ?? {};
    const Socket = this.#options.WebSocket ?? globalThis.WebSocket;
    if (!Socket) throw new Error("this platform has no WebSocket: give one in the option WebSocket");
    const url = this.#url("ws", { token });
    url.protocol = url.protocol.replace(/^http/, "ws");
    const socket = new Socket(url.href, "rollcall.v1");
    // It stays to the end: sockets that are event emitters throw an error that nobody hears. What follows is `close`.
    socket.onerror = () => {};
    let giveUp;
    const code = await new Promise((resolve) => {
      this.#hangUp = () => resolve(1006);
      giveUp = setTimeout(this.#hangUp, CONNECT_TIMEOUT);
      socket.onopen = () => {
        clearTimeout(giveUp);
        this.#begin(socket, token);
      };
      socket.onmessage = ({ data }) => this.#hear(data);
      socket.onclose = (event) => resolve(event.code);
    });
    clearTimeout(giveUp);
    const wasOpen = this.#socket === socket;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close(1000);
    if (wasOpen) this.#ended();
    return signal.aborted ? {} : this.#judge(code);
  }

  /** Asks whether the gateway would take the upgrade; pages cannot read its refusal. */
  async #admission(token, signal) {
    const headers = token === null ? {} : { authorization: `Bearer ${token}` };
    const asking = new AbortController();
    this.#hangUp = () => asking.abort();
    const giveUp = setTimeout(this.#hangUp, CONNECT_TIMEOUT);
    let answer;
    let problem = null;
    try {
      const ask = this.#options.fetch ?? globalThis.fetch.bind(globalThis);
      answer = await ask(this.#url("ws/admission"), { headers, cache: "no-store", signal: asking.signal });
      if (REFUSALS.has(answer.status)) problem = await answer.json().catch(() => ({}));
    } catch {
      if (signal.aborted) return {};
      this.#unasked += 1;
      if (this.#unasked % UNASKED === 0) {
        // A socket that opens now shows that only the asking fails.
        this.#unasked = UNASKED;
        return null;
      }
      return this.#later("unreachable", "no answer: the gateway is away, or may not be asked from here");
    } finally {
      clearTimeout(giveUp);
    }
    this.#unasked = 0;
    if (!problem) return null;
    const { status } = answer;
    const { code = `http_${status}`, detail } = problem;
    const after = Number(answer.headers.get("retry-after") ?? NaN) * 1_000;
    if (status === 429 || status === 503) return { ...this.#later(code, detail), ...(after > 0 ? { after } : {}) };
    if (status === 401 && typeof this.#options.token === "function" && this.#tokenWhy !== "expired") {
      this.#tokenWhy = "expired";
      return this.#later(code, detail);
    }
    return { final: true, reason: code, message: detail };
  }

  #url(path, more = {}) {
    const url = new URL(path, this.#base);
    const { userId: user_id, role, count, invisible } = this.#options;
    for (const [name, value] of Object.entries({ user_id, role, count, invisible, ...more })) {
      if (value !== undefined && value !== null) url.searchParams.set(name, value);
    }
    return url;
  }

  async #token(why) {
    const { token } = this.#options;
    const found = (typeof token === "function" ? await token(why) : token) ?? null;
    return found === null ? null : tokenOf(found);
  }

  #begin(socket, token) {
    this.#socket = socket;
    this.#openedAt = this.#heardAt = Date.now();
    // Who cannot ask over HTTP, and has a socket, need not count up to the next one.
    if (this.#unasked) this.#unasked = -1;
    this.#tokenWhy = "connect";
    this.#unansweredSince = null;
    this.#credit = BURST;
    this.#creditAt = this.#openedAt;
    this.#away = { ...this.#away, told: false, known: true };
    if (token !== null) this.#planRefresh(expiryOf(token));
    if (this.#room) this.#enter(this.#room);
    for (const live_id of this.#watches.keys()) this.#look(live_id);
    this.#openers.forEach(({ resolve }) => resolve());
    this.#become({ state: "open" });
  }

  #ended() {
    this.#socket = null;
    this.#outbox = [];
    this.#clearTimers();
    const gone = { type: "error", code: "disconnected", message: "the connection ended" };
    for (const id of [...this.#requests.keys()]) this.#answer(id, gone);
    if (Date.now() - this.#openedAt >= STEADY_AFTER) this.#failures = 0;
  }

  #judge(code) {
    // It was said of this connection; of the attempts that follow, nothing is known.
    const comeBackAt = this.#comeBackAt;
    this.#comeBackAt = null;
    if (FINAL.has(code)) return { final: true, reason: FINAL.get(code) };
    if (comeBackAt !== null) return { reason: "drain", after: Math.max(0, comeBackAt - Date.now()) };
    if (code === 1001 || code === 1012) return { reason: "going_away", after: random(SPREAD) };
    if (code === 4001) {
      if (typeof this.#options.token !== "function") return { final: true, reason: "token_expired" };
      this.#tokenWhy = "expired";
    }
    if (MISTAKES.has(code)) this.#failures = Math.max(this.#failures, SLOWLY);
    return this.#later(`closed_${code}`);
  }

  /** Full jitter: a random part of a time that doubles with each failure. */
  #later(reason, message) {
    return { reason, message, after: random(Math.min(MOST_BACKOFF, FIRST_BACKOFF * 2 ** this.#failures++)) };
  }

  #finish(reason, message = reason) {
    const error = new RollcallError(reason, message);
    this.#listen("removeEventListener");
    this.#stop();
    this.#run = null;
    this.#room?.reject(error);
    this.#room = null;
    for (const { loops } of this.#watches.values()) loops.forEach((latest) => latest.finish(error));
    this.#watches.clear();
    this.#openers.forEach(({ reject }) => reject(error));
    this.#become({ state: "closed", reason, message });
  }

  #become(state) {
    this.#state = state;
    this.#tell("state", state);
  }

  #tell(type, detail) {
    this.dispatchEvent(Object.assign(new Event(type), { detail }));
  }

  #opened() {
    return new Promise((resolve, reject) => {
      const settled = (settle) => (value) => {
        clearTimeout(timer);
        this.#openers.delete(opener);
        settle(value);
      };
      const opener = { resolve: settled(resolve), reject: settled(reject) };
      const late = () => opener.reject(new RollcallError("timeout", "no connection in time"));
      const timer = setTimeout(late, REQUEST_TIMEOUT);
      this.#openers.add(opener);
    });
  }

  /** Starts a timer of this connection, in place of an earlier one of that name. */
  #after(name, ms, act) {
    clearTimeout(this.#timers.get(name));
    this.#timers.set(name, setTimeout(act, Math.min(ms, LONGEST_TIMER)));
  }

  #clearTimers() {
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
  }

  // --------------------------------------------------------------------------------------------------- the messages

  #post(message) {
    this.#outbox.push(message);
    if (this.#outbox.length === 1) this.#flush();
  }

  /** Sends what the gateway's limit on messages allows, and the rest a little later. */
  #flush() {
    const now = Date.now();
    this.#credit = Math.min(BURST, this.#credit + Math.max(0, now - this.#creditAt) / PACE);
    this.#creditAt = now;
    // What a socket that closes cannot send any more is answered when it has closed.
    const open = this.#socket?.readyState === OPEN;
    while (open && this.#outbox.length && this.#credit >= 1) {
      this.#credit -= 1;
      const message = this.#outbox.shift();
      this.#socket.send(JSON.stringify(message));
      this.#await(message.id);
    }
    if (open && this.#outbox.length) this.#after("outbox", PACE, () => this.#flush());
  }

  /** From when it was sent, a request has so long. */
  #await(id) {
    const late = () => this.#answer(id, { type: "error", code: "timeout", message: "no answer in time" });
    const request = this.#requests.get(id);
    if (request) request.timer = setTimeout(late, REQUEST_TIMEOUT);
  }

  #hear(data) {
    let message = {};
    try {
      message = JSON.parse(data);
    } catch {
      // It is no gateway that says this.
    }
    const { type, id } = message;
    this.#heardAt = Date.now();
    if (type === "error" && id === "away") {
      if (message.code === "unknown_type") this.#away.known = false;
      else this.#away.told = null;
      return;
    }
    if (type === "welcome") this.#welcomed(message);
    if (type === "heartbeat_ack") this.#acked(message);
    if (type === "reconnect") this.#comeBackAt = Date.now() + message.after_ms;
    if (type === "counts") this.#counted(message);
    if (type === "closed") this.#over(message);
    const live_id = this.#requests.get(id)?.live_id;
    this.#answer(id, message);
    this.#tell(type, type === "error" && live_id !== undefined ? { live_id, ...message } : message);
  }

  #answer(id, message) {
    const request = this.#requests.get(id);
    if (!request) return;
    this.#requests.delete(id);
    clearTimeout(request.timer);
    if (message.type === "error") request.reject(new RollcallError(message.code, message.message));
    else request.resolve(message);
  }

  #welcomed({ heartbeat_ms, timeout_ms }) {
    this.#heartbeatMs = heartbeat_ms;
    this.#timeoutMs = timeout_ms;
    // Clients that connected in the same moment do not beat in the same moment.
    if (this.#options.heartbeat !== false) this.#after("heartbeat", random(heartbeat_ms), this.#beat);
  }

  #acked({ heartbeat_ms }) {
    this.#unansweredSince = null;
    this.#heartbeatMs = heartbeat_ms;
  }

  #beat = () => {
    const now = Date.now();
    // The gateway is gone, or it takes this client for gone: a network that was cut tells neither side.
    if (this.#unansweredSince !== null && now - this.#unansweredSince > this.#timeoutMs) return this.#doubt();
    this.#unansweredSince ??= now;
    this.#post({ type: "heartbeat" });
    this.#after("heartbeat", this.#heartbeatMs, this.#beat);
  };

  /** Asks once more: a page whose timers were late, or that was frozen, may have an answer that it did not hear yet. */
  #doubt() {
    this.#unansweredSince = Date.now();
    this.#post({ type: "heartbeat" });
    this.#after("heartbeat", DOUBT, () => (this.#unansweredSince === null ? this.#beat() : this.#hangUp()));
  }

  #counted(message) {
    const watch = this.#watches.get(message.live_id);
    if (!watch) return;
    watch.seen = true;
    watch.loops.forEach((latest) => latest.push(message));
  }

  #over(message) {
    const room = this.#room;
    if (room?.held?.message.live_id === message.live_id) room.held = null;
    if (room?.message.live_id === message.live_id) {
      this.#refuse(room, new RollcallError("live_not_open", `live ${message.live_id} closed`));
    }
    const watch = this.#watches.get(message.live_id);
    this.#watches.delete(message.live_id);
    for (const latest of watch?.loops ?? []) {
      latest.push(message);
      latest.finish();
    }
  }

  /** The live closed while this client was not connected. */
  #closedMeanwhile(live_id) {
    const message = { type: "closed", live_id, reason: "unknown" };
    this.#over(message);
    this.#tell("closed", message);
  }

  #enter(room) {
    this.request(room.message).then((joined) => {
      room.socket = this.#socket;
      room.held = null;
      // Another join is under way: should it fail, this is where the client is.
      if (this.#room && this.#room !== room) this.#room.held = room;
      room.resolve(joined);
      this.#away.told = false;
      this.#tellAway();
    }, (error) => {
      if (this.#room !== room || error.code === "disconnected") return;
      if (PASSING.has(error.code) || error.code === "timeout") {
        return this.#after("join", 1_000 + random(1_000), () => this.#room === room && this.#enter(room));
      }
      if (room.socket && error.code === "live_not_open") return this.#closedMeanwhile(room.message.live_id);
      this.#refuse(room, error);
    });
  }

  /** The client is where it was before this join. If that was on another connection, it joins there again. */
  #refuse(room, error) {
    this.#room = room.held;
    room.reject(error);
    if (this.#room && this.#socket && this.#room.socket !== this.#socket) this.#enter(this.#room);
  }

  #look(live_id) {
    if (!this.#watches.has(live_id)) return;
    this.request({ type: "watch", live_id }).catch((error) => {
      const watch = this.#watches.get(live_id);
      if (!watch || error.code === "disconnected") return;
      if (PASSING.has(error.code) || error.code === "timeout") {
        return this.#after(`watch ${live_id}`, 1_000 + random(1_000), () => this.#look(live_id));
      }
      if (watch.seen && error.code === "live_not_open") return this.#closedMeanwhile(live_id);
      this.#watches.delete(live_id);
      watch.loops.forEach((latest) => latest.finish(error));
    });
  }

  /** Asks the hook for a new token before this one ends. */
  #planRefresh(expires_at) {
    if (expires_at === null || typeof this.#options.token !== "function") return;
    const left = expires_at - Date.now();
    // Either no try succeeded, or this clock is wrong. The gateway's clock decides: it closes with 4001.
    if (left <= 0) return;
    const early = Math.min(REFRESH_EARLY, left / 4) * (0.5 + random(0.5));
    const planned = Math.max(left - early, 1_000);
    if (planned > LONGEST_TIMER) return this.#after("refresh", LONGEST_TIMER, () => this.#planRefresh(expires_at));
    this.#after("refresh", planned, async () => {
      const socket = this.#socket;
      try {
        const token = await this.#token("refresh");
        if (this.#socket !== socket || token === null) return;
        const { expires_at } = await this.request({ type: "refresh", token });
        this.#planRefresh(expires_at);
      } catch {
        // Until the token has ended, there is time for another try.
        if (this.#socket === socket) this.#planRefresh(expires_at);
      }
    });
  }

  // ------------------------------------------------------------------------------------------------------- the page

  /** Node has no page, and a worker has only its network. */
  #listen(how) {
    const { document } = globalThis;
    document?.[how]("visibilitychange", this.#onVisibility);
    document?.[how]("resume", this.#onReturn);
    for (const type of ["pageshow", "online"]) globalThis[how]?.(type, this.#onReturn);
    globalThis[how]?.("pagehide", this.#onLeave);
  }

  /** Browsers keep a page that was left for a while, and its socket: the gateway would go on counting the user. */
  #onLeave = () => {
    this.#stop();
    this.#become({ state: "waiting", reason: "page_left", message: "the page was left", retry_at: Date.now() });
  };

  /** The page, the user or the network is back. */
  #onReturn = ({ type }) => {
    if (this.#run.signal.aborted) return this.#start();
    const { state, reason, retry_at } = this.#state;
    if (state === "waiting" && NETWORK.has(reason)) {
      if (type === "online") this.#failures = 0;
      const soon = random(SOON);
      if (Date.now() + soon < retry_at) this.#wait(this.#state, soon);
    }
    const silent = type === "online" || Date.now() - this.#heardAt > this.#heartbeatMs;
    if (this.#socket && silent && this.#options.heartbeat !== false) this.#doubt();
  };

  #onVisibility = (event) => {
    if (globalThis.document.hidden) return this.#after("away", AWAY_AFTER, () => this.#tellAway());
    this.#tellAway();
    this.#onReturn(event);
  };

  #tellAway() {
    const away = this.#away.wished ?? globalThis.document?.hidden ?? false;
    if (!this.#socket || !this.#room || !this.#away.known || this.#away.told === away) return;
    this.#away.told = away;
    this.#post({ type: away ? "away" : "back", id: "away" });
  }
}
