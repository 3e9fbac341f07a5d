//! The route of attendance: which fans came to all, any, or only the first of some lives.

use crate::auth::permissions::Action;
use crate::edge::http::routes::Routes;
use crate::features::attendance::sessions_http;
use std::collections::HashSet;
use std::sync::Arc;
use utoipa_axum::routes;

use axum::Json;
use axum::extract::State;
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{IntoParams, PartialSchema, ToSchema};

use crate::base::ids::{Epoch, LiveId, UserId};
use crate::edge::fields::FieldPlace;
use crate::edge::http::bounded::{Whole, Within};
use crate::edge::http::paging::{CountedPage, Listing, Paging, paging_query};
use crate::edge::http::problem::{Problem, ProblemKind, refusals};
use crate::edge::http::requests::{InQuery, in_query};
use crate::edge::http::state::AppState;
use crate::features::attendance::attendees::{AttendancePlace, AttendanceQuestion, find_attendees};
use crate::features::attendance::sessions_http::{recorded, span_of};
use crate::features::attendance::store::AttendanceStore;
use crate::features::attendance::store::{Attended, Attending, MAX_ATTENDED};
use crate::store::LiveEpoch;

const DAY_MS: u64 = 24 * 3_600 * 1_000;

/// How many days back a caller may ask for a streamer's lives: as long as the store keeps them.
const MAX_DAYS: u64 = 8;

const DEFAULT_DAYS: u64 = 7;

type Days = Within<1, MAX_DAYS>;

/// A fan who came.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Attendee {
    /// The user.
    user_id: UserId,
}

/// Up to [`MAX_ATTENDED`] lives with commas between, any of them with an epoch.
#[derive(Debug, Deserialize)]
struct LiveList(String);

impl PartialSchema for LiveList {
    fn schema() -> RefOr<Schema> {
        const LIVE: &str = concat!(
            r"(?!\.{1,2}([@,]|$))(?![A-Za-z0-9_.-]*_slice[0-9]+([@,]|$))",
            "[A-Za-z0-9_.-]{1,64}(@(0|[1-9][0-9]{0,18}))?"
        );
        let pattern = format!("^{LIVE}(,{LIVE}){{0,{}}}$", MAX_ATTENDED - 1);
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some(pattern))
            .examples([json!("a,b@1732000000,c")])
            .into()
    }
}

impl ToSchema for LiveList {}

/// Which fans, and which lives.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct AttendanceQuery {
    /// Who is asked for.
    #[serde(default)]
    #[param(inline)]
    op: Attending,
    /// Up to 64 lives with commas between; `b@3` is epoch 3 of b, and `b` its latest.
    #[param(inline)]
    live_ids: Option<LiveList>,
    /// All lives of this streamer that opened within the last `days`, oldest first; after those of
    /// `live_ids`.
    #[param(value_type = Option<UserId>)]
    streamer_id: Option<String>,
    /// See `streamer_id`; 7 if it is left out.
    #[param(inline)]
    days: Option<Days>,
    /// A fan came to a live only if the fan was there at this time or later, in Unix milliseconds.
    #[param(inline)]
    from: Option<Whole>,
    /// And at this time or earlier.
    #[param(inline)]
    to: Option<Whole>,
}

paging_query!(AttendancePaging = Attendance);
refusals!(
    FindRefused = InvalidId,
    LiveNotFound,
    EpochNotFound,
    NotKept,
    StoreUnavailable
);

/// Find the fans who came to all, any, or only the first of some lives
///
/// Each fan at most once. `count` is exact, and of the time of the first page; later pages need the
/// same question. A live that was opened without attendance is `not_available`; an opening whose
/// attendance is not kept any more, `epoch_not_found`.
#[utoipa::path(get, path = "/v1/attendance", operation_id = "find_attendance", tag = "attendance",
    params(AttendanceQuery, AttendancePaging),
    responses((status = 200, description = "A page", body = CountedPage<Attendee>), FindRefused))]
pub(crate) async fn find(
    State(state): State<Arc<AppState>>,
    InQuery(query): InQuery<AttendanceQuery>,
    paging: Paging,
) -> Result<Json<CountedPage<Attendee>>, Problem> {
    let start = paging.position(resume)?;
    let lives = lives(&state, &query).await?;
    let Some(span) = span_of(query.from, query.to) else {
        return Ok(Json(CountedPage {
            count: 0,
            items: Vec::new(),
            cursor: None,
        }));
    };
    let within = if query.from.is_some() || query.to.is_some() {
        Some(span)
    } else {
        None
    };
    let question = AttendanceQuestion {
        which: query.op,
        lives,
        within,
    };
    let page = find_attendees(
        state.of::<Arc<dyn AttendanceStore>>().as_ref(),
        &question,
        start.as_ref(),
        paging.limit,
    )
    .await?;
    let cursor = page
        .next
        .map(|next| Listing::Attendance.cursor(&[&next.count, &next.part, &next.after]));
    let items = page
        .users
        .into_iter()
        .map(|user_id| Attendee { user_id })
        .collect();
    Ok(Json(CountedPage {
        count: page.count,
        items,
        cursor,
    }))
}

fn resume(cursor: &str) -> Result<AttendancePlace, Problem> {
    Listing::Attendance.resume(cursor, |[count, part, after]| {
        Some(AttendancePlace {
            count: count.parse().ok()?,
            part: part.parse().ok()?,
            after: UserId::parse(after).ok()?,
        })
    })
}

/// The lives that the query names, then those of the streamer.
async fn lives(
    state: &AppState,
    query: &AttendanceQuery,
) -> Result<Vec<(LiveEpoch, Attended)>, Problem> {
    let mut named = Vec::new();
    if let Some(list) = &query.live_ids {
        for text in list.0.split(',') {
            named.push(read_live(text)?);
        }
    }
    if named.len() > MAX_ATTENDED {
        let detail = format!("must be {MAX_ATTENDED} lives at most");
        return Err(invalid_field("live_ids", detail));
    }
    let mut lives = try_join_all(
        named
            .into_iter()
            .map(|(live, epoch)| recorded(state, live, epoch)),
    )
    .await?;
    if let Some(streamer) = &query.streamer_id {
        let streamer = in_query("streamer_id", UserId::parse(streamer))?;
        let days = query.days.map_or(DEFAULT_DAYS, |days| days.0);
        lives.extend(of_streamer(state, &streamer, days).await?);
    }
    // The query may name a live that is also one of the streamer's. It must count once: if it were
    // the first and one of the others, no fan could have come to the first only.
    let mut known = HashSet::new();
    lives.retain(|(of, _)| known.insert(of.clone()));
    if lives.len() > MAX_ATTENDED {
        let detail =
            format!("these are more than {MAX_ATTENDED} lives altogether; ask for fewer days");
        return Err(invalid_field("days", detail));
    }
    Ok(lives)
}

/// Reads `live` or `live@epoch`.
fn read_live(text: &str) -> Result<(LiveId, Option<Epoch>), Problem> {
    if !text.contains('@') {
        return Ok((in_query("live_ids", LiveId::parse(text))?, None));
    }
    let Some(of) = LiveEpoch::parse(text) else {
        let detail = "after the @ of a live stands the number of an epoch";
        return Err(invalid_field("live_ids", detail.to_owned()));
    };
    Ok((of.live, Some(of.epoch)))
}

fn invalid_field(field: &str, detail: String) -> Problem {
    Problem::new(ProblemKind::InvalidQuery, detail).at(FieldPlace::Query(field.to_owned()))
}

/// The lives of the last `days` for which the store still has attendance.
async fn of_streamer(
    state: &AppState,
    streamer: &UserId,
    days: u64,
) -> Result<Vec<(LiveEpoch, Attended)>, Problem> {
    let store = state.of::<Arc<dyn AttendanceStore>>().as_ref();
    let from = state.core.clock.unix().saturating_sub(days * DAY_MS);
    let lives = store
        .attended_lives(streamer, from, MAX_ATTENDED + 1)
        .await?;
    let known = try_join_all(lives.iter().map(|of| store.attended(of))).await?;
    let mut attended_lives = Vec::with_capacity(lives.len());
    for (of, attended) in lives.into_iter().zip(known) {
        if let Some(attended) = attended {
            attended_lives.push((of, attended));
        }
    }
    Ok(attended_lives)
}

/// Adds the routes of this feature.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .only_for(Action::ReadLive, routes!(sessions_http::list))
        .only_for(Action::ReadAttendance, routes!(find))
}
