//! The routes of a user: write a profile, and show it with everything else that the gateway knows
//! of the user.

use crate::auth::permissions::Action;
use crate::edge::http::routes::Routes;
use crate::features::profiles::store::CountsStatuses;
use std::sync::Arc;
use utoipa_axum::routes;

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use utoipa::{PartialSchema, ToSchema};

use crate::base::ids::{LiveId, Login, UserId};
use crate::edge::fields::FieldPlace;
use crate::edge::http::bounded::Text;
use crate::edge::http::erased::check;
use crate::edge::http::idempotency::{IdempotencyKey, Made, Repeatable};
use crate::edge::http::online;
use crate::edge::http::online::tracked;
use crate::edge::http::problem::{Problem, ProblemKind, refusals};
use crate::edge::http::requests::{InPath, JsonObject, run_to_completion};
use crate::edge::http::state::AppState;
use crate::features::profiles::store::ProfileStore;
use crate::features::profiles::store::{Profile, PutProfile, Visibility};
use crate::store::Edge;

type Name = Text<1, 100>;

/// What pages show of a user.
#[derive(Deserialize, ToSchema)]
#[schema(as = PutUser)]
pub(crate) struct PutUser {
    /// 1 to 64 letters, digits, `_`, `.`, `:`, `@`, `-`; unique, whatever its case.
    #[schema(value_type = Login, example = "ann")]
    login: String,
    /// The name to show.
    #[schema(schema_with = Name::schema)]
    name: Name,
    /// Whether the user is counted, but in no list that another user sees. If it is left out, that
    /// stays as it is; a new user is not hidden.
    hidden: Option<bool>,
}

/// A profile.
#[derive(Serialize, ToSchema)]
#[schema(as = User)]
pub(crate) struct UserProfile {
    /// The user.
    user_id: UserId,
    /// As it was written.
    #[schema(example = "ann")]
    login: String,
    /// The name to show.
    #[schema(example = "Ann")]
    name: String,
    /// When the first profile of this user was written, in Unix milliseconds.
    #[schema(example = 1_732_000_000_000_u64)]
    signup: u64,
    /// Whether the user is counted, but in no list that another user sees.
    hidden: bool,
}

impl UserProfile {
    fn of(user_id: UserId, profile: Profile, hidden: bool) -> Self {
        Self {
            user_id,
            login: profile.login.to_string(),
            name: profile.name,
            signup: profile.signup,
            hidden,
        }
    }
}

/// What is known of a user. Without a profile its fields are null; the user may follow and be
/// followed all the same.
#[derive(Serialize, ToSchema)]
#[schema(as = UserNow)]
pub(crate) struct UserNow {
    /// The user.
    user_id: UserId,
    /// The login, as it was written.
    #[schema(example = "ann")]
    login: Option<String>,
    /// The name to show.
    #[schema(example = "Ann")]
    name: Option<String>,
    /// When the first profile of this user was written, in Unix milliseconds.
    #[schema(example = 1_732_000_000_000_u64)]
    signup: Option<u64>,
    /// Whether the user is counted, but in no list that another user sees.
    hidden: Option<bool>,
    /// How many users follow this one.
    #[schema(example = 12)]
    followers: u64,
    /// How many users this one follows.
    #[schema(example = 3)]
    following: u64,
    /// How many announcements of the user there are.
    #[schema(example = 2)]
    statuses: u64,
    /// Whether the user has a socket now. Null if this gateway does not track who is online; so are
    /// the next two.
    online: Option<bool>,
    /// When the user was seen last, in Unix milliseconds: now, for a user who is online. Null if
    /// nobody remembers.
    last_seen: Option<u64>,
    /// In which live the user is: the one joined last.
    live_id: Option<LiveId>,
}

refusals!(
    CreateRefused = InvalidLogin,
    InvalidIdempotencyKey,
    LoginTaken,
    IdempotencyKeyReused,
    Erased,
    BeingErased,
    StoreUnavailable
);
refusals!(
    PutRefused = InvalidId,
    InvalidLogin,
    LoginTaken,
    BeingErased,
    StoreUnavailable
);

/// Sign a user up
///
/// Makes an id. With an `Idempotency-Key`, you may repeat the request for a day, and it makes one
/// user. Without it, look for the login before trying again after an error that leaves open whether
/// the user was made.
#[utoipa::path(post, path = "/v1/users", operation_id = "create_user", tag = "users",
    params(IdempotencyKey),
    request_body = PutUser,
    responses(
        (status = 201, description = "The user signed up", body = UserProfile, headers(
            ("Location" = String, description = "Where the user is"),
            ("Idempotent-Replayed" = bool, description = "True if an earlier request was answered so"),
        )),
        CreateRefused,
    ))]
pub(crate) async fn create(
    State(state): State<Arc<AppState>>,
    repeatable: Repeatable,
    JsonObject(body): JsonObject<PutUser>,
) -> Result<Response, Problem> {
    let login = read_login(&body.login)?;
    let name = body.name.0;
    let mut asked = vec![body.login, name.clone()];
    asked.extend(body.hidden.map(|hidden| hidden.to_string()));
    let store = state.of::<Arc<dyn ProfileStore>>().clone();
    repeatable
        .carry_out(store, &asked, UserId::random(), |user| {
            sign_up(state, user, login, name, body.hidden)
        })
        .await
}

async fn sign_up(
    state: Arc<AppState>,
    user: UserId,
    login: Login,
    name: String,
    hidden: Option<bool>,
) -> Result<Made, Problem> {
    // The id may be that of an earlier attempt.
    check(&state, &user)?;
    let store = &state.of::<Arc<dyn ProfileStore>>();
    let location = format!("/v1/users/{user}");
    let profile = match store.profile(&user).await? {
        // The same request made the user before, and its answer was not kept.
        Some(there) => there,
        None => match store.put_profile(&user, &login, &name).await? {
            PutProfile::Created(profile) | PutProfile::Replaced(profile) => profile,
            PutProfile::LoginTaken => return Err(login_taken()),
        },
    };
    let hidden = hide(&state, &user, hidden).await?;
    Made::new(location, &UserProfile::of(user, profile, hidden))
}

/// Hides a user or shows the user again, if `hidden` says so. Answers whether the user is hidden.
///
/// Viewers who were told of the user as a friend hear at once. A gateway that dies before it has told
/// them gave no answer, and a repeated request tells them.
async fn hide(state: &AppState, user: &UserId, hidden: Option<bool>) -> Result<bool, Problem> {
    let store = &state.of::<Arc<dyn ProfileStore>>();
    let Some(hidden) = hidden else {
        let known = store.are_hidden(std::slice::from_ref(user)).await?;
        return Ok(known == [true]);
    };
    let visibility = if hidden {
        Visibility::Hidden
    } else {
        Visibility::Shown
    };
    store.set_visibility(user, visibility).await?;
    for words in store.whereabouts_of(std::slice::from_ref(user)).await? {
        for (_, live) in words {
            state.core.to_peers.moved(&live, std::slice::from_ref(user));
        }
    }
    Ok(hidden)
}

fn login_taken() -> Problem {
    Problem::new(ProblemKind::LoginTaken, "another user has this login")
}

fn read_login(login: &str) -> Result<Login, Problem> {
    let Ok(login) = Login::parse(login) else {
        let detail = "must have 1 to 64 bytes of A-Z a-z 0-9 _ . : @ -, and no other letters";
        return Err(Problem::new(ProblemKind::InvalidLogin, detail).at(FieldPlace::field("login")));
    };
    Ok(login)
}

/// Write a profile
///
/// A former login of the user is free afterwards.
#[utoipa::path(put, path = "/v1/users/{user_id}", operation_id = "put_user", tag = "users",
    params(("user_id" = UserId, Path, description = "The user", example = "u1")), request_body = PutUser,
    responses(
        (status = 201, description = "The first profile of this user", body = UserProfile),
        (status = 200, description = "It took the place of another one; `signup` stays what it was",
            body = UserProfile),
        PutRefused,
    ))]
pub(crate) async fn put(
    State(state): State<Arc<AppState>>,
    InPath(user): InPath<UserId>,
    JsonObject(body): JsonObject<PutUser>,
) -> Result<Response, Problem> {
    let login = read_login(&body.login)?;
    let id = user.clone();
    let put = async move {
        let store = state.of::<Arc<dyn ProfileStore>>();
        let (status, profile) = match store.put_profile(&user, &login, &body.name.0).await? {
            PutProfile::Created(profile) => (StatusCode::CREATED, profile),
            PutProfile::Replaced(profile) => (StatusCode::OK, profile),
            PutProfile::LoginTaken => return Err(login_taken()),
        };
        let hidden = hide(&state, &user, body.hidden).await?;
        Ok((status, UserProfile::of(user, profile, hidden)))
    };
    let (status, profile) = run_to_completion(put).await?;
    let headers = [(header::LOCATION, format!("/v1/users/{id}"))];
    Ok((status, headers, Json(profile)).into_response())
}

refusals!(ShowRefused = InvalidId, StoreUnavailable);

/// Look at a user
#[utoipa::path(get, path = "/v1/users/{user_id}", operation_id = "get_user", tag = "users",
    params(("user_id" = UserId, Path, description = "The user", example = "u1")),
    responses((status = 200, description = "What is known of the user", body = UserNow), ShowRefused))]
pub(crate) async fn show(
    State(state): State<Arc<AppState>>,
    InPath(user): InPath<UserId>,
) -> Result<Json<UserNow>, Problem> {
    let store = &state.of::<Arc<dyn ProfileStore>>();
    // A gateway that does not track who is online shows no status.
    let asked = if tracked(&state).is_ok() {
        vec![user.clone()]
    } else {
        Vec::new()
    };
    let statuses = async {
        match state.parts.get::<Arc<dyn CountsStatuses>>() {
            Some(counts) => counts.count_statuses(&user).await,
            None => Ok(0),
        }
    };
    let asked_for = std::slice::from_ref(&user);
    let (profile, hidden, followers, following, statuses, status) = tokio::try_join!(
        store.profile(&user),
        store.are_hidden(asked_for),
        store.follow_count(&user, Edge::Followers),
        store.follow_count(&user, Edge::Following),
        statuses,
        online::statuses(&state, asked),
    )?;
    let mut known = UserNow {
        user_id: user,
        login: None,
        name: None,
        signup: None,
        hidden: None,
        followers,
        following,
        statuses,
        online: None,
        last_seen: None,
        live_id: None,
    };
    if let Some(profile) = profile {
        known.login = Some(profile.login.to_string());
        known.name = Some(profile.name);
        known.signup = Some(profile.signup);
        known.hidden = Some(hidden == [true]);
    }
    if let Some(status) = status.into_iter().next() {
        known.online = Some(status.online);
        known.last_seen = status.last_seen;
        known.live_id = status.live_id;
    }
    Ok(Json(known))
}

/// Adds the routes of this feature.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .only_for(Action::WriteUser, routes!(create))
        .only_for(Action::WriteUser, routes!(put))
        .only_for(Action::ReadUser, routes!(show))
}
