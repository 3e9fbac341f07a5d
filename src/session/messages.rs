//! The messages on the WebSocket: what a client may send, what the gateway sends, and the error
//! codes. Parsing never panics; it refuses with a code. A new client message is declared and parsed
//! here, served in `requests.rs`, and described in `docs/websocket.md`.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio_tungstenite::tungstenite::Utf8Bytes;
use utoipa::ToSchema;

use crate::auth::presented::presented;
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, GatewayId, InvalidId, LiveId, UserId};
use crate::base::json_error;
use crate::base::secret::Secret;
use crate::base::socket_id::SocketId;
use crate::presence::Fan;
use crate::presence::acks::CachedAcks;
use crate::presence::figures::Figures;
use crate::presence::figures::Quality;
use crate::presence::room_info::KnownInfo;
use crate::presence::room_stream::ShownStream;
use crate::presence::rules::RunningBan;
use crate::store::{CloseReason, Info, LiveRecord};

#[derive(Debug)]
pub(crate) enum ClientMessage {
    Join(JoinRequest),
    Heartbeat {
        /// Whether the user watches, if the client says so.
        watching: Option<bool>,
    },
    /// Nobody looks any more.
    Away,
    /// The viewer is back.
    Back,
    Leave,
    Watch(LiveId),
    /// Stop watching this live, or all.
    Unwatch(Option<LiveId>),
    Open {
        live: LiveId,
        streamer: Option<UserId>,
        slices: Option<u32>,
    },
    Close(LiveId),
    /// Go on with this token.
    Refresh(Secret),
}

#[derive(Debug)]
pub(crate) struct JoinRequest {
    pub(crate) live: LiveId,
    /// Whether to push the counts of the live.
    pub(crate) counts: bool,
    /// Whether to push which friends are there.
    pub(crate) friends: bool,
}

impl JoinRequest {
    /// A join that asks for nothing else.
    pub(crate) fn plain(live: LiveId) -> Self {
        Self {
            live,
            counts: false,
            friends: false,
        }
    }
}

/// The codes of `error` messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum ErrorCode {
    /// Not JSON, not an object, binary, or a field of the wrong type.
    BadMessage,
    /// No such `type`.
    UnknownType,
    /// An id that breaks the rules.
    InvalidId,
    /// No live is open under this id.
    LiveNotOpen,
    /// Another streamer owns the live.
    LiveOwned,
    /// A moderator removed the user, and the ban still runs.
    Banned,
    /// The user is being erased.
    BeingErased,
    /// The role or the token does not allow it, or the live is another's.
    Forbidden,
    /// The socket has joined no live.
    NotJoined,
    /// A limit on messages, joins, watches or opens is reached.
    RateLimited,
    /// The store does not answer, and the request needs it.
    StoreUnavailable,
    /// A setting of the gateway leaves out what the request needs.
    NotAvailable,
}

impl ErrorCode {
    /// Every code, for the check of the documentation.
    pub const ALL: [Self; Self::NotAvailable as usize + 1] = [
        Self::BadMessage,
        Self::UnknownType,
        Self::InvalidId,
        Self::LiveNotOpen,
        Self::LiveOwned,
        Self::Banned,
        Self::BeingErased,
        Self::Forbidden,
        Self::NotJoined,
        Self::RateLimited,
        Self::StoreUnavailable,
        Self::NotAvailable,
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
            Self::BeingErased => "being_erased",
            Self::Forbidden => "forbidden",
            Self::NotJoined => "not_joined",
            Self::RateLimited => "rate_limited",
            Self::StoreUnavailable => "store_unavailable",
            Self::NotAvailable => "not_available",
        }
    }
}

/// A refused request; the message is for people.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) code: ErrorCode,
    pub(crate) message: String,
    /// The ban of the platform or of the streamer that keeps the user out.
    pub(crate) ban: Option<Box<RunningBan>>,
}

impl Refusal {
    pub(crate) fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            ban: None,
        }
    }

    /// A moderator removed the user from the live, and the ban runs for so long.
    pub(crate) fn removed(live: &LiveId, left: Duration) -> Self {
        let left = left.as_millis().div_ceil(1_000);
        let message = format!("removed from live {live}; it cannot be joined for {left} s");
        Self::new(ErrorCode::Banned, message)
    }

    /// A ban of the platform or of the streamer keeps the user out.
    pub(crate) fn kept_out(ban: &RunningBan) -> Self {
        Self {
            ban: Some(Box::new(ban.clone())),
            ..Self::new(ErrorCode::Banned, ban.to_string())
        }
    }
}

impl From<InvalidId> for Refusal {
    fn from(why: InvalidId) -> Self {
        Self::new(ErrorCode::InvalidId, why.to_string())
    }
}

/// The `id` of a request, a JSON string or number, echoed as it came.
pub(crate) type RequestId = RawValue;

/// The fields of all client messages.
#[derive(Deserialize)]
struct MessageFields<'a> {
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
    #[serde(borrow, default)]
    token: Option<Cow<'a, str>>,
    #[serde(default)]
    counts: Option<bool>,
    #[serde(default)]
    friends: Option<bool>,
    #[serde(default)]
    watching: Option<bool>,
}

/// The only field that is read of a malformed message: the refusal carries the id.
#[derive(Deserialize)]
struct OnlyId<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
}

/// The heartbeat as nearly every client writes it.
pub(crate) const HEARTBEAT: &str = r#"{"type":"heartbeat"}"#;

/// The heartbeat of a client whose user watches.
pub(crate) const WATCHING: &str = r#"{"type":"heartbeat","watching":true}"#;

/// Reads one text message: the id of the request, and the request.
pub(crate) fn parse(text: &str) -> (Option<&RequestId>, Result<ClientMessage, Refusal>) {
    let known = match text {
        HEARTBEAT => Some(None),
        WATCHING => Some(Some(true)),
        _ => None,
    };
    if let Some(watching) = known {
        return (None, Ok(ClientMessage::Heartbeat { watching }));
    }
    if !text.trim_ascii_start().starts_with('{') {
        let refusal = bad_message("a message must be one JSON object");
        return (None, Err(refusal));
    }
    let (id, request) = match serde_json::from_str::<MessageFields<'_>>(text) {
        Ok(message) => (message.id, message.request()),
        Err(why) => (
            id_of_malformed(text),
            Err(bad_message(malformed(text, &why))),
        ),
    };
    if let Some(id) = id
        && !is_string_or_number(id)
    {
        let refusal = bad_message("an id must be a string or a number");
        return (None, Err(refusal));
    }
    (id, request)
}

fn bad_message(message: impl Into<String>) -> Refusal {
    Refusal::new(ErrorCode::BadMessage, message)
}

fn id_of_malformed(text: &str) -> Option<&RequestId> {
    match serde_json::from_str::<OnlyId<'_>>(text) {
        Ok(only) => only.id,
        Err(_) => None,
    }
}

fn is_string_or_number(json: &RawValue) -> bool {
    json.get()
        .starts_with(|c: char| c == '"' || c == '-' || c.is_ascii_digit())
}

/// Explains why a message cannot be read. The text names the field, and quotes no value.
fn malformed(text: &str, why: &serde_json::Error) -> String {
    let Ok(fields) = serde_json::from_str::<Map<String, Value>>(text) else {
        return json_error::without_values(why);
    };
    if !fields.get("type").is_some_and(Value::is_string) {
        return "type must be there, and a text".to_owned();
    }
    for name in ["live_id", "streamer_id", "token"] {
        if is_wrong(&fields, name, Value::is_string) {
            return format!("{name} must be a text");
        }
    }
    for name in ["counts", "friends", "watching"] {
        if is_wrong(&fields, name, Value::is_boolean) {
            return format!("{name} must be true or false");
        }
    }
    if is_wrong(&fields, "slices", is_u32) {
        return "slices must be a whole number".to_owned();
    }
    "a field is there twice".to_owned()
}

/// Whether an optional field has a value of the wrong type. It may be missing, or null.
fn is_wrong(fields: &Map<String, Value>, name: &str, is_right: fn(&Value) -> bool) -> bool {
    match fields.get(name) {
        None | Some(Value::Null) => false,
        Some(value) => !is_right(value),
    }
}

fn is_u32(value: &Value) -> bool {
    match value.as_u64() {
        Some(number) => u32::try_from(number).is_ok(),
        None => false,
    }
}

impl MessageFields<'_> {
    fn request(&self) -> Result<ClientMessage, Refusal> {
        let message = match self.kind.as_ref() {
            "heartbeat" => ClientMessage::Heartbeat {
                watching: self.watching,
            },
            "join" => ClientMessage::Join(JoinRequest {
                live: self.live()?,
                counts: self.counts == Some(true),
                friends: self.friends == Some(true),
            }),
            "away" => ClientMessage::Away,
            "back" => ClientMessage::Back,
            "leave" => ClientMessage::Leave,
            "watch" => ClientMessage::Watch(self.live()?),
            "unwatch" => match &self.live_id {
                Some(live) => ClientMessage::Unwatch(Some(LiveId::parse(live)?)),
                None => ClientMessage::Unwatch(None),
            },
            "open" => {
                let streamer = match &self.streamer_id {
                    Some(streamer) => Some(UserId::parse(streamer)?),
                    None => None,
                };
                ClientMessage::Open {
                    live: self.live()?,
                    streamer,
                    slices: self.slices,
                }
            }
            "close" => ClientMessage::Close(self.live()?),
            "refresh" => match self.token.as_deref().and_then(presented) {
                Some(token) => ClientMessage::Refresh(Secret::new(token)),
                None => return Err(bad_message("token is missing")),
            },
            _ => {
                return Err(Refusal::new(
                    ErrorCode::UnknownType,
                    "no message has this type",
                ));
            }
        };
        Ok(message)
    }

    fn live(&self) -> Result<LiveId, Refusal> {
        match &self.live_id {
            Some(live) => Ok(LiveId::parse(live)?),
            None => Err(bad_message("live_id is missing")),
        }
    }
}

/// What the gateway sends. The first line on a message is its title in the AsyncAPI document, and
/// the others are its summary.
#[derive(Debug, Serialize, ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ServerMessage<'a> {
    /// The first message on a socket
    ///
    /// Says how often to send something.
    #[schema(example = json!({
        "type": "welcome",
        "user_id": "u1",
        "gateway_id": "gw-2cuqcexsfjoukher",
        "socket_id": "k3vq2xmnlh5a7cde-0000002a",
        "heartbeat_ms": 5_000,
        "timeout_ms": 15_000,
    }))]
    Welcome {
        user_id: &'a UserId,
        #[schema(value_type = String)]
        gateway_id: &'a GatewayId,
        /// Names this socket in the log of the gateway.
        #[schema(value_type = String)]
        socket_id: SocketId,
        /// How often to send something, in milliseconds.
        heartbeat_ms: u64,
        /// After how long a silence the socket is closed, in milliseconds.
        timeout_ms: u64,
    },
    /// The socket has joined a live
    ///
    /// The answer to `join`.
    #[schema(example = json!({
        "type": "joined",
        "live_id": "42",
        "streamer_id": "s1",
        "viewers": 10,
        "fans": 3,
        "guests": 2,
        "id": 1,
    }))]
    Joined {
        live_id: &'a LiveId,
        streamer_id: &'a UserId,
        viewers: u64,
        fans: u64,
        /// The guests among the viewers.
        guests: u64,
        /// What the user may do in the live beside watching it; absent if nothing.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schema(value_type = UserRights, required = false)]
        you: Option<UserRights>,
        #[serde(flatten)]
        #[schema(inline, value_type = InfoTold<'a>)]
        told: Option<InfoTold<'a>>,
    },
    /// The gateway has heard the client
    ///
    /// The answer to `heartbeat`. All but the interval are null while the socket is in no live.
    #[schema(example = json!({
        "type": "heartbeat_ack",
        "live_id": "42",
        "fan": true,
        "viewers": 10,
        "fans": 3,
        "guests": 2,
        "heartbeat_ms": 5_000,
    }))]
    HeartbeatAck {
        #[schema(required = true)]
        live_id: Option<&'a LiveId>,
        /// Whether the user is a fan; null until the first fan check has answered.
        #[schema(required = true)]
        fan: Option<bool>,
        #[schema(required = true)]
        viewers: Option<u64>,
        #[schema(required = true)]
        fans: Option<u64>,
        /// The guests among the viewers.
        #[schema(required = true)]
        guests: Option<u64>,
        /// How often to send something, in milliseconds.
        heartbeat_ms: u64,
        #[serde(flatten)]
        #[schema(inline, value_type = InfoTold<'a>)]
        told: Option<InfoTold<'a>>,
    },
    /// The socket has left the live
    ///
    /// The answer to `leave`.
    #[schema(example = json!({"type": "left", "live_id": "42", "id": 2}))]
    Left { live_id: &'a LiveId },
    /// The socket watches the live no more
    ///
    /// The answer to `unwatch`; or the user hosts the live no more. The live is null if the client
    /// stopped watching all.
    #[schema(example = json!({"type": "unwatched", "live_id": null}))]
    Unwatched {
        #[schema(required = true)]
        live_id: Option<&'a LiveId>,
    },
    /// How many are in a live
    ///
    /// For those who watch, and for viewers who asked. The first change, and any change to or from
    /// zero, comes at once; later ones at most every 500 ms.
    #[schema(example = json!({
        "type": "counts",
        "live_id": "42",
        "epoch": 1_795_311_961_u64,
        "seq": 17,
        "viewers": 10,
        "fans": 3,
        "guests": 2,
        "peak_viewers": 12,
        "peak_fans": 5,
        "opened_at": 1_795_311_961_576_u64,
        "as_of": 1_795_311_961_731_u64,
        "quality": "exact",
        "away": 0,
        "watching": 7,
        "joins": 14,
        "leaves": 4,
    }))]
    Counts(#[schema(inline)] CountsMessage<'a>),
    /// Which friends are in the live
    ///
    /// For viewers who asked for it, on change.
    #[schema(example = json!({
        "type": "friends",
        "live_id": "42",
        "count": 3,
        "user_ids": ["u7", "u8", "u9"],
        "partial": false,
    }))]
    Friends {
        live_id: &'a LiveId,
        count: usize,
        #[schema(value_type = Vec<UserId>, max_items = 20)]
        user_ids: &'a [UserId],
        /// Whether there may be more: the user follows very many.
        partial: bool,
    },
    /// What the user may do in the joined live has changed
    ///
    /// The streamer or a back end made the user a moderator or a host, or not any more.
    #[schema(example = json!({"type": "you", "live_id": "42", "moderator": true, "host": false}))]
    You {
        live_id: &'a LiveId,
        /// Whether the user moderates in the lives of the streamer.
        moderator: bool,
        /// Whether the user hosts the live.
        host: bool,
    },
    /// The live is open
    ///
    /// The answer to `open`.
    #[schema(example = json!({
        "type": "opened",
        "live_id": "42",
        "epoch": 1_795_311_961_u64,
        "slices": 1,
        "id": "o",
    }))]
    Opened {
        live_id: &'a LiveId,
        /// Which opening of the live.
        #[schema(value_type = u64)]
        epoch: Epoch,
        #[schema(minimum = 1, maximum = 256)]
        slices: u32,
    },
    /// The live is closed
    ///
    /// The answer to `close`; also for every socket in the live, and for those that watch it.
    #[schema(example = json!({
        "type": "closed",
        "live_id": "42",
        "reason": "requested",
        "peak_fans": 5,
        "peak_viewers": 12,
        "duration_ms": 60_400,
    }))]
    Closed {
        live_id: &'a LiveId,
        #[schema(value_type = CloseReason)]
        reason: &'static str,
        peak_fans: u64,
        peak_viewers: u64,
        /// How long the live was open, in milliseconds.
        duration_ms: u64,
    },
    /// The socket goes on with the new token
    ///
    /// The answer to `refresh`.
    #[schema(example = json!({"type": "refreshed", "expires_at": 1_795_315_561_000_u64, "id": 4}))]
    Refreshed {
        /// When the new token ends, in Unix milliseconds.
        #[schema(value_type = u64)]
        expires_at: UnixMillis,
    },
    /// What a back end wrote about the live, for a stream of events; a socket is told it together
    /// with something else.
    Info {
        live_id: &'a LiveId,
        #[serde(flatten)]
        #[schema(inline)]
        told: InfoTold<'a>,
    },
    /// The gateway is about to stop
    ///
    /// The socket is closed with 1012 next. Connect again after this time.
    #[schema(example = json!({"type": "reconnect", "after_ms": 1_834}))]
    Reconnect {
        /// How long to wait, in milliseconds.
        after_ms: u64,
    },
    /// The gateway refuses a request
    ///
    /// An error does not close the socket.
    #[schema(example = json!({
        "type": "error",
        "code": "live_not_open",
        "message": "live 42 is not open",
        "id": 7,
    }))]
    Error {
        #[schema(value_type = ErrorCode)]
        code: &'static str,
        /// For people.
        message: &'a str,
        #[serde(flatten)]
        #[schema(inline, value_type = BanTold)]
        ban: Option<BanTold>,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// What a user may do in a live beside watching it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct UserRights {
    /// Whether the user moderates in the lives of the streamer.
    pub(crate) moderator: bool,
    /// Whether the user hosts the live.
    pub(crate) host: bool,
}

/// The ban of the platform or of the streamer that is why a request is refused.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct BanTold {
    /// When the ban ends, in Unix milliseconds; absent if it has no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    ban_ends_at: Option<UnixMillis>,
    /// Why the user is banned; absent if nobody said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    ban_reason: Option<String>,
}

impl BanTold {
    pub(crate) fn of(ban: &RunningBan) -> Self {
        Self {
            ban_ends_at: ban.until,
            ban_reason: ban.reason.clone(),
        }
    }
}

/// Figures for a dashboard.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct CountsMessage<'a> {
    pub(crate) live_id: &'a LiveId,
    /// Which opening of the live.
    #[schema(value_type = u64)]
    pub(crate) epoch: Epoch,
    /// Grows with every `counts` of an epoch on a socket.
    pub(crate) seq: u64,
    pub(crate) viewers: u64,
    pub(crate) fans: u64,
    /// How many of the viewers are guests.
    pub(crate) guests: u64,
    pub(crate) peak_viewers: u64,
    pub(crate) peak_fans: u64,
    /// When the live opened, in Unix milliseconds.
    #[schema(value_type = u64)]
    pub(crate) opened_at: UnixMillis,
    /// When the figures were last known to be right, in Unix milliseconds.
    #[schema(value_type = u64)]
    pub(crate) as_of: UnixMillis,
    pub(crate) quality: Quality,
    /// How many of the viewers are away.
    pub(crate) away: u64,
    /// How many of the viewers watch: their clients say that the picture plays and can be seen.
    pub(crate) watching: u64,
    /// How many of the viewers a back end confirmed within the last minute. Absent if it confirmed
    /// nobody.
    #[serde(skip_serializing_if = "is_zero")]
    #[schema(required = false)]
    pub(crate) confirmed: u64,
    /// How often somebody came, since the opening.
    pub(crate) joins: u64,
    /// How often somebody left, since the opening.
    pub(crate) leaves: u64,
    /// What a media server has of the live. Absent if none told of a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ShownStream, required = false)]
    pub(crate) stream: Option<ShownStream>,
    #[serde(flatten)]
    #[schema(inline, value_type = InfoTold<'a>)]
    pub(crate) told: Option<InfoTold<'a>>,
}

/// The information that a back end wrote about the live, for a socket that does not have this
/// version yet.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct InfoTold<'a> {
    /// What the back end wrote about the live; null if it was cleared. Absent unless this socket
    /// lacks that version.
    #[schema(value_type = serde_json::Value, required = false)]
    info: Option<&'a RawValue>,
    /// The version of the information.
    #[schema(required = false)]
    info_version: u64,
}

impl<'a> InfoTold<'a> {
    pub(crate) fn of(info: &'a Info) -> Self {
        // The gateway writes only JSON. Anything else comes from another program, and is left out.
        let read = match info.json.as_deref() {
            Some(json) => serde_json::from_str(json).ok(),
            None => None,
        };
        Self {
            info: read,
            info_version: info.version,
        }
    }
}

/// Appends the id of a request to its answer.
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

impl ServerMessage<'_> {
    pub(crate) fn text(&self, id: Option<&RequestId>) -> Utf8Bytes {
        // Serialization fails only for maps with non-string keys and failing writers; neither
        // occurs here.
        with_id(serde_json::to_string(self).unwrap_or_default(), id)
    }

    /// Tells of the end of a live.
    pub(crate) fn closed(record: &LiveRecord) -> ServerMessage<'_> {
        let reason = match record.closure {
            Some(closure) => closure.reason,
            None => CloseReason::Requested,
        };
        ServerMessage::Closed {
            live_id: &record.live,
            reason: reason.as_str(),
            peak_fans: record.peaks.fans,
            peak_viewers: record.peaks.viewers,
            duration_ms: record.duration_ms().unwrap_or(0),
        }
    }
}

/// The acknowledgements for the viewers of a live at these figures. With `known`, they tell the
/// live's information, too, for viewers who do not have it.
pub(crate) fn acks(
    live: &LiveId,
    figures: Figures,
    known: Option<&KnownInfo>,
    heartbeat_ms: u64,
) -> Arc<CachedAcks> {
    let revision = match known {
        Some(known) => known.revision,
        None => 0,
    };
    let texts = [Fan::Unknown, Fan::No, Fan::Yes].map(|fan| {
        let told = known.map(|known| InfoTold::of(&known.info));
        ack(live, figures, fan, told, heartbeat_ms).text(None)
    });
    Arc::new(CachedAcks::new(figures, revision, texts))
}

/// An acknowledgement with the id of the heartbeat that it answers, if the heartbeat has one.
pub(crate) fn answering(ack: &Utf8Bytes, id: Option<&RequestId>) -> Utf8Bytes {
    match id {
        None => ack.clone(),
        Some(_) => with_id(ack.as_str().to_owned(), id),
    }
}

fn ack<'a>(
    live: &'a LiveId,
    figures: Figures,
    fan: Fan,
    told: Option<InfoTold<'a>>,
    heartbeat_ms: u64,
) -> ServerMessage<'a> {
    let fan = match fan {
        Fan::Unknown => None,
        Fan::No => Some(false),
        Fan::Yes => Some(true),
    };
    ServerMessage::HeartbeatAck {
        live_id: Some(live),
        fan,
        viewers: Some(figures.viewers),
        fans: Some(figures.fans),
        guests: Some(figures.guests),
        heartbeat_ms,
        told,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> ErrorCode {
        parse(text).1.expect_err(text).code
    }

    #[test]
    fn a_malformed_message_is_refused_with_the_right_code() {
        for text in [
            "",
            "x",
            "[]",
            "[\"join\",\"42\"]",
            "{",
            "{}",
            "\"heartbeat\"",
            "null",
            "{\"type\":7}",
            "{\"type\":null}",
        ] {
            assert_eq!(code(text), ErrorCode::BadMessage, "{text}");
        }
        assert_eq!(code(r#"{"type":"join"}"#), ErrorCode::BadMessage);
        assert_eq!(
            code(r#"{"type":"join","live_id":42}"#),
            ErrorCode::BadMessage
        );
        assert_eq!(
            code(r#"{"type":"heartbeat","id":{}}"#),
            ErrorCode::BadMessage
        );
        assert_eq!(code(r#"{"type":"dance"}"#), ErrorCode::UnknownType);
        for id in ["", "{42}", "4 2", "42\\n", "42_slice1", "*"] {
            assert_eq!(
                code(&format!(r#"{{"type":"join","live_id":"{id}"}}"#)),
                ErrorCode::InvalidId,
                "{id}"
            );
        }
    }

    #[test]
    fn a_refusal_names_the_field_and_quotes_no_value() {
        for (text, field) in [
            (r#"{"type":"refresh","token":["hunter2"]}"#, "token"),
            (r#"{"type":"refresh","token":{"hunter2":1}}"#, "token"),
            (
                r#"{"type":"refresh","live_id":"42","counts":"hunter2"}"#,
                "counts",
            ),
            (
                r#"{"type":"join","live_id":42,"token":"hunter2"}"#,
                "live_id",
            ),
            (
                r#"{"type":"open","live_id":"42","slices":"hunter2"}"#,
                "slices",
            ),
            (r#"{"type":"open","live_id":"42","slices":-1}"#, "slices"),
            (r#"{"type":["hunter2"],"token":"hunter2"}"#, "type"),
            (r#"{"token":"hunter2"}"#, "type"),
            (
                r#"{"type":"refresh","token":"hunter2","token":"hunter2"}"#,
                "twice",
            ),
            (r#"{"type":"refresh","token":hunter2}"#, "JSON"),
            (r#"{"type":"refresh","token":"hunter2"#, "JSON"),
        ] {
            let refusal = parse(text).1.expect_err(text);
            assert_eq!(refusal.code, ErrorCode::BadMessage, "{text}");
            assert!(
                refusal.message.contains(field),
                "{text}: {}",
                refusal.message
            );
            assert!(
                !refusal.message.contains("hunter2"),
                "{text}: {}",
                refusal.message
            );
        }
    }

    #[test]
    fn ids_are_echoed_as_they_came() {
        for id in [r#""a\"b""#, "7", "-1.50", "18446744073709551616", "1e3"] {
            let message = format!(r#" {{"type":"heartbeat","id":{id},"more":[1]}}"#);
            let (echo, request) = parse(&message);
            assert!(matches!(
                request,
                Ok(ClientMessage::Heartbeat { watching: None })
            ));
            let text = ServerMessage::Error {
                code: "x",
                message: "y",
                ban: None,
            }
            .text(echo);
            assert_eq!(
                text.as_str(),
                format!(r#"{{"type":"error","code":"x","message":"y","id":{id}}}"#)
            );
        }
    }

    #[test]
    fn an_ack_says_null_until_the_fan_check_has_answered() {
        let live = LiveId::parse("42").unwrap();
        let figures = Figures {
            viewers: 10,
            fans: 3,
            guests: 2,
        };
        let plain = acks(&live, figures, None, 5000);
        assert_eq!(
            plain.text(figures, 0, Fan::Unknown).unwrap().as_str(),
            r#"{"type":"heartbeat_ack","live_id":"42","fan":null,"viewers":10,"fans":3,"guests":2,"heartbeat_ms":5000}"#
        );
        assert!(
            plain
                .text(figures, 0, Fan::Yes)
                .unwrap()
                .as_str()
                .contains(r#""fan":true"#)
        );
        assert_eq!(
            plain.text(
                Figures {
                    viewers: 11,
                    ..figures
                },
                0,
                Fan::Yes
            ),
            None
        );
        assert_eq!(plain.text(figures, 7, Fan::Yes), None);
    }

    #[test]
    fn information_is_told_as_it_was_written_with_its_version() {
        let live = LiveId::parse("42").unwrap();
        let figures = Figures {
            viewers: 10,
            fans: 3,
            guests: 2,
        };
        for (json, shown) in [
            (Some(r#"{"b":1,"a":[1.50]}"#), r#"{"b":1,"a":[1.50]}"#),
            (None, "null"),
        ] {
            let info = Info {
                version: 7,
                json: json.map(Into::into),
            };
            let info = KnownInfo {
                version: 7,
                revision: 2,
                info,
                terms: crate::store::Terms::default(),
            };
            let acks = acks(&live, figures, Some(&info), 5000);
            let text = acks.text(figures, 2, Fan::No).unwrap().to_string();
            assert!(
                text.ends_with(&format!(
                    r#""heartbeat_ms":5000,"info":{shown},"info_version":7}}"#
                )),
                "{text}"
            );
        }
    }
}
