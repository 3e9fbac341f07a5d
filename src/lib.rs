//! Rollcall: a live-stream room presence gateway. This page is the map of the code.
//!
//! Viewers keep a WebSocket open. Rollcall knows which of them follow the streamer, and keeps in
//! Redis the sets of the viewers and of the fans who are online now. `docs/how-it-works.md`
//! explains the protocol, `docs/how-lives-work.md` and `docs/how-users-work.md` what is built on it,
//! and `docs/contributing.md` says which files a change touches.
//!
//! # The layers
//!
//! Lowest first. A folder imports only from lower layers, which come earlier in this list;
//! `tests/tidy.rs` checks that. State lies in a lower layer than the loops that work on it.
//!
//! - [`base`]: the types that all other layers need: ids, the clock, metrics, secrets.
//! - [`config`]: the settings, from flags, environment and file.
//! - [`auth`]: tokens, API keys, and the table of who may do what.
//! - [`store`]: the boundary to the store, a trait per noun, with two implementations: memory and
//!   Redis.
//! - [`presence`]: the users in each live on this gateway, and what the gateway knows of its peers.
//!   State only.
//! - `peers`: the messages that gateways send each other over pub/sub.
//! - `dashboards`: decides when counts go out to the sockets that watch a live.
//! - `sync`: the loops that write the state of this gateway to the store, and read the state of the
//!   store.
//! - [`session`]: one WebSocket, from the welcome to the close; sessions without a socket.
//! - [`edge`]: the way in: the listener, admission, authentication, the HTTP API.
//! - [`cli`]: the commands other than `serve`. They inspect a store, gateways or the settings from
//!   outside.
//! - [`gateway`]: the wiring. It makes the parts, starts them and stops them.
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
//! | why was I disconnected? | `session/close_codes.rs` |
//! | why was I told to come back later? | `edge/admission.rs` |
//! | what address does a client have behind a proxy? | `edge/client_address.rs` |
//! | which web pages may connect? | `edge/http/browsers.rs` |
//! | where is a token checked? | `auth/tokens.rs`; `auth/permissions.rs` says who may do what |
//! | which expiry, audience and issuer may a token have? | `auth/claims.rs` |
//! | where may a token stand, and how is it read from there? | `edge/credentials.rs`, `auth/presented.rs` |
//! | which keys check tokens, and when do they change? | `auth/keys.rs` reads files, `auth/key_fetcher.rs` asks a URL |
//! | what is read again while the gateway runs, and when? | `edge/reload.rs` |
//! | who may call which HTTP route? | `edge/http/routes.rs` names the action, `edge/http/authorization.rs` asks |
//! | where is a new HTTP route added? | `edge/http/routes.rs` |
//! | what if a client sends the same POST twice? | `edge/http/idempotency.rs`; `store/answers.rs` keeps the answer |
//! | how are the messages of the WebSocket described for programs? | `edge/http/asyncapi.json` |
//! | what is said of a wrong field of a request? | `edge/fields.rs`; `edge/http/known_fields.rs` knows the right ones |
//! | what do people see in a browser? | `edge/http/pages/`, served by `edge/http/pages.rs` |
//! | how does a web app connect, and come back? | `clients/javascript/rollcall.js` |
//! | what does a web app do where no WebSocket opens? | `HttpSocket` in `clients/javascript/rollcall.js` |
//! | how does an app in Python connect and come back? | `clients/python/rollcall/`; `rules.py` says when |
//! | where is a new client message added? | `session/messages.rs` |
//! | how much may one client do? | `session/limits.rs`; `presence/user_sockets.rs` for the sockets of a user |
//! | how much may one user have the store do? | `presence/user_budgets.rs`, over all sockets of the user |
//! | which connections give way to others? | `edge/listener/pending_connections.rs` |
//! | who pays for an HTTP request? | `edge/http/rate_limits.rs`; `edge/http/bill.rs` for what nobody else pays |
//! | how are other HTTP services asked? | `base/http_client.rs` makes every client |
//! | how does a viewer without a WebSocket join, and stay? | `session/socketless/`, called by `edge/http/presence.rs` |
//! | how does another gateway go on with such a session? | `auth/session_claims.rs`: its id tells all |
//! | what keeps a session that left from coming back? | `store/session_ends.rs`, which `sync/session_ends.rs` writes |
//! | with which secret are such ids signed? | `auth/presence_secret.rs`, `session/socketless/shared_secret.rs` |
//! | how does a datagram look? | `edge/datagrams/wire.rs` |
//! | what becomes of a datagram? | `edge/datagrams/responder.rs` |
//! | who pays for a datagram that anybody may have overheard? | `edge/datagrams/strangers.rs` |
//! | what does a hello tell gateways, and who can read it? | `auth/ticket.rs` |
//! | which datagrams has a session sent before? | `session/socketless/datagram_state.rs` |
//! | what does a stream of events send? | `session/socketless/events.rs` |
//! | what if a token expires? | `session/reaper.rs` finds its socket; `session/refresh.rs` takes in a new token |
//! | what does a heartbeat do? | `session/heartbeat.rs`; it ends in `presence/conn.rs` |
//! | when do counts update? | `dashboards/counts.rs`, as often as `presence/throttle.rs` allows |
//! | which timeout is that? | `config/settings.rs` |
//! | which metric is that? | `base/metrics.rs` |
//! | what is logged, and how does that change? | `base/telemetry/log.rs`; `session/spans.rs` for a socket's lines |
//! | what is in Redis? | `store/redis/keys.rs` |
//! | who knows whether a viewer is a fan? | `store/fans.rs`: the store, an HTTP service, a database |
//! | when is a source outside the store asked, and what if it is down? | `sync/fan_asker.rs` and its breaker |
//! | which Redis node is asked? | `store/redis/topology.rs` |
//! | what if Redis is down? | `store/redis/watchdog.rs` decides that it is, `presence/trust.rs` marks the counts |
//! | what is written to the store, and when? | `presence/desired_state.rs` says what, `sync/flush.rs` says when |
//! | is what Redis holds for this gateway right? | `sync/check.rs` |
//! | when is it checked, and what gives reason for doubt? | `presence/checks.rs`, `store/redis/doubts.rs` |
//! | how does a gateway know that another one lives? | `sync/lease.rs`, `presence/gateways.rs` |
//! | what if a gateway dies? | `sync/lease.rs` buries it, `sync/walk.rs` has `sync/pass.rs` take out its claims |
//! | what if another program writes into the sets? | `sync/pass.rs` puts them right |
//! | what if Redis lost what gateways said? | `forget` in `store/redis/scripts/prelude/fences.lua` |
//! | who says again whom a gateway holds, and how fast? | `presence/turn.rs`; `sync/resync_limit.rs` |
//! | do the messages of a gateway arrive? | `store/redis/echo.rs` |
//! | what do gateways tell each other? | `peers/message.rs` |
//! | who writes the counts into a live's record? | `presence/counting.rs` says when, `sync/count.rs` writes |
//! | how did the figures of a live move? | `store/history.rs`; `sync/count.rs` writes the points |
//! | how many came and left? | the scripts count, see `store/slice.rs`; a close adds up, `sync/lives/closing.rs` |
//! | who is away? | `presence/seating.rs`; `presence/tally.rs` adds up |
//! | what is written to the stream of events? | `sync/events.rs`; `store/events.rs` says why nothing is lost |
//! | which event is sent to a webhook next? | `sync/webhooks/backlog.rs`; `sync/webhooks.rs` sends |
//! | which webhooks are there, and with which secrets? | `config/webhooks.rs`, `sync/webhooks/endpoints.rs` |
//! | what was sent to a webhook, and how does it stand? | `store/deliveries.rs`, shown by `edge/http/webhooks.rs` |
//! | who changed what over the API? | `edge/http/audit.rs`; `sync/events/api_events.rs` writes |
//! | how does an open live change? | `sync/live_changes.rs`; a back end changes its title, streamer timeout and info |
//! | how are clients told what a back end wrote? | `presence/room_info.rs` remembers; `session/memberships/` tells |
//! | which viewers are pushed counts, and how often? | `presence/pushed_counts.rs` |
//! | what did a media server say of a stream? | `edge/media.rs`; `edge/media/signature.rs` for whether it did |
//! | in which fields does a media server say it? | `config/media/callbacks.rs`; `edge/media/mapped.rs` reads them |
//! | who may publish a stream? | `edge/media/publisher.rs` |
//! | what does that mean for the live? | `store/streams/state.rs` decides, `sync/streams.rs` carries it out |
//! | a stream is over: when does its live close? | `sync/streams/grace.rs` |
//! | how does a live end? | `sync/lives/closing.rs`; `sync/walk/visit.rs` finishes a close that was interrupted |
//! | has the streamer left? | `presence/platform.rs` knows who is here, `sync/streamer_timeout.rs` closes the live |
//! | who was on the platform, and when? | `store/last_seen.rs`; `store/online_users.rs` for who is there now |
//! | in which live is a user? | `presence/platform.rs`, told to the store by `sync/flush.rs` |
//! | who came to a live, and was there from when to when? | `store/attendance.rs`, `store/sessions.rs` |
//! | where are the first join and the last leave known? | `begin_stays` in `store/redis/scripts/prelude/stays.lua` |
//! | which friends are online? | `store/friends_online.rs` |
//! | which friends are in the live with a viewer? | `presence/friends_here.rs`, served by `sync/room_friends.rs` |
//! | how do other gateways learn who came and who left? | `presence/moves.rs`, sent by `peers/publisher.rs` |
//! | which sockets take part and do not count? | `edge/credentials.rs` decides, `presence/seats.rs` skips them |
//! | who is told that a live opened? | `sync/social/feeds.rs` notes it, `sync/social/fanout.rs` tells followers |
//! | what does a feed show? | `store/social/feeds.rs` |
//! | who is kept out of a live? | `presence/bans.rs` |
//! | how is a user erased? | `sync/erasure.rs`; `store/redis/keys/personal_data.rs` knows which keys name users |
//! | what if a gateway heard nothing of an erasure? | `sync/eraser.rs`: the gateway erases once more |
//! | into which slice does a user fall? | `base/slice_of_user.rs` |
//! | of which set is a slice? | `base/ids.rs`; `presence/slice_ref.rs` says whose slices the loops work on |
//! | who is online on the platform? | `presence/platform.rs` |
//! | how does a gateway stop? | `gateway/mod.rs`, `session/drain.rs` |
//! | what do signals do, and which exit code is that? | `gateway/process.rs`, `base/exit.rs` |
//! | is what Redis holds right, seen from outside? | `cli/audit.rs` |
//! | does Redis hold what the former program held? | `cli/audit/against.rs` |
//! | which keys are there, and how large are they? | `cli/keys.rs` |
//! | which settings would a gateway run with? | `cli/check_config.rs` |
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
pub mod gateway;
pub(crate) mod peers;
pub mod presence;
pub mod session;
pub mod store;
pub(crate) mod sync;
#[cfg(any(test, fuzzing))]
pub mod testing;
