//! What the adapters have in common: names within bounds, and what a publisher writes into the query of a stream's URL.

use crate::base::secret::Secret;
use crate::base::stream_event::{StreamEvent, StreamNews, StreamSession};

/// The longest name of a stream or a session, in bytes. Stream keys of platforms have up to 128.
pub(super) const LONGEST: usize = 256;

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

/// An event with nothing beside what every server tells.
pub(super) fn event(session: StreamSession, stream: &str, what: StreamNews) -> StreamEvent {
    let stream = Secret::new(stream);
    StreamEvent { session, stream, app: None, what, asks: false, token: None, streamer_id: None, at: None }
}

/// A text that names something.
pub(super) fn named<'a>(name: &'static str, text: Option<&'a str>) -> Result<&'a str, Unreadable> {
    text.filter(|text| !text.is_empty() && text.len() <= LONGEST).ok_or(Unreadable::Field(name))
}

/// Takes the streamer's token and name from the query of a stream's URL, with or without its `?`.
pub(super) fn with_query(mut event: StreamEvent, query: &str) -> StreamEvent {
    for (name, value) in form_urlencoded::parse(query.trim_start_matches('?').as_bytes()) {
        credential(&mut event, &name, &value);
    }
    event
}

/// The first of two wins, so that a publisher who appends one to a URL changes nothing.
pub(super) fn credential(event: &mut StreamEvent, name: &str, value: &str) {
    match name {
        "token" if event.token.is_none() => event.token = Some(Secret::new(value)),
        "streamer_id" if event.streamer_id.is_none() => event.streamer_id = Some(value.to_owned()),
        _ => (),
    }
}
