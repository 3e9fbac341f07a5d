//! The embedded store: one process, nothing shared, nothing kept over a restart. The default when
//! no Redis is named, and the model that the Redis store is checked against.
//!
//! Its time is the gateway's clock plus the wall clock at construction, so it follows tokio's
//! paused time. No lock is held over an await, and no call waits for anything.

pub(crate) mod answers;
pub mod backup;
pub(crate) mod bus;
pub(crate) mod claimed_lives;
pub(crate) mod confirmed;
pub(crate) mod counts;
pub(crate) mod event_log;
pub(crate) mod events;
pub(crate) mod expiring;
pub(crate) mod follows;
pub(crate) mod graph;
pub(crate) mod last_seen;
pub(crate) mod leases;
pub(crate) mod lives;
pub(crate) mod online;
pub(crate) mod place;
pub(crate) mod records;
pub(crate) mod removals;
pub(crate) mod session_ends;
pub(crate) mod shared_secrets;
pub(crate) mod slices;
pub(crate) mod states;
pub(crate) mod stays;
pub(crate) mod streamers;
pub(crate) mod user_slice;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use parking_lot::Mutex;
use tokio::sync::watch;

use self::event_log::EventLog;
use self::expiring::Expiring;
use self::graph::Graph;
use self::place::SlicePlace;
use self::records::Records;
use self::states::States;
use self::user_slice::UserSlice;
use super::bus::Subscriptions;
use super::slice::StoredSlice;
use super::{AnswerName, EndedSession, Health, LeaseTable, Parts, Status, Store};
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
    pub(crate) clock: Clock,
    /// Unix time when `clock` stood at 0.
    pub(crate) epoch_start: UnixMillis,
    /// How far the store's clock was stepped, in ms.
    pub(crate) clock_error: AtomicI64,
    /// When a call is late that makes an entry, see [`Self::carry_out_until`].
    pub(crate) late_after: AtomicU64,
    pub(crate) lives: Mutex<Records>,
    pub(crate) slices: DashMap<SlicePlace, StoredSlice>,
    /// Closed slices in the order in which they are due to be forgotten.
    pub(crate) forgetting: Mutex<VecDeque<(UnixMillis, SlicePlace, Epoch)>>,
    pub(crate) leases: Mutex<LeaseTable>,
    /// The lives that streamers opened.
    pub(crate) claims: Mutex<HashMap<UserId, claimed_lives::ClaimedLives>>,
    pub(crate) graph: Mutex<Graph>,
    /// What features keep.
    pub(crate) states: States,
    pub(crate) answers: Mutex<Expiring<AnswerName, String>>,
    pub(crate) session_ends: Mutex<Expiring<SessionKey, EndedSession>>,
    pub(crate) secrets: Mutex<Vec<String>>,
    /// When the users of each slice were seen last.
    pub(crate) user_slices: Vec<Mutex<UserSlice>>,
    pub(crate) events: Mutex<EventLog>,
    subscriptions: Subscriptions,
    pub(crate) health: watch::Sender<Health>,
    pub(crate) parts: watch::Sender<Arc<Parts>>,
}

impl MemoryStore {
    /// An empty store whose time moves with `clock`.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            epoch_start: clock.unix().saturating_sub(clock.now().as_millis()),
            clock_error: AtomicI64::new(0),
            late_after: AtomicU64::new(UnixMillis::MAX),
            lives: Mutex::default(),
            slices: DashMap::new(),
            forgetting: Mutex::default(),
            leases: Mutex::default(),
            claims: Mutex::default(),
            graph: Mutex::default(),
            states: States::default(),
            answers: Mutex::default(),
            session_ends: Mutex::default(),
            secrets: Mutex::default(),
            user_slices: (0..USERS_SLICES).map(|_| Mutex::default()).collect(),
            events: Mutex::default(),
            subscriptions: Subscriptions::default(),
            health: watch::Sender::new(Health::Up),
            parts: watch::Sender::new(Arc::new(Parts::one(Health::Up))),
        }
    }

    /// The store's time, in Unix milliseconds. It is monotonic, unless a test steps its clock.
    pub(crate) fn now(&self) -> UnixMillis {
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

impl Store for MemoryStore {}

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
