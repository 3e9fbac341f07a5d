//! Makes the parts of one gateway, the lowest layer first, and hands each part what it needs.
//! Nothing runs yet: [`super::start`] runs the tasks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::Mutex;
use tokio_util::task::TaskTracker;

use crate::auth::api_keys::ApiKeys;
use crate::auth::tokens::Tokens;
use crate::base::clock::Clock;
use crate::base::from_files::FromFiles;
use crate::base::metrics::Metrics;
use crate::config::Config;
use crate::dashboards::counts::CountsTask;
use crate::edge::admission::Admission;
use crate::edge::http::browsers::Browsers;
use crate::edge::http::rate_limits::RateLimits;
use crate::edge::http::snapshots::Snapshots;
use crate::edge::http::state::{AppState, OnlineSettings};
use crate::edge::reload::Reloader;
use crate::peers::Outbox;
use crate::peers::publisher::Publisher;
use crate::peers::subscriber::Subscriber;
use crate::presence::Rooms;
use crate::presence::absent_streamers::AbsentStreamers;
use crate::presence::checks::Checks;
use crate::presence::gateways::Gateways;
use crate::presence::trust::Trust;
use crate::presence::user_budgets::UserBudgets;
use crate::presence::user_sockets::UserSockets;
use crate::session::context::SessionContext;
use crate::session::limits::Limits;
use crate::session::reaper::Reaper;
use crate::store::fans::{self, FanSetupError};
use crate::store::{ClaimLimits, Store};
use crate::sync::attendance::AttendanceUpkeep;
use crate::sync::catch_up::CatchUp;
use crate::sync::changed_records::ChangedRecords;
use crate::sync::check::Checker;
use crate::sync::count::CountsRecorder;
use crate::sync::events::count_events::CountEvents;
use crate::sync::events::fan_events::FanEvents;
use crate::sync::fan_asker::FanAsker;
use crate::sync::fan_check::FanCheck;
use crate::sync::fanout::Fanout;
use crate::sync::feeds::Feeds;
use crate::sync::flush::Flusher;
use crate::sync::follows::Follows;
use crate::sync::friends::FriendsTask;
use crate::sync::info::InfoWriter;
use crate::sync::keep::Keeper;
use crate::sync::lease::LeaseKeeper;
use crate::sync::lives::{Lives, LivesParts};
use crate::sync::mend::Mender;
use crate::sync::removals::Remover;
use crate::sync::resync_limit::ResyncLimit;
use crate::sync::seen::{self, SeenUsers};
use crate::sync::streamer_timeout::StreamerTimeout;
use crate::sync::sweep::Sweeper;
use crate::sync::upkeep::Upkeep;
use crate::sync::user_upkeep::UserUpkeep;
use crate::sync::walk::Walk;

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
    /// What else comes from files and is watched with them.
    pub(crate) other_files: Vec<Arc<dyn FromFiles>>,
}

/// The long-lived tasks of a gateway, and what its handlers ask.
pub struct Parts {
    pub subscriber: Subscriber,
    pub publisher: Arc<Publisher>,
    pub counts: CountsTask,
    pub recorder: CountsRecorder,
    pub flusher: Arc<Flusher>,
    pub lease: LeaseKeeper,
    pub friends: FriendsTask,
    pub changed_records: Arc<ChangedRecords>,
    pub upkeep: Upkeep,
    pub streamer_timeout: Arc<StreamerTimeout>,
    pub walk: Walk,
    /// `None` unless the fan source is elsewhere.
    pub fan_asker: Option<FanAsker>,
    /// `None` if counts are no events.
    pub count_events: Option<Arc<CountEvents>>,
    /// `None` if fans are no events.
    pub fan_events: Option<Arc<FanEvents>>,
    pub fanout: Fanout,
    pub app: Arc<AppState>,
}

impl Parts {
    /// `tasks` tracks what must end before the process does.
    ///
    /// # Errors
    /// The fan source is set up wrongly.
    pub(crate) fn new(
        config: &Config,
        verifiers: Verifiers,
        store: &Arc<dyn Store>,
        metrics: &Arc<Metrics>,
        tasks: &TaskTracker,
    ) -> Result<Self, FanSetupError> {
        let Config {
            flush,
            heartbeat,
            timeout,
            lease,
            lease_refresh,
            check_every,
            fan_ttl,
            closed_ttl,
            ..
        } = config;
        let events_kept = &config.events_kept;
        let Verifiers {
            tokens,
            api_keys,
            other_files: mut from_files,
        } = verifiers;
        metrics.store_up.set(1);
        let clock = Clock::start();
        let store_for_clients = store.clone().for_clients();

        // presence
        let gateways = Arc::new(Gateways::new(*lease, *lease_refresh));
        let rooms = Arc::new(Rooms::new(config, gateways.own.clone(), clock.now()));
        let checks = Arc::new(Checks::new(clock, rooms.clone(), config));
        let absent_streamers = Arc::<AbsentStreamers>::default();
        let trust = Arc::new(Trust::new(
            store.clone(),
            gateways.clone(),
            checks.clone(),
            clock,
        ));

        // peers and dashboards
        let outbox = Arc::new(Outbox::new(gateways.clone(), metrics.clone()));
        let subscriber = share!(Subscriber {
            store,
            rooms,
            gateways,
            checks,
            absent_streamers,
            metrics,
            clock
        });
        let publisher = Arc::new(share!(Publisher {
            rooms,
            gateways,
            outbox,
            checks,
            store,
            metrics,
            clock,
            flush
        }));
        let counts = share!(CountsTask {
            rooms,
            store,
            trust,
            metrics,
            clock
        });

        // sync
        let feeds = Arc::new(Feeds::new(store_for_clients.clone(), clock));
        let fanout = share!(Fanout {
            store,
            feeds,
            metrics,
            limit: config.fanout_limit
        });
        let lives = Arc::new(Lives::new(share!(LivesParts {
            store: store_for_clients.clone(),
            rooms,
            gateways,
            checks,
            absent_streamers,
            outbox,
            feeds,
            metrics,
            clock,
            uniques: config.uniques,
            closed_ttl,
            events_kept,
            claim_limits: config
                .opened_by_streamers()
                .map(|(open, a_day)| ClaimLimits { open, a_day }),
            tasks,
        })));
        let catch_up = Arc::new(share!(CatchUp {
            store,
            rooms,
            checks,
            clock
        }));
        let keeper = Arc::new(share!(Keeper {
            store,
            rooms,
            outbox,
            lives,
            catch_up,
            clock
        }));
        let sweeper = Arc::new(share!(Sweeper {
            rooms,
            gateways,
            store,
            outbox,
            metrics,
            clock,
            lease
        }));
        let mender = Arc::new(share!(Mender {
            gateways,
            store,
            sweeper,
            metrics
        }));
        let checker = Arc::new(share!(Checker {
            rooms,
            gateways,
            store,
            checks,
            keeper,
            lives,
            sweeper,
            mender,
            outbox,
            metrics,
            clock,
        }));
        let count_events = config.count_events.then(|| {
            Arc::new(share!(CountEvents {
                store,
                kept: *events_kept,
                clock,
                due: Mutex::default()
            }))
        });
        let recorder = share!(CountsRecorder {
            rooms,
            gateways,
            checks,
            store,
            trust,
            metrics,
            clock,
            events: count_events.clone(),
        });
        let streamer_timeout = Arc::new(share!(StreamerTimeout {
            absent_streamers,
            rooms,
            store,
            lives,
            outbox,
            clock,
            lease,
            silence: *timeout,
            timeout: config.streamer_timeout,
        }));
        let fan_source = fans::open(config, store, metrics)?;
        from_files.push(api_keys.clone());
        if let Some(tokens) = &tokens {
            from_files.push(tokens.clone());
        }
        from_files.extend(fan_source.clone().secret_file());
        let reloader = Arc::new(Reloader::new(from_files, tokens.clone(), metrics.clone()));
        let fans = Arc::new(share!(FanCheck {
            rooms,
            source: fan_source.clone(),
            metrics,
            clock
        }));
        let fan_asker = config.fan_source.is_elsewhere().then(|| {
            let (source, calls) = (fan_source.clone(), config.fan_calls);
            share!(FanAsker {
                rooms,
                source: source,
                metrics,
                clock,
                flush,
                calls: calls
            })
        });
        let resync_limit = Arc::<ResyncLimit>::default();
        let fan_events = config.fan_events.then(|| {
            let parts = (store.clone(), gateways.clone(), metrics.clone());
            Arc::new(FanEvents::new(
                parts.0,
                parts.1,
                parts.2,
                clock,
                *events_kept,
            ))
        });
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
            resync_limit,
            mender,
            streamer_timeout,
            fan_events,
        }));
        let seen = Arc::new(SeenUsers::new(
            store_for_clients.clone(),
            clock,
            seen::APART,
        ));
        let lease_keeper = share!(LeaseKeeper {
            gateways,
            store,
            rooms,
            checks,
            seen,
            metrics,
            clock,
            refresh: *lease_refresh
        });
        let changed_records = Arc::new(share!(ChangedRecords {
            rooms,
            checks,
            lives,
            catch_up
        }));
        let upkeep = share!(Upkeep {
            rooms,
            gateways,
            checks,
            store,
            checker,
            seen,
            metrics,
            clock,
            fans,
            fan_ttl
        });
        let budgets = Arc::new(UserBudgets::new(config.user_rate));
        let friends = share!(FriendsTask {
            rooms,
            gateways,
            outbox,
            budgets,
            store: store_for_clients.clone(),
            metrics,
            clock,
            doubts_from: AtomicU64::new(0),
        });
        let users = config.track_online.then(|| {
            share!(UserUpkeep {
                store,
                clock,
                remember: config.remember,
                ids: config.last_seen_ids
            })
        });
        let follows = Arc::new(share!(Follows {
            store: store_for_clients.clone(),
            rooms,
            outbox,
            feeds
        }));
        let walk = share!(Walk {
            users: users,
            attendance: share!(AttendanceUpkeep {
                store,
                clock,
                form: config.attendance
            }),
            gateways,
            absent_streamers,
            store,
            lives,
            sweeper,
            mender,
            feeds,
            follows,
            outbox,
            checks,
            streamer_timeout,
            clock,
            lease,
            lease_refresh,
            check_every,
            count_events,
            events_kept,
        });

        // session
        let sessions = Arc::new(share!(SessionContext {
            rooms,
            lives,
            user_sockets: UserSockets::new(config.sockets_per_user),
            budgets,
            gateways,
            trust,
            reaper: Arc::new(Reaper::new(config, clock)),
            metrics,
            clock,
            heartbeat,
            timeout,
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
            feeds,
            follows,
            info: share!(InfoWriter {
                store: store_for_clients.clone(),
                rooms,
                outbox,
                keeper
            }),
            removals: share!(Remover {
                store: store_for_clients.clone(),
                rooms,
                outbox,
                keeper,
                catch_up,
                metrics,
                events_kept,
            }),
            sessions,
            online: OnlineSettings::new(config, seen),
            admission: Admission::new(config),
            browsers: Browsers::new(config),
            metrics,
            clock,
            tokens,
            api_keys,
            rate_limits: RateLimits::new(config.http_rate, metrics.clone(), clock),
            reloader,
        }));
        Ok(Self {
            subscriber,
            publisher,
            counts,
            recorder,
            flusher,
            lease: lease_keeper,
            friends,
            changed_records,
            upkeep,
            streamer_timeout,
            walk,
            fan_asker,
            count_events,
            fan_events,
            fanout,
            app,
        })
    }
}
