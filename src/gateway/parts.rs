//! Makes the parts of one gateway, the lowest layer first, and hands each part what it needs. Nothing runs yet:
//! [`super::start`] runs the tasks.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use tokio_util::task::TaskTracker;

use crate::auth::api_keys::ApiKeys;
use crate::auth::tokens::Tokens;
use crate::base::clock::Clock;
use crate::base::metrics::Metrics;
use crate::config::{Config, Switch};
use crate::dashboards::counts::CountsTask;
use crate::edge::admission::Admission;
use crate::edge::http::browsers::Browsers;
use crate::edge::http::rate_limits::RateLimits;
use crate::edge::http::snapshots::Snapshots;
use crate::edge::http::state::{AppState, OnlineSettings};
use crate::peers::Outbox;
use crate::peers::publisher::Publisher;
use crate::peers::subscriber::Subscriber;
use crate::presence::Rooms;
use crate::presence::checks::Checks;
use crate::presence::gateways::Gateways;
use crate::presence::streamers::Streamers;
use crate::presence::trust::Trust;
use crate::presence::user_sockets::UserSockets;
use crate::presence::whereabouts::Whereabouts;
use crate::session::context::SessionContext;
use crate::session::limits::Limits;
use crate::session::reaper::Reaper;
use crate::store::Store;
use crate::sync::attendance::AttendanceUpkeep;
use crate::sync::catch_up::CatchUp;
use crate::sync::changed_records::ChangedRecords;
use crate::sync::check::Checker;
use crate::sync::count::CountsRecorder;
use crate::sync::fan_check::FanCheck;
use crate::sync::flush::{Flusher, ResyncLimit};
use crate::sync::follows::Follows;
use crate::sync::info::InfoWriter;
use crate::sync::keep::Keeper;
use crate::sync::lease::LeaseKeeper;
use crate::sync::lives::{Lives, LivesParts};
use crate::sync::removals::Remover;
use crate::sync::seen::SeenUsers;
use crate::sync::streamer_timeout::StreamerTimeout;
use crate::sync::streamers::StreamerPresence;
use crate::sync::sweep::Sweeper;
use crate::sync::upkeep::Upkeep;
use crate::sync::user_upkeep::UserUpkeep;
use crate::sync::walk::Walk;
use crate::sync::whereabouts::WhereaboutsTeller;

/// A struct of shared parts: a field without a value is a clone of the variable with its name.
macro_rules! share {
    ($part:ident { $($field:ident $(: $value:expr)?),* $(,)? }) => {
        $part { $($field: share!(@ $field $($value)?)),* }
    };
    (@ $variable:ident) => { $variable.clone() };
    (@ $field:ident $value:expr) => { $value };
}

/// What checks credentials. The default is that of `--auth off`.
#[derive(Default)]
pub(crate) struct Verifiers {
    pub(crate) tokens: Option<Arc<Tokens>>,
    pub(crate) api_keys: Arc<ApiKeys>,
}

/// The long-lived tasks of a gateway, and what its handlers ask.
pub struct Parts {
    pub subscriber: Subscriber,
    pub publisher: Arc<Publisher>,
    pub counts: CountsTask,
    pub recorder: CountsRecorder,
    pub flusher: Arc<Flusher>,
    pub lease: LeaseKeeper,
    pub streamer_presence: StreamerPresence,
    pub whereabouts: WhereaboutsTeller,
    pub changed_records: Arc<ChangedRecords>,
    pub upkeep: Upkeep,
    pub streamer_timeout: Arc<StreamerTimeout>,
    pub walk: Walk,
    pub app: Arc<AppState>,
}

impl Parts {
    /// `tasks` tracks what must end before the process does.
    pub(crate) fn new(
        config: &Config,
        verifiers: Verifiers,
        store: &Arc<dyn Store>,
        metrics: &Arc<Metrics>,
        tasks: &TaskTracker,
    ) -> Self {
        let Config { flush, heartbeat, timeout, lease, lease_refresh, check_every, fan_ttl, closed_ttl, .. } = config;
        let Verifiers { tokens, api_keys } = verifiers;
        metrics.store_up.set(1);
        let clock = Clock::start();
        let store_for_clients = store.clone().for_clients();

        // presence
        let rooms = Arc::new(Rooms::new(config, clock.now()));
        let gateways = Arc::new(Gateways::new(*lease, *lease_refresh));
        let checks = Arc::new(Checks::new(clock, rooms.clone(), config));
        let streamers = Arc::<Streamers>::default();
        let whereabouts = (config.track_online == Switch::On).then(Arc::<Whereabouts>::default);
        let trust = Arc::new(Trust::new(store.clone(), gateways.clone(), clock, *lease));

        // peers and dashboards
        let outbox = Arc::new(Outbox::new(gateways.clone(), metrics.clone()));
        let subscriber = share!(Subscriber { store, rooms, gateways, checks, streamers, metrics, clock });
        let publisher = Arc::new(share!(Publisher { rooms, gateways, outbox, checks, store, metrics, clock, flush }));
        let counts = share!(CountsTask { rooms, store, trust, clock, flush });

        // sync
        let lives = Arc::new(Lives::new(share!(LivesParts {
            store: store_for_clients.clone(),
            rooms,
            gateways,
            checks,
            streamers,
            outbox,
            metrics,
            clock,
            exact_viewers: config.exact_viewers == Switch::On,
            closed_ttl,
            tasks,
        })));
        let catch_up = Arc::new(share!(CatchUp { store, rooms, checks, clock }));
        let keeper = Arc::new(share!(Keeper { store, rooms, outbox, lives, catch_up, clock }));
        let sweeper = Arc::new(share!(Sweeper { rooms, gateways, store, outbox, metrics, clock, lease }));
        let checker =
            share!(Checker { rooms, gateways, store, checks, keeper, lives, sweeper, outbox, metrics, clock });
        let checker = Arc::new(checker);
        let recorder = share!(CountsRecorder { rooms, gateways, checks, store, metrics, clock });
        let streamer_timeout = Arc::new(share!(StreamerTimeout {
            streamers,
            gateways,
            store,
            lives,
            clock,
            lease,
            timeout: config.streamer_timeout,
        }));
        let fans = Arc::new(share!(FanCheck { rooms, store, metrics, clock }));
        let flusher = Arc::new(share!(Flusher {
            rooms,
            gateways,
            store,
            fans,
            keeper,
            outbox,
            metrics,
            clock,
            flush,
            lease,
            lease_refresh,
            resync_limit: ResyncLimit::default(),
        }));
        let lease_keeper = share!(LeaseKeeper {
            gateways,
            store,
            rooms,
            checks,
            streamers,
            metrics,
            clock,
            lease,
            refresh: *lease_refresh,
        });
        let streamer_presence = share!(StreamerPresence {
            streamers,
            gateways,
            rooms,
            store,
            outbox,
            clock,
            timeout,
            streamer_timeout: config.streamer_timeout,
        });
        let changed_records = Arc::new(share!(ChangedRecords { rooms, checks, lives, catch_up }));
        let upkeep =
            share!(Upkeep { rooms, gateways, checks, streamers, store, checker, metrics, clock, fans, fan_ttl });
        let whereabouts_teller = share!(WhereaboutsTeller { whereabouts, gateways, store, flush, check_every });
        let users = whereabouts.as_ref().map(|_| {
            share!(UserUpkeep {
                gateways,
                store,
                clock,
                remember: config.remember,
                ids: config.last_seen_ids,
                search: Mutex::default(),
            })
        });
        let walk = share!(Walk {
            users: users,
            attendance: share!(AttendanceUpkeep { store, clock, form: config.attendance }),
            gateways,
            streamers,
            store,
            lives,
            sweeper,
            outbox,
            streamer_timeout,
            clock,
            lease,
            lease_refresh,
            check_every,
            track_online: config.track_online,
        });

        // session
        let sessions = Arc::new(share!(SessionContext {
            rooms,
            lives,
            streamers,
            user_sockets: UserSockets::new(config.sockets_per_user),
            whereabouts,
            gateways,
            trust,
            reaper: Arc::new(Reaper::new(config, clock)),
            metrics,
            clock,
            heartbeat,
            timeout,
            flush,
            tokens,
            limits: Limits::new(config),
            draining: AtomicBool::new(false),
        }));

        // edge
        let app = Arc::new(share!(AppState {
            store,
            store_for_clients,
            snapshots: Snapshots::new(store_for_clients.clone(), clock),
            rooms,
            gateways,
            lives,
            follows: share!(Follows { store: store_for_clients.clone(), rooms, outbox }),
            info: share!(InfoWriter { store: store_for_clients.clone(), rooms, outbox, keeper }),
            removals: share!(Remover { store: store_for_clients.clone(), rooms, outbox, keeper, catch_up, metrics }),
            sessions,
            online: OnlineSettings::new(config, Arc::new(SeenUsers::new(store_for_clients.clone(), clock))),
            admission: Admission::new(config),
            browsers: Browsers::new(config),
            metrics,
            clock,
            tokens,
            api_keys,
            rate_limits: RateLimits::new(config.http_rate, metrics.clone(), clock),
        }));
        Self {
            subscriber,
            publisher,
            counts,
            recorder,
            flusher,
            lease: lease_keeper,
            streamer_presence,
            whereabouts: whereabouts_teller,
            changed_records,
            upkeep,
            streamer_timeout,
            walk,
            app,
        }
    }
}
