//! Rollcall: a live-stream room presence gateway.

pub mod clock;
pub mod config;
pub mod exit;
pub mod gateway;
pub mod hints;
pub mod ids;
pub mod metrics;
pub mod store;
pub mod telemetry;
