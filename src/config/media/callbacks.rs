//! Reads from a table of the settings file how a server's callbacks are read and answered. The file says
//! so for `kind = "generic"`. The other kinds stand for tables of the same settings.

use reqwest::StatusCode;
use reqwest::header::{HeaderName, HeaderValue};

use super::mapping::{Mapping, Meaning, Place};
use crate::base::media_server::MediaKind;
use crate::config::tables::Keys;

impl Mapping {
    /// How callbacks of a kind are read and answered.
    pub fn of(kind: MediaKind) -> Self {
        let mut mistakes = Vec::new();
        read(kind, &mut Keys::none(&mut mistakes))
    }
}

/// Reads the keys of a table. What it does not have is as its kind has it.
pub(super) fn read(kind: MediaKind, keys: &mut Keys<'_>) -> Mapping {
    let mut keys = Defaulted {
        keys,
        kind,
        defaults: defaults(kind),
    };
    let mut words = Vec::new();
    for (key, meaning) in [
        ("asks", Meaning::Asks),
        ("begins", Meaning::Begins),
        ("goes-on", Meaning::GoesOn),
        ("ends", Meaning::Ends),
        ("ignores", Meaning::Ignored),
    ] {
        for word in keys.read(key, list).unwrap_or_default() {
            words.push((meaning, word));
        }
    }
    Mapping {
        event: keys.place("event"),
        words,
        instance: keys.place("instance"),
        session: keys.place("session"),
        stream: keys.place("stream"),
        path: keys.place("path"),
        app: keys.place("app"),
        query: keys.place("query"),
        token: keys.place("token"),
        streamer_id: keys.place("streamer-id"),
        address: keys.place("address"),
        at: keys.place("at"),
        yes_body: keys.read("yes-body", text).unwrap_or_default(),
        yes_header: keys.read("yes-header", header),
        no_status: keys
            .read("no-status", status)
            .unwrap_or(StatusCode::FORBIDDEN),
        no_body: keys.read("no-body", text).unwrap_or_default(),
    }
}

/// The keys of a table, and the values of those that it leaves out.
struct Defaulted<'a, 'b> {
    keys: &'a mut Keys<'b>,
    kind: MediaKind,
    defaults: &'static [(&'static str, &'static str)],
}

impl Defaulted<'_, '_> {
    fn read<T>(
        &mut self,
        key: &'static str,
        parse: fn(&str) -> Result<T, &'static str>,
    ) -> Option<T> {
        if self.keys.has(key) {
            if self.kind != MediaKind::Generic {
                self.keys.wrong(key, &"is for kind generic");
            }
            return self.keys.read(key, parse);
        }
        let (_, text) = self.defaults.iter().find(|(known, _)| *known == key)?;
        parse(text).ok()
    }

    fn place(&mut self, key: &'static str) -> Place {
        self.read(key, place).unwrap_or_default()
    }
}

fn text(text: &str) -> Result<String, &'static str> {
    Ok(text.to_owned())
}

/// Words between commas.
fn list(text: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    for word in text.split(',') {
        match word.trim() {
            "" => return Err("has a comma without a word beside it"),
            word => words.push(word.to_owned()),
        }
    }
    Ok(words)
}

fn place(text: &str) -> Result<Place, &'static str> {
    if text == "none" {
        return Ok(Place::default());
    }
    let mut pointers = list(text)?;
    for pointer in &mut pointers {
        if !pointer.starts_with('/') {
            pointer.insert(0, '/');
        }
    }
    Ok(Place(pointers))
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

/// What a kind stands for. nginx-rtmp, node-media-server, OvenMediaEngine and LiveKit name sessions in
/// ways of their own, which `edge/media` reads.
fn defaults(kind: MediaKind) -> &'static [(&'static str, &'static str)] {
    match kind {
        MediaKind::Generic => &[
            ("event", "event"),
            ("asks", "publish"),
            ("begins", "publish"),
            ("goes-on", "alive"),
            ("ends", "done"),
            ("session", "session"),
            ("stream", "stream"),
            ("app", "app"),
            ("token", "token"),
            ("streamer-id", "streamer_id"),
            ("address", "address"),
            ("at", "at"),
        ],
        MediaKind::Srs => &[
            ("event", "action"),
            ("asks", "on_publish"),
            ("begins", "on_publish"),
            ("ends", "on_unpublish"),
            ("ignores", "*"),
            ("instance", "server_id"),
            ("session", "client_id"),
            ("stream", "stream"),
            ("app", "app"),
            ("query", "param"),
            ("address", "ip"),
            ("yes-body", r#"{"code":0}"#),
            ("no-body", r#"{"code":403}"#),
        ],
        // It asks in JSON, and its hooks tell in a form what happens then. Whoever asks for its API,
        // its metrics or its profiles is none of Rollcall's, and is refused.
        MediaKind::MediaMtx => &[
            ("event", "action, event"),
            ("asks", "publish"),
            ("begins", "ready, available, online"),
            ("ends", "not_ready, unavailable, offline"),
            ("ignores", "read, playback"),
            ("session", "id"),
            ("path", "path"),
            ("query", "query"),
            ("token", "token, password"),
            ("address", "ip"),
            ("no-status", "401"),
        ],
        MediaKind::Owncast => &[
            ("event", "type"),
            ("begins", "STREAM_STARTED"),
            ("ends", "STREAM_STOPPED"),
            ("ignores", "*"),
            ("at", "eventData/timestamp"),
        ],
        // Mux waits for an encoder to come back before it says `idle`. Rollcall has a grace of its
        // own, so `disconnected` is the end of a session, and `connected` may be its return.
        MediaKind::Mux => &[
            ("event", "type"),
            (
                "begins",
                "video.live_stream.active, video.live_stream.connected",
            ),
            (
                "ends",
                "video.live_stream.disconnected, video.live_stream.idle",
            ),
            ("ignores", "*"),
            ("stream", "data/id"),
            ("at", "created_at"),
        ],
        MediaKind::Cloudflare => &[
            ("event", "data/event_type"),
            ("begins", "live_input.connected"),
            ("ends", "live_input.disconnected, live_input.errored"),
            ("ignores", "*"),
            ("stream", "data/input_id"),
            ("at", "data/updated_at"),
        ],
        MediaKind::OvenMediaEngine => &[
            ("yes-body", r#"{"allowed":true}"#),
            ("no-status", "200"),
            (
                "no-body",
                r#"{"allowed":false,"reason":"not allowed to publish"}"#,
            ),
        ],
        MediaKind::NginxRtmp | MediaKind::NodeMediaServer | MediaKind::LiveKit => &[],
    }
}
