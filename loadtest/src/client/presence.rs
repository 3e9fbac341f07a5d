//! What a gateway says of a session without a WebSocket.

use std::net::SocketAddr;

use data_encoding::BASE64URL_NOPAD;
use rollcall::base::session_key::SessionKey;
use rollcall::edge::datagrams::wire::DatagramKey;
use serde::Deserialize;

/// A session that has begun.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Session {
    #[serde(rename = "session_id")]
    pub(crate) id: String,
    pub(crate) udp: Option<Offer>,
}

/// How a session beats by datagram.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Offer {
    addresses: Vec<String>,
    session: String,
    key: String,
    /// What a hello says, so that any gateway can go on with the session.
    pub(crate) ticket: String,
}

impl Offer {
    /// Where the datagrams go. A client tries the next one when two beats are not answered. Only
    /// addresses of this machine are taken, as in all load tools.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let mut addresses = Vec::new();
        for text in &self.addresses {
            if let Ok(address) = text.parse::<SocketAddr>()
                && address.ip().is_loopback()
            {
                addresses.push(address);
            }
        }
        addresses
    }

    /// `None` if it is none.
    pub(crate) fn session_key(&self) -> Option<SessionKey> {
        SessionKey::parse(&self.session)
    }

    /// `None` if it is none.
    pub(crate) fn datagram_key(&self) -> Option<DatagramKey> {
        let key = BASE64URL_NOPAD.decode(self.key.as_bytes()).ok()?;
        Some(DatagramKey::new(&key.try_into().ok()?))
    }
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
    fn only_addresses_of_this_machine_are_taken() {
        let text = r#"{"addresses":["192.0.2.7:1","localhost:2","127.0.0.1:3","[::1]:4"],
            "session":"","key":"","ticket":""}"#;
        let offer: Offer = serde_json::from_str(text).unwrap();
        let ports: Vec<u16> = offer.addresses().iter().map(SocketAddr::port).collect();
        assert_eq!(ports, [3, 4]);
    }

    #[test]
    fn what_is_no_json_says_nothing() {
        assert_eq!(Said::read(b"busy").code, None);
        let said = Said::read(br#"{"code":"live_not_open","status":404}"#);
        assert_eq!(said.code.as_deref(), Some("live_not_open"));
    }
}
