//! Who may do what: tokens and API keys prove who a caller is, and one table says what the caller
//! may do. Nothing here knows of sockets or requests.

pub(crate) mod api_keys;
pub mod claims;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod jwks;
mod key;
pub(crate) mod key_fetcher;
mod key_ring;
mod key_url;
mod keys;
pub mod mint;
pub mod permissions;
pub(crate) mod presented;
#[cfg(test)]
mod test_keys;
pub mod tokens;
