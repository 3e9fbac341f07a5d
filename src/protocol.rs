//! Owns the words on the WebSocket: what a client may say, what it is answered, and the error codes. Parsing refuses
//! with a code; it never panics and keeps nothing of what it refused.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use crate::clock::UnixMillis;
use crate::ids::{Epoch, GatewayId, InvalidId, LiveId, UserId};
use crate::presence::Fan;
use crate::presence::room::Figures;
use crate::presence::throttle::Quality;
use crate::store::{CloseReason, LiveRecord};

/// A request that was understood.
#[derive(Debug)]
pub enum Request {
    /// Sit in a live, leaving any other.
    Join(LiveId),
    /// I am here.
    Heartbeat,
    /// Leave the live.
    Leave,
    /// Tell me the counts of a live.
    Watch(LiveId),
    /// No more counts of this live, or of any.
    Unwatch(Option<LiveId>),
    /// Open a live.
    Open {
        /// The live.
        live: LiveId,
        /// Its owner, as a service says.
        streamer: Option<UserId>,
        /// How many slices, if said.
        slices: Option<u32>,
    },
    /// Close a live.
    Close(LiveId),
}

/// The codes of `error` messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// Not JSON, not an object, binary, or a field of the wrong type.
    BadMessage,
    /// No such `type`.
    UnknownType,
    /// An id outside the rules.
    InvalidId,
    /// No live is open under this id.
    LiveNotOpen,
    /// Opened by another streamer.
    LiveOwned,
    /// Removed from the live, and not to come back yet.
    Banned,
    /// Not with this role, or not one's own.
    Forbidden,
    /// There is no live to leave.
    NotJoined,
    /// The store is away, and this cannot be answered without it.
    StoreUnavailable,
}

impl ErrorCode {
    /// Every code, for the documentation's check.
    pub const ALL: [Self; Self::StoreUnavailable as usize + 1] = [
        Self::BadMessage,
        Self::UnknownType,
        Self::InvalidId,
        Self::LiveNotOpen,
        Self::LiveOwned,
        Self::Banned,
        Self::Forbidden,
        Self::NotJoined,
        Self::StoreUnavailable,
    ];

    /// The code on the wire, in problem documents and in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BadMessage => "bad_message",
            Self::UnknownType => "unknown_type",
            Self::InvalidId => "invalid_id",
            Self::LiveNotOpen => "live_not_open",
            Self::LiveOwned => "live_owned",
            Self::Banned => "banned",
            Self::Forbidden => "forbidden",
            Self::NotJoined => "not_joined",
            Self::StoreUnavailable => "store_unavailable",
        }
    }
}

/// A request that was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The code.
    pub code: ErrorCode,
    /// For people.
    pub message: String,
}

impl Refusal {
    /// A refusal with a message for people.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<InvalidId> for Refusal {
    fn from(why: InvalidId) -> Self {
        Self::new(ErrorCode::InvalidId, why.to_string())
    }
}

/// The `id` of a request, a JSON string or number, echoed as it came.
pub type RequestId = RawValue;

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    live_id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    streamer_id: Option<Cow<'a, str>>,
    #[serde(default)]
    slices: Option<u32>,
}

/// What is read of a message that is no request, so that its refusal can carry its id.
#[derive(Deserialize)]
struct OnlyId<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
}

/// The heartbeat as nearly every client writes it.
pub const HEARTBEAT: &str = r#"{"type":"heartbeat"}"#;

/// Reads one text message.
pub fn parse(text: &str) -> (Option<&RequestId>, Result<Request, Refusal>) {
    // Nearly every message there is.
    if text == HEARTBEAT {
        return (None, Ok(Request::Heartbeat));
    }
    let bad = |message: &str| Refusal::new(ErrorCode::BadMessage, message);
    if !text.trim_ascii_start().starts_with('{') {
        return (None, Err(bad("a message is one JSON object")));
    }
    let (id, request) = match serde_json::from_str::<Wire<'_>>(text) {
        Ok(wire) => (wire.id, understand(&wire)),
        Err(why) => {
            let id = serde_json::from_str::<OnlyId<'_>>(text).ok().and_then(|only| only.id);
            (id, Err(bad(&why.to_string())))
        }
    };
    match id {
        Some(id) if !id.get().starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) => {
            (None, Err(bad("an id is a string or a number")))
        }
        id => (id, request),
    }
}

fn understand(wire: &Wire<'_>) -> Result<Request, Refusal> {
    let live = || match &wire.live_id {
        Some(live) => Ok(LiveId::parse(live)?),
        None => Err(Refusal::new(ErrorCode::BadMessage, "live_id is missing")),
    };
    Ok(match wire.kind.as_ref() {
        "heartbeat" => Request::Heartbeat,
        "join" => Request::Join(live()?),
        "leave" => Request::Leave,
        "watch" => Request::Watch(live()?),
        "unwatch" => Request::Unwatch(wire.live_id.as_deref().map(LiveId::parse).transpose()?),
        "open" => {
            let streamer = wire.streamer_id.as_deref().map(UserId::parse).transpose()?;
            Request::Open { live: live()?, streamer, slices: wire.slices }
        }
        "close" => Request::Close(live()?),
        _ => return Err(Refusal::new(ErrorCode::UnknownType, "no such type of message")),
    })
}

/// What the server says.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Say<'a> {
    /// First message on a socket.
    Welcome {
        /// Who the gateway takes the client for.
        user_id: &'a UserId,
        /// This process.
        gateway_id: &'a GatewayId,
        /// Send something this often, in ms.
        heartbeat_ms: u64,
        /// Silent for so long is gone, in ms.
        timeout_ms: u64,
    },
    /// The socket sits in a live.
    Joined {
        /// The live.
        live_id: &'a LiveId,
        /// Its streamer.
        streamer_id: &'a UserId,
        /// Viewers now.
        viewers: u64,
        /// Fans now.
        fans: u64,
    },
    /// Answer to a heartbeat; all but the interval are null while the socket sits in no live.
    HeartbeatAck {
        /// The live.
        live_id: Option<&'a LiveId>,
        /// Whether the user is a fan; null until the first fan check has answered.
        fan: Option<bool>,
        /// Viewers now.
        viewers: Option<u64>,
        /// Fans now.
        fans: Option<u64>,
        /// Send something this often, in ms.
        heartbeat_ms: u64,
    },
    /// The socket left.
    Left {
        /// The live it sat in.
        live_id: &'a LiveId,
    },
    /// No more counts of the live.
    Unwatched {
        /// The live; null if all were meant.
        live_id: Option<&'a LiveId>,
    },
    /// Figures for a dashboard.
    Counts(CountsMessage<'a>),
    /// A live is open.
    Opened {
        /// The live.
        live_id: &'a LiveId,
        /// Which opening.
        epoch: Epoch,
        /// Over how many slices its fans are spread.
        slices: u32,
    },
    /// A live is over.
    Closed {
        /// The live.
        live_id: &'a LiveId,
        /// Why.
        reason: &'static str,
        /// Most fans online at once.
        peak_fans: u64,
        /// Most viewers online at once.
        peak_viewers: u64,
        /// From open to close, in ms.
        duration_ms: u64,
    },
    /// The gateway drains; the socket is closed with 1012 next.
    Reconnect {
        /// How long to wait before reconnecting, in ms.
        after_ms: u64,
    },
    /// A request was refused.
    Error {
        /// The code.
        code: &'static str,
        /// For people.
        message: &'a str,
    },
}

/// Figures for a dashboard.
#[derive(Debug, Serialize)]
pub struct CountsMessage<'a> {
    /// The live.
    pub live_id: &'a LiveId,
    /// Which opening.
    pub epoch: Epoch,
    /// Grows with each counts message on a socket, of whichever live.
    pub seq: u64,
    /// Viewers now.
    pub viewers: u64,
    /// Fans now.
    pub fans: u64,
    /// Most viewers online at once.
    pub peak_viewers: u64,
    /// Most fans online at once.
    pub peak_fans: u64,
    /// When the live opened.
    pub opened_at: UnixMillis,
    /// When these figures were true.
    pub as_of: UnixMillis,
    /// How far to trust them.
    pub quality: Quality,
}

/// Puts the id of a request into the text of its answer.
fn with_id(mut text: String, id: Option<&RequestId>) -> Utf8Bytes {
    if let Some(id) = id
        && text.pop() == Some('}')
    {
        text.push_str(",\"id\":");
        text.push_str(id.get());
        text.push('}');
    }
    text.into()
}

impl Say<'_> {
    /// The text of the message, with the request's id where it has one.
    pub fn text(&self, id: Option<&RequestId>) -> Utf8Bytes {
        // Only maps with non-string keys and failing writers make this fail; neither is here.
        with_id(serde_json::to_string(self).unwrap_or_default(), id)
    }

    /// What is said at the end of a live.
    pub fn closed(record: &LiveRecord) -> Say<'_> {
        Say::Closed {
            live_id: &record.live,
            reason: record.closure.map_or(CloseReason::Requested, |closure| closure.reason).as_str(),
            peak_fans: record.peaks.fans,
            peak_viewers: record.peaks.viewers,
            duration_ms: record.duration_ms().unwrap_or(0),
        }
    }
}

/// The three acknowledgements that a live's viewers are sent (fan unknown, no, yes), made once per change of figures.
#[derive(Debug, Default)]
pub struct Acks {
    figures: Figures,
    texts: Option<[Utf8Bytes; 3]>,
}

impl Acks {
    /// The acknowledgements for these figures.
    pub fn new(live: &LiveId, figures: Figures, heartbeat_ms: u64) -> Arc<Self> {
        let text = |fan| ack(live, figures, fan, heartbeat_ms).text(None);
        Arc::new(Self { figures, texts: Some([text(Fan::Unknown), text(Fan::No), text(Fan::Yes)]) })
    }

    /// The text to send, if it is still true.
    pub fn text(&self, figures: Figures, fan: Fan, id: Option<&RequestId>) -> Option<Utf8Bytes> {
        let text = &self.texts.as_ref().filter(|_| self.figures == figures)?[fan as usize];
        Some(match id {
            None => text.clone(),
            Some(_) => with_id(text.as_str().to_owned(), id),
        })
    }
}

fn ack(live: &LiveId, figures: Figures, fan: Fan, heartbeat_ms: u64) -> Say<'_> {
    let fan = match fan {
        Fan::Unknown => None,
        Fan::No => Some(false),
        Fan::Yes => Some(true),
    };
    Say::HeartbeatAck {
        live_id: Some(live),
        fan,
        viewers: Some(figures.viewers),
        fans: Some(figures.fans),
        heartbeat_ms,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> ErrorCode {
        parse(text).1.expect_err(text).code
    }

    #[test]
    fn what_is_no_request_is_refused_with_the_right_code() {
        for text in
            ["", "x", "[]", "[\"join\",\"42\"]", "{", "{}", "\"heartbeat\"", "null", "{\"type\":7}", "{\"type\":null}"]
        {
            assert_eq!(code(text), ErrorCode::BadMessage, "{text}");
        }
        assert_eq!(code(r#"{"type":"join"}"#), ErrorCode::BadMessage);
        assert_eq!(code(r#"{"type":"join","live_id":42}"#), ErrorCode::BadMessage);
        assert_eq!(code(r#"{"type":"heartbeat","id":{}}"#), ErrorCode::BadMessage);
        assert_eq!(code(r#"{"type":"dance"}"#), ErrorCode::UnknownType);
        for id in ["", "{42}", "4 2", "42\\n", "42_slice1", "*"] {
            assert_eq!(code(&format!(r#"{{"type":"join","live_id":"{id}"}}"#)), ErrorCode::InvalidId, "{id}");
        }
    }

    #[test]
    fn ids_are_echoed_as_they_came() {
        for id in [r#""a\"b""#, "7", "-1.50", "18446744073709551616", "1e3"] {
            let message = format!(r#" {{"type":"heartbeat","id":{id},"more":[1]}}"#);
            let (echo, request) = parse(&message);
            assert!(matches!(request, Ok(Request::Heartbeat)));
            let text = Say::Error { code: "x", message: "y" }.text(echo);
            assert_eq!(text.as_str(), format!(r#"{{"type":"error","code":"x","message":"y","id":{id}}}"#));
        }
    }

    #[test]
    fn an_ack_says_null_until_the_fan_check_answered() {
        let live = LiveId::parse("42").unwrap();
        let figures = Figures { viewers: 10, fans: 3 };
        let acks = Acks::new(&live, figures, 5000);
        assert_eq!(
            acks.text(figures, Fan::Unknown, None).unwrap().as_str(),
            r#"{"type":"heartbeat_ack","live_id":"42","fan":null,"viewers":10,"fans":3,"heartbeat_ms":5000}"#
        );
        assert!(acks.text(figures, Fan::Yes, None).unwrap().as_str().contains(r#""fan":true"#));
        assert_eq!(acks.text(Figures { viewers: 11, fans: 3 }, Fan::Yes, None), None);
    }
}
