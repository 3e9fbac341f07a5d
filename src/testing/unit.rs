//! Helpers for unit tests of several modules: a gateway on a memory store, users, sockets and lives.

use crate::features::WholeStore;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::base::address_prefix::AddressPrefix;
use crate::base::clock::{Clock, Moment};
use crate::base::identity::{Identity, Role};
use crate::base::ids::{Epoch, LiveId, UserId};
use crate::config::Config;
use crate::edge::http::state::AppState;
use crate::gateway::wiring::{self, FromOutside, GatewayParts};
use crate::presence::Room;
use crate::presence::conn::Conn;
use crate::session::context::SessionContext;
use crate::store::memory::MemoryStore;
use crate::store::{Info, LiveRecord, LiveState, OpenedBy, Peaks, RecordEvents, Sums, Terms};
use crate::sync::lives::OpenRequest;

/// The state of the handlers of a gateway on a memory store. No task of the gateway runs, so nothing
/// would end the absence of a user who is kept online.
pub(crate) fn app() -> Arc<AppState> {
    let config = Config {
        track_online: false,
        ..Config::default()
    };
    app_on(&config, Arc::new(MemoryStore::new(Clock::start())))
}

pub(crate) fn app_on(config: &Config, store: Arc<impl WholeStore + 'static>) -> Arc<AppState> {
    app_with(config, FromOutside::default(), store)
}

pub(crate) fn app_with(
    config: &Config,
    verifiers: FromOutside,
    store: Arc<impl WholeStore + 'static>,
) -> Arc<AppState> {
    parts_with(config, verifiers, store).app
}

/// The parts of a gateway: its tasks, which do not run, and the state of its handlers.
pub(crate) fn parts_on(config: &Config, store: Arc<impl WholeStore + 'static>) -> GatewayParts {
    parts_with(config, FromOutside::default(), store)
}

/// The same with these verifiers.
pub(crate) fn parts_with(
    config: &Config,
    verifiers: FromOutside,
    store: Arc<impl WholeStore + 'static>,
) -> GatewayParts {
    let store: Arc<dyn WholeStore> = store;
    wiring::wire(
        config,
        verifiers,
        &store,
        &Arc::default(),
        &TaskTracker::new(),
    )
    .unwrap()
}

/// The state that the sessions of such a gateway share.
pub(crate) fn sessions() -> Arc<SessionContext> {
    app().sessions.clone()
}

/// A viewer who counts.
pub(crate) fn viewer(user: &str) -> Identity {
    Identity {
        user: UserId::parse(user).unwrap(),
        role: Role::Viewer,
        counted: true,
        network: AddressPrefix::default(),
    }
}

/// A socket of a viewer. The gateway heard it last at the start.
pub(crate) fn conn(user: &str) -> Arc<Conn> {
    Arc::new(Conn::new(viewer(user), Moment::START))
}

/// The record of an open live.
pub(crate) fn open_record() -> LiveRecord {
    LiveRecord {
        live: LiveId::parse("42").unwrap(),
        state: LiveState::Open,
        streamer: UserId::parse("s1").unwrap(),
        epoch: Epoch(1),
        slices: 1,
        opened_at: 0,
        opened_by: OpenedBy::Service,
        peaks: Peaks::default(),
        closure: None,
        removals: 0,
        version: 0,
        terms: Terms::default(),
        info: Info::default(),
        counted: None,
        sums: Sums::default(),
        events: RecordEvents::default(),
        stream: None,
    }
}

/// Opens a live of one slice, for the streamer `s1`.
pub(crate) async fn open_live(context: &SessionContext, live: &str) -> Arc<Room> {
    let live = LiveId::parse(live).unwrap();
    let streamer = UserId::parse("s1").unwrap();
    let wish = OpenRequest {
        live: live.clone(),
        streamer,
        slices: Some(1),
        by: OpenedBy::Service,
        terms: Terms::default(),
    };
    context.lives.open(wish).await.unwrap();
    context.core.rooms.get(&live).unwrap()
}

/// Runs a task of a feature.
pub(crate) async fn run_task_of_feature(parts: GatewayParts, name: &str, stop: CancellationToken) {
    for (known, begin) in parts.of_features {
        if known == name {
            return begin(stop).await;
        }
    }
    panic!("no feature has a task {name}");
}
