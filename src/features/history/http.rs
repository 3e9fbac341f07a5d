//! The routes of the past: how the figures of a live moved, and which lives a streamer had.

use crate::auth::permissions::Action;
use crate::edge::http::routes::Routes;
use std::sync::Arc;
use utoipa_axum::routes;

use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{Epoch, LiveId, UserId};
use crate::edge::http::authorization::OwnLive;
use crate::edge::http::bounded::{HistoryStep, Whole};
use crate::edge::http::fans::load;
use crate::edge::http::paging::{Listing, Page, Paging, ask_for, paging_query};
use crate::edge::http::problem::{Problem, ProblemKind, refusals};
use crate::edge::http::requests::{InPath, InQuery};
use crate::edge::http::state::AppState;
use crate::features::history::store::HistoryStore;
use crate::features::history::store::PastLive;
use crate::store::LiveEpoch;
use crate::store::Summary;
use crate::store::{Arrived, Figures};
use crate::store::{HISTORY_STEP, Point};

/// What the figures were at the end of ten seconds, if they differ from those of the point before.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct HistoryPoint {
    /// When the ten seconds began, in Unix milliseconds; not before the opening.
    #[schema(example = 1_732_000_000_000_u64)]
    began_at: u64,
    /// Viewers online.
    #[schema(example = 10)]
    viewers: u64,
    /// Fans online.
    #[schema(example = 3)]
    fans: u64,
    /// Guests online, among the viewers.
    #[schema(example = 2)]
    guests: u64,
    /// How often users had come since the opening.
    #[schema(example = 14)]
    joins: u64,
    /// How often users had left since the opening.
    #[schema(example = 4)]
    leaves: u64,
}

impl From<Point> for HistoryPoint {
    fn from(point: Point) -> Self {
        let Point {
            at,
            figures:
                Figures {
                    viewers,
                    fans,
                    guests,
                },
            arrived: Arrived { joins, leaves },
        } = point;
        Self {
            began_at: at,
            viewers,
            fans,
            guests,
            joins,
            leaves,
        }
    }
}

/// How the figures of a live moved.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = History)]
pub(crate) struct HistoryOf {
    /// The live.
    live_id: LiveId,
    /// Which opening of it.
    #[schema(example = 3)]
    epoch: u64,
    /// At most one point in so many seconds.
    #[schema(example = 10)]
    step_s: u64,
    /// From when on, in Unix milliseconds.
    from: u64,
    /// Until when.
    to: u64,
    /// The points, oldest first.
    items: Vec<HistoryPoint>,
}

/// Which points are asked for.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct HistoryQuery {
    /// From this time on, in Unix milliseconds; from the opening, if this is left out.
    #[param(inline)]
    from: Option<Whole>,
    /// Until this time; until the close or now, if this is left out.
    #[param(inline)]
    to: Option<Whole>,
    /// At most one point in so many seconds, the last: a multiple of 10.
    #[param(inline)]
    step: Option<HistoryStep>,
    /// Which opening of the live; the latest if this is left out.
    #[param(inline)]
    epoch: Option<Whole>,
}

refusals!(
    ShowRefused = InvalidId,
    LiveNotFound,
    EpochNotFound,
    StoreUnavailable
);

/// How the figures of a live moved
///
/// There is a point for every ten seconds after which the figures differ from those of the point
/// before; until the next one, they stayed as they were. About the newest 10,000 points of an opening are kept, 30 days
/// after the close, or as long as `--closed-ttl` says.
#[utoipa::path(get, path = "/v1/lives/{live_id}/history", operation_id = "get_history", tag = "lives",
    params(("live_id" = LiveId, Path, description = "The live", example = "42"), HistoryQuery),
    responses((status = 200, description = "All points of that time", body = HistoryOf), ShowRefused))]
pub(crate) async fn show(
    State(state): State<Arc<AppState>>,
    InPath(live): InPath<LiveId>,
    InQuery(query): InQuery<HistoryQuery>,
    own: Option<Extension<OwnLive>>,
) -> Result<Json<HistoryOf>, Problem> {
    let record = match &own {
        Some(Extension(OwnLive(record))) => record.clone(),
        None => load(&state, &live).await?,
    };
    let epoch = query.epoch.map_or(record.epoch, |epoch| Epoch(epoch.0));
    let of = LiveEpoch { live, epoch };
    let store = state.of::<Arc<dyn HistoryStore>>().as_ref();
    let is_latest = epoch == record.epoch;
    let past = if is_latest {
        None
    } else {
        store.past_live(&record.streamer, &of).await?
    };
    if !is_latest && own.is_some() && past.is_none() {
        let detail =
            "that opening of the live belonged to another streamer, or is not kept any more";
        return Err(Problem::new(ProblemKind::Forbidden, detail));
    }
    // The store's clock sets the times of the points. It may differ from this gateway's clock, so
    // the store gets no bounds that the query does not have.
    let first = query.from.map_or(0, |from| from.0);
    let last = query.to.map_or(UnixMillis::MAX, |to| to.0);
    let points = store
        .history(&of, first - first % millis(HISTORY_STEP), last)
        .await?;
    let mut opened_at = 0;
    let mut until = state.core.clock.unix();
    if let Some(past) = past {
        opened_at = past.opened_at;
        until = past.closed_at;
    } else if is_latest {
        opened_at = record.opened_at;
        if let Some(closure) = &record.closure {
            until = closure.at;
        }
    }
    let from = query.from.map_or(opened_at, |from| from.0);
    let to = query.to.map_or(until, |to| to.0);
    if points.is_empty() && !is_latest {
        return Err(Problem::new(
            ProblemKind::EpochNotFound,
            format!("no history of {of} is kept for that time"),
        ));
    }
    let step = query.step.unwrap_or_default();
    let mut items = Vec::new();
    for mut point in thin(points, step.millis()) {
        // The first ten seconds may have begun before the opening.
        point.at = point.at.max(opened_at);
        items.push(HistoryPoint::from(point));
    }
    Ok(Json(HistoryOf {
        live_id: of.live,
        epoch: of.epoch.0,
        step_s: step.seconds(),
        from,
        to,
        items,
    }))
}

/// Keeps the last point of each step, without those whose figures are the same as before: figures
/// may change and change back within a step. Before the first point, all are 0.
fn thin(points: Vec<Point>, step: u64) -> Vec<Point> {
    let mut thinned: Vec<Point> = Vec::with_capacity(points.len());
    for point in points {
        match thinned.last_mut() {
            Some(last) if last.at / step == point.at / step => *last = point,
            _ => thinned.push(point),
        }
    }
    let mut before = (Figures::default(), Arrived::default());
    thinned.retain(|point| {
        let figures = (point.figures, point.arrived);
        std::mem::replace(&mut before, figures) != figures
    });
    thinned
}

paging_query!(PastQuery = PastLives);
refusals!(PastRefused = InvalidId, StoreUnavailable);

/// List the past lives of a streamer, newest first
///
/// The newest 1,000 whose close began within the last 30 days, or as long ago as `--closed-ttl`
/// says.
#[utoipa::path(get, path = "/v1/streamers/{streamer_id}/lives", operation_id = "list_past_lives", tag = "lives",
    params(("streamer_id" = UserId, Path, description = "The streamer", example = "s1"), PastQuery),
    responses((status = 200, description = "A page", body = Page<Summary>), PastRefused))]
pub(crate) async fn past(
    State(state): State<Arc<AppState>>,
    InPath(streamer): InPath<UserId>,
    paging: Paging,
) -> Result<Json<Page<Summary>>, Problem> {
    let after = paging.position(resume_past)?;
    let mut lives = state
        .of::<Arc<dyn HistoryStore>>()
        .past_lives(&streamer, after.as_ref(), ask_for(paging.limit))
        .await?;
    // As long as their records would be kept.
    let oldest = state
        .core
        .clock
        .unix()
        .saturating_sub(millis(state.core.config.closed_ttl));
    lives.retain(|live| live.closed_at >= oldest);
    Ok(Json(Page::cut(lives, paging.limit, |last| {
        Listing::PastLives.cursor(&[&last.closed_at, &last.live_id, &last.epoch])
    })))
}

fn resume_past(cursor: &str) -> Result<PastLive, Problem> {
    Listing::PastLives.resume(cursor, |[closed_at, live, epoch]| {
        let of = LiveEpoch {
            live: LiveId::parse(live).ok()?,
            epoch: Epoch(epoch.parse().ok()?),
        };
        Some(PastLive {
            of,
            closed_at: closed_at.parse().ok()?,
        })
    })
}

/// Adds the routes of this feature.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .only_for(Action::ReadLive, routes!(show))
        .only_for(Action::ReadPastLives, routes!(past))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_point_of_each_step_stays_if_it_differs_from_the_one_before() {
        let point = |at, viewers| Point {
            at,
            figures: Figures {
                viewers,
                ..Figures::default()
            },
            arrived: Arrived::default(),
        };
        let points: Vec<Point> = [(10, 1), (20, 2), (50, 3), (60, 4)]
            .map(|(at, n)| point(at * 1_000, n))
            .to_vec();
        let viewers = |step| {
            let thinned = thin(points.clone(), step);
            thinned
                .iter()
                .map(|point| (point.at / 1_000, point.figures.viewers))
                .collect::<Vec<_>>()
        };
        assert_eq!(viewers(10_000), [(10, 1), (20, 2), (50, 3), (60, 4)]);
        assert_eq!(viewers(30_000), [(20, 2), (50, 3), (60, 4)]);
        assert_eq!(viewers(60_000), [(50, 3), (60, 4)]);

        let back = [
            (10, 0),
            (20, 1),
            (30, 1),
            (40, 2),
            (50, 1),
            (70, 1),
            (80, 0),
        ]
        .map(|(at, n)| point(at * 1_000, n));
        for (step, right) in [
            (10_000, vec![20, 40, 50, 80]),
            (30_000, vec![20, 80]),
            (60_000, vec![50, 80]),
        ] {
            let thinned = thin(back.to_vec(), step);
            let at: Vec<u64> = thinned.iter().map(|point| point.at / 1_000).collect();
            assert_eq!(at, right, "{step}");
        }
    }
}
