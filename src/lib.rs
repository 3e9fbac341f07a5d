//! Rollcall: a live-stream room presence gateway. This page is the map of the code.
//!
//! Viewers keep a WebSocket open; Rollcall knows who of them follows the streamer and keeps, in Redis, the set of fans
//! who are online now. Everything flows one way:
//!
//! ```text
//!  socket ──▶ session ──▶ room ──▶ flush ──▶ store (Redis or memory)
//!                          ▲  │                │
//!              reaper, upkeep │                ▼
//!                          │  ├──────────▶ counts ──▶ dashboards
//!                          │  └◀─────────▶ gossip ──▶ other gateways
//!                        lives ◀── HTTP API, streamers
//! ```
//!
//! | you ask | you read |
//! | --- | --- |
//! | why was I disconnected? | [`close`] |
//! | why was I told to come back later? | [`admission`] |
//! | when do counts update? | [`counts`] |
//! | what is in Redis? | [`store::redis::keys`] |
//! | which Redis node is asked? | `store/redis/nodes.rs` |
//! | which timeout is that? | [`config`] |
//! | what does a heartbeat cost? | [`conn::Conn::heard`] |
//! | who is told to Redis, and when? | [`rooms::ledger`], then [`flush`] |
//! | what does a lease cost where nothing happens? | [`store::Renewals`], `renewal.rs`, [`own_lease`] |
//! | what if a gateway dies? | [`sweep`] |
//! | how does a live end? | [`lives`] |
//! | who is kept out of a live? | [`removals`] |
//! | how does a gateway end? | [`gateway::Gateway::stop`], [`drain`] |
//! | what do gateways say to each other? | [`gossip`], [`gossip::word`] |
//! | which metric is that? | [`metrics`] |
//! | is what Redis holds right? | [`audit`]; and all the time `flush.rs`, [`sweep`] |
//!
//! What is deliberately absent:
//! - **No store call for a heartbeat.** A heartbeat is one relaxed store into [`conn::Conn`]; the store hears of joins,
//!   leaves and leases.
//! - **No queue of changes.** What the store should hold is always in memory; a failed call is made again from the
//!   present state.
//! - **No counter that is added to across processes.** Only absolute values are passed on.
//! - **No clock of a gateway's in any decision about another.** Leases are judged by the store's clock.
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
pub mod drain;
pub mod fans;
pub mod flush;
pub mod own_lease;
pub mod reaper;
mod renewal;
pub mod sweep;
pub mod upkeep;

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
