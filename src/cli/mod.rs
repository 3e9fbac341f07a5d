//! The commands besides serving. `audit` and `explain` read Redis and ask gateways from outside; `token` and `key` make
//! credentials for development. `main` runs them.

pub mod audit;
mod common;
pub mod events;
pub mod explain;
mod gateways;
pub mod key;
mod leases;
pub mod token;
