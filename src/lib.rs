//! Rollcall: a live-stream room presence gateway.

pub mod api;
pub mod auth;
pub mod clock;
pub mod config;
pub mod core;
pub mod ids;
pub mod listener;
pub mod lives;
pub mod metrics;
pub mod session;
pub mod store;
pub mod upgrade;
