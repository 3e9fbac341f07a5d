//! Owns the lease refresh of rooms in which nothing is new: many of them in one call, see [`crate::store::Renewals`].
//!
//! A room is still where this gateway is alone in the live, everybody is settled in the store, and the store was told
//! all there is to tell. What the store will answer is known then, so it is only asked whether that is so. Where it is
//! not, or there is no answer, the room's slices are refreshed one by one in the same moment: a renewal never decides
//! anything, it only finds that nothing is to be decided. So whatever is found with a lease refresh (lost data, a close
//! or a removal whose word was lost, a peer) is found with a renewal too, as late as the next one.
//!
//! What a renewal found as expected stands under the gateway's own lease from then on (`own_lease.rs`). Most of the next
//! ones are but a glance at the record and at the number of fans, which finds lost data, closes and removals. A peer is
//! heard, and then there are no glances; one of whom no word came, and keys that were lost one by one, are found once a
//! minute.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::clock::{Millis, millis};
use crate::core::Core;
use crate::rooms::Room;
use crate::store::{Found, HeldSlice, MAX_RENEWALS, OpenedBy, Renewal};
use crate::upkeep;

/// Calls under way at a time; what is due beyond that waits for a moment.
const MAX_CALLS: usize = 32;

/// With every so many looks a room is refreshed as a whole, still or not: each ten minutes with the usual lease refresh.
const WHOLE_ROUNDS: u64 = 120;

/// However far apart looks are, a room is refreshed as a whole after so long: what it has in the store does not outlive
/// six hours without.
const WHOLE_AFTER: Millis = 3_600_000;

/// With every so many looks a slice is read back that was written to since it was last read, and all of a still room's keys
/// are looked at. That is often enough for what stands under the gateway's own lease, see
/// [`crate::store::COVERED_LEASES`]: a lease is more than two refreshes.
pub(crate) const RECONCILE_ROUNDS: u64 = 12;

/// Rooms that were found still in one look over those that are due.
#[derive(Debug, Default)]
pub(crate) struct Stills {
    rooms: Vec<Arc<Room>>,
    rounds: Vec<u64>,
    expected: Vec<Renewal>,
}

impl Stills {
    /// Takes a room in if it is still. False if it has to be refreshed as a whole.
    pub(crate) fn take(&mut self, core: &Core, room: &Arc<Room>, round: u64, now: Millis) -> bool {
        let expected = expected(core, room, round, now);
        let still = expected.is_some();
        if let Some(expected) = expected {
            self.rooms.push(room.clone());
            self.rounds.push(round);
            self.expected.push(expected);
        }
        still
    }

    /// Sends them on their way, call by call; answers those that have to wait, each with its round.
    pub(crate) fn renew(mut self, core: &Arc<Core>, now: Millis, calls: &mut JoinSet<()>) -> Vec<(Arc<Room>, u64)> {
        while !self.rooms.is_empty() && calls.len() < MAX_CALLS {
            let rest = self.rooms.len().saturating_sub(MAX_RENEWALS);
            let (rooms, expected) = (self.rooms.split_off(rest), self.expected.split_off(rest));
            let core = core.clone();
            calls.spawn(async move { renew(&core, &rooms, &expected, now).await });
        }
        for (room, expected) in self.rooms.iter().zip(&self.expected) {
            if expected.relist.is_some() {
                room.list_soon();
            }
        }
        // Taken from the end, so that what is left is the beginning of each.
        self.rooms.into_iter().zip(self.rounds).collect()
    }
}

/// What the store answers if nothing is new to this gateway; `None` if something may be.
fn expected(core: &Core, room: &Room, round: u64, now: Millis) -> Option<Renewal> {
    let record = &room.record;
    let touched = room.last_touch();
    let whole = round.is_multiple_of(WHOLE_ROUNDS) || now.saturating_sub(room.last_whole()) > WHOLE_AFTER;
    // After a stand-still all is looked at.
    let stood_still = !room.was_touched() || now.saturating_sub(touched) > millis(core.config.lease);
    let heard = core.streamers.last_heard(&record.streamer);
    if whole || stood_still || is_judged(core, room, heard, now) || !room.told_all() {
        return None;
    }
    let (viewers, word) = room.telling.stored()?;
    let thorough = round.is_multiple_of(RECONCILE_ROUNDS);
    let held = room.telling.is_covered(word) && core.own_lease.is_firm(now, millis(core.config.lease));
    let mut glance = !thorough && held && core.gossip.hears_nobody(room);
    let mut slices = Vec::with_capacity(room.slices().len());
    for slice in room.slices() {
        let state = slice.lock();
        if state.ledger.is_dirty() {
            return None;
        }
        let held = state.ledger.held()?;
        let fans = held.members;
        let owed = state.refresh_due || state.reconcile_due || state.drift > 0 || state.whole_at.is_some();
        let compare = thorough && state.written && fans > 0;
        if owed || compare || state.ledger.is_registered() != (fans > 0) || slice.card() != fans || slice.heard() == 0 {
            return None;
        }
        glance &= fans == 0 || state.covered == held.number;
        slices.push(HeldSlice { slice: slice.id.clone(), fans, number: held.number });
    }
    Some(Renewal {
        live: record.live.clone(),
        epoch: record.epoch,
        removals: room.bans.last(),
        streamer_heard: heard.is_some_and(|at| at >= touched),
        relist: room.relist(now).then_some(record.opened_at),
        slices,
        glance,
        viewers,
        word,
    })
}

/// Whether the streamer's silence may close the live before long: that is judged by what the store knows of it.
fn is_judged(core: &Core, room: &Room, heard: Option<Millis>, now: Millis) -> bool {
    let by_streamer = room.record.opened_by == OpenedBy::Streamer;
    let Some(timeout) = core.config.streamer_timeout.filter(|_| by_streamer) else { return false };
    heard.is_none_or(|at| now.saturating_sub(at) > millis(timeout) / 2)
}

/// One call. `now` is when the rooms were looked at.
async fn renew(core: &Core, rooms: &[Arc<Room>], expected: &[Renewal], now: Millis) {
    let found = core.store.renew(&core.id, expected).await;
    for ((room, expected), found) in rooms.iter().zip(expected).zip(found) {
        match found {
            Found::Still => {
                core.metrics.renewed("still");
                room.note_touch(now);
                if !expected.glance {
                    note_covered(room, expected);
                }
                room.slices().iter().zip(&expected.slices).for_each(|(slice, held)| slice.still_is(held.fans, now));
                // Hearing of its slices can make figures exact again.
                core.changed.mark(room);
            }
            Found::News => {
                core.metrics.renewed("news");
                // What is new may be writes that were lost: what is held is read before long, even if the counts are right.
                room.slices().iter().for_each(|slice| slice.lock().written = true);
                refresh(core, room, expected);
            }
            Found::Nothing => {
                core.metrics.renewed("no_answer");
                refresh(core, room, expected);
            }
        }
    }
}

/// From now on all of it stands under the gateway's own lease, until another call or word takes its place, whose number is
/// another.
fn note_covered(room: &Room, expected: &Renewal) {
    room.telling.note_covered(expected.word);
    for (slice, held) in room.slices().iter().zip(&expected.slices) {
        slice.lock().covered = held.number;
    }
}

fn refresh(core: &Core, room: &Arc<Room>, expected: &Renewal) {
    if expected.relist.is_some() {
        room.list_soon();
    }
    upkeep::refresh(core, room);
}
