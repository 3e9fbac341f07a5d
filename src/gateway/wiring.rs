//! Makes the parts of one gateway, the lowest layer first, and connects them. Nothing runs yet:
//! [`super::start`] runs the tasks.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use tokio_util::task::TaskTracker;

use crate::auth::api_keys::ApiKeys;
use crate::auth::presence_secret::PresenceSecret;
use crate::auth::tokens::Tokens;
use crate::base::from_files::FromFiles;
use crate::base::metrics::Metrics;
use crate::config::Config;
use crate::dashboards::counts::CountsTask;
use crate::edge::admission::Admission;
use crate::edge::http::browsers::Browsers;
use crate::edge::http::rate_limits::RateLimits;
use crate::edge::http::routes::AddedRoutes;
use crate::edge::http::snapshots::Snapshots;
use crate::edge::http::state::{AppState, OnlineSettings};
use crate::edge::reload::Reloader;
use crate::features::wired::{Added, CoreParts, SetupError, Tasks};
use crate::features::{self, Opened, WholeStore};
use crate::peers::core::Core;
use crate::peers::publisher::Publisher;
use crate::peers::subscriber::Subscriber;
use crate::presence::ended_sessions::EndedSessions;
use crate::presence::trust::Trust;
use crate::presence::user_budgets::UserBudgets;
use crate::presence::user_sockets::UserSockets;
use crate::session::context::SessionContext;
use crate::session::limits::SessionLimits;
use crate::session::reaper::Reaper;
use crate::session::socketless::sessions::SocketlessSessions;
use crate::store::ClaimLimits;
use crate::sync::catch_up::CatchUp;
use crate::sync::changed_records::ChangedRecords;
use crate::sync::check::Checker;
use crate::sync::count::CountsRecorder;
use crate::sync::events::announcer::Announcer;
use crate::sync::events::api_events::ApiEvents;
use crate::sync::events::count_events::CountEvents;
use crate::sync::events::fan_events::FanEvents;
use crate::sync::events::queue::EventQueue;
use crate::sync::fan_check::FanCheck;
use crate::sync::features::Features;
use crate::sync::flush::Flusher;
use crate::sync::follows::FollowGraph;
use crate::sync::keep::Keeper;
use crate::sync::lease::LeaseKeeper;
use crate::sync::live_changes::LiveChanger;
use crate::sync::lives::{Lives, LivesParts};
use crate::sync::pass::Passer;
use crate::sync::removals::Remover;
use crate::sync::resync_limit::ResyncLimit;
use crate::sync::seen::{self, SeenUsers};
use crate::sync::session_ends::SessionEndWriter;
use crate::sync::streamer_timeout::StreamerTimeout;
use crate::sync::upkeep::Upkeep;
use crate::sync::user_upkeep::UserUpkeep;
use crate::sync::walk::Walk;

/// What was opened before the parts are made: the verifiers of credentials, and what features open.
/// The default is the one of `--auth off`, without what features open.
#[derive(Default)]
pub(crate) struct FromOutside {
    pub(crate) tokens: Option<Arc<Tokens>>,
    pub(crate) api_keys: Arc<ApiKeys>,
    pub(crate) presence_secret: Arc<PresenceSecret>,
    pub(crate) of_features: Opened,
    /// The other parts that come from files; the reloader watches them, too.
    pub(crate) other_files: Vec<Arc<dyn FromFiles>>,
}

/// The long-lived tasks of a gateway, and the state of its handlers.
pub(crate) struct GatewayParts {
    pub(crate) app: Arc<AppState>,
    pub(crate) subscriber: Subscriber,
    pub(crate) publisher: Arc<Publisher>,
    pub(crate) counts: CountsTask,
    pub(crate) recorder: CountsRecorder,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) session_ends: SessionEndWriter,
    pub(crate) lease: LeaseKeeper,
    pub(crate) changed_records: Arc<ChangedRecords>,
    pub(crate) upkeep: Upkeep,
    pub(crate) walk: Walk,
    pub(crate) streamer_timeout: Arc<StreamerTimeout>,
    /// `None` if counts are no events.
    pub(crate) count_events: Option<Arc<CountEvents>>,
    /// `None` if fans are no events.
    pub(crate) fan_events: Option<Arc<FanEvents>>,
    /// `None` if neither follows nor calls of the API are events.
    pub(crate) api_events: Arc<ApiEvents>,
    pub(crate) of_features: Tasks,
    /// They stop with the listener.
    pub(crate) intake_of_features: Tasks,
}

/// Makes the parts. `trackers` tracks the tasks that must end before
/// the process does.
///
/// # Errors
/// A feature is set up wrongly.
pub(crate) fn wire(
    config: &Config,
    from_outside: FromOutside,
    store: &Arc<dyn WholeStore>,
    metrics: &Arc<Metrics>,
    trackers: &TaskTracker,
) -> Result<GatewayParts, SetupError> {
    metrics.store_up.set(1);
    let clients = store.clone().for_clients();
    let core = Arc::new(Core::new(config, store.clone(), clients.clone(), metrics));
    let FromOutside {
        tokens,
        api_keys,
        presence_secret,
        of_features,
        other_files: mut files,
    } = from_outside;
    files.push(api_keys.clone());
    files.push(presence_secret.clone());
    if let Some(tokens) = &tokens {
        files.push(tokens.clone());
    }

    // features, to be told what happens
    let seen = Arc::new(SeenUsers::new(clients.clone(), core.clock, seen::APART));
    let fan_source = features::fan_source(config, &core.store, metrics)?;
    let wired = features::all(&core, store, &clients, &seen, &fan_source, of_features);
    let features: Features = wired
        .iter()
        .filter_map(|wired| wired.feature.clone())
        .collect();

    // events
    let queue = || {
        EventQueue::new(
            core.store.clone(),
            core.gateways.clone(),
            config.events_kept,
        )
    };
    let count_events = config.count_events.then(|| {
        Arc::new(CountEvents {
            core: core.clone(),
            due: Mutex::default(),
        })
    });
    let fan_events = config
        .fan_events
        .then(|| Arc::new(FanEvents::new(core.clone(), queue())));
    let api_events = Arc::new(ApiEvents::new(core.clone(), queue()));

    // lives
    let lives = Arc::new(Lives::new(LivesParts {
        core: core.clone(),
        features: features.clone(),
        claim_limits: config
            .opened_by_streamers()
            .map(|(open, a_day)| ClaimLimits { open, a_day }),
        tasks: trackers.clone(),
    }));
    let catch_up = Arc::new(CatchUp { core: core.clone() });
    let keeper = Arc::new(Keeper {
        core: core.clone(),
        lives: lives.clone(),
        catch_up: catch_up.clone(),
        features: features.clone(),
    });
    let streamer_timeout = Arc::new(StreamerTimeout {
        core: core.clone(),
        lives: lives.clone(),
    });
    let follows = Arc::new(FollowGraph {
        core: core.clone(),
        features: features.clone(),
        events: config.follow_events.then(|| api_events.clone()),
    });

    // the sets in the store
    let passer = Arc::new(Passer { core: core.clone() });
    let checker = Arc::new(Checker {
        core: core.clone(),
        keeper: keeper.clone(),
        lives: lives.clone(),
        passer: passer.clone(),
    });
    let fans = Arc::new(FanCheck {
        core: core.clone(),
        source: fan_source,
    });
    let trust = Arc::new(Trust::new(
        core.store.clone(),
        core.gateways.clone(),
        core.checks.clone(),
        core.clock,
    ));
    let ended = Arc::<EndedSessions>::default();

    // sessions
    let sessions = Arc::new(SessionContext {
        core: core.clone(),
        lives: lives.clone(),
        user_sockets: UserSockets::new(config.sockets_per_user),
        budgets: Arc::new(UserBudgets::new(config.user_rate)),
        trust: trust.clone(),
        reaper: Arc::new(Reaper::new(config, core.clock)),
        tokens: tokens.clone(),
        limits: SessionLimits::new(config),
        draining: AtomicBool::new(false),
    });
    let presences = Arc::new(SocketlessSessions::new(
        sessions.clone(),
        presence_secret,
        ended.clone(),
        core.store_for_clients.clone(),
        config.max_presences,
    ));

    // what features add
    let host = CoreParts {
        core: core.clone(),
        lives: lives.clone(),
        sessions: sessions.clone(),
        features: features.clone(),
        tokens: tokens.clone(),
        events: api_events.clone(),
    };
    let mut added = Added::default();
    for wired in wired {
        (wired.join)(&host, &mut added)?;
    }
    let routes = std::mem::take(&mut added.routes);
    added.part(AddedRoutes(routes.into()));
    files.extend(added.files);

    // edge
    let app = AppState {
        snapshots: Snapshots::new(core.store_for_clients.clone(), core.clock),
        lives: lives.clone(),
        features: features.clone(),
        follows: follows.clone(),
        live_changes: LiveChanger {
            core: core.clone(),
            keeper: keeper.clone(),
        },
        removals: Remover {
            core: core.clone(),
            keeper: keeper.clone(),
            catch_up: catch_up.clone(),
            announcer: Announcer::new(core.store_for_clients.clone(), config.events_kept),
        },
        audit: config.audit_events.then(|| api_events.clone()),
        sessions,
        presences,
        udp_addresses: added.udp_addresses,
        online: OnlineSettings::new(config, seen.clone()),
        admission: Admission::new(config),
        browsers: Browsers::new(config),
        reloader: Arc::new(Reloader::new(files, tokens.clone(), metrics.clone())),
        tokens,
        api_keys,
        rate_limits: RateLimits::new(config.http_rate, metrics.clone(), core.clock),
        guests: config
            .guests
            .then(|| RateLimits::new(config.guest_rate, metrics.clone(), core.clock)),
        parts: added.parts,
        core: core.clone(),
    };
    let app = Arc::new(app);
    let mut intake_of_features = Vec::new();
    for make in added.intake {
        intake_of_features.extend(make(&app, trackers));
    }
    Ok(GatewayParts {
        app,
        subscriber: Subscriber {
            core: core.clone(),
            ended_sessions: ended.clone(),
        },
        publisher: Arc::new(Publisher { core: core.clone() }),
        counts: CountsTask {
            core: core.clone(),
            trust: trust.clone(),
        },
        recorder: CountsRecorder {
            core: core.clone(),
            trust,
            events: count_events.clone(),
        },
        flusher: Arc::new(Flusher {
            core: core.clone(),
            fans: fans.clone(),
            keeper: keeper.clone(),
            resync_limit: Arc::<ResyncLimit>::default(),
            passer: passer.clone(),
            features: features.clone(),
            streamer_timeout: streamer_timeout.clone(),
            fan_events: fan_events.clone(),
        }),
        session_ends: SessionEndWriter {
            core: core.clone(),
            ended,
        },
        lease: LeaseKeeper {
            core: core.clone(),
            seen: seen.clone(),
            features: features.clone(),
        },
        changed_records: Arc::new(ChangedRecords {
            core: core.clone(),
            lives: lives.clone(),
            catch_up: catch_up.clone(),
        }),
        upkeep: Upkeep {
            core: core.clone(),
            checker,
            seen: seen.clone(),
            fans,
        },
        walk: Walk {
            core: core.clone(),
            lives: lives.clone(),
            passer,
            features,
            follows: follows.clone(),
            streamer_timeout: streamer_timeout.clone(),
            users: config
                .track_online
                .then(|| UserUpkeep { core: core.clone() }),
            count_events: count_events.clone(),
        },
        streamer_timeout,
        count_events,
        fan_events,
        api_events: api_events.clone(),
        of_features: added.tasks,
        intake_of_features,
    })
}
