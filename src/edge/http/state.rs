//! The parts of the gateway that handlers use. The wiring makes one such state for each gateway, and
//! both ports share it. It has no logic.

use std::sync::Arc;
use std::time::Duration;

use super::browsers::Browsers;
use super::rate_limits::RateLimits;
use super::snapshots::Snapshots;
use crate::auth::api_keys::ApiKeys;
use crate::auth::tokens::Tokens;
use crate::base::clock::Clock;
use crate::base::metrics::Metrics;
use crate::config::{Config, SeenIds};
use crate::edge::admission::Admission;
use crate::edge::media::servers::MediaServers;
use crate::edge::reload::Reloader;
use crate::presence::Rooms;
use crate::presence::gateways::Gateways;
use crate::session::context::SessionContext;
use crate::session::socketless::sessions::SocketlessSessions;
use crate::store::Store;
use crate::sync::eraser::Eraser;
use crate::sync::events::api_events::ApiEvents;
use crate::sync::follows::FollowGraph;
use crate::sync::live_changes::LiveChanger;
use crate::sync::lives::Lives;
use crate::sync::removals::Remover;
use crate::sync::seen::SeenUsers;
use crate::sync::social::feeds::Feeds;
use crate::sync::streams::StreamKeeper;
use crate::sync::webhooks::Endpoints;

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
    pub(crate) store: Arc<dyn Store>,
    /// The same store, with the share of its capacity that requests of clients may use.
    pub(crate) store_for_clients: Arc<dyn Store>,
    pub(crate) snapshots: Snapshots,
    pub(crate) rooms: Arc<Rooms>,
    pub(crate) gateways: Arc<Gateways>,
    pub(crate) lives: Arc<Lives>,
    pub(crate) feeds: Arc<Feeds>,
    pub(crate) follows: Arc<FollowGraph>,
    pub(crate) live_changes: LiveChanger,
    pub(crate) removals: Remover,
    pub(crate) eraser: Arc<Eraser>,
    pub(crate) media: Arc<MediaServers>,
    pub(crate) webhooks: Endpoints,
    /// `None` if the audit trail is switched off.
    pub(crate) audit: Option<Arc<ApiEvents>>,
    /// About how many events each of their streams keeps.
    pub(crate) events_kept: u64,
    pub(crate) streams: Arc<StreamKeeper>,
    /// How long a live that a stream opened outlives it.
    pub(crate) stream_grace: Duration,
    pub(crate) sessions: Arc<SessionContext>,
    pub(crate) presences: Arc<SocketlessSessions>,
    /// Where clients send datagrams; `None` if the gateway takes none.
    pub(crate) udp_addresses: Option<Vec<String>>,
    pub(crate) online: OnlineSettings,
    pub(crate) admission: Admission,
    pub(crate) browsers: Browsers,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Clock,
    /// `None` with `--auth off`.
    pub(crate) tokens: Option<Arc<Tokens>>,
    pub(crate) api_keys: Arc<ApiKeys>,
    pub(crate) rate_limits: RateLimits,
    pub(crate) reloader: Arc<Reloader>,
}
