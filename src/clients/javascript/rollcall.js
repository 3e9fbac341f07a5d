/*
 * The client of Rollcall, for browsers and Node: one module without dependencies. docs/client.md shows how to use it,
 * rollcall.d.ts has the types.
 *
 * An app says what it wants (to be in a live, to watch lives), and the client keeps that true over reconnects: it waits
 * with full jitter, or as long as the gateway says. Where no WebSocket opens, `HttpSocket` takes its place: it carries
 * the same messages over HTTP, so nothing else here knows the way.
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
/** A WebSocket has so long to open where HTTP can take its place. */
const SOCKET_PATIENCE = 3_000;
/** Where no WebSocket opened, another is tried after the first of these times, which then doubles up to the second. */
const FIRST_SOCKET_WAIT = 60_000;
const MOST_SOCKET_WAIT = 600_000;
/** A gateway that may be gone has so long to answer one more heartbeat. */
const DOUBT = 5_000;
/** A heartbeat over HTTP has at least so long. */
const LEAST_PATIENCE = 1_000;
/** One of so many attempts goes on without an answer over HTTP: a page's policy may allow only the socket. */
const UNASKED = 3;
/** A page may be hidden so long before its user counts as away. */
const AWAY_AFTER = 1_000;
/** Messages at once, and the time in which one more may follow: well within the gateway's limit. */
const BURST = 15;
const PACE = 125;
const LONGEST_TIMER = 2 ** 31 - 1;
/** `readyState` of a socket that can send, and of one that has ended. */
const OPEN = 1;
const CLOSED = 3;
/** A token is renewed so long before its end, less a random part. Timers of a hidden page are up to a minute late. */
const REFRESH_EARLY = 120_000;

/** Close codes after which the same user must not come back by itself. */
const FINAL = new Map([[4003, "removed"], [4009, "too_many_sockets"]]);
/** Close codes that say that the client is wrong. */
const MISTAKES = new Set([1002, 1007, 1009, 4008]);
/** Close codes that come from a gateway. Others may come from a proxy, or from the browser. */
const isGateways = (code) => code >= 4000 || code === 1001 || code === 1012;
/**
 * Answers of a gateway to who asks for admission; any other is not about that. 409: the user is being erased. 414 and
 * 431: the token is too long.
 */
const REFUSALS = new Set([400, 401, 403, 409, 414, 429, 431, 503]);
/** Codes that say that a gateway has no presence over HTTP, as an older one has not. */
const ABSENT = new Set(["not_found", "method_not_allowed"]);
const NOT_OFFERED = "not_offered";
/** Codes that say that a session is over, and those with which a gateway closes a socket for the same reason. */
const OVER = new Map([["session_unknown", 4000], ["removed", 4003], ["too_many_sessions", 4009]]);
/** Errors that another try may cure. */
const PASSING = new Set(["store_unavailable", "rate_limited"]);
/** Reasons to wait that may be over when the network is back. */
const NETWORK = new Set(["token", "unreachable", "closed_1006", "closed_4000"]);

/** Where sessions without a socket are. A header has the id of the present one, so that no log of a proxy has it. */
const PRESENCE = "v1/presence";
/** Where a viewer without an account gets a token, and under which name a page keeps it. */
const GUESTS = "v1/guests";
const KEPT_GUEST = "rollcall.guest";
const CURRENT = `${PRESENCE}/current`;
/** What an ack says to somebody who is in no live. */
const NOWHERE = { live_id: null, fan: null, viewers: null, fans: null, guests: null };
/** A stream of counts that brought nothing for so long is dead. A gateway says something every few seconds. */
const WATCH_SILENCE = 20_000;

/** After these events a video may play, or no longer. */
const PLAYING = ["playing", "pause", "waiting", "ended", "emptied"];
/** A video with this `readyState` has its next frame. */
const HAS_FRAMES = 3;

const OPTIONS = {
  token: ["string", "function"],
  userId: ["string"],
  guest: ["boolean"],
  role: ["string"],
  count: ["boolean"],
  invisible: ["boolean"],
  heartbeat: ["boolean"],
  way: ["string"],
  WebSocket: ["function"],
  fetch: ["function"],
};
const WAYS = ["auto", "socket", "http"];
/** A JSON Web Token, and how long one may be. */
const TOKEN = /^[\w-]+\.[\w-]+\.[\w-]+$/;
const LONGEST_TOKEN = 8_192;

export class RollcallError extends Error {
  constructor(code, message, retry_after_ms) {
    super(message ?? code);
    this.name = "RollcallError";
    this.code = code;
    this.retry_after_ms = retry_after_ms;
  }
}

/** What this platform cannot do now, as to open a WebSocket, it cannot do later. */
const cannotConnect = ({ message }) => ({ final: true, reason: "cannot_connect", message });

const random = (most) => Math.random() * most;

/** Full jitter: a random part of a time that doubles with each failure. */
const backOff = (failures) => random(Math.min(MOST_BACKOFF, FIRST_BACKOFF * 2 ** failures));

const isPlaying = ({ paused, ended, readyState }) => !paused && !ended && readyState >= HAS_FRAMES;

/** How long to wait after an error that another try may cure. */
const soonAfter = ({ retry_after_ms = 0 }) => Math.max(retry_after_ms, 1_000) + random(1_000);

/** Ends a connection, of which nothing is heard any more. Its `onerror` stays, because an end may be an error too. */
function release(socket) {
  socket.onopen = socket.onmessage = socket.onclose = null;
  socket.close(1000);
}

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

/** An address of the gateway, with those parameters that have a value. */
function addressOf(base, path, parameters = {}) {
  const url = new URL(path, base);
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null) url.searchParams.set(name, value);
  }
  return url;
}

/** The header that shows a token, if there is one. */
const bearer = (token) => (token === null ? {} : { authorization: `Bearer ${token}` });

/** The header that shows the id of a session without a socket. */
const presence = (session_id) => ({ authorization: `Presence ${session_id}` });

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

/** The guest whom a page was at this gateway; null without one, and where nothing can be kept. */
function keptGuest(base) {
  try {
    const guest = JSON.parse(globalThis.localStorage.getItem(`${KEPT_GUEST} ${base}`));
    return guest?.expires_at > Date.now() + REFRESH_EARLY ? guest : null;
  } catch {
    return null;
  }
}

function keepGuest(base, guest) {
  try {
    globalThis.localStorage.setItem(`${KEPT_GUEST} ${base}`, JSON.stringify(guest));
  } catch {
    // The next page will be another guest.
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

// ------------------------------------------------------------------------------------------- without a WebSocket

/** How a request was refused. `code` is missing if it was no gateway that answered, but a proxy, say. */
class Refusal extends Error {
  constructor({ status, headers }, problem) {
    super(problem?.detail ?? `the answer has the status ${status}`);
    this.status = status;
    this.code = problem?.code;
    const seconds = Number(headers.get("retry-after") ?? NaN);
    this.retry_after_ms = seconds > 0 ? seconds * 1_000 : undefined;
  }

  static async of(answer) {
    return new Refusal(answer, await answer.json().catch(() => null));
  }
}

/** Where it does no harm that the gateway does not know the session any more: no answer, and no other error. */
function unlessUnknown(error) {
  if (error.code !== "session_unknown") throw error;
  return null;
}

/** The message in an event, as a WebSocket would have brought it; null if it is only a comment. */
function messageOf(event) {
  const lines = event.split(/\r?\n/);
  const field = (name) => {
    const found = lines.filter((line) => line.startsWith(`${name}:`));
    return found.map((line) => line.slice(name.length + 1).trim()).join("\n");
  };
  const data = field("data");
  return data ? { type: field("event"), ...JSON.parse(data) } : null;
}

/** Waits so long, or until the signal aborts. */
function pause(ms, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
  });
}

/**
 * Takes the place of a WebSocket, and carries the same messages over HTTP. The joined live is a session at the gateway,
 * and each heartbeat is a request that keeps it. What the gateway says by itself comes in streams of events: one for
 * the session, and one for each live that is watched.
 */
class HttpSocket {
  onmessage = null;
  onclose = null;
  readyState = OPEN;
  #gateway;
  #token;
  /** The session of the joined live: its `id`, and what the join asked for. */
  #session = null;
  #welcomed = false;
  #beatMs = 5_000;
  #timeoutMs = 15_000;
  #beatAt = 0;
  /** Whether a heartbeat waits for its answer. */
  #isBeating = false;
  /** What a back end wrote about the live since the last ack. A stream brings it, the next ack tells it. */
  #info = {};
  /** What ends each stream, by the live that is watched; the session's is under null. */
  #streams = new Map();
  /** Requests about the session follow one another: this is the end of the last one. */
  #turn = Promise.resolve();

  /** `gateway` says how it is reached: its `base`, the `fetch`, `who` asks, and whether requests are a `heartbeat`. */
  constructor(gateway, token) {
    this.#gateway = gateway;
    this.#token = token;
  }

  send(text) {
    const message = JSON.parse(text);
    const { type, id, live_id } = message;
    if (type === "watch") return this.#watch(message);
    if (type === "unwatch") {
      this.#drop(live_id);
      return this.#tell({ type: "unwatched", live_id, id });
    }
    // The answer for which another heartbeat waits will do for this one too.
    if (type === "heartbeat" && id === undefined && this.#isBeating) return;
    if (type === "heartbeat") this.#isBeating = true;
    this.#turn = this.#turn.then(() => this.#carryOut(message));
  }

  /** Leaves the live at once, also while the page is being left. */
  close() {
    if (this.readyState !== OPEN) return;
    this.#shut();
    if (this.#session) this.#quit(this.#session.id);
  }

  /** Ends like a WebSocket that the gateway closed. */
  #end(code, refusal) {
    if (this.readyState !== OPEN) return;
    this.#shut();
    this.onclose?.({ code, refusal });
  }

  #shut() {
    this.readyState = CLOSED;
    for (const name of [...this.#streams.keys()]) this.#drop(name);
  }

  #drop(name) {
    this.#streams.get(name)?.abort();
    this.#streams.delete(name);
  }

  #tell(message) {
    if (this.readyState === OPEN) this.onmessage?.({ data: JSON.stringify(message) });
  }

  async #carryOut(message) {
    if (this.readyState !== OPEN) return;
    const { type, id } = message;
    try {
      if (type === "join") await this.#join(message);
      else if (type === "heartbeat") await this.#beat(message);
      else if (type === "leave") await this.#leave(id);
      else if (type === "refresh") await this.#refresh(message);
      else this.#tell({ type: "error", code: "unknown_type", message: `${type} needs a WebSocket`, id });
    } catch (error) {
      this.#failed(error, id);
    }
  }

  /** Most refusals are answers. The others say that this token, this gateway or this way will not do. */
  #failed(error, id) {
    if (!(error instanceof Refusal)) return this.#end(1006);
    const { status, code, message, retry_after_ms } = error;
    if (status === 401) return this.#end(4001);
    if (OVER.has(code)) return this.#end(OVER.get(code));
    const isBusy = status >= 500 ? code !== "store_unavailable" : status === 429 && !code;
    if (isBusy) return this.#end(1006, error);
    if (!code || ABSENT.has(code)) return this.#end(1006, Object.assign(error, { code: NOT_OFFERED }));
    return this.#tell({ type: "error", code, message, retry_after_ms, id });
  }

  // --------------------------------------------------------------------------------------------------- the session

  async #join({ id, ...wish }) {
    const { session_id, beat_ms, timeout_ms, udp, ...joined } = await this.#enter(wish);
    this.#beatMs = beat_ms;
    this.#timeoutMs = timeout_ms;
    if (!this.#welcomed) this.#tell({ type: "welcome", heartbeat_ms: beat_ms, timeout_ms });
    this.#welcomed = true;
    this.#tell({ ...joined, type: "joined", id });
    this.#hearSession();
  }

  /** Begins a session, or goes to another live with the present one, whose id then changes. */
  async #enter(wish) {
    const { live_id, friends } = wish;
    let answer = null;
    if (this.#session) answer = await this.#askSession("POST", { live_id, friends }).catch(unlessUnknown);
    answer ??= await this.#askAs("POST", PRESENCE, { live_id, friends });
    return this.#began(answer, wish);
  }

  #began(answer, wish) {
    this.#session = { ...wish, id: answer.session_id };
    this.#info = {};
    this.#beatAt = Date.now();
    // The client ended the connection meanwhile.
    if (this.readyState !== OPEN) this.#quit(answer.session_id);
    return answer;
  }

  async #beat({ id, watching }) {
    this.#beatAt = Date.now();
    try {
      // It is over before the next one is due.
      const patience = Math.min(DOUBT, Math.max(LEAST_PATIENCE, 0.8 * this.#beatMs));
      const answer = this.#session ? await this.#askSession("POST", watching === undefined ? undefined : { watching }, patience) : NOWHERE;
      // An id is good for a while, and a beat brings the next one.
      const { session_id, udp, ...ack } = answer;
      if (session_id && this.#session) this.#session.id = session_id;
      const isNewer = ack.info_version >= (this.#info.info_version ?? 0);
      const info = isNewer ? {} : this.#info;
      this.#info = {};
      this.#tell({ heartbeat_ms: this.#beatMs, ...ack, ...info, type: "heartbeat_ack", id });
    } catch (error) {
      // Any other failure is a heartbeat without an answer.
      if (OVER.has(error.code)) this.#end(OVER.get(error.code));
    } finally {
      this.#isBeating = false;
    }
  }

  async #leave(id) {
    if (!this.#session) return this.#tell({ type: "error", code: "not_joined", message: "in no live", id });
    const { live_id } = this.#session;
    const left = this.#askSession("DELETE");
    // Even if that fails, no heartbeat keeps the session any more.
    this.#drop(null);
    this.#session = null;
    await left.catch(unlessUnknown);
    return this.#tell({ type: "left", live_id, id });
  }

  /** A session lasts as long as its token. So another one begins before this one ends, and the user stays. */
  async #refresh({ token, id }) {
    this.#token = token;
    const before = this.#session;
    if (before) {
      const { live_id, friends } = before;
      this.#began(await this.#askAs("POST", PRESENCE, { live_id, friends }), before);
      this.#quit(before.id);
      this.#hearSession();
    }
    this.#tell({ type: "refreshed", expires_at: expiryOf(token), id });
  }

  /** Leaves without waiting. A page that is being left can send nothing but a beacon, which has no headers. */
  #quit(session_id) {
    if (globalThis.navigator?.sendBeacon?.(`${this.#url(`${PRESENCE}/${session_id}`)}?leave`)) return;
    const request = { method: "DELETE", headers: presence(session_id), keepalive: true };
    this.#gateway.fetch(this.#url(CURRENT), request).catch(() => {});
  }

  // --------------------------------------------------------------------------------------------------- the streams

  #hearSession() {
    const { live_id, counts } = this.#session;
    const url = this.#url(`${CURRENT}/events`);
    // A stream that a proxy holds open would hide that the network is lost. Requests notice.
    if (this.#gateway.heartbeat) url.searchParams.set("beat", "false");
    const hear = (message) => {
      this.#beatIfLate();
      if (message?.type === "info") this.#info = { info: message.info, info_version: message.info_version };
      else if (message && (counts || message.type !== "counts")) this.#tell(message);
      if (message?.type === "closed") this.#over(live_id);
    };
    // Whether the gateway is there, the heartbeats find out. Some proxies let no stream through.
    const failed = (error) => OVER.has(error?.code) && this.#end(OVER.get(error.code));
    const headers = () => presence(this.#session?.id);
    this.#keepOpen(null, { url, headers, silence: this.#timeoutMs, hear, failed });
  }

  #watch({ live_id, id }) {
    const url = this.#url(`v1/lives/${encodeURIComponent(live_id)}/events`);
    let isAnswered = false;
    const hear = (message) => {
      if (message) this.#tell(isAnswered ? message : { ...message, id });
      isAnswered ||= message !== null;
      if (message?.type === "closed") this.#over(live_id);
    };
    const failed = (error, failures) => {
      if (!(error instanceof Refusal)) return failures && this.#end(1006);
      if (isAnswered && error.code === "live_not_open") return hear({ type: "closed", live_id, reason: "unknown" });
      if (isAnswered && error.status !== 401) return this.#end(1006, error);
      this.#drop(live_id);
      return this.#failed(error, id);
    };
    this.#keepOpen(live_id, { url, headers: () => bearer(this.#token), silence: WATCH_SILENCE, hear, failed });
  }

  /** A live closed. Both its stream and that of the session say so, of which one will do. */
  #over(live_id) {
    this.#drop(live_id);
    if (this.#session?.live_id !== live_id) return;
    this.#drop(null);
    this.#session = null;
  }

  /** Timers of a hidden page are late. What arrives is not, so it is a clock too. */
  #beatIfLate() {
    const isLate = Date.now() - this.#beatAt > 1.25 * this.#beatMs;
    if (isLate && this.#gateway.heartbeat) this.send(JSON.stringify({ type: "heartbeat" }));
  }

  /**
   * Opens a stream of events, and opens it again when it ends, until it is dropped. Each time it is asked for with the
   * `headers` of then: the token may have been renewed. `hear` gets each message, and null for a sign of life without
   * one; `failed` gets the error, and how often in a row the stream brought nothing before.
   */
  async #keepOpen(name, { url, headers, silence, hear, failed }) {
    if (this.readyState !== OPEN) return;
    this.#drop(name);
    const dropped = new AbortController();
    this.#streams.set(name, dropped);
    const { signal } = dropped;
    let failures = 0;
    while (!signal.aborted) {
      let after = null;
      let broken = null;
      try {
        for await (const message of this.#events(url, { headers: headers(), silence, signal })) {
          failures = 0;
          // The gateway is about to stop, and another one goes on.
          if (message?.type === "reconnect") after = message.after_ms;
          else hear(message);
        }
      } catch (error) {
        broken = error;
      }
      if (signal.aborted) return;
      if (after === null) failed(broken, failures);
      await pause(after ?? backOff(failures), signal);
      failures += 1;
    }
  }

  /** The messages of one stream to its end, and null whenever something arrived. A stream that says nothing is dead. */
  async *#events(url, { headers, silence, signal }) {
    const stop = new AbortController();
    const quit = () => stop.abort();
    signal.addEventListener("abort", quit);
    let timer = setTimeout(quit, silence);
    try {
      const answer = await this.#gateway.fetch(url, { headers, cache: "no-store", signal: stop.signal });
      if (!answer.ok) throw await Refusal.of(answer);
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done || signal.aborted) return;
        clearTimeout(timer);
        timer = setTimeout(quit, silence);
        const events = (text + value).split(/\r?\n\r?\n/);
        text = events.pop();
        yield null;
        for (const event of events) {
          const message = messageOf(event);
          if (message) yield message;
        }
      }
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", quit);
      quit();
    }
  }

  // -------------------------------------------------------------------------------------------------- the requests

  /** Asks as the user, with what shows who that is. */
  #askAs(method, path, body) {
    return this.#request(this.#url(path, this.#gateway.who), { method, body, headers: bearer(this.#token) });
  }

  /** Asks about the session. Its id shows who asks. */
  #askSession(method, body, patience) {
    const headers = presence(this.#session.id);
    return this.#request(this.#url(CURRENT), { method, body, headers }, patience);
  }

  async #request(url, { method, body, headers }, patience = REQUEST_TIMEOUT) {
    const asking = new AbortController();
    const giveUp = setTimeout(() => asking.abort(), patience);
    const request = { method, headers, cache: "no-store", signal: asking.signal };
    if (body) {
      request.headers = { ...headers, "content-type": "application/json" };
      request.body = JSON.stringify(body);
    }
    try {
      const answer = await this.#gateway.fetch(url, request);
      if (!answer.ok) throw await Refusal.of(answer);
      return answer.status === 204 ? null : await answer.json();
    } finally {
      clearTimeout(giveUp);
    }
  }

  #url(path, parameters) {
    return addressOf(this.#gateway.base, path, parameters);
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
  /** How the present connection, if there is one, goes: "socket" or "http". */
  #way = null;
  /** A WebSocket that is tried beside a connection over HTTP, and a connection that is left for it. */
  #probe = null;
  #former = null;
  /** No WebSocket opened: when the next one is tried, and how long to wait after that. */
  #socketAt = 0;
  #socketWait = FIRST_SOCKET_WAIT;
  /** Whether the gateway has presence over HTTP, as far as is known. */
  #hasHttp = true;
  #openedAt = 0;
  #heardAt = 0;
  /** Attempts in a row without an answer over HTTP. */
  #unasked = 0;
  #failures = 0;
  #tokenWhy = "connect";
  /** Whether the last token was a guest's, and whose. */
  #isGuest = false;
  #guestId = undefined;
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
  /** What says that the user watches, and what the gateway was told. */
  #screen = null;
  #saysWatching = false;

  constructor(options) {
    super();
    const given = checked("options", options, ["object"]) ?? {};
    const known = Object.entries(OPTIONS).map(([name, kinds]) => [name, checked(name, given[name], kinds)]);
    this.#options = Object.fromEntries(known);
    this.#options.way ??= "auto";
    if (!WAYS.includes(this.#options.way)) {
      throw new RollcallError("invalid_option", `way: auto, socket or http expected, not ${this.#options.way}`);
    }
    this.#base = baseOf(given.url);
  }

  /** `state` is idle, connecting, open, waiting (with `reason` and `retry_at`) or closed (with `reason`). */
  get status() {
    return this.#state;
  }

  /** How the client is connected: "socket" for a WebSocket, "http" without one, null while it is not. */
  get way() {
    return this.#socket && this.#way;
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
    this.#leaveFormer();
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

  /** Somebody signed in: a guest becomes that user on the same socket, without leaving the live. */
  async signIn(given) {
    const token = checked("token", given);
    if (token !== undefined) this.#options.token = token;
    if (!this.#socket) return;
    const found = await this.#token("refresh");
    if (found === null || this.#isGuest) throw new RollcallError("invalid_token", "token: nobody has signed in");
    const { expires_at } = await this.request({ type: "refresh", token: found });
    this.#planRefresh(expires_at);
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

  /** What says that the user watches, while the page is visible: a video that plays, or true or false. */
  watching(what) {
    const screen = checked("watching", what, ["object", "boolean"]) ?? null;
    for (const type of PLAYING) this.#screen?.removeEventListener?.(type, this.#onPlaying);
    this.#screen = screen;
    for (const type of PLAYING) this.#screen?.addEventListener?.(type, this.#onPlaying);
    this.#onPlaying();
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
    if (socket) {
      this.#ended();
      release(socket);
    }
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
    let end;
    const ways = this.#ways();
    for (const way of ways) {
      end = await this.#through(way, token, ways.length > 1 ? SOCKET_PATIENCE : CONNECT_TIMEOUT);
      if (signal.aborted) return {};
      if (end.wasOpen || isGateways(end.code)) break;
      this.#tryLater();
    }
    return this.#judge(end);
  }

  /** The ways to try now, one after the other. */
  #ways() {
    if (this.#onlyWay) return [this.#onlyWay];
    // Without an answer for admission, nothing more can be expected over HTTP.
    if (this.#unasked || !this.#hasHttp) return ["socket"];
    return Date.now() >= this.#socketAt ? ["socket", "http"] : ["http"];
  }

  /** The way if there is no choice, because the app or the platform leaves none; otherwise null. */
  get #onlyWay() {
    const { way } = this.#options;
    if (way !== "auto") return way;
    return this.#WebSocket ? null : "http";
  }

  /** The platform's WebSocket, if it has one. */
  get #WebSocket() {
    return this.#options.WebSocket ?? globalThis.WebSocket;
  }

  /** Connects in this way, and answers how that ended. */
  async #through(way, token, patience) {
    const socket = way === "http" ? this.#httpSocket(token) : this.#webSocket(token);
    let giveUp;
    const end = await new Promise((resolve) => {
      this.#hangUp = () => resolve({ code: 1006 });
      socket.onclose = ({ code, refusal }) => resolve({ code, refusal });
      // Over HTTP the gateway has just answered for admission.
      if (way === "http") return this.#begin(way, socket, token);
      giveUp = setTimeout(this.#hangUp, patience);
      // Some proxies take an upgrade and pass nothing on: a socket is open when the gateway has spoken.
      socket.onmessage = ({ data }) => {
        clearTimeout(giveUp);
        this.#begin(way, socket, token);
        this.#hear(data);
      };
    });
    clearTimeout(giveUp);
    // A WebSocket may have taken the place of the connection.
    const used = this.#socket;
    release(used ?? socket);
    if (used) this.#ended();
    return { ...end, wasOpen: used !== null };
  }

  #webSocket(token) {
    if (!this.#WebSocket) throw new Error("this platform has no WebSocket: give one in the option WebSocket");
    const url = this.#url("ws", { token });
    url.protocol = url.protocol.replace(/^http/, "ws");
    const socket = new this.#WebSocket(url.href, "rollcall.v1");
    // It stays to the end: sockets that are event emitters throw an error that nobody hears. What follows is `close`.
    socket.onerror = () => {};
    return socket;
  }

  #httpSocket(token) {
    const heartbeat = this.#options.heartbeat !== false;
    return new HttpSocket({ base: this.#base, fetch: this.#fetch, who: this.#who(), heartbeat }, token);
  }

  /** No WebSocket opened: another one is tried later. */
  #tryLater() {
    this.#socketAt = Date.now() + this.#socketWait * (0.75 + random(0.5));
    this.#socketWait = Math.min(MOST_SOCKET_WAIT, 2 * this.#socketWait);
  }

  /** Plans the next WebSocket to be tried beside the connection over HTTP. */
  #planProbe() {
    if (this.#onlyWay) return;
    this.#after("probe", this.#socketAt - Date.now(), () => this.#tryWebSocket());
  }

  async #tryWebSocket() {
    const present = this.#socket;
    const failed = () => {
      this.#endProbe();
      this.#tryLater();
      this.#planProbe();
    };
    let token;
    let probe;
    try {
      token = await this.#token("connect");
      if (this.#socket !== present) return;
      probe = this.#webSocket(token);
    } catch {
      if (this.#socket === present) failed();
      return;
    }
    this.#probe = probe;
    probe.onclose = failed;
    this.#after("probe", SOCKET_PATIENCE, failed);
    probe.onmessage = ({ data }) => {
      this.#move(probe, token);
      this.#hear(data);
    };
  }

  #endProbe() {
    if (this.#probe) release(this.#probe);
    this.#probe = null;
  }

  /** Goes on through a WebSocket. The connection over HTTP is left after the join, so that the user stays. */
  #move(socket, token) {
    const former = this.#socket;
    this.#probe = null;
    this.#former = former;
    socket.onclose = former.onclose;
    former.onmessage = former.onclose = null;
    this.#abandon();
    this.#begin("socket", socket, token);
    if (!this.#room) this.#leaveFormer();
  }

  #leaveFormer() {
    if (this.#former) release(this.#former);
    this.#former = null;
  }

  /** Asks whether the gateway would take the upgrade; pages cannot read its refusal. */
  async #admission(token, signal) {
    const asking = new AbortController();
    this.#hangUp = () => asking.abort();
    const giveUp = setTimeout(this.#hangUp, CONNECT_TIMEOUT);
    let answer;
    let refusal = null;
    try {
      const request = { headers: bearer(token), cache: "no-store", signal: asking.signal };
      answer = await this.#fetch(this.#url("ws/admission"), request);
      if (REFUSALS.has(answer.status)) refusal = await Refusal.of(answer);
    } catch {
      if (signal.aborted) return {};
      this.#unasked += 1;
      if (this.#unasked % UNASKED === 0 && this.#onlyWay !== "http") {
        // A socket that opens now shows that only the asking fails.
        this.#unasked = UNASKED;
        return null;
      }
      return this.#later("unreachable", "no answer: the gateway is away, or may not be asked from here");
    } finally {
      clearTimeout(giveUp);
    }
    this.#unasked = 0;
    if (!refusal) return null;
    const { status, code = `http_${status}`, message } = refusal;
    if (status === 429 || status === 503) return this.#laterFor(refusal);
    if (status === 401 && this.#canAskAgain && this.#tokenWhy !== "expired") {
      this.#tokenWhy = "expired";
      return this.#later(code, message);
    }
    return { final: true, reason: code, message };
  }

  #fetch = (url, request) => (this.#options.fetch ?? globalThis.fetch)(url, request);

  /** What says who asks, with --auth off. */
  #who() {
    const { userId, role, count, invisible } = this.#options;
    return { user_id: this.#isGuest ? this.#guestId : userId, role, count, invisible };
  }

  #url(path, more) {
    return addressOf(this.#base, path, { ...this.#who(), ...more });
  }

  /** Whether there may be another token. */
  get #canAskAgain() {
    return typeof this.#options.token === "function" || this.#isGuest;
  }

  async #token(why) {
    const { token } = this.#options;
    const found = (typeof token === "function" ? await token(why) : token) ?? null;
    if (found === null && this.#options.guest && this.#options.userId === undefined) return this.#guestToken(why);
    this.#isGuest = false;
    return found === null ? null : tokenOf(found);
  }

  /** The token of the guest who was here before, or else of a new one. With --auth off its id says who connects. */
  async #guestToken(why) {
    let guest = why === "connect" ? keptGuest(this.#base) : null;
    if (!guest) {
      const answer = await this.#fetch(addressOf(this.#base, GUESTS), { method: "POST", cache: "no-store" });
      if (!answer.ok) {
        const refusal = await Refusal.of(answer);
        // The gateway makes no guests, or is too old for them.
        if (refusal.status === 409 || refusal.status === 404) throw new RollcallError(refusal.code, refusal.message);
        throw refusal;
      }
      guest = await answer.json();
      keepGuest(this.#base, guest);
    }
    this.#isGuest = true;
    this.#guestId = guest.user_id;
    return tokenOf(guest.token);
  }

  #begin(way, socket, token) {
    this.#socket = socket;
    this.#way = way;
    socket.onmessage = ({ data }) => this.#hear(data);
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
    if (way === "http") {
      this.#planProbe();
    } else {
      this.#socketAt = 0;
      this.#socketWait = FIRST_SOCKET_WAIT;
    }
    this.#become({ state: "open", way });
  }

  #ended() {
    this.#socket = null;
    this.#abandon();
    this.#endProbe();
    this.#leaveFormer();
    if (Date.now() - this.#openedAt >= STEADY_AFTER) this.#failures = 0;
  }

  /** Gives up what was asked on this connection. */
  #abandon() {
    this.#outbox = [];
    this.#clearTimers();
    const gone = { type: "error", code: "disconnected", message: "the connection ended" };
    for (const id of [...this.#requests.keys()]) this.#answer(id, gone);
  }

  #judge({ code, refusal }) {
    // It was said of this connection; of the attempts that follow, nothing is known.
    const comeBackAt = this.#comeBackAt;
    this.#comeBackAt = null;
    if (FINAL.has(code)) return { final: true, reason: FINAL.get(code) };
    if (comeBackAt !== null) return { reason: "drain", after: Math.max(0, comeBackAt - Date.now()) };
    if (code === 1001 || code === 1012) return { reason: "going_away", after: random(SPREAD) };
    if (code === 4001) {
      if (!this.#canAskAgain) return { final: true, reason: "token_expired" };
      this.#tokenWhy = "expired";
    }
    if (refusal) return this.#laterFor(refusal);
    if (MISTAKES.has(code)) this.#failures = Math.max(this.#failures, SLOWLY);
    return this.#later(`closed_${code}`);
  }

  #laterFor({ status, code = `http_${status}`, message, retry_after_ms }) {
    if (code === NOT_OFFERED) this.#hasHttp = false;
    const later = this.#later(code, message);
    return { ...later, after: retry_after_ms ?? later.after };
  }

  #later(reason, message) {
    return { reason, message, after: backOff(this.#failures++) };
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
    if (type === "unwatched" && id === undefined) this.#dismissed(message.live_id);
    const live_id = this.#requests.get(id)?.live_id;
    this.#answer(id, message);
    this.#tell(type, type === "error" && live_id !== undefined ? { live_id, ...message } : message);
  }

  #answer(id, message) {
    const request = this.#requests.get(id);
    if (!request) return;
    this.#requests.delete(id);
    clearTimeout(request.timer);
    const { type, code, retry_after_ms } = message;
    if (type === "error") request.reject(new RollcallError(code, message.message, retry_after_ms));
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
    this.#postHeartbeat();
    this.#after("heartbeat", this.#heartbeatMs, this.#beat);
  };

  /** Asks once more: a page whose timers were late, or that was frozen, may have an answer that it did not hear yet. */
  #doubt() {
    this.#unansweredSince = Date.now();
    this.#postHeartbeat();
    this.#after("heartbeat", DOUBT, () => (this.#unansweredSince === null ? this.#beat() : this.#hangUp()));
  }

  #postHeartbeat() {
    const watching = this.#room !== null && this.#isWatching();
    const says = watching || this.#saysWatching ? { watching } : {};
    this.#saysWatching = watching;
    this.#post({ type: "heartbeat", ...says });
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

  /** The user hosts the live no more, and may not watch it. */
  #dismissed(live_id) {
    const watch = this.#watches.get(live_id);
    this.#watches.delete(live_id);
    const error = new RollcallError("forbidden", `live ${live_id} may not be watched any more`);
    watch?.loops.forEach((latest) => latest.finish(error));
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
      this.#leaveFormer();
      // Another join is under way: should it fail, this is where the client is.
      if (this.#room && this.#room !== room) this.#room.held = room;
      room.resolve(joined);
      this.#away.told = false;
      this.#saysWatching = false;
      this.#tellAway();
    }, (error) => {
      if (this.#room !== room || error.code === "disconnected") return;
      if (PASSING.has(error.code) || error.code === "timeout") {
        return this.#after("join", soonAfter(error), () => this.#room === room && this.#enter(room));
      }
      if (room.socket && error.code === "live_not_open") return this.#closedMeanwhile(room.message.live_id);
      this.#refuse(room, error);
    });
  }

  /** The client is where it was before this join. If that was on another connection, it joins there again. */
  #refuse(room, error) {
    this.#leaveFormer();
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
        return this.#after(`watch ${live_id}`, soonAfter(error), () => this.#look(live_id));
      }
      if (watch.seen && error.code === "live_not_open") return this.#closedMeanwhile(live_id);
      this.#watches.delete(live_id);
      watch.loops.forEach((latest) => latest.finish(error));
    });
  }

  /** Asks the hook for a new token before this one ends. */
  #planRefresh(expires_at) {
    // The token of a guest lasts longer than pages do.
    if (expires_at === null || this.#isGuest || typeof this.#options.token !== "function") return;
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
    if (type === "online") this.#forgetBlock();
    const { state, reason, retry_at } = this.#state;
    if (state === "waiting" && NETWORK.has(reason)) {
      if (type === "online") this.#failures = 0;
      const soon = random(SOON);
      if (Date.now() + soon < retry_at) this.#wait(this.#state, soon);
    }
    const silent = type === "online" || Date.now() - this.#heardAt > this.#heartbeatMs;
    if (this.#socket && silent && this.#options.heartbeat !== false) this.#doubt();
  };

  /** Another network may let a WebSocket through. */
  #forgetBlock() {
    this.#hasHttp = true;
    this.#socketWait = FIRST_SOCKET_WAIT;
    this.#socketAt = Date.now() + random(SOON);
    if (this.way === "http" && !this.#probe) this.#planProbe();
  }

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

  #isWatching() {
    const { document } = globalThis;
    const screen = this.#screen ?? Boolean(document);
    const plays = typeof screen === "object" ? isPlaying(screen) : screen;
    return plays && !document?.hidden && this.#away.wished !== true;
  }

  /** The next heartbeat says it anyway. */
  #onPlaying = () => {
    const may = this.#socket && this.#room && this.#options.heartbeat !== false;
    if (may && this.#isWatching() !== this.#saysWatching) this.#postHeartbeat();
  };
}
