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

pub(crate) mod asyncapi;
pub(crate) mod audit;
pub(crate) mod authorization;
pub(crate) mod beats;
pub(crate) mod bill;
pub(crate) mod bounded;
pub(crate) mod browsers;
pub(crate) mod candidate;
pub(crate) mod erased;
pub(crate) mod fans;
pub(crate) mod follows;
pub mod gateway;
pub(crate) mod guests;
pub(crate) mod health;
pub(crate) mod hidden;
mod hosts;
pub(crate) mod idempotency;
pub(crate) mod infos;
pub(crate) mod known_fields;
pub(crate) mod live_changes;
pub(crate) mod live_lists;
pub(crate) mod lives;
pub(crate) mod logging;
pub(crate) mod middleware;
pub(crate) mod online;
pub(crate) mod online_list;
pub(crate) mod openapi;
pub(crate) mod pages;
pub(crate) mod paging;
pub(crate) mod position;
pub(crate) mod presence;
pub(crate) mod problem;
pub(crate) mod rate_limits;
pub(crate) mod reloading;
pub(crate) mod removals;
pub(crate) mod request_id;
pub(crate) mod requests;
pub(crate) mod routes;
pub(crate) mod sharing;
pub(crate) mod snapshots;
pub(crate) mod state;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod upgrade;
pub(crate) mod viewers;

pub use self::problem::ALL as PROBLEMS;
