//! The calls on slices of the embedded store, and when it forgets closed ones. The slices
//! themselves are the model, [`crate::store::slice`]. A call that needs both a slice of the users
//! online and the times when its users were seen locks the times first, so that no two calls wait
//! for each other.

use std::iter;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;

use super::confirmed::ConfirmedUsers;
use super::place::SlicePlace;
use super::{KEEP_CLOSED_FENCE, MemoryStore};
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{Epoch, GatewayId, Group, OnlineSet, SliceId, UserId};
use crate::store::slice::StoredSlice;
use crate::store::{
    Apply, ApplyReply, ClaimsPage, Entries, Fence, MemberPage, Pass, Passed, SliceLook,
    SliceTotals, Slices, StoreResult,
};

impl MemoryStore {
    pub(crate) fn read<T>(&self, slice: &SliceId, read: impl FnOnce(&StoredSlice) -> T) -> T {
        match self.slices.get(&SlicePlace::from(slice)) {
            Some(found) => read(&found),
            None => read(&StoredSlice::default()),
        }
    }

    /// Changes a slice. A slice that is unused afterwards is not kept.
    ///
    /// In the set of the users of the platform, the times when users were seen last change in the
    /// same step: that of a user who left is noted, and those of `present` go.
    fn change<'a, T>(
        &self,
        slice: &SliceId,
        present: impl Iterator<Item = &'a UserId>,
        change: impl FnOnce(&mut StoredSlice) -> T,
    ) -> T {
        let place = SlicePlace::from(slice);
        let mut seen = if slice.set == OnlineSet::Users {
            Some(self.user_slice(slice.index))
        } else {
            None
        };
        let mut found = self.slices.entry(place.clone()).or_default();
        let changed = change(&mut found);
        let departed = found.take_departed();
        if let Some(seen) = &mut seen {
            for (user, at) in &departed {
                seen.note(user, *at, Duration::ZERO);
            }
            for user in present.filter(|user| found.contains(Group::All, user)) {
                seen.forget(user);
            }
        }
        if slice.set.live().is_some() && !departed.is_empty() {
            self.states
                .lock::<ConfirmedUsers>()
                .left(&place, departed.iter().map(|(user, _)| user));
        }
        let is_unused = found.is_unused();
        drop(found);
        if is_unused {
            self.slices.remove_if(&place, |_, slice| slice.is_unused());
        }
        changed
    }

    /// Carries out a call that was delayed: if it makes an entry, it is late after `late_after`, by
    /// the store's clock. No other call may run meanwhile, so this is for simulations.
    pub fn carry_out_until<T>(&self, late_after: UnixMillis, call: impl FnOnce(&Self) -> T) -> T {
        self.late_after.store(late_after, Ordering::Relaxed);
        let answer = call(self);
        self.late_after.store(UnixMillis::MAX, Ordering::Relaxed);
        answer
    }

    /// Drops a slice that is closed in this epoch and keeps no sessions.
    pub(crate) fn drop_if_over(&self, place: &SlicePlace, epoch: Epoch) {
        self.slices.remove_if(place, |_, slice| {
            slice.fence() == Some(Fence::Closed(epoch)) && !slice.has_stays()
        });
    }

    /// Queues a closed slice to be forgotten, and drops the slices that are due. Each close drops
    /// at most two others.
    fn forget_later(&self, place: SlicePlace, epoch: Epoch) {
        let now = self.now();
        let mut due = Vec::new();
        let mut line = self.forgetting.lock();
        line.push_back((now + millis(KEEP_CLOSED_FENCE), place, epoch));
        while due.len() < 2 && line.front().is_some_and(|(at, ..)| *at <= now) {
            due.extend(line.pop_front());
        }
        drop(line);
        for (_, place, epoch) in due {
            self.drop_if_over(&place, epoch);
        }
    }
}

#[async_trait]
impl Slices for MemoryStore {
    async fn apply(&self, call: &Apply) -> StoreResult<ApplyReply> {
        let late_after = self.late_after.load(Ordering::Relaxed);
        Ok(self.change(&call.slice, call.present(), |slice| {
            slice.apply(call, late_after, self.now())
        }))
    }

    async fn look(
        &self,
        slices: &[SliceId],
        gateway: &GatewayId,
        entries: Entries,
    ) -> Vec<StoreResult<SliceLook>> {
        slices
            .iter()
            .map(|slice| Ok(self.read(slice, |slice| slice.look(gateway, entries))))
            .collect()
    }

    async fn pass(&self, pass: &Pass) -> StoreResult<Option<Passed>> {
        Ok(self.change(&pass.slice, iter::empty(), |slice| {
            slice.pass(pass, self.now())
        }))
    }

    async fn close_slice(&self, slice: &SliceId, epoch: Epoch) -> StoreResult<SliceTotals> {
        let place = SlicePlace::from(slice);
        self.states.lock::<ConfirmedUsers>().close(&place, epoch);
        let (totals, moved) = self.slices.entry(place.clone()).or_default().close(epoch);
        if moved {
            self.forget_later(place, epoch);
        }
        Ok(totals)
    }

    async fn claims_page(&self, slice: &SliceId, cursor: u64) -> StoreResult<ClaimsPage> {
        Ok(self.read(slice, |slice| slice.claims_page(cursor)))
    }

    async fn members_page(
        &self,
        slice: &SliceId,
        group: Group,
        cursor: u64,
    ) -> StoreResult<MemberPage> {
        Ok(self.read(slice, |slice| slice.members_page(group, cursor)))
    }

    async fn is_member(&self, slice: &SliceId, group: Group, user: &UserId) -> StoreResult<bool> {
        Ok(self.read(slice, |slice| slice.contains(group, user)))
    }

    async fn are_members(
        &self,
        slice: &SliceId,
        group: Group,
        users: &[UserId],
    ) -> StoreResult<Vec<bool>> {
        Ok(self.read(slice, |slice| {
            users
                .iter()
                .map(|user| slice.contains(group, user))
                .collect()
        }))
    }

    async fn since_of(
        &self,
        slice: &SliceId,
        users: &[UserId],
    ) -> StoreResult<Vec<Option<UnixMillis>>> {
        Ok(self.read(slice, |slice| {
            users.iter().map(|user| slice.since(user)).collect()
        }))
    }
}
