//! How a media server's callbacks are read and answered: in which fields its events, streams,
//! sessions and tokens stand, which words its events have, and what it takes as a yes or a no.

use reqwest::StatusCode;
use reqwest::header::{HeaderName, HeaderValue};

/// What a word for an event means. A word may have two meanings: its server asks whether a stream may
/// begin that begins at once if it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// Somebody asks whether they may publish.
    Asks,
    /// A stream begins.
    Begins,
    /// A stream goes on.
    GoesOn,
    /// A stream ended.
    Ends,
    /// It says nothing about a publisher.
    Ignored,
}

/// Where something stands: JSON pointers such as `/data/id`, which in a form are names of fields with
/// a slash before them. The first that is there counts. Empty if the server does not tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place(pub Vec<String>);

/// How callbacks are read and answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// The word for what happened.
    pub event: Place,
    /// The words that mean something; `*` is any other one.
    pub(super) words: Vec<(Meaning, String)>,
    /// Which one of the servers that share a table.
    pub instance: Place,
    /// The id of the session; without one the stream is its own session, which comes again.
    pub session: Place,
    /// The name of the stream. A server that names none has one stream.
    pub stream: Place,
    /// The application and the name of the stream with a slash between them, in place of `stream`.
    pub path: Place,
    /// The application.
    pub app: Place,
    /// The query of the stream's URL, or the URL.
    pub query: Place,
    /// The streamer's token.
    pub token: Place,
    /// The streamer.
    pub streamer_id: Place,
    /// The address of the publisher.
    pub address: Place,
    /// When it happened.
    pub at: Place,
    /// The body of a yes, which has the status 200.
    pub yes_body: String,
    /// A header of a yes, and its value.
    pub yes_header: Option<(HeaderName, HeaderValue)>,
    /// The status of a no.
    pub no_status: StatusCode,
    /// The body of a no.
    pub no_body: String,
}

impl Mapping {
    /// Whether a word for an event has this meaning.
    pub fn means(&self, word: &str, meaning: Meaning) -> bool {
        let mut words = self.words.iter();
        words.any(|(known, text)| *known == meaning && (text == word || text == "*"))
    }
}
