//! Callbacks of media servers: a pure adapter per kind turns a request into a [`StreamEvent`]. It checks no token and
//! changes nothing. Fields and events that an adapter does not know are ignored, so that a newer server goes on.

pub mod answer;
mod forms;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod json;
pub mod signature;
#[cfg(test)]
mod tests;

use crate::base::media_kind::MediaKind;
use crate::base::secret::Secret;
use crate::base::stream_event::{StreamEvent, StreamNews, StreamSession};

/// The longest name of a stream or a session, in bytes. Stream keys of platforms have up to 128.
const LONGEST: usize = 256;

/// Why a callback cannot be read. It quotes nothing of the request, which may have a stream key in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Not the form that this kind of server sends.
    #[error("the body must be a form (application/x-www-form-urlencoded)")]
    NotAForm,
    /// Not the JSON that this kind of server sends.
    #[error("the body must be a JSON object")]
    NotJson,
    /// A field that says which stream or session it is about is not there, empty or too long.
    #[error("{0} must be a text of 1 to 256 bytes")]
    Field(&'static str),
}

/// Reads the body of a callback. `None` is an event that says nothing about a publisher.
///
/// # Errors
/// The body is not what a server of this kind sends.
pub fn read(kind: MediaKind, body: &[u8]) -> Result<Option<StreamEvent>, Unreadable> {
    match kind {
        MediaKind::NginxRtmp => forms::nginx_rtmp(body),
        MediaKind::MediaMtx if body.trim_ascii_start().first() != Some(&b'{') => forms::mediamtx_hook(body),
        MediaKind::MediaMtx => json::mediamtx(body),
        MediaKind::Srs => json::srs(body),
        MediaKind::NodeMediaServer => json::node_media_server(body),
        MediaKind::OvenMediaEngine => json::oven_media_engine(body),
        MediaKind::LiveKit => json::livekit(body),
        MediaKind::Owncast => json::owncast(body),
        MediaKind::Mux => json::mux(body),
        MediaKind::Cloudflare => json::cloudflare(body),
        MediaKind::Generic => json::generic(body),
    }
}

/// An event with nothing beside what every server tells.
fn event(session: StreamSession, stream: &str, what: StreamNews) -> StreamEvent {
    let stream = Secret::new(stream);
    StreamEvent { session, stream, app: None, what, asks: false, token: None, streamer_id: None, at: None }
}

/// A text that names something.
fn named<'a>(name: &'static str, text: Option<&'a str>) -> Result<&'a str, Unreadable> {
    text.filter(|text| !text.is_empty() && text.len() <= LONGEST).ok_or(Unreadable::Field(name))
}

/// Takes the streamer's token and name from the query of a stream's URL, with or without its `?`.
fn with_query(mut event: StreamEvent, query: &str) -> StreamEvent {
    for (name, value) in form_urlencoded::parse(query.trim_start_matches('?').as_bytes()) {
        credential(&mut event, &name, &value);
    }
    event
}

/// The first of two wins, so that a publisher who appends one to a URL changes nothing.
fn credential(event: &mut StreamEvent, name: &str, value: &str) {
    match name {
        "token" if event.token.is_none() => event.token = Some(Secret::new(value)),
        "streamer_id" if event.streamer_id.is_none() => event.streamer_id = Some(value.to_owned()),
        _ => (),
    }
}
