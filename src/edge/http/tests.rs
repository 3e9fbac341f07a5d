//! The routers, asked without a socket, over a store that can repeat itself and fail.

mod documents;
mod fans;
mod follows;
mod lives;
mod problems;
pub(crate) mod store;
pub(crate) mod world;
