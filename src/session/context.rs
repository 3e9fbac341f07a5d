//! The state that all sessions of one gateway share. The wiring makes one for each gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::limits::SessionLimits;
use super::reaper::Reaper;
use crate::auth::claims::{LEEWAY, TokenClaims};
use crate::auth::tokens::Tokens;
use crate::base::clock::{Moment, millis};
use crate::base::identity::Role;
use crate::peers::core::Core;
use crate::presence::conn::{Conn, Signals};
use crate::presence::trust::Trust;
use crate::presence::user_budgets::UserBudgets;
use crate::presence::user_sockets::UserSockets;
use crate::store::Health;
use crate::sync::lives::Lives;

/// How many looks at the rules may fail before a join is answered without one. The first may have
/// begun before the store was back.
const MOST_LOOKS: u32 = 2;

/// How long a join waits for the rules.
const LONGEST_LOOK: Duration = Duration::from_secs(5);

pub(crate) struct SessionContext {
    pub(crate) core: Arc<Core>,
    pub(crate) lives: Arc<Lives>,
    pub(crate) user_sockets: UserSockets,
    /// The budget of each user for requests that cost the store something.
    pub(crate) budgets: Arc<UserBudgets>,
    pub(crate) trust: Arc<Trust>,
    pub(crate) reaper: Arc<Reaper>,
    /// `None` with `--auth off`.
    pub(crate) tokens: Option<Arc<Tokens>>,
    pub(crate) limits: SessionLimits,
    pub(crate) draining: AtomicBool,
}

impl SessionContext {
    /// Whether this gateway is about to stop and admits no sockets.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// When a token that was just verified expires, by the gateway's clock. Only this function reads
    /// the wall clock for it.
    pub(crate) fn end_of(&self, claims: &TokenClaims) -> Moment {
        let left = claims
            .expires_at
            .saturating_add(millis(LEEWAY))
            .saturating_sub(self.core.clock.unix());
        self.core.clock.now() + left
    }

    /// Sends a new session away if its user is being erased or banned, or its token is revoked. Those
    /// that were there before are sent away by the features that know of it.
    pub(super) fn refuse_unwelcome(&self, conn: &Conn) {
        if self.core.erasing.contains(&conn.identity.user) {
            conn.signal(Signals::REMOVED);
        }
        self.apply_rules(conn);
    }

    /// Ends a session whose user is banned from the platform, or whose token is revoked.
    pub(crate) fn apply_rules(&self, conn: &Conn) {
        let now = self.core.clock.now();
        let user = &conn.identity.user;
        // A back end that bans its own user can still lift the ban.
        if conn.role() != Role::Service && self.core.rules.ban(user, now).is_some() {
            conn.signal(Signals::REMOVED);
        }
        if let Some(claims) = conn.claims()
            && self.is_revoked(&claims)
        {
            conn.expire(now);
        }
    }

    /// Whether a token was revoked. With `--auth off` there are none.
    pub(crate) fn is_revoked(&self, claims: &TokenClaims) -> bool {
        let rules = &self.core.rules;
        self.tokens.is_some() && rules.is_revoked(&claims.user, claims.issued_at)
    }

    /// Waits until the rules of moderation are known as the store has them, if the store answers. False
    /// if this gateway has never read them.
    pub(crate) async fn know_rules(&self) -> bool {
        let rules = &self.core.rules;
        let now = self.core.clock.now();
        // Without a store, what is known decides.
        let is_down = || *self.core.store.health().borrow() == Health::Down;
        if rules.are_stale(now) && !(rules.are_known() && is_down()) {
            rules.look_after(now, MOST_LOOKS, LONGEST_LOOK).await;
        }
        rules.are_known()
    }

    /// Stops admitting sockets.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }
}
