// A gateway inside the page, for tests of its memory and of its lists: it has a live that is open for six hours, with a
// point of history every 10 s, and then streams figures as fast as the page takes them.
(() => {
  const HISTORY = 2_160;
  const opened_at = Date.now() - HISTORY * 10_000;
  const figures = (n) => {
    const viewers = 1_000 + Math.round(900 * Math.sin(n / 50));
    return { viewers, fans: 300 + (n % 97), joins: 3 * n, leaves: 2 * n };
  };
  const answer = (body) => new Response(JSON.stringify(body), { headers: { "content-type": "application/json" } });
  const numbers = new Intl.NumberFormat("en");
  let socket = null;
  let seq = 0;
  let last = null;

  const fake = {
    asked: [],
    tells: (more) => send({ ...figures(0), viewers: 1_000, as_of: Date.now(), ...more }),
    drops: () => socket.onclose({ code: 1006 }),
    /** What the chart says of the first point: a point tells the end of its ten seconds. */
    firstShown() {
      const { viewers, fans } = figures(0);
      const time = new Date(opened_at + 10_000).toLocaleTimeString("en", { hour12: false });
      return `${time}: viewers ${numbers.format(viewers)}, fans ${numbers.format(fans)}`;
    },
    lastShown: () => numbers.format(last.viewers),
    async stream(seconds) {
      let peak = 0;
      for (let n = 0; n < 2 * seconds; n += 1) {
        send({ ...figures(n), as_of: Date.now() + n * 500 });
        if (n % 50) continue;
        await new Promise((resolve) => setTimeout(resolve, 0));
        peak = Math.max(peak, performance.memory.usedJSHeapSize);
      }
      return peak;
    },
  };
  globalThis.fake = fake;

  function send(counts) {
    const peaks = { peak_viewers: 2_000, peak_fans: 400 };
    last = { type: "counts", live_id: "42", epoch: 1, seq: ++seq, ...peaks, opened_at, quality: "exact", ...counts };
    socket.onmessage({ data: JSON.stringify(last) });
  }

  const real = globalThis.fetch;
  globalThis.fetch = async (url, request) => {
    const { pathname } = new URL(url, location.href);
    if (pathname !== "/ws/admission" && !pathname.startsWith("/v1/")) return real(url, request);
    fake.asked.push(pathname);
    if (pathname === "/ws/admission") return new Response(null, { status: 204 });
    if (pathname.endsWith("/history")) {
      const items = Array.from({ length: HISTORY }, (_, n) => ({ began_at: opened_at + n * 10_000, ...figures(n) }));
      return answer({ live_id: "42", epoch: 1, step_s: 10, from: opened_at, to: Date.now(), items });
    }
    if (pathname.endsWith("/fans")) {
      const items = Array.from({ length: 50 }, (_, n) => ({ user_id: `u${(seq + n) % 500}` }));
      return answer({ items, cursor: "more" });
    }
    return answer({ items: [], cursor: null });
  };

  globalThis.WebSocket = class {
    readyState = 0;

    constructor() {
      socket = this;
      setTimeout(() => {
        this.readyState = 1;
        this.onopen?.();
        const welcome = { type: "welcome", user_id: "s1", gateway_id: "g", heartbeat_ms: 5_000, timeout_ms: 15_000 };
        this.onmessage({ data: JSON.stringify(welcome) });
      }, 0);
    }

    send(text) {
      const { type, id } = JSON.parse(text);
      if (type === "watch") send({ ...figures(0), id, viewers: 1_000, as_of: Date.now() });
      if (type !== "heartbeat") return;
      this.onmessage({ data: JSON.stringify({ type: "heartbeat_ack", live_id: null, heartbeat_ms: 5_000 }) });
    }

    close() {}
  };
})();
