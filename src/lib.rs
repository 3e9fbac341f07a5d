//! Rollcall: a live-stream room presence gateway.

pub mod clock;
pub mod config;
pub mod ids;
pub mod metrics;
pub mod store;
