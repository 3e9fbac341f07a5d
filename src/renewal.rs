//! Owns the lease refresh of rooms in which nothing is new: many of them in one call, see [`crate::store::Renewals`].
//!
//! A room is still where this gateway is alone in the live, everybody is settled in the store, and the store was told
//! all there is to tell. What the store will answer is known then, so it is only asked whether that is so. Where it is
//! not, or there is no answer, the room's slices are refreshed one by one in the same moment: a renewal never decides
//! anything, it only finds that nothing is to be decided. So whatever is found with a lease refresh (lost data, a close
//! or a removal whose word was lost, a peer) is found with a renewal too, as late as the next one.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::clock::{Millis, millis};
use crate::core::Core;
use crate::rooms::Room;
use crate::store::{HeldSlice, MAX_RENEWALS, OpenedBy, Renewal};

/// Calls under way at a time; rooms beyond that are refreshed one by one.
const MAX_CALLS: usize = 32;

/// With every so many looks a room is refreshed as a whole, still or not: each ten minutes with the usual lease refresh.
const WHOLE_ROUNDS: u64 = 120;

/// With every so many looks a slice is read back that was written to since it was last read.
pub(crate) const RECONCILE_ROUNDS: u64 = 12;

/// Rooms that were found still in one look over those that are due.
#[derive(Debug, Default)]
pub(crate) struct Stills {
    rooms: Vec<Arc<Room>>,
    expected: Vec<Renewal>,
}

impl Stills {
    /// Takes a room in if it is still. False if it has to be refreshed as a whole.
    pub(crate) fn take(&mut self, core: &Core, room: &Arc<Room>, round: u64, now: Millis) -> bool {
        let expected = expected(core, room, round, now);
        let still = expected.is_some();
        if let Some(expected) = expected {
            self.rooms.push(room.clone());
            self.expected.push(expected);
        }
        still
    }

    /// Sends them on their way, call by call.
    pub(crate) fn renew(self, core: &Arc<Core>, now: Millis, calls: &mut JoinSet<()>) {
        while calls.try_join_next().is_some() {}
        for (rooms, expected) in self.rooms.chunks(MAX_RENEWALS).zip(self.expected.chunks(MAX_RENEWALS)) {
            if calls.len() >= MAX_CALLS {
                rooms.iter().for_each(|room| refresh(core, room));
                continue;
            }
            let (core, rooms, expected) = (core.clone(), rooms.to_vec(), expected.to_vec());
            calls.spawn(async move { renew(&core, &rooms, &expected, now).await });
        }
    }
}

/// What the store answers if nothing is new to this gateway; `None` if something may be.
fn expected(core: &Core, room: &Room, round: u64, now: Millis) -> Option<Renewal> {
    let record = &room.record;
    let touched = room.last_touch();
    let heard = core.streamers.last_heard(&record.streamer).is_some_and(|at| at >= touched);
    let whole = round.is_multiple_of(WHOLE_ROUNDS) || !room.was_touched();
    // The silence of a streamer is judged by what the store knows of it; and after a stand-still all is looked at.
    let judged = record.opened_by == OpenedBy::Streamer && !heard;
    if whole || judged || now.saturating_sub(touched) > millis(core.config.lease) || !room.told_all() {
        return None;
    }
    let (viewers, word) = room.telling.stored()?;
    let mut slices = Vec::with_capacity(room.slices().len());
    for slice in room.slices() {
        let state = slice.lock();
        let held = state.ledger.held().filter(|_| !state.ledger.is_dirty())?;
        let fans = held.members;
        let owed = state.refresh_due || state.reconcile_due || state.drift > 0 || state.whole_at.is_some();
        let compare = state.written && round.is_multiple_of(RECONCILE_ROUNDS);
        if owed || compare || state.ledger.is_registered() != (fans > 0) || slice.card() != fans || slice.heard() == 0 {
            return None;
        }
        slices.push(HeldSlice { slice: slice.id.clone(), fans, number: held.number });
    }
    Some(Renewal {
        live: record.live.clone(),
        epoch: record.epoch,
        removals: room.bans.last(),
        streamer_heard: heard,
        slices,
        viewers,
        word,
    })
}

/// One call. `now` is when the rooms were looked at.
async fn renew(core: &Core, rooms: &[Arc<Room>], expected: &[Renewal], now: Millis) {
    let answers = core.store.renew(&core.id, expected).await;
    for ((room, expected), found) in rooms.iter().zip(expected).zip(answers) {
        if found {
            core.metrics.renewed("still");
            room.note_touch(now);
            room.slices().iter().zip(&expected.slices).for_each(|(slice, held)| slice.confirm(held.fans, now));
            // Hearing of its slices can make figures exact again.
            core.changed.mark(room);
        } else {
            core.metrics.renewed("news");
            refresh(core, room);
        }
    }
}

/// Has all of a room refreshed, slice by slice. What was new may be writes that were lost: what is held is read with the
/// next of [`RECONCILE_ROUNDS`], even if the counts are right.
fn refresh(core: &Core, room: &Arc<Room>) {
    for (place, slice) in room.slices().iter().enumerate() {
        let mut state = slice.lock();
        state.refresh_due = true;
        state.written = true;
        drop(state);
        core.flush.mark(room, place);
    }
}
