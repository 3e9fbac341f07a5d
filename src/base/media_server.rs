//! The media servers whose callbacks Rollcall understands: their kinds, and the names that the
//! settings file gives them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// What kind of server a `[media.<name>]` of the settings file is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MediaKind {
    /// nginx with its RTMP module.
    NginxRtmp,
    /// Simple Realtime Server.
    Srs,
    /// node-media-server, version 4.
    NodeMediaServer,
    /// OvenMediaEngine's admission webhooks.
    OvenMediaEngine,
    /// LiveKit's webhooks.
    LiveKit,
    /// Owncast's webhooks.
    Owncast,
    /// Mux's webhooks.
    Mux,
    /// Cloudflare Stream's notifications.
    Cloudflare,
    /// MediaMTX: its HTTP authentication, and `curl` in its run-on hooks.
    MediaMtx,
    /// Any other program, in the JSON that `edge/media/json.rs` shows.
    Generic,
}

impl MediaKind {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::NginxRtmp,
        Self::Srs,
        Self::NodeMediaServer,
        Self::OvenMediaEngine,
        Self::LiveKit,
        Self::Owncast,
        Self::Mux,
        Self::Cloudflare,
        Self::MediaMtx,
        Self::Generic,
    ];

    /// The name in the settings file and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NginxRtmp => "nginx-rtmp",
            Self::Srs => "srs",
            Self::NodeMediaServer => "node-media-server",
            Self::OvenMediaEngine => "ovenmediaengine",
            Self::LiveKit => "livekit",
            Self::Owncast => "owncast",
            Self::Mux => "mux",
            Self::Cloudflare => "cloudflare",
            Self::MediaMtx => "mediamtx",
            Self::Generic => "generic",
        }
    }

    /// Reads the name back.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Whether the server signs its callbacks. The callbacks of the others carry the secret in
    /// their query.
    pub fn signs(self) -> bool {
        matches!(
            self,
            Self::OvenMediaEngine | Self::LiveKit | Self::Mux | Self::Cloudflare
        )
    }
}

/// The longest name of a table in the settings file, in bytes.
const LONGEST_NAME: usize = 32;

/// The name of a server in the settings file: 1 to 32 bytes of `[a-z0-9-]`. It stands in paths, in
/// Redis, in events and in the log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct MediaServerName(Arc<str>);

impl MediaServerName {
    /// Reads a name. `None` if it is empty, too long, or has other characters.
    pub fn parse(name: &str) -> Option<Self> {
        if is_table_name(name) {
            Some(Self(name.into()))
        } else {
            None
        }
    }

    /// The text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Whether a table of the settings file may have this name: 1 to 32 bytes of `[a-z0-9-]`.
pub(crate) fn is_table_name(name: &str) -> bool {
    let has_length = (1..=LONGEST_NAME).contains(&name.len());
    has_length && name.bytes().all(fits)
}

fn fits(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')
}

/// A text is no name of a media server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a media server's name has 1 to 32 characters of a-z 0-9 -")]
pub struct InvalidServerName;

impl TryFrom<String> for MediaServerName {
    type Error = InvalidServerName;

    fn try_from(name: String) -> Result<Self, InvalidServerName> {
        Self::parse(&name).ok_or(InvalidServerName)
    }
}

impl fmt::Display for MediaServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_back_by_its_name() {
        for kind in MediaKind::ALL {
            assert_eq!(MediaKind::from_name(kind.as_str()), Some(kind));
        }
        assert_eq!(MediaKind::from_name("nginx"), None);
    }

    #[test]
    fn a_name_may_stand_in_a_path() {
        let longest = "a".repeat(LONGEST_NAME);
        for name in ["main", "eu-1", "7", longest.as_str()] {
            assert_eq!(MediaServerName::parse(name).unwrap().as_str(), name);
        }
        let too_long = "a".repeat(LONGEST_NAME + 1);
        for name in ["", "Main", "a b", "a/b", "a_b", "ä", too_long.as_str()] {
            assert_eq!(MediaServerName::parse(name), None, "{name}");
        }
    }
}
