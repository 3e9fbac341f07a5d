//! Rollcall: a live-stream room presence gateway. This page is the map of the code.
//!
//! Viewers keep a WebSocket open. Rollcall knows which of them follow the streamer, and keeps in
//! Redis the sets of the viewers and of the fans who are online now. `docs/how-it-works.md`
//! explains the protocol, `docs/how-lives-work.md` and `docs/how-users-work.md` what is built on it,
//! and `docs/contributing.md` says which files a change touches.
//!
//! # The house
//!
//! The **core** knows who is in a live, and sees that Redis knows it: the layers up to `cli`. Lowest first.
//! A folder imports only from lower layers; `tests/tidy.rs` checks that. State lies in a lower layer
//! than the loops that work on it.
//!
//! - [`base`]: the types that all other layers need: ids, the clock, metrics, secrets.
//! - [`config`]: the settings, from flags, environment and file.
//! - [`auth`]: tokens, API keys, and the table of who may do what.
//! - [`store`]: the boundary to the store, a trait per noun, with two implementations: memory and
//!   Redis.
//! - [`presence`]: the users in each live on this gateway, and what the gateway knows of its peers.
//!   State only.
//! - `peers`: the messages that gateways send each other over pub/sub, and [`peers::core::Core`],
//!   which nearly every task of a gateway holds.
//! - `dashboards`: decides when counts go out to the sockets that watch a live.
//! - `sync`: the loops that write the state of this gateway to the store, and read the state of the
//!   store.
//! - [`session`]: one WebSocket, from the welcome to the close; sessions without a socket.
//! - [`edge`]: the way in: the listener, admission, authentication, the HTTP API.
//! - [`cli`]: the commands other than `serve`.
//! - [`features`]: what stands on the core: a folder each, with its store calls, loops and routes.
//!   **The core imports none of them.** It tells them what happens through `sync/features.rs`. Their
//!   questions are answered at the head of their folders.
//! - [`gateway`]: the wiring of both. It makes the parts, starts them and stops them.
//!
//! `clients` is no layer: it has the clients for apps, in JavaScript and in Python.
//!
//! ```text
//!  edge ──▶ session ──▶ presence ──▶ sync ──▶ store (Redis or memory)
//!                          │  ▲                 │
//!                          │  └──── peers ◀─────┘  what other gateways tell
//!                          └─▶ dashboards ──▶ the sockets that watch
//! ```
//!
//! # Where to look
//!
//! | question | file in `src` |
//! | --- | --- |
//! | **a client** | |
//! | where is a token checked, and who may do what? | `auth/tokens.rs`, `auth/permissions.rs` |
//! | who comes in, and who is told to come back later? | `edge/listener.rs`, `edge/admission.rs` |
//! | which HTTP route is where? | `edge/http/routes.rs`; each feature adds its own |
//! | what may a client send, and what is it told? | `session/messages.rs` |
//! | what does a heartbeat do? | `session/heartbeat.rs`; it ends in `presence/conn.rs` |
//! | why was I disconnected? | `session/close_codes.rs` |
//! | who is a guest, and how does a guest sign in? | `auth/guest_token.rs`; `presence/sign_ins.rs` |
//! | how does a viewer without a WebSocket take part? | `session/socketless/` |
//! | what do people see in a browser? | `edge/http/pages/` |
//! | **who is in a live** | |
//! | which seats does a room have? | `presence/room.rs`, `presence/seats.rs` |
//! | who knows whether a viewer is a fan? | `store/fans.rs`, asked by `sync/fan_check.rs` |
//! | what is written to the store, and when? | `presence/desired_state.rs` says what, `sync/flush.rs` when |
//! | is what Redis holds for this gateway right? | `sync/check.rs`; `presence/checks.rs` for when it is looked at |
//! | what if a gateway dies? | `sync/lease.rs` buries it, `sync/walk.rs` has `sync/pass.rs` take out its claims |
//! | what if the sets are written to, or Redis loses data? | `sync/pass.rs`, `store/redis/scripts/prelude/fences.lua` |
//! | when do counts update, and how far are they to be trusted? | `dashboards/counts.rs`, `presence/trust.rs` |
//! | who is kept out of a live? | `presence/bans.rs`, `sync/removals.rs` |
//! | who is kept out of all, who moderates? | `presence/rules.rs`, told by `features/moderation/` |
//! | whom do other users not see in lists? | `edge/http/hidden.rs` |
//! | who is online on the platform? | `presence/platform.rs`, `store/online_users.rs` |
//! | **a live** | |
//! | how does a live open, change and end? | `sync/lives/opening.rs`, `sync/live_changes.rs`, `sync/lives/closing.rs` |
//! | what is told to features? | `sync/features.rs` |
//! | what goes into the stream of events? | `sync/events.rs`; `store/events.rs` says why nothing is lost |
//! | **Redis and the other gateways** | |
//! | what is in Redis? | `store/redis/keys.rs` |
//! | what if Redis is down, or a node of it? | `store/redis/watchdog.rs`, `store/redis/topology.rs` |
//! | what do gateways tell each other? | `peers/message.rs` |
//! | **an operator** | |
//! | which setting, which metric is that? | `config/settings.rs`, `base/metrics.rs` |
//! | what is read again while the gateway runs? | `edge/reload.rs` |
//! | which tasks run, and how does a gateway stop? | `gateway/mod.rs`, `session/drain.rs` |
//! | which features are there, and where are they wired? | `features/mod.rs` |
//! | how is a store inspected from outside? | `features/audit/`, `features/explain/`, `cli/` |
//!
//! # What is deliberately absent
//!
//! - **No store call for a heartbeat.** A heartbeat is one relaxed write to memory. A gateway calls
//!   the store for joins, for leaves, and for its one lease.
//! - **No refresh of unchanged state.** Between changes a gateway writes nothing about a live,
//!   except once an hour to renew lifetimes. It checks each live once a minute, and at once when
//!   there is reason for doubt.
//! - **No queue of changes.** A gateway keeps in memory the state that the store should hold. After
//!   a failed call the flusher makes a new call from the present state.
//! - **No counter without claims.** Gateways pass on absolute values only. Only the scripts add up
//!   joins and leaves, in the step that changes claims, and each call compares the result with the
//!   number of claims.
//! - **No search for what is wrong in the claims.** If they are not what the scripts counted, the
//!   slice forgets all of them, and each gateway says again whom it holds. The sets that others
//!   read stay meanwhile.
//! - **No clock of the store in any decision about who lives.** A lease is a count that moves, and
//!   each observer judges it by its own clock.
//! - **No way back for a buried gateway.** It continues under a new id, so a sweep of the old id
//!   removes nothing that it holds now.
//! - **No message about a record without a write.** The script that writes also publishes. A
//!   gateway that was cut off reads the changes that it missed.
//! - **No store call in [`presence`]**, and no map guard outside the file that owns the map.
//! - **No retry inside the store**, or inside a source of fans. A call is one attempt with a
//!   deadline, and its caller decides whether to retry.
//! - **No task per timer.** The timer wheel of `base/timer_wheel.rs` holds sockets and rooms, and
//!   each is looked at when it comes out.

pub mod auth;
pub mod base;
pub mod cli;
pub mod config;
pub(crate) mod dashboards;
pub mod edge;
pub mod features;
pub mod gateway;
pub(crate) mod peers;
pub mod presence;
pub mod session;
pub mod store;
pub(crate) mod sync;
#[cfg(any(test, fuzzing))]
pub mod testing;
