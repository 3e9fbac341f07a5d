//! How a media server's callbacks are read and answered: in which fields its events, streams,
//! sessions and tokens stand, which words its events have, and what it takes as a yes or a no. A
//! table of the settings file says so for `kind = "generic"`. The other kinds stand for tables of the
//! same settings.

use clap::Args;
use reqwest::StatusCode;
use reqwest::header::{HeaderName, HeaderValue};

use crate::base::media_server::MediaKind;
use crate::config::declared;

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
pub struct JsonPlace(pub Vec<String>);

/// How callbacks are read and answered. The defaults are those of a generic server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[group(skip)]
pub struct Mapping {
    /// The word for what happened.
    #[arg(long, default_value = "event", value_parser = place)]
    pub event: JsonPlace,
    /// The words for [`Meaning::Asks`]. Of these and the words below, `*` is any other one.
    #[arg(long, value_delimiter = ',', default_value = "publish", value_parser = word)]
    asks: Vec<String>,
    /// The words for [`Meaning::Begins`].
    #[arg(long, value_delimiter = ',', default_value = "publish", value_parser = word)]
    begins: Vec<String>,
    /// The words for [`Meaning::GoesOn`].
    #[arg(long, value_delimiter = ',', default_value = "alive", value_parser = word)]
    goes_on: Vec<String>,
    /// The words for [`Meaning::Ends`].
    #[arg(long, value_delimiter = ',', default_value = "done", value_parser = word)]
    ends: Vec<String>,
    /// The words for [`Meaning::Ignored`].
    #[arg(long, value_delimiter = ',', value_parser = word)]
    ignores: Vec<String>,
    /// Which one of the servers that share a table.
    #[arg(long, default_value = "none", value_parser = place)]
    pub instance: JsonPlace,
    /// The id of the session; without one the stream is its own session, which comes again.
    #[arg(long, default_value = "session", value_parser = place)]
    pub session: JsonPlace,
    /// The name of the stream. A server that names none has one stream.
    #[arg(long, default_value = "stream", value_parser = place)]
    pub stream: JsonPlace,
    /// The application and the name of the stream with a slash between them, in place of `stream`.
    #[arg(long, default_value = "none", value_parser = place)]
    pub path: JsonPlace,
    /// The application.
    #[arg(long, default_value = "app", value_parser = place)]
    pub app: JsonPlace,
    /// The query of the stream's URL, or the URL.
    #[arg(long, default_value = "none", value_parser = place)]
    pub query: JsonPlace,
    /// The streamer's token.
    #[arg(long, default_value = "token", value_parser = place)]
    pub token: JsonPlace,
    /// The streamer.
    #[arg(long, default_value = "streamer_id", value_parser = place)]
    pub streamer_id: JsonPlace,
    /// The address of the publisher.
    #[arg(long, default_value = "address", value_parser = place)]
    pub address: JsonPlace,
    /// When it happened.
    #[arg(long, default_value = "at", value_parser = place)]
    pub at: JsonPlace,
    /// The body of a yes, which has the status 200.
    #[arg(long, default_value = "")]
    pub yes_body: String,
    /// A header of a yes, and its value.
    #[arg(long, value_parser = header)]
    pub yes_header: Option<(HeaderName, HeaderValue)>,
    /// The status of a no.
    #[arg(long, default_value = "403", value_parser = status)]
    pub no_status: StatusCode,
    /// The body of a no.
    #[arg(long, default_value = "")]
    pub no_body: String,
}

impl Mapping {
    /// How callbacks of a kind are read and answered. nginx-rtmp, node-media-server, OvenMediaEngine
    /// and LiveKit name sessions in ways of their own, which `features/media` reads.
    pub fn of(kind: MediaKind) -> Self {
        let nothing = Self {
            no_status: StatusCode::FORBIDDEN,
            ..Self::default()
        };
        match kind {
            MediaKind::Generic => declared::read(&[]).unwrap_or_default(),
            MediaKind::Srs => Self {
                event: at(&["/action"]),
                asks: words(&["on_publish"]),
                begins: words(&["on_publish"]),
                ends: words(&["on_unpublish"]),
                ignores: words(&["*"]),
                instance: at(&["/server_id"]),
                session: at(&["/client_id"]),
                stream: at(&["/stream"]),
                app: at(&["/app"]),
                query: at(&["/param"]),
                address: at(&["/ip"]),
                yes_body: r#"{"code":0}"#.to_owned(),
                no_body: r#"{"code":403}"#.to_owned(),
                ..nothing
            },
            // It asks in JSON, and its hooks tell in a form what happens then. Whoever asks for its
            // API, its metrics or its profiles is none of Rollcall's, and is refused.
            MediaKind::MediaMtx => Self {
                event: at(&["/action", "/event"]),
                asks: words(&["publish"]),
                begins: words(&["ready", "available", "online"]),
                ends: words(&["not_ready", "unavailable", "offline"]),
                ignores: words(&["read", "playback"]),
                session: at(&["/id"]),
                path: at(&["/path"]),
                query: at(&["/query"]),
                token: at(&["/token", "/password"]),
                address: at(&["/ip"]),
                no_status: StatusCode::UNAUTHORIZED,
                ..nothing
            },
            MediaKind::Owncast => Self {
                event: at(&["/type"]),
                begins: words(&["STREAM_STARTED"]),
                ends: words(&["STREAM_STOPPED"]),
                ignores: words(&["*"]),
                at: at(&["/eventData/timestamp"]),
                ..nothing
            },
            // Mux waits for an encoder to come back before it says `idle`. Rollcall has a grace of
            // its own, so `disconnected` is the end of a session, and `connected` may be its return.
            MediaKind::Mux => Self {
                event: at(&["/type"]),
                begins: words(&["video.live_stream.active", "video.live_stream.connected"]),
                ends: words(&["video.live_stream.disconnected", "video.live_stream.idle"]),
                ignores: words(&["*"]),
                stream: at(&["/data/id"]),
                at: at(&["/created_at"]),
                ..nothing
            },
            MediaKind::Cloudflare => Self {
                event: at(&["/data/event_type"]),
                begins: words(&["live_input.connected"]),
                ends: words(&["live_input.disconnected", "live_input.errored"]),
                ignores: words(&["*"]),
                stream: at(&["/data/input_id"]),
                at: at(&["/data/updated_at"]),
                ..nothing
            },
            MediaKind::OvenMediaEngine => Self {
                yes_body: r#"{"allowed":true}"#.to_owned(),
                no_status: StatusCode::OK,
                no_body: r#"{"allowed":false,"reason":"not allowed to publish"}"#.to_owned(),
                ..nothing
            },
            MediaKind::NginxRtmp | MediaKind::NodeMediaServer | MediaKind::LiveKit => nothing,
        }
    }

    /// Whether a table of a media server says with this key how callbacks are read or answered.
    pub(super) fn has_key(key: &str) -> bool {
        let declared = declared::command::<Self>();
        declared
            .get_arguments()
            .any(|arg| arg.get_long() == Some(key))
    }

    /// Whether a word for an event has this meaning.
    pub fn means(&self, word: &str, meaning: Meaning) -> bool {
        let words = match meaning {
            Meaning::Asks => &self.asks,
            Meaning::Begins => &self.begins,
            Meaning::GoesOn => &self.goes_on,
            Meaning::Ends => &self.ends,
            Meaning::Ignored => &self.ignores,
        };
        words.iter().any(|known| known == word || known == "*")
    }
}

fn at(pointers: &[&str]) -> JsonPlace {
    JsonPlace(words(pointers))
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// A word of a list with commas.
fn word(text: &str) -> Result<String, &'static str> {
    match text.trim() {
        "" => Err("has a comma without a word beside it"),
        word => Ok(word.to_owned()),
    }
}

fn place(text: &str) -> Result<JsonPlace, &'static str> {
    if text == "none" {
        return Ok(JsonPlace::default());
    }
    let mut pointers = Vec::new();
    for pointer in text.split(',') {
        let pointer = word(pointer)?;
        let slash = if pointer.starts_with('/') { "" } else { "/" };
        pointers.push(format!("{slash}{pointer}"));
    }
    Ok(JsonPlace(pointers))
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), &'static str> {
    if let Some((name, value)) = text.split_once(':')
        && let Ok(name) = HeaderName::try_from(name.trim())
        && let Ok(value) = HeaderValue::try_from(value.trim())
    {
        return Ok((name, value));
    }
    Err("is no header; use one like icecast-auth-user: 1")
}

fn status(text: &str) -> Result<StatusCode, &'static str> {
    match StatusCode::try_from(text) {
        Ok(status) if status == StatusCode::OK || status.is_client_error() => Ok(status),
        _ => Err("is no status for a no; use 200, or one from 400 to 499"),
    }
}
