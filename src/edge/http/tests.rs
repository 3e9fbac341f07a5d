//! The routers, asked without a socket, over a store that can repeat itself and fail.

mod asyncapi;
mod audit;
mod authorization;
mod documents;
mod erasures;
mod fans;
mod follows;
mod idempotency;
mod lives;
mod online;
mod problems;
mod rate_limits;
mod rules;
mod samples;
mod schemas;
pub(crate) mod world;
