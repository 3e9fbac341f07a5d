//! The embedded store: one process, nothing shared, nothing kept over a restart. The default when
//! no Redis is named, and the model that the Redis store is checked against.
//!
//! Its time is the gateway's clock plus the wall clock at construction, so it follows tokio's
//! paused time. No lock is held over an await, and no call waits for anything.

mod answers;
mod attendance;
mod attended;
pub mod backup;
mod bus;
mod claimed_lives;
mod counts;
mod erasure_jobs;
mod erasures;
mod event_log;
mod events;
mod expiring;
mod follows;
mod graph;
mod history;
mod last_seen;
mod leases;
mod lives;
mod online;
mod place;
mod records;
mod removals;
mod session_ends;
mod shared_secrets;
mod slices;
mod social;
mod stream_records;
mod streamers;
mod streams;
mod user_slice;
mod users;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use parking_lot::Mutex;
use tokio::sync::watch;

use self::event_log::EventLog;
use self::expiring::Expiring;
use self::graph::Graph;
use self::place::Place;
use self::records::Records;
use self::social::timelines::Feeds;
use self::user_slice::UserSlice;
use self::users::Users;
use super::bus::Subscriptions;
use super::slice::Slice;
use super::{AnswerName, EndedSession, Health, LeaseTable, LiveEpoch, Parts, Status, Store};
use crate::base::clock::{Clock, UnixMillis};
use crate::base::ids::{Epoch, USERS_SLICES, UserId};
use crate::base::session_key::SessionKey;
#[cfg(test)]
use {
    crate::base::ids::{Group, LiveId, OnlineSet},
    crate::store::LiveRecord,
    std::collections::{BTreeMap, BTreeSet},
};

/// How long a closed slice remembers that it is closed.
const KEEP_CLOSED_FENCE: Duration = Duration::from_secs(24 * 3600);

/// The embedded store.
#[derive(Debug)]
pub struct MemoryStore {
    clock: Clock,
    /// Unix time when `clock` stood at 0.
    epoch_start: UnixMillis,
    /// How far the store's clock was stepped, in ms.
    clock_error: AtomicI64,
    lives: Mutex<Records>,
    slices: DashMap<Place, Slice>,
    /// Closed slices in the order in which they are due to be forgotten.
    forgetting: Mutex<VecDeque<(UnixMillis, Place, Epoch)>>,
    leases: Mutex<LeaseTable>,
    /// The lives that streamers opened.
    claims: Mutex<HashMap<UserId, claimed_lives::ClaimedLives>>,
    graph: Mutex<Graph>,
    /// The fans of each epoch with attendance.
    attendance: Mutex<HashMap<LiveEpoch, attended::Kept>>,
    feeds: Mutex<Feeds>,
    users: Mutex<Users>,
    answers: Mutex<Expiring<AnswerName, String>>,
    session_ends: Mutex<Expiring<SessionKey, EndedSession>>,
    secrets: Mutex<Vec<String>>,
    erasures: Mutex<erasure_jobs::ErasureJobs>,
    /// When the users of each slice were seen last.
    user_slices: Vec<Mutex<UserSlice>>,
    events: Mutex<EventLog>,
    subscriptions: Subscriptions,
    health: watch::Sender<Health>,
    parts: watch::Sender<Arc<Parts>>,
}

impl MemoryStore {
    /// An empty store whose time moves with `clock`.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            epoch_start: clock.unix().saturating_sub(clock.now().as_millis()),
            clock_error: AtomicI64::new(0),
            lives: Mutex::default(),
            slices: DashMap::new(),
            forgetting: Mutex::default(),
            leases: Mutex::default(),
            claims: Mutex::default(),
            graph: Mutex::default(),
            attendance: Mutex::default(),
            feeds: Mutex::default(),
            users: Mutex::default(),
            answers: Mutex::default(),
            session_ends: Mutex::default(),
            secrets: Mutex::default(),
            erasures: Mutex::default(),
            user_slices: (0..USERS_SLICES).map(|_| Mutex::default()).collect(),
            events: Mutex::default(),
            subscriptions: Subscriptions::default(),
            health: watch::Sender::new(Health::Up),
            parts: watch::Sender::new(Arc::new(Parts::one(Health::Up))),
        }
    }

    /// The store's time, in Unix milliseconds. It is monotonic, unless a test steps its clock.
    fn now(&self) -> UnixMillis {
        (self.epoch_start + self.clock.now().as_millis())
            .saturating_add_signed(self.clock_error.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
impl MemoryStore {
    /// The record of each live, and the fans in its slices.
    pub(crate) fn contents(&self) -> BTreeMap<LiveId, (Option<LiveRecord>, BTreeSet<UserId>)> {
        let records = self.lives.lock();
        let mut contents: BTreeMap<_, (_, BTreeSet<_>)> = BTreeMap::new();
        for (live, kept) in &records.kept {
            contents.entry(live.clone()).or_default().0 = Some(kept.record.clone());
        }
        for slice in &self.slices {
            if let OnlineSet::Live(live) = &slice.key().set {
                contents
                    .entry(live.clone())
                    .or_default()
                    .1
                    .extend(slice.members_page(Group::Fans, 0).users);
            }
        }
        contents
    }
}

impl Status for MemoryStore {
    fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    fn parts(&self) -> watch::Receiver<Arc<Parts>> {
        self.parts.subscribe()
    }

    fn kind(&self) -> &'static str {
        "memory"
    }
}

impl Store for MemoryStore {
    fn for_clients(self: Arc<Self>) -> Arc<dyn Store> {
        self
    }
}
