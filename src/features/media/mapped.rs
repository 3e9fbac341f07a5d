//! Reads the callbacks of servers whose settings, or whose kind, say in which fields everything
//! stands. The body is JSON, whatever content type it has, or a form.

use std::borrow::Cow;

use serde_json::Value;

use crate::base::media_event::{MediaEvent, StreamNews, StreamSession};
use crate::config::{JsonPlace, Mapping, Meaning};
use crate::features::media::fields::{
    Unreadable, event, named, read_credential, read_query, split_path,
};
use crate::features::media::forms::Form;
use crate::features::media::json::{object, time};

/// The stream, and the session, of a server that names no stream because it has only one.
const ONLY: &str = "stream";

/// Times below this one are seconds; the year 5138 is far, and so is 1973.
const FIRST_MILLIS: u64 = 100_000_000_000;

enum Body {
    Json(Value),
    Form(Form),
}

impl Body {
    fn parse(body: &[u8]) -> Result<Self, Unreadable> {
        if body.trim_ascii_start().starts_with(b"{") {
            return Ok(Self::Json(object(body)?));
        }
        match Form::parse(body) {
            Ok(form) => Ok(Self::Form(form)),
            Err(_) => Err(Unreadable::Body),
        }
    }

    /// The first text, number or truth value that stands at a place.
    fn text(
        &self,
        key: &'static str,
        place: &JsonPlace,
    ) -> Result<Option<Cow<'_, str>>, Unreadable> {
        for pointer in &place.0 {
            let found = match self {
                Self::Json(json) => json.pointer(pointer).and_then(scalar),
                Self::Form(form) => form.field(key, &pointer[1..])?.map(Cow::Borrowed),
            };
            if found.as_ref().is_some_and(|text| !text.is_empty()) {
                return Ok(found);
            }
        }
        Ok(None)
    }
}

fn scalar(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(_) | Value::Bool(_) => Some(Cow::Owned(value.to_string())),
        _ => None,
    }
}

/// Reads a callback. `word` is what happened if the URL says so. `None` is an event that says nothing
/// about a publisher.
pub(crate) fn read(
    mapping: &Mapping,
    word: Option<&str>,
    body: &[u8],
) -> Result<Option<MediaEvent>, Unreadable> {
    let body = Body::parse(body)?;
    let word = match word {
        Some(word) => Cow::Borrowed(word),
        None => body.text("event", &mapping.event)?.unwrap_or_default(),
    };
    let asks = mapping.means(&word, Meaning::Asks);
    let news = if mapping.means(&word, Meaning::Begins) {
        StreamNews::Publish
    } else if asks {
        StreamNews::Request
    } else if mapping.means(&word, Meaning::GoesOn) {
        StreamNews::Alive
    } else if mapping.means(&word, Meaning::Ends) {
        StreamNews::Done
    } else if mapping.means(&word, Meaning::Ignored) {
        return Ok(None);
    } else {
        return Err(Unreadable::Event);
    };
    let (app, stream) = stream(mapping, &body)?;
    let session = if mapping.session.0.is_empty() {
        StreamSession::Reused(stream.clone())
    } else {
        let id = body.text("session", &mapping.session)?;
        StreamSession::Unique(named("session", id.as_deref())?.to_owned())
    };
    let mut event = event(session, &stream, news);
    event.asks = asks;
    event.app = app;
    for (key, place) in [
        ("token", &mapping.token),
        ("streamer_id", &mapping.streamer_id),
    ] {
        let value = body.text(key, place)?;
        read_credential(&mut event, key, &value.unwrap_or_default());
    }
    let query = body.text("query", &mapping.query)?;
    read_query(&mut event, &query.unwrap_or_default());
    for (key, place, told) in [
        ("instance", &mapping.instance, &mut event.instance),
        ("address", &mapping.address, &mut event.address),
    ] {
        let value = body.text(key, place)?;
        *told = named(key, value.as_deref()).ok().map(str::to_owned);
    }
    event.at = at(body.text("at", &mapping.at)?.as_deref());
    Ok(Some(event))
}

/// The application and the name of the stream.
fn stream(mapping: &Mapping, body: &Body) -> Result<(Option<String>, String), Unreadable> {
    if let Some(path) = body.text("path", &mapping.path)? {
        let (app, name) = split_path(&path);
        let name = named("path", Some(name))?;
        return Ok((app.map(str::to_owned), name.to_owned()));
    }
    if !mapping.path.0.is_empty() {
        return Err(Unreadable::Field("path"));
    }
    let app = body.text("app", &mapping.app)?.map(Cow::into_owned);
    if mapping.stream.0.is_empty() {
        return Ok((app, ONLY.to_owned()));
    }
    let name = body.text("stream", &mapping.stream)?;
    let name = named("stream", name.as_deref())?;
    Ok((app, name.to_owned()))
}

/// A time in milliseconds: a number of seconds or milliseconds, or such as `2026-01-13T11:43:41Z`.
fn at(text: Option<&str>) -> Option<u64> {
    match text?.parse::<u64>() {
        Ok(seconds) if seconds < FIRST_MILLIS => Some(seconds * 1_000),
        Ok(millis) => Some(millis),
        Err(_) => time(text),
    }
}
