// A page with the hook for React: it shows one live, then another one, which closes, then one that is not open, then
// two from which the user is removed, the first time while the connection is lost. Prints what it shows, once it shows
// something new.
import { createElement, StrictMode } from "react";
import { act, create } from "react-test-renderer";
import { Rollcall } from "rollcall-presence";
import { useLive } from "./built/useLive.js";

globalThis.IS_REACT_ACT_ENVIRONMENT = true;
// It says of itself that it is deprecated.
const complain = console.error;
console.error = (first, ...rest) => String(first).includes("react-test-renderer") || complain(first, ...rest);

const client = new Rollcall({ url: process.argv[2], userId: "u1" });

function Live({ liveId }) {
  const { viewers, closed, error } = useLive(client, liveId);
  if (closed) return `${liveId}: over, ${closed.reason}`;
  if (error) return `${liveId}: ${error.code}, ${viewers}`;
  return viewers === null ? "…" : `${liveId}: ${viewers}`;
}

const page = (liveId) => createElement(StrictMode, null, createElement(Live, { liveId }));

let shown;
/** Waits until the page shows what fits. */
async function shows(pattern) {
  while (!pattern.test(shown.toJSON())) await act(() => new Promise((resolve) => { setTimeout(resolve, 20); }));
  console.log(JSON.stringify({ type: "shown", text: shown.toJSON() }));
}

await act(async () => { shown = create(page("42")); });
await shows(/^42: 1/);
await act(async () => shown.update(page("43")));
await shows(/^43: 1/);
await shows(/^43: over/);
await act(async () => shown.update(page("nope")));
await shows(/^nope: /);
for (const live of ["44", "45"]) {
  await act(async () => shown.update(page(live)));
  await shows(/: 1/);
  await shows(/: [a-z]/);
}
await act(async () => shown.unmount());
client.close();
