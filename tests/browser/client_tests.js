// Tests of rollcall.js, each in a page of its own. Time, chance, the socket and the admission are the test's.
var clientTests = {};

(() => {
  // ------------------------------------------------------------------------------------------------ time and chance
  const { port1, port2 } = new MessageChannel();
  /** Lets everything happen that waits for nothing but its turn. */
  const settle = async () => {
    for (let n = 0; n < 8; n += 1) {
      await new Promise((resolve) => {
        port1.onmessage = resolve;
        port2.postMessage(null);
      });
    }
  };

  function takeOverTime() {
    let now = 1_700_000_000_000;
    let last = 0;
    const timers = new Map();
    globalThis.setTimeout = (act, ms = 0) => {
      timers.set(++last, { at: now + ms, act });
      return last;
    };
    globalThis.clearTimeout = (id) => timers.delete(id);
    Date.now = () => now;
    let chance = 0.5;
    Math.random = () => chance;
    return {
      get now() { return now; },
      /** How many timers wait. */
      get waiting() { return timers.size; },
      chance(value) { chance = value; },
      /** The page is frozen for so long: no timer runs. */
      freeze(ms) { now += ms; },
      /** Lets so much time go by, timer by timer. */
      async pass(ms) {
        const until = now + ms;
        await settle();
        for (;;) {
          const due = [...timers].filter(([, { at }]) => at <= until).sort(([, a], [, b]) => a.at - b.at)[0];
          if (!due) break;
          now = Math.max(now, due[1].at);
          timers.delete(due[0]);
          due[1].act();
          await settle();
        }
        now = until;
        await settle();
      },
    };
  }

  // ------------------------------------------------------------------------------------------------ the fake gateway
  /** A refusal of a gateway, or of somebody else if it has no code. */
  function refusal({ status, code, after }) {
    const problem = JSON.stringify({ code, detail: code });
    const answer = new Response(code ? problem : "<h1>It is not here</h1>", { status });
    if (after !== undefined) answer.headers.set("retry-after", after);
    return answer;
  }

  class Gateway {
    sockets = [];
    asked = [];
    admissions = [];
    answers = true;

    /** What was asked without a socket, as "POST /v1/presence", with the bodies; and the open streams of events. */
    calls = [];
    bodies = [];
    streams = [];
    /** What happens to the next such calls: a problem, "down", "silent", or a promise for which the answer waits. */
    problems = {};
    sessions = 0;
    /** What the next beats are answered besides. */
    renewals = [];

    fetch = async (url, { headers, method, body, signal }) => {
      const { pathname } = new URL(url);
      if (pathname.startsWith("/v1/")) return this.#answer(new URL(url), { headers, method, body, signal });
      this.asked.push({ url: new URL(url), headers });
      const next = this.admissions.shift();
      if (next === "down") throw new TypeError("failed to fetch");
      if (!next) return new Response(null, { status: 204 });
      return refusal(next);
    };

    async #answer(url, { headers = {}, method = "GET", body, signal }) {
      // A header has the id of the session.
      const [, id] = headers.authorization?.match(/^Presence (.+)$/) ?? [];
      url.pathname = url.pathname.replace("/current", `/${id}`);
      const call = `${method} ${url.pathname}`;
      this.calls.push(call);
      this.bodies.push(body && JSON.parse(body));
      this.credentials = { headers, search: url.search };
      const problem = this.problems[call]?.shift();
      if (problem === "down") throw new TypeError("failed to fetch");
      if (problem === "silent") return new Promise((_, reject) => signal.addEventListener("abort", reject));
      if (problem instanceof Promise) await problem;
      else if (problem) return refusal(problem);
      if (url.pathname.endsWith("/events")) return this.#stream(url, signal);
      if (method === "DELETE") return new Response(null, { status: 204 });
      const { live_id } = body ? JSON.parse(body) : {};
      const ack = { type: "heartbeat_ack", live_id: "42", viewers: 1, heartbeat_ms: 5_000 };
      if (!live_id) return Response.json({ ...ack, ...this.renewals.shift() });
      this.sessions += 1;
      const joined = { live_id, streamer_id: "s1", viewers: 1, fans: 0, udp: null };
      const session = { session_id: `id${this.sessions}`, beat_ms: 5_000, timeout_ms: 15_000, ...joined };
      return Response.json(session, { status: 201 });
    }

    #stream(url, signal) {
      const stream = { url, signal };
      const text = (message) => (message ? `event: ${message.type}\ndata: ${JSON.stringify(message)}\n\n` : ":\n\n");
      const body = new ReadableStream({
        start(controller) {
          stream.tells = (message) => controller.enqueue(new TextEncoder().encode(text(message)));
          stream.ends = () => controller.close();
          signal.addEventListener("abort", () => controller.error(signal.reason));
        },
      });
      this.streams.push(stream);
      return new Response(body, { headers: { "content-type": "text/event-stream" } });
    }

    get stream() { return this.streams.at(-1); }

    /** How often something was called since the last question. */
    called(call) {
      const found = this.calls.filter((made) => made === call).length;
      this.calls = [];
      return found;
    }

    get socket() { return this.sockets.at(-1); }

    get WebSocket() {
      const gateway = this;
      return class {
        said = [];
        readyState = 0;
        constructor(url, protocol) {
          Object.assign(this, { url: new URL(url), protocol });
          gateway.sockets.push(this);
        }
        opens() {
          this.readyState = 1;
          this.onopen?.();
          this.tells({ type: "welcome", user_id: "u1", gateway_id: "g", heartbeat_ms: 5_000, timeout_ms: 15_000 });
        }
        tells(message) { this.onmessage?.({ data: JSON.stringify(message) }); }
        ends(code) {
          this.readyState = 3;
          this.onclose?.({ code });
        }
        send(text) {
          if (this.readyState !== 1) throw new Error("the socket is not open");
          const message = JSON.parse(text);
          this.said.push(message);
          const { type, id, live_id } = message;
          if (!gateway.answers) return;
          if (type === "join") this.tells({ type: "joined", live_id, streamer_id: "s1", viewers: 1, fans: 0, id });
          if (type === "leave") this.tells({ type: "left", live_id: "42", id });
          if (type === "watch") this.tells({ ...counts(live_id, 1), id });
          if (type === "heartbeat") this.tells({ type: "heartbeat_ack", live_id: "42", viewers: 1, heartbeat_ms: 5_000 });
        }
        close() { this.closed = true; }
        types() { return this.said.map(({ type }) => type); }
      };
    }
  }

  const counts = (live_id, viewers, more = {}) =>
    ({ type: "counts", live_id, epoch: 1, seq: viewers, viewers, fans: 0, quality: "exact", ...more });

  async function start(options = {}) {
    const time = takeOverTime();
    const gateway = new Gateway();
    const module = await import("/rollcall.js");
    const { fetch, WebSocket } = gateway;
    const client = new module.Rollcall({ userId: "u1", fetch, WebSocket, ...options });
    const states = [];
    client.on("state", (status) => states.push(status));
    gateway.beacons = [];
    navigator.sendBeacon = (url) => gateway.beacons.push(new URL(url).pathname + new URL(url).search) > 0;
    const opened = async () => {
      await time.pass(0);
      gateway.socket.opens();
      await time.pass(0);
    };
    return { time, gateway, client, states, opened, module };
  }

  function is(seen, wanted, what = "") {
    const [a, b] = [JSON.stringify(seen), JSON.stringify(wanted)];
    if (a !== b) throw new Error(`${what} ${a} instead of ${b}`);
  }

  async function fails(promise, code) {
    const error = await promise.then(() => null, (error) => error);
    is(error?.code, code, "the code of the error:");
  }

  /** What `new Rollcall` throws, as its code and its words. */
  async function refusedOptions(options) {
    const { Rollcall } = await import("/rollcall.js");
    try {
      new Rollcall(options);
      return "taken";
    } catch ({ code, message }) {
      return `${code}: ${message}`;
    }
  }

  const setHidden = (hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
  };

  /** Loses the connection and waits for the next socket; how long that took. */
  async function next({ time, gateway }, lose) {
    const before = gateway.sockets.length;
    const lost = time.now;
    lose(gateway.socket);
    for (let n = 0; n < 400 && gateway.sockets.length === before; n += 1) await time.pass(100);
    return Math.round((time.now - lost) / 100) * 100;
  }

  Object.assign(clientTests, {
    async asks_for_admission_and_says_who_it_is() {
      const { gateway, client, opened } = await start({ role: "viewer", count: false });
      client.connect();
      await opened();
      is(gateway.asked[0].url.pathname, "/ws/admission");
      is(gateway.socket.url.search, "?user_id=u1&role=viewer&count=false");
      is([gateway.socket.url.protocol, gateway.socket.protocol], ["ws:", "rollcall.v1"]);
      is(client.status.state, "open");
    },

    async shows_a_token_in_a_header_where_it_can() {
      const { gateway, client, opened } = await start({ userId: undefined, token: "a.b.c" });
      client.connect();
      await opened();
      is(gateway.asked[0].headers, { authorization: "Bearer a.b.c" });
      is(gateway.asked[0].url.search, "");
      is(gateway.socket.url.search, "?token=a.b.c");
    },

    async takes_null_for_what_was_not_given() {
      const names = ["userId", "role", "count", "invisible", "heartbeat", "token", "url"];
      const nothing = Object.fromEntries(names.map((name) => [name, null]));
      const { time, gateway, client, opened } = await start(nothing);
      const joined = client.join("42", { friends: null, counts: null });
      await opened();
      await joined;
      is(gateway.asked.map(({ url }) => url.href), [`${location.origin}/ws/admission`]);
      is([gateway.socket.url.pathname, gateway.socket.url.search], ["/ws", ""]);
      is(gateway.socket.said[0], { type: "join", live_id: "42", friends: false, counts: false, id: 1 });
      client.join("43", null).catch(() => {});
      client.watch("44", null);
      client.openLive("45", { streamer_id: null, slices: null }).catch(() => {});
      await time.pass(0);
      is(gateway.socket.said.slice(1).map(({ type, live_id }) => [type, live_id]),
        [["join", "43"], ["watch", "44"], ["open", "45"]]);
      is("streamer_id" in gateway.socket.said[3], false);
      await time.pass(5_000);
      is(gateway.socket.types().includes("heartbeat"), true);
      is(await refusedOptions(null), "taken");
      is(await refusedOptions(), "taken");
    },

    async names_an_option_of_a_wrong_type() {
      const wrong = {
        userId: 42, role: ["viewer"], count: "false", invisible: 1, heartbeat: "no", token: { jwt: "secret" },
        WebSocket: "ws", fetch: {},
      };
      for (const [name, value] of Object.entries(wrong)) {
        const told = await refusedOptions({ [name]: value });
        is([told.startsWith(`invalid_option: ${name}: `), told.includes("secret")], [true, false], told);
      }
      is(await refusedOptions("https://live.example.org"), "invalid_option: options: object expected, not string");
      const { client, gateway } = await start();
      const told = async (call) => {
        try {
          await call();
          return "taken";
        } catch ({ code, message }) {
          return `${code}: ${message}`;
        }
      };
      is(await told(() => client.join(42)), "invalid_option: live_id: string expected, not number");
      is(await told(() => client.join("42", { counts: 1 })), "invalid_option: counts: boolean expected, not number");
      is(await told(() => client.join("42", { friends: "" })), "invalid_option: friends: boolean expected, not string");
      is(await told(() => client.watch(42)), "invalid_option: live_id: string expected, not number");
      is(await told(() => client.openLive("7", { slices: "" })), "invalid_option: slices: number expected, not string");
      is(await told(() => client.closeLive(42)), "invalid_option: live_id: string expected, not number");
      is([client.status.state, gateway.asked.length], ["idle", 0]);
    },

    async keeps_the_path_of_its_url() {
      const paths = {
        "https://example.org": "/",
        "https://example.org/rollcall": "/rollcall/",
        "https://example.org/rollcall/": "/rollcall/",
        "https://example.org:8443/a/b//": "/a/b/",
        "wss://example.org/rollcall/ws": "/rollcall/",
        "http://example.org/ws": "/",
        "ws://example.org/ws/": "/ws/",
      };
      for (const [url, path] of Object.entries(paths)) {
        for (const given of [url, new URL(url)]) {
          const { time, gateway, client, opened } = await start({ url: given });
          client.connect();
          await opened();
          const { host } = new URL(url);
          const scheme = /^(https|wss):/.test(url) ? "s" : "";
          is(gateway.asked[0].url.href, `http${scheme}://${host}${path}ws/admission?user_id=u1`, url);
          is(gateway.socket.url.href, `ws${scheme}://${host}${path}ws?user_id=u1`, url);
          client.close();
          await time.pass(0);
        }
      }
    },

    async refuses_a_url_that_it_cannot_keep() {
      const wrong = {
        "live.example.org": "an address is expected",
        "/rollcall": "an address is expected",
        "": "an address is expected",
        "localhost:8080": "the scheme is localhost:",
        "ftp://example.org/": "the scheme is ftp:",
        "https://example.org/?room=1": "query or a fragment",
        "https://example.org/#live=42": "query or a fragment",
        "https://u1:secret@example.org/": "user name or a password",
      };
      for (const [url, why] of Object.entries(wrong)) {
        const told = await refusedOptions({ url });
        const fits = told.startsWith("invalid_option: url: ") && told.includes(why) && !told.includes("secret");
        is(fits, true, `${url}: ${told}`);
      }
      is((await refusedOptions({ url: 42 })).startsWith("invalid_option: url: "), true);
    },

    async takes_a_token_without_the_white_space_around_it() {
      for (const token of ["a.b.c\n", () => " a.b.c \r\n", async () => "\ta.b.c"]) {
        const { time, gateway, client, opened } = await start({ userId: undefined, token });
        client.connect();
        await opened();
        is([gateway.asked[0].headers, gateway.socket.url.search], [{ authorization: "Bearer a.b.c" }, "?token=a.b.c"]);
        client.close();
        await time.pass(0);
      }
    },

    async ends_with_a_text_that_cannot_be_a_token() {
      const begins = (words) => `begins with ${JSON.stringify(words)}`;
      const wrong = [
        ["<!DOCTYPE html><html><body>Sign in</body></html>", begins("<!DOCTYPE ht")],
        ['{"token":"a.b.c"}', begins('{"token":"a.')],
        ["undefined", begins("undefined")],
        ["a.b c.d", begins("a.b c.d")],
        ["a.b.c.d", begins("a.b.c.d")],
        ["a.bü.c", begins("a.bü.c")],
        [`a.b.${"c".repeat(9_000)}`, "9004 characters"],
        [" \n", "an empty text"],
        [{ token: "a.b.c" }, "of the type object"],
        [["a.b.c"], "of the type object"],
        [7, "of the type number"],
        [false, "of the type boolean"],
      ];
      for (const [found, why] of wrong) {
        const { time, gateway, client } = await start({ token: () => found });
        const failed = fails(client.join("42"), "invalid_token");
        await time.pass(600_000);
        await failed;
        const { state, reason, message } = client.status;
        is([state, reason, gateway.asked.length], ["closed", "invalid_token", 0]);
        is(message.startsWith("token: ") && message.includes(why), true, message);
      }
      const fixed = await start({ token: "" });
      fixed.client.connect();
      await fixed.time.pass(0);
      is([fixed.client.status.reason, fixed.gateway.asked.length], ["invalid_token", 0]);
      const nobody = await start({ token: () => null });
      nobody.client.connect();
      await nobody.opened();
      is([nobody.gateway.asked[0].headers, nobody.client.status.state], [{}, "open"]);
    },

    async ends_when_the_gateway_cannot_read_so_long_a_token() {
      const { time, gateway, client } = await start({ token: `a.b.${"c".repeat(8_000)}` });
      gateway.admissions = [{ status: 431 }];
      client.connect();
      await time.pass(600_000);
      is([gateway.asked.length, client.status.state, client.status.reason], [1, "closed", "http_431"]);
    },

    async leaves_with_its_page_and_comes_back_with_it() {
      const { time, gateway, client, states, opened } = await start();
      client.join("42");
      const watched = client.watch("43");
      await opened();
      await watched.next();
      const next = watched.next();
      dispatchEvent(new PageTransitionEvent("pagehide", { persisted: true }));
      await time.pass(0);
      is([gateway.socket.closed, client.status.state, client.status.reason], [true, "waiting", "page_left"]);
      await time.pass(600_000);
      is([gateway.sockets.length, gateway.asked.length], [1, 1], "while the page is away");
      dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }));
      await opened();
      is(gateway.socket.types(), ["join", "watch"]);
      is((await next).value.viewers, 1);
      is(states.map(({ state }) => state), ["connecting", "open", "waiting", "connecting", "open"]);
      is(gateway.sockets.length, 2);

      // Whoever closed their client for good has no socket again.
      dispatchEvent(new PageTransitionEvent("pagehide", { persisted: true }));
      client.close();
      dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }));
      await time.pass(600_000);
      is([gateway.sockets.length, client.status.state], [2, "closed"]);
    },

    async leaves_with_its_page_in_the_middle_of_an_attempt() {
      const show = (type) => dispatchEvent(new PageTransitionEvent(type, { persisted: true }));
      // While the socket opens.
      const test = await start({ way: "socket" });
      test.time.chance(0.999);
      test.client.join("42");
      await test.time.pass(0);
      show("pagehide");
      await test.time.pass(0);
      is([test.gateway.sockets.length, test.gateway.socket.closed], [1, true]);
      show("pageshow");
      await test.opened();
      is([test.gateway.sockets.length, test.gateway.socket.types()], [2, ["join"]]);
      // While it waits; the attempt that the page cut short was no failure.
      is(await next(test, (socket) => socket.ends(1006)), 500);
      test.gateway.socket.ends(1006);
      await test.time.pass(0);
      show("pagehide");
      await test.time.pass(60_000);
      is([test.gateway.sockets.length, test.client.status.reason], [3, "page_left"]);
      show("pageshow");
      await test.opened();
      is([test.gateway.sockets.length, test.client.status.state], [4, "open"]);
    },

    async tries_soon_when_the_network_or_the_user_is_back() {
      for (const event of ["online", "visible", "resume"]) {
        const test = await start({ way: "socket" });
        test.time.chance(0.999);
        test.client.connect();
        await test.opened();
        for (let n = 0; n < 7; n += 1) await next(test, (socket) => socket.ends(1006));
        test.gateway.socket.ends(1006);
        await test.time.pass(100);
        const asked = test.gateway.asked.length;
        is(test.client.status.retry_at - test.time.now > 25_000, true, "a long wait");
        if (event === "online") dispatchEvent(new Event("online"));
        else if (event === "resume") document.dispatchEvent(new Event("resume"));
        else setHidden(false);
        is(test.client.status.retry_at - test.time.now <= 1_000, true, event);
        await test.time.pass(900);
        is(test.gateway.asked.length, asked, `${event}, with jitter`);
        await test.time.pass(100);
        is(test.gateway.asked.length, asked + 1, event);
        test.client.close();
      }
    },

    async begins_its_back_off_anew_when_the_network_is_back() {
      const test = await start({ way: "socket" });
      test.client.connect();
      await test.opened();
      test.time.chance(0.999);
      for (let n = 0; n < 6; n += 1) await next(test, (socket) => socket.ends(1006));
      test.gateway.socket.ends(1006);
      await test.time.pass(0);
      dispatchEvent(new Event("online"));
      await test.time.pass(1_000);
      is(await next(test, (socket) => socket.ends(1006)), 500);
    },

    async is_not_hurried_where_the_gateway_said_when() {
      const events = () => {
        dispatchEvent(new Event("online"));
        setHidden(false);
      };
      const told = await start();
      told.gateway.admissions = [{ status: 503, code: "crowded", after: "20" }];
      told.client.connect();
      await told.time.pass(0);
      events();
      await told.time.pass(19_000);
      is(told.gateway.asked.length, 1, "Retry-After");
      told.client.close();

      const drained = await start();
      drained.client.connect();
      await drained.opened();
      drained.gateway.socket.tells({ type: "reconnect", after_ms: 9_000 });
      drained.gateway.socket.ends(1012);
      await drained.time.pass(0);
      events();
      await drained.time.pass(8_000);
      is(drained.gateway.asked.length, 1, "reconnect");
      drained.client.close();

      const wrong = await start();
      wrong.client.connect();
      await wrong.opened();
      wrong.time.chance(0.999);
      wrong.gateway.socket.ends(4008);
      await wrong.time.pass(0);
      events();
      await wrong.time.pass(7_000);
      is(wrong.gateway.asked.length, 1, "a mistake");
    },

    async asks_whether_the_gateway_is_still_there_after_a_sleep() {
      for (const answers of [true, false]) {
        const test = await start();
        test.time.chance(0);
        test.client.connect();
        await test.opened();
        await test.time.pass(1_000);
        const beats = test.gateway.socket.types().length;
        test.time.freeze(3_600_000);
        test.gateway.answers = answers;
        document.dispatchEvent(new Event("resume"));
        is(test.gateway.socket.types().length, beats + 1, "at once");
        await test.time.pass(5_000);
        is([test.gateway.sockets.length, test.gateway.sockets[0].closed ?? false], answers ? [1, false] : [2, true]);
        test.client.close();
      }
      // Who looks elsewhere and back within a heartbeat asks nothing.
      const glance = await start();
      glance.client.connect();
      await glance.opened();
      setHidden(true);
      setHidden(false);
      await glance.time.pass(0);
      is(glance.gateway.socket.types(), []);
    },

    async does_not_take_its_own_late_timers_for_a_gateway_that_is_gone() {
      const test = await start();
      test.client.connect();
      await test.opened();
      test.gateway.answers = false;
      await test.time.pass(2_600);
      is(test.gateway.socket.types(), ["heartbeat"]);
      // The page is frozen with the answer on its way; when it goes on, its timers run first.
      test.time.freeze(600_000);
      await test.time.pass(0);
      test.gateway.answers = true;
      test.gateway.socket.tells({ type: "heartbeat_ack", live_id: null, heartbeat_ms: 5_000 });
      await test.time.pass(60_000);
      is([test.gateway.sockets.length, test.client.status.state], [1, "open"]);
    },

    async tries_the_socket_now_and_then_where_it_may_not_ask() {
      const test = await start();
      test.gateway.admissions = Array(5).fill("down");
      test.client.connect();
      await test.time.pass(0);
      is([test.client.status.reason, test.gateway.sockets.length], ["unreachable", 0]);
      await test.time.pass(1_000);
      is([test.gateway.asked.length, test.gateway.sockets.length], [3, 1]);
      await test.opened();
      is(test.client.status.state, "open");
      // It knows the next time.
      await next(test, (socket) => socket.ends(1006));
      is([test.gateway.asked.length, test.gateway.sockets.length], [4, 2]);
      // That socket did not open: it may be the gateway after all.
      test.gateway.socket.ends(1006);
      for (let n = 0; n < 100 && test.gateway.asked.length < 5; n += 1) await test.time.pass(100);
      is([test.gateway.asked.length, test.gateway.sockets.length, test.client.status.reason], [5, 2, "unreachable"]);
    },

    async survives_what_no_gateway_says() {
      const { time, gateway, client, opened } = await start();
      client.connect();
      await opened();
      gateway.socket.onmessage({ data: "Request served by somebody else" });
      gateway.socket.onerror(new Event("error"));
      await time.pass(0);
      is(client.status.state, "open");
    },

    async joins_and_beats_at_the_gateways_interval() {
      const { time, gateway, client, opened } = await start();
      const joined = client.join("42", { friends: true });
      await opened();
      is((await joined).viewers, 1);
      is(gateway.socket.said[0], { type: "join", live_id: "42", friends: true, counts: false, id: 1 });
      const acks = [];
      client.on("heartbeat_ack", ({ viewers }) => acks.push(viewers));
      await time.pass(2_500 + 4 * 5_000);
      is(gateway.socket.types(), ["join", ...Array(5).fill("heartbeat")]);
      is(acks, [1, 1, 1, 1, 1]);
    },

    async sends_nothing_while_the_socket_closes() {
      const test = await start();
      test.client.connect();
      await test.opened();
      test.gateway.socket.readyState = 2;
      const joined = test.client.join("42");
      await test.time.pass(1_000);
      is(test.gateway.socket.types(), []);
      await next(test, (socket) => socket.ends(1006));
      await test.opened();
      is((await joined).viewers, 1);
    },

    async joins_again_after_a_reconnect() {
      const test = await start();
      test.client.join("42");
      await test.opened();
      await next(test, (socket) => socket.ends(1006));
      await test.opened();
      is(test.gateway.socket.types(), ["join"]);
    },

    async waits_at_random_and_twice_as_long_each_time() {
      const test = await start({ way: "socket" });
      test.client.connect();
      await test.opened();
      test.time.chance(0.999);
      const waits = [];
      for (let n = 0; n < 9; n += 1) waits.push(await next(test, (socket) => socket.ends(1006)));
      is(waits, [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]);
      test.time.chance(0.1);
      is(await next(test, (socket) => socket.ends(1006)), 3_000);
    },

    async keeps_its_back_off_over_quick_reconnects_and_forgets_it_after_a_minute() {
      const test = await start();
      test.client.connect();
      await test.opened();
      test.time.chance(0.999);
      is(await next(test, (socket) => socket.ends(1006)), 500);
      await test.opened();
      await test.time.pass(5_000);
      is(await next(test, (socket) => socket.ends(1006)), 1_000, "after a short connection");
      await test.opened();
      await test.time.pass(61_000);
      is(await next(test, (socket) => socket.ends(1006)), 500, "after a long connection");
    },

    async comes_back_when_a_draining_gateway_says() {
      const test = await start();
      test.client.connect();
      await test.opened();
      test.time.chance(0.999);
      const wait = await next(test, (socket) => {
        socket.tells({ type: "reconnect", after_ms: 1_800 });
        socket.ends(1012);
      });
      is(wait, 1_800);
      is(test.states.findLast(({ state }) => state === "waiting").reason, "drain");
      await test.opened();
      is(await next(test, (socket) => socket.ends(1012)), 5_000, "without a word");
    },

    async backs_off_when_the_attempts_after_a_drain_fail() {
      const test = await start({ way: "socket" });
      test.client.connect();
      await test.opened();
      test.time.chance(0.999);
      await next(test, (socket) => {
        socket.tells({ type: "reconnect", after_ms: 1_800 });
        socket.ends(1012);
      });
      const waits = [];
      for (let n = 0; n < 3; n += 1) waits.push(await next(test, (socket) => socket.ends(1006)));
      is(waits, [500, 1_000, 2_000]);
    },

    async never_takes_a_long_or_an_empty_wait_for_none() {
      for (const after of ["99999999", "0"]) {
        const test = await start();
        test.time.chance(0.999);
        test.gateway.admissions = Array(20).fill({ status: 503, code: "crowded", after });
        test.client.connect();
        await test.time.pass(5_000);
        is(test.gateway.asked.length <= 4, true, `${test.gateway.asked.length} attempts after ${after}`);
        test.client.close();
      }
    },

    async comes_back_when_a_refusal_says() {
      const test = await start();
      test.gateway.admissions = [{ status: 503, code: "crowded", after: "7" }];
      test.client.connect();
      await test.time.pass(6_900);
      is([test.gateway.sockets.length, test.client.status.reason], [0, "crowded"]);
      await test.time.pass(200);
      is(test.gateway.sockets.length, 1);
    },

    async backs_off_while_nobody_answers() {
      const test = await start();
      test.gateway.admissions = ["down", "down"];
      test.client.connect();
      await test.time.pass(249);
      is([test.gateway.asked.length, test.client.status.reason], [1, "unreachable"]);
      await test.time.pass(1);
      is(test.gateway.asked.length, 2);
      await test.time.pass(500);
      is([test.gateway.asked.length, test.gateway.sockets.length], [3, 1]);
    },

    async does_not_come_back_when_it_is_refused_or_removed() {
      for (const [status, code] of [[403, "forbidden"], [409, "being_erased"]]) {
        const refused = await start();
        refused.gateway.admissions = [{ status, code }];
        const failed = fails(refused.client.join("42"), code);
        await refused.time.pass(0);
        await failed;
        await refused.time.pass(600_000);
        is([refused.gateway.asked.length, refused.client.status.state], [1, "closed"]);
        is([refused.client.status.reason, refused.gateway.sockets.length], [code, 0]);
      }
      for (const [code, reason] of [[4003, "removed"], [4009, "too_many_sockets"]]) {
        const test = await start();
        test.client.join("42");
        await test.opened();
        test.gateway.socket.ends(code);
        await test.time.pass(600_000);
        is([test.gateway.sockets.length, test.client.status.state, test.client.status.reason], [1, "closed", reason]);
      }
    },

    async comes_back_slowly_after_a_mistake() {
      const test = await start();
      test.client.connect();
      await test.opened();
      test.time.chance(0.999);
      is(await next(test, (socket) => socket.ends(4008)), 8_000);
    },

    async asks_the_hook_for_a_token_before_the_old_one_ends() {
      const token = (seconds) => `x.${btoa(JSON.stringify({ exp: 1_700_000_000 + seconds }))}.y`;
      const why = [];
      const hook = (reason) => {
        why.push(reason);
        return token(why.length * 600);
      };
      const { time, gateway, client, opened } = await start({ token: hook });
      client.connect();
      await opened();
      await time.pass(500_000);
      is(why, ["connect"]);
      await time.pass(14_000);
      is(why, ["connect", "refresh"]);
      const asked = gateway.socket.said.find(({ type }) => type === "refresh");
      is(asked.token, token(1_200));
      gateway.socket.tells({ type: "refreshed", expires_at: time.now + 601_000, id: asked.id });
      await time.pass(560_000);
      is(why, ["connect", "refresh", "refresh"]);
      // Nobody answered that one: there is time for another.
      await time.pass(35_000);
      is(why, ["connect", "refresh", "refresh", "refresh"]);
    },

    async leaves_the_end_of_a_token_to_the_gateway_when_the_clock_is_wrong() {
      const why = [];
      const hook = (reason) => {
        why.push(reason);
        return `x.${btoa(JSON.stringify({ exp: 1_700_000_000 - 60 }))}.y`;
      };
      const { time, client, opened } = await start({ token: hook });
      client.connect();
      await opened();
      await time.pass(600_000);
      is([why, client.status.state], [["connect"], "open"]);
    },

    async asks_the_hook_once_more_when_a_token_has_ended() {
      const why = [];
      const test = await start({ token: (reason) => (why.push(reason), "a.b.c") });
      test.gateway.admissions = [{ status: 401, code: "unauthorized" }, { status: 401, code: "unauthorized" }];
      test.client.connect();
      await test.time.pass(60_000);
      is([why, test.client.status.state], [["connect", "expired"], "closed"]);
      const fixed = await start({ token: "a.b.c" });
      fixed.client.connect();
      await fixed.opened();
      fixed.gateway.socket.ends(4001);
      await fixed.time.pass(60_000);
      is([fixed.gateway.sockets.length, fixed.client.status.reason], [1, "token_expired"]);
    },

    async beats_as_often_as_the_gateway_says() {
      const { time, gateway, client, opened } = await start();
      client.connect();
      await opened();
      gateway.answers = false;
      await time.pass(2_500);
      gateway.socket.tells({ type: "heartbeat_ack", live_id: null, heartbeat_ms: 1_000 });
      await time.pass(5_000);
      is(gateway.socket.types().length, 2, "after the first interval");
      gateway.socket.tells({ type: "heartbeat_ack", live_id: null, heartbeat_ms: 1_000 });
      await time.pass(3_000);
      is(gateway.socket.types().length, 5, "after the shorter one");
    },

    async gives_up_a_connection_on_which_nothing_is_answered() {
      const test = await start();
      test.client.connect();
      await test.opened();
      test.gateway.answers = false;
      await test.time.pass(30_000);
      is([test.gateway.sockets.length, test.gateway.sockets[0].closed], [2, true]);
    },

    async watches_with_the_newest_figures_only() {
      const { time, gateway, client, opened } = await start();
      const seen = [];
      const loop = (async () => {
        for await (const message of client.watch("42")) seen.push(message);
      })();
      await opened();
      is(seen.map(({ viewers }) => viewers), [1]);
      gateway.socket.tells(counts("42", 2, { info: { a: 1 }, info_version: 9 }));
      gateway.socket.tells(counts("42", 3));
      gateway.socket.tells(counts("43", 99));
      await time.pass(0);
      // The second was never asked for, but what the back end wrote is told once.
      is([seen[1].viewers, seen[1].info, seen.length], [3, { a: 1 }, 2]);
      gateway.socket.tells({ type: "closed", live_id: "42", reason: "requested" });
      await loop;
      is(seen.at(-1).type, "closed");
    },

    async watches_on_over_a_reconnect_and_learns_of_an_end_meanwhile() {
      const test = await start();
      const seen = [];
      const loop = (async () => {
        for await (const { type, reason } of test.client.watch("42")) seen.push(reason ?? type);
      })();
      await test.opened();
      await next(test, (socket) => socket.ends(1006));
      await test.opened();
      is(seen, ["counts", "counts"]);
      await next(test, (socket) => socket.ends(1006));
      test.gateway.answers = false;
      await test.opened();
      const { id } = test.gateway.socket.said.find(({ type }) => type === "watch");
      test.gateway.socket.tells({ type: "error", code: "live_not_open", message: "", id });
      await loop;
      is(seen, ["counts", "counts", "unknown"]);
    },

    async tells_a_viewer_that_the_live_closed_meanwhile() {
      const test = await start();
      const told = [];
      test.client.on("closed", ({ live_id, reason }) => told.push(live_id, reason));
      test.client.join("42");
      await test.opened();
      await next(test, (socket) => socket.ends(1006));
      test.gateway.answers = false;
      await test.opened();
      const { id } = test.gateway.socket.said[0];
      test.gateway.socket.tells({ type: "error", code: "live_not_open", message: "", id });
      await test.time.pass(0);
      is(told, ["42", "unknown"]);
      await next(test, (socket) => socket.ends(1006));
      await test.opened();
      is(test.gateway.socket.types(), []);
    },

    async ends_a_watch_that_is_left_and_throws_when_it_is_refused() {
      const { time, gateway, client, opened } = await start();
      const loop = (async () => {
        for await (const message of client.watch("42")) if (message) break;
      })();
      await opened();
      await loop;
      await time.pass(0);
      is(gateway.socket.types(), ["watch", "unwatch"]);
      gateway.answers = false;
      const refused = client.watch("43").next();
      await time.pass(0);
      gateway.socket.tells({ type: "error", code: "forbidden", message: "no", id: gateway.socket.said.at(-1).id });
      await fails(refused, "forbidden");
    },

    async forgets_a_watch_that_was_left_before_another_try() {
      const { time, gateway, client, opened } = await start();
      gateway.answers = false;
      const left = new AbortController();
      const loop = client.watch("42", { signal: left.signal }).next();
      await opened();
      gateway.socket.tells({ type: "error", code: "store_unavailable", message: "", id: gateway.socket.said[0].id });
      await time.pass(0);
      left.abort();
      is((await loop).done, true);
      await time.pass(5_000);
      is(gateway.socket.types().filter((type) => type === "watch").length, 1);
    },

    async rejects_a_join_when_the_live_closes_before_the_answer() {
      const { time, gateway, client, opened } = await start();
      client.watch("42").next();
      await opened();
      gateway.answers = false;
      const failed = fails(client.join("42"), "live_not_open");
      gateway.socket.tells({ type: "closed", live_id: "42", reason: "requested" });
      await failed;
    },

    async throws_when_a_live_is_not_open_and_was_not_before() {
      const { time, gateway, client, opened } = await start();
      gateway.answers = false;
      const failed = fails(client.watch("42").next(), "live_not_open");
      await opened();
      gateway.socket.tells({ type: "error", code: "live_not_open", message: "", id: gateway.socket.said[0].id });
      await failed;
    },

    async joins_once_more_when_the_store_is_away_and_not_when_it_is_banned() {
      const { time, gateway, client, opened } = await start();
      gateway.answers = false;
      const joined = client.join("42");
      await opened();
      const refuse = (code) => {
        gateway.socket.tells({ type: "error", code, message: code, id: gateway.socket.said.at(-1).id });
      };
      refuse("store_unavailable");
      await time.pass(1_600);
      is(gateway.socket.types(), ["join", "join"]);
      refuse("banned");
      await fails(joined, "banned");
      await time.pass(2_000);
      is(gateway.socket.types().filter((type) => type === "join").length, 2);
    },

    async says_when_the_page_is_hidden_and_shown() {
      const { time, gateway, client, opened } = await start();
      client.join("42");
      await opened();
      setHidden(true);
      await time.pass(500);
      is(gateway.socket.types(), ["join"], "a glance elsewhere");
      await time.pass(600);
      setHidden(false);
      await time.pass(0);
      is(gateway.socket.types(), ["join", "away", "back"]);
      client.close();
    },

    async says_that_the_page_is_hidden_after_it_was_closed_and_used_again() {
      const { time, gateway, client, opened } = await start();
      client.join("42").catch(() => {});
      await opened();
      client.close();
      client.join("42");
      await opened();
      setHidden(true);
      await time.pass(1_100);
      is(gateway.socket.types(), ["join", "away"]);
      // The gateway did not take it: the next change is told, whatever the client thought.
      gateway.socket.tells({ type: "error", code: "rate_limited", message: "", id: "away" });
      setHidden(false);
      await time.pass(0);
      is(gateway.socket.types(), ["join", "away", "back"]);
      client.close();
      setHidden(true);
      await time.pass(2_000);
      is(gateway.socket.types(), ["join", "away", "back"]);
    },

    async says_again_that_it_is_hidden_after_a_reconnect() {
      const test = await start();
      setHidden(true);
      test.client.join("42");
      await test.opened();
      is(test.gateway.socket.types(), ["join", "away"]);
      await next(test, (socket) => socket.ends(1006));
      await test.opened();
      is(test.gateway.socket.types(), ["join", "away"]);
      // A gateway that does not know the word is not told again.
      test.gateway.socket.tells({ type: "error", code: "unknown_type", message: "", id: "away" });
      setHidden(false);
      await test.time.pass(0);
      is(test.gateway.socket.types(), ["join", "away"]);
      test.client.close();
    },

    async says_in_its_heartbeats_that_a_visible_page_watches() {
      const { time, gateway, client, opened } = await start();
      const beats = () => gateway.socket.said.filter(({ type }) => type === "heartbeat");
      client.join("42");
      await opened();
      await time.pass(5_000);
      is(beats().map(({ watching }) => watching), [true]);
      setHidden(true);
      await time.pass(5_000);
      setHidden(false);
      await time.pass(5_000);
      is(beats().map(({ watching }) => watching), [true, false, true]);
      // Who takes part in no live watches none.
      await client.leave();
      await time.pass(5_000);
      await time.pass(5_000);
      is(beats().slice(-1), [{ type: "heartbeat" }]);
      client.close();
    },

    async says_at_once_whether_a_video_plays() {
      const { time, gateway, client, opened } = await start();
      const beats = () => gateway.socket.said.filter(({ type }) => type === "heartbeat").map(({ watching }) => watching);
      const video = Object.assign(new EventTarget(), { paused: true, ended: false, readyState: 4 });
      client.watching(video);
      client.join("42");
      await opened();
      await time.pass(5_000);
      is(beats(), [undefined]);
      const happens = async (type, now) => {
        Object.assign(video, now);
        video.dispatchEvent(new Event(type));
        await time.pass(0);
      };
      await happens("playing", { paused: false });
      await happens("playing", {});
      is(beats(), [undefined, true]);
      await happens("waiting", { readyState: 2 });
      is(beats(), [undefined, true, false]);
      await happens("playing", { readyState: 4 });
      await happens("ended", { ended: true });
      is(beats(), [undefined, true, false, true, false]);
      client.watching(true);
      await happens("pause", {});
      is(beats(), [undefined, true, false, true, false, true], "another thing says it now");
      client.close();
    },

    async keeps_within_the_gateways_limit_on_messages() {
      const { time, gateway, client, opened } = await start();
      for (let n = 0; n < 100; n += 1) client.watch(`live${n}`);
      await opened();
      is(gateway.socket.said.length <= 15, true, "at once");
      await time.pass(1_000);
      is(gateway.socket.said.length <= 24, true, "in a second");
      await time.pass(20_000);
      is(new Set(gateway.socket.said.map(({ live_id }) => live_id).filter(Boolean)).size, 100);
    },

    async ends_cleanly_and_rejects_what_is_under_way() {
      const { time, gateway, client, opened } = await start();
      client.connect();
      await opened();
      gateway.answers = false;
      const asked = client.request({ type: "heartbeat" });
      await time.pass(0);
      client.close();
      await fails(asked, "disconnected");
      is([gateway.socket.closed, client.status.state, client.status.reason], [true, "closed", "requested"]);
      await time.pass(600_000);
      is(gateway.sockets.length, 1);
    },

    async the_dashboard_makes_rates_of_totals() {
      const { Rates } = await import("/pages/figures.js");
      const rates = new Rates();
      is(rates.perMinute(0), null);
      for (let s = 0; s <= 120; s += 1) rates.add({ at: s * 1_000, joins: 3 * s, leaves: s });
      is(rates.perMinute(120_000), { joins: 180, leaves: 60 });
      // Nobody came since: what is older than a minute no longer counts.
      is(rates.perMinute(150_000), { joins: 90, leaves: 30 });
      is(rates.perMinute(180_000), { joins: 0, leaves: 0 });
      // What history knows of the time before makes the first minute right.
      const late = new Rates();
      late.add({ at: 100_000, joins: 300, leaves: 0 });
      const known = [30_000, 80_000, 110_000].map((at, n) => ({ at, joins: 100 * (n + 1), leaves: 0 }));
      late.load(known, 100_000);
      is(late.perMinute(100_000).joins, 200);
      // Another opening counts from nothing.
      late.add({ at: 101_000, joins: 2, leaves: 0 });
      is(late.perMinute(101_000).joins, 0);
    },

    async a_token_names_its_bearer() {
      const { claimsOf } = await import("/pages/credentials.js");
      const part = btoa(String.fromCharCode(...new TextEncoder().encode('{"sub":"张@x","role":"service","exp":2}')));
      const token = `x.${part.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}.y`;
      is(claimsOf(token), { user: "张@x", role: "service", expires: 2_000 });
      for (const wrong of ["", "x", "x.y.z", "x.e30.z", "x.bnVsbA.z"]) is(claimsOf(wrong), null, wrong);
    },

    async stays_in_its_live_when_another_refuses_it() {
      const test = await start();
      test.client.join("42");
      await test.opened();
      test.gateway.answers = false;
      const refuse = (code) => {
        const { id } = test.gateway.socket.said.findLast(({ live_id }) => live_id === "43");
        test.gateway.socket.tells({ type: "error", code, message: "", id });
      };
      const failed = fails(test.client.join("43"), "live_not_open");
      await test.time.pass(0);
      refuse("live_not_open");
      await failed;
      setHidden(true);
      await test.time.pass(1_100);
      is(test.gateway.socket.types(), ["join", "join", "away"]);
      setHidden(false);
      await next(test, (socket) => socket.ends(1006));
      test.gateway.answers = true;
      await test.opened();
      is(test.gateway.socket.said.map(({ live_id }) => live_id), ["42"]);

      // The connection breaks before the refusal: the new one is in no live until the client joins the first again.
      test.gateway.answers = false;
      const late = fails(test.client.join("43"), "banned");
      await test.time.pass(0);
      await next(test, (socket) => socket.ends(1006));
      await test.opened();
      refuse("banned");
      await late;
      await test.time.pass(0);
      is(test.gateway.socket.said.map(({ live_id }) => live_id), ["43", "42"]);
    },

    async is_in_no_live_when_its_own_closed_while_another_refused_it() {
      const test = await start();
      test.client.join("42");
      await test.opened();
      test.gateway.answers = false;
      const failed = fails(test.client.join("43"), "banned");
      await test.time.pass(0);
      test.gateway.socket.tells({ type: "closed", live_id: "42", reason: "requested" });
      test.gateway.socket.tells({ type: "error", code: "banned", message: "", id: test.gateway.socket.said.at(-1).id });
      await failed;
      await next(test, (socket) => socket.ends(1006));
      await test.opened();
      is(test.gateway.socket.types(), []);
    },

    async falls_back_to_the_join_that_was_superseded_too_late() {
      const test = await start();
      test.client.join("42");
      await test.opened();
      test.gateway.answers = false;
      const superseded = fails(test.client.join("43"), "superseded");
      const failed = fails(test.client.join("44"), "banned");
      await test.time.pass(0);
      await superseded;
      const [, second, third] = test.gateway.socket.said;
      test.gateway.socket.tells({ type: "joined", live_id: "43", streamer_id: "s1", viewers: 1, id: second.id });
      test.gateway.socket.tells({ type: "error", code: "banned", message: "", id: third.id });
      await failed;
      await next(test, (socket) => socket.ends(1006));
      await test.opened();
      is(test.gateway.socket.said.map(({ live_id }) => live_id), ["43"]);
    },

    async ends_a_watch_that_is_left_before_it_is_asked_and_while_it_waits() {
      const { time, gateway, client, opened } = await start();
      client.connect();
      await opened();
      await client.watch("42").return();
      await time.pass(0);
      is(gateway.socket.types(), ["watch", "unwatch"], "before the first question");
      const waiting = client.watch("42");
      await waiting.next();
      const asked = waiting.next();
      is((await waiting.return()).done, true);
      is((await asked).done, true);
      await time.pass(0);
      is(gateway.socket.types().slice(2), ["watch", "unwatch"], "while it waits");
      const left = new AbortController();
      client.watch("42", { signal: left.signal });
      left.abort();
      await time.pass(0);
      is(gateway.socket.types().slice(4), ["watch", "unwatch"], "by its signal");
    },

    async says_that_it_cannot_connect_where_there_is_no_websocket() {
      globalThis.WebSocket = undefined;
      const { time, gateway, client } = await start({ WebSocket: undefined, way: "socket" });
      const failed = fails(client.join("42"), "cannot_connect");
      await time.pass(0);
      await failed;
      await time.pass(600_000);
      is([gateway.asked.length, client.status.state, client.status.reason], [1, "closed", "cannot_connect"]);
      const hook = await start({ token: () => Promise.reject(new Error("no token today")) });
      hook.client.connect();
      await hook.time.pass(0);
      is([hook.client.status.state, hook.client.status.reason], ["waiting", "token"]);
    },

    async goes_on_over_http_for_as_long_as_it_takes_where_there_is_no_websocket() {
      globalThis.WebSocket = undefined;
      const { time, gateway, client, states } = await start({ WebSocket: undefined });
      gateway.admissions = Array(10).fill("down");
      // A proxy answers in place of the gateway, which is just being replaced.
      gateway.problems["POST /v1/presence"] = [{ status: 404 }, { status: 404 }];
      const joined = client.join("42");
      await time.pass(600_000);
      is([(await joined).viewers, client.way, gateway.asked.length], [1, "http", 13]);
      const waited = states.filter(({ state }) => state === "waiting").map(({ reason }) => reason);
      is(waited, [...Array(10).fill("unreachable"), "not_offered", "not_offered"]);
    },

    async tells_that_a_request_was_not_answered() {
      const { time, gateway, client, opened } = await start();
      gateway.answers = false;
      const asked = client.openLive("42");
      await opened();
      const failed = fails(asked, "timeout");
      await time.pass(10_000);
      await failed;
    },
    // ------------------------------------------------------------------------------------- without a WebSocket
    async joins_over_http_where_no_socket_opens() {
      const { time, gateway, client, states } = await start({ role: "viewer" });
      const joined = client.join("42", { friends: true });
      await time.pass(2_999);
      is([gateway.sockets.length, gateway.calls, client.way], [1, [], null]);
      await time.pass(1);
      const { live_id, viewers } = await joined;
      is([live_id, viewers, client.way, gateway.socket.closed], ["42", 1, "http", true]);
      is(gateway.calls, ["POST /v1/presence", "GET /v1/presence/id1/events"]);
      is(gateway.bodies[0], { live_id: "42", friends: true });
      is(gateway.stream.url.search, "?beat=false");
      is(states.map(({ state, way }) => way ?? state), ["connecting", "http"]);
    },

    async joins_over_http_at_once_where_a_socket_is_refused() {
      const { time, gateway, client } = await start();
      client.join("42");
      await time.pass(0);
      gateway.socket.ends(1006);
      await time.pass(0);
      is([client.way, gateway.calls[0]], ["http", "POST /v1/presence"]);
      // It remembers: the next time it does not wait for a socket.
      gateway.problems["POST /v1/presence/id1"] = [{ status: 404, code: "session_unknown" }];
      await time.pass(5_000);
      is([client.way, gateway.sockets.length, gateway.asked.length, gateway.sessions], ["http", 1, 2, 2]);
    },

    async joins_over_http_where_a_proxy_takes_the_upgrade_and_passes_nothing_on() {
      const { time, gateway, client } = await start();
      client.join("42");
      await time.pass(0);
      gateway.socket.readyState = 1;
      gateway.socket.onopen?.();
      await time.pass(3_000);
      is([client.way, gateway.socket.closed, gateway.sessions], ["http", true, 1]);
    },

    async takes_the_word_of_a_gateway_that_closes_the_socket() {
      const { time, gateway, client } = await start();
      client.join("42").catch(() => {});
      await time.pass(0);
      gateway.socket.ends(4009);
      await time.pass(60_000);
      is([client.status.reason, gateway.calls], ["too_many_sockets", []]);
    },

    async shows_a_token_over_http_and_keeps_it_from_addresses() {
      const { time, gateway, client } = await start({ userId: undefined, token: "a.b.c", way: "http" });
      client.watch("43");
      await time.pass(0);
      is(gateway.credentials, { headers: { authorization: "Bearer a.b.c" }, search: "" });
      client.join("42");
      await time.pass(0);
      const { headers } = gateway.credentials;
      is([gateway.calls.at(-1), headers], ["GET /v1/presence/id1/events", { authorization: "Presence id1" }]);
    },

    async goes_on_with_the_id_that_a_beat_brings() {
      const { time, gateway, client } = await start({ way: "http" });
      const acks = [];
      client.on("heartbeat_ack", (ack) => acks.push(ack));
      client.join("42");
      await time.pass(0);
      gateway.renewals = [{ session_id: "next", udp: null }];
      gateway.calls = [];
      await time.pass(10_000);
      is(gateway.calls, ["POST /v1/presence/id1", "POST /v1/presence/next"]);
      is(acks.some((ack) => "session_id" in ack || "udp" in ack), false, "told to the app:");
      gateway.stream.ends();
      await time.pass(10_000);
      is(gateway.calls.filter((call) => call.endsWith("/events")), ["GET /v1/presence/next/events"]);
    },

    async uses_the_way_that_it_is_told() {
      const socket = await start({ way: "socket" });
      socket.client.join("42");
      await socket.time.pass(60_000);
      is([socket.gateway.calls, socket.gateway.sockets.length > 2], [[], true]);
      const http = await start({ way: "http" });
      http.client.join("42");
      await http.time.pass(3_600_000);
      is([http.gateway.sockets.length, http.client.way, http.gateway.sessions], [0, "http", 1]);
      is(await refusedOptions({ way: "carrier pigeon" }),
        "invalid_option: way: auto, socket or http expected, not carrier pigeon");
      // Where there is no WebSocket, none is waited for.
      globalThis.WebSocket = undefined;
      const none = await start({ WebSocket: undefined });
      none.client.join("42");
      await none.time.pass(3_600_000);
      is([none.client.way, none.gateway.sessions, none.gateway.asked.length], ["http", 1, 1]);
    },

    async tells_over_http_what_a_socket_tells() {
      const { time, gateway, client } = await start({ way: "http" });
      const told = [];
      for (const type of ["welcome", "joined", "counts", "friends", "closed", "heartbeat_ack", "reconnect"]) {
        client.on(type, (message) => told.push([message.type, message.info ?? message.viewers ?? message.count]));
      }
      const heard = () => told.splice(0).map(([type, what]) => (what === undefined ? type : `${type} ${JSON.stringify(what)}`));
      await Promise.all([client.join("42"), time.pass(0)]);
      is(heard(), ["welcome", "joined 1"]);
      gateway.stream.tells(counts("42", 7));
      gateway.stream.tells({ type: "friends", live_id: "42", count: 3, user_ids: [] });
      gateway.stream.tells({ type: "info", live_id: "42", info: "soup", info_version: 5 });
      await time.pass(0);
      is(heard(), ["friends 3"], "counts were not asked for, and info rides in the next ack");
      await time.pass(5_000);
      is(heard(), ['heartbeat_ack "soup"']);
      await Promise.all([client.join("42", { counts: true }), time.pass(0)]);
      gateway.stream.tells(counts("42", 8));
      await time.pass(0);
      is(heard(), ["joined 1", "counts 8"]);
      const watched = client.watch("42");
      await time.pass(0);
      const [session, watch] = gateway.streams.slice(-2);
      watch.tells(counts("42", 9));
      session.tells({ type: "closed", live_id: "42", reason: "requested" });
      watch.tells({ type: "closed", live_id: "42", reason: "requested" });
      await time.pass(0);
      is(heard(), ["counts 9", "closed"]);
      is([(await watched.next()).value.reason, (await watched.next()).done], ["requested", true]);
      gateway.calls = [];
      await time.pass(60_000);
      is([gateway.calls, client.status.state], [[], "open"], "in no live there is nothing to keep");
    },

    async beats_by_requests_and_joins_again_when_none_is_answered() {
      const { time, gateway, client } = await start({ way: "http" });
      client.join("42");
      await time.pass(2_500 + 4 * 5_000);
      is(gateway.called("POST /v1/presence/id1"), 5);
      gateway.problems["POST /v1/presence/id1"] = Array(10).fill("silent");
      await time.pass(5_000 + 15_000);
      is([gateway.called("POST /v1/presence/id1"), client.status.state], [4, "open"]);
      await time.pass(10_500);
      is([gateway.called("POST /v1/presence"), client.status.state], [1, "open"]);
    },

    async a_stream_says_when_it_is_time_to_beat_while_timers_are_late() {
      const { time, gateway, client } = await start({ way: "http" });
      client.join("42");
      await time.pass(0);
      gateway.called();
      time.freeze(7_000);
      gateway.stream.tells(null);
      for (let n = 0; n < 50 && !gateway.calls.length; n += 1) await settle();
      is(gateway.called("POST /v1/presence/id1"), 1);
      gateway.stream.tells(null);
      for (let n = 0; n < 5; n += 1) await settle();
      is(gateway.calls, []);
    },

    async leaves_the_beats_to_the_stream_where_it_may_send_none() {
      const { time, gateway, client } = await start({ way: "http", heartbeat: false });
      client.join("42");
      await time.pass(0);
      is(gateway.stream.url.search, "");
      gateway.called();
      for (let n = 0; n < 10; n += 1) {
        await time.pass(5_000);
        gateway.stream.tells(null);
      }
      await time.pass(0);
      is(gateway.calls, []);
    },

    async joins_again_soon_when_its_session_is_unknown() {
      for (const call of ["POST /v1/presence/id1", "GET /v1/presence/id1/events"]) {
        const { time, gateway, client } = await start({ way: "http" });
        gateway.problems[call] = [{ status: 404, code: "session_unknown" }];
        client.join("42");
        await time.pass(3_000);
        is([gateway.sessions, client.status.state, gateway.beacons], [2, "open", []], call);
        client.close();
      }
    },

    async goes_from_live_to_live_with_its_session() {
      const { time, gateway, client } = await start({ way: "http" });
      const told = async (live_id) => {
        const [joined] = await Promise.all([client.join(live_id).catch(({ code }) => code), time.pass(0)]);
        return joined.live_id ?? joined;
      };
      is([await told("42"), await told("43")], ["42", "43"]);
      is(gateway.called("POST /v1/presence/id1"), 1);
      is(gateway.streams.map(({ url, signal }) => [url.pathname.split("/")[3], signal.aborted]), [["id1", true], ["id2", false]]);
      gateway.problems["POST /v1/presence/id2"] = [{ status: 403, code: "banned" }];
      is(await told("44"), "banned");
      await time.pass(5_000);
      is(gateway.called("POST /v1/presence/id2"), 2, "the switch and a beat");
      // A session that is gone meanwhile does not keep anybody out.
      gateway.problems["POST /v1/presence/id2"] = [{ status: 404, code: "session_unknown" }];
      is([await told("44"), gateway.called("POST /v1/presence")], ["44", 1]);
    },

    async joins_one_live_after_the_other_however_quickly_it_is_told() {
      const { time, gateway, client } = await start({ way: "http" });
      const superseded = fails(client.join("42"), "superseded");
      const joined = client.join("43");
      await time.pass(0);
      await superseded;
      is([(await joined).live_id, gateway.calls.filter((call) => call.startsWith("POST"))],
        ["43", ["POST /v1/presence"]]);
      const left = fails(client.join("44"), "superseded");
      client.leave();
      await time.pass(0);
      await left;
      is(gateway.calls.slice(-2), ["GET /v1/presence/id2/events", "DELETE /v1/presence/id2"]);
    },

    async leaves_over_http_at_once_however_it_ends() {
      const { time, gateway, client } = await start({ way: "http" });
      await Promise.all([client.join("42"), time.pass(0)]);
      await Promise.all([client.leave(), time.pass(0)]);
      is([gateway.calls.at(-1), gateway.stream.signal.aborted], ["DELETE /v1/presence/id1", true]);
      client.join("42");
      await time.pass(0);
      dispatchEvent(new PageTransitionEvent("pagehide", { persisted: true }));
      is([gateway.beacons, client.way, client.status.reason], [["/v1/presence/id2?leave"], null, "page_left"]);
      await time.pass(600_000);
      is([gateway.sessions, time.waiting, gateway.stream.signal.aborted], [2, 0, true]);
      dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true }));
      await time.pass(0);
      is([gateway.sessions, client.way], [3, "http"]);
      // Without beacons, as in Node; and with an answer that comes too late.
      navigator.sendBeacon = undefined;
      let answer;
      gateway.problems["POST /v1/presence/id3"] = [new Promise((resolve) => { answer = resolve; })];
      client.join("43").catch(() => {});
      await time.pass(0);
      client.close();
      answer();
      await time.pass(0);
      is(gateway.calls.slice(-2), ["DELETE /v1/presence/id3", "DELETE /v1/presence/id4"]);
      await time.pass(600_000);
      is([time.waiting, gateway.streams.every(({ signal }) => signal.aborted)], [0, true]);
    },

    async keeps_no_session_that_it_could_not_leave() {
      const { time, gateway, client } = await start({ way: "http" });
      client.join("42");
      await time.pass(0);
      gateway.problems["DELETE /v1/presence/id1"] = [{ status: 429, code: "rate_limited" }];
      const refused = fails(client.leave(), "rate_limited");
      await time.pass(60_000);
      await refused;
      is([gateway.called("POST /v1/presence/id1"), gateway.stream.signal.aborted], [0, true]);
    },

    async goes_over_to_a_socket_as_soon_as_one_opens() {
      const { time, gateway, client, states } = await start();
      client.join("42");
      client.watch("43");
      await time.pass(3_000);
      is([client.way, gateway.sockets.length], ["http", 1]);
      await time.pass(59_000);
      is(gateway.sockets.length, 1);
      await time.pass(1_000);
      is([gateway.sockets.length, client.way], [2, "http"]);
      gateway.answers = false;
      gateway.socket.opens();
      await time.pass(0);
      is([client.way, gateway.socket.types(), gateway.beacons], ["socket", ["join", "watch"], []]);
      const { id } = gateway.socket.said[0];
      gateway.socket.tells({ type: "joined", live_id: "42", streamer_id: "s1", viewers: 1, fans: 0, id });
      await time.pass(0);
      is(gateway.beacons, ["/v1/presence/id1?leave"], "after the join");
      is(gateway.streams.every(({ signal }) => signal.aborted), true);
      gateway.called();
      gateway.answers = true;
      await time.pass(600_000);
      is([gateway.calls, gateway.sockets.length], [[], 2]);
      is(states.map(({ state, way }) => way ?? state), ["connecting", "http", "socket"]);
      // It is a socket as any other.
      gateway.socket.ends(4003);
      await time.pass(0);
      is(client.status.reason, "removed");
    },

    async tries_a_socket_ever_less_often_and_soon_on_another_network() {
      const { time, gateway, client } = await start();
      client.join("42");
      await time.pass(3_000);
      const waits = [];
      for (let n = 0; n < 6; n += 1) {
        const before = [gateway.sockets.length, time.now];
        while (gateway.sockets.length === before[0]) await time.pass(1_000);
        waits.push(Math.round((time.now - before[1]) / 60_000));
        gateway.socket.ends(1006);
      }
      is(waits, [1, 2, 4, 8, 10, 10]);
      is([gateway.sessions, client.way], [1, "http"]);
      dispatchEvent(new Event("online"));
      await time.pass(1_000);
      is(gateway.sockets.length, 8);
      await time.pass(3_000);
      is([gateway.socket.closed, client.way], [true, "http"]);
      client.close();
      is(time.waiting, 0);
    },

    async watches_over_http() {
      const { time, gateway, client } = await start({ way: "http" });
      const seen = [];
      const loop = (async () => {
        for await (const message of client.watch("42")) seen.push(message.viewers ?? message.reason);
      })();
      await time.pass(0);
      is(gateway.calls, ["GET /v1/lives/42/events"]);
      gateway.stream.tells(counts("42", 1));
      await time.pass(0);
      gateway.stream.tells(counts("42", 2));
      await time.pass(0);
      // A proxy ends it now and then.
      gateway.stream.ends();
      await time.pass(500);
      is([gateway.streams.length, client.status.state], [2, "open"]);
      gateway.stream.tells(counts("42", 3));
      await time.pass(0);
      // The gateway is going to stop, and says when to come back.
      gateway.stream.tells({ type: "reconnect", after_ms: 4_000 });
      gateway.stream.ends();
      await time.pass(3_999);
      is([gateway.streams.length, client.status.state], [2, "open"]);
      await time.pass(1);
      is(gateway.streams.length, 3);
      gateway.stream.tells(counts("42", 4));
      await time.pass(0);
      // Nothing comes any more: it is dead, and so is the next one.
      gateway.problems["GET /v1/lives/42/events"] = ["silent"];
      await time.pass(20_000 + 250);
      is(client.status.state, "open");
      await time.pass(20_000);
      is([client.status.state, client.status.reason], ["waiting", "closed_1006"]);
      await time.pass(1_000);
      gateway.stream.tells(counts("42", 5));
      gateway.stream.tells({ type: "closed", live_id: "42", reason: "requested" });
      await loop;
      is(seen, [1, 2, 3, 4, 5, "requested"]);
      is(gateway.stream.signal.aborted, true);
    },

    async watches_on_over_http_with_the_token_that_was_renewed() {
      const token = (seconds) => `x.${btoa(JSON.stringify({ exp: 1_700_000_000 + seconds }))}.y`;
      const tokens = [token(600), token(1_200)];
      const hook = () => tokens.shift();
      const [first, second] = tokens;
      const { time, gateway, client } = await start({ userId: undefined, token: hook, way: "http" });
      const watched = client.watch("42");
      await time.pass(0);
      is(gateway.credentials.headers, { authorization: `Bearer ${first}` });
      gateway.stream.tells(counts("42", 1));
      is((await watched.next()).value.viewers, 1);
      for (let n = 0; n < 60; n += 1) {
        await time.pass(9_900);
        gateway.stream.tells(counts("42", 2));
      }
      is([tokens.length, gateway.streams.length], [0, 1], "the token was renewed, and the stream goes on");
      // The gateway ends the stream with the token with which it was opened.
      gateway.stream.ends();
      await time.pass(500);
      is([gateway.streams.length, gateway.credentials.headers], [2, { authorization: `Bearer ${second}` }]);
      is(client.status.state, "open");
    },

    async learns_over_http_that_a_watch_is_refused_or_its_live_is_over() {
      const { time, gateway, client } = await start({ way: "http" });
      gateway.problems["GET /v1/lives/42/events"] = [{ status: 403, code: "forbidden" }];
      const refused = fails(client.watch("42").next(), "forbidden");
      await time.pass(0);
      await refused;
      gateway.problems["GET /v1/lives/43/events"] = [{ status: 503, code: "store_unavailable" }];
      const watched = client.watch("43");
      await time.pass(2_000);
      is(gateway.called("GET /v1/lives/43/events"), 2);
      gateway.stream.tells(counts("43", 1));
      await time.pass(0);
      is((await watched.next()).value.viewers, 1);
      gateway.problems["GET /v1/lives/43/events"] = [{ status: 409, code: "live_not_open" }];
      gateway.stream.ends();
      await time.pass(500);
      is([(await watched.next()).value.reason, (await watched.next()).done], ["unknown", true]);
      const left = client.watch("44");
      await time.pass(0);
      left.return();
      await time.pass(0);
      is(gateway.stream.signal.aborted, true);
    },

    async waits_as_long_as_a_gateway_says_over_http() {
      const { time, gateway, client, states } = await start({ way: "http" });
      gateway.problems["POST /v1/presence"] = [
        { status: 429, code: "rate_limited", after: "7" }, { status: 503, code: "draining", after: "9" },
        { status: 502 },
      ];
      const joined = client.join("42");
      await time.pass(7_000);
      is([gateway.called("POST /v1/presence"), client.status.state], [1, "open"]);
      await time.pass(1_000);
      is([client.status.state, client.status.reason], ["waiting", "draining"]);
      await time.pass(8_000);
      is(gateway.called("POST /v1/presence"), 1);
      await time.pass(1_000);
      is(states.findLast(({ state }) => state === "waiting").reason, "http_502");
      is((await joined).viewers, 1);
    },

    async says_over_http_why_it_may_not_join() {
      const { time, gateway, client } = await start({ way: "http" });
      gateway.problems["POST /v1/presence"] = [{ status: 403, code: "banned" }];
      const banned = fails(client.join("42"), "banned");
      await time.pass(0);
      await banned;
      await time.pass(60_000);
      is([gateway.called("POST /v1/presence"), client.status.state], [1, "open"]);
      const opened = fails(client.openLive("42"), "unknown_type");
      await time.pass(0);
      await opened;
    },

    async learns_over_http_that_the_live_closed_meanwhile() {
      const { time, gateway, client } = await start({ way: "http" });
      const told = [];
      client.on("closed", ({ live_id, reason }) => told.push(live_id, reason));
      client.join("42");
      await time.pass(0);
      gateway.problems["POST /v1/presence/id1"] = [{ status: 404, code: "session_unknown" }];
      gateway.problems["POST /v1/presence"] = [{ status: 409, code: "live_not_open" }];
      await time.pass(5_000);
      is(told, ["42", "unknown"]);
    },

    async keeps_to_sockets_where_there_is_no_presence_over_http() {
      for (const problem of [{ status: 404, code: "not_found" }, { status: 403 }, { status: 405, code: "method_not_allowed" }]) {
        const { time, gateway, client } = await start();
        gateway.problems["POST /v1/presence"] = [problem];
        client.join("42");
        await time.pass(3_000);
        is([client.status.state, client.status.reason], ["waiting", "not_offered"]);
        await time.pass(500);
        is(gateway.sockets.length, 2);
        await time.pass(14_000);
        is([gateway.socket.closed ?? false, gateway.called("POST /v1/presence")], [false, 1], "a socket has its time");
        gateway.socket.opens();
        await time.pass(0);
        is([client.way, gateway.socket.types()], ["socket", ["join"]]);
        client.close();
      }
    },

    async renews_its_session_with_its_token() {
      const token = (seconds) => `x.${btoa(JSON.stringify({ exp: 1_700_000_000 + seconds }))}.y`;
      const why = [];
      const hook = (reason) => token(why.push(reason) * 600);
      const { time, gateway, client } = await start({ userId: undefined, token: hook, way: "http" });
      const told = [];
      client.on("refreshed", ({ expires_at }) => told.push(expires_at));
      client.join("42");
      await time.pass(0);
      gateway.called();
      gateway.problems["POST /v1/presence/id1"] = [];
      await time.pass(514_000);
      is([why, told, gateway.beacons], [["connect", "refresh"], [1_700_001_200_000], ["/v1/presence/id1?leave"]]);
      is([gateway.calls.includes("POST /v1/presence"), gateway.stream.url.pathname], [true, "/v1/presence/id2/events"]);
      // A token that is no longer good is renewed, too.
      gateway.problems["POST /v1/presence/id2"] = [{ status: 404, code: "session_unknown" }];
      gateway.problems["POST /v1/presence"] = [{ status: 401, code: "unauthorized" }];
      await time.pass(10_000);
      is([why.slice(2), client.status.state, gateway.sessions], [["connect", "expired"], "open", 3]);
    },

    async ends_over_http_as_a_socket_does() {
      const ends = [[403, "removed", "removed"], [409, "too_many_sessions", "too_many_sockets"]];
      for (const [status, code, reason] of ends) {
        for (const call of ["GET /v1/presence/id1/events", "POST /v1/presence/id1"]) {
          const { time, gateway, client } = await start({ way: "http" });
          client.join("42");
          await time.pass(0);
          gateway.problems[call] = [{ status, code }];
          gateway.stream.ends();
          await time.pass(600_000);
          is([client.status.state, client.status.reason, gateway.sessions], ["closed", reason, 1], call);
        }
      }
    },

    async tells_no_visibility_over_http() {
      const { time, gateway, client } = await start({ way: "http" });
      client.join("42");
      await time.pass(0);
      setHidden(true);
      await time.pass(2_000);
      setHidden(false);
      await time.pass(2_000);
      is([client.status.state, gateway.called("POST /v1/presence")], ["open", 1]);
      client.close();
    },
  });
})();

async function runClientTest(name) {
  try {
    await clientTests[name]();
    return "passed";
  } catch (error) {
    return String(error.stack ?? error);
  }
}
