//! The media servers whose callbacks Rollcall understands: their kinds, and the names that the
//! settings file gives them.

use super::ids::{InvalidId, check_name, id_type};

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

    /// Whether the server only reports: it passes on no token of a publisher, and a refusal is nothing
    /// to it, or a reason to send the same message again.
    pub fn only_reports(self) -> bool {
        matches!(
            self,
            Self::LiveKit | Self::Owncast | Self::Mux | Self::Cloudflare
        )
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

id_type!(
    /// The name of a server in the settings file. It stands in paths, in Redis, in events and in the
    /// log.
    MediaServerName
);

impl MediaServerName {
    /// Takes 1 to 32 bytes of `[a-z0-9-]`.
    pub fn parse(name: &str) -> Result<Self, InvalidId> {
        check_name(name)?;
        Ok(Self(name.into()))
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
}
