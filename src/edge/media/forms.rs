//! The servers that send forms: nginx-rtmp, and the `curl` in MediaMTX's hooks.

use super::fields::{Unreadable, credential, event, named, with_query};
use crate::base::stream_event::{StreamEvent, StreamNews, StreamSession};

/// The fields in their order, which a publisher's own arguments follow.
struct Form(Vec<(String, String)>);

impl Form {
    fn parse(body: &[u8]) -> Result<Self, Unreadable> {
        let text = std::str::from_utf8(body).map_err(|_| Unreadable::NotAForm)?;
        if !text.contains('=') {
            return Err(Unreadable::NotAForm);
        }
        Ok(Self(form_urlencoded::parse(text.trim().as_bytes()).into_owned().collect()))
    }

    /// The first of that name: nginx's own fields come before the arguments of the publisher.
    fn field(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// `on_publish`, `on_publish_done`, `on_update`. A refused second publisher has a `publish_done` too, with the name of
/// the stream that goes on; only `clientid` tells the two apart.
pub(super) fn nginx_rtmp(body: &[u8]) -> Result<Option<StreamEvent>, Unreadable> {
    let form = Form::parse(body)?;
    let what = match form.field("call") {
        Some("publish") => StreamNews::Publish,
        Some("update_publish") => StreamNews::Alive,
        Some("publish_done") => StreamNews::Done,
        _ => return Ok(None),
    };
    let session = StreamSession::Reused(named("clientid", form.field("clientid"))?.to_owned());
    let mut event = event(session, named("name", form.field("name"))?, what);
    event.asks = what == StreamNews::Publish;
    event.app = form.field("app").map(str::to_owned);
    for (name, value) in &form.0 {
        credential(&mut event, name, value);
    }
    Ok(Some(event))
}

/// `event=ready` or `event=not_ready`, with `path`, `id` and `query` out of the environment of the hook.
pub(super) fn mediamtx_hook(body: &[u8]) -> Result<Option<StreamEvent>, Unreadable> {
    let form = Form::parse(body)?;
    let what = match form.field("event") {
        Some("ready") => StreamNews::Publish,
        Some("not_ready") => StreamNews::Done,
        _ => return Ok(None),
    };
    let session = StreamSession::Unique(named("id", form.field("id"))?.to_owned());
    let event = event(session, named("path", form.field("path"))?, what);
    Ok(Some(with_query(event, form.field("query").unwrap_or_default())))
}
