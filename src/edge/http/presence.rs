//! The routes of sessions without a socket: a client joins a live, beats, listens to events and
//! leaves by HTTP. This file has what they share: who a session's id belongs to, and how they
//! refuse.

pub(crate) mod beats;
pub(crate) mod events;
pub(crate) mod joining;

use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;

use super::bill;
use super::problem::{Problem, ProblemKind};
use super::rate_limits::Payer;
use super::requests::{Ids, InPath, PathParams};
use super::state::AppState;
use crate::auth::session_claims::SessionClaims;
use crate::base::ids::InvalidId;
use crate::base::keyed_permits::KeyedPermit;
use crate::edge::client_address::ClientAddress;
use crate::edge::credentials::credentials;
use crate::session::messages::{ErrorCode, Refusal};
use crate::session::socketless::sessions::Denied;
use crate::store::Over;

/// After how many seconds a client may try again that was refused for the moment.
const RETRY_AFTER: u64 = 1;

/// After how many seconds a client may try a full gateway again.
const RETRY_FULL: u64 = 10;

/// Stands in a path for the id that is in a header, so that logs of proxies do not have it. No id is
/// so: an id has dots.
const CURRENT: &str = "current";

/// The scheme of the header `Authorization` with the id of a session.
const SCHEME: &str = "Presence";

/// The id of a session, as it was sent. [`owner`] reads it.
pub(crate) struct PresenceId(String);

/// The id of a session in a path.
struct IdInPath(String);

impl Ids for IdInPath {
    fn parse(params: &mut PathParams<'_>) -> Result<Self, InvalidId> {
        Ok(Self(params.next_value().to_owned()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for PresenceId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let InPath(IdInPath(id)) = InPath::from_request_parts(parts, state).await?;
        if id != CURRENT {
            return Ok(Self(id));
        }
        match credentials(parts, SCHEME) {
            Some(id) => Ok(Self(id.to_owned())),
            None => Err(Problem::new(
                ProblemKind::Unauthorized,
                "send Authorization: Presence with the session_id",
            )),
        }
    }
}

/// Reads the id of a session, and charges the request to its user. An id that no gateway made costs
/// the client's address a request. The check comes first: it costs less than the refusal, and a good
/// id is good whatever others send from the same address.
fn owner(state: &AppState, extensions: &Extensions, id: &str) -> Result<SessionClaims, Problem> {
    let bill = bill::of(extensions);
    let Some(claims) = state.presences.read(id) else {
        bill.settle_by_address();
        state.rate_limits.take(Payer::address(extensions))?;
        return Err(unknown());
    };
    bill.settle_by_caller();
    let user = claims.bearer.user.clone();
    state.rate_limits.take(Some(Payer::User(user)))?;
    Ok(claims)
}

/// The right of the client's address to one more session; `None` for a client without a limit.
fn permit(state: &AppState, extensions: &Extensions) -> Result<Option<KeyedPermit>, Problem> {
    let Some(address) = extensions.get::<ClientAddress>() else {
        return Ok(None);
    };
    state.admission.addresses.admit(*address).map_err(|_| {
        Problem::later(
            ProblemKind::TooManySockets,
            RETRY_FULL,
            "your address has as many sessions as one address may have",
        )
    })
}

fn unknown() -> Problem {
    Problem::new(
        ProblemKind::SessionUnknown,
        "the session has ended, or this is no id of one; begin another with POST /v1/presence",
    )
}

impl From<Denied> for Problem {
    fn from(why: Denied) -> Self {
        match why {
            Denied::Refused(refusal) => refusal.into(),
            Denied::Full => Self::later(
                ProblemKind::Full,
                RETRY_FULL,
                "there is no room for another session; try another gateway",
            ),
            Denied::Draining => Self::later(
                ProblemKind::Draining,
                RETRY_AFTER,
                "this gateway is about to stop; try another one",
            ),
            Denied::Over(Over::Removed) => Self::new(
                ProblemKind::Removed,
                "a moderator removed the user from the live",
            ),
            Denied::Over(Over::CrowdedOut) => Self::new(
                ProblemKind::TooManySessions,
                "the user has opened too many sockets and sessions since",
            ),
            Denied::Over(Over::Left | Over::Switched | Over::Other) | Denied::Unknown => unknown(),
        }
    }
}

/// A refusal of a session, as HTTP says it. The code stays the same.
impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal.code {
            ErrorCode::BadMessage | ErrorCode::UnknownType | ErrorCode::NotJoined => {
                ProblemKind::BadMessage
            }
            ErrorCode::InvalidId => ProblemKind::InvalidId,
            ErrorCode::LiveNotOpen => ProblemKind::LiveNotOpen,
            ErrorCode::LiveOwned => ProblemKind::LiveOwned,
            ErrorCode::Banned => ProblemKind::Banned,
            ErrorCode::BeingErased => ProblemKind::BeingErased,
            ErrorCode::Forbidden => ProblemKind::Forbidden,
            ErrorCode::RateLimited => ProblemKind::RateLimited,
            ErrorCode::StoreUnavailable => ProblemKind::StoreUnavailable,
            ErrorCode::NotAvailable => ProblemKind::NotKept,
        };
        let problem = match refusal.ban {
            Some(ban) => Self::banned(&ban),
            None => Self::new(kind, refusal.message),
        };
        match kind {
            ProblemKind::RateLimited => problem.retry_after(RETRY_AFTER),
            _ => problem,
        }
    }
}
