//! The route of sessions: which users entered a live with attendance, and from when to when each
//! of them was there.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::base::ids::{Epoch, LiveId, UserId};
use crate::edge::http::authorization::{CalledBy, OwnLive};
use crate::edge::http::bounded::Whole;
use crate::edge::http::fans::load;
use crate::edge::http::hidden::Sight;
use crate::edge::http::paging::{CountedPage, Listing, Paging, paging_query};
use crate::edge::http::problem::{Problem, ProblemKind, refusals};
use crate::edge::http::requests::{InPath, InQuery};
use crate::edge::http::state::AppState;
use crate::features::attendance::store::AttendanceStore;
use crate::features::attendance::store::Attended;
use crate::store::LiveEpoch;
use crate::store::{LiveState, Span};
use crate::store::{SessionPlace, session_id};

/// A user's stay in a live without a break, over all devices and gateways.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Session)]
pub(crate) struct ListedSession {
    /// The user.
    user_id: UserId,
    /// Names the session, among those of all users.
    #[schema(example = "u1~1732000000123456")]
    session_id: String,
    /// When the user entered, in Unix milliseconds.
    #[schema(example = 1_732_000_000_000_u64)]
    joined_at: u64,
    /// When the user was last there, in Unix milliseconds; null while the user is.
    left_at: Option<u64>,
    /// Whether the user was there as a fan at any time of this opening.
    fan: bool,
    /// For how long the user was there, in all sessions of this opening together, up to now.
    #[schema(example = 1_800_000)]
    watched_ms: u64,
}

/// Which sessions are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SessionsQuery {
    /// Those that began at this time or later, in Unix milliseconds.
    #[param(inline)]
    from: Option<Whole>,
    /// At this time or earlier.
    #[param(inline)]
    to: Option<Whole>,
    /// Which opening of the live; the latest if this is left out.
    #[param(inline)]
    epoch: Option<Whole>,
}

/// The position at which a list goes on.
struct SessionPosition {
    epoch: Epoch,
    count: u64,
    place: SessionPlace,
}

fn resume(cursor: &str) -> Result<SessionPosition, Problem> {
    Listing::Sessions.resume(cursor, |[epoch, count, joined_at, user, number]| {
        let place = SessionPlace {
            joined_at: joined_at.parse().ok()?,
            user: UserId::parse(user).ok()?,
            number: number.parse().ok()?,
        };
        Some(SessionPosition {
            epoch: Epoch(epoch.parse().ok()?),
            count: count.parse().ok()?,
            place,
        })
    })
}

/// The span between `from` and `to`. `None` if it ends before it begins: then nobody was there.
pub(crate) fn span_of(from: Option<Whole>, to: Option<Whole>) -> Option<Span> {
    let span = Span {
        from: from.map_or(0, |from| from.0),
        to: to.map_or(u64::MAX, |to| to.0),
    };
    if span.from <= span.to {
        Some(span)
    } else {
        None
    }
}

paging_query!(SessionsPaging = Sessions);
refusals!(
    ListRefused = InvalidId,
    LiveNotFound,
    EpochNotFound,
    NotKept,
    StoreUnavailable
);

/// List who entered a live with attendance, and was there from when to when
///
/// In the order of entering. `count` is exact, and of the time of the first page.
#[utoipa::path(get, path = "/v1/lives/{live_id}/sessions", operation_id = "list_sessions", tag = "attendance",
    params(("live_id" = LiveId, Path, description = "The live", example = "42"), SessionsQuery, SessionsPaging),
    responses((status = 200, description = "A page", body = CountedPage<ListedSession>), ListRefused))]
pub(crate) async fn list(
    State(state): State<Arc<AppState>>,
    InPath(live): InPath<LiveId>,
    InQuery(query): InQuery<SessionsQuery>,
    own: Option<Extension<OwnLive>>,
    by: CalledBy,
    paging: Paging,
) -> Result<Json<CountedPage<ListedSession>>, Problem> {
    let position = paging.position(resume)?;
    let epoch = match &position {
        Some(position) => Some(position.epoch),
        None => query.epoch.map(|epoch| Epoch(epoch.0)),
    };
    let (of, attended) = recorded(&state, live, epoch).await?;
    if let Some(Extension(OwnLive(own))) = own
        && own.streamer != attended.streamer
    {
        return Err(Problem::new(
            ProblemKind::Forbidden,
            "that opening of the live belonged to another streamer",
        ));
    }
    let Some(span) = span_of(query.from, query.to) else {
        return Ok(Json(CountedPage {
            count: 0,
            items: Vec::new(),
            cursor: None,
        }));
    };
    let store = state.of::<Arc<dyn AttendanceStore>>().as_ref();
    let count = match &position {
        Some(position) => position.count,
        None => store.count_sessions(&of, attended.slices, span).await?,
    };
    let mut after = position.map(|position| position.place);
    let sight = Sight::of(&state, by);
    let mut page = Vec::new();
    let mut more = true;
    // The cursor names the last session of the page. So it must have one that the caller sees.
    while page.is_empty() && more {
        (page, more) = store
            .sessions_page(&of, attended.slices, span, after.as_ref(), paging.limit)
            .await?;
        after = page.last().map(|session| session.place.clone());
        let users: Vec<UserId> = page
            .iter()
            .map(|session| session.place.user.clone())
            .collect();
        let unseen = sight.unseen(&users).await?;
        page.retain(|session| !unseen.contains(&session.place.user));
    }
    let users: BTreeSet<&UserId> = page.iter().map(|session| &session.place.user).collect();
    let users: Vec<UserId> = users.into_iter().cloned().collect();
    let are_fans = store.have_attended(&of, &users).await?;
    let fans: HashMap<&UserId, bool> = users.iter().zip(are_fans).collect();
    let end = attended.closed_at.unwrap_or(state.core.clock.unix());
    let cursor = match page.last() {
        Some(last) if more => {
            let SessionPlace {
                joined_at,
                user,
                number,
            } = &last.place;
            Some(Listing::Sessions.cursor(&[&of.epoch, &count, joined_at, user, number]))
        }
        _ => None,
    };
    let mut items = Vec::with_capacity(page.len());
    for session in &page {
        items.push(ListedSession {
            session_id: session_id(&session.place.user, session.id),
            joined_at: session.place.joined_at,
            left_at: session.end(attended.closed_at),
            fan: fans.get(&session.place.user).copied().unwrap_or(false),
            watched_ms: session.watched.until(end),
            user_id: session.place.user.clone(),
        });
    }
    Ok(Json(CountedPage {
        count,
        items,
        cursor,
    }))
}

/// The given epoch of a live, or its latest one, and the attendance record of that epoch.
///
/// # Errors
/// The live was never opened, or no attendance of the epoch is kept.
pub(crate) async fn recorded(
    state: &AppState,
    live: LiveId,
    epoch: Option<Epoch>,
) -> Result<(LiveEpoch, Attended), Problem> {
    let (epoch, record) = match epoch {
        None => {
            let record = load(state, &live).await?;
            (record.epoch, Some(record))
        }
        Some(epoch) => {
            let record = state
                .of::<Arc<dyn AttendanceStore>>()
                .load_live(&live)
                .await?;
            (epoch, record.filter(|record| record.epoch == epoch))
        }
    };
    let of = LiveEpoch { live, epoch };
    if let Some(record) = record {
        if !record.terms.attendance {
            return Err(Problem::new(
                ProblemKind::NotKept,
                format!("live {} was opened without attendance", of.live),
            ));
        }
        if record.state == LiveState::Open {
            return Ok((of, Attended::of(&record)));
        }
    }
    match state.of::<Arc<dyn AttendanceStore>>().attended(&of).await? {
        Some(attended) => Ok((of, attended)),
        None => Err(Problem::new(
            ProblemKind::EpochNotFound,
            format!("no attendance of {of} is kept"),
        )),
    }
}
