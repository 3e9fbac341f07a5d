//! The commands other than `serve`. `audit`, `explain`, `events` and `keys` read Redis from outside,
//! `lives` asks a gateway, `check-config` reads the settings, and `token` and `key` make credentials
//! for development. `main` runs them.

pub(crate) mod common;
pub(crate) mod gateways;
pub mod key;
pub mod keys;
pub(crate) mod leases;
pub mod lives;
pub(crate) mod tables;
pub mod token;

pub use common::code_of;
