// A viewer's app in one page, for trying a gateway with --auth off: be anybody, join, follow, see who is there.

import { Rollcall } from "/rollcall.js";
import { Api, path } from "./api.js";
import { hasApi, takeFragment } from "./credentials.js";
import { Crowd } from "./crowd.js";
import "./demo-words.js";
import { byId, keep, make, recall, say, showList } from "./dom.js";
import { clock, number, onLanguage, problemText, startLanguages, t } from "./words.js";

const DEMO = { live: "demo", streamer: "demo-streamer" };
const WAYS = ["auto", "socket", "http"];
const LOG = 50;
const LOGGED = ["welcome", "joined", "heartbeat_ack", "counts", "friends", "closed", "left", "error", "reconnect"];
const LOOK_FOR_LIVES = 5_000;

const api = new Api();
const log = [];
let client = null;
let place = null;
/** What went wrong last, or why the viewer is in no live. */
let note = "";
/** There is no connection, though one is wanted; until when there was, and how far to trust the figures then. */
let lost = false;
let heardAt = 0;
let quality = "exact";
let ack = null;
let fan = null;
let friends = [];
let crowd = null;
let crowdTold = null;

function connect(user) {
  client?.close();
  lost = false;
  client = new Rollcall({ userId: user, way: byId("way").value });
  for (const type of LOGGED) {
    client.on(type, (message) => {
      log.unshift(`${clock(Date.now())} ${JSON.stringify(message)}`);
      log.length = Math.min(log.length, LOG);
      say(byId("log"), log.join("\n"));
    });
  }
  client.on("counts", showFigures);
  client.on("joined", (joined) => {
    place = joined;
    note = "";
    showFigures(joined);
  });
  client.on("heartbeat_ack", (message) => {
    if (message.live_id === null) return;
    ack = { ...message, at: Date.now() };
    fan = message.fan;
    showFigures(message);
  });
  client.on("friends", ({ user_ids }) => {
    friends = user_ids;
    draw();
  });
  client.on("left", () => left(""));
  // The live did not take this viewer back after a reconnect.
  client.on("error", (error) => error.live_id && error.live_id === place?.live_id && left(problemText(error)));
  client.on("closed", () => left(t("closed")));
  client.on("state", ({ state, reason, message }) => {
    // Attempts come and go; until one succeeds, there is no connection.
    if (state !== "connecting") lost = state === "waiting";
    draw();
    if (state === "closed" && reason !== "requested") left(problemText({ code: reason, message }));
  });
}

function showFigures({ viewers, fans, ...more }) {
  heardAt = Date.now();
  quality = more.quality ?? quality;
  say(byId("viewers"), number(viewers));
  say(byId("fans"), number(fans));
  draw();
}

function left(why) {
  place = ack = fan = null;
  friends = [];
  say(byId("viewers"), "–");
  say(byId("fans"), "–");
  note = why;
  draw();
}

function placeText() {
  if (lost) return place ? t("s_waiting", { time: clock(heardAt) }) : t("s_waitingNew");
  return note || (place ? t("inLive", { id: place.live_id }) : t("notIn"));
}

function draw() {
  byId("room").dataset.trust = lost ? "waiting" : quality;
  say(byId("place"), placeText());
  say(byId("way-used"), client?.way ? t(client.way === "http" ? "usesHttp" : "usesSocket") : "");
  say(byId("fan"), place ? t(fan === null ? "fanUnknown" : fan ? "fanYes" : "fanNo") : "");
  const said = ack && { time: clock(ack.at), viewers: number(ack.viewers), fans: number(ack.fans) };
  say(byId("ack"), said ? t("ackAt", said) : t("noAck"));
  byId("leave").disabled = !place;
  byId("follow").disabled = !place || !hasApi || fan === true;
  byId("unfollow").disabled = !place || !hasApi || fan === false;
  showList(byId("friends"), friends, (user) => user, (user) => make("li", { className: "id", textContent: user }));
  say(byId("friends-note"), place && !friends.length ? t("noFriends") : "");
  const user = byId("user").value;
  const live = byId("live-id").value || DEMO.live;
  byId("same-user").href = `/demo#${new URLSearchParams({ user, live, way: byId("way").value, join: 1 })}`;
  const looks = place ? { user: place.streamer_id, role: "streamer" } : { user: "admin", role: "service" };
  byId("dashboard").href = `/#${new URLSearchParams({ ...looks, live })}`;
  say(byId("open-demo"), t("openDemo", { id: DEMO.live }));
}

async function join(event) {
  event?.preventDefault();
  const user = byId("user").value.trim();
  const live = byId("live-id").value.trim();
  keep("sessionStorage", "user", user);
  connect(user);
  try {
    await client.join(live, { counts: true, friends: true }).catch((error) => {
      // A gateway with --track-online off does not know where friends are.
      if (error.code !== "not_available") throw error;
      return client.join(live, { counts: true });
    });
  } catch (error) {
    if (error.code !== "superseded" && error.code !== "requested") left(problemText(error));
  }
}

async function act(call) {
  note = "";
  try {
    await call();
  } catch (error) {
    note = problemText(error);
  }
  draw();
}

const setFollow = (method, user, streamer) => act(() => api[method](path`/v1/users/${user}/following/${streamer}`));

async function followStreamer(method) {
  await setFollow(method, byId("user").value.trim(), place.streamer_id);
  // The next answer says whether the gateway knows.
  await act(() => client.request({ type: "heartbeat" }));
}

async function lookForLives() {
  if (!hasApi || document.hidden) return;
  const { items } = await api.get("/v1/lives?limit=50").catch(() => ({ items: [] }));
  const lives = items.map((live) => live.live_id);
  showList(byId("open-lives"), lives, (id) => id, (id) => make("option", { value: id }));
  byId("open-first").hidden = lives.length > 0;
  if (!byId("live-id").value && lives.length) byId("live-id").value = lives[0];
  draw();
}

async function openDemo() {
  await act(() => api.put(path`/v1/lives/${DEMO.live}`, { streamer_id: DEMO.streamer, title: "Demo" }));
  byId("live-id").value = DEMO.live;
  await lookForLives();
}

async function simulate() {
  if (!byId("live-id").value) await openDemo();
  byId("simulate").disabled = true;
  byId("stop").disabled = false;
  crowd = new Crowd(byId("live-id").value.trim(), (told) => {
    crowdTold = told;
    drawCrowd();
  });
  try {
    await crowd.run();
  } catch (error) {
    say(byId("crowd-text"), problemText(error));
  }
  byId("simulate").disabled = false;
  byId("stop").disabled = true;
}

function drawCrowd() {
  if (!hasApi) say(byId("crowd-text"), t("noApi"));
  if (!crowdTold) return;
  const refusals = crowdTold.refused.map(([why, n]) => t("crowdRefused", { n, why }));
  say(byId("crowd-text"), [t("crowd", crowdTold), ...refusals].join(" "));
}

onLanguage(draw);
onLanguage(drawCrowd);
startLanguages();
const wanted = takeFragment();
const guest = `guest-${Math.random().toString(36).slice(2, 6)}`;
byId("user").value = wanted.user ?? recall("sessionStorage", "user") ?? guest;
byId("live-id").value = wanted.live ?? "";
if (WAYS.includes(wanted.way)) byId("way").value = wanted.way;
byId("join-form").addEventListener("submit", join);
byId("leave").addEventListener("click", () => act(() => client.leave()));
byId("follow").addEventListener("click", () => followStreamer("put"));
byId("unfollow").addEventListener("click", () => followStreamer("delete"));
byId("friend-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setFollow("put", byId("user").value.trim(), byId("friend").value.trim());
});
byId("open-demo").addEventListener("click", openDemo);
byId("simulate").addEventListener("click", simulate);
byId("stop").addEventListener("click", () => crowd?.stop());
byId("user").addEventListener("input", () => draw());
byId("way").addEventListener("change", () => (place ? join() : draw()));
for (const control of ["simulate", "follow-friend"]) byId(control).disabled = !hasApi;
draw();
await lookForLives();
setInterval(lookForLives, LOOK_FOR_LIVES);
if ("join" in wanted) await join();
if ("simulate" in wanted && hasApi) await simulate();
