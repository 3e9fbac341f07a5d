//! The commands besides serving: `audit` and `explain`. They read Redis and ask gateways from outside. `main` runs
//! them.

pub mod audit;
mod common;
pub mod explain;
mod gateways;
mod leases;
