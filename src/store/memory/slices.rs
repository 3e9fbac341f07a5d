//! The calls on slices of the embedded store, and when it forgets closed ones. The slices
//! themselves are the model, [`crate::store::slice`]. A call that needs both a slice of the users
//! online and the times when its users were seen locks the times first, so that no two calls wait
//! for each other.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;

use super::place::Place;
use super::{KEEP_CLOSED_FENCE, MemoryStore};
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{Epoch, GatewayId, Group, OnlineSet, SliceId, UserId};
use crate::store::slice::Slice;
use crate::store::{
    Apply, ApplyReply, Compared, DroppedNotes, Fence, HeldFrom, HeldPage, Holders, MemberPage,
    PutBackPage, Settled, SliceReading, SliceSize, SliceSurvey, SliceTotals, Slices, StoreResult,
    Strays, StraysPage, Surplus, Swept,
};

impl MemoryStore {
    pub(super) fn read<T>(&self, slice: &SliceId, read: impl FnOnce(&Slice) -> T) -> T {
        match self.slices.get(&Place::from(slice)) {
            Some(found) => read(&found),
            None => read(&Slice::default()),
        }
    }

    pub(super) fn reading(&self, slice: &SliceId, gateway: &GatewayId) -> SliceReading {
        self.read(slice, |found| SliceReading {
            noted: found.noted(&slice.set),
            ..found.read(gateway)
        })
    }

    fn surveyed(&self, slice: &SliceId) -> SliceSurvey {
        self.read(slice, |found| SliceSurvey {
            noted: found.noted(&slice.set),
            ..found.survey()
        })
    }

    /// Changes a slice. A slice that is unused afterwards is not kept.
    ///
    /// In the set of the users of the platform, the times when users were seen last change in the
    /// same step, for the users whom `concerned` names: a user who left was seen at `left`, and the
    /// time of a user who came goes.
    fn change<T>(
        &self,
        slice: &SliceId,
        concerned: impl FnOnce(&Slice) -> Vec<UserId>,
        left: impl Fn(&UserId) -> UnixMillis,
        change: impl FnOnce(&mut Slice) -> T,
    ) -> T {
        let place = Place::from(slice);
        let mut known = if slice.set == OnlineSet::Users {
            Some(self.user_slice(slice.index))
        } else {
            None
        };
        let mut found = self.slices.entry(place.clone()).or_default();
        let mut before: Vec<(UserId, bool)> = Vec::new();
        if known.is_some() {
            for user in concerned(&found) {
                let was_here = found.contains(Group::All, &user);
                before.push((user, was_here));
            }
        }
        let changed = change(&mut found);
        if let Some(known) = &mut known {
            for (user, was_here) in &before {
                let is_here = found.contains(Group::All, user);
                if !was_here && is_here {
                    known.forget(user);
                } else if *was_here && !is_here {
                    known.note(user, left(user), Duration::ZERO);
                }
            }
        }
        let unused = found.fence().is_none();
        drop(found);
        if unused {
            self.slices
                .remove_if(&place, |_, slice| slice.fence().is_none());
        }
        changed
    }

    /// Carries a call out. A call that makes an entry is late after `not_after`, by the store's
    /// clock.
    pub fn apply_until(&self, call: &Apply, not_after: UnixMillis) -> ApplyReply {
        let now = self.now();
        let left: HashMap<_, _> = call.times_left().collect();
        self.change(
            &call.slice,
            |_| call.present().chain(&call.leaves).cloned().collect(),
            |user| left.get(user).copied().unwrap_or(now),
            |slice| slice.apply(call, not_after, now),
        )
    }

    /// Changes a slice, but no times when users were seen.
    fn repair<T>(&self, slice: &SliceId, repair: impl FnOnce(&mut Slice) -> T) -> T {
        self.change(slice, |_| Vec::new(), |_| 0, repair)
    }

    /// Drops a slice that is closed in this epoch and keeps no sessions.
    pub(super) fn drop_if_over(&self, place: &Place, epoch: Epoch) {
        self.slices.remove_if(place, |_, slice| {
            slice.fence() == Some(Fence::Closed(epoch)) && !slice.has_stays()
        });
    }

    /// Queues a closed slice to be forgotten, and drops the slices that are due. Each close drops
    /// at most two others.
    fn forget_later(&self, place: Place, epoch: Epoch) {
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
        // No call is delayed here, so none is late.
        Ok(self.apply_until(call, UnixMillis::MAX))
    }

    async fn read_slice(&self, slice: &SliceId, gateway: &GatewayId) -> StoreResult<SliceReading> {
        Ok(self.reading(slice, gateway))
    }

    async fn survey(&self, slices: &[SliceId]) -> Vec<StoreResult<SliceSurvey>> {
        slices
            .iter()
            .map(|slice| Ok(self.surveyed(slice)))
            .collect()
    }

    async fn sweep(
        &self,
        slice: &SliceId,
        gateway: &GatewayId,
        most: usize,
        last_heard: UnixMillis,
    ) -> StoreResult<Swept> {
        let now = self.now();
        Ok(self.change(
            slice,
            |slice| slice.held(Group::All, gateway).cloned().collect(),
            |_| last_heard,
            |slice| slice.sweep(gateway, most, last_heard, now),
        ))
    }

    async fn differ_from_held(&self, slices: &[Holders]) -> Vec<StoreResult<bool>> {
        let mut answers = Vec::with_capacity(slices.len());
        for held in slices {
            let differs = self.read(&held.slice, |slice| slice.differs_from_held(&held.gateways));
            answers.push(Ok(differs));
        }
        answers
    }

    async fn strays(
        &self,
        slice: &SliceId,
        group: Group,
        cursor: u64,
        most: usize,
        strays: Strays,
    ) -> StoreResult<StraysPage> {
        let now = self.now();
        Ok(self.change(
            slice,
            |slice| slice.members(Group::All).cloned().collect(),
            |_| now,
            |slice| slice.strays(group, cursor, most, strays, now),
        ))
    }

    async fn compare(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        known: SliceSize,
    ) -> StoreResult<Option<Compared>> {
        Ok(self.repair(slice, |slice| slice.compare(epoch, known, self.now())))
    }

    async fn put_back(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        gateway: &GatewayId,
        page: HeldFrom,
    ) -> StoreResult<PutBackPage> {
        Ok(self.repair(slice, |slice| {
            slice.put_back(epoch, gateway, page, self.now())
        }))
    }

    async fn settle(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        surplus: Surplus,
    ) -> StoreResult<Settled> {
        Ok(self.repair(slice, |slice| slice.settle(epoch, surplus, self.now())))
    }

    /// The notes on members go with the members, so there is nothing to drop.
    async fn drop_notes(&self, _: &SliceId, _: u64) -> StoreResult<DroppedNotes> {
        Ok(DroppedNotes::default())
    }

    /// No other program reaches this store.
    async fn drop_foreign_keys(&self, _: &SliceId, _: &GatewayId) -> StoreResult<Vec<String>> {
        Ok(Vec::new())
    }

    async fn close_slice(&self, slice: &SliceId, epoch: Epoch) -> StoreResult<SliceTotals> {
        let place = Place::from(slice);
        let (totals, moved) = self.slices.entry(place.clone()).or_default().close(epoch);
        if moved {
            self.forget_later(place, epoch);
        }
        Ok(totals)
    }

    async fn held_page(
        &self,
        slice: &SliceId,
        group: Group,
        gateway: &GatewayId,
        cursor: u64,
    ) -> StoreResult<HeldPage> {
        Ok(self.read(slice, |slice| slice.held_page(group, gateway, cursor)))
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
