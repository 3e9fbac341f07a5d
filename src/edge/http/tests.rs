//! The routers, asked without a socket, over a store that can repeat itself and fail. Tests of all
//! routes, and so of all features, are in `features/tests`.

mod asyncapi;
mod fans;
mod follows;
mod lives;
mod online;
mod problems;
pub(crate) mod schemas;
pub(crate) mod world;
