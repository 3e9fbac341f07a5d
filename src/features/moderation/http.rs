//! The routes of moderation that lasts: bans of streamers and of the platform, moderators, revoked
//! tokens.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::changes::RuleChanges;
use super::store::{EndReply, LONGEST_REASON, LiftRule, PutReply, PutRule, REVOKED_KEPT};
use crate::auth::permissions::Action;
use crate::base::actor::Actor;
use crate::base::ids::UserId;
use crate::edge::fields::FieldPlace;
use crate::edge::http::authorization::{AsStaff, CalledBy};
use crate::edge::http::bounded::{Text, Within};
use crate::edge::http::paging::{Listing, Page, Paging, paging_query};
use crate::edge::http::problem::{Problem, ProblemKind, refusals};
use crate::edge::http::requests::{InPath, MaybeObject, run_to_completion};
use crate::edge::http::routes::Routes;
use crate::edge::http::state::AppState;
use crate::presence::rules::{RuleList, RuleName, RuleTerms};

/// Maximum bans of a streamer that run at a time.
const MAX_STREAMER_BANS: usize = 10_000;

/// Maximum moderators of a streamer.
const MAX_MODERATORS: usize = 1_000;

/// The longest ban with an end, in seconds: ten years.
const LONGEST_BAN: u64 = 10 * 365 * 24 * 3_600;

type LastingSeconds = Within<1, { LONGEST_BAN }>;

type BanReason = Text<0, { LONGEST_REASON }>;

/// How long a user is banned, and why.
#[derive(Default, Deserialize, ToSchema)]
#[schema(example = json!({"ban_s": 86_400, "reason": "insults"}))]
pub(crate) struct BanWish {
    /// For how many seconds; without it, the ban has no end.
    #[schema(inline)]
    ban_s: Option<LastingSeconds>,
    /// Why. The user is told, and so are those who may list the bans.
    #[schema(inline)]
    reason: Option<BanReason>,
}

/// Who made a rule: the bearer of a token, or the holder of an API key.
#[derive(Serialize, ToSchema)]
pub(crate) struct RuleAuthor {
    /// `viewer`, `streamer` or `service`. A moderator has the role of the token.
    #[schema(example = "viewer")]
    role: &'static str,
    /// The name of the key.
    #[schema(example = json!(null))]
    key: Option<String>,
    /// The user of the token.
    user_id: Option<UserId>,
}

impl RuleAuthor {
    fn of(by: Actor) -> Self {
        match by {
            Actor::Key(name) => Self {
                role: "service",
                key: Some(name.to_string()),
                user_id: None,
            },
            Actor::Bearer(role, user) => Self {
                role: role.as_str(),
                key: None,
                user_id: Some(user),
            },
        }
    }
}

/// A ban of the platform or of a streamer.
#[derive(Serialize, ToSchema)]
pub(crate) struct LastingBan {
    /// Who may not come.
    user_id: UserId,
    /// When the ban ends, in Unix milliseconds; null: never.
    #[schema(example = 1_732_086_400_000_u64)]
    ban_ends_at: Option<u64>,
    /// Why; null if nobody said so.
    #[schema(example = "insults")]
    reason: Option<String>,
    /// When it was made, in Unix milliseconds.
    #[schema(example = 1_732_000_000_000_u64)]
    banned_at: u64,
    /// Who made it; null if the gateway asked for no credentials, or the user was erased.
    by: Option<RuleAuthor>,
}

impl LastingBan {
    fn of((user_id, terms): (UserId, RuleTerms)) -> Self {
        Self {
            user_id,
            ban_ends_at: terms.until,
            reason: terms.reason,
            banned_at: terms.at,
            by: terms.by.map(RuleAuthor::of),
        }
    }
}

/// What became of a ban of the platform or of a streamer.
#[derive(Serialize, ToSchema)]
pub(crate) struct LiftedBan {
    /// Whether the user is banned now.
    banned: bool,
    /// Whether this call made it so.
    changed: bool,
}

/// A moderator of a streamer.
#[derive(Serialize, ToSchema)]
#[schema(as = Moderator)]
pub(crate) struct ModeratorEntry {
    /// Who moderates.
    user_id: UserId,
    /// Since when, in Unix milliseconds.
    #[schema(example = 1_732_000_000_000_u64)]
    appointed_at: u64,
    /// Who said so; null as in a ban.
    by: Option<RuleAuthor>,
}

/// Whether a user moderates after a call.
#[derive(Serialize, ToSchema)]
pub(crate) struct ModeratorState {
    /// Whether the user moderates in the lives of the streamer now.
    moderator: bool,
    /// Whether this call made it so.
    changed: bool,
}

/// Tokens that are refused from now on.
#[derive(Serialize, ToSchema)]
pub(crate) struct RevokedTokens {
    /// Whose tokens.
    user_id: UserId,
    /// Tokens that were issued before are refused, in Unix milliseconds; null: none are.
    #[schema(example = 1_732_000_000_000_u64)]
    revoked_at: Option<u64>,
}

refusals!(
    BanRefused = InvalidId,
    Forbidden,
    TooManyBans,
    BeingErased,
    StoreUnavailable
);
refusals!(
    LiftRefused = InvalidId,
    Forbidden,
    BeingErased,
    StoreUnavailable
);
refusals!(ListRefused = InvalidId, Forbidden, StoreUnavailable);

impl BanWish {
    /// How long the ban is to last. A moderator's lasts `most` at the longest.
    fn length(&self, most: Option<Duration>) -> Result<Option<Duration>, Problem> {
        let wished = self
            .ban_s
            .as_ref()
            .map(|seconds| Duration::from_secs(seconds.0));
        match most {
            Some(most) if wished > Some(most) => {
                let seconds = most.as_secs();
                let detail = format!("a moderator bans for at most {seconds} s");
                let place = FieldPlace::Body("/ban_s".to_owned());
                Err(Problem::new(ProblemKind::Forbidden, detail).at(place))
            }
            _ => Ok(wished.or(most)),
        }
    }
}

fn forbidden(detail: &'static str) -> Problem {
    Problem::new(ProblemKind::Forbidden, detail)
}

const NOT_A_MODERATORS: &str =
    "the streamer or a back end made this ban, and a moderator leaves it as it is";

async fn put(state: Arc<AppState>, wish: PutRule) -> Result<(bool, RuleTerms), Problem> {
    let reply = run_to_completion(async move {
        let changes = state.of::<Arc<RuleChanges>>();
        changes.put(&wish).await
    });
    match reply.await? {
        PutReply::Done { is_new, terms } => Ok((is_new, terms)),
        PutReply::Kept => Err(forbidden(NOT_A_MODERATORS)),
    }
}

async fn lift(state: Arc<AppState>, wish: LiftRule, by: Option<Actor>) -> Result<bool, Problem> {
    let reply = run_to_completion(async move {
        let changes = state.of::<Arc<RuleChanges>>();
        changes.lift(&wish, by.as_ref()).await
    });
    match reply.await? {
        EndReply::Done(was_there) => Ok(was_there),
        EndReply::Kept => Err(forbidden(NOT_A_MODERATORS)),
    }
}

/// Waits until this gateway knows the rules.
async fn know_rules(state: &AppState) -> Result<(), Problem> {
    if state.sessions.know_rules().await {
        return Ok(());
    }
    let detail = "the gateway does not know the rules yet; try again";
    Err(Problem::new(ProblemKind::StoreUnavailable, detail))
}

/// A page of a list, from what this gateway knows.
async fn page(
    state: &AppState,
    list: RuleList<'_>,
    paging: &Paging,
) -> Result<Page<(UserId, RuleTerms)>, Problem> {
    let after = paging
        .position(|cursor| Listing::Rules.resume(cursor, |[user]| UserId::parse(user).ok()))?;
    know_rules(state).await?;
    let now = state.core.clock.now();
    let read = state
        .core
        .rules
        .page(list, after.as_ref(), paging.limit + 1, now);
    let mut items = read;
    let more = items.len() > paging.limit;
    items.truncate(paging.limit);
    let cursor = match items.last() {
        Some((user, _)) if more => Some(Listing::Rules.cursor(&[user])),
        _ => None,
    };
    Ok(Page { items, cursor })
}

// ------------------------------------------------------------------------------- bans of streamers

/// Ban a user from all lives of a streamer
///
/// Every gateway removes the user from the streamer's lives within a second, and refuses the user's
/// joins until the ban ends, in later lives, too. Takes the place of an earlier ban of the streamer.
/// A moderator bans for at most `moderator-ban`, which is also the length if the body says none, and
/// cannot ban the streamer or another moderator.
#[utoipa::path(put, path = "/v1/streamers/{streamer_id}/bans/{user_id}", operation_id = "put_streamer_ban",
    tag = "moderation",
    params(
        ("streamer_id" = UserId, Path, description = "From whose lives", example = "s1"),
        ("user_id" = UserId, Path, description = "Who is banned", example = "u1"),
    ),
    request_body(content = Option<BanWish>, content_type = "application/json"),
    responses((status = 200, description = "The user is banned", body = LastingBan), BanRefused))]
pub(crate) async fn ban_from_streamer(
    State(state): State<Arc<AppState>>,
    InPath((streamer, user)): InPath<(UserId, UserId)>,
    moderator: Option<Extension<AsStaff>>,
    CalledBy(by): CalledBy,
    MaybeObject(wish): MaybeObject<BanWish>,
) -> Result<Json<LastingBan>, Problem> {
    if streamer == user {
        return Err(forbidden("nobody is banned from their own lives"));
    }
    let rules = &state.core.rules;
    let rooms = state.core.rooms.of_streamer(&streamer);
    let is_staff = rules.is_moderator(&streamer, &user)
        || rooms.iter().any(|room| room.info.names_host(&user));
    if moderator.is_some() && is_staff {
        return Err(forbidden(
            "a moderator bans neither another moderator nor a host",
        ));
    }
    let most = moderator.map(|_| state.core.config.moderator_ban);
    let lasts = wish.length(most)?;
    let list = RuleList::StreamerBans(&streamer);
    let now = state.core.clock.now();
    if rules.count(list, MAX_STREAMER_BANS, now) >= MAX_STREAMER_BANS {
        let detail = format!("a streamer may have {MAX_STREAMER_BANS} bans; lift some");
        return Err(Problem::new(ProblemKind::TooManyBans, detail));
    }
    let rule = PutRule {
        name: RuleName::StreamerBan {
            streamer,
            user: user.clone(),
        },
        lasts,
        by,
        reason: wish.reason.map(|reason| reason.0).unwrap_or_default(),
        as_moderator: most.is_some(),
    };
    let (_, terms) = put(state, rule).await?;
    Ok(Json(LastingBan::of((user, terms))))
}

/// Let a user in again whom a streamer, or a moderator, banned
///
/// A moderator lifts only bans that moderators made.
#[utoipa::path(delete, path = "/v1/streamers/{streamer_id}/bans/{user_id}", operation_id = "lift_streamer_ban",
    tag = "moderation",
    params(
        ("streamer_id" = UserId, Path, description = "From whose lives", example = "s1"),
        ("user_id" = UserId, Path, description = "Who may join again", example = "u1"),
    ),
    responses((status = 200, description = "The streamer bans the user no longer", body = LiftedBan), LiftRefused))]
pub(crate) async fn lift_streamer_ban(
    State(state): State<Arc<AppState>>,
    InPath((streamer, user)): InPath<(UserId, UserId)>,
    moderator: Option<Extension<AsStaff>>,
    CalledBy(by): CalledBy,
) -> Result<Json<LiftedBan>, Problem> {
    let wish = LiftRule {
        name: RuleName::StreamerBan { streamer, user },
        as_moderator: moderator.is_some(),
    };
    let changed = lift(state, wish, by).await?;
    Ok(Json(LiftedBan {
        banned: false,
        changed,
    }))
}

paging_query!(RulesQuery = Rules);

/// List whom a streamer banned, by the users' ids
#[utoipa::path(get, path = "/v1/streamers/{streamer_id}/bans", operation_id = "list_streamer_bans",
    tag = "moderation",
    params(("streamer_id" = UserId, Path, description = "From whose lives", example = "s1"), RulesQuery),
    responses((status = 200, description = "A page", body = Page<LastingBan>), ListRefused))]
pub(crate) async fn list_streamer_bans(
    State(state): State<Arc<AppState>>,
    InPath(streamer): InPath<UserId>,
    paging: Paging,
) -> Result<Json<Page<LastingBan>>, Problem> {
    let page = page(&state, RuleList::StreamerBans(&streamer), &paging).await?;
    Ok(Json(page.map(LastingBan::of)))
}

// ----------------------------------------------------------------------------- bans of the platform

/// Ban a user from the platform
///
/// Every gateway closes the user's sockets and sessions within a second, and refuses the user's
/// connections, joins and lives until the ban ends. Takes the place of an earlier ban of the
/// platform. A live of the user stays open until it is closed, or the streamer has been away for
/// too long.
#[utoipa::path(put, path = "/v1/bans/{user_id}", operation_id = "put_platform_ban", tag = "moderation",
    params(("user_id" = UserId, Path, description = "Who is banned", example = "u1")),
    request_body(content = Option<BanWish>, content_type = "application/json"),
    responses((status = 200, description = "The user is banned", body = LastingBan), BanRefused))]
pub(crate) async fn ban_from_platform(
    State(state): State<Arc<AppState>>,
    InPath(user): InPath<UserId>,
    CalledBy(by): CalledBy,
    MaybeObject(wish): MaybeObject<BanWish>,
) -> Result<Json<LastingBan>, Problem> {
    let rule = PutRule {
        name: RuleName::Ban(user.clone()),
        lasts: wish.length(None)?,
        by,
        reason: wish.reason.map(|reason| reason.0).unwrap_or_default(),
        as_moderator: false,
    };
    let (_, terms) = put(state, rule).await?;
    Ok(Json(LastingBan::of((user, terms))))
}

/// Let a user in again who was banned from the platform
///
/// Bans of streamers stay.
#[utoipa::path(delete, path = "/v1/bans/{user_id}", operation_id = "lift_platform_ban", tag = "moderation",
    params(("user_id" = UserId, Path, description = "Who may come again", example = "u1")),
    responses((status = 200, description = "The user is not banned from the platform", body = LiftedBan), LiftRefused))]
pub(crate) async fn lift_platform_ban(
    State(state): State<Arc<AppState>>,
    InPath(user): InPath<UserId>,
    CalledBy(by): CalledBy,
) -> Result<Json<LiftedBan>, Problem> {
    let wish = LiftRule {
        name: RuleName::Ban(user),
        as_moderator: false,
    };
    let changed = lift(state, wish, by).await?;
    Ok(Json(LiftedBan {
        banned: false,
        changed,
    }))
}

/// List who is banned from the platform, by the users' ids
#[utoipa::path(get, path = "/v1/bans", operation_id = "list_platform_bans", tag = "moderation",
    params(RulesQuery),
    responses((status = 200, description = "A page", body = Page<LastingBan>), ListRefused))]
pub(crate) async fn list_platform_bans(
    State(state): State<Arc<AppState>>,
    paging: Paging,
) -> Result<Json<Page<LastingBan>>, Problem> {
    let page = page(&state, RuleList::Bans, &paging).await?;
    Ok(Json(page.map(LastingBan::of)))
}

// ------------------------------------------------------------------------------------ revoked tokens

/// Refuse the tokens of a user that were issued before now
///
/// Every gateway ends the user's sockets and sessions that began with such a token within a second,
/// with 4001, and refuses such tokens from then on, for 400 days. A token says by `iat` when it was
/// issued; one that does not say it counts as issued before. The user may come with a token that is
/// issued later; `iat` is in seconds, so wait for the next second before issuing it.
#[utoipa::path(put, path = "/v1/users/{user_id}/tokens/revoked", operation_id = "revoke_tokens", tag = "moderation",
    params(("user_id" = UserId, Path, description = "Whose tokens", example = "u1")),
    responses((status = 200, description = "The tokens are refused", body = RevokedTokens), LiftRefused))]
pub(crate) async fn revoke_tokens(
    State(state): State<Arc<AppState>>,
    InPath(user_id): InPath<UserId>,
    CalledBy(by): CalledBy,
) -> Result<Json<RevokedTokens>, Problem> {
    let rule = PutRule {
        name: RuleName::Revoked(user_id.clone()),
        lasts: Some(REVOKED_KEPT),
        by,
        reason: String::new(),
        as_moderator: false,
    };
    let (_, terms) = put(state, rule).await?;
    Ok(Json(RevokedTokens {
        user_id,
        revoked_at: Some(terms.at),
    }))
}

/// Which tokens of a user are refused
#[utoipa::path(get, path = "/v1/users/{user_id}/tokens/revoked", operation_id = "get_revoked_tokens",
    tag = "moderation",
    params(("user_id" = UserId, Path, description = "Whose tokens", example = "u1")),
    responses((status = 200, description = "Those issued before this time", body = RevokedTokens), ListRefused))]
pub(crate) async fn revoked_tokens(
    State(state): State<Arc<AppState>>,
    InPath(user_id): InPath<UserId>,
) -> Result<Json<RevokedTokens>, Problem> {
    know_rules(&state).await?;
    let terms = state.core.rules.terms(&RuleName::Revoked(user_id.clone()));
    Ok(Json(RevokedTokens {
        user_id,
        revoked_at: terms.map(|terms| terms.at),
    }))
}

// ---------------------------------------------------------------------------------------- moderators

/// Make a user a moderator of a streamer
///
/// A moderator sees who is in the streamer's lives, removes viewers, and bans users from them for a
/// time. The user's sockets in these lives are told.
#[utoipa::path(put, path = "/v1/streamers/{streamer_id}/moderators/{user_id}", operation_id = "put_moderator",
    tag = "moderation",
    params(
        ("streamer_id" = UserId, Path, description = "In whose lives", example = "s1"),
        ("user_id" = UserId, Path, description = "Who moderates", example = "u1"),
    ),
    responses((status = 200, description = "The user moderates", body = ModeratorState), BanRefused))]
pub(crate) async fn put_moderator(
    State(state): State<Arc<AppState>>,
    InPath((streamer, user)): InPath<(UserId, UserId)>,
    CalledBy(by): CalledBy,
) -> Result<Json<ModeratorState>, Problem> {
    if streamer == user {
        return Err(forbidden(
            "a streamer needs no permission in their own lives",
        ));
    }
    let rules = &state.core.rules;
    let list = RuleList::Moderators(&streamer);
    let now = state.core.clock.now();
    if rules.count(list, MAX_MODERATORS, now) >= MAX_MODERATORS
        && !rules.is_moderator(&streamer, &user)
    {
        let detail = format!("a streamer may have {MAX_MODERATORS} moderators");
        return Err(Problem::new(ProblemKind::TooManyBans, detail));
    }
    let rule = PutRule {
        name: RuleName::Moderator { streamer, user },
        lasts: None,
        by,
        reason: String::new(),
        as_moderator: false,
    };
    let (changed, _) = put(state, rule).await?;
    Ok(Json(ModeratorState {
        moderator: true,
        changed,
    }))
}

/// A user moderates for a streamer no longer
///
/// Bans that the user made stay.
#[utoipa::path(delete, path = "/v1/streamers/{streamer_id}/moderators/{user_id}", operation_id = "delete_moderator",
    tag = "moderation",
    params(
        ("streamer_id" = UserId, Path, description = "In whose lives", example = "s1"),
        ("user_id" = UserId, Path, description = "Who moderates no longer", example = "u1"),
    ),
    responses((status = 200, description = "The user does not moderate", body = ModeratorState), LiftRefused))]
pub(crate) async fn delete_moderator(
    State(state): State<Arc<AppState>>,
    InPath((streamer, user)): InPath<(UserId, UserId)>,
    CalledBy(by): CalledBy,
) -> Result<Json<ModeratorState>, Problem> {
    let wish = LiftRule {
        name: RuleName::Moderator { streamer, user },
        as_moderator: false,
    };
    let changed = lift(state, wish, by).await?;
    Ok(Json(ModeratorState {
        moderator: false,
        changed,
    }))
}

/// List the moderators of a streamer, by the users' ids
#[utoipa::path(get, path = "/v1/streamers/{streamer_id}/moderators", operation_id = "list_moderators",
    tag = "moderation",
    params(("streamer_id" = UserId, Path, description = "In whose lives", example = "s1"), RulesQuery),
    responses((status = 200, description = "A page", body = Page<ModeratorEntry>), ListRefused))]
pub(crate) async fn list_moderators(
    State(state): State<Arc<AppState>>,
    InPath(streamer): InPath<UserId>,
    paging: Paging,
) -> Result<Json<Page<ModeratorEntry>>, Problem> {
    let page = page(&state, RuleList::Moderators(&streamer), &paging).await?;
    Ok(Json(page.map(|(user_id, terms)| ModeratorEntry {
        user_id,
        appointed_at: terms.at,
        by: terms.by.map(RuleAuthor::of),
    })))
}

/// Adds the routes of this feature.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .only_for(
            Action::BanFromStreamer,
            routes!(ban_from_streamer, lift_streamer_ban),
        )
        .only_for(Action::BanFromStreamer, routes!(list_streamer_bans))
        .only_for(
            Action::BanFromPlatform,
            routes!(ban_from_platform, lift_platform_ban),
        )
        .only_for(Action::BanFromPlatform, routes!(list_platform_bans))
        .only_for(Action::RevokeTokens, routes!(revoke_tokens, revoked_tokens))
        .only_for(
            Action::SetModerators,
            routes!(put_moderator, delete_moderator),
        )
        .only_for(Action::SetModerators, routes!(list_moderators))
}
