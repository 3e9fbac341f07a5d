// Rates from totals. The gateway counts joins and leaves since the live opened, so a message that was lost, or an hour
// without a connection, falsifies nothing.

const MINUTE = 60_000;

export class Rates {
  #samples = [];

  /** The totals at a time of the gateway's. */
  add({ at, joins, leaves }) {
    const last = this.#samples.at(-1);
    if (last && at < last.at) return;
    // A smaller total belongs to another opening of the live.
    if (last && (joins < last.joins || leaves < last.leaves)) this.#samples = [];
    this.#samples.push({ at, joins, leaves });
    // One older than a minute stays: it says what the total was then.
    while (this.#samples.length > 1 && this.#samples[1].at <= at - MINUTE) this.#samples.shift();
  }

  /** Takes in what was before `since`, the time of the first sample. */
  load(points, since) {
    const known = this.#samples;
    this.#samples = [];
    for (const sample of [...points.filter(({ at }) => at < since), ...known]) this.add(sample);
  }

  /** How many came and left in the minute before `now`; null while nothing is known. */
  perMinute(now) {
    const last = this.#samples.at(-1);
    if (!last) return null;
    const first = this.#samples.findLast(({ at }) => at <= now - MINUTE) ?? this.#samples[0];
    return { joins: last.joins - first.joins, leaves: last.leaves - first.leaves };
  }

  clear() {
    this.#samples = [];
  }
}
