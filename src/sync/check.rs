//! Compares what the store holds with what this gateway expects it to hold: once per `check-every`
//! for each room, and at once where there is reason for doubt. What differs is repaired the usual
//! way: the flusher makes a call in a slice without this gateway's entry, the keeper writes the
//! record again, and a pass puts a slice right that is not in order.
//!
//! A check leaves out slices in which something is unsettled. There the flusher makes one more
//! call, whose answer tells as much as a check does. But no call repairs a slice that is not in
//! order, and in a busy live something is always unsettled, so checks leave no such slice out.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::{StreamExt, stream};

use crate::base::clock::{Millis, Moment};
use crate::base::ids::{GatewayId, LiveId, SliceId};
use crate::base::metrics::Metrics;
use crate::peers::core::Core;
use crate::presence::ended_lives::EndedLive;
use crate::presence::{Audience, ExpectedSlice, Platform, Room, SliceRef};
use crate::store::{
    CloseReason, Entries, Fence, Figures, LiveRecord, LiveState, SliceLook, StoreError,
    StoreResult, both,
};
use crate::sync::keep::Keeper;
use crate::sync::lives::Lives;
use crate::sync::pass::{Extent, Passer};

/// Maximum rooms of one check that are put right at the same time.
const MAX_CONCURRENT_ROOMS: usize = 16;

/// Maximum slices of a room that are put right at the same time.
const MAX_CONCURRENT_PASSES: usize = 64;

/// Maximum ended lives that are looked at at the same time.
const MAX_CONCURRENT_LOOKS: usize = 16;

/// The wait before a room is checked again after a check that left something open.
const RETRY_DELAY_MS: Millis = 1_000;

/// The wait, in ms, after which unchanged keys are written again. Their lifetime in the store is a
/// few hours.
const WRITE_AGAIN: Millis = 3_600_000;

/// Checks rooms, and the platform.
pub struct Checker {
    pub core: Arc<Core>,
    pub keeper: Arc<Keeper>,
    pub lives: Arc<Lives>,
    pub passer: Arc<Passer>,
}

/// What this gateway expects the store to hold of one room.
struct ExpectedRoom {
    room: Arc<Room>,
    /// The dead gateways that may still have members.
    unswept: BTreeSet<GatewayId>,
    /// Whether there was reason for doubt, so that the check also reads the list of open lives and
    /// the entries of all gateways.
    is_doubted: bool,
    /// The number of the last removal.
    removals: u64,
    /// The version of the record.
    version: u64,
    /// The figures in the record; `None` if they are about to be written.
    counted: Option<Figures>,
    slices: Vec<ExpectedIn>,
}

/// A slice, and what the store should hold of it; `None` if something is unsettled there.
struct ExpectedIn {
    slice: SliceRef,
    expected: Option<ExpectedSlice>,
}

/// What the store holds of one room.
struct RoomInStore {
    record: StoreResult<Option<LiveRecord>>,
    /// Whether the live is on the list of open lives; `None` if the list was not read.
    is_listed: Option<bool>,
    /// In the order of [`ExpectedRoom::slices`].
    slices: Vec<StoreResult<SliceLook>>,
}

impl ExpectedRoom {
    /// Whether the record is as expected, apart from the figures.
    fn is_record(&self, found: Option<&LiveRecord>) -> bool {
        found.is_some_and(|found| {
            found.is_open_in(self.room.record.epoch)
                && found.removals == self.removals
                && found.version == self.version
        })
    }
}

impl Checker {
    /// Checks rooms, up to [`crate::presence::checks::MAX_CHECKED`] of them.
    pub async fn check(&self, rooms: Vec<Arc<Room>>) {
        let began = self.core.clock.now();
        let expected: Vec<ExpectedRoom> = rooms.into_iter().map(|room| self.expect(room)).collect();
        let found = self.read(&expected).await;
        let mut repairs = Vec::with_capacity(expected.len());
        for (expected, found) in expected.iter().zip(found) {
            repairs.push(self.finish(expected, found, began));
        }
        stream::iter(repairs)
            .buffer_unordered(MAX_CONCURRENT_ROOMS)
            .collect::<Vec<()>>()
            .await;
    }

    /// Puts a room right as a check found it, and schedules the next check.
    async fn finish(&self, expected: &ExpectedRoom, found: RoomInStore, began: Moment) {
        let room = &expected.room;
        self.core.checks.checked(room);
        match self.put_room_right(expected, found, began).await {
            Ok(holders) => {
                Metrics::count_result(&self.core.metrics.checks, "done");
                room.schedule.check.answered();
                self.core.rooms.note_checked(room, began);
                if room.schedule.check.is_unheard() {
                    // Its figures may be exact now.
                    self.core.rooms.show(room);
                }
                self.note_holders(expected, &holders);
            }
            Err(why) => {
                Metrics::count_result(&self.core.metrics.checks, "failed");
                tracing::debug!(
                    live_id = %room.record.live, error = %why,
                    "a live was not checked, will try again"
                );
                return self.core.checks.unanswered(room);
            }
        }
        let flaws = room.figures.flaws();
        if flaws.has_rebuild || flaws.is_unproven {
            self.check_again(&room.into());
        }
    }

    fn expect(&self, room: Arc<Room>) -> ExpectedRoom {
        let unswept = room.figures.unswept();
        let is_doubted = room.schedule.check.take_doubt();
        ExpectedRoom {
            is_doubted,
            removals: room.seats.bans.last(),
            version: room.info.newest().version,
            // A change that waits for its write is no difference.
            counted: if room.schedule.counting.queued.is_set() {
                None
            } else {
                Some(room.totals().0)
            },
            // Any gateway may have an entry in any slice.
            slices: self.expect_slices(&Audience::from(&room), is_doubted || !unswept.is_empty()),
            unswept,
            room,
        }
    }

    /// The slices in which all is settled and those that are not in order, or all slices. The
    /// flusher makes one more call where something is unsettled.
    fn expect_slices(&self, audience: &Audience, all: bool) -> Vec<ExpectedIn> {
        let life = self.core.gateways.own.life().number;
        let mut slices = Vec::new();
        for slice in audience.slices() {
            let expected = slice.expect(slice.epoch(), life);
            if expected.is_none() {
                self.core.rooms.flush(&slice);
            }
            if expected.is_some() || all || !slice.size().is_in_order() {
                slices.push(ExpectedIn { slice, expected });
            }
        }
        slices
    }

    /// Reads what the store holds of the rooms. The keys of a room may lie on several nodes, of
    /// which one may be away.
    async fn read(&self, expected: &[ExpectedRoom]) -> Vec<RoomInStore> {
        let lives: Vec<LiveId> = expected
            .iter()
            .map(|expected| expected.room.record.live.clone())
            .collect();
        let mut slices: Vec<SliceId> = Vec::new();
        for expected in expected {
            slices.extend(expected.slices.iter().map(|it| it.slice.id.clone()));
        }
        let own = self.core.gateways.id();
        let reads_all =
            |expected: &ExpectedRoom| expected.is_doubted || !expected.unswept.is_empty();
        let entries = if expected.iter().any(reads_all) {
            Entries::All
        } else {
            Entries::Own
        };
        let (records, listed, looks) = tokio::join!(
            self.core.store.load_lives(&lives),
            self.are_listed(expected),
            self.core.store.look(&slices, &own, entries),
        );
        let (mut listed, mut looks) = (listed.into_iter(), looks.into_iter());
        let mut found = Vec::with_capacity(expected.len());
        for (expected, record) in expected.iter().zip(records) {
            found.push(RoomInStore {
                record,
                is_listed: if expected.is_doubted {
                    listed.next().flatten()
                } else {
                    None
                },
                slices: looks.by_ref().take(expected.slices.len()).collect(),
            });
        }
        found
    }

    /// Whether the lives of which that is asked are on the list of open lives. If the list cannot be
    /// read, the next checks of these rooms read it again: it may lie on a node that is away for
    /// long, so the checks count as complete nevertheless.
    async fn are_listed(&self, expected: &[ExpectedRoom]) -> Vec<Option<bool>> {
        let asked: Vec<&Arc<Room>> = expected
            .iter()
            .filter(|expected| expected.is_doubted)
            .map(|expected| &expected.room)
            .collect();
        let lives: Vec<LiveId> = asked.iter().map(|room| room.record.live.clone()).collect();
        match self.core.store.are_listed(&lives).await {
            Ok(listed) => listed.into_iter().map(Some).collect(),
            Err(why) => {
                tracing::debug!(error = %why, "the list of open lives was not read");
                for room in asked {
                    room.schedule.check.doubt();
                }
                vec![None; lives.len()]
            }
        }
    }

    /// Repairs what differs in a room. Where something could not be read, the check confirms
    /// nothing. Returns the gateways that have an entry in a slice.
    async fn put_room_right(
        &self,
        expected: &ExpectedRoom,
        found: RoomInStore,
        began: Moment,
    ) -> StoreResult<BTreeSet<GatewayId>> {
        let room = &expected.room;
        if room.end().is_some() {
            return Ok(BTreeSet::new());
        }
        let now = self.core.clock.now();
        // A part that cannot be repaired now must not hold up the others.
        let record = self.put_record_right(expected, found.record, now).await;
        let listed = match &record {
            _ if found.is_listed != Some(false) => Ok(()),
            // Whoever closed the live took it off the list.
            Ok(_) if room.end().is_some() => Ok(()),
            Ok(_) => {
                let LiveRecord {
                    live, opened_at, ..
                } = &room.record;
                self.core.store.list_live(live, *opened_at).await
            }
            Err(_) => {
                room.schedule.check.doubt();
                Ok(())
            }
        };
        let put_right = self
            .put_slices_right(&expected.slices, found.slices, began)
            .await;
        self.write_again(&room.into(), now);
        if room.figures.has_unpublished_viewers() {
            self.core.rooms.publish(room);
        }
        let is_confirmed = both(listed, record);
        let holders = both(is_confirmed.clone().map(drop), put_right)?;
        if is_confirmed? {
            room.schedule.note_confirmed_open(now);
        }
        Ok(holders)
    }

    /// Has the record written again, or read, if it differs. True if it says that the epoch is open.
    async fn put_record_right(
        &self,
        expected: &ExpectedRoom,
        found: StoreResult<Option<LiveRecord>>,
        now: Moment,
    ) -> StoreResult<bool> {
        let room = &expected.room;
        let found = match found {
            Ok(found) => found,
            // Another program wrote there.
            Err(StoreError::Nonsense(_)) => None,
            Err(why) => return Err(why),
        };
        let figures = found.as_ref().map(LiveRecord::figures).unwrap_or_default();
        if expected.counted.is_some_and(|counted| counted != figures) {
            room.schedule.counting.require(now);
            self.core.rooms.record(room);
        }
        let is_as_expected = expected.is_record(found.as_ref());
        if !is_as_expected || room.figures.has_new_peaks() {
            self.keeper.keep(room).await?;
        }
        Ok(is_as_expected)
    }

    /// Puts slices right that are not as expected. Returns the gateways that have an entry in one.
    async fn put_slices_right(
        &self,
        expected: &[ExpectedIn],
        found: Vec<StoreResult<SliceLook>>,
        began: Moment,
    ) -> StoreResult<BTreeSet<GatewayId>> {
        let mut calls = Vec::with_capacity(expected.len());
        for (expected, found) in expected.iter().zip(found) {
            calls.push(self.put_slice_right(expected, found, began));
        }
        let mut put_right = stream::iter(calls).buffer_unordered(MAX_CONCURRENT_PASSES);
        let mut all = BTreeSet::new();
        let mut result = Ok(());
        while let Some(holders) = put_right.next().await {
            match holders {
                Ok(holders) => all.extend(holders),
                Err(why) => result = both(result, Err(why)),
            }
        }
        result.map(|()| all)
    }

    /// Puts a slice right that is not as expected. The flusher takes care of users who joined or
    /// left here meanwhile. Returns the gateways that have an entry.
    async fn put_slice_right(
        &self,
        ExpectedIn { slice, expected }: &ExpectedIn,
        found: StoreResult<SliceLook>,
        began: Moment,
    ) -> StoreResult<Vec<GatewayId>> {
        if slice.has_ended() {
            return Ok(Vec::new());
        }
        let epoch = slice.epoch();
        if let (Some(expected), Ok(found)) = (expected, &found) {
            let is_over = |fence: Fence| fence.epoch() > epoch || fence.is_closed_in(epoch);
            if let Some(room) = slice.room()
                && found.fence.is_some_and(is_over)
            {
                // The store accepts nobody in this epoch, and without a join no call would find
                // that out.
                self.keeper.fence_says_over(room).await?;
                return Ok(Vec::new());
            }
            if expected.is_met(found) {
                self.core
                    .rooms
                    .hear_size(slice, found.size, self.core.clock.now());
                self.core.rooms.note_proven(slice, began);
            } else {
                slice.lock().found_instead(expected.entry, found);
                self.core.rooms.flush(slice);
                let is_open = found.fence == Some(Fence::Open(epoch));
                if is_open && !found.size.is_older_than(expected.size) {
                    self.passer.note_size(slice, found.size);
                }
            }
        }
        let known = expected.as_ref().map(|it| it.size).unwrap_or_default();
        let passed = self
            .passer
            .put_right(&slice.id, epoch, known, found)
            .await?;
        if !passed.size.is_in_order() {
            self.check_again(slice.owner());
        }
        Ok(passed.holders)
    }

    /// Notes which gateways have an entry in a room. They may have viewers, although their messages
    /// were sent before this gateway subscribed. A dead one without an entry has none.
    fn note_holders(&self, expected: &ExpectedRoom, holders: &BTreeSet<GatewayId>) {
        let room = &expected.room;
        let own = self.core.gateways.id();
        let others: Vec<GatewayId> = holders.iter().filter(|it| **it != own).cloned().collect();
        let swept: BTreeSet<GatewayId> = expected.unswept.difference(holders).cloned().collect();
        let roster = self.core.gateways.roster();
        let changed = room.figures.note_peers(|peers| {
            let held = peers.holds(&others, &roster);
            peers.swept(&swept, &roster) || held
        });
        if changed {
            self.core.rooms.count(room);
        }
        if !room.figures.unswept().is_empty() {
            room.schedule.check.doubt();
            self.check_again(&room.into());
        }
    }

    /// Has keys written again that have not changed for long, before their lifetime ends.
    fn write_again(&self, audience: &Audience, now: Moment) {
        for slice in audience.slices() {
            let due = slice.lock().write_again(now - WRITE_AGAIN);
            if due {
                self.core.rooms.flush(&slice);
            }
        }
    }

    fn check_again(&self, audience: &Audience) {
        let at = self.core.clock.now() + RETRY_DELAY_MS;
        match audience {
            Audience::Room(room) => self.core.checks.check_at(room, at),
            Audience::Platform(_) => self.core.checks.platform.by(at),
        }
    }

    /// Checks a set of users of the platform. It has no record, and other gateways do not tell its
    /// sizes.
    pub async fn check_platform(&self, platform: Arc<Platform>) {
        let began = self.core.clock.now();
        let audience = Audience::Platform(platform);
        let expected = self.expect_slices(&audience, false);
        let slices: Vec<SliceId> = expected.iter().map(|it| it.slice.id.clone()).collect();
        let own = self.core.gateways.id();
        let found = self.core.store.look(&slices, &own, Entries::Own).await;
        match self.put_slices_right(&expected, found, began).await {
            Ok(_) => Metrics::count_result(&self.core.metrics.checks, "done"),
            Err(why) => {
                Metrics::count_result(&self.core.metrics.checks, "failed");
                tracing::debug!(
                    error = %why,
                    "a set of the platform was not checked, will try again"
                );
                self.check_again(&audience);
            }
        }
        self.write_again(&audience, self.core.clock.now());
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
        } else if self.core.checks.recheck_ended_again(live) {
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
        let present = self.core.store.load_live(&record.live).await;
        // A room of a newer epoch writes its own record over this one.
        let is_superseded = match self.core.rooms.get(&record.live) {
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
            .core
            .store
            .look(&slices, &self.core.gateways.id(), Entries::Own)
            .await;
        let mut result = present.map(drop);
        for (slice, found) in slices.iter().zip(found) {
            let closed = match found.map(|found| found.fence) {
                Ok(Some(Fence::Open(epoch))) if epoch <= record.epoch => {
                    tracing::warn!(
                        live_id = %record.live, set = %slice.set, slice = slice.index, %epoch,
                        "a slice of a closed live is open again; closing it once more"
                    );
                    self.core
                        .store
                        .close_slice(slice, record.epoch)
                        .await
                        .map(drop)
                }
                found => found.map(drop),
            };
            result = both(result, closed);
        }
        result
    }

    /// Takes this gateway out of an evicted live, if its entry is there again.
    async fn look_at_evicted(&self, record: &LiveRecord) -> StoreResult<()> {
        if self.core.rooms.get(&record.live).is_some() {
            return Ok(());
        }
        let Some(present) = self.core.store.load_live(&record.live).await? else {
            return Ok(());
        };
        if present.epoch != record.epoch || present.state != LiveState::Open {
            return Ok(());
        }
        let own = self.core.gateways.id();
        let slices: Vec<SliceId> = record.all_slices().collect();
        let found = self.core.store.look(&slices, &own, Entries::Own).await;
        let mut result = Ok(());
        for (slice, found) in slices.iter().zip(found) {
            let taken_out = match found {
                Ok(found)
                    if found.entry.is_some() && self.core.rooms.get(&record.live).is_none() =>
                {
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
        // A user may have joined meanwhile, whose claim the pass took out.
        if let Some(room) = self.core.rooms.get(&record.live) {
            self.core.checks.check_soon(vec![room]);
        }
        result
    }
}

#[cfg(test)]
mod tests;
