//! The parts of the gateway that handlers use. The wiring makes one such state for each gateway, and
//! both ports share it. It has no logic.

use std::sync::Arc;

use axum::http::Extensions;
use std::time::Duration;

use super::browsers::Browsers;
use super::rate_limits::RateLimits;
use super::snapshots::Snapshots;
use crate::auth::api_keys::ApiKeys;
use crate::auth::tokens::Tokens;
use crate::config::{Config, SeenIds};
use crate::edge::admission::Admission;
use crate::edge::reload::Reloader;
use crate::peers::core::Core;
use crate::session::context::SessionContext;
use crate::session::socketless::sessions::SocketlessSessions;
use crate::sync::events::api_events::ApiEvents;
use crate::sync::features::Features;
use crate::sync::follows::FollowGraph;
use crate::sync::live_changes::LiveChanger;
use crate::sync::lives::Lives;
use crate::sync::removals::Remover;
use crate::sync::seen::SeenUsers;

/// What the routes about users of the platform need in addition to the store.
pub(crate) struct OnlineSettings {
    pub(crate) seen: Arc<SeenUsers>,
    /// How long the store remembers when a user was seen last.
    pub(crate) remember: Duration,
    pub(crate) ids: SeenIds,
}

impl OnlineSettings {
    pub(crate) fn new(config: &Config, seen: Arc<SeenUsers>) -> Self {
        Self {
            seen,
            remember: config.remember,
            ids: config.last_seen_ids,
        }
    }
}

pub(crate) struct AppState {
    pub(crate) core: Arc<Core>,
    pub(crate) snapshots: Snapshots,
    pub(crate) lives: Arc<Lives>,
    pub(crate) features: Features,
    pub(crate) follows: Arc<FollowGraph>,
    pub(crate) live_changes: LiveChanger,
    pub(crate) removals: Remover,
    /// `None` if the audit trail is switched off.
    pub(crate) audit: Option<Arc<ApiEvents>>,
    pub(crate) sessions: Arc<SessionContext>,
    pub(crate) presences: Arc<SocketlessSessions>,
    /// Where clients send datagrams; `None` if the gateway takes none.
    pub(crate) udp_addresses: Option<Vec<String>>,
    pub(crate) online: OnlineSettings,
    pub(crate) admission: Admission,
    pub(crate) browsers: Browsers,
    /// `None` with `--auth off`.
    pub(crate) tokens: Option<Arc<Tokens>>,
    pub(crate) api_keys: Arc<ApiKeys>,
    pub(crate) rate_limits: RateLimits,
    /// How many guests an address may become; `None` if the gateway gives out no tokens for guests.
    pub(crate) guests: Option<RateLimits>,
    pub(crate) reloader: Arc<Reloader>,
    /// What features add: their routes, and what the handlers of these use.
    pub(crate) parts: Extensions,
}

impl AppState {
    /// The part of a feature, for its handlers. A feature adds its routes and its parts together.
    pub(crate) fn of<T: Send + Sync + 'static>(&self) -> &T {
        self.parts
            .get()
            .expect("the part of the feature whose route this is")
    }
}
