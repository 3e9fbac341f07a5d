// What the pages say, in English and Chinese, and how they write numbers and times.

import { keep, recall } from "./dom.js";

const EN = {
  language: "Language",
  signIn: "Show a live",
  signOut: "Sign out",
  allLives: "All open lives",
  token: "Token",
  tokenHint: "Your platform gives it to you. It stays in this page's memory, and nowhere else.",
  user: "User",
  role: "Role",
  roleStreamer: "streamer",
  roleService: "service (sees all lives)",
  live: "Live",
  liveHint: "Empty: all open lives, for a service.",
  show: "Show",
  badToken: "This is not a token.",
  needLive: "Say which live.",
  tryIt: "Try it out",
  tryHint: "Opens the live “demo” and lets 200 simulated viewers come and go in it.",
  tryButton: "Start a demo with 200 viewers",
  stopCrowd: "Stop the simulated viewers",
  viewerPage: "Open a viewer page",
  crowd: "Simulated viewers: {joined} of {wanted} in the live.",
  crowdRefused: "The gateway refused {n}: {why}.",
  viewers: "Viewers",
  fans: "Fans",
  peak: "peak {n}",
  away: "{n} away",
  watching: "{n} watching",
  guests: "{n} guests",
  joins: "Joins per minute",
  leaves: "Leaves per minute",
  onAir: "on air for {time}",
  streamLost: "stream lost",
  streamLostClosing: "stream lost, closing in {s} s",
  streamer: "streamer {id}",
  chart: "The stream so far",
  chartHint: "Viewers and fans over time. Arrow keys move along the line.",
  chartAt: "{time}: viewers {viewers}, fans {fans}",
  fansOnline: "Fans online",
  search: "Find by the beginning of the id",
  noFans: "No fan is online.",
  noneFound: "No fan online has an id that begins so.",
  more: "Show more",
  first: "Only the first {n} are shown.",
  moderate: "Remove…",
  moderateWho: "Remove or ban {id}",
  removeSomebody: "Remove somebody…",
  removeHint: "Every socket of the user in this live is closed.",
  ban: "Come back",
  ban0: "may come back at once",
  ban600: "not for 10 minutes",
  ban3600: "not for an hour",
  ban86400: "not for a day",
  remove: "Remove",
  cancel: "Cancel",
  removed: "{id} was removed.",
  ownLive: "This is the streamer's own live: close it instead.",
  banned: "{id} was removed, and is banned until {time}.",
  bans: "Banned",
  noBans: "Nobody is banned.",
  until: "until {time}",
  lift: "Lift",
  liftOf: "Lift the ban of {id}",
  lifted: "{id} may come back.",
  open: "Open the live",
  close: "Close the live",
  closeAsk: "Close the live {id}?",
  closeHint: "Every viewer is told that it is over. This cannot be undone.",
  liveTitle: "Title",
  notOpen: "This live is not open.",
  closed: "This live is over.",
  reason_requested: "Somebody closed it.",
  reason_streamer_timeout: "The streamer was away for too long.",
  reason_moderated: "A moderator closed it.",
  reason_stream_ended: "The stream was over.",
  reason_unknown: "It closed while this page was not connected.",
  summary: "Peaks: viewers {viewers}, fans {fans}. On air for {time}.",
  unique: "Different viewers {viewers}, different fans {fans}.",
  watched: "Viewer-minutes {n}.",
  past: "Past lives",
  noPast: "None is remembered.",
  opened: "Opened",
  duration: "Duration",
  peaks: "Peaks (viewers / fans)",
  uniques: "Different (viewers / fans)",
  lives: "Open lives",
  noLives: "No live is open.",
  asOf: "As of {time}.",
  oldAsOf: "Old figures, as of {time}.",
  incomplete: "may be incomplete",
  sort: "Order",
  byViewers: "by viewers",
  byFans: "by fans",
  byAge: "oldest first",
  noApi: "This port has no HTTP API, so nothing can be listed or changed here.",
  s_connecting: "Connecting…",
  s_exact: "Connected. The figures are exact.",
  s_partial: "Connected. A part of the system does not answer: the figures may be incomplete.",
  s_stale: "The store does not answer. Old figures, as of {time}.",
  s_waiting: "No connection. Old figures, as of {time}.",
  s_waitingNew: "No connection.",
  retry: "next attempt in {s} s",
  s_closed: "Not connected: {why}",
  s_reload: "Reload the page to connect again.",
  e_forbidden: "This user may not see this live.",
  e_unauthorized: "The token is not good.",
  e_token_expired: "The token has expired.",
  e_removed: "A moderator removed this user.",
  e_too_many_sockets: "This user has too many connections.",
  e_invalid_id: "Not an id.",
  e_live_owned: "Another streamer opened a live of this name.",
  e_banned: "This user is banned from the live.",
  e_live_not_open: "This live is not open.",
  e_network: "The gateway does not answer.",
  now: "Viewers {viewers}, fans {fans}.",
};

const ZH = {
  language: "语言",
  signIn: "查看直播",
  signOut: "退出",
  allLives: "所有直播",
  token: "令牌",
  tokenHint: "由您的平台提供。它只保存在本页面的内存中。",
  user: "用户",
  role: "角色",
  roleStreamer: "主播",
  roleService: "服务（可查看所有直播）",
  live: "直播",
  liveHint: "留空则显示所有直播（仅限服务角色）。",
  show: "查看",
  badToken: "这不是有效的令牌。",
  needLive: "请填写直播编号。",
  tryIt: "试一试",
  tryHint: "开启名为“demo”的直播，并让 200 名模拟观众进出。",
  tryButton: "开始 200 名观众的演示",
  stopCrowd: "停止模拟观众",
  viewerPage: "打开观众页面",
  crowd: "模拟观众：{wanted} 人中已有 {joined} 人在直播间。",
  crowdRefused: "网关拒绝了 {n} 个连接：{why}。",
  viewers: "观众",
  fans: "粉丝",
  peak: "峰值 {n}",
  away: "{n} 人离开页面",
  watching: "{n} 人在看画面",
  guests: "{n} 位访客",
  joins: "每分钟进入",
  leaves: "每分钟离开",
  onAir: "已直播 {time}",
  streamLost: "推流中断",
  streamLostClosing: "推流中断，{s} 秒后结束",
  streamer: "主播 {id}",
  chart: "直播走势",
  chartHint: "观众和粉丝人数随时间的变化。用方向键沿曲线移动。",
  chartAt: "{time}：观众 {viewers}，粉丝 {fans}",
  fansOnline: "在线粉丝",
  search: "按编号开头查找",
  noFans: "没有粉丝在线。",
  noneFound: "没有符合的在线粉丝。",
  more: "显示更多",
  first: "仅显示前 {n} 项。",
  moderate: "移出…",
  moderateWho: "移出或封禁 {id}",
  removeSomebody: "移出某位用户…",
  removeHint: "该用户在本直播的所有连接都会被关闭。",
  ban: "再次进入",
  ban0: "可以立即返回",
  ban600: "10 分钟内不可",
  ban3600: "1 小时内不可",
  ban86400: "1 天内不可",
  remove: "移出",
  cancel: "取消",
  removed: "已移出 {id}。",
  ownLive: "这是该主播自己的直播：请改为结束直播。",
  banned: "已移出 {id}，封禁至 {time}。",
  bans: "封禁名单",
  noBans: "没有被封禁的用户。",
  until: "至 {time}",
  lift: "解除",
  liftOf: "解除对 {id} 的封禁",
  lifted: "{id} 可以返回了。",
  open: "开播",
  close: "结束直播",
  closeAsk: "结束直播 {id}？",
  closeHint: "所有观众都会收到通知。此操作无法撤销。",
  liveTitle: "标题",
  notOpen: "该直播未开启。",
  closed: "直播已结束。",
  reason_requested: "有人结束了直播。",
  reason_streamer_timeout: "主播离开时间过长。",
  reason_moderated: "管理员结束了直播。",
  reason_stream_ended: "推流已结束。",
  reason_unknown: "直播在本页面断线期间结束。",
  summary: "峰值：观众 {viewers}，粉丝 {fans}。直播时长 {time}。",
  unique: "独立观众 {viewers}，独立粉丝 {fans}。",
  watched: "观看 {n} 人分钟。",
  past: "历史直播",
  noPast: "没有记录。",
  opened: "开播时间",
  duration: "时长",
  peaks: "峰值（观众 / 粉丝）",
  uniques: "独立（观众 / 粉丝）",
  lives: "正在直播",
  noLives: "没有正在进行的直播。",
  asOf: "截至 {time}。",
  oldAsOf: "旧数据，截至 {time}。",
  incomplete: "可能不完整",
  sort: "排序",
  byViewers: "按观众数",
  byFans: "按粉丝数",
  byAge: "最早优先",
  noApi: "此端口没有 HTTP API，无法列出或修改。",
  s_connecting: "正在连接…",
  s_exact: "已连接，数据准确。",
  s_partial: "已连接。系统的一部分没有响应，数据可能不完整。",
  s_stale: "存储没有响应。旧数据，截至 {time}。",
  s_waiting: "连接已断开。旧数据，截至 {time}。",
  s_waitingNew: "连接已断开。",
  retry: "{s} 秒后重试",
  s_closed: "未连接：{why}",
  s_reload: "刷新页面以重新连接。",
  e_forbidden: "该用户无权查看此直播。",
  e_unauthorized: "令牌无效。",
  e_token_expired: "令牌已过期。",
  e_removed: "管理员移出了该用户。",
  e_too_many_sockets: "该用户的连接过多。",
  e_invalid_id: "编号无效。",
  e_live_owned: "其他主播已开启同名直播。",
  e_banned: "该用户已被此直播封禁。",
  e_live_not_open: "该直播未开启。",
  e_network: "网关没有响应。",
  now: "观众 {viewers}，粉丝 {fans}。",
};

export const LANGUAGES = { en: { words: EN, tag: "en" }, zh: { words: ZH, tag: "zh-CN" } };
const KEPT = "rollcall-language";

let chosen = "en";
const listeners = new Set();

/** The text of a key, with values filled in. */
export function t(key, values = {}) {
  const text = LANGUAGES[chosen].words[key] ?? EN[key] ?? key;
  return text.replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all);
}

/** What to say about an error of the gateway: our words if there are some, else its own. */
export function problemText({ code, message }) {
  return `e_${code}` in EN ? t(`e_${code}`) : message ?? code;
}

export const number = (n) => new Intl.NumberFormat(LANGUAGES[chosen].tag).format(n);

export const clock = (ms) => new Date(ms).toLocaleTimeString(LANGUAGES[chosen].tag, { hour12: false });

export const dateTime = (ms) =>
  new Date(ms).toLocaleString(LANGUAGES[chosen].tag, { dateStyle: "short", timeStyle: "short", hour12: false });

/** Hours, minutes and seconds. */
export function span(ms) {
  const s = Math.max(0, Math.floor(ms / 1_000));
  const two = (n) => String(n).padStart(2, "0");
  return `${Math.floor(s / 3_600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

/** Calls `redraw` whenever another language is chosen. */
export const onLanguage = (redraw) => listeners.add(redraw);

function choose(language) {
  chosen = language;
  document.documentElement.lang = LANGUAGES[language].tag;
  for (const element of document.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
  for (const element of document.querySelectorAll("[data-t-label]")) {
    element.setAttribute("aria-label", t(element.dataset.tLabel));
  }
  for (const button of document.querySelectorAll("[data-language]")) {
    button.setAttribute("aria-pressed", String(button.dataset.language === language));
  }
  listeners.forEach((redraw) => redraw());
}

/** Takes the language that was chosen before, or the browser's, and lets the reader choose another. */
export function startLanguages() {
  const [wanted] = [recall("localStorage", KEPT), ...navigator.languages].filter(Boolean);
  choose(wanted?.startsWith("zh") ? "zh" : "en");
  for (const button of document.querySelectorAll("[data-language]")) {
    button.addEventListener("click", () => {
      keep("localStorage", KEPT, button.dataset.language);
      choose(button.dataset.language);
    });
  }
}
