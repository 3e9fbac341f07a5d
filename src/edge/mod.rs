//! The way in: accepted connections, admission, who a client is, and HTTP with the WebSocket upgrade.

pub mod admission;
pub mod auth;
pub mod banner;
pub mod http;
pub mod listener;
