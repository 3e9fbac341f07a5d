//! The commands other than `serve`. `audit`, `explain`, `events` and `keys` read Redis from outside,
//! `lives` asks a gateway, `check-config` reads the settings, and `token` and `key` make credentials
//! for development. `main` runs them.

pub mod audit;
pub mod check_config;
mod common;
pub mod events;
pub mod explain;
mod gateways;
pub mod key;
pub mod keys;
mod leases;
pub mod lives;
mod tables;
pub mod token;

pub use common::code_of;
