//! Rollcall: a live-stream room presence gateway. This page is the map of the code.
//!
//! Viewers keep a WebSocket open; Rollcall knows who of them follows the streamer and keeps, in Redis, the set of fans
//! who are online now. Everything flows one way:
//!
//! ```text
//!  socket ──▶ session ──▶ room ──▶ flush ──▶ store (Redis or memory)
//!                          ▲  │                │
//!       reaper, upkeep, check │                ▼
//!                          │  ├──────────▶ counts ──▶ dashboards
//!                          │  └◀─────────▶ gossip ◀─▶ other gateways
//!                        lives ◀── HTTP API, streamers, walk ◀── liveness ◀── lease
//! ```
//!
//! | you ask | you read |
//! | --- | --- |
//! | why was I disconnected? | [`close`] |
//! | why was I told to come back later? | [`admission`] |
//! | when do counts update? | [`counts`] |
//! | what is in Redis? | [`store::redis::keys`] |
//! | which Redis node is asked? | `store/redis/topology.rs` |
//! | which timeout is that? | [`config`] |
//! | what does a heartbeat cost? | [`conn::Conn::heard`] |
//! | who is told to Redis, and when? | [`rooms::ledger`], then [`flush`] |
//! | how does a gateway know that another one lives? | [`lease`], [`liveness`] |
//! | what if a gateway dies? | [`liveness`] buries it, [`walk`] sweeps it |
//! | is what Redis holds for this gateway right? | [`check`] |
//! | when is it checked, and what is reason for doubt? | [`upkeep`], `store/redis/doubts.rs` |
//! | is the streamer connected? | [`streamers`] |
//! | how does a live end? | [`lives`] |
//! | who is kept out of a live? | [`removals`] |
//! | how does a gateway end? | [`gateway::Gateway::stop`], [`drain`] |
//! | what do gateways say to each other? | [`gossip`], [`gossip::word`] |
//! | which metric is that? | [`metrics`] |
//! | is what Redis holds right, seen from outside? | [`audit`] |
//!
//! What is deliberately absent:
//! - **No store call for a heartbeat.** A heartbeat is one relaxed store into [`conn::Conn`]; the store hears of joins,
//!   leaves and one lease a gateway.
//! - **No refresh of what stands.** Between changes a gateway writes nothing of a live; it looks once a minute, and at once
//!   where there is reason for doubt.
//! - **No queue of changes.** What the store should hold is always in memory; a failed call is made again from the
//!   present state.
//! - **No counter that is added to across processes.** Only absolute values are passed on.
//! - **No clock of the store's in any decision.** A lease is a count that moves; whoever looks on judges it by a clock of
//!   its own.
//! - **No way back for the buried.** A gateway that was buried goes on under a new id, so a sweep harms nobody.
//! - **No message without a write, where a record or viewers change.** The script that writes publishes; what a gateway that
//!   was cut off missed, it reads.
//! - **No await in [`rooms`]**, and no map guard outside the file that owns the map.
//! - **No retry inside the store.** One attempt with a deadline; whoever asked decides.
//! - **No task per timer.** Sockets and rooms are filed in a [`wheel`] and looked at.

// The outside: settings, process, sockets, HTTP.
pub mod config;
pub mod exit;
pub mod gateway;
pub mod hints;
pub mod telemetry;

pub mod admission;
pub mod api;
pub mod auth;
pub mod listener;
pub mod upgrade;

// One socket.
pub mod close;
pub mod conn;
pub mod protocol;
pub mod session;

// Who is in which live on this gateway, and what becomes of lives.
pub mod core;
pub mod lives;
pub mod removals;
pub mod rooms;

// From memory to the store, and what needs looking after.
pub mod check;
pub mod drain;
pub mod fans;
pub mod flush;
pub mod lease;
pub mod liveness;
pub mod reaper;
pub mod streamers;
pub mod upkeep;
pub mod walk;

// From outside: what the store holds, and whether that is right.
pub mod audit;

// The store.
pub mod store;

// To the other gateways, the dashboards and the operators.
pub mod counts;
pub mod gossip;
pub mod metrics;

// Words and tools.
pub mod clock;
pub mod ids;
pub mod pace;
pub mod wheel;
