//! Whether the store holds what this gateway thinks it holds: once in `check-every` for each room, and at once where there
//! is reason for doubt. A check changes nothing; what it finds is put right by whoever does so anyway: the flusher reads a
//! slice back, the record is written again, viewers are said again.
//!
//! Slices in which something is unsettled are left out: the answer to a call tells as much as a check does, so one more
//! call is made there.

use std::sync::Arc;

use tokio::task::JoinSet;

use crate::clock::Millis;
use crate::core::Core;
use crate::gossip;
use crate::ids::SliceId;
use crate::liveness::Roster;
use crate::rooms::{End, Room};
use crate::store::slice::Fence;
use crate::store::{CheckLive, CloseReason, ExpectedSlice, Finding, LiveState, SliceReading, StoreError, StoreResult};
use crate::{upkeep, walk};

/// A check without an answer is due again after so long, in ms.
const AGAIN: Millis = 1_000;

/// What stands unchanged in the store is written again after so long, in ms: its lifetime is hours.
const WRITE_AGAIN: Millis = 3_600_000;

/// What is expected of one room.
struct Expected {
    room: Arc<Room>,
    live: CheckLive,
    /// The places of the slices in the room, each with the version that was heard of last.
    places: Vec<(usize, u64)>,
}

/// Checks rooms, up to [`crate::store::MAX_CHECKED`] of them.
pub async fn check(core: &Core, rooms: Vec<Arc<Room>>) {
    let own = core.own_lease.incarnation();
    let roster = core.liveness.roster();
    let expected: Vec<Expected> = rooms.into_iter().map(|room| expect(core, room, own.number, &roster)).collect();
    let lives: Vec<CheckLive> = expected.iter().map(|expected| expected.live.clone()).collect();
    let living: Vec<_> = roster.living.iter().cloned().collect();
    let answers = core.store.check(&own.id, &living, &lives).await;
    for (expected, answer) in expected.iter().zip(answers) {
        let room = &expected.room;
        core.upkeep.checked(room);
        let handled = match answer {
            Ok(findings) => handle(core, expected, findings).await,
            Err(why) => Err(why),
        };
        match handled {
            Ok(()) => core.metrics.checked("done"),
            Err(StoreError::Nonsense(what)) => {
                core.metrics.checked("failed");
                tracing::warn!(live_id = %room.record.live, what, "a live cannot be checked");
            }
            Err(why) => {
                core.metrics.checked("failed");
                tracing::debug!(live_id = %room.record.live, error = %why, "a live was not checked, will try again");
                room.doubt();
                core.upkeep.check_at(room, core.clock.now() + AGAIN);
            }
        }
    }
}

fn expect(core: &Core, room: Arc<Room>, incarnation: u32, roster: &Roster) -> Expected {
    let record = &room.record;
    let mut places = Vec::with_capacity(room.slices().len());
    let mut slices = Vec::with_capacity(room.slices().len());
    for (place, slice) in room.slices().iter().enumerate() {
        let mut state = slice.lock();
        // Under another id nothing is said yet; the flusher sees to that.
        let Some(held) = state.ledger.held().filter(|_| state.is_settled(incarnation)) else {
            // The call under way may have been carried out before that happened which this check is made for.
            state.ledger.move_on();
            drop(state);
            core.flush.mark(&room, place);
            continue;
        };
        let (card, version) = slice.size();
        places.push((place, version));
        slices.push(ExpectedSlice { slice: slice.id.clone(), entry: state.ledger.entry(), held: held.members, card });
    }
    let mut viewers = room.peers.said(roster);
    if let Some((own, number)) = room.telling.stored(incarnation) {
        viewers.viewers = viewers.viewers.saturating_add(own);
        viewers.numbers = viewers.numbers.saturating_add(number);
    }
    let live = CheckLive {
        live: record.live.clone(),
        epoch: record.epoch,
        listed: room.take_doubt(),
        removals: room.bans.last(),
        viewers,
        slices,
    };
    Expected { live, places, room }
}

/// Puts right what a check found.
async fn handle(core: &Core, expected: &Expected, findings: Vec<Finding>) -> StoreResult<()> {
    let Expected { room, live, places } = expected;
    if room.end().is_some() {
        return Ok(());
    }
    let now = core.clock.now();
    let mut trouble = Ok(());
    if findings.contains(&Finding::Record) || room.has_new_peaks() {
        trouble = upkeep::touch(core, room).await;
    } else {
        room.note_touch(now);
    }
    let mut met = vec![true; places.len()];
    // One part that cannot be put right now is no reason to leave the others.
    for finding in findings {
        if room.end().is_some() {
            return trouble;
        }
        let mended = match finding {
            Finding::Record => Ok(()),
            Finding::Unlisted => core.store.list_live(&live.live, room.record.opened_at).await,
            Finding::Viewers => gossip::read_again(core, room).await,
            Finding::Slice(index, reading) => {
                let (Some(place), Some(slice)) = (places.get(index), live.slices.get(index)) else { continue };
                met[index] = false;
                look_at_slice(core, room, (*place, slice), &reading).await
            }
        };
        trouble = trouble.and(mended);
    }
    for ((place, version), _) in places.iter().zip(&met).filter(|(_, met)| **met) {
        room.slices()[*place].still_is(*version, now);
    }
    write_again(core, room, now);
    trouble
}

/// A slice is not as expected. Whoever came or went meanwhile by this gateway is in the flusher's hands.
async fn look_at_slice(
    core: &Core,
    room: &Arc<Room>,
    ((place, version), expected): ((usize, u64), &ExpectedSlice),
    reading: &SliceReading,
) -> StoreResult<()> {
    let slice = &room.slices()[place];
    let size = (reading.card, reading.version);
    if room.note_reading(slice, version, size, core.clock.now()) {
        core.changed.mark(room);
    }
    let lost = expected.entry.is_some() && reading.entry.is_none();
    let differs = (reading.entry, reading.held) != (expected.entry, expected.held) || reading.card < expected.held;
    // With the same version, the size can only be another by another program's doing.
    let meddled = reading.version == version && reading.card != expected.card;
    let epoch = room.record.epoch;
    if reading.fence.is_some_and(|fence| fence.epoch() > epoch || fence.is_closed_in(epoch)) {
        // Nobody can be kept in such a live, and while nobody comes no call would find that out.
        return upkeep::over(core, room).await;
    }
    if lost || differs || meddled {
        let unchanged = {
            let mut state = slice.lock();
            let unchanged = state.ledger.entry() == expected.entry && state.ledger.held().is_some();
            if unchanged && lost {
                state.ledger.lose();
            } else if unchanged && expected.entry.is_some() {
                state.ledger.doubt();
            } else if unchanged
                && reading.fence == Some(Fence::Open(epoch))
                && let Some(number) = reading.entry
            {
                state.ledger.found(number, reading.held);
            }
            unchanged
        };
        if lost && unchanged {
            core.own_lease.doubt();
            // The others may have lost as much, and need not learn it one by one.
            core.gossip.doubt(&room.record.live);
        }
        if unchanged {
            core.flush.mark(room, place);
        } else {
            core.upkeep.check_at(room, core.clock.now() + AGAIN);
        }
    }
    if meddled && reading.card > 0 {
        walk::drop_strays(core, &slice.id, 0).await?;
    }
    walk::look_at_gateways(core, &slice.id, &reading.gateways).await
}

/// Has what stands unchanged for long written again, before its lifetime ends.
fn write_again(core: &Core, room: &Arc<Room>, now: Millis) {
    for (place, slice) in room.slices().iter().enumerate() {
        let due = {
            let mut state = slice.lock();
            let due = now.saturating_sub(state.written) > WRITE_AGAIN && state.ledger.wanted() > 0;
            if due {
                state.ledger.move_on();
            }
            due
        };
        if due {
            core.flush.mark(room, place);
        }
    }
    if room.telling.is_older_than(now.saturating_sub(WRITE_AGAIN)) {
        room.telling.forget();
    }
    if room.telling.owes(core.own_lease.incarnation().number, room.own_viewers()) {
        core.gossip.mark(room);
    }
}

/// Looks once more at a live that was let go of, beside everything else.
pub(crate) fn spawn_look_after(core: &Arc<Core>, room: Arc<Room>, tasks: &mut JoinSet<()>) {
    let core = core.clone();
    tasks.spawn(async move {
        if let Err(why) = look_after(&core, &room).await {
            tracing::debug!(live_id = %room.record.live, error = %why, "a live that was let go of was not looked at");
        }
    });
}

/// A failover may have brought back what was let go of, or closed.
async fn look_after(core: &Core, room: &Arc<Room>) -> StoreResult<()> {
    let record = &room.record;
    let here = core.rooms.get(&record.live);
    let closed = match room.end() {
        Some(End::Closed(closed)) if here.as_ref().is_none_or(|here| here.record.epoch == record.epoch) => Some(closed),
        _ if here.is_some() => return Ok(()),
        _ => None,
    };
    let Some(present) = core.store.load_live(&record.live).await? else { return Ok(()) };
    if (present.epoch, present.state) != (record.epoch, LiveState::Open) {
        return Ok(());
    }
    if let Some(closed) = closed {
        tracing::warn!(live_id = %record.live, epoch = %record.epoch, "a live that was closed is open again; closing it once more");
        let reason = closed.closure.map_or(CloseReason::Requested, |closure| closure.reason);
        return core.lives.close_quietly(record, reason).await;
    }
    let own = core.id();
    let said = core.store.view_viewers(&record.live, record.epoch).await?.unwrap_or_default();
    let mut is_there = said.iter().any(|word| word.gateway == own && word.viewers > 0);
    for slice in SliceId::all(&record.live, record.slices) {
        is_there = is_there || core.store.read_slice(&slice, &own).await?.held > 0;
    }
    if is_there {
        // A room finds whom it holds and does not want, and takes them out; and what it said and is not so.
        let _ = core.lives.find(&record.live).await;
    }
    Ok(())
}
