//! What the adapters have in common: names within bounds, and what a publisher writes into the
//! query of a stream's URL.

use crate::base::media_event::{MediaEvent, StreamNews, StreamSession};
use crate::base::secret::Secret;

/// The longest name of a stream or a session, in bytes. Stream keys of platforms have up to 128.
pub(crate) const LONGEST: usize = 256;

/// Why a callback cannot be read. It quotes nothing of the request, which may have a stream key in
/// it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Not the form that this kind of server sends.
    #[error("the body must be a form (application/x-www-form-urlencoded)")]
    NotAForm,
    /// Not the JSON that this kind of server sends.
    #[error("the body must be a JSON object")]
    NotJson,
    /// Not the XML that this kind of server answers.
    #[error("the answer must be the statistics of nginx's RTMP module, in XML")]
    NotXml,
    /// A field that says which stream or session it is about is not there, empty, too long, or has
    /// a control character.
    #[error("{0} must be a text of 1 to 256 bytes without control characters")]
    Field(&'static str),
    /// Neither JSON nor a form.
    #[error("the body must be a JSON object or a form")]
    Body,
    /// Nobody said what this event means.
    #[error("the event is none that the settings of this server know")]
    Event,
    /// A field of the server's own is there twice: the publisher wrote one of them.
    #[error("{0} is there twice")]
    Twice(&'static str),
}

/// An event with nothing beside what every server tells.
pub(crate) fn event(session: StreamSession, stream: &str, news: StreamNews) -> MediaEvent {
    MediaEvent {
        instance: None,
        session,
        stream: Secret::new(stream),
        app: None,
        address: None,
        news,
        asks: false,
        token: None,
        streamer: None,
        at: None,
    }
}

/// A text that names something.
pub(crate) fn named<'a>(field: &'static str, text: Option<&'a str>) -> Result<&'a str, Unreadable> {
    match text {
        Some(text) if (1..=LONGEST).contains(&text.len()) && !text.contains(char::is_control) => {
            Ok(text)
        }
        _ => Err(Unreadable::Field(field)),
    }
}

/// Splits a path such as `live/42` into the application, if there is one, and the name.
pub(crate) fn split_path(path: &str) -> (Option<&str>, &str) {
    match path.rsplit_once('/') {
        Some(("", name)) => (None, name),
        Some((app, name)) => (Some(app), name),
        None => (None, path),
    }
}

/// Takes the streamer's token and name from the query of a stream's URL, which may have its `?` and the
/// rest of the URL before it. MediaMTX encodes the whole query since 1.18.1.
pub(crate) fn read_query(event: &mut MediaEvent, query: &str) {
    let query = match query.split_once('?') {
        Some((_, query)) => query,
        None => query,
    };
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        for (name, value) in form_urlencoded::parse(name.as_bytes()) {
            read_credential(event, &name, &value);
        }
        read_credential(event, &name, &value);
    }
}

/// The first of two wins, so that a publisher who appends one to a URL changes nothing.
pub(crate) fn read_credential(event: &mut MediaEvent, name: &str, value: &str) {
    if value.is_empty() {
        return;
    }
    match name {
        "token" if event.token.is_none() => event.token = Some(Secret::new(value)),
        "streamer_id" if event.streamer.is_none() => event.streamer = Some(value.to_owned()),
        _ => {}
    }
}
