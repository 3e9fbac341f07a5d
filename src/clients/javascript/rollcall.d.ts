/** The types of rollcall.js. docs/websocket.md says what the messages mean. */

export type Role = "viewer" | "streamer" | "service";

/** Null says as much as undefined: not given. A value of another type throws a RollcallError, invalid_option. */
export interface Options {
  /** The gateway, as in https://example.org or https://example.org/rollcall; default: where the page comes from. */
  url?: string | URL | null;
  /**
   * A token, or a hook that answers one, or null if nobody is signed in. A hook is asked before each connection, and
   * before its last token ends. A hook that fails is asked again later. What cannot be a token ends the client with
   * the reason invalid_token.
   */
  token?: string | Hook | null;
  /** With --auth off: who connects. */
  userId?: string | null;
  /**
   * True: without a token and a userId the client is a guest, a viewer without an account. The gateway must run with
   * --guests on. A page keeps the guest in its local storage. When somebody signs in, `signIn` turns the guest into
   * that user.
   */
  guest?: boolean | null;
  role?: Role | null;
  /** With false the socket takes part, and is in no figure and no list. A token must say so, except with --auth off. */
  count?: boolean | null;
  /** True is the same as count: false. */
  invisible?: boolean | null;
  /** False sends no heartbeats; the gateway's Pings then keep the user present, without acks. */
  heartbeat?: boolean | null;
  /**
   * How to connect: "socket", a WebSocket only; "http", without one; "auto", the default, a WebSocket where one opens,
   * and without one elsewhere.
   */
  way?: "auto" | Way | null;
  /** In place of the global ones. */
  WebSocket?: typeof WebSocket | null;
  fetch?: typeof fetch | null;
}

export type Way = "socket" | "http";

export type Hook = (why: "connect" | "refresh" | "expired") => string | null | Promise<string | null>;

export type Status =
  | { state: "idle" | "connecting" }
  | { state: "open"; way: Way }
  /** The next attempt is at `retry_at`, in Unix milliseconds; with the reason page_left, when the page is back. */
  | { state: "waiting"; reason: string; message: string; retry_at: number }
  /** The client does not come back by itself: it was closed, removed, or refused for good. */
  | { state: "closed"; reason: string; message: string };

export type Quality = "exact" | "partial" | "stale";

/** What a `<video>` or an `<audio>` has. */
export interface Playing {
  readonly paused: boolean;
  readonly ended: boolean;
  readonly readyState: number;
  addEventListener(type: string, listener: () => void): void;
  removeEventListener(type: string, listener: () => void): void;
}

/** What names the request that a message answers. */
export interface Answer {
  id?: string | number;
}

export interface Info {
  info?: unknown;
  info_version?: number;
}

export interface Welcome {
  type: "welcome";
  /** Only through a WebSocket, like the next two. */
  user_id?: string;
  gateway_id?: string;
  /** Names this socket in the gateway's log. */
  socket_id?: string;
  heartbeat_ms: number;
  timeout_ms: number;
}

export interface Joined extends Info, Answer {
  type: "joined";
  live_id: string;
  streamer_id: string;
  viewers: number;
  fans: number;
  /** Guests among the viewers. */
  guests: number;
  /** What the user may do in the live beside watching it. */
  you?: UserRights;
}

export interface HeartbeatAck extends Info, Answer {
  type: "heartbeat_ack";
  live_id: string | null;
  fan: boolean | null;
  viewers: number | null;
  fans: number | null;
  guests: number | null;
  heartbeat_ms: number;
}

export interface Counts extends Info, Answer {
  type: "counts";
  live_id: string;
  epoch: number;
  seq: number;
  viewers: number;
  fans: number;
  /** Guests among the viewers. */
  guests: number;
  peak_viewers: number;
  peak_fans: number;
  opened_at: number;
  as_of: number;
  quality: Quality;
  /** Viewers who look elsewhere; they are in `viewers` too. */
  away: number;
  /** Viewers of whom a client says that the picture plays and can be seen. */
  watching: number;
  /** Viewers whom a back end confirmed within the last minute; absent while that is nobody. */
  confirmed?: number;
  /** How often somebody came and went, since the live opened. */
  joins: number;
  leaves: number;
  /** What a media server has of it; absent if none told of a stream. */
  stream?: Stream;
}

export interface Stream {
  state: "live" | "lost";
  began_at: number;
  /** When the live closes if the stream stays lost. */
  closes_at?: number;
}

export interface Closed extends Answer {
  type: "closed";
  live_id: string;
  /** "unknown" if the live closed while this client was not connected; the figures are then absent. */
  reason: string;
  peak_viewers?: number;
  peak_fans?: number;
  duration_ms?: number;
}

export interface Friends {
  type: "friends";
  live_id: string;
  count: number;
  user_ids: string[];
  partial: boolean;
}

/** What the user may do in the live beside watching it. */
export interface UserRights {
  moderator: boolean;
  host: boolean;
}

/** What the user may do in the live has changed. */
export interface You {
  type: "you";
  live_id: string;
  moderator: boolean;
  host: boolean;
}

export interface Left extends Answer {
  type: "left";
  live_id: string;
}

export interface Unwatched extends Answer {
  type: "unwatched";
  /** Null if all lives were meant. */
  live_id: string | null;
}

export interface Opened extends Answer {
  type: "opened";
  live_id: string;
  epoch: number;
  slices: number;
}

export interface Refreshed extends Answer {
  type: "refreshed";
  /** Unix milliseconds; null over HTTP if the token does not say. */
  expires_at: number | null;
}

export interface Reconnect {
  type: "reconnect";
  after_ms: number;
}

export interface ErrorMessage extends Answer {
  type: "error";
  code: string;
  message: string;
  /** The live of the request that was refused. */
  live_id?: string;
  /** When another try may succeed, if a gateway said so over HTTP. */
  retry_after_ms?: number;
  /** Of a ban of the streamer or of the platform: its end in Unix milliseconds, and why. */
  ban_ends_at?: number;
  ban_reason?: string;
}

export interface Events {
  state: Status;
  welcome: Welcome;
  joined: Joined;
  heartbeat_ack: HeartbeatAck;
  counts: Counts;
  friends: Friends;
  you: You;
  closed: Closed;
  left: Left;
  unwatched: Unwatched;
  opened: Opened;
  refreshed: Refreshed;
  reconnect: Reconnect;
  error: ErrorMessage;
}

export declare class RollcallError extends Error {
  /** A code of the gateway, or disconnected, timeout, superseded, invalid_option, invalid_token, cannot_connect. */
  readonly code: string;
  /** When another try may succeed, if a gateway said so over HTTP. */
  readonly retry_after_ms?: number;
}

export declare class Rollcall extends EventTarget {
  constructor(options?: Options | null);
  readonly status: Status;
  /** How the client is connected; null while it is not. */
  readonly way: Way | null;
  /** Hears what the gateway says, and each change of the status; returns how to stop that. */
  on<Type extends keyof Events>(type: Type, listener: (detail: Events[Type]) => void): () => void;
  /** Connects. Everything else does so by itself. */
  connect(): void;
  /** Leaves, stops watching, and ends the connection cleanly. */
  close(): void;
  /** Joins a live, and again after each reconnect, until it closes or is left. */
  join(live_id: string, wish?: { friends?: boolean | null; counts?: boolean | null } | null): Promise<Joined>;
  leave(): Promise<void>;
  /** The counts of a live, the newest whenever the loop asks, and at last `closed`. Leaving the loop ends the watch. */
  watch(live_id: string, how?: { signal?: AbortSignal | null } | null): AsyncGenerator<Counts | Closed, void, void>;
  openLive(
    live_id: string,
    how?: { streamer_id?: string | null; slices?: number | null } | null,
  ): Promise<Opened>;
  closeLive(live_id: string): Promise<Closed>;
  /**
   * Asks for a token now: somebody signed in, and the hook answers that user's token. A guest becomes the user on the
   * same socket, without leaving the live. Without a hook, `token` is the one to use from now on.
   */
  signIn(token?: string | null): Promise<void>;
  /** The user looks elsewhere, or is back. Pages need not say it: their visibility does. */
  away(): void;
  back(): void;
  /**
   * What says that the user watches, while the page is visible: a `<video>` that plays, true or false. Without it, or
   * with null, a page watches while it is visible, and a program without a page does not.
   */
  watching(what?: Playing | boolean | null): void;
  /** Sends any message; its answer, or a RollcallError. */
  request(message: { type: string; [field: string]: unknown }): Promise<{ type: string; [field: string]: unknown }>;
}

/** When a token ends, in Unix milliseconds; null if it does not say. */
export declare function expiryOf(token: string): number | null;
