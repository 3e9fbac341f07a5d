//! The routes of one live, for back ends: open, close, show. `live_changes` changes one, and
//! `live_lists` has the routes of many.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::authorization::{OnlyOwn, OwnLive};
use super::bounded::{Text, Whole, Within};
use super::hosts::{self, HostIds};
use super::problem::{Problem, ProblemKind, refusals};
use super::requests::{InPath, InQuery, JsonObject, in_body, run_to_completion};
use super::state::AppState;
use crate::base::ids::{Epoch, LiveId, MAX_SLICES, UserId};
use crate::presence::figures::Quality;
use crate::presence::room::Room;
use crate::presence::room_stream::ShownStream;
use crate::store::Summary;
use crate::store::{CloseReason, Figures, LiveChange, LiveRecord, LiveState, OpenedBy, Terms};
use crate::sync::lives::{LiveError, OpenRequest, OpenedLive};

/// A request to open a live.
#[derive(Deserialize, ToSchema)]
#[schema(as = OpenLive, example = json!({"streamer_id": "s1", "slices": 8, "title": "Cooking with s1"}))]
pub(crate) struct OpenLiveBody {
    /// Who will own it.
    #[schema(value_type = UserId)]
    streamer_id: String,
    /// Over how many slices its viewers are spread. The gateway chooses if this is left out.
    #[schema(inline)]
    slices: Option<SliceCount>,
    /// Whether to keep, until eight days after the close, which fans came, and from when to when
    /// each user was there.
    attendance: Option<bool>,
    /// Whether to keep it out of all feeds and timelines, because its streamer hides.
    invisible: Option<bool>,
    /// For people: no control characters. Left out, null or empty: no title.
    #[schema(inline)]
    title: Option<Title>,
    /// For how many seconds the streamer may be away before the live closes by itself; 0: for ever.
    /// Left out or null: as long as `--streamer-timeout` says if a streamer's token opens it,
    /// otherwise for ever.
    #[schema(inline)]
    streamer_timeout_s: Option<StreamerTimeoutSeconds>,
    /// Who hosts it beside its streamer, each once: they watch it, moderate in it, publish to it, and
    /// keep it open as its streamer does. Left out or null: nobody.
    #[schema(inline)]
    hosts: Option<HostIds>,
}

pub(crate) type Title = Text<0, 200>;

/// The longest streamer timeout, in seconds.
const MAX_STREAMER_TIMEOUT: u64 = 30 * 24 * 3600;

pub(crate) type StreamerTimeoutSeconds = Within<0, MAX_STREAMER_TIMEOUT>;

/// The title, unless it is empty.
pub(crate) fn title_text(title: Title) -> Option<String> {
    if title.0.is_empty() {
        return None;
    }
    Some(title.0)
}

pub(crate) fn length(seconds: StreamerTimeoutSeconds) -> Duration {
    Duration::from_secs(seconds.0)
}

type SliceCount = Within<1, { MAX_SLICES as u64 }>;

/// A live, as the store knows it.
#[derive(Serialize, ToSchema)]
#[schema(as = Live)]
pub(crate) struct ApiLive {
    /// The live.
    live_id: LiveId,
    /// `open`, `closing` or `closed`.
    #[schema(example = "open")]
    state: &'static str,
    /// Who owns it.
    streamer_id: UserId,
    /// Who hosts it beside its streamer.
    #[schema(example = json!(["u7"]))]
    hosts: Vec<UserId>,
    /// Which opening of this id it is.
    #[schema(example = 3)]
    epoch: u64,
    /// Over how many slices its viewers are spread.
    #[schema(example = 8)]
    slices: u32,
    /// `streamer`, `service`, or `media` for a stream.
    #[schema(example = "service")]
    opened_by: &'static str,
    /// Its title; null if it has none.
    #[schema(example = "Cooking with s1")]
    title: Option<String>,
    /// For how many seconds its streamer may be away; null: the default for `opened_by`.
    #[schema(example = 60)]
    streamer_timeout_s: Option<u64>,
    /// Whether it is kept which fans come, and when each user is there.
    attendance: bool,
    /// Whether it is kept out of all feeds and timelines.
    invisible: bool,
    /// When it opened, in Unix milliseconds.
    #[schema(example = 1_732_000_000_000_u64)]
    opened_at: u64,
    /// Most viewers at once.
    #[schema(example = 12)]
    peak_viewers: u64,
    /// Most fans at once.
    #[schema(example = 5)]
    peak_fans: u64,
    /// When its close began, in Unix milliseconds; null while it is open.
    closed_at: Option<u64>,
    /// Why it closed: `requested`, `streamer_timeout`, `moderated`, `stream_ended`; null while it is
    /// open.
    reason: Option<&'static str>,
    /// How long it lasted; null while it is open.
    duration_ms: Option<u64>,
}

impl From<LiveRecord> for ApiLive {
    fn from(record: LiveRecord) -> Self {
        Self {
            state: record.state.as_str(),
            epoch: record.epoch.0,
            slices: record.slices,
            opened_by: record.opened_by.as_str(),
            streamer_timeout_s: record
                .terms
                .streamer_timeout
                .map(|timeout| timeout.as_secs()),
            attendance: record.terms.attendance,
            invisible: record.terms.invisible,
            opened_at: record.opened_at,
            peak_viewers: record.peaks.viewers,
            peak_fans: record.peaks.fans,
            closed_at: record.closure.map(|closure| closure.at),
            reason: record.closure.map(|closure| closure.reason.as_str()),
            duration_ms: record.duration_ms(),
            title: record.terms.title,
            hosts: record.terms.hosts,
            live_id: record.live,
            streamer_id: record.streamer,
        }
    }
}

/// A live with the figures of this moment.
#[derive(Serialize, ToSchema)]
#[schema(as = LiveNow)]
pub(crate) struct LiveNow {
    /// The live.
    #[serde(flatten)]
    live: ApiLive,
    /// Viewers online now.
    #[schema(example = 10)]
    viewers: u64,
    /// Fans online now.
    #[schema(example = 3)]
    fans: u64,
    /// Guests online now, among the viewers.
    #[schema(example = 2)]
    guests: u64,
    /// What the room of the live knows.
    #[serde(flatten)]
    room: InRoom,
    /// Its stream; left out if no media server told of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = ShownStream, required = false)]
    stream: Option<ShownStream>,
    /// What is left of it when it is over; null while it is open.
    summary: Option<Summary>,
}

/// What only a gateway that holds the live knows of its figures.
#[derive(Serialize, ToSchema)]
#[schema(as = HeldFigures)]
pub(crate) struct InRoom {
    /// How many of the viewers are away; null for a live that this gateway does not hold.
    #[schema(example = 0)]
    away: Option<u64>,
    /// How many of the viewers watch; null as `away` is.
    #[schema(example = 7)]
    watching: Option<u64>,
    /// How many of the viewers a back end confirmed within the last minute; null as `away` is.
    #[schema(example = 0)]
    confirmed: Option<u64>,
    /// How far to trust the counts: `exact`, `partial` or `stale`; null as `away` is.
    #[schema(value_type = Option<String>, example = "exact")]
    quality: Option<Quality>,
}

impl InRoom {
    /// The caller read `viewers` a moment before, so the room may have more viewers away by now.
    pub(crate) fn of(state: &AppState, room: Option<&Room>, viewers: u64) -> Self {
        match room {
            Some(room) => {
                let looks = room.figures.looks_of(viewers);
                Self {
                    away: Some(looks.away),
                    watching: Some(looks.watching),
                    confirmed: Some(room.confirmed.viewers().min(viewers)),
                    quality: Some(state.sessions.trust.quality(room)),
                }
            }
            None => Self {
                away: None,
                watching: None,
                confirmed: None,
                quality: None,
            },
        }
    }
}

/// A live with the figures of a moment ago.
#[derive(Serialize, ToSchema)]
#[schema(as = LiveCounted)]
pub(crate) struct LiveCounted {
    /// The live.
    #[serde(flatten)]
    live: ApiLive,
    /// Viewers online.
    #[schema(example = 10)]
    viewers: u64,
    /// Fans online.
    #[schema(example = 3)]
    fans: u64,
    /// Guests online, among the viewers.
    #[schema(example = 2)]
    guests: u64,
    /// When the counts were read or last changed, in Unix milliseconds; null if this gateway does not
    /// hold the live and nobody has come yet, and once it is closed.
    counted_at: Option<u64>,
}

impl From<LiveRecord> for LiveCounted {
    fn from(record: LiveRecord) -> Self {
        let Figures {
            viewers,
            fans,
            guests,
        } = record
            .counted
            .map(|counted| counted.figures)
            .unwrap_or_default();
        Self {
            viewers,
            fans,
            guests,
            counted_at: record.counted.map(|counted| counted.at),
            live: record.into(),
        }
    }
}

/// An open live, in a list.
#[derive(Serialize, ToSchema)]
#[schema(as = OpenLiveEntry)]
pub(crate) struct OpenLiveEntry {
    /// The live.
    live_id: LiveId,
    /// Who owns it.
    streamer_id: UserId,
    /// Who hosts it beside its streamer.
    hosts: Vec<UserId>,
    /// Which opening of this id it is.
    epoch: u64,
    /// Its title; null if it has none.
    title: Option<String>,
    /// When it opened, in Unix milliseconds.
    #[schema(example = 1_732_000_000_000_u64)]
    opened_at: u64,
    /// Viewers online.
    #[schema(example = 10)]
    pub(crate) viewers: u64,
    /// Fans online.
    #[schema(example = 3)]
    pub(crate) fans: u64,
    /// Guests online, among the viewers.
    #[schema(example = 2)]
    guests: u64,
    /// When the counts were read or last changed, in Unix milliseconds; null if this gateway does not
    /// hold the live and nobody has come yet.
    counted_at: Option<u64>,
    /// What the room of the live knows.
    #[serde(flatten)]
    room: InRoom,
}

impl OpenLiveEntry {
    pub(crate) fn of(record: LiveRecord, room: InRoom) -> Self {
        let Figures {
            viewers,
            fans,
            guests,
        } = record
            .counted
            .map(|counted| counted.figures)
            .unwrap_or_default();
        Self {
            epoch: record.epoch.0,
            title: record.terms.title,
            hosts: record.terms.hosts,
            opened_at: record.opened_at,
            viewers,
            fans,
            guests,
            counted_at: record.counted.map(|counted| counted.at),
            live_id: record.live,
            streamer_id: record.streamer,
            room,
        }
    }
}

refusals!(
    OpenRefused = InvalidId,
    Forbidden,
    Banned,
    LiveOwned,
    BeingErased,
    RateLimited,
    StoreUnavailable
);

/// Open a live
///
/// The same streamer again gets the same epoch; a `title`, a `streamer_timeout_s` and `hosts` that the
/// body names hold then, and all else stays. A `live_id` may be used again after its live closed.
#[utoipa::path(put, path = "/v1/lives/{live_id}", operation_id = "open_live", tag = "lives",
    params(("live_id" = LiveId, Path, description = "The live", example = "42")), request_body = OpenLiveBody,
    responses(
        (status = 201, description = "A new epoch began", body = ApiLive,
            headers(("Location" = String, description = "Where the live is"))),
        (status = 200, description = "It was open already", body = ApiLive),
        OpenRefused,
    ))]
pub(crate) async fn open(
    State(state): State<Arc<AppState>>,
    InPath(live): InPath<LiveId>,
    only: Option<Extension<OnlyOwn>>,
    JsonObject(body): JsonObject<OpenLiveBody>,
) -> Result<Response, Problem> {
    let caller = only.map(|Extension(OnlyOwn(claims))| claims);
    let streamer = in_body("streamer_id", UserId::parse(&body.streamer_id))?;
    if let Some(claims) = &caller
        && claims.user != streamer
    {
        return Err(Problem::new(
            ProblemKind::Forbidden,
            "a streamer opens only their own lives: streamer_id is another user",
        ));
    }
    // A streamer's live has a streamer timeout, whichever way it was opened.
    let by = if caller.is_some() {
        OpenedBy::Streamer
    } else {
        OpenedBy::Service
    };
    if by == OpenedBy::Streamer && (body.slices.is_some() || body.streamer_timeout_s.is_some()) {
        let why =
            "only a service or an API key chooses the number of slices, or the streamer timeout";
        return Err(Problem::new(ProblemKind::Forbidden, why));
    }
    let attendance = body.attendance == Some(true);
    if by == OpenedBy::Streamer && attendance && !has_attendance(&state, &live, &streamer).await {
        return Err(Problem::new(
            ProblemKind::Forbidden,
            "only a service or an API key switches attendance on",
        ));
    }
    let is_hidden = caller.is_some_and(|claims| !claims.counted);
    let hosts = match &body.hosts {
        Some(ids) => Some(hosts::read(ids)?),
        None => None,
    };
    hosts::check(&state, &streamer, hosts.as_deref().unwrap_or_default()).await?;
    let named = LiveChange {
        info: None,
        title: body.title.map(title_text),
        streamer_timeout: body.streamer_timeout_s.map(|seconds| Some(length(seconds))),
        hosts,
    };
    let location = format!("/v1/lives/{live}");
    let wish = OpenRequest {
        live,
        streamer,
        slices: body.slices.map(|slices| slices.0 as u32),
        by,
        terms: Terms {
            title: named.title.clone().flatten(),
            streamer_timeout: named.streamer_timeout.flatten(),
            attendance,
            invisible: body.invisible == Some(true) || is_hidden,
            hosts: named.hosts.clone().unwrap_or_default(),
        },
    };
    let opening = async move {
        let opened = open_with(&state, &wish, &named).await;
        opened.map_err(|why| hosts::refused(why, &wish.terms.hosts))
    };
    let OpenedLive { created, record } = run_to_completion(opening).await?;
    let status = if created {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    let headers = [(header::LOCATION, location)];
    Ok((status, headers, Json(ApiLive::from(record))).into_response())
}

/// Opens a live. If it is open, makes it what the request names.
async fn open_with(
    state: &AppState,
    wish: &OpenRequest,
    named: &LiveChange,
) -> Result<OpenedLive, LiveError> {
    loop {
        let opened = state.lives.open(wish.clone()).await?;
        let change = news(named, &opened.record.terms);
        if opened.created || change == LiveChange::default() {
            return Ok(opened);
        }
        match state.live_changes.change(&opened.record, change).await {
            // The live is over since: the next round opens it.
            Err(LiveError::NotOpen(_) | LiveError::NeverOpened(_)) => {}
            Err(why) => return Err(why),
            Ok(record) => {
                return Ok(OpenedLive {
                    record,
                    created: false,
                });
            }
        }
    }
}

/// What of a change an open live does not have yet.
fn news(named: &LiveChange, there: &Terms) -> LiveChange {
    let mut news = named.clone();
    if news.title.as_ref() == Some(&there.title) {
        news.title = None;
    }
    if news.streamer_timeout == Some(there.streamer_timeout) {
        news.streamer_timeout = None;
    }
    if news.hosts.as_ref() == Some(&there.hosts) {
        news.hosts = None;
    }
    news
}

/// Whether a back end opened the live with attendance. Then a streamer who opens it once more
/// changes nothing.
async fn has_attendance(state: &AppState, live: &LiveId, streamer: &UserId) -> bool {
    let Ok(record) = state.lives.record(live).await else {
        return false;
    };
    record.state == LiveState::Open && record.streamer == *streamer && record.terms.attendance
}

refusals!(
    CloseRefused = InvalidId,
    LiveNotFound,
    LiveNotOpen,
    StoreUnavailable
);

/// Which opening is meant.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct CloseQuery {
    /// Only this opening of the live; the present one if this is left out.
    #[param(inline)]
    epoch: Option<Whole>,
}

/// Close a live
///
/// The gateways delete its slices and tell every socket in it. Closing a closed live gives the same
/// answer again.
#[utoipa::path(delete, path = "/v1/lives/{live_id}", operation_id = "close_live", tag = "lives",
    params(("live_id" = LiveId, Path, description = "The live", example = "42"), CloseQuery),
    responses((status = 200, description = "It is closed", body = ApiLive), CloseRefused))]
pub(crate) async fn close(
    State(state): State<Arc<AppState>>,
    InPath(live): InPath<LiveId>,
    InQuery(query): InQuery<CloseQuery>,
    own: Option<Extension<OwnLive>>,
) -> Result<Json<ApiLive>, Problem> {
    let epoch = query.epoch.map(|epoch| Epoch(epoch.0));
    let reason = CloseReason::Requested;
    let Some(Extension(OwnLive(own))) = own else {
        let closed = state.lives.close(&live, epoch, reason).await?;
        return Ok(Json(closed.into()));
    };
    // Another epoch may belong to another streamer.
    if epoch.is_some_and(|epoch| epoch != own.epoch) {
        return Err(LiveError::NotOpen(live).into());
    }
    let closed = state.lives.close_epoch(&own, reason).await?;
    Ok(Json(closed.into()))
}

refusals!(ShowRefused = InvalidId, LiveNotFound, StoreUnavailable);

/// Look at a live
#[utoipa::path(get, path = "/v1/lives/{live_id}", operation_id = "get_live", tag = "lives",
    params(("live_id" = LiveId, Path, description = "The live", example = "42")),
    responses((status = 200, description = "The live, open or closed", body = LiveNow), ShowRefused))]
pub(crate) async fn show(
    State(state): State<Arc<AppState>>,
    InPath(live): InPath<LiveId>,
) -> Result<Json<LiveNow>, Problem> {
    let view = state.lives.view(&live).await?;
    let summary = view.record.summary();
    let room = InRoom::of(&state, view.room.as_deref(), view.figures.viewers);
    let stream = shown_stream(&state, view.room.as_deref(), &view.record);
    Ok(Json(LiveNow {
        live: view.record.into(),
        viewers: view.figures.viewers,
        fans: view.figures.fans,
        guests: view.figures.guests,
        room,
        stream,
        summary,
    }))
}

/// The stream of an open live: as its room here knows it, or as its record says.
fn shown_stream(state: &AppState, room: Option<&Room>, record: &LiveRecord) -> Option<ShownStream> {
    if record.state != LiveState::Open {
        return None;
    }
    if let Some(room) = room {
        return room.shown_stream();
    }
    Some(ShownStream::of(
        record,
        record.stream?,
        state.core.config.stream_grace,
    ))
}
