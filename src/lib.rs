//! Rollcall: a live-stream room presence gateway.

pub mod api;
pub mod auth;
pub mod clock;
pub mod config;
pub mod core;
pub mod exit;
pub mod gateway;
pub mod hints;
pub mod ids;
pub mod listener;
pub mod lives;
pub mod metrics;
pub mod session;
pub mod store;
pub mod telemetry;
pub mod upgrade;
