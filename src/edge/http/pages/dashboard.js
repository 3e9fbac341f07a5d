// The dashboard: who looks, and what is shown to them: the form, all open lives, or one live.

import { Rollcall } from "/rollcall.js";
import { Api, path } from "./api.js";
import { authOff, clientOptions, hasApi, identify, takeFragment, writeFragment } from "./credentials.js";
import { byId, say, showOnly } from "./dom.js";
import { LiveView } from "./live.js";
import { OpenLives } from "./lives.js";
import { onLanguage, problemText, startLanguages, t } from "./words.js";

/** What the button of a newcomer opens. */
const DEMO = { user: "demo-streamer", role: "streamer", live: "demo" };

const sections = [byId("sign-in"), byId("overview"), byId("live")];
let client = null;
let view = null;
let crowd = null;
let who = null;
let live = null;

function leaveView() {
  view?.stop();
  crowd?.stop();
  view = crowd = null;
}

function signOut() {
  leaveView();
  client?.close();
  client = who = live = null;
  byId("token").value = "";
  writeFragment({});
  draw();
}

/** Shows a live, or all lives, to somebody. */
function enter(someone, wanted) {
  leaveView();
  const isSame = client && who?.user === someone.user && who.role === someone.role && who.token === someone.token;
  if (!isSame) {
    client?.close();
    client = null;
  }
  who = someone;
  live = wanted || null;
  writeFragment({ ...who, live });
  const api = new Api(who.token);
  if (live) {
    // A streamer who looks is there, but is no viewer of the live.
    client ??= new Rollcall({ ...clientOptions(who), ...(who.role === "service" ? { count: false } : {}) });
    view = new LiveView({ api, client, live, who });
  } else if (hasApi) {
    view = new OpenLives({ api, show: (id) => enter(who, id) });
  } else {
    say(byId("lives-note"), t("noApi"));
  }
  draw();
  byId(live ? "live-title" : "overview-title").focus();
}

function draw() {
  showOnly(sections, who === null ? byId("sign-in") : live ? byId("live") : byId("overview"));
  byId("sign-out").hidden = who === null;
  byId("all-lives").hidden = who?.role !== "service" || live === null;
  say(byId("who"), who ? who.user : "");
  document.title = live ? `${live} – Rollcall` : "Rollcall";
  byId("try").hidden = !authOff || !hasApi;
  for (const field of document.querySelectorAll("[data-for]")) {
    const fits = field.dataset.for === (authOff ? "off" : "jwt");
    field.hidden = !fits;
    for (const input of field.querySelectorAll("input, select")) input.disabled = !fits;
  }
}

/** Takes what the fragment says; true if it was enough. */
function readFragment() {
  const found = takeFragment();
  const someone = identify(found);
  if (found.live) byId("live-id").value = found.live;
  if (found.token && !someone) say(byId("sign-in-note"), t("badToken"));
  if (!someone || (!found.live && someone.role !== "service")) return false;
  enter(someone, found.live);
  return true;
}

function submit(event) {
  event.preventDefault();
  const [token, user, wanted] = ["token", "user", "live-id"].map((id) => byId(id).value.trim());
  const someone = identify({ token, user, role: byId("role").value });
  if (!someone) return say(byId("sign-in-note"), t("badToken"));
  if (!wanted && someone.role !== "service") return say(byId("sign-in-note"), t("needLive"));
  say(byId("sign-in-note"), "");
  byId("token").value = "";
  enter(someone, wanted);
}

/** One click for somebody who has just started a gateway: a live, and viewers who come and go in it. */
async function startDemo() {
  try {
    await new Api().put(path`/v1/lives/${DEMO.live}`, { streamer_id: DEMO.user, title: "Demo" });
    enter(DEMO, DEMO.live);
    const { Crowd } = await import("./crowd.js");
    // The reader may have gone elsewhere meanwhile.
    if (live !== DEMO.live) return;
    crowd = new Crowd(DEMO.live, showCrowd);
    byId("crowd").hidden = false;
    byId("crowd-stop").onclick = () => crowd?.stop();
    await crowd.run();
  } catch (error) {
    say(byId("sign-in-note"), problemText(error));
  }
}

function showCrowd({ joined, wanted, refused, over }) {
  const refusals = refused.map(([why, n]) => t("crowdRefused", { n, why }));
  say(byId("crowd-text"), [t("crowd", { joined, wanted }), ...refusals].join(" "));
  byId("crowd").hidden = over;
}

onLanguage(() => view?.speak());
startLanguages();
byId("sign-in-form").addEventListener("submit", submit);
byId("sign-out").addEventListener("click", signOut);
byId("all-lives").addEventListener("click", () => enter(who, null));
byId("try-button").addEventListener("click", startDemo);
addEventListener("hashchange", () => readFragment());
if (!readFragment()) draw();
