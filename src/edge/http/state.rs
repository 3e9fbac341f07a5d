//! What every handler may ask. The wiring makes one for each gateway, and both ports share it; it has no logic.

use std::sync::Arc;

use super::browsers::Browsers;
use super::rate_limits::RateLimits;
use super::snapshots::Snapshots;
use crate::auth::api_keys::ApiKeys;
use crate::auth::tokens::Tokens;
use crate::base::clock::Clock;
use crate::base::metrics::Metrics;
use crate::edge::admission::Admission;
use crate::presence::Rooms;
use crate::presence::gateways::Gateways;
use crate::session::context::SessionContext;
use crate::store::Store;
use crate::sync::follows::Follows;
use crate::sync::info::InfoWriter;
use crate::sync::lives::Lives;
use crate::sync::removals::Remover;

pub(crate) struct AppState {
    pub(crate) store: Arc<dyn Store>,
    /// The same store, with the share of its capacity that requests of clients may use.
    pub(crate) store_for_clients: Arc<dyn Store>,
    pub(crate) snapshots: Snapshots,
    pub(crate) rooms: Arc<Rooms>,
    pub(crate) gateways: Arc<Gateways>,
    pub(crate) lives: Arc<Lives>,
    pub(crate) follows: Follows,
    pub(crate) info: InfoWriter,
    pub(crate) removals: Remover,
    pub(crate) sessions: Arc<SessionContext>,
    pub(crate) admission: Admission,
    pub(crate) browsers: Browsers,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clock: Clock,
    /// `None` with `--auth off`.
    pub(crate) tokens: Option<Arc<Tokens>>,
    pub(crate) api_keys: Arc<ApiKeys>,
    pub(crate) rate_limits: RateLimits,
}
