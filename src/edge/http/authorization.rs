//! Who may call a route: a layer that `routes` puts around every route that is not open to all. It
//! reads the caller's API key or token, charges the request to the caller's budget, and asks the
//! table of permissions, before the handler and its extractors run.

use std::sync::Arc;

use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::bill;
use super::problem::{Kind, Problem};
use super::rate_limits::Payer;
use super::state::AppState;
use crate::auth::claims::Claims;
use crate::auth::permissions::{Action, Caller, Permission, permission};
use crate::auth::tokens::Tokens;
use crate::base::identity::Role;
use crate::base::ids::LiveId;
use crate::edge::credentials::{AuthError, bearer};
use crate::store::LiveRecord;
use crate::sync::lives::known_record;

/// Which credentials a port takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accepts {
    KeysAndTokens,
    /// The public port beside an internal one: a key that leaked is worth nothing there.
    Tokens,
}

/// The layer's state: what one route asks of its callers.
#[derive(Clone)]
pub(super) struct Guard {
    pub(super) state: Arc<AppState>,
    pub(super) action: Action,
    pub(super) accepts: Accepts,
}

/// Who calls, for the log; nobody is known with `--auth off`.
#[derive(Debug, Clone)]
pub(super) struct CalledBy(pub(super) Payer);

/// A streamer calls, who may open their own lives only. The handler reads it from the request's
/// extensions.
#[derive(Debug, Clone)]
pub(super) struct OnlyOwn(pub(super) Arc<Claims>);

/// The bearer of this token calls. The handler reads it from the request's extensions.
#[derive(Debug, Clone)]
pub(super) struct Bearer(pub(super) Arc<Claims>);

/// A streamer calls, who owns this epoch of the live. The handler reads it from the request's
/// extensions.
#[derive(Debug, Clone)]
pub(super) struct OwnLive(pub(super) LiveRecord);

pub(super) async fn authorize(
    State(guard): State<Guard>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    bill::of(&parts.extensions).settle_by_address();
    match guard.admit(&mut parts).await {
        Ok(()) => next.run(Request::from_parts(parts, body)).await,
        Err(problem) => problem.into_response(),
    }
}

/// Charges a request that needs no credentials to its address.
pub(super) async fn limit(
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
        let Guard { state, action, .. } = self;
        if let Some(tokens) = &state.tokens {
            let presented = bearer(parts);
            let takes_keys = self.accepts == Accepts::KeysAndTokens;
            if let Some(key) = presented
                .filter(|_| takes_keys)
                .and_then(|key| state.api_keys.find(key))
            {
                let payer = Payer::Key(key.name);
                bill::of(&parts.extensions).settle_by_caller();
                state.rate_limits.take(Some(payer.clone()))?;
                parts.extensions.insert(CalledBy(payer));
                return match permission(Caller::Key(key.scopes), *action) {
                    Permission::No => Err(Problem::new(
                        Kind::Forbidden,
                        "the API key lacks the scope for this",
                    )),
                    Permission::OwnLives | Permission::Yes => Ok(()),
                };
            }
            // The address pays for the check of a token, so that nobody can have many checked, or
            // guess many.
            state.rate_limits.take(Payer::address(&parts.extensions))?;
            let claims = self.verify(tokens, presented).await?;
            let payer = Payer::User(claims.user.clone());
            bill::of(&parts.extensions).settle_by_caller();
            state.rate_limits.take(Some(payer.clone()))?;
            parts.extensions.insert(CalledBy(payer));
            return self.admit_token(&claims, parts).await;
        }
        state.rate_limits.take(Payer::address(&parts.extensions))
    }

    async fn verify(
        &self,
        tokens: &Tokens,
        presented: Option<&str>,
    ) -> Result<Arc<Claims>, Problem> {
        let presented = presented.ok_or_else(|| {
            let detail = match self.accepts {
                Accepts::KeysAndTokens => "send Authorization: Bearer with an API key or a token",
                Accepts::Tokens => "send Authorization: Bearer with a token",
            };
            Problem::new(Kind::Unauthorized, detail)
        })?;
        // A token has three parts; a key has no dot.
        if !presented.contains('.') {
            return Err(Problem::new(
                Kind::Unauthorized,
                "this port knows no such API key, and it is no token",
            ));
        }
        Ok(tokens.verify(presented).await.map_err(AuthError::from)?)
    }

    async fn admit_token(&self, claims: &Arc<Claims>, parts: &mut Parts) -> Result<(), Problem> {
        let may = permission(Caller::Role(claims.role), self.action);
        match (may, claims.role) {
            (Permission::No, Role::Viewer) => {
                return Err(Problem::new(
                    Kind::Unauthorized,
                    "a viewer's token is not good for this",
                ));
            }
            (Permission::No, role) => {
                return Err(Problem::new(
                    Kind::Forbidden,
                    format!("the role {} may not do this", role.as_str()),
                ));
            }
            _ => {}
        }
        if self.action == Action::Beat {
            // It is about no live.
            parts.extensions.insert(Bearer(claims.clone()));
            return Ok(());
        }
        let forbidden = |detail| Err(Problem::new(Kind::Forbidden, detail));
        let live = live_in_path(parts).await?;
        if claims.lives.is_some() && !live.as_ref().is_some_and(|live| claims.allows(live)) {
            return forbidden("the token is for other lives");
        }
        match (may, self.action, live) {
            (Permission::Yes, ..) => Ok(()),
            (_, Action::Open, _) => {
                parts.extensions.insert(OnlyOwn(claims.clone()));
                Ok(())
            }
            (_, _, Some(live)) => {
                let store = self.state.store_for_clients.as_ref();
                let record = known_record(store, &self.state.rooms, &live).await?;
                if record.streamer != claims.user {
                    return forbidden("the live belongs to another streamer");
                }
                parts.extensions.insert(OwnLive(record));
                Ok(())
            }
            (_, Action::ReadPastLives, _)
                if in_path(parts, "streamer_id").await?.as_deref()
                    == Some(claims.user.as_str()) =>
            {
                Ok(())
            }
            (_, _, None) => forbidden("a streamer may do this to their own lives only"),
        }
    }
}

async fn live_in_path(parts: &mut Parts) -> Result<Option<LiveId>, Problem> {
    Ok(in_path(parts, "live_id")
        .await?
        .map(|live| LiveId::parse(&live))
        .transpose()?)
}

async fn in_path(parts: &mut Parts, name: &str) -> Result<Option<String>, Problem> {
    let params = RawPathParams::from_request_parts(parts, &()).await;
    let params = params.map_err(|error| Problem::new(Kind::InvalidId, error.body_text()))?;
    Ok(params
        .iter()
        .find_map(|(there, value)| (there == name).then(|| value.to_owned())))
}
