//! Decides who may call a route: a layer that `routes` puts around every route that is not open to
//! all. It reads the caller's API key or token, charges the request to the caller's budget, and asks
//! the table of permissions, before the handler and its extractors run. Behind it a request has the
//! [`Actor`] as an extension, unless the gateway runs with `--auth off`.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::bill;
use super::erased::refuse_erased;
use super::problem::{Problem, ProblemKind};
use super::rate_limits::Payer;
use super::state::AppState;
use crate::auth::claims::TokenClaims;
use crate::auth::permissions::{Action, Caller, Permission, Tie, permission, scope};
use crate::auth::tokens::{TokenError, Tokens};
use crate::base::actor::Actor;
use crate::base::ids::{LiveId, UserId};
use crate::edge::credentials::{AuthError, bearer, token_in_query};
use crate::presence::user_budgets::Cost;
use crate::store::LiveRecord;
use crate::sync::lives::known_record;

/// Which credentials a port takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepts {
    KeysAndTokens,
    /// For the public port of a gateway that also has an internal port: a key that leaked is worth
    /// nothing there.
    Tokens,
}

/// The layer's state: what one route requires of its callers.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) state: Arc<AppState>,
    pub(crate) action: Action,
    pub(crate) accepts: Accepts,
}

/// Who called; `None` if the gateway runs with `--auth off`.
#[derive(Debug, Clone)]
pub(crate) struct CalledBy(pub(crate) Option<Actor>);

impl<S: Sync> FromRequestParts<S> for CalledBy {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get().cloned()))
    }
}

/// The token of a streamer, who may open only their own lives. The handler reads it from the
/// request's extensions.
#[derive(Debug, Clone)]
pub(crate) struct OnlyOwn(pub(crate) Arc<TokenClaims>);

/// The token of the caller. The handler reads it from the request's extensions.
#[derive(Debug, Clone)]
pub(crate) struct Bearer(pub(crate) Arc<TokenClaims>);

/// The epoch of a live whose streamer is the caller. The handler reads it from the request's
/// extensions.
#[derive(Debug, Clone)]
pub(crate) struct OwnLive(pub(crate) LiveRecord);

/// The caller acts as a moderator of the streamer, or as a host of the live, and may do less than the
/// streamer. The handler reads it from the request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AsStaff {
    Moderator,
    /// Who also moderates is a host first.
    Host,
}

pub(crate) async fn authorize(
    State(guard): State<Guard>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    bill::of(&parts.extensions).settle_by_address();
    let admitted = match guard.admit(&mut parts).await {
        Ok(()) => refuse_erased(&guard.state, guard.action, &mut parts).await,
        Err(problem) => Err(problem),
    };
    match admitted {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(problem) => problem.into_response(),
    }
}

/// Charges a request that needs no credentials to its address.
pub(crate) async fn limit(
    State(state): State<Arc<AppState>>,
    request: Request,
    next: Next,
) -> Response {
    bill::of(request.extensions()).settle_by_address();
    match state.rate_limits.take(Payer::address(request.extensions())) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

impl Guard {
    async fn admit(&self, parts: &mut Parts) -> Result<(), Problem> {
        let state = &self.state;
        let Some(tokens) = &state.tokens else {
            return state.rate_limits.take(Payer::address(&parts.extensions));
        };
        // A page cannot set headers on its request for a stream of events.
        let in_query = match self.action {
            Action::Watch => token_in_query(&parts.uri),
            _ => None,
        };
        let presented = bearer(parts).or(in_query.as_deref());
        if self.accepts == Accepts::KeysAndTokens
            && let Some(presented) = bearer(parts)
            && let Some(key) = state.api_keys.find(presented)
        {
            self.charge_caller(Payer::Key(key.name.clone()), parts)?;
            parts.extensions.insert(Actor::Key(key.name.clone()));
            let may = permission(Caller::Key(key.scopes), self.action);
            // A stream of events looks at its key again.
            parts.extensions.insert(key);
            return match may {
                Permission::No => Err(why_not(self.action)),
                _ => Ok(()),
            };
        }
        let claims = match self.verify(tokens, presented).await {
            Ok(claims) => claims,
            Err(problem) => {
                // Who shows a good token does not pay for those who guess from the same address.
                state.rate_limits.take(Payer::address(&parts.extensions))?;
                return Err(problem);
            }
        };
        self.charge_caller(Payer::User(claims.user.clone()), parts)?;
        let actor = Actor::Bearer(claims.role, claims.user.clone());
        parts.extensions.insert(actor);
        self.admit_token(&claims, parts).await
    }

    fn charge_caller(&self, payer: Payer, parts: &Parts) -> Result<(), Problem> {
        bill::of(&parts.extensions).settle_by_caller();
        self.state.rate_limits.take(Some(payer))
    }

    /// Charges what the events and the audit trail tell of to the streamer's budget, which sockets
    /// spend, too: no streamer fills the streams of all. It starves nobody but the streamer.
    fn charge_streamer(&self, streamer: &UserId) -> Result<(), Problem> {
        if !self.action.is_audited() {
            return Ok(());
        }
        let cost = match self.action {
            Action::Open => Cost::Open,
            _ => Cost::Change,
        };
        let state = &self.state;
        let taken = state
            .sessions
            .budgets
            .take(streamer, cost, state.core.clock.now());
        taken.map_err(|wait| {
            let payer = Payer::User(streamer.clone());
            state.rate_limits.refuse(&payer, wait)
        })
    }

    async fn verify(
        &self,
        tokens: &Tokens,
        presented: Option<&str>,
    ) -> Result<Arc<TokenClaims>, Problem> {
        let Some(presented) = presented else {
            let detail = match self.accepts {
                Accepts::KeysAndTokens => "send Authorization: Bearer with an API key or a token",
                Accepts::Tokens => "send Authorization: Bearer with a token",
            };
            return Err(Problem::new(ProblemKind::Unauthorized, detail));
        };
        // A token has three parts; a key has no dot.
        if !presented.contains('.') {
            return Err(Problem::new(
                ProblemKind::Unauthorized,
                "this port knows no such API key, and it is no token",
            ));
        }
        let claims = tokens.verify(presented).await.map_err(AuthError::from)?;
        if !self.state.sessions.know_rules().await {
            let detail = "the gateway does not know yet which tokens were revoked; try again";
            return Err(Problem::new(ProblemKind::StoreUnavailable, detail));
        }
        if self.state.sessions.is_revoked(&claims) {
            return Err(AuthError::Token(TokenError::Revoked).into());
        }
        Ok(claims)
    }

    async fn admit_token(
        &self,
        claims: &Arc<TokenClaims>,
        parts: &mut Parts,
    ) -> Result<(), Problem> {
        if claims.user.is_guest() {
            return Err(forbidden("a guest may not do this: it needs an account"));
        }
        let may = permission(Caller::Role(claims.role), self.action);
        let live = live_in_path(parts).await?;
        if !self.may_be_tied(may, claims, live.as_ref()) {
            let detail = format!("the role {} may not do this", claims.role.as_str());
            return Err(Problem::new(ProblemKind::Forbidden, detail));
        }
        if self.action == Action::Beat {
            // A beat concerns no live.
            parts.extensions.insert(Bearer(claims.clone()));
            return Ok(());
        }
        if self.action == Action::Watch {
            parts.extensions.insert(Bearer(claims.clone()));
        }
        if claims.lives.is_some() && !live.as_ref().is_some_and(|live| claims.allows(live)) {
            return Err(forbidden("the token is for other lives"));
        }
        if may == Permission::Yes {
            return Ok(());
        }
        self.admit_streamer(may, claims, live, parts).await
    }

    /// Whether the caller may have a tie that is needed, as far as this gateway knows without the
    /// store.
    fn may_be_tied(&self, may: Permission, claims: &TokenClaims, live: Option<&LiveId>) -> bool {
        let core = &self.state.core;
        if may == Permission::Yes || may.is_for(Tie::Streamer) {
            return true;
        }
        if may.is_for(Tie::Moderator) && core.rules.has_moderators() {
            return true;
        }
        let room = live.and_then(|live| core.rooms.get(live));
        let may_host = match room {
            Some(room) => room.is_host(&claims.user, core.clock.now()),
            None => live.is_some(),
        };
        may.is_for(Tie::Host) && may_host
    }

    /// Admits a streamer to a route that acts on the streamer's own lives, and a host or a moderator
    /// to one that is for them, too.
    async fn admit_streamer(
        &self,
        may: Permission,
        claims: &Arc<TokenClaims>,
        live: Option<LiveId>,
        parts: &mut Parts,
    ) -> Result<(), Problem> {
        self.charge_streamer(&claims.user)?;
        if self.action == Action::Open {
            parts.extensions.insert(OnlyOwn(claims.clone()));
            return Ok(());
        }
        if let Some(live) = live {
            let store = self.state.core.store_for_clients.as_ref();
            let record = known_record(store, &self.state.core.rooms, &live).await?;
            let is_host = may.is_for(Tie::Host) && self.hosts(&record, claims).await;
            if is_host {
                parts.extensions.insert(AsStaff::Host);
            } else if !self.may_act_for(may, &record.streamer, claims, parts).await {
                return Err(forbidden("the live belongs to another streamer"));
            }
            parts.extensions.insert(OwnLive(record));
            return Ok(());
        }
        if let Some(streamer) = in_path(parts, "streamer_id").await? {
            let streamer = UserId::parse(&streamer)?;
            if self.may_act_for(may, &streamer, claims, parts).await {
                return Ok(());
            }
        }
        Err(forbidden("a streamer may do this to their own lives only"))
    }

    /// Whether the caller is the streamer, or one of the streamer's moderators where these may do it.
    /// Notes that a moderator acts.
    async fn may_act_for(
        &self,
        may: Permission,
        streamer: &UserId,
        claims: &TokenClaims,
        parts: &mut Parts,
    ) -> bool {
        if may.covers(&claims.user, streamer) {
            return true;
        }
        if !may.is_for(Tie::Moderator) || !self.state.sessions.know_rules().await {
            return false;
        }
        let rules = &self.state.core.rules;
        let is_banned = rules
            .ban_by(streamer, &claims.user, self.state.core.clock.now())
            .is_some();
        if is_banned || !rules.is_moderator(streamer, &claims.user) {
            return false;
        }
        parts.extensions.insert(AsStaff::Moderator);
        true
    }

    /// Whether the caller hosts a live, as its record says, and is not banned since.
    async fn hosts(&self, record: &LiveRecord, claims: &TokenClaims) -> bool {
        let core = &self.state.core;
        record.terms.hosts.contains(&claims.user)
            && self.state.sessions.know_rules().await
            && core
                .rules
                .ban_of_host(&record.streamer, &claims.user, core.clock.now())
                .is_none()
    }
}

fn forbidden(detail: &'static str) -> Problem {
    Problem::new(ProblemKind::Forbidden, detail)
}

/// Why the gateway refuses a good API key.
fn why_not(action: Action) -> Problem {
    let detail = match scope(action) {
        Some(scope) => format!("the API key lacks the scope {}", scope.as_str()),
        None => {
            "this is for the bearer of a token, and an API key is no user: POST /v1/online/seen names users"
                .to_owned()
        }
    };
    Problem::new(ProblemKind::Forbidden, detail)
}

async fn live_in_path(parts: &mut Parts) -> Result<Option<LiveId>, Problem> {
    match in_path(parts, "live_id").await? {
        Some(live) => Ok(Some(LiveId::parse(&live)?)),
        None => Ok(None),
    }
}

async fn in_path(parts: &mut Parts, name: &str) -> Result<Option<String>, Problem> {
    let params = RawPathParams::from_request_parts(parts, &())
        .await
        .map_err(|error| Problem::new(ProblemKind::InvalidId, error.body_text()))?;
    for (param, value) in &params {
        if param == name {
            return Ok(Some(value.to_owned()));
        }
    }
    Ok(None)
}
