//! Everything between the network and a session: the listener, admission, authentication, and HTTP
//! with the WebSocket upgrade.

pub mod admission;
pub mod banner;
pub mod client_address;
pub mod credentials;
pub(crate) mod fields;
pub mod http;
pub(crate) mod keep_alive;
pub mod listener;
pub(crate) mod reload;
