//! What a room needs from time to time: its fan checks renewed, a check whether the store holds what it should, and its end
//! when nobody needs it any more.
//!
//! Every room is looked at each few seconds, in memory only. A room's check is due once in `check-every`, and at once where
//! there is reason for doubt; those that are due in one tick go to the store together ([`crate::check`]).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::check;
use crate::clock::{Clock, Millis, millis};
use crate::config::Config;
use crate::core::Core;
use crate::gossip::word::Word;
use crate::removals;
use crate::rooms::Room;
use crate::store::{CloseReason, Health, MAX_CHECKED, Standing, StoreResult};
use crate::timer_wheel::TimerWheel;

/// A room that nobody used for so long is evicted.
const IDLE: Duration = Duration::from_secs(30);

/// How often due rooms are looked for.
const TICK: Duration = Duration::from_millis(100);

/// Rooms are looked at this often, or more often where answers of the fan check hold for less than twice as long.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Checks that many rooms have reason for are spread over so long.
const SPREAD: Duration = Duration::from_secs(1);

/// Calls under way at a time; checks beyond that wait for a moment.
const MAX_CALLS: usize = 16;

/// A room that was let go of is looked at again after so long: a failover may have brought it back.
const LOOK_AFTER: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(60)];

/// What is filed for its time.
#[derive(Debug)]
enum Filed {
    /// A room, to be filed again.
    Room(Arc<Room>),
    /// A room whose check is due ahead of its turn.
    Doubted(Arc<Room>),
    /// A room that ended.
    Ended(Arc<Room>),
}

/// The rooms by the time of their next look.
#[derive(Debug)]
pub struct Upkeep {
    clock: Clock,
    every: Millis,
    check_every: Millis,
    /// The same of a live of which other gateways' words are not heard.
    check_deaf: Millis,
    wheel: Mutex<TimerWheel<Filed>>,
}

impl Upkeep {
    /// Looks at each room as often as the settings ask for.
    pub fn new(clock: Clock, config: &Config) -> Self {
        let every = millis(LOOK_EVERY.min(config.fan_ttl / 2).min(config.check_every / 4)).max(millis(TICK));
        let wheel = Mutex::new(TimerWheel::new(millis(TICK), every, clock.now()));
        Self {
            clock,
            every,
            check_every: millis(config.check_every),
            check_deaf: millis(config.check_every.min(config.lease_refresh * 5 / 2)),
            wheel,
        }
    }

    /// Takes a new room under care; its first look comes at a random time within the interval.
    pub fn admit(&self, room: &Arc<Room>) {
        let now = self.clock.now();
        room.check_by(now + rand::random_range(0..=self.check_every));
        self.wheel.lock().file(now + rand::random_range(0..=self.every), Filed::Room(room.clone()));
    }

    /// There is reason to doubt what the store holds of these rooms: each is checked, soon.
    pub fn check_soon(&self, rooms: Vec<Arc<Room>>) {
        let spread = if rooms.len() > MAX_CHECKED { millis(SPREAD) } else { 0 };
        let now = self.clock.now();
        for room in rooms {
            room.doubt();
            self.check_at(&room, now + rand::random_range(0..=spread));
        }
    }

    /// A room is checked at that time.
    pub fn check_at(&self, room: &Arc<Room>, at: Millis) {
        if at < room.check_due() || room.check_due() == Millis::MAX {
            room.check_by(at);
            self.wheel.lock().file(at, Filed::Doubted(room.clone()));
        }
    }

    /// A room ended, and the live may go on: what this gateway had there must not come back.
    pub fn look_after(&self, room: &Arc<Room>) {
        let mut wheel = self.wheel.lock();
        for later in LOOK_AFTER {
            wheel.file(self.clock.now() + millis(later), Filed::Ended(room.clone()));
        }
    }

    /// A check was made; the next is due in its turn.
    pub fn checked(&self, room: &Arc<Room>) {
        let (now, jitter) = (self.clock.now(), |every: Millis| every - every / 20 + rand::random_range(0..=every / 10));
        if room.is_deaf() {
            self.check_at(room, now + jitter(self.check_deaf));
        } else {
            room.check_by(now + jitter(self.check_every));
        }
    }

    /// What other gateways say of a live may go unheard from now on: more checks find it.
    pub fn set_deaf(&self, room: &Room) {
        if !room.set_deaf(true) {
            room.check_by(self.clock.now() + rand::random_range(0..=self.check_deaf));
        }
    }
}

/// Runs until told to stop.
pub async fn run(core: Arc<Core>, stop: CancellationToken) {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut health = core.store.health();
    let mut known = *health.borrow_and_update();
    let mut checks = JoinSet::new();
    let mut due: Vec<Arc<Room>> = Vec::new();
    let mut doubts = core.store.doubts();
    let mut parts = core.store.parts();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = tick.tick() => {}
            Some(doubt) = doubts.next() => {
                core.doubt(&doubt);
                continue;
            }
            Ok(()) = parts.changed() => {
                // What lies in a part that is away is in doubt.
                core.rooms.all().iter().for_each(|room| core.changed.mark(room));
                continue;
            }
        }
        let present = *health.borrow_and_update();
        if std::mem::replace(&mut known, present) != present {
            notice(&core, present);
        }
        while let Some(done) = checks.try_join_next() {
            // A call that panicked is a bug, and the wiring stops the process.
            if done.is_err() {
                return;
            }
        }
        let now = core.clock.now();
        // The lock is let go of before the looks, which file rooms again.
        let filed = core.upkeep.wheel.lock().due(now);
        for filed in filed {
            match filed {
                Filed::Room(room) => {
                    if look(&core, &room, now) {
                        due.extend(room.take_check(now).then(|| room.clone()));
                        core.upkeep.wheel.lock().file(now + core.upkeep.every, Filed::Room(room));
                    }
                }
                Filed::Doubted(room) => due.extend((room.end().is_none() && room.take_check(now)).then_some(room)),
                Filed::Ended(room) => check::spawn_look_after(&core, room, &mut checks),
            }
        }
        // While the store is away nothing can be learned; all is checked when it is back.
        if present == Health::Down {
            due.drain(..).for_each(|room| core.upkeep.checked(&room));
        }
        while !due.is_empty() && checks.len() < MAX_CALLS {
            let rooms = due.split_off(due.len().saturating_sub(MAX_CHECKED));
            let core = core.clone();
            checks.spawn(async move { check::check(&core, rooms).await });
        }
    }
}

fn notice(core: &Core, health: Health) {
    match health {
        Health::Down => {
            tracing::warn!("the store is away; sockets are kept, counts are stale");
            core.metrics.store_up.set(0);
        }
        Health::Up => {
            tracing::info!("the store is back");
            core.metrics.store_up.set(1);
            core.doubt_everything();
        }
    }
}

/// One look at a room. False if it is gone.
fn look(core: &Core, room: &Arc<Room>, now: Millis) -> bool {
    if room.end().is_some() {
        return false;
    }
    let owes = room.telling.owes(core.own_lease.incarnation().number, room.own_viewers());
    let used = room.is_used() || owes || core.streamers.is_here(&room.record.streamer);
    if !used && now.saturating_sub(room.last_used()) > millis(IDLE) && core.rooms.evict_if_idle(room) {
        core.gossip.ended(room);
        core.upkeep.look_after(room);
        return false;
    }
    let ttl = millis(core.config.fan_ttl);
    if let Some(then) = now.checked_sub(ttl) {
        for (place, slice) in room.slices().iter().enumerate() {
            if slice.lock().expire_checks(then, then + ttl / 3) {
                core.flush.mark(room, place);
            }
        }
    }
    room.bans.forget_ended(now);
    true
}

/// Tells the store that the live is held open here, and hears how it stands. Ends the room if the epoch is over.
///
/// # Errors
/// The store's; nothing is changed then.
pub async fn touch(core: &Core, room: &Arc<Room>) -> StoreResult<()> {
    let now = core.clock.now();
    let peaks = room.peaks();
    let told = crate::store::LiveRecord { peaks, removals: room.bans.last(), ..room.record.clone() };
    match core.store.keep_live(&told, &Word::Doubt.text(&core.id())).await? {
        Standing::Open { removals } => {
            room.note_touch(now);
            room.note_peaks_told(peaks);
            removals::catch_up_quietly(core, room, removals).await;
        }
        Standing::Rewritten => {
            tracing::warn!(live_id = %room.record.live, "the store had lost the live; wrote it again");
            room.note_touch(now);
            room.note_peaks_told(peaks);
            // With the record went what this gateway said of its viewers.
            room.telling.forget();
            core.gossip.mark(room);
            if room.bans.last() > 0 {
                removals::catch_up_quietly(core, room, u64::MAX).await;
            }
        }
        Standing::Over(record) => core.lives.let_go(room, record).await?,
    }
    Ok(())
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
