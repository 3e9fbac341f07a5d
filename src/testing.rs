//! What unit tests of several modules share: a core on a memory store, users, sockets and lives.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use crate::base::clock::Clock;
use crate::base::identity::{Identity, Role};
use crate::base::ids::{LiveId, UserId};
use crate::config::Config;
use crate::gateway::parts::Parts;
use crate::presence::Room;
use crate::presence::conn::Conn;
use crate::session::core::Core;
use crate::store::memory::MemoryStore;
use crate::store::{OpenedBy, Store};
use crate::sync::lives::OpenWish;

pub(crate) fn core() -> Arc<Core> {
    core_on(Config::default(), Arc::new(MemoryStore::new(Clock::start())))
}

pub(crate) fn core_on(config: Config, store: Arc<dyn Store>) -> Arc<Core> {
    Parts::new(config, store, Arc::default(), TaskTracker::new()).core
}

/// A viewer who counts.
pub(crate) fn viewer(user: &str) -> Identity {
    Identity { user: UserId::parse(user).unwrap(), role: Role::Viewer, counted: true }
}

/// A viewer's socket that was last heard at 0.
pub(crate) fn conn(user: &str) -> Arc<Conn> {
    Arc::new(Conn::new(viewer(user), 0))
}

/// Opens a live of one slice, for the streamer `s1`.
pub(crate) async fn open_live(core: &Core, live: &str) -> Arc<Room> {
    let live = LiveId::parse(live).unwrap();
    let streamer = UserId::parse("s1").unwrap();
    let wish = OpenWish { live: live.clone(), streamer, slices: Some(1), by: OpenedBy::Service };
    core.lives.open(wish).await.unwrap();
    core.rooms.get(&live).unwrap()
}
