//! What nearly every task of a gateway shares.

use std::sync::Arc;

use super::PeerQueue;
use crate::base::clock::Clock;
use crate::base::metrics::Metrics;
use crate::config::Config;
use crate::presence::Rooms;
use crate::presence::absent_streamers::AbsentStreamers;
use crate::presence::checks::Checks;
use crate::presence::erasing::ErasingUsers;
use crate::presence::gateways::Gateways;
use crate::presence::rules::KnownRules;
use crate::presence::shape::ShapeMail;
use crate::store::Store;

/// The settings, the store, the clock, and the state that the tasks of a gateway share.
pub struct Core {
    pub config: Config,
    pub store: Arc<dyn Store>,
    /// The same store, with the share of its capacity that requests of clients may use.
    pub store_for_clients: Arc<dyn Store>,
    pub rooms: Arc<Rooms>,
    pub gateways: Arc<Gateways>,
    pub checks: Arc<Checks>,
    pub to_peers: Arc<PeerQueue>,
    pub absent_streamers: AbsentStreamers,
    /// The users who are being erased: nobody may be one of them.
    pub erasing: ErasingUsers,
    /// Who is banned, who moderates, and whose tokens were revoked.
    pub rules: Arc<KnownRules>,
    /// Questions about the shapes of lives, and their answers.
    pub shapes: ShapeMail,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
}

impl Core {
    pub fn new(
        config: &Config,
        store: Arc<dyn Store>,
        store_for_clients: Arc<dyn Store>,
        metrics: &Arc<Metrics>,
    ) -> Self {
        let clock = Clock::start();
        let gateways = Arc::new(Gateways::new(config.lease, config.lease_refresh));
        let rules: Arc<KnownRules> = Arc::default();
        let rooms = Rooms::new(config, gateways.own.clone(), rules.clone(), clock);
        let rooms = Arc::new(rooms);
        Self {
            config: config.clone(),
            store_for_clients,
            store,
            checks: Arc::new(Checks::new(clock, rooms.clone(), config)),
            rooms,
            to_peers: Arc::new(PeerQueue::new(gateways.clone(), metrics.clone())),
            gateways,
            absent_streamers: AbsentStreamers::default(),
            erasing: ErasingUsers::default(),
            rules,
            shapes: ShapeMail::default(),
            metrics: metrics.clone(),
            clock,
        }
    }
}
