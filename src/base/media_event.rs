//! What a media server said of a stream, whatever the kind of the server. The adapters of
//! `edge/media` read it from callbacks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::secret::Secret;

/// One message of a media server about one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaEvent {
    /// Which of the servers that share a table of the settings says it, as far as that is known. Two
    /// of them may give the same id to different sessions.
    pub instance: Option<String>,
    /// Who publishes: a connection to the server. Two publishers of one stream differ in it.
    pub session: StreamSession,
    /// The name of the stream. Platforms with stream keys use the key, so it is printed nowhere.
    pub stream: Secret,
    /// The application or virtual folder that the stream is in, of servers that have some.
    pub app: Option<String>,
    /// The publisher's address, as the server says.
    pub address: Option<String>,
    /// What happened.
    pub news: StreamNews,
    /// The server waits for the answer before it lets the publisher in.
    pub asks: bool,
    /// The token of the streamer.
    pub token: Option<Secret>,
    /// The streamer by name, as the publisher or the server says.
    pub streamer: Option<String>,
    /// When it happened, by the clock of the server, in Unix milliseconds.
    pub at: Option<u64>,
}

/// Which connection of a server publishes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StreamSession {
    /// An id that the server never gives to another connection. A session that ended stays ended.
    Unique(String),
    /// An id that comes again: nginx counts from 1 after a restart, and some servers have no ids of
    /// sessions at all. The latest message about it holds.
    Reused(String),
    /// Whoever publishes the stream: the server names streams, and no sessions.
    Any,
}

impl StreamSession {
    /// The id itself.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Unique(id) | Self::Reused(id) => id,
            Self::Any => "",
        }
    }

    /// Whether the server never gives the id to another connection.
    pub fn is_unique(&self) -> bool {
        matches!(self, Self::Unique(_))
    }
}

/// What happened to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamNews {
    /// Somebody asks to publish. Nothing began yet.
    Request,
    /// The session publishes.
    Publish,
    /// The session goes on.
    Alive,
    /// The server was asked which sessions publish, and no longer names this one.
    Unnamed,
    /// The session ended.
    Done,
    /// The connection ended. It may be one that only played, or a second publisher.
    Left,
    /// All sessions of the stream ended.
    AllDone,
}

/// How a gateway learns that a session is over whose server does not say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndKnownBy {
    /// Gateways ask the server who publishes.
    Asking,
    /// The server says again and again that the session goes on.
    Heartbeats,
    /// The next session of the stream shows it, when that one ends.
    #[default]
    NextSession,
}
