//! What a media server said of a stream, whatever the kind of the server. The adapters of
//! `edge/media` read it from callbacks.

use super::secret::Secret;

/// One message of a media server about one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaEvent {
    /// Who publishes: a connection to the server. Two publishers of one stream differ in it.
    pub session: StreamSession,
    /// The name of the stream. Platforms with stream keys use the key, so it is printed nowhere.
    pub stream: Secret,
    /// The application or virtual folder that the stream is in, of servers that have some.
    pub app: Option<String>,
    /// What happened.
    pub news: StreamNews,
    /// The server waits for the answer before it lets the publisher in.
    pub asks: bool,
    /// The token of the streamer.
    pub token: Option<Secret>,
    /// The streamer by name, as the publisher or the server says.
    pub streamer: Option<String>,
    /// The address of the publisher, as the server says; for the log.
    pub address: Option<String>,
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
}

impl StreamSession {
    /// The id itself.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Unique(id) | Self::Reused(id) => id,
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
    /// The connection ended. It may be one that only played.
    Left,
}
