//! Makes the parts of one gateway and hands each what it needs. Nothing runs yet.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio_util::task::TaskTracker;

use crate::base::clock::Clock;
use crate::base::metrics::Metrics;
use crate::config::Config;
use crate::dashboards::counts::CountsTask;
use crate::edge::admission::Admission;
use crate::edge::http::Api;
use crate::peers::Outbox;
use crate::peers::publisher::Publisher;
use crate::peers::subscriber::Subscriber;
use crate::presence::Rooms;
use crate::presence::checks::Checks;
use crate::presence::gateways::Gateways;
use crate::presence::streamers::Streamers;
use crate::presence::trust::Trust;
use crate::session::reaper::Reaper;
use crate::session::shared::Shared;
use crate::store::Store;
use crate::sync::catch_up::CatchUp;
use crate::sync::check::Checker;
use crate::sync::fan_check::FanCheck;
use crate::sync::flush::{Flusher, ResyncLimit};
use crate::sync::follows::Follows;
use crate::sync::keep::Keeper;
use crate::sync::lease::LeaseKeeper;
use crate::sync::lives::{self, Lives};
use crate::sync::records::ChangedRecords;
use crate::sync::removals::Removals;
use crate::sync::streamer_timeout::StreamerTimeout;
use crate::sync::streamers::StreamerPresence;
use crate::sync::sweep::Sweeper;
use crate::sync::upkeep::Upkeep;
use crate::sync::walk::Walk;

/// The parts that run, and what they share with sessions and the HTTP API.
pub struct Parts {
    pub api: Arc<Api>,
    pub flusher: Arc<Flusher>,
    pub lease: LeaseKeeper,
    pub streamer_presence: StreamerPresence,
    pub counts: CountsTask,
    pub subscriber: Subscriber,
    pub publisher: Arc<Publisher>,
    pub changed_records: Arc<ChangedRecords>,
    pub upkeep: Upkeep,
    pub streamer_timeout: Arc<StreamerTimeout>,
    pub walk: Walk,
}

impl Parts {
    /// `tasks` tracks what must end before the process does.
    pub fn new(config: &Config, store: Arc<dyn Store>, metrics: Arc<Metrics>, tasks: TaskTracker) -> Self {
        let clock = Clock::start();
        metrics.store_up.set(1);
        let store_for_clients = store.clone().for_clients();
        let rooms = Arc::new(Rooms::default());
        let gateways = Arc::new(Gateways::new(config.lease, config.lease_refresh));
        let checks = Arc::new(Checks::new(clock, rooms.clone(), config));
        let streamers = Arc::new(Streamers::default());
        let trust = Arc::new(Trust::new(store.clone(), gateways.clone(), clock, config.lease));
        let outbox = Arc::new(Outbox::new(gateways.clone(), metrics.clone()));

        let lives = Arc::new(Lives::new(lives::Parts {
            store: store_for_clients.clone(),
            rooms: rooms.clone(),
            gateways: gateways.clone(),
            checks: checks.clone(),
            outbox: outbox.clone(),
            metrics: metrics.clone(),
            clock,
            closed_ttl: config.closed_ttl,
            tasks,
        }));
        let catch_up = Arc::new(CatchUp { store: store.clone(), rooms: rooms.clone(), checks: checks.clone(), clock });
        let keeper = Arc::new(Keeper {
            store: store.clone(),
            rooms: rooms.clone(),
            outbox: outbox.clone(),
            lives: lives.clone(),
            catch_up: catch_up.clone(),
            clock,
        });
        let sweeper = Arc::new(Sweeper {
            rooms: rooms.clone(),
            gateways: gateways.clone(),
            store: store.clone(),
            outbox: outbox.clone(),
            metrics: metrics.clone(),
            clock,
        });
        let checker = Arc::new(Checker {
            rooms: rooms.clone(),
            gateways: gateways.clone(),
            store: store.clone(),
            checks: checks.clone(),
            keeper: keeper.clone(),
            lives: lives.clone(),
            sweeper: sweeper.clone(),
            outbox: outbox.clone(),
            metrics: metrics.clone(),
            clock,
        });
        let streamer_timeout = Arc::new(StreamerTimeout {
            streamers: streamers.clone(),
            gateways: gateways.clone(),
            store: store.clone(),
            lives: lives.clone(),
            clock,
            lease: config.lease,
            timeout: config.streamer_timeout,
        });
        Self {
            flusher: Arc::new(Flusher {
                rooms: rooms.clone(),
                gateways: gateways.clone(),
                store: store.clone(),
                fans: FanCheck::new(config.fan_source, store.clone()),
                keeper: keeper.clone(),
                outbox: outbox.clone(),
                metrics: metrics.clone(),
                clock,
                flush: config.flush,
                lease: config.lease,
                lease_refresh: config.lease_refresh,
                resync_limit: ResyncLimit::default(),
            }),
            lease: LeaseKeeper {
                gateways: gateways.clone(),
                store: store.clone(),
                rooms: rooms.clone(),
                checks: checks.clone(),
                streamers: streamers.clone(),
                metrics: metrics.clone(),
                clock,
                lease: config.lease,
                refresh: config.lease_refresh,
            },
            streamer_presence: StreamerPresence {
                streamers: streamers.clone(),
                gateways: gateways.clone(),
                rooms: rooms.clone(),
                store: store.clone(),
                outbox: outbox.clone(),
                clock,
                timeout: config.timeout,
            },
            counts: CountsTask {
                rooms: rooms.clone(),
                store: store.clone(),
                trust: trust.clone(),
                clock,
                flush: config.flush,
            },
            subscriber: Subscriber {
                store: store.clone(),
                rooms: rooms.clone(),
                gateways: gateways.clone(),
                checks: checks.clone(),
                streamers: streamers.clone(),
                metrics: metrics.clone(),
                clock,
            },
            publisher: Arc::new(Publisher {
                rooms: rooms.clone(),
                gateways: gateways.clone(),
                outbox: outbox.clone(),
                checks: checks.clone(),
                store: store.clone(),
                metrics: metrics.clone(),
                clock,
                flush: config.flush,
            }),
            changed_records: Arc::new(ChangedRecords {
                rooms: rooms.clone(),
                checks: checks.clone(),
                lives: lives.clone(),
                catch_up: catch_up.clone(),
            }),
            upkeep: Upkeep {
                rooms: rooms.clone(),
                gateways: gateways.clone(),
                checks,
                streamers: streamers.clone(),
                store: store.clone(),
                checker,
                metrics: metrics.clone(),
                clock,
                fan_ttl: config.fan_ttl,
            },
            walk: Walk {
                gateways: gateways.clone(),
                streamers: streamers.clone(),
                store: store.clone(),
                lives: lives.clone(),
                sweeper,
                streamer_timeout: streamer_timeout.clone(),
                clock,
                lease: config.lease,
                lease_refresh: config.lease_refresh,
                check_every: config.check_every,
            },
            streamer_timeout,
            api: Arc::new(Api {
                removals: Removals {
                    store: store_for_clients.clone(),
                    rooms: rooms.clone(),
                    outbox: outbox.clone(),
                    keeper,
                    catch_up,
                    metrics: metrics.clone(),
                },
                follows: Follows { store: store_for_clients.clone(), rooms: rooms.clone(), outbox },
                sessions: Arc::new(Shared {
                    rooms: rooms.clone(),
                    lives: lives.clone(),
                    streamers,
                    gateways: gateways.clone(),
                    trust,
                    reaper: Arc::new(Reaper::new(config, clock)),
                    metrics: metrics.clone(),
                    clock,
                    heartbeat: config.heartbeat,
                    timeout: config.timeout,
                    flush: config.flush,
                    draining: AtomicBool::new(false),
                }),
                admission: Admission::new(config),
                store,
                store_for_clients,
                rooms,
                gateways,
                lives,
                metrics,
                clock,
                auth: config.auth,
            }),
        }
    }
}
