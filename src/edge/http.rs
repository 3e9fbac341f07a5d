//! The HTTP edge. [`routes`] maps paths to handlers. Each noun has a file of handlers: [`lives`],
//! [`live_lists`], [`infos`], [`fans`], [`removals`], [`follows`], [`gateway`], [`health`],
//! [`pages`], [`presence`], and the WebSocket's [`upgrade`].
//!
//! [`authorization`] decides who may call a route, within [`rate_limits`]. [`bill`] charges the
//! requests for which nobody has paid. [`known_fields`] refuses fields and bodies that a call does
//! not have.
//!
//! A handler holds no state: it reads a request ([`requests`], [`paging`]), uses the parts of the
//! gateway that [`state`] offers, and answers with JSON or with a [`problem`].

mod asyncapi;
mod attendance;
mod audit;
mod authorization;
mod beats;
mod bill;
mod bounded;
pub(crate) mod browsers;
mod candidate;
mod erasures;
mod fans;
mod follows;
mod friends;
pub mod gateway;
mod health;
mod history;
mod idempotency;
mod infos;
mod known_fields;
mod live_changes;
mod live_lists;
mod lives;
mod logging;
mod media;
mod middleware;
mod online;
mod online_list;
mod openapi;
mod pages;
mod paging;
mod position;
mod presence;
pub(crate) mod problem;
pub(crate) mod rate_limits;
mod reloading;
mod removals;
mod request_id;
mod requests;
pub(crate) mod routes;
mod sessions;
mod sharing;
pub(crate) mod snapshots;
mod social;
pub(crate) mod state;
mod streams;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod upgrade;
mod users;
mod viewers;
mod webhooks;

pub use self::problem::ALL as PROBLEMS;
