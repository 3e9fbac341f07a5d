// The README's tour as an app in TypeScript takes it: the back end with the client that `openapi-typescript` makes of
// the OpenAPI document, the streamer and the viewer with the package.
import createClient from "openapi-fetch";
import { Rollcall, RollcallError, expiryOf, type Closed, type Counts, type HeartbeatAck } from "rollcall-presence";
import type { components, paths } from "./api.js";

declare const process: { argv: string[] };
const [, , url = ""] = process.argv;

const api = createClient<paths>({ baseUrl: url });
const live = { path: { live_id: "42" } };

function has<Data>(answer: { data?: Data; error?: unknown; response: Response }): Data {
  if (answer.data === undefined) throw new Error(`${answer.response.status}: ${JSON.stringify(answer.error)}`);
  return answer.data;
}

function is(what: string, seen: unknown, wanted: unknown): void {
  const [there, expected] = [JSON.stringify(seen), JSON.stringify(wanted)];
  if (there !== expected) throw new Error(`${what}: ${there} instead of ${expected}`);
}

const opened: components["schemas"]["Live"] = has(
  await api.PUT("/v1/lives/{live_id}", { params: live, body: { streamer_id: "s1" } }),
);
is("the live", [opened.live_id, opened.state, opened.streamer_id], ["42", "open", "s1"]);
const follow = { path: { user_id: "u1", streamer_id: "s1" } };
const followed = has(await api.PUT("/v1/users/{user_id}/following/{streamer_id}", { params: follow }));
is("the follow", [followed.follows, followed.changed], [true, true]);

const streamer = new Rollcall({ url, userId: "s1", role: "streamer" });
const dashboard = (async (): Promise<[Counts | null, Closed | null]> => {
  let fullest: Counts | null = null;
  for await (const message of streamer.watch("42")) {
    if (message.type === "closed") return [fullest, message];
    if (message.fans >= (fullest?.fans ?? 0)) fullest = message;
  }
  return [fullest, null];
})();

const viewer = new Rollcall({ url, userId: "u1" });
const becomesFan = new Promise<HeartbeatAck>((resolve) => {
  viewer.on("heartbeat_ack", (ack) => ack.fan && ack.fans === 1 && resolve(ack));
});
const viewerHears = new Promise<Closed>((resolve) => viewer.on("closed", resolve));
const joined = await viewer.join("42");
is("joined", [joined.live_id, joined.streamer_id, joined.viewers], ["42", "s1", 1]);
is("the way", viewer.way, "socket");
const { viewers, fan } = await becomesFan;
is("the heartbeat", [viewers, fan], [1, true]);

const fans = has(await api.GET("/v1/lives/{live_id}/fans", { params: live }));
is("the fans", fans.items.map(({ user_id }) => user_id), ["u1"]);
const online = { path: { live_id: "42", user_id: "u1" } };
is("one fan", has(await api.GET("/v1/lives/{live_id}/fans/{user_id}", { params: online })).online, true);
is("the fans, as a page", fans.cursor ?? null, null);

const unknown = await api.GET("/v1/lives/{live_id}", { params: { path: { live_id: "nope" } } });
is("what there is not", [unknown.response.status, unknown.error?.code], [404, "live_not_found"]);
const refused: unknown = await viewer.join("nope").catch((error: unknown) => error);
is("what is not open", refused instanceof RollcallError && refused.code, "live_not_open");
is("a token's end", expiryOf("e30.eyJleHAiOjE3fQ.c2ln"), 17_000);

const closed = has(await api.DELETE("/v1/lives/{live_id}", { params: live }));
is("the closed live", [closed.state, closed.reason], ["closed", "requested"]);
const [fullest, end] = await dashboard;
is("the dashboard", [fullest?.viewers, fullest?.fans, end?.reason, end?.peak_viewers], [1, 1, "requested", 1]);
is("what the viewer hears", (await viewerHears).reason, "requested");
viewer.close();
streamer.close();
console.log("the tour is over");
