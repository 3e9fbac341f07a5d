//! Authentication and permissions: tokens and API keys prove the identity of a caller, and one
//! table lists the caller's permissions. Nothing here knows of sockets or requests.

pub(crate) mod api_keys;
pub mod claims;
mod ed25519;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
pub(crate) mod guest_token;
mod jwks;
mod key;
pub(crate) mod key_fetcher;
mod key_ring;
mod key_url;
mod keys;
pub mod mint;
pub mod permissions;
pub(crate) mod presence_secret;
pub(crate) mod presented;
pub(crate) mod session_claims;
#[cfg(test)]
mod test_keys;
pub(crate) mod ticket;
mod ticket_key;
pub mod tokens;
