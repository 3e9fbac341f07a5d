//! The state that all sessions of one gateway share. The wiring makes one for each gateway.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::limits::SessionLimits;
use super::reaper::Reaper;
use crate::auth::claims::{LEEWAY, TokenClaims};
use crate::auth::tokens::Tokens;
use crate::base::clock::{Moment, millis};
use crate::peers::core::Core;
use crate::presence::conn::{Conn, Signals};
use crate::presence::trust::Trust;
use crate::presence::user_budgets::UserBudgets;
use crate::presence::user_sockets::UserSockets;
use crate::sync::lives::Lives;

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

    /// Sends a new session away if its user is being erased. Those that were there when the erasure
    /// began are sent away by `session::erasing`.
    pub(super) fn refuse_erased(&self, conn: &Conn) {
        if self.core.erasing.contains(&conn.identity.user) {
            conn.signal(Signals::REMOVED);
        }
    }

    /// Stops admitting sockets.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }
}
