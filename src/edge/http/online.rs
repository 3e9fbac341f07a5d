//! The routes about users of the whole platform: count the users who are online or were, show the
//! status of some users, and forget those who were seen long ago. `online_list` lists users.
//!
//! A user who is online has no last-seen time. The count of online users and the count of seen users
//! therefore add up, and each user counts once. The price: a window that ended in the past has no
//! exact count, because users who came back later have lost the older time.

use std::collections::HashSet;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::bounded::Whole;
use super::problem::{Problem, ProblemKind, refusals};
use super::requests::{InQuery, JsonObject, run_to_completion};
use super::state::AppState;
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{LiveId, UserId};
use crate::edge::fields::FieldPlace;
use crate::store::{MAX_BATCH, OnlineCount, Span, StoreResult, UserPresence};
use crate::sync::seen::APART;
use crate::sync::user_upkeep::forget_before;

/// Approximate maximum of users that one request forgets.
const MAX_FORGOTTEN: usize = 200_000;

/// Which users to count.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct CountQuery {
    /// Those who are online, and those who were within so many seconds.
    #[param(inline, example = 300)]
    window_s: Option<Whole>,
    /// Those who were seen last at this time or later, in Unix milliseconds. With `window_s`, the
    /// later of the two beginnings counts.
    #[param(inline)]
    from: Option<Whole>,
    /// And not later than this. Without it, or if it is not in the past, those who are online count
    /// too. Nobody counts in a window that ends before it begins.
    #[param(inline)]
    to: Option<Whole>,
}

impl CountQuery {
    /// Whether the window has a beginning. Otherwise all users count whom the store remembers.
    fn begins(&self) -> bool {
        self.window_s.is_some() || self.from.is_some()
    }
}

/// The span that is asked for. If there are two beginnings, the later one counts.
pub(crate) fn span(
    window_s: Option<Whole>,
    from: Option<Whole>,
    to: Option<Whole>,
    now: UnixMillis,
) -> Span {
    let mut span = match window_s {
        Some(window) => window_before(now, window.0),
        None => Span {
            from: 0,
            to: UnixMillis::MAX,
        },
    };
    if let Some(from) = from {
        span.from = span.from.max(from.0);
    }
    if let Some(to) = to {
        span.to = to.0;
    }
    span
}

/// How many users.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = OnlineCount)]
pub(crate) struct Count {
    /// Each user once.
    count: u64,
    /// How many of them are online now.
    online_users: u64,
    /// False if users may be missing: the window ended in the past, and those who came back later
    /// have lost the older time; or it begins before the time for which users are remembered.
    exact: bool,
}

refusals!(CountRefused = NotKept, StoreUnavailable);

/// Count the users who are online, or were within a window
///
/// Without a window, all who are online or remembered.
#[utoipa::path(get, path = "/v1/online/count", operation_id = "count_online", tag = "online", params(CountQuery),
    responses((status = 200, description = "How many", body = Count), CountRefused))]
pub(crate) async fn count(
    State(state): State<Arc<AppState>>,
    InQuery(query): InQuery<CountQuery>,
) -> Result<Json<Count>, Problem> {
    tracked(&state)?;
    let now = state.core.clock.unix();
    let span = span(query.window_s, query.from, query.to, now);
    if span.is_empty() {
        return Ok(Json(Count {
            count: 0,
            online_users: 0,
            exact: true,
        }));
    }
    let is_past = span.to < now;
    let OnlineCount { online, seen } = state.core.store_for_clients.count_online(span).await?;
    let remembered = !query.begins() || span.from >= oldest(&state, now);
    let online_users = if is_past { 0 } else { online };
    Ok(Json(Count {
        count: online_users + seen,
        online_users,
        exact: remembered && !is_past,
    }))
}

/// The span that began so many seconds ago, and has no end.
pub(crate) fn window_before(now: UnixMillis, seconds: u64) -> Span {
    Span {
        from: now.saturating_sub(seconds.saturating_mul(1_000)),
        to: UnixMillis::MAX,
    }
}

/// Some users.
#[derive(Debug, Deserialize, ToSchema)]
pub(crate) struct Users {
    /// At most 1,000.
    #[schema(value_type = Vec<UserId>, max_items = 1_000)]
    user_ids: Vec<String>,
}

impl Users {
    /// Parses the ids, and drops repetitions. The order stays.
    pub(crate) fn check(self) -> Result<Vec<UserId>, Problem> {
        if self.user_ids.len() > MAX_BATCH {
            let detail = format!("must be {MAX_BATCH} users at most");
            return Err(
                Problem::new(ProblemKind::BadMessage, detail).at(FieldPlace::field("user_ids"))
            );
        }
        let mut users = Vec::with_capacity(self.user_ids.len());
        for (index, text) in self.user_ids.iter().enumerate() {
            let user = UserId::parse(text)
                .map_err(|why| Problem::from(why).at(FieldPlace::item("user_ids", index)))?;
            users.push(user);
        }
        let mut known = HashSet::new();
        users.retain(|user| known.insert(user.clone()));
        Ok(users)
    }
}

/// What is known of a user.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct UserStatus {
    /// The user.
    user_id: UserId,
    /// Whether the user has a socket now.
    pub(crate) online: bool,
    /// When the user was seen last, in Unix milliseconds: now, for a user who is online. Null if
    /// nobody remembers.
    pub(crate) last_seen: Option<u64>,
    /// In which live the user is: the one joined last.
    pub(crate) live_id: Option<LiveId>,
}

impl UserStatus {
    pub(crate) fn of(
        state: &AppState,
        known: impl Iterator<Item = (UserId, UserPresence)>,
    ) -> Vec<Self> {
        let roster = state.core.gateways.roster();
        let now = state.core.clock.unix();
        let mut statuses = Vec::new();
        for (user_id, presence) in known {
            let live_id = presence.live(|gateway| roster.counts(gateway)).cloned();
            let last_seen = if presence.online {
                Some(now)
            } else {
                presence.last_seen
            };
            statuses.push(Self {
                user_id,
                online: presence.online,
                last_seen,
                live_id,
            });
        }
        statuses
    }
}

/// The statuses of some users, in the order of `users`.
pub(crate) async fn statuses(state: &AppState, users: Vec<UserId>) -> StoreResult<Vec<UserStatus>> {
    let known = state.core.store_for_clients.presence_of(&users).await?;
    Ok(UserStatus::of(state, users.into_iter().zip(known)))
}

refusals!(QueryRefused = InvalidId, NotKept, StoreUnavailable);

/// Users that were asked about.
#[derive(Serialize, ToSchema)]
#[schema(as = UsersFound)]
pub(crate) struct UsersFound {
    /// One item for each user, in the order of the question.
    items: Vec<UserStatus>,
    /// Those of whom nothing is known: not online, and nobody remembers when they were.
    unknown: Vec<UserId>,
}

/// Ask whether users are online, in which live, and when they were seen last
///
/// Up to 1,000 users, each once.
#[utoipa::path(post, path = "/v1/online/query", operation_id = "query_online", tag = "online",
    request_body(content = Users, content_type = "application/json"),
    responses((status = 200, description = "What is known of each", body = UsersFound), QueryRefused))]
pub(crate) async fn query(
    State(state): State<Arc<AppState>>,
    JsonObject(users): JsonObject<Users>,
) -> Result<Json<UsersFound>, Problem> {
    tracked(&state)?;
    let items = statuses(&state, users.check()?).await?;
    let mut unknown = Vec::new();
    for user in &items {
        if user.last_seen.is_none() {
            unknown.push(user.user_id.clone());
        }
    }
    Ok(Json(UsersFound { items, unknown }))
}

/// Whom to forget.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct ForgetQuery {
    /// Those who were seen last longer ago than so many seconds.
    #[param(inline, example = 86_400)]
    older_than_s: Whole,
}

/// How many users were forgotten.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Forgotten {
    /// How many.
    count: u64,
    /// Whether there may be more, for another request.
    more: bool,
}

/// Forget users who were seen long ago
///
/// Users who are online stay. A request forgets some 200,000 users at most.
#[utoipa::path(delete, path = "/v1/online", operation_id = "forget_seen", tag = "online", params(ForgetQuery),
    responses((status = 200, description = "They are forgotten", body = Forgotten), CountRefused))]
pub(crate) async fn forget(
    State(state): State<Arc<AppState>>,
    InQuery(query): InQuery<ForgetQuery>,
) -> Result<Json<Forgotten>, Problem> {
    tracked(&state)?;
    let before = window_before(state.core.clock.unix(), query.older_than_s.0).from;
    let store = state.core.store_for_clients.clone();
    let seen = state.online.seen.clone();
    let (count, more) = run_to_completion(async move {
        let forgotten = forget_before(store.as_ref(), before, MAX_FORGOTTEN).await;
        // This gateway's memory of recent writes may name users who are forgotten now. After an
        // error, too: the store may have forgotten some users.
        if query.older_than_s.0 <= APART.as_secs() {
            seen.forget();
        }
        forgotten
    })
    .await?;
    Ok(Json(Forgotten { count, more }))
}

/// The earliest time at which the store still remembers a user.
pub(crate) fn oldest(state: &AppState, now: UnixMillis) -> UnixMillis {
    now.saturating_sub(millis(state.online.remember))
}

/// Refuses the request if this gateway does not track which users are online.
pub(crate) fn tracked(state: &AppState) -> Result<(), Problem> {
    match state.sessions.core.rooms.users {
        Some(_) => Ok(()),
        None => Err(Problem::new(
            ProblemKind::NotKept,
            "this gateway has --track-online off: it does not know who is online on the platform",
        )),
    }
}
