//! Makes the parts of one gateway, the lowest layer first, and connects them. Nothing runs yet:
//! [`super::start`] runs the tasks.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use tokio_util::task::TaskTracker;

use crate::auth::api_keys::ApiKeys;
use crate::auth::presence_secret::PresenceSecret;
use crate::auth::tokens::Tokens;
use crate::base::clock::{AtomicMoment, Clock};
use crate::base::from_files::FromFiles;
use crate::base::metrics::Metrics;
use crate::config::Config;
use crate::dashboards::counts::CountsTask;
use crate::edge::admission::Admission;
use crate::edge::datagrams;
use crate::edge::http::browsers::Browsers;
use crate::edge::http::rate_limits::RateLimits;
use crate::edge::http::snapshots::Snapshots;
use crate::edge::http::state::{AppState, OnlineSettings};
use crate::edge::media::poller::{Poller, PollerParts};
use crate::edge::media::servers::MediaServers;
use crate::edge::media::setup_error::MediaSetupError;
use crate::edge::reload::Reloader;
use crate::peers::Outbox;
use crate::peers::publisher::Publisher;
use crate::peers::subscriber::Subscriber;
use crate::presence::Rooms;
use crate::presence::absent_streamers::AbsentStreamers;
use crate::presence::checks::Checks;
use crate::presence::ended_sessions::EndedSessions;
use crate::presence::erasing::ErasingUsers;
use crate::presence::gateways::Gateways;
use crate::presence::trust::Trust;
use crate::presence::user_budgets::UserBudgets;
use crate::presence::user_sockets::UserSockets;
use crate::presence::watched_streams::WatchedStreams;
use crate::session::context::SessionContext;
use crate::session::limits::Limits;
use crate::session::reaper::Reaper;
use crate::session::socketless::sessions::SocketlessSessions;
use crate::store::fans::{self, FanLookup, FanSetupError};
use crate::store::{ClaimLimits, EventAges, Store};
use crate::sync::attendance::AttendanceUpkeep;
use crate::sync::catch_up::CatchUp;
use crate::sync::changed_records::ChangedRecords;
use crate::sync::check::Checker;
use crate::sync::count::CountsRecorder;
use crate::sync::eraser::Eraser;
use crate::sync::erasure::Erasing;
use crate::sync::events::announcer::Announcer;
use crate::sync::events::api_events::ApiEvents;
use crate::sync::events::count_events::CountEvents;
use crate::sync::events::fan_events::FanEvents;
use crate::sync::events::outbox::EventOutbox;
use crate::sync::fan_asker::FanAsker;
use crate::sync::fan_check::FanCheck;
use crate::sync::flush::Flusher;
use crate::sync::follows::FollowGraph;
use crate::sync::keep::Keeper;
use crate::sync::lease::LeaseKeeper;
use crate::sync::live_changes::LiveChanger;
use crate::sync::lives::{Lives, LivesParts};
use crate::sync::pass::Passer;
use crate::sync::removals::Remover;
use crate::sync::resync_limit::ResyncLimit;
use crate::sync::room_friends::FriendsTask;
use crate::sync::seen::{self, SeenUsers};
use crate::sync::session_ends::SessionEndWriter;
use crate::sync::social::fanout::Fanout;
use crate::sync::social::feeds::Feeds;
use crate::sync::streamer_timeout::StreamerTimeout;
use crate::sync::streams::StreamKeeper;
use crate::sync::upkeep::Upkeep;
use crate::sync::user_upkeep::UserUpkeep;
use crate::sync::walk::Walk;
use crate::sync::webhooks::Endpoints;

/// Why a part cannot be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SetupError {
    /// The fan source cannot be used as it is set up.
    #[error("{0}")]
    FanSource(#[from] FanSetupError),
    /// A media server cannot be used as it is set up.
    #[error("{0}")]
    Media(#[from] MediaSetupError),
}

/// The parts that nearly all tasks share.
#[derive(Clone)]
struct Core {
    store: Arc<dyn Store>,
    rooms: Arc<Rooms>,
    gateways: Arc<Gateways>,
    checks: Arc<Checks>,
    outbox: Arc<Outbox>,
    metrics: Arc<Metrics>,
    clock: Clock,
}

impl Core {
    fn new(config: &Config, store: &Arc<dyn Store>, metrics: &Arc<Metrics>) -> Self {
        let clock = Clock::start();
        let gateways = Arc::new(Gateways::new(config.lease, config.lease_refresh));
        let rooms = Arc::new(Rooms::new(config, gateways.own.clone(), clock));
        Self {
            store: store.clone(),
            checks: Arc::new(Checks::new(clock, rooms.clone(), config)),
            rooms,
            outbox: Arc::new(Outbox::new(gateways.clone(), metrics.clone())),
            gateways,
            metrics: metrics.clone(),
            clock,
        }
    }

    fn trust(&self) -> Trust {
        Trust::new(
            self.store.clone(),
            self.gateways.clone(),
            self.checks.clone(),
            self.clock,
        )
    }

    fn subscriber(
        &self,
        absent_streamers: &Arc<AbsentStreamers>,
        ended_sessions: &Arc<EndedSessions>,
    ) -> Subscriber {
        Subscriber {
            store: self.store.clone(),
            rooms: self.rooms.clone(),
            gateways: self.gateways.clone(),
            checks: self.checks.clone(),
            absent_streamers: absent_streamers.clone(),
            ended_sessions: ended_sessions.clone(),
            metrics: self.metrics.clone(),
            clock: self.clock,
        }
    }

    fn session_ends(&self, ended: &Arc<EndedSessions>) -> SessionEndWriter {
        SessionEndWriter {
            store: self.store.clone(),
            ended: ended.clone(),
            outbox: self.outbox.clone(),
            clock: self.clock,
        }
    }

    fn publisher(&self, config: &Config) -> Publisher {
        Publisher {
            rooms: self.rooms.clone(),
            gateways: self.gateways.clone(),
            outbox: self.outbox.clone(),
            checks: self.checks.clone(),
            store: self.store.clone(),
            metrics: self.metrics.clone(),
            clock: self.clock,
            flush: config.flush,
        }
    }

    fn counts_task(&self, trust: &Arc<Trust>) -> CountsTask {
        CountsTask {
            rooms: self.rooms.clone(),
            store: self.store.clone(),
            trust: trust.clone(),
            metrics: self.metrics.clone(),
            clock: self.clock,
        }
    }

    fn fanout(&self, config: &Config, feeds: &Arc<Feeds>) -> Fanout {
        Fanout {
            store: self.store.clone(),
            feeds: feeds.clone(),
            metrics: self.metrics.clone(),
            limit: config.fanout_limit,
        }
    }

    fn erasing(&self, eraser: &Arc<Eraser>, lives: &Arc<Lives>) -> Erasing {
        Erasing {
            store: self.store.clone(),
            eraser: eraser.clone(),
            erasing: eraser.erasing.clone(),
            rooms: self.rooms.clone(),
            lives: lives.clone(),
            metrics: self.metrics.clone(),
            clock: self.clock,
        }
    }

    fn catch_up(&self) -> CatchUp {
        CatchUp {
            store: self.store.clone(),
            rooms: self.rooms.clone(),
            checks: self.checks.clone(),
            clock: self.clock,
        }
    }

    fn keeper(&self, lives: &Arc<Lives>, catch_up: &Arc<CatchUp>) -> Keeper {
        Keeper {
            store: self.store.clone(),
            rooms: self.rooms.clone(),
            outbox: self.outbox.clone(),
            lives: lives.clone(),
            catch_up: catch_up.clone(),
            clock: self.clock,
        }
    }

    fn passer(&self, config: &Config) -> Passer {
        Passer {
            rooms: self.rooms.clone(),
            gateways: self.gateways.clone(),
            store: self.store.clone(),
            outbox: self.outbox.clone(),
            metrics: self.metrics.clone(),
            clock: self.clock,
            lease: config.lease,
        }
    }

    fn checker(&self, keeper: &Arc<Keeper>, lives: &Arc<Lives>, passer: &Arc<Passer>) -> Checker {
        Checker {
            rooms: self.rooms.clone(),
            gateways: self.gateways.clone(),
            store: self.store.clone(),
            checks: self.checks.clone(),
            keeper: keeper.clone(),
            lives: lives.clone(),
            passer: passer.clone(),
            metrics: self.metrics.clone(),
            clock: self.clock,
        }
    }

    /// `None` if counts are no events.
    fn count_events(&self, config: &Config) -> Option<Arc<CountEvents>> {
        if !config.count_events {
            return None;
        }
        Some(Arc::new(CountEvents {
            store: self.store.clone(),
            kept: config.events_kept,
            clock: self.clock,
            due: Mutex::default(),
        }))
    }

    fn recorder(&self, trust: &Arc<Trust>, events: Option<Arc<CountEvents>>) -> CountsRecorder {
        CountsRecorder {
            rooms: self.rooms.clone(),
            gateways: self.gateways.clone(),
            checks: self.checks.clone(),
            store: self.store.clone(),
            trust: trust.clone(),
            metrics: self.metrics.clone(),
            clock: self.clock,
            events,
        }
    }

    fn streamer_timeout(
        &self,
        config: &Config,
        lives: &Arc<Lives>,
        absent_streamers: &Arc<AbsentStreamers>,
    ) -> StreamerTimeout {
        StreamerTimeout {
            absent_streamers: absent_streamers.clone(),
            rooms: self.rooms.clone(),
            store: self.store.clone(),
            lives: lives.clone(),
            outbox: self.outbox.clone(),
            clock: self.clock,
            lease: config.lease,
            silence: config.timeout,
            timeout: config.streamer_timeout,
        }
    }

    fn fan_check(&self, source: &Arc<dyn FanLookup>) -> FanCheck {
        FanCheck {
            rooms: self.rooms.clone(),
            source: source.clone(),
            metrics: self.metrics.clone(),
            clock: self.clock,
        }
    }

    /// `None` unless the fan source is elsewhere.
    fn fan_asker(&self, config: &Config, source: &Arc<dyn FanLookup>) -> Option<FanAsker> {
        if !config.fan_source.is_elsewhere() {
            return None;
        }
        Some(FanAsker {
            rooms: self.rooms.clone(),
            source: source.clone(),
            metrics: self.metrics.clone(),
            clock: self.clock,
            flush: config.flush,
            calls: config.fan_calls,
        })
    }

    /// `None` if fans are no events.
    fn fan_events(&self, config: &Config) -> Option<Arc<FanEvents>> {
        if !config.fan_events {
            return None;
        }
        Some(Arc::new(FanEvents::new(
            self.store.clone(),
            self.gateways.clone(),
            self.event_outbox(config),
            self.metrics.clone(),
            self.clock,
        )))
    }

    /// `None` if neither follows nor calls of the API are events.
    fn api_events(&self, config: &Config) -> Option<Arc<ApiEvents>> {
        if !config.follow_events && !config.audit_events {
            return None;
        }
        Some(Arc::new(ApiEvents::new(
            self.event_outbox(config),
            self.metrics.clone(),
            self.clock,
        )))
    }

    fn event_outbox(&self, config: &Config) -> EventOutbox {
        EventOutbox::new(
            self.store.clone(),
            self.gateways.clone(),
            config.events_kept,
        )
    }

    fn lease_keeper(
        &self,
        config: &Config,
        seen: &Arc<SeenUsers>,
        eraser: &Arc<Eraser>,
    ) -> LeaseKeeper {
        LeaseKeeper {
            gateways: self.gateways.clone(),
            store: self.store.clone(),
            rooms: self.rooms.clone(),
            checks: self.checks.clone(),
            seen: seen.clone(),
            eraser: eraser.clone(),
            metrics: self.metrics.clone(),
            clock: self.clock,
            refresh: config.lease_refresh,
        }
    }

    fn changed_records(&self, lives: &Arc<Lives>, catch_up: &Arc<CatchUp>) -> ChangedRecords {
        ChangedRecords {
            rooms: self.rooms.clone(),
            checks: self.checks.clone(),
            lives: lives.clone(),
            catch_up: catch_up.clone(),
        }
    }

    fn upkeep(
        &self,
        config: &Config,
        checker: &Arc<Checker>,
        seen: &Arc<SeenUsers>,
        fans: &Arc<FanCheck>,
    ) -> Upkeep {
        Upkeep {
            rooms: self.rooms.clone(),
            gateways: self.gateways.clone(),
            checks: self.checks.clone(),
            store: self.store.clone(),
            checker: checker.clone(),
            seen: seen.clone(),
            metrics: self.metrics.clone(),
            clock: self.clock,
            fans: fans.clone(),
            fan_ttl: config.fan_ttl,
        }
    }

    fn friends_task(
        &self,
        budgets: &Arc<UserBudgets>,
        store_for_clients: &Arc<dyn Store>,
    ) -> FriendsTask {
        FriendsTask {
            rooms: self.rooms.clone(),
            gateways: self.gateways.clone(),
            outbox: self.outbox.clone(),
            budgets: budgets.clone(),
            store: store_for_clients.clone(),
            metrics: self.metrics.clone(),
            clock: self.clock,
            doubts_from: AtomicMoment::default(),
        }
    }

    /// `None` if the gateway does not track who is online.
    fn user_upkeep(&self, config: &Config) -> Option<UserUpkeep> {
        if !config.track_online {
            return None;
        }
        Some(UserUpkeep {
            store: self.store.clone(),
            clock: self.clock,
            remember: config.remember,
            ids: config.last_seen_ids,
        })
    }

    fn attendance_upkeep(&self, config: &Config) -> AttendanceUpkeep {
        AttendanceUpkeep {
            store: self.store.clone(),
            clock: self.clock,
            form: config.attendance,
        }
    }
}

/// What comes from files: the verifiers of credentials, and the webhooks. The default is the one of
/// `--auth off`, without webhooks.
#[derive(Default)]
pub(crate) struct Verifiers {
    pub(crate) tokens: Option<Arc<Tokens>>,
    pub(crate) api_keys: Arc<ApiKeys>,
    pub(crate) presence_secret: Arc<PresenceSecret>,
    pub(crate) webhooks: Endpoints,
    /// The other parts that come from files; the reloader watches them, too.
    pub(crate) other_files: Vec<Arc<dyn FromFiles>>,
}

/// The long-lived tasks of a gateway, and the state of its handlers.
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
    pub streams: Arc<StreamKeeper>,
    /// `None` if no media server is asked.
    pub(crate) poller: Option<Poller>,
    pub walk: Walk,
    /// `None` unless the fan source is elsewhere.
    pub fan_asker: Option<FanAsker>,
    /// `None` if counts are no events.
    pub count_events: Option<Arc<CountEvents>>,
    /// `None` if fans are no events.
    pub fan_events: Option<Arc<FanEvents>>,
    /// `None` if neither follows nor calls of the API are events.
    pub api_events: Option<Arc<ApiEvents>>,
    pub fanout: Fanout,
    pub erasing: Erasing,
    pub(crate) session_ends: SessionEndWriter,
    pub app: Arc<AppState>,
}

impl Parts {
    /// `tasks` tracks the tasks that must end before the process does.
    ///
    /// # Errors
    /// The fan source or a media server is set up wrongly.
    pub(crate) fn new(
        config: &Config,
        verifiers: Verifiers,
        store: &Arc<dyn Store>,
        metrics: &Arc<Metrics>,
        tasks: &TaskTracker,
    ) -> Result<Self, SetupError> {
        metrics.store_up.set(1);
        let core = Core::new(config, store, metrics);
        let Core {
            rooms,
            gateways,
            outbox,
            clock,
            ..
        } = core.clone();
        let store_for_clients = store.clone().for_clients();

        // presence
        let absent_streamers = Arc::<AbsentStreamers>::default();
        let watched_streams = Arc::new(WatchedStreams::new(
            config.stream_grace,
            config.streamer_timeout,
        ));
        let trust = Arc::new(core.trust());

        // peers and dashboards
        let ended_sessions = Arc::<EndedSessions>::default();
        let subscriber = core.subscriber(&absent_streamers, &ended_sessions);
        let session_ends = core.session_ends(&ended_sessions);
        let publisher = Arc::new(core.publisher(config));
        let counts = core.counts_task(&trust);

        // sync
        let feeds = Arc::new(Feeds::new(store_for_clients.clone(), clock));
        let fanout = core.fanout(config, &feeds);
        let erasing_users = Arc::<ErasingUsers>::default();
        let claim_limits = config
            .opened_by_streamers()
            .map(|(open, a_day)| ClaimLimits { open, a_day });
        let lives = Arc::new(Lives::new(LivesParts {
            store: store_for_clients.clone(),
            rooms: rooms.clone(),
            gateways: gateways.clone(),
            checks: core.checks.clone(),
            absent_streamers: absent_streamers.clone(),
            watched_streams: watched_streams.clone(),
            outbox: outbox.clone(),
            feeds: feeds.clone(),
            erasing: erasing_users.clone(),
            metrics: metrics.clone(),
            clock,
            uniques: config.uniques,
            closed_ttl: config.closed_ttl,
            events_kept: config.events_kept,
            claim_limits,
            tasks: tasks.clone(),
        }));
        let streams = Arc::new(StreamKeeper::new(
            store.clone(),
            lives.clone(),
            outbox.clone(),
            watched_streams,
            clock,
            config.events_kept,
        ));
        let catch_up = Arc::new(core.catch_up());
        let keeper = Arc::new(core.keeper(&lives, &catch_up));
        let passer = Arc::new(core.passer(config));
        let checker = Arc::new(core.checker(&keeper, &lives, &passer));
        let count_events = core.count_events(config);
        let recorder = core.recorder(&trust, count_events.clone());
        let streamer_timeout = Arc::new(core.streamer_timeout(config, &lives, &absent_streamers));
        let fan_source = fans::open(config, store, metrics)?;
        let Verifiers {
            tokens,
            api_keys,
            presence_secret,
            webhooks,
            other_files: mut from_files,
        } = verifiers;
        from_files.push(api_keys.clone());
        from_files.push(presence_secret.clone());
        if let Some(tokens) = &tokens {
            from_files.push(tokens.clone());
        }
        from_files.extend(fan_source.clone().secret_file());
        for endpoint in webhooks.iter() {
            from_files.push(endpoint.clone());
        }
        let media = Arc::new(MediaServers::open(config)?);
        from_files.push(media.clone());
        let reloader = Arc::new(Reloader::new(from_files, tokens.clone(), metrics.clone()));
        let fans = Arc::new(core.fan_check(&fan_source));
        let fan_asker = core.fan_asker(config, &fan_source);
        let fan_events = core.fan_events(config);
        let api_events = core.api_events(config);
        let flusher = Arc::new(Flusher {
            rooms: rooms.clone(),
            gateways: gateways.clone(),
            store: store.clone(),
            fans: fans.clone(),
            keeper: keeper.clone(),
            outbox: outbox.clone(),
            metrics: metrics.clone(),
            clock,
            flush: config.flush,
            lease: config.lease,
            lease_refresh: config.lease_refresh,
            resync_limit: Arc::<ResyncLimit>::default(),
            passer: passer.clone(),
            streamer_timeout: streamer_timeout.clone(),
            fan_events: fan_events.clone(),
        });
        let seen = Arc::new(SeenUsers::new(
            store_for_clients.clone(),
            clock,
            seen::APART,
        ));
        let eraser = Arc::new(Eraser {
            store: store.clone(),
            store_for_clients: store_for_clients.clone(),
            erasing: erasing_users.clone(),
            rooms: rooms.clone(),
            seen: seen.clone(),
            metrics: metrics.clone(),
            clock,
            started: clock.unix(),
        });
        let erasing = core.erasing(&eraser, &lives);
        let lease_keeper = core.lease_keeper(config, &seen, &eraser);
        let changed_records = Arc::new(core.changed_records(&lives, &catch_up));
        let upkeep = core.upkeep(config, &checker, &seen, &fans);
        let budgets = Arc::new(UserBudgets::new(config.user_rate));
        let friends = core.friends_task(&budgets, &store_for_clients);
        let follows = Arc::new(FollowGraph {
            store: store_for_clients.clone(),
            rooms: rooms.clone(),
            outbox: outbox.clone(),
            feeds: feeds.clone(),
            events: api_events.clone().filter(|_| config.follow_events),
        });
        let poller = Poller::of(
            config,
            &media,
            PollerParts {
                absent_streamers: absent_streamers.clone(),
                tokens: tokens.clone(),
                store: store.clone(),
                streams: streams.clone(),
                metrics: metrics.clone(),
            },
        )?;
        let walk = Walk {
            users: core.user_upkeep(config),
            attendance: core.attendance_upkeep(config),
            gateways: gateways.clone(),
            absent_streamers: absent_streamers.clone(),
            store: store.clone(),
            lives: lives.clone(),
            rooms: rooms.clone(),
            passer,
            feeds: feeds.clone(),
            follows: follows.clone(),
            outbox: outbox.clone(),
            streamer_timeout: streamer_timeout.clone(),
            clock,
            lease: config.lease,
            lease_refresh: config.lease_refresh,
            check_every: config.check_every,
            count_events: count_events.clone(),
            events_kept: config.events_kept,
            event_ages: EventAges {
                events: config.events_max_age,
                audit: config.audit_max_age,
            },
        };

        // session
        let sessions = Arc::new(SessionContext {
            rooms: rooms.clone(),
            lives: lives.clone(),
            user_sockets: UserSockets::new(config.sockets_per_user),
            erasing: erasing_users,
            budgets,
            gateways: gateways.clone(),
            trust,
            reaper: Arc::new(Reaper::new(config, clock)),
            metrics: metrics.clone(),
            clock,
            heartbeat: config.heartbeat,
            timeout: config.timeout,
            tokens: tokens.clone(),
            limits: Limits::new(config),
            draining: AtomicBool::new(false),
        });
        let presences = Arc::new(SocketlessSessions::new(
            sessions.clone(),
            presence_secret,
            ended_sessions,
            store_for_clients.clone(),
            config.max_presences,
        ));

        // edge
        let live_changes = LiveChanger {
            store: store_for_clients.clone(),
            rooms: rooms.clone(),
            outbox: outbox.clone(),
            keeper: keeper.clone(),
            absent_streamers,
            clock,
        };
        let removals = Remover {
            store: store_for_clients.clone(),
            rooms: rooms.clone(),
            outbox,
            keeper,
            catch_up,
            announcer: Announcer::new(store_for_clients.clone(), config.events_kept),
            metrics: metrics.clone(),
        };
        let app = Arc::new(AppState {
            store: store.clone(),
            snapshots: Snapshots::new(store_for_clients.clone(), clock),
            store_for_clients,
            rooms,
            gateways,
            lives,
            feeds,
            follows,
            live_changes,
            removals,
            eraser,
            media,
            webhooks,
            audit: api_events.clone().filter(|_| config.audit_events),
            events_kept: config.events_kept,
            streams: streams.clone(),
            stream_grace: config.stream_grace,
            sessions,
            presences,
            udp_addresses: datagrams::advertised(config),
            online: OnlineSettings::new(config, seen),
            admission: Admission::new(config),
            browsers: Browsers::new(config),
            metrics: metrics.clone(),
            clock,
            tokens,
            api_keys,
            rate_limits: RateLimits::new(config.http_rate, metrics.clone(), clock),
            reloader,
        });
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
            streams,
            poller,
            walk,
            fan_asker,
            count_events,
            fan_events,
            api_events,
            fanout,
            erasing,
            session_ends,
            app,
        })
    }
}
