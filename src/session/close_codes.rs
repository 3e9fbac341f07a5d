//! Why a client was disconnected: every reason, its close code, and its metric label.
//! `docs/websocket.md` lists them.

use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding;

/// Why a socket ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Close {
    /// The client closed cleanly.
    ByClient,
    /// The connection broke with no close frame.
    Vanished,
    /// The gateway stops.
    GoingAway,
    /// The gateway drains: reconnect elsewhere.
    Drain,
    /// The client broke the WebSocket protocol.
    Protocol,
    /// The client sent text that is not UTF-8.
    NotUtf8,
    /// The client sent a message over 4 KiB.
    TooBig,
    /// The client was silent for longer than `timeout`.
    HeartbeatTimeout,
    /// The socket's token expired.
    Expired,
    /// A moderator removed the user from the live.
    Removed,
    /// The client kept sending past the rate limit.
    RateLimited,
    /// The user opened too many sockets, and this was the oldest.
    TooManySockets,
    /// The client did not read: its send buffer stayed full.
    SlowConsumer,
}

impl Close {
    /// Every reason, for the check of the documentation.
    pub const ALL: [Self; Self::SlowConsumer as usize + 1] = [
        Self::ByClient,
        Self::Vanished,
        Self::GoingAway,
        Self::Drain,
        Self::Protocol,
        Self::NotUtf8,
        Self::TooBig,
        Self::HeartbeatTimeout,
        Self::Expired,
        Self::Removed,
        Self::RateLimited,
        Self::TooManySockets,
        Self::SlowConsumer,
    ];

    /// The code on the wire; `None` if the gateway sends no close frame.
    pub fn code(self) -> Option<u16> {
        match self {
            Self::ByClient | Self::Vanished => None,
            Self::GoingAway => Some(1001),
            Self::Drain => Some(1012),
            Self::Protocol => Some(1002),
            Self::NotUtf8 => Some(1007),
            Self::TooBig => Some(1009),
            Self::HeartbeatTimeout => Some(4000),
            Self::Expired => Some(4001),
            Self::Removed => Some(4003),
            Self::RateLimited => Some(4008),
            Self::TooManySockets => Some(4009),
            Self::SlowConsumer => Some(4013),
        }
    }

    /// The metric label, and the reason in the close frame.
    pub fn label(self) -> &'static str {
        match self {
            Self::ByClient => "client",
            Self::Vanished => "vanished",
            Self::GoingAway => "going_away",
            Self::Drain => "drain",
            Self::Protocol => "protocol_error",
            Self::NotUtf8 => "not_utf8",
            Self::TooBig => "too_big",
            Self::HeartbeatTimeout => "heartbeat_timeout",
            Self::Expired => "token_expired",
            Self::Removed => "removed",
            Self::RateLimited => "rate_limited",
            Self::TooManySockets => "too_many_sockets",
            Self::SlowConsumer => "slow_consumer",
        }
    }

    /// The metric label of a session's end. `lost`: its task panicked, or the runtime stopped.
    pub(crate) fn label_of(ended: Option<Self>) -> &'static str {
        match ended {
            Some(why) => why.label(),
            None => "lost",
        }
    }

    pub(crate) fn frame(self) -> Option<CloseFrame> {
        self.code().map(|code| CloseFrame {
            code: coding::CloseCode::from(code),
            reason: self.label().into(),
        })
    }
}
