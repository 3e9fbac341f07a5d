//! Access to a store from outside, for tests. They inspect it, copy it, set it back to a copy,
//! write to it as another program does, and step its clock. No gateway calls this.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::Ordering;

use super::event_log::EventLog;
use super::expiring::Expiring;
use super::place::SlicePlace;
use super::records::Records;
use super::states::States;
use super::user_slice::UserSlice;
use super::{MemoryStore, claimed_lives};
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, Group, LiveId, OnlineSet, SliceId, USERS_SLICES, UserId};
use crate::base::session_key::SessionKey;
use crate::store::slice::StoredSlice;
use crate::store::{EndedSession, Event, LeaseTable, LiveRecord, Whereabouts};

/// A copy of all data of a store, except who follows whom.
#[derive(Debug)]
pub struct Backup {
    lives: Records,
    slices: Vec<(SlicePlace, StoredSlice)>,
    forgetting: VecDeque<(UnixMillis, SlicePlace, Epoch)>,
    leases: LeaseTable,
    claims: HashMap<UserId, claimed_lives::ClaimedLives>,
    states: States,
    user_slices: Vec<UserSlice>,
    events: EventLog,
    session_ends: Expiring<SessionKey, EndedSession>,
    secrets: Vec<String>,
}

impl MemoryStore {
    /// Copies all data, except who follows whom.
    pub fn back_up(&self) -> Backup {
        Backup {
            lives: self.lives.lock().clone(),
            slices: self
                .slices
                .iter()
                .map(|slice| (slice.key().clone(), slice.value().clone()))
                .collect(),
            forgetting: self.forgetting.lock().clone(),
            leases: self.leases.lock().clone(),
            claims: self.claims.lock().clone(),
            states: self.states.copied(),
            user_slices: self
                .user_slices
                .iter()
                .map(|slice| slice.lock().clone())
                .collect(),
            events: self.events.lock().clone(),
            session_ends: self.session_ends.lock().clone(),
            secrets: self.secrets.lock().clone(),
        }
    }

    /// Sets all data back to a copy, except who follows whom.
    pub fn restore(&self, backup: Backup) {
        *self.lives.lock() = backup.lives;
        self.slices.clear();
        for (place, slice) in backup.slices {
            self.slices.insert(place, slice);
        }
        *self.forgetting.lock() = backup.forgetting;
        *self.leases.lock() = backup.leases;
        *self.claims.lock() = backup.claims;
        self.states.restore(backup.states);
        for (slice, kept) in self.user_slices.iter().zip(backup.user_slices) {
            *slice.lock() = kept;
        }
        *self.events.lock() = backup.events;
        *self.session_ends.lock() = backup.session_ends;
        *self.secrets.lock() = backup.secrets;
    }

    /// Loses all data, except who follows whom.
    pub fn lose_everything(&self) {
        self.restore(Self::new(self.clock).back_up());
    }

    /// Sets one slice back to a copy; a slice that the copy does not have is lost.
    pub fn restore_slice(&self, backup: &Backup, slice: &SliceId) {
        let place = SlicePlace::from(slice);
        match backup.slices.iter().find(|(kept, _)| *kept == place) {
            Some((_, kept)) => {
                self.slices.insert(place, kept.clone());
            }
            None => {
                self.slices.remove(&place);
            }
        }
    }

    /// Loses a slice with all that belongs to it.
    pub fn lose_slice(&self, slice: &SliceId) {
        self.slices.remove(&SlicePlace::from(slice));
    }

    /// Changes a slice as another program does, if there is one.
    pub fn write_as_another_program(&self, slice: &SliceId, write: impl FnOnce(&mut StoredSlice)) {
        if let Some(mut slice) = self.slices.get_mut(&SlicePlace::from(slice)) {
            write(&mut slice);
        }
    }

    /// The time by the store's clock.
    pub fn time(&self) -> UnixMillis {
        self.now()
    }

    /// Steps the store's clock by a number of ms.
    pub fn step_clock(&self, by: i64) {
        self.clock_error.fetch_add(by, Ordering::Relaxed);
    }

    /// The users of each group of every set, over all slices. A member of two slices comes twice.
    pub fn members(&self) -> BTreeMap<(OnlineSet, Group), Vec<UserId>> {
        let mut members: BTreeMap<(OnlineSet, Group), Vec<UserId>> = BTreeMap::new();
        for slice in &self.slices {
            let set = &slice.key().set;
            for group in set.groups() {
                members
                    .entry((set.clone(), *group))
                    .or_default()
                    .extend(slice.members(*group).cloned());
            }
        }
        members
    }

    /// Every slice, with its set.
    pub fn all_slices(&self) -> Vec<(OnlineSet, StoredSlice)> {
        self.slices
            .iter()
            .map(|slice| (slice.key().set.clone(), slice.value().clone()))
            .collect()
    }

    /// Every record of a live.
    pub fn records(&self) -> BTreeMap<LiveId, LiveRecord> {
        let records = self.lives.lock();
        records
            .kept
            .iter()
            .map(|(live, kept)| (live.clone(), kept.record.clone()))
            .collect()
    }

    /// Whether the list of open lives has the live.
    pub fn is_listed(&self, live: &LiveId) -> bool {
        self.lives.lock().listed.contains(live.as_str())
    }

    /// The lives in which each user is, by the word of the gateways.
    pub fn whereabouts(&self) -> BTreeMap<UserId, Whereabouts> {
        let mut whereabouts = BTreeMap::new();
        for index in 1..=USERS_SLICES {
            self.online_slice(index, |slice| {
                for (user, lives) in slice.whereabouts() {
                    if !lives.is_empty() {
                        whereabouts.insert(user.clone(), lives);
                    }
                }
            });
        }
        whereabouts
    }

    /// Every event of the stream, the oldest first.
    pub fn stream(&self) -> Vec<Event> {
        self.events.lock().events()
    }
}
