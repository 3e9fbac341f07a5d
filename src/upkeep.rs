//! Owns what a room needs from time to time: its leases renewed, its record looked at, its fan checks renewed, and its
//! end when nobody needs it any more.
//!
//! Every room is looked at once per `lease_refresh`, spread over it. The look itself only marks slices for the flusher,
//! which makes the calls, or has many still rooms renewed in one call (`renewal.rs`), so nothing here waits for the store
//! but [`touch`], which the flusher runs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::clock::{Clock, Millis, millis};
use crate::core::Core;
use crate::gossip;
use crate::removals;
use crate::renewal::{RECONCILE_ROUNDS, Stills};
use crate::rooms::Room;
use crate::store::{CloseReason, Health, OpenedBy, Standing, StoreResult, TouchLive};
use crate::wheel::Wheel;

/// A room that nobody used for so long is evicted.
const IDLE: Duration = Duration::from_secs(30);

/// How often due rooms are looked for.
const TICK: Duration = Duration::from_millis(100);

/// A room to look at.
#[derive(Debug)]
struct Look {
    room: Arc<Room>,
    why: Why,
}

/// Why a room is looked at.
#[derive(Debug, Clone, Copy)]
enum Why {
    /// It is its turn, for that many times.
    Round(u64),
    /// It was its turn, for that many times, and there were too many.
    Late(u64),
    /// The store is back, or words were lost: nothing is taken for granted.
    Doubt,
}

/// The rooms by the time of their next look.
#[derive(Debug)]
pub struct Upkeep {
    clock: Clock,
    every: Millis,
    wheel: Mutex<Wheel<Look>>,
}

impl Upkeep {
    /// A look at each room every `every`.
    pub fn new(clock: Clock, every: Duration) -> Self {
        let every = millis(every);
        Self { clock, every, wheel: Mutex::new(Wheel::new(millis(TICK), every, clock.now())) }
    }

    /// Takes a new room under care; its first look comes at a random time within the interval.
    pub fn admit(&self, room: &Arc<Room>) {
        let at = self.clock.now() + rand::random_range(0..=self.every);
        // A random first round, so that the read-backs of rooms that come together do not come together too.
        let round = rand::random_range(0..1_000);
        self.wheel.lock().file(at, Look { room: room.clone(), why: Why::Round(round) });
    }

    /// Looks at rooms once more, spread over half the interval: the store is back, or words were lost.
    pub fn look_soon(&self, rooms: Vec<Arc<Room>>) {
        let now = self.clock.now();
        let mut wheel = self.wheel.lock();
        for room in rooms {
            let at = now + rand::random_range(0..=self.every / 2);
            wheel.file(at, Look { room, why: Why::Doubt });
        }
    }
}

/// Runs until told to stop.
pub async fn run(core: Arc<Core>, stop: CancellationToken) {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut health = core.store.health();
    let mut known = *health.borrow_and_update();
    let mut parts = core.store.parts();
    let mut was_whole = None;
    let mut renewals = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => {}
        }
        let present = *health.borrow_and_update();
        let turned = present != known;
        if turned {
            known = present;
            notice(&core, present);
        }
        let is_whole = parts.borrow_and_update().is_whole();
        if was_whole.replace(is_whole) != Some(is_whole) {
            let since = if is_whole { core.clock.now() } else { u64::MAX };
            core.store_up_since.store(since, Ordering::Relaxed);
            // A part was away, the rest was not: what it had may be lost, the list of lives for one.
            if is_whole && present == Health::Up && !turned {
                core.upkeep.look_soon(core.rooms.all());
            }
        }
        let now = core.clock.now();
        // The lock is let go of before the looks, which file rooms again.
        let due = core.upkeep.wheel.lock().due(now);
        while let Some(done) = renewals.try_join_next() {
            // A call that panicked is a bug, and the wiring stops the process.
            if done.is_err() {
                return;
            }
        }
        let mut stills = Stills::default();
        for Look { room, why } in due {
            if let (true, Why::Round(round)) = (look(&core, &room, why, now, &mut stills), why) {
                let next = Look { room, why: Why::Round(round + 1) };
                core.upkeep.wheel.lock().file(now + core.upkeep.every, next);
            }
        }
        for (room, round) in stills.renew(&core, now, &mut renewals) {
            core.upkeep.wheel.lock().file(now + millis(TICK), Look { room, why: Why::Late(round) });
        }
    }
}

fn notice(core: &Core, health: Health) {
    match health {
        Health::Down => {
            tracing::warn!("the store is away; sockets are kept, counts are stale");
            core.gossip.set_audible(None);
            core.metrics.store_up.set(0);
        }
        Health::Up => {
            tracing::info!("the store is back");
            core.gossip.set_audible(Some(core.clock.now()));
            core.metrics.store_up.set(1);
            core.upkeep.look_soon(core.rooms.all());
        }
    }
}

/// One look at a room. False if it is gone.
fn look(core: &Core, room: &Arc<Room>, why: Why, now: Millis, stills: &mut Stills) -> bool {
    if room.end().is_some() {
        return false;
    }
    let used = is_used(core, room);
    if !used && now.saturating_sub(room.last_used()) > millis(IDLE) && core.rooms.evict_if_idle(room) {
        core.gossip.ended(room);
        return false;
    }
    let (round, doubt) = match why {
        Why::Round(round) | Why::Late(round) => (round, false),
        Why::Doubt => (0, true),
    };
    if doubt {
        room.list_soon();
        // Whatever the counts say, what is held is compared before long.
        room.slices().iter().for_each(|slice| slice.lock().written = true);
    }
    if let Some(then) = now.checked_sub(millis(core.config.fan_ttl)) {
        for (place, slice) in room.slices().iter().enumerate() {
            if slice.lock().expire_checks(then) {
                core.flush.mark(room, place);
            }
        }
    }
    if doubt || !stills.take(core, room, round, now) {
        if !doubt && round.is_multiple_of(RECONCILE_ROUNDS) {
            for slice in room.slices() {
                let mut state = slice.lock();
                state.reconcile_due |= state.ledger.is_registered();
            }
        }
        refresh(core, room);
    }
    // Time alone can make figures partial.
    core.changed.mark(room);
    true
}

fn is_used(core: &Core, room: &Room) -> bool {
    room.is_used() || core.streamers.is_here(&room.record.streamer)
}

/// Has all of a room refreshed, slice by slice. An empty room only keeps its record in sight.
pub(crate) fn refresh(core: &Core, room: &Arc<Room>) {
    let slices = if is_used(core, room) { room.slices() } else { &room.slices()[..1] };
    for (place, slice) in slices.iter().enumerate() {
        slice.lock().refresh_due = true;
        core.flush.mark(room, place);
    }
}

/// Tells the store that the live is held open here, and hears how it stands. Ends the room if the epoch is over, and
/// closes the live if its streamer was silent for too long.
///
/// # Errors
/// The store's; nothing is changed then.
pub async fn touch(core: &Core, room: &Arc<Room>) -> StoreResult<()> {
    let now = core.clock.now();
    let streamer = &room.record.streamer;
    let before = room.last_touch();
    // A new room may have been made because the streamer was heard before.
    let news = if room.was_touched() { 0 } else { millis(core.config.streamer_seen_within()) };
    let streamer_heard = core.streamers.last_heard(streamer).is_some_and(|at| at + news >= before);
    let mut record = room.record.clone();
    record.peaks = room.peaks();
    record.removals = room.bans.last();
    room.bans.forget_ended(now);
    let peaks = record.peaks;
    let touch = TouchLive { record, streamer_heard, relist: room.relist(now) };
    match core.store.touch_live(&touch).await? {
        Standing::Open { streamer_silent, removals } => {
            room.note_whole(now, peaks);
            removals::catch_up_quietly(core, room, removals).await;
            say_viewers(core, room).await;
            // After a stand-still the streamer is judged the next time, when what it sent meanwhile has been read.
            let stood_still = now.saturating_sub(before) > millis(core.config.lease);
            if room.record.opened_by == OpenedBy::Streamer && !stood_still && core.streamer_gave_up(streamer_silent) {
                core.lives.close_quietly(&room.record, CloseReason::StreamerTimeout).await?;
            }
        }
        Standing::Rewritten => {
            tracing::warn!(live_id = %room.record.live, "the store had lost the live; wrote it again");
            room.note_whole(now, peaks);
            if room.bans.last() > 0 {
                removals::catch_up_quietly(core, room, u64::MAX).await;
            }
            say_viewers(core, room).await;
        }
        Standing::Over(record) => core.lives.let_go(room, record).await?,
    }
    Ok(())
}

/// Only after the record was found open. Whatever becomes of it, the lease is renewed.
async fn say_viewers(core: &Core, room: &Arc<Room>) {
    if let Err(why) = gossip::refresh(core, room).await {
        tracing::debug!(live_id = %room.record.live, error = %why, "viewers were not told, will try again");
    }
}

/// A slice's fence says that the epoch is over. Mostly the record says so too; where the store lost the record's close
/// but kept the fence's, the close is done once more, for nobody can be kept in such a live.
///
/// # Errors
/// The store's; the slice is tried again.
pub async fn over(core: &Core, room: &Arc<Room>) -> StoreResult<()> {
    touch(core, room).await?;
    if room.end().is_none() {
        tracing::warn!(live_id = %room.record.live, epoch = %room.record.epoch, "a fence is ahead of the live's record; closing the live");
        core.lives.close_quietly(&room.record, CloseReason::Requested).await?;
    }
    Ok(())
}
