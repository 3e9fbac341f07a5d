//! What a gateway says of a session without a WebSocket.

use serde::Deserialize;
use simulation::crowd::datagrams::Offer;

/// A session that has begun.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Begun {
    #[serde(rename = "session_id")]
    pub(crate) id: String,
    pub(crate) udp: Option<Offer>,
}

/// What a gateway says over HTTP: an acknowledgement has `fan`, and the next id if it is time for
/// one; a refusal has `code`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Said {
    pub(crate) fan: Option<bool>,
    pub(crate) session_id: Option<String>,
    pub(crate) code: Option<String>,
}

impl Said {
    /// A body that says nothing of the kind says nothing.
    pub(crate) fn read(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_says_nothing() {
        assert_eq!(Said::read(b"busy").code, None);
        let said = Said::read(br#"{"code":"live_not_open","status":404}"#);
        assert_eq!(said.code.as_deref(), Some("live_not_open"));
    }
}
