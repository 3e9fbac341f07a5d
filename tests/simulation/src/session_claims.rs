//! What everybody can read in the id of a session without a socket. Only a gateway can sign one.

use data_encoding::BASE64URL_NOPAD;
use serde_json::Value;

/// The opening of its live that the session is in; `None` if this is no such id.
///
/// A gateway that was frozen or cut off while a live was closed and opened again still takes people
/// into the former opening. So what a client knows about the live does not tell it which one it
/// joined; the id does.
#[must_use]
pub fn epoch_of(id: &str) -> Option<u64> {
    let claims = id.split('.').nth(1)?;
    let claims = BASE64URL_NOPAD.decode(claims.as_bytes()).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    claims["epoch"].as_u64()
}
