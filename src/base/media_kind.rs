//! The media servers whose callbacks Rollcall understands.

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
    /// All kinds, each with its name in the settings file and in metrics.
    pub const ALL: &[(Self, &str)] = &[
        (Self::NginxRtmp, "nginx-rtmp"),
        (Self::Srs, "srs"),
        (Self::NodeMediaServer, "node-media-server"),
        (Self::OvenMediaEngine, "ovenmediaengine"),
        (Self::LiveKit, "livekit"),
        (Self::Owncast, "owncast"),
        (Self::Mux, "mux"),
        (Self::Cloudflare, "cloudflare"),
        (Self::MediaMtx, "mediamtx"),
        (Self::Generic, "generic"),
    ];

    /// The kind of a name, if there is one.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }

    /// The name in the settings file and in metrics.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(kind, _)| *kind == self).map_or("generic", |(_, name)| name)
    }
}
