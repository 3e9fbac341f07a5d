//! The checks that a client must pass before it waits for its turn. An upgrade, a question at
//! `/ws/admission` and the beginning of a session without a socket go through the same checks, in
//! the same order.

use std::sync::Arc;

use axum::http::request::Parts;
use serde::Deserialize;

use crate::auth::claims::TokenClaims;
use crate::auth::tokens::TokenError;
use crate::base::address_prefix::AddressPrefix;
use crate::base::identity::{Identity, Role};
use crate::base::keyed_permits::KeyedPermit;
use crate::edge::admission::queue;
use crate::edge::client_address::ClientAddress;
use crate::edge::credentials::{AuthError, authenticate};
use crate::edge::fields::from_query;
use crate::edge::http::bill;
use crate::edge::http::browsers::{self, RequestOrigin};
use crate::edge::http::problem::{Problem, ProblemKind};
use crate::edge::http::rate_limits::Payer;
use crate::edge::http::state::AppState;

/// The requests in the query that the session handles first. The session checks them, because it can
/// answer over the socket.
#[derive(Deserialize)]
pub(crate) struct FirstRequests {
    pub(crate) live_id: Option<String>,
    pub(crate) watch: Option<String>,
}

/// A client that may have a socket if there is room.
pub(crate) struct SocketCandidate {
    pub(crate) identity: Identity,
    pub(crate) claims: Option<Arc<TokenClaims>>,
    pub(crate) first: FirstRequests,
    /// The permit of its address for one more socket.
    pub(crate) address: Option<KeyedPermit>,
}

/// A refusal, with the label under which a metric counts it.
pub(crate) struct SocketRefusal {
    pub(crate) why: &'static str,
    pub(crate) problem: Problem,
}

impl SocketRefusal {
    pub(crate) fn new(why: &'static str, kind: ProblemKind, detail: &'static str) -> Self {
        Self {
            why,
            problem: Problem::new(kind, detail),
        }
    }

    pub(crate) fn crowded(seconds: u64) -> Self {
        let detail = "many clients connect now; connect again after Retry-After";
        Self {
            why: "crowded",
            problem: Problem::later(ProblemKind::Crowded, seconds, detail),
        }
    }

    pub(crate) fn full(seconds: u64) -> Self {
        let detail = "there is no room for another socket; connect to another gateway";
        Self {
            why: "full",
            problem: Problem::later(ProblemKind::Full, seconds, detail),
        }
    }

    fn too_many_sockets() -> Self {
        let detail = "your address has as many sockets as one address may have; close some, or try again later";
        // Nobody knows when one of the sockets will end. The delay only keeps clients from returning
        // all at the same time.
        let seconds = rand::random_range(queue::MAX_RETRY / 2..=queue::MAX_RETRY);
        Self {
            why: "too_many_sockets",
            problem: Problem::later(ProblemKind::TooManySockets, seconds, detail),
        }
    }
}

impl SocketCandidate {
    pub(crate) async fn check(state: &AppState, parts: &Parts) -> Result<Self, SocketRefusal> {
        let scheme = browsers::scheme(&parts.extensions);
        if state.browsers.origin(&parts.headers, scheme) == RequestOrigin::Forbidden {
            return Err(SocketRefusal {
                why: "forbidden_origin",
                problem: browsers::forbidden(),
            });
        }
        check_draining(state)?;
        if !state.sessions.know_rules().await {
            return Err(SocketRefusal::new(
                "rules_unknown",
                ProblemKind::StoreUnavailable,
                "the gateway does not know yet who is banned; try again",
            ));
        }
        let (mut identity, claims) = identify(state, parts).await?;
        if state.core.erasing.contains(&identity.user) {
            let detail = "this user is being erased; come back when that has ended, as a new user";
            return Err(SocketRefusal::new(
                "being_erased",
                ProblemKind::BeingErased,
                detail,
            ));
        }
        let ban = state.core.rules.ban(&identity.user, state.core.clock.now());
        if let Some(ban) = ban
            && identity.role != Role::Service
        {
            return Err(SocketRefusal {
                why: "banned",
                problem: Problem::banned(&ban),
            });
        }
        let first: FirstRequests = from_query(&parts.uri).map_err(|error| SocketRefusal {
            why: "bad_query",
            problem: Problem::of_query(&error),
        })?;
        let Some(address) = parts.extensions.get::<ClientAddress>().copied() else {
            return Err(SocketRefusal::new(
                "not_upgradable",
                ProblemKind::Internal,
                "the client's address is not known",
            ));
        };
        identity.network = AddressPrefix::of(address.address());
        let address = state
            .admission
            .addresses
            .admit(address)
            .map_err(|_| SocketRefusal::too_many_sockets())?;
        Ok(Self {
            identity,
            claims,
            first,
            address,
        })
    }
}

/// Finds out who the client is. A bad token costs its address a request. A good token costs its user
/// a request, and its address nothing: a crowd behind one address may come back at once, whatever
/// others send from there.
async fn identify(
    state: &AppState,
    parts: &Parts,
) -> Result<(Identity, Option<Arc<TokenClaims>>), SocketRefusal> {
    let payer = if state.tokens.is_some() {
        Payer::address(&parts.extensions)
    } else {
        None
    };
    let bill = bill::of(&parts.extensions);
    let authenticated = authenticate(state.tokens.as_deref(), parts).await;
    let authenticated = match authenticated {
        Ok((_, Some(claims))) if state.sessions.is_revoked(&claims) => {
            Err(AuthError::Token(TokenError::Revoked))
        }
        authenticated => authenticated,
    };
    match authenticated {
        Ok((identity, claims)) => {
            // One user's token must not take the whole rate of handshakes.
            let user = claims
                .as_ref()
                .map(|claims| Payer::User(claims.user.clone()));
            if user.is_some() {
                bill.settle_by_caller();
            }
            state.rate_limits.take(user).map_err(rate_limited)?;
            if !state.online.ids.fits(&identity.user) {
                let detail =
                    "with last-seen-ids u32, a user id must be a decimal number below 2^32";
                return Err(SocketRefusal::new(
                    "unauthorized",
                    ProblemKind::InvalidUser,
                    detail,
                ));
            }
            Ok((identity, claims))
        }
        Err(error) => {
            let problem = Problem::from(error);
            if problem.kind() == ProblemKind::Unauthorized {
                bill.settle_by_address();
                state.rate_limits.take(payer).map_err(rate_limited)?;
            }
            Err(SocketRefusal {
                why: "unauthorized",
                problem,
            })
        }
    }
}

fn rate_limited(problem: Problem) -> SocketRefusal {
    SocketRefusal {
        why: "rate_limited",
        problem,
    }
}

pub(crate) fn check_draining(state: &AppState) -> Result<(), SocketRefusal> {
    if state.sessions.is_draining() {
        return Err(SocketRefusal::new(
            "draining",
            ProblemKind::Draining,
            "this gateway is about to stop; connect again",
        ));
    }
    Ok(())
}
