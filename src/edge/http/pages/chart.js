// The chart of one live: viewers and fans since it opened. Of what is older than two minutes it keeps a point per 10 s,
// so that a day of stream stays small. It is drawn at most once a second.

import { clock, number, onLanguage, t } from "./words.js";
import { byId, say } from "./dom.js";

const BUCKET = 10_000;
const FINE_FOR = 120_000;
const DRAW_EVERY = 1_000;
const HEIGHT = 260;
/** In seconds: the chart of a live that has just begun. */
const SHORTEST = 60;

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class Chart {
  #root = byId("chart");
  #plot = null;
  #data = [[], [], []];
  #drawing = null;
  #cursor = null;
  #thinAt = 2 * (FINE_FOR / DRAW_EVERY);

  constructor() {
    new ResizeObserver(() => this.#resize()).observe(this.#root);
    // Colors and words are drawn into the picture.
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#rebuild());
    onLanguage(() => this.#rebuild());
    this.#root.addEventListener("keydown", (event) => this.#move(event));
    this.#root.addEventListener("pointermove", (event) => this.#point(event));
    for (const type of ["pointerleave", "blur"]) this.#root.addEventListener(type, () => this.#show(null));
  }

  get size() {
    return this.#data[0].length;
  }

  /** The time of the newest point, in Unix milliseconds. */
  get newest() {
    return (this.#data[0].at(-1) ?? 0) * 1_000;
  }

  clear() {
    this.#data = [[], [], []];
    this.#draw();
  }

  /** Takes in what the stream was before `since`. From then on, this page has missed nothing. */
  load(points, since) {
    const older = points.filter(({ at }) => at < since);
    const own = this.#data[0].findIndex((time) => time * 1_000 >= since);
    const newer = (values) => (own < 0 ? [] : values.slice(own));
    const [times, viewers, fans] = this.#data.map(newer);
    this.#data = [
      [...older.map(({ at }) => at / 1_000), ...times],
      [...older.map((point) => point.viewers), ...viewers],
      [...older.map((point) => point.fans), ...fans],
    ];
    this.#draw();
  }

  /** The figures at a time. */
  add({ at, viewers, fans }) {
    const [times, allViewers, allFans] = this.#data;
    if (at <= this.newest) return;
    times.push(at / 1_000);
    allViewers.push(viewers);
    allFans.push(fans);
    if (this.size >= this.#thinAt) this.#thin(at - FINE_FOR);
    this.#draw();
  }

  /** Keeps of what is older the last point of each bucket. */
  #thin(before) {
    const [times] = this.#data;
    const bucket = (index) => Math.floor((times[index] * 1_000) / BUCKET);
    const stays = times.map((time, i) => time * 1_000 >= before || bucket(i) !== bucket(i + 1));
    this.#data = this.#data.map((values) => values.filter((_, i) => stays[i]));
    this.#thinAt = this.size + FINE_FOR / DRAW_EVERY;
  }

  #draw() {
    if (this.#drawing !== null || document.hidden) return;
    this.#drawing = setTimeout(() => {
      this.#drawing = null;
      requestAnimationFrame(() => this.#paint());
    }, this.#plot ? DRAW_EVERY : 0);
  }

  #paint() {
    if (this.#plot && this.size) this.#plot.setData(this.#data);
    else this.#rebuild();
  }

  #rebuild() {
    this.#plot?.destroy();
    this.#plot = null;
    const width = this.#root.clientWidth;
    if (!width || !this.size) return;
    const [ink, grid] = [color("--ink-soft"), color("--line")];
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1 } };
    const line = (key, name) => ({
      label: t(key), stroke: color(name), width: 2, points: { show: false },
      paths: globalThis.uPlot.paths.stepped({ align: 1 }),
    });
    const whole = (plot, splits) => splits.map((n) => (Number.isInteger(n) ? number(n) : ""));
    const times = (plot, splits) => {
      const length = splits[1] - splits[0] >= 60 ? "hh:mm".length : "hh:mm:ss".length;
      return splits.map((s) => clock(s * 1_000).slice(0, length));
    };
    this.#plot = new globalThis.uPlot({
      width, height: HEIGHT, legend: { show: false }, cursor: { drag: { x: false, y: false } },
      scales: {
        // The library would take a single point for the beginning of years.
        x: { range: (plot, first) => [first, Math.max(this.newest / 1_000, first + SHORTEST)] },
        y: { range: (plot, low, high) => [0, Math.max(5, high * 1.1)] },
      },
      axes: [{ ...axis, values: times, space: 80 }, { ...axis, values: whole, size: 56 }],
      series: [{}, line("viewers", "--viewers"), line("fans", "--fans")],
    }, this.#data, this.#root);
  }

  #resize() {
    const width = this.#root.clientWidth;
    if (this.#plot && width) this.#plot.setSize({ width, height: HEIGHT });
    else this.#rebuild();
  }

  /** Says the values under the cursor. */
  #show(index) {
    this.#cursor = index;
    const [times, viewers, fans] = this.#data;
    const known = index !== null && index < times.length;
    const figures = known && { viewers: number(viewers[index]), fans: number(fans[index]) };
    say(byId("chart-values"), known ? t("chartAt", { time: clock(times[index] * 1_000), ...figures }) : "");
  }

  #point({ clientX }) {
    if (this.#plot) this.#show(this.#plot.posToIdx(clientX - this.#plot.over.getBoundingClientRect().left));
  }

  #move(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -30, PageDown: 30, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined || !this.#plot) return;
    event.preventDefault();
    const last = this.size - 1;
    const to = Math.min(last, Math.max(0, (this.#cursor ?? last) + step));
    this.#plot.setCursor({ left: this.#plot.valToPos(this.#data[0][to], "x"), top: HEIGHT / 2 });
    this.#show(to);
  }
}
