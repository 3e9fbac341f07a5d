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
//! - **No refresh of what stands.** Between changes a gateway writes nothing of a live; it looks once a minute, and at
//!   once where there is reason for doubt.
//! - **No queue of changes.** What the store should hold is always in memory; a failed call is made again from the
//!   present state.
//! - **No counter that is added to across processes.** Only absolute values are passed on.
//! - **No clock of the store's in any decision.** A lease is a count that moves; whoever looks on judges it by a clock
//!   of its own.
//! - **No way back for the buried.** A gateway that was buried goes on under a new id, so a sweep harms nobody.
//! - **No message without a write, where a record or viewers change.** The script that writes publishes; what a gateway
//!   that was cut off missed, it reads.
//! - **No await in [`rooms`]**, and no map guard outside the file that owns the map.
//! - **No retry inside the store.** One attempt with a deadline; whoever asked decides.
//! - **No task per timer.** Sockets and rooms are filed in a [`timer_wheel`] and looked at.

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
#[cfg(test)]
mod testing;
