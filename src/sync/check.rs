//! Compares what the store holds with what this gateway expects it to hold: once per `check-every`
//! for each room, and at once where there is reason for doubt. What differs is repaired the usual
//! way: the flusher makes a call in a slice without this gateway's entry, the keeper writes the
//! record again, and a pass puts a slice right that is not in order.
//!
//! A check leaves out slices in which something is unsettled. There the flusher makes one more
//! call, whose answer tells as much as a check does.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::{StreamExt, stream};

use crate::base::clock::{Clock, Millis};
use crate::base::ids::{Epoch, GatewayId, SliceId};
use crate::base::metrics::Metrics;
use crate::presence::checks::Checks;
use crate::presence::ended_lives::EndedLive;
use crate::presence::gateways::Gateways;
use crate::presence::{Audience, Platform, Room, Rooms};
use crate::store::{
    CheckLive, Checked, CloseReason, Entries, ExpectedSlice, Fence, Finding, LiveRecord, LiveState,
    SliceLook, Store, StoreError, StoreResult, both,
};
use crate::sync::keep::Keeper;
use crate::sync::lives::Lives;
use crate::sync::pass::{Extent, Passer};

/// Maximum slices that are swept at the same time.
const MAX_CONCURRENT_SWEEPS: usize = 64;

/// Maximum ended lives that are looked at at the same time.
const MAX_CONCURRENT_LOOKS: usize = 16;

/// The wait before a room is checked again after a check that left something open.
const RETRY_DELAY_MS: Millis = 1_000;

/// The wait, in ms, after which unchanged keys are written again. Their lifetime in the store is a
/// few hours.
const WRITE_AGAIN: Millis = 3_600_000;

/// What this gateway expects the store to hold of one room.
struct Expected {
    room: Arc<Room>,
    live: CheckLive,
    /// The places of the checked slices in the room, in the order of `live.slices`.
    places: Vec<usize>,
}

/// Checks rooms, and the platform.
pub struct Checker {
    pub rooms: Arc<Rooms>,
    pub gateways: Arc<Gateways>,
    pub store: Arc<dyn Store>,
    pub checks: Arc<Checks>,
    pub keeper: Arc<Keeper>,
    pub lives: Arc<Lives>,
    pub passer: Arc<Passer>,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
}

impl Checker {
    /// Checks rooms, up to [`crate::store::MAX_CHECKED`] of them.
    pub async fn check(&self, rooms: Vec<Arc<Room>>) {
        let began = self.clock.now();
        // Before the check, which reads the sizes.
        let swept = self.sweep(&rooms).await;
        let own = self.gateways.own.incarnation();
        let expected: Vec<Expected> = rooms
            .into_iter()
            .map(|room| self.expect(room, own.number))
            .collect();
        let lives: Vec<CheckLive> = expected
            .iter()
            .map(|expected| expected.live.clone())
            .collect();
        let answers = self.store.check(&own.id, &lives).await;
        for ((expected, answer), swept) in expected.iter().zip(answers).zip(swept) {
            let room = &expected.room;
            self.checks.checked(room);
            let handled = self.handle(expected, answer, began).await;
            match both(handled, swept) {
                Ok(swept) => {
                    Metrics::count_result(&self.metrics.checks, "done");
                    room.check.answered();
                    self.rooms.note_checked(room, began);
                    if room.check.is_unheard() {
                        // Its figures may be exact now.
                        self.rooms.show(room);
                    }
                    self.note_swept(room, &swept);
                }
                Err(why @ StoreError::Nonsense(_)) => {
                    Metrics::count_result(&self.metrics.checks, "failed");
                    tracing::warn!(
                        live_id = %room.record.live, error = %why,
                        "a live cannot be checked; putting its slices right"
                    );
                    self.pass_all(&room.into()).await;
                    self.check_again(&room.into());
                }
                Err(why) => {
                    Metrics::count_result(&self.metrics.checks, "failed");
                    tracing::debug!(
                        live_id = %room.record.live, error = %why,
                        "a live was not checked, will try again"
                    );
                    self.checks.unanswered(room);
                }
            }
            if room.has_rebuild() || room.is_unproven() {
                self.check_again(&room.into());
            }
        }
    }

    /// Puts all slices right.
    async fn pass_all(&self, audience: &Audience) {
        for slice in audience.slices() {
            let passed = self
                .passer
                .pass(&slice.id, audience.epoch(), &[], Extent::Everything)
                .await;
            if let Err(why) = passed {
                tracing::debug!(
                    set = %slice.id.set, slice = slice.id.index, error = %why,
                    "a slice was not put right, will try again"
                );
            }
        }
    }

    /// Removes the members of dead gateways from the rooms that may have some. Returns for each
    /// room the gateways that have none there now. The walk removes them too, but does not tell
    /// when it is done.
    async fn sweep(&self, rooms: &[Arc<Room>]) -> Vec<StoreResult<BTreeSet<GatewayId>>> {
        let unswept: Vec<BTreeSet<GatewayId>> = rooms.iter().map(|room| room.unswept()).collect();
        let mut slices: Vec<(SliceId, Epoch)> = Vec::new();
        for (room, unswept) in rooms.iter().zip(&unswept) {
            if !unswept.is_empty() {
                let epoch = room.record.epoch;
                slices.extend(room.slices().iter().map(|slice| (slice.id.clone(), epoch)));
            }
        }
        let ids: Vec<SliceId> = slices.iter().map(|(slice, _)| slice.clone()).collect();
        let found = self
            .store
            .look(&ids, &self.gateways.id(), Entries::All)
            .await;
        let left: Vec<_> = stream::iter(slices.into_iter().zip(found))
            .map(|((slice, epoch), found)| self.sweep_slice(slice, epoch, found))
            .buffered(MAX_CONCURRENT_SWEEPS)
            .collect()
            .await;
        let mut left = left.into_iter();
        let mut swept = Vec::with_capacity(rooms.len());
        for (room, mut unswept) in rooms.iter().zip(unswept) {
            let mut result = Ok(());
            if !unswept.is_empty() {
                for left in left.by_ref().take(room.slices().len()) {
                    match left {
                        Ok(left) => unswept.retain(|gateway| !left.contains(gateway)),
                        Err(why) => result = both(result, Err(why)),
                    }
                }
            }
            swept.push(result.map(|()| unswept));
        }
        swept
    }

    /// Sweeps the dead gateways among those with an entry in a slice. Returns the others.
    async fn sweep_slice(
        &self,
        slice: SliceId,
        epoch: Epoch,
        found: StoreResult<SliceLook>,
    ) -> StoreResult<Vec<GatewayId>> {
        let found = found?;
        let dead = self.passer.dead_in(&found);
        if !dead.is_empty() {
            self.passer
                .pass(&slice, epoch, &dead, Extent::Claims)
                .await?;
        }
        let others = found.entries.into_iter().map(|(gateway, _)| gateway);
        Ok(others.filter(|gateway| !dead.contains(gateway)).collect())
    }

    /// Ends the doubt about the figures of a room in which these dead gateways have no members.
    fn note_swept(&self, room: &Arc<Room>, swept: &BTreeSet<GatewayId>) {
        if room.note_swept(swept, &self.gateways.roster()) {
            self.rooms.count(room);
        }
        if !room.unswept().is_empty() {
            room.check.doubt();
            self.check_again(&room.into());
        }
    }

    fn expect(&self, room: Arc<Room>, incarnation: u32) -> Expected {
        let record = &room.record;
        let mut places = Vec::with_capacity(room.slices().len());
        let mut slices = Vec::with_capacity(room.slices().len());
        for (place, slice) in room.slices().iter().enumerate() {
            let Some(expected) = slice.expect(record.epoch, incarnation) else {
                self.rooms.flush(&room, place);
                continue;
            };
            places.push(place);
            slices.push(expected);
        }
        let live = CheckLive {
            live: record.live.clone(),
            epoch: record.epoch,
            listed: room.check.take_doubt(),
            removals: room.bans.last(),
            version: room.info.newest().version,
            // A change that waits for its write is no difference.
            counted: if room.counting.queued.is_set() {
                None
            } else {
                Some(room.totals().0)
            },
            slices,
        };
        Expected { live, places, room }
    }

    /// Repairs what a check found. Where something could not be read, the check confirms nothing.
    async fn handle(
        &self,
        expected: &Expected,
        checked: Checked,
        began: Millis,
    ) -> StoreResult<()> {
        let Checked { findings, complete } = checked;
        let Expected { room, live, places } = expected;
        if room.end().is_some() {
            return Ok(());
        }
        let now = self.clock.now();
        let is_complete = complete.is_ok();
        let mut result = complete;
        if findings.contains(&Finding::Record) || is_complete && room.has_new_peaks() {
            result = both(result, self.keeper.keep(room).await);
        } else if is_complete {
            room.note_confirmed_open(now);
        }
        let mut as_expected = vec![is_complete; places.len()];
        // A part that cannot be repaired now must not hold up the others.
        for finding in findings {
            if room.end().is_some() {
                return result;
            }
            let repaired = match finding {
                Finding::Record => Ok(()),
                Finding::Counted => {
                    room.counting.require(now);
                    self.rooms.record(room);
                    Ok(())
                }
                Finding::Unlisted => {
                    self.store
                        .list_live(&live.live, room.record.opened_at)
                        .await
                }
                Finding::ListUnread => {
                    // The next check reads it again.
                    room.check.doubt();
                    Ok(())
                }
                Finding::Slice(index, found) => {
                    let Some(place) = places.get(index) else {
                        continue;
                    };
                    let Some(slice) = live.slices.get(index) else {
                        continue;
                    };
                    as_expected[index] = false;
                    self.handle_slice(&room.into(), *place, slice, &found).await
                }
            };
            result = both(result, repaired);
        }
        for ((place, slice), is_as_expected) in places.iter().zip(&live.slices).zip(as_expected) {
            if is_as_expected {
                room.slices()[*place].confirm_version(slice.size.version, now);
                self.rooms.note_proven(&room.into(), *place, began);
            }
        }
        self.write_again(room, now);
        result
    }

    /// Handles a slice that is not as expected. The flusher takes care of users who joined or left
    /// here meanwhile.
    async fn handle_slice(
        &self,
        audience: &Audience,
        place: usize,
        expected: &ExpectedSlice,
        found: &SliceLook,
    ) -> StoreResult<()> {
        let slice = &audience.slices()[place];
        let epoch = audience.epoch();
        if let Some(room) = audience.room()
            && found
                .fence
                .is_some_and(|fence| fence.epoch() > epoch || fence.is_closed_in(epoch))
        {
            // The store accepts nobody in this epoch, and without a join no call would find that
            // out.
            return self.keeper.fence_says_over(room).await;
        }
        slice.lock().found_instead(expected.entry, found);
        self.rooms.flush(audience, place);
        let is_open = found.fence == Some(Fence::Open(epoch));
        let is_older = is_open && found.size.is_older_than(expected.size);
        if is_open && !is_older {
            self.passer.note_size(audience, place, found.size);
        }
        let has_lost_fence = found.fence.is_none() && found.has_keys;
        let is_wrong = !found.is_intact || found.size.rebuild || found.size.differs;
        if is_older || has_lost_fence || is_open && is_wrong {
            let size = self
                .passer
                .pass(&slice.id, epoch, &[], Extent::Everything)
                .await?;
            if size.is_some_and(|size| !size.is_in_order()) {
                self.check_again(audience);
            }
        }
        Ok(())
    }

    /// Has keys written again that have not changed for long, before their lifetime ends.
    fn write_again(&self, room: &Arc<Room>, now: Millis) {
        self.write_slices_again(&room.into(), now);
        if room.has_unpublished_viewers() {
            self.rooms.publish(room);
        }
    }

    fn write_slices_again(&self, audience: &Audience, now: Millis) {
        for (place, slice) in audience.slices().iter().enumerate() {
            let due = slice.lock().write_again(now.saturating_sub(WRITE_AGAIN));
            if due {
                self.rooms.flush(audience, place);
            }
        }
    }

    fn check_again(&self, audience: &Audience) {
        let at = self.clock.now() + RETRY_DELAY_MS;
        match audience {
            Audience::Room(room) => self.checks.check_at(room, at),
            Audience::Platform(_) => self.checks.platform.by(at),
        }
    }

    /// Checks a set of users of the platform. It has no record, and other gateways do not tell its
    /// sizes.
    pub async fn check_platform(&self, platform: Arc<Platform>) {
        let own = self.gateways.own.incarnation();
        let audience = Audience::Platform(platform);
        let mut expected: Vec<(usize, ExpectedSlice)> = Vec::new();
        for (place, slice) in audience.slices().iter().enumerate() {
            match slice.expect(audience.epoch(), own.number) {
                Some(slice) => expected.push((place, slice)),
                None => self.rooms.flush(&audience, place),
            }
        }
        let slices: Vec<SliceId> = expected
            .iter()
            .map(|(_, slice)| slice.slice.clone())
            .collect();
        let answers = self.store.look(&slices, &own.id, Entries::Own).await;
        let mut result = Ok(());
        for ((place, expected), answer) in expected.iter().zip(answers) {
            let handled = match answer {
                Ok(found) if expected.is_met(&found) => Ok(()),
                Ok(found) => self.handle_slice(&audience, *place, expected, &found).await,
                Err(why) => {
                    self.pass_if_garbled(&audience, *place, &why).await;
                    Err(why)
                }
            };
            result = both(result, handled);
        }
        match result {
            Ok(()) => Metrics::count_result(&self.metrics.checks, "done"),
            Err(why) => {
                Metrics::count_result(&self.metrics.checks, "failed");
                tracing::debug!(
                    error = %why,
                    "a set of the platform was not checked, will try again"
                );
                self.check_again(&audience);
            }
        }
        self.write_slices_again(&audience, self.clock.now());
    }

    /// Puts a slice right that cannot be looked at because another program wrote there.
    async fn pass_if_garbled(&self, audience: &Audience, place: usize, why: &StoreError) {
        if !matches!(why, StoreError::Nonsense(_)) {
            return;
        }
        let slice = &audience.slices()[place].id;
        let passed = self
            .passer
            .pass(slice, audience.epoch(), &[], Extent::Everything)
            .await;
        if let Err(why) = passed {
            tracing::debug!(set = %slice.set, error = %why, "a slice was not put right");
        }
    }

    /// Looks again at lives whose rooms have ended here. A failover may have brought their keys
    /// back.
    pub async fn check_ended(&self, lives: Vec<EndedLive>) {
        stream::iter(lives)
            .for_each_concurrent(MAX_CONCURRENT_LOOKS, |live| self.check_one_ended(live))
            .await;
    }

    async fn check_one_ended(&self, live: EndedLive) {
        let looked = match live.closed {
            Some(reason) => self.look_at_closed(&live.record, reason).await,
            None => self.look_at_evicted(&live.record).await,
        };
        let Err(why) = looked else { return };
        let live_id = live.record.live.clone();
        // The same outage that keeps the store from an answer may bring the live back.
        if !why.is_worth_a_retry() {
            tracing::warn!(%live_id, error = %why, "cannot look at a live whose room has ended");
        } else if self.checks.recheck_ended_again(live) {
            tracing::debug!(
                %live_id, error = %why,
                "could not look at a live whose room has ended, will try again"
            );
        } else {
            tracing::debug!(
                %live_id, error = %why,
                "too many lives whose rooms have ended wait for another look"
            );
        }
    }

    /// Closes an epoch that is over and open again: its record, or only some slices, which may lie
    /// on other nodes.
    async fn look_at_closed(&self, record: &LiveRecord, reason: CloseReason) -> StoreResult<()> {
        let present = self.store.load_live(&record.live).await;
        // A room of a newer epoch writes its own record over this one.
        let is_superseded = match self.rooms.get(&record.live) {
            Some(room) => room.record.epoch != record.epoch,
            None => false,
        };
        let is_open_again = match &present {
            Ok(Some(present)) => present.epoch == record.epoch && present.state == LiveState::Open,
            Ok(None) | Err(_) => false,
        };
        if is_open_again && !is_superseded {
            tracing::warn!(
                live_id = %record.live, epoch = %record.epoch,
                "a live that was closed is open again; closing it once more"
            );
            return self.lives.close_quietly(record, reason).await;
        }
        let slices: Vec<SliceId> = record.all_slices().collect();
        let found = self
            .store
            .look(&slices, &self.gateways.id(), Entries::Own)
            .await;
        let mut result = present.map(drop);
        for (slice, found) in slices.iter().zip(found) {
            let closed = match found.map(|found| found.fence) {
                Ok(Some(Fence::Open(epoch))) if epoch <= record.epoch => {
                    tracing::warn!(
                        live_id = %record.live, set = %slice.set, slice = slice.index, %epoch,
                        "a slice of a closed live is open again; closing it once more"
                    );
                    self.store.close_slice(slice, record.epoch).await.map(drop)
                }
                found => found.map(drop),
            };
            result = both(result, closed);
        }
        result
    }

    /// Takes this gateway out of an evicted live, if its entry is there again.
    async fn look_at_evicted(&self, record: &LiveRecord) -> StoreResult<()> {
        if self.rooms.get(&record.live).is_some() {
            return Ok(());
        }
        let Some(present) = self.store.load_live(&record.live).await? else {
            return Ok(());
        };
        if present.epoch != record.epoch || present.state != LiveState::Open {
            return Ok(());
        }
        let own = self.gateways.id();
        let slices: Vec<SliceId> = record.all_slices().collect();
        let found = self.store.look(&slices, &own, Entries::Own).await;
        let mut result = Ok(());
        for (slice, found) in slices.iter().zip(found) {
            let taken_out = match found {
                Ok(found) if found.entry.is_some() && self.rooms.get(&record.live).is_none() => {
                    let own = std::slice::from_ref(&own);
                    let passed = self
                        .passer
                        .pass(slice, record.epoch, own, Extent::Claims)
                        .await;
                    passed.map(drop)
                }
                found => found.map(drop),
            };
            result = both(result, taken_out);
        }
        result
    }
}

#[cfg(test)]
mod tests;
