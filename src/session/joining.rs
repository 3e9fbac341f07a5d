//! Joins a live: what every session must pass, with a socket or without one, before it takes a seat.

use std::sync::Arc;

use super::context::SessionContext;
use super::memberships::Memberships;
use super::messages::{ErrorCode, JoinRequest, Refusal};
use crate::auth::permissions::{Action, Caller, Permission, permission};
use crate::base::identity::Role;
use crate::base::ids::{LiveId, UserId};
use crate::base::metrics::Metrics;
use crate::presence::conn::Conn;
use crate::presence::user_budgets::Cost;
use crate::presence::{NoSeat, Room};

/// How often a join or a watch looks for a room that has not just ended before it gives up.
pub(super) const TRIES: usize = 3;

/// Whether a room had a seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seating {
    Seated,
    /// The room has ended; the caller looks for the live again.
    Ended,
}

/// Refuses a join that the role, the token, the settings or the user's budget do not allow. Reads
/// nothing from the store.
pub(super) fn check(
    context: &SessionContext,
    memberships: &Memberships,
    wish: &JoinRequest,
) -> Result<(), Refusal> {
    let conn = &memberships.conn;
    refuse_early(conn, Action::Join, "this role joins no lives", &wish.live)?;
    refuse_erased(context, &conn.identity.user)?;
    if wish.friends && conn.identity.user.is_guest() {
        return Err(Refusal::new(ErrorCode::Forbidden, "a guest has no friends"));
    }
    if wish.friends && context.core.rooms.users.is_none() {
        let message =
            "the gateway runs with --track-online off, and does not know where friends are";
        return Err(Refusal::new(ErrorCode::NotAvailable, message));
    }
    let asks_anew = wish.friends && !memberships.asks_friends();
    if !memberships.has_joined(&wish.live) || asks_anew {
        charge(context, conn, Cost::Visit)?;
    }
    Ok(())
}

/// Refuses a user who is being erased.
pub(super) fn refuse_erased(context: &SessionContext, user: &UserId) -> Result<(), Refusal> {
    if context.core.erasing.contains(user) {
        let message = "this user is being erased; come back when that has ended, as a new user";
        return Err(Refusal::new(ErrorCode::BeingErased, message));
    }
    Ok(())
}

/// Waits until the rules of moderation are known as the store has them, if the store answers. Only
/// after an outage or a long stall of the process is there anything to wait for.
pub(super) async fn know_rules(context: &SessionContext) -> Result<(), Refusal> {
    if context.know_rules().await {
        return Ok(());
    }
    let message = "the gateway does not know yet who is banned; try again";
    Err(Refusal::new(ErrorCode::StoreUnavailable, message))
}

/// Takes a seat in the room, and begins or ends what is pushed to the client.
pub(super) fn take_seat(
    context: &SessionContext,
    memberships: &mut Memberships,
    room: &Arc<Room>,
    wish: &JoinRequest,
) -> Result<Seating, Refusal> {
    let live = &wish.live;
    match memberships.join(room) {
        Ok(()) => {}
        Err(NoSeat::Banned(left)) => return Err(Refusal::removed(live, left)),
        Err(NoSeat::KeptOut(ban)) => return Err(Refusal::kept_out(&ban)),
        Err(NoSeat::Crowded) => {
            let message = format!("too many join live {live} at once; try again");
            return Err(limited(context, "joins", message));
        }
        Err(NoSeat::Ended) => return Ok(Seating::Ended),
    }
    if wish.counts {
        memberships.begin_counts();
    } else {
        memberships.end_counts();
    }
    if wish.friends {
        memberships.begin_friends();
    } else {
        memberships.end_friends();
    }
    Ok(Seating::Seated)
}

/// Takes the cost of a request from the user's budget, which all sessions of the user share. Back
/// ends have no budget.
pub(super) fn charge(context: &SessionContext, conn: &Conn, cost: Cost) -> Result<(), Refusal> {
    if conn.role() == Role::Service {
        return Ok(());
    }
    let now = context.core.clock.now();
    if context.budgets.take(&conn.identity.user, cost, now).is_ok() {
        return Ok(());
    }
    let message = "this user asks for too much over all sockets; try again".to_owned();
    Err(limited(context, "user", message))
}

/// Counts a request that exceeds a limit, and returns the refusal.
pub(super) fn limited(context: &SessionContext, limit: &'static str, message: String) -> Refusal {
    Metrics::count(&context.core.metrics.limited, limit);
    Refusal::new(ErrorCode::RateLimited, message)
}

/// Refuses by the role and the token alone, before anything reads the store: any client may send
/// the request.
pub(super) fn refuse_early(
    conn: &Conn,
    action: Action,
    why: &'static str,
    live: &LiveId,
) -> Result<(), Refusal> {
    refuse_role(conn, action, why)?;
    match conn.claims() {
        Some(claims) if !claims.allows(live) => Err(Refusal::new(
            ErrorCode::Forbidden,
            "the token is for other lives",
        )),
        _ => Ok(()),
    }
}

/// Refuses by the role alone.
pub(super) fn refuse_role(conn: &Conn, action: Action, why: &'static str) -> Result<(), Refusal> {
    match permission(Caller::Role(conn.role()), action) {
        Permission::No => Err(Refusal::new(ErrorCode::Forbidden, why)),
        _ => Ok(()),
    }
}
