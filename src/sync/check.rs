//! Compares what the store holds with what this gateway expects it to hold: once per `check-every`
//! for each room, and at once where there is reason for doubt. The comparison changes nothing. What
//! it finds is repaired the usual way: the flusher reads a slice back, the keeper writes the record
//! again. Where a dead gateway may still have members, the sweeper removes them first.
//!
//! A check leaves out slices in which something is unsettled. There the flusher makes one more
//! call, whose answer tells as much as a check does.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::{StreamExt, stream};

use crate::base::clock::{Clock, Millis};
use crate::base::ids::{GatewayId, SliceId};
use crate::base::metrics::Metrics;
use crate::peers::Outbox;
use crate::presence::checks::Checks;
use crate::presence::ended_lives::EndedLive;
use crate::presence::gateways::Gateways;
use crate::presence::{Audience, Platform, ReadSize, Room, Rooms};
use crate::store::{
    CheckLive, Checked, CloseReason, ExpectedSlice, Fence, Finding, LiveRecord, LiveState,
    SliceReading, SliceSurvey, Store, StoreError, StoreResult, both,
};
use crate::sync::keep::Keeper;
use crate::sync::lives::{LiveError, Lives};
use crate::sync::mend::Mender;
use crate::sync::sweep::Sweeper;

/// Maximum slices that are swept at the same time.
const MAX_CONCURRENT_SWEEPS: usize = 64;

/// Maximum ended lives that are looked at at the same time.
const MAX_CONCURRENT_LOOKS: usize = 16;

/// The wait before a room is checked again after a check that left something open.
const RETRY_DELAY_MS: Millis = 1_000;

/// The wait, in ms, after which unchanged keys are written again. Their lifetime in the store is a
/// few hours.
const WRITE_AGAIN: Millis = 3_600_000;

/// The users of a set of the platform that all gateways together read back with each check, at
/// least. Another program may have written there without a change of any number.
const READ_BACK: usize = 10_000;

/// What this gateway expects the store to hold of one room.
struct Expected {
    room: Arc<Room>,
    live: CheckLive,
    /// The checked slices, in the order of `live.slices`.
    places: Vec<CheckedPlace>,
}

/// A slice under check.
#[derive(Debug, Clone, Copy)]
struct CheckedPlace {
    /// The place of the slice in its room or set.
    place: usize,
    /// The version of the slice that this gateway knew before the check.
    version: u64,
}

/// Checks rooms, and the platform.
pub struct Checker {
    pub rooms: Arc<Rooms>,
    pub gateways: Arc<Gateways>,
    pub store: Arc<dyn Store>,
    pub checks: Arc<Checks>,
    pub keeper: Arc<Keeper>,
    pub lives: Arc<Lives>,
    pub sweeper: Arc<Sweeper>,
    pub mender: Arc<Mender>,
    pub outbox: Arc<Outbox>,
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
                        "a live cannot be checked"
                    );
                    let mut removed = false;
                    for slice in room.slices() {
                        removed |= self.mender.heal(&slice.id, &why).await;
                    }
                    // If nothing was removed, a check a second later would find the same.
                    if removed {
                        self.check_again(&room.into());
                    }
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
            let wait = self.mend(&room.into()).await;
            if room.has_slice_in_doubt() || room.is_unproven() {
                self.checks
                    .check_at(room, self.clock.now() + wait.max(RETRY_DELAY_MS));
            }
        }
    }

    /// Repairs the slices in doubt. Returns after which time, in ms, all of them may be repaired.
    async fn mend(&self, audience: &Audience) -> Millis {
        let mut wait = 0;
        for slice in audience.slices() {
            let size = slice.size();
            if !size.in_doubt || audience.has_ended() {
                continue;
            }
            match self
                .mender
                .mend(&slice.id, audience.epoch(), slice.newest_size())
                .await
            {
                Ok(left) => wait = wait.max(left),
                Err(why) => tracing::debug!(
                    set = %slice.id.set, slice = slice.id.index, error = %why,
                    "a slice in doubt was not repaired, will try again"
                ),
            }
        }
        wait
    }

    /// Removes the members of dead gateways from the rooms that may have some. Returns for each
    /// room the gateways that have none there now. The walk removes them too, but does not tell
    /// when it is done.
    async fn sweep(&self, rooms: &[Arc<Room>]) -> Vec<StoreResult<BTreeSet<GatewayId>>> {
        let unswept: Vec<BTreeSet<GatewayId>> = rooms.iter().map(|room| room.unswept()).collect();
        let mut slices: Vec<SliceId> = Vec::new();
        for (room, unswept) in rooms.iter().zip(&unswept) {
            if !unswept.is_empty() {
                slices.extend(room.slices().iter().map(|slice| slice.id.clone()));
            }
        }
        let found = self.store.survey(&slices).await;
        let left: Vec<_> = stream::iter(slices.into_iter().zip(found))
            .map(|(slice, found)| self.sweep_slice(slice, found))
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
        found: StoreResult<SliceSurvey>,
    ) -> StoreResult<Vec<GatewayId>> {
        let roster = self.gateways.roster();
        let mut gateways: Vec<GatewayId> =
            found?.parts.into_iter().map(|part| part.gateway).collect();
        self.sweeper.sweep_dead(&slice, &gateways).await?;
        gateways.retain(|gateway| !roster.dead.contains(gateway));
        Ok(gateways)
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
        if room.check.take_read_back() {
            for slice in room.slices() {
                slice.lock().read_back_all();
            }
        }
        let record = &room.record;
        let mut places = Vec::with_capacity(room.slices().len());
        let mut slices = Vec::with_capacity(room.slices().len());
        for (place, slice) in room.slices().iter().enumerate() {
            let version = slice.size().version;
            let Some(expected) = slice.expect(incarnation) else {
                self.rooms.flush(&room, place);
                continue;
            };
            places.push(CheckedPlace { place, version });
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
                Finding::Slice(index, reading) => {
                    let Some(checked) = places.get(index) else {
                        continue;
                    };
                    let Some(slice) = live.slices.get(index) else {
                        continue;
                    };
                    as_expected[index] = false;
                    self.handle_slice(&room.into(), *checked, slice, &reading)
                        .await
                }
            };
            result = both(result, repaired);
        }
        for (checked, is_as_expected) in places.iter().zip(as_expected) {
            if is_as_expected {
                room.slices()[checked.place].confirm_version(checked.version, now);
                self.rooms.note_proven(&room.into(), checked.place, began);
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
        checked: CheckedPlace,
        expected: &ExpectedSlice,
        reading: &SliceReading,
    ) -> StoreResult<()> {
        let CheckedPlace { place, version } = checked;
        let slice = &audience.slices()[place];
        let epoch = audience.epoch();
        let size = reading.size;
        let is_older = size.version < version;
        if is_older {
            self.mender
                .mend(&slice.id, epoch, slice.newest_size())
                .await?;
        }
        // Without a fence, only a call can begin the doubt.
        let is_evidence = is_older && expected.entry.is_some();
        if !is_evidence {
            let read = ReadSize {
                expected: version,
                size,
                at: self.clock.now(),
            };
            self.rooms.note_reading(audience, place, read);
        }
        if let Some(room) = audience.room() {
            // Only messages tell of other holders, and this gateway may have missed one.
            if room.note_holders(&reading.gateways, &self.gateways.roster()) {
                self.rooms.count(room);
            }
        }
        let lost = expected.entry.is_some() && reading.entry.is_none();
        let lacks_notes = size.lacks_notes(reading.noted);
        if size.has_stray_notes(reading.noted) {
            self.mender.drop_notes(&slice.id).await?;
        }
        let found = (reading.entry, reading.held, reading.held_fans);
        let differs = found != (expected.entry, expected.held, expected.held_fans)
            || lacks_notes && reading.held > 0;
        if let Some(room) = audience.room()
            && reading
                .fence
                .is_some_and(|fence| fence.epoch() > epoch || fence.is_closed_in(epoch))
        {
            // The store accepts nobody in this epoch, and without a join no call would find that
            // out.
            return self.keeper.fence_says_over(room).await;
        }
        if lost || differs {
            let unchanged = slice.lock().found_instead(expected.entry, reading, epoch);
            if lost && unchanged {
                self.gateways.own.doubt();
                // The peers may have lost their entries too, and need not find out one by one.
                if let Some(room) = audience.room() {
                    self.outbox.doubt(&room.record.live);
                }
            }
            if unchanged {
                self.rooms.flush(audience, place);
            } else {
                self.check_again(audience);
            }
        } else if is_evidence {
            slice.lock().look_again();
            self.rooms.flush(audience, place);
        }
        self.sweeper.sweep_dead(&slice.id, &reading.gateways).await
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
    /// sizes. Some of its slices are read back.
    pub async fn check_platform(&self, platform: Arc<Platform>) {
        let own = self.gateways.own.incarnation();
        let audience = Audience::Platform(platform.clone());
        let mut places = Vec::new();
        let mut expected = Vec::new();
        for (place, slice) in audience.slices().iter().enumerate() {
            let version = slice.size().version;
            match slice.expect(own.number) {
                Some(slice) => {
                    places.push(CheckedPlace { place, version });
                    expected.push(slice);
                }
                None => self.rooms.flush(&audience, place),
            }
        }
        let mut result = Ok(());
        let answers = self.store.check_slices(&own.id, &expected).await;
        for ((checked, expected), answer) in places.into_iter().zip(&expected).zip(answers) {
            let handled = match answer {
                Ok(Some(reading)) => {
                    self.handle_slice(&audience, checked, expected, &reading)
                        .await
                }
                Ok(None) => Ok(()),
                Err(why) => {
                    self.mender.heal(&expected.slice, &why).await;
                    Err(why)
                }
            };
            result = both(result, handled);
        }
        let wait = self.mend(&audience).await;
        if audience.slices().iter().any(|slice| slice.size().in_doubt) {
            self.checks
                .platform
                .by(self.clock.now() + wait.max(RETRY_DELAY_MS));
        }
        // A check that will be repeated soon reads nothing back.
        let is_well =
            result.is_ok() && audience.slices().iter().all(|slice| !slice.size().in_doubt);
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
        if is_well {
            self.read_back_some(&audience, &platform).await;
        }
    }

    /// Has some slices read back, one after another: no call is made in a slice until it was read.
    async fn read_back_some(&self, audience: &Audience, platform: &Platform) {
        let most = READ_BACK / self.gateways.roster().living.len().max(1);
        let pause = self.checks.read_back_pause(audience.slices().len());
        let mut users = 0;
        for _ in audience.slices() {
            let (place, members) = platform.read_back_next();
            self.rooms.flush(audience, place);
            users += members;
            if users >= most {
                return;
            }
            tokio::time::sleep(pause).await;
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
        let found = self.store.survey(&slices).await;
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

    /// Removes this gateway's users from an evicted live, if the store holds them again.
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
        let mut is_there = false;
        for slice in record.all_slices() {
            if self.store.read_slice(&slice, &own).await?.held > 0 {
                is_there = true;
                break;
            }
        }
        if is_there {
            // A new room removes the users whom the store still holds for this gateway.
            if let Err(LiveError::Store(why)) = self.lives.find(&record.live).await {
                return Err(why);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
