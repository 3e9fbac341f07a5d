//! The routes of the streams of a live: which sessions of media servers hold it, and the end of one
//! that is over although nobody says so.

use crate::features::media::keeper::StreamKeeper;
use crate::features::media::store::MediaStore;
use crate::features::media::store::OpenEpoch;
use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use utoipa::ToSchema;

use crate::base::ids::{LiveId, StreamId};
use crate::base::media_event::EndKnownBy;
use crate::base::media_server::MediaServerName;
use crate::edge::http::authorization::OwnLive;
use crate::edge::http::paging::Page;
use crate::edge::http::problem::{Problem, ProblemKind, refusals};
use crate::edge::http::requests::{InPath, run_to_completion};
use crate::edge::http::state::AppState;
use crate::features::media::store::HoldingSession;
use crate::store::LiveRecord;
use crate::sync::lives::LiveError;

/// A session of a media server that holds a live.
#[derive(Serialize, ToSchema)]
pub(crate) struct ListedStream {
    /// Names the session in this API.
    stream_id: StreamId,
    /// The server, as the settings name it.
    server: MediaServerName,
    /// Which of the servers of that name, if they are told apart.
    #[schema(example = "media.example.org")]
    instance: Option<String>,
    /// The session, as the server names it; empty if the server names streams only.
    #[schema(example = "17 192.0.2.7")]
    session: String,
    /// The publisher's address, if the server says it.
    #[schema(example = "192.0.2.7")]
    address: Option<String>,
    /// When a gateway heard of it first, in Unix milliseconds.
    #[schema(example = 1_732_000_000_000_u64)]
    began_at: u64,
    /// When a gateway heard of it last, in Unix milliseconds.
    #[schema(example = 1_732_000_045_000_u64)]
    heard_at: u64,
    /// How its end is known if the server does not say it.
    #[schema(inline)]
    end_known_by: EndKnownBy,
}

impl From<HoldingSession> for ListedStream {
    fn from(session: HoldingSession) -> Self {
        Self {
            stream_id: session.stream,
            server: session.server,
            instance: session.instance,
            session: session.id,
            address: session.address,
            began_at: session.began,
            heard_at: session.heard,
            end_known_by: session.end_known_by,
        }
    }
}

refusals!(ListRefused = InvalidId, LiveNotFound, StoreUnavailable);

/// List the streams of a live
///
/// The sessions of media servers that hold it, in the order in which they were heard of last. All of
/// them are on one page; a live that is not open has none.
#[utoipa::path(get, path = "/v1/lives/{live_id}/streams", operation_id = "list_streams", tag = "lives",
    params(("live_id" = LiveId, Path, description = "The live", example = "42")),
    responses((status = 200, description = "All of them", body = Page<ListedStream>), ListRefused))]
pub(crate) async fn list(
    State(state): State<Arc<AppState>>,
    InPath(live): InPath<LiveId>,
) -> Result<Json<Page<ListedStream>>, Problem> {
    let record = state.of::<Arc<dyn MediaStore>>().load_live(&live).await?;
    let record = record.ok_or(LiveError::NeverOpened(live))?;
    let mut items = Vec::new();
    if OpenEpoch::of(&record).is_some() {
        let known = state
            .of::<Arc<dyn MediaStore>>()
            .load_streams(&record.live)
            .await?;
        let sessions = known.streams.holding(record.epoch).into_iter();
        items.extend(sessions.map(ListedStream::from));
    }
    Ok(Json(Page {
        items,
        cursor: None,
    }))
}

refusals!(
    EndRefused = InvalidId,
    LiveNotFound,
    LiveNotOpen,
    StreamNotFound,
    StoreUnavailable
);

/// End a stream of a live
///
/// As if the media server had said that the session ended. The server hears nothing of it: a session
/// that goes on publishes to nobody. If it was the last one, a live that a stream opened closes.
#[utoipa::path(delete, path = "/v1/lives/{live_id}/streams/{stream_id}", operation_id = "end_stream",
    tag = "lives",
    params(
        ("live_id" = LiveId, Path, description = "The live", example = "42"),
        ("stream_id" = StreamId, Path, description = "The session", example = "1f0c2a9be7d45f10"),
    ),
    responses((status = 200, description = "It is over", body = ListedStream), EndRefused))]
pub(crate) async fn end(
    State(state): State<Arc<AppState>>,
    InPath((live, stream)): InPath<(LiveId, StreamId)>,
    own: Option<Extension<OwnLive>>,
) -> Result<Json<ListedStream>, Problem> {
    let own = own.map(|Extension(OwnLive(record))| record);
    let end = async move {
        let record = match own {
            Some(record) => Some(record),
            None => state.of::<Arc<dyn MediaStore>>().load_live(&live).await?,
        };
        let record = record.ok_or_else(|| LiveError::NeverOpened(live.clone()))?;
        end_in(&state, &record, &stream).await
    };
    run_to_completion(end).await
}

async fn end_in(
    state: &AppState,
    record: &LiveRecord,
    stream: &StreamId,
) -> Result<Json<ListedStream>, Problem> {
    if OpenEpoch::of(record).is_none() {
        return Err(LiveError::NotOpen(record.live.clone()).into());
    }
    match state
        .of::<Arc<StreamKeeper>>()
        .end_session(&record.live, record.epoch, stream)
        .await?
    {
        Some(ended) => Ok(Json(ended.into())),
        None => {
            let detail = "no session of a media server with this id holds the live";
            Err(Problem::new(ProblemKind::StreamNotFound, detail))
        }
    }
}
