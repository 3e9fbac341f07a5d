//! Makes the parts of one gateway, a function for each layer, and hands each part what it needs. Nothing runs yet:
//! [`super::start`] runs the tasks.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio_util::task::TaskTracker;

use crate::auth::tokens::Tokens;
use crate::base::clock::Clock;
use crate::base::metrics::Metrics;
use crate::config::Config;
use crate::dashboards::counts::CountsTask;
use crate::edge::admission::Admission;
use crate::edge::http::browsers::Browsers;
use crate::edge::http::snapshots::Snapshots;
use crate::edge::http::state::AppState;
use crate::peers::Outbox;
use crate::peers::publisher::Publisher;
use crate::peers::subscriber::Subscriber;
use crate::presence::Rooms;
use crate::presence::checks::Checks;
use crate::presence::gateways::Gateways;
use crate::presence::streamers::Streamers;
use crate::presence::trust::Trust;
use crate::session::context::SessionContext;
use crate::session::reaper::Reaper;
use crate::store::Store;
use crate::sync::catch_up::CatchUp;
use crate::sync::changed_records::ChangedRecords;
use crate::sync::check::Checker;
use crate::sync::fan_check::FanCheck;
use crate::sync::flush::{Flusher, ResyncLimit};
use crate::sync::follows::Follows;
use crate::sync::keep::Keeper;
use crate::sync::lease::LeaseKeeper;
use crate::sync::lives::{Lives, Parts as LivesParts};
use crate::sync::removals::Removals;
use crate::sync::streamer_timeout::StreamerTimeout;
use crate::sync::streamers::StreamerPresence;
use crate::sync::sweep::Sweeper;
use crate::sync::upkeep::Upkeep;
use crate::sync::walk::Walk;

/// A struct of shared parts: a field without a value is a clone of the variable with its name.
macro_rules! share {
    ($part:ident { $($field:ident $(: $value:expr)?),* $(,)? }) => {
        $part { $($field: share!(@ $field $($value)?)),* }
    };
    (@ $variable:ident) => { $variable.clone() };
    (@ $field:ident $value:expr) => { $value };
}

/// The long-lived tasks of a gateway, and what its handlers ask.
pub struct Parts {
    pub subscriber: Subscriber,
    pub publisher: Arc<Publisher>,
    pub counts: CountsTask,
    pub sync: SyncParts,
    pub app: Arc<AppState>,
}

/// The sync layer: its tasks, and what sessions and handlers call.
pub struct SyncParts {
    pub flusher: Arc<Flusher>,
    pub lease: LeaseKeeper,
    pub streamer_presence: StreamerPresence,
    pub changed_records: Arc<ChangedRecords>,
    pub upkeep: Upkeep,
    pub streamer_timeout: Arc<StreamerTimeout>,
    pub walk: Walk,
    lives: Arc<Lives>,
    keeper: Arc<Keeper>,
    catch_up: Arc<CatchUp>,
}

impl Parts {
    /// `tasks` tracks what must end before the process does.
    pub(crate) fn new(
        config: &Config,
        tokens: Option<Arc<Tokens>>,
        store: Arc<dyn Store>,
        metrics: Arc<Metrics>,
        tasks: TaskTracker,
    ) -> Self {
        let common = Common::new(config, tokens, store, metrics);
        let (subscriber, publisher) = peers(&common, config);
        let counts = dashboards(&common, config);
        let sync = sync(&common, config, tasks);
        let sessions = sessions(&common, config, &sync.lives);
        let app = edge(&common, config, &sync, &sessions);
        Self { subscriber, publisher, counts, sync, app }
    }
}

/// What parts of every layer share: the clock, the metrics, the store, and what this gateway holds in memory.
struct Common {
    clock: Clock,
    metrics: Arc<Metrics>,
    store: Arc<dyn Store>,
    store_for_clients: Arc<dyn Store>,
    rooms: Arc<Rooms>,
    gateways: Arc<Gateways>,
    checks: Arc<Checks>,
    streamers: Arc<Streamers>,
    trust: Arc<Trust>,
    outbox: Arc<Outbox>,
    tokens: Option<Arc<Tokens>>,
}

impl Common {
    fn new(config: &Config, tokens: Option<Arc<Tokens>>, store: Arc<dyn Store>, metrics: Arc<Metrics>) -> Self {
        metrics.store_up.set(1);
        let clock = Clock::start();
        let rooms = Arc::new(Rooms::default());
        let gateways = Arc::new(Gateways::new(config.lease, config.lease_refresh));
        Self {
            clock,
            store_for_clients: store.clone().for_clients(),
            checks: Arc::new(Checks::new(clock, rooms.clone(), config)),
            streamers: Arc::default(),
            trust: Arc::new(Trust::new(store.clone(), gateways.clone(), clock, config.lease)),
            outbox: Arc::new(Outbox::new(gateways.clone(), metrics.clone())),
            metrics,
            store,
            rooms,
            gateways,
            tokens,
        }
    }
}

fn peers(common: &Common, config: &Config) -> (Subscriber, Arc<Publisher>) {
    let Common { clock, metrics, store, rooms, gateways, checks, streamers, outbox, .. } = common;
    let flush = config.flush;
    let subscriber = share!(Subscriber { store, rooms, gateways, checks, streamers, metrics, clock });
    let publisher = share!(Publisher { rooms, gateways, outbox, checks, store, metrics, clock, flush });
    (subscriber, Arc::new(publisher))
}

fn dashboards(common: &Common, config: &Config) -> CountsTask {
    let Common { clock, store, rooms, trust, .. } = common;
    share!(CountsTask { rooms, store, trust, clock, flush: config.flush })
}

fn sync(common: &Common, config: &Config, tasks: TaskTracker) -> SyncParts {
    let Common { clock, metrics, store, store_for_clients, rooms, gateways, checks, streamers, outbox, .. } = common;
    let Config { flush, timeout, lease, lease_refresh, check_every, fan_ttl, closed_ttl, .. } = config;

    let lives = Arc::new(Lives::new(share!(LivesParts {
        store: store_for_clients.clone(),
        rooms,
        gateways,
        checks,
        outbox,
        metrics,
        clock,
        closed_ttl,
        tasks: tasks,
    })));
    let catch_up = Arc::new(share!(CatchUp { store, rooms, checks, clock }));
    let keeper = Arc::new(share!(Keeper { store, rooms, outbox, lives, catch_up, clock }));
    let sweeper = Arc::new(share!(Sweeper { rooms, gateways, store, outbox, metrics, clock }));
    let checker =
        Arc::new(share!(Checker { rooms, gateways, store, checks, keeper, lives, sweeper, outbox, metrics, clock }));
    let streamer_timeout = Arc::new(share!(StreamerTimeout {
        streamers,
        gateways,
        store,
        lives,
        clock,
        lease,
        timeout: config.streamer_timeout,
    }));
    let flusher = Arc::new(share!(Flusher {
        rooms,
        gateways,
        store,
        fans: FanCheck::new(config.fan_source, store.clone()),
        keeper,
        outbox,
        metrics,
        clock,
        flush,
        lease,
        lease_refresh,
        resync_limit: ResyncLimit::default(),
    }));
    SyncParts {
        flusher,
        lease: share!(LeaseKeeper {
            gateways,
            store,
            rooms,
            checks,
            streamers,
            metrics,
            clock,
            lease,
            refresh: *lease_refresh,
        }),
        streamer_presence: share!(StreamerPresence { streamers, gateways, rooms, store, outbox, clock, timeout }),
        changed_records: Arc::new(share!(ChangedRecords { rooms, checks, lives, catch_up })),
        upkeep: share!(Upkeep { rooms, gateways, checks, streamers, store, checker, metrics, clock, fan_ttl }),
        walk: share!(Walk {
            gateways,
            streamers,
            store,
            lives,
            sweeper,
            streamer_timeout,
            clock,
            lease,
            lease_refresh,
            check_every,
        }),
        streamer_timeout,
        lives,
        keeper,
        catch_up,
    }
}

fn sessions(common: &Common, config: &Config, lives: &Arc<Lives>) -> Arc<SessionContext> {
    let Common { clock, metrics, rooms, gateways, streamers, trust, tokens, .. } = common;
    let Config { heartbeat, timeout, flush, .. } = config;
    Arc::new(share!(SessionContext {
        rooms,
        lives,
        streamers,
        gateways,
        trust,
        reaper: Arc::new(Reaper::new(config, *clock)),
        metrics,
        clock,
        heartbeat,
        timeout,
        flush,
        tokens,
        draining: AtomicBool::new(false),
    }))
}

fn edge(common: &Common, config: &Config, sync: &SyncParts, sessions: &Arc<SessionContext>) -> Arc<AppState> {
    let Common { clock, metrics, store, store_for_clients, rooms, gateways, outbox, tokens, .. } = common;
    let SyncParts { lives, keeper, catch_up, .. } = sync;
    let for_clients = || store_for_clients.clone();
    Arc::new(share!(AppState {
        store,
        store_for_clients,
        snapshots: Snapshots::new(for_clients(), *clock),
        rooms,
        gateways,
        lives,
        follows: share!(Follows { store: for_clients(), rooms, outbox }),
        removals: share!(Removals { store: for_clients(), rooms, outbox, keeper, catch_up, metrics }),
        sessions,
        admission: Admission::new(config),
        browsers: Browsers::new(config),
        metrics,
        clock,
        tokens,
    }))
}
