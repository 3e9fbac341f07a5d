//! The confirmed viewers of the embedded store. A viewer who leaves is taken out in the same step.

use std::collections::HashMap;

use super::place::SlicePlace;
use super::states::{State, StateErasure};
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, UserId};

/// When each viewer was confirmed last, by slice.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConfirmedUsers(HashMap<SlicePlace, (Epoch, HashMap<UserId, UnixMillis>)>);

impl ConfirmedUsers {
    /// Confirms viewers of an epoch, and forgets those who were confirmed at `until` or earlier.
    /// Answers how many there are then.
    pub(crate) fn confirm(
        &mut self,
        place: &SlicePlace,
        epoch: Epoch,
        users: Vec<UserId>,
        now: UnixMillis,
        until: UnixMillis,
    ) -> u64 {
        if users.is_empty() && !self.0.contains_key(place) {
            return 0;
        }
        let (there, confirmed) = self.0.entry(place.clone()).or_default();
        if *there != epoch {
            *there = epoch;
            confirmed.clear();
        }
        confirmed.extend(users.into_iter().map(|user| (user, now)));
        confirmed.retain(|_, at| *at > until);
        let count = confirmed.len() as u64;
        if count == 0 {
            self.0.remove(place);
        }
        count
    }

    pub(crate) fn left<'a>(&mut self, place: &SlicePlace, users: impl Iterator<Item = &'a UserId>) {
        if let Some((_, confirmed)) = self.0.get_mut(place) {
            for user in users {
                confirmed.remove(user);
            }
        }
    }

    /// Forgets a slice that is closed in this epoch.
    pub(crate) fn close(&mut self, place: &SlicePlace, epoch: Epoch) {
        if self.0.get(place).is_some_and(|(there, _)| *there == epoch) {
            self.0.remove(place);
        }
    }
}

impl State for ConfirmedUsers {
    fn erase(&mut self, erasure: &mut StateErasure<'_>) {
        for (_, confirmed) in self.0.values_mut() {
            confirmed.remove(erasure.user);
        }
    }
}
