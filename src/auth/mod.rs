//! Who may do what: tokens and API keys prove who a caller is, and one table says what the caller may do. Nothing here
//! knows of sockets or requests.

pub(crate) mod api_keys;
pub mod claims;
pub mod keys;
pub mod permissions;
pub(crate) mod tokens;
