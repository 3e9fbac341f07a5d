//! The schedule of looks and checks. State only: `sync::upkeep` takes what is due and makes the
//! calls.
//!
//! `sync::upkeep` looks at every room every few seconds, in memory only. A room's check asks the
//! store. The check is due at once if there is reason for doubt, and otherwise once per
//! `check-every`.
//!
//! Looks and fan checks of a live have *turns*, so that those due at the same time go out in few
//! calls.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::check_due::CheckDue;
use super::ended_lives::{EndedLive, RetriedLooks};
use super::gateways::Roster;
use super::queue::Queue;
use super::room::Room;
use super::rooms::Rooms;
use crate::base::clock::{Clock, Millis, Moment, millis};
use crate::base::ids::LiveId;
use crate::base::timer_wheel::TimerWheel;
use crate::config::Config;
use crate::store::LiveEpoch;

/// Maximum rooms of one check.
pub const MAX_CHECKED: usize = 200;

/// The interval at which upkeep takes the due items.
pub const TICK: Duration = Duration::from_millis(100);

/// The longest time between two looks at a room. It is shorter if answers of the fan check hold for
/// less than twice this time.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Turns come at multiples of this time.
const GRID: Duration = Duration::from_millis(500);

/// The time over which the checks of many rooms are spread.
const SPREAD: Duration = Duration::from_secs(1);

/// The times after which upkeep looks again at a live whose room has ended: a failover may have
/// brought its keys back.
const RECHECK_ENDED_AFTER: [Duration; 2] = [Duration::from_secs(10), Duration::from_secs(60)];

/// A due item.
#[derive(Debug)]
pub enum Due {
    /// A look at a room; the caller files the next one.
    Look(Arc<Room>),
    /// A room's check, ahead of its regular time.
    Check(Arc<Room>),
    /// A look at a live whose room has ended.
    Ended(EndedLive),
    /// Another look at such a live, since the last look had no answer; [`Checks::take_retried`]
    /// returns the live.
    EndedAgain(LiveEpoch),
}

/// The rooms by the time of their next look.
#[derive(Debug)]
pub struct Checks {
    clock: Clock,
    rooms: Arc<Rooms>,
    every: Millis,
    check_every: Millis,
    fan_ttl: Millis,
    /// `check_every` for a live whose messages this gateway may miss, even if only those of one
    /// gateway. With the default settings it is 4 s: if all messages are lost, these checks must not
    /// keep time with repairs that wait for 5 s.
    check_deaf: Millis,
    wheel: Mutex<TimerWheel<Due>>,
    /// Locked before the wheel.
    retried: Mutex<RetriedLooks>,
    /// The schedule of the platform's check.
    pub platform: CheckDue,
    /// Lives whose record a peer changed.
    pub changed_records: Queue<LiveId>,
}

impl Checks {
    pub fn new(clock: Clock, rooms: Arc<Rooms>, config: &Config) -> Self {
        let look_every = LOOK_EVERY
            .min(config.fan_ttl / 2)
            .min(config.check_every / 4);
        let every = millis(look_every).max(millis(TICK));
        Self {
            clock,
            rooms,
            every,
            check_every: millis(config.check_every),
            fan_ttl: millis(config.fan_ttl),
            check_deaf: millis(config.check_every.min(config.lease_refresh * 2)),
            wheel: Mutex::new(TimerWheel::new(millis(TICK), every, clock.now())),
            retried: Mutex::default(),
            platform: CheckDue::default(),
            changed_records: Queue::default(),
        }
    }

    /// Schedules a new room. Its users' first fan checks come with their joins.
    pub fn admit(&self, room: &Arc<Room>) {
        let now = self.clock.now();
        self.takes_fan_turn(room, now);
        room.schedule.check.by(self.next_check(now));
        self.file_next_look(room.clone());
    }

    /// Files a room for its next look.
    pub fn file_next_look(&self, room: Arc<Room>) {
        let now = self.clock.now();
        let at = now + self.every - self.place(&room, now) % self.every;
        self.wheel.lock().file(at, Due::Look(room));
    }

    /// Whether a turn of fan checks has come since the last call.
    pub fn takes_fan_turn(&self, room: &Room, now: Moment) -> bool {
        room.schedule
            .check
            .take_fan_turn(self.place(room, now) / self.fan_ttl)
    }

    /// The time that counts the turns of a live; it spreads the lives over the grid.
    fn place(&self, room: &Room, now: Moment) -> Millis {
        let spread = xxhash_rust::xxh3::xxh3_64(room.record.live.as_str().as_bytes()) % 1_000_000;
        now.as_millis() + spread * millis(GRID)
    }

    /// Schedules checks of these rooms soon: there is reason to doubt their data in the store.
    pub fn check_soon(&self, rooms: Vec<Arc<Room>>) {
        let spread = if rooms.len() > MAX_CHECKED {
            millis(SPREAD)
        } else {
            0
        };
        let now = self.clock.now();
        for room in rooms {
            room.schedule.check.doubt();
            room.schedule.check.answered();
            self.check_at(&room, now + rand::random_range(0..=spread));
        }
    }

    /// As [`Self::check_soon`], for rooms whose data the store may have lost: their figures are in
    /// doubt until the check.
    pub fn doubt(&self, rooms: Vec<Arc<Room>>) {
        let now = self.clock.now();
        for room in &rooms {
            room.doubt(now);
            self.rooms.show(room);
        }
        self.check_soon(rooms);
    }

    /// As [`Self::doubt`], for every room and the platform.
    pub fn doubt_all(&self) {
        self.doubt(self.rooms.all());
        self.platform.by(self.clock.now());
    }

    /// Schedules checks of every room and the platform soon.
    pub fn check_all_soon(&self) {
        self.check_soon(self.rooms.all());
        self.platform.by(self.clock.now());
    }

    /// Schedules the next regular check of the platform.
    pub fn platform_checked(&self) {
        self.platform.by(self.next_check(self.clock.now()));
    }

    /// Makes a room's check due at that time, unless it is due earlier.
    pub fn check_at(&self, room: &Arc<Room>, at: Moment) {
        let due = room.schedule.check.at();
        if at < due || due == Moment::NEVER {
            room.schedule.check.by(at);
            self.wheel.lock().file(at, Due::Check(room.clone()));
        }
    }

    /// Notes that a check got no answer, and schedules its retry.
    pub fn unanswered(&self, room: &Arc<Room>) {
        room.schedule.check.doubt();
        self.check_at(room, self.clock.now() + room.schedule.check.wait());
        room.schedule.check.unanswered();
    }

    /// Schedules further looks at a live whose room has ended: this gateway's data in the store
    /// must not come back.
    pub fn recheck_ended(&self, room: &Room) {
        let now = self.clock.now();
        let live = EndedLive::new(room);
        let mut wheel = self.wheel.lock();
        for later in RECHECK_ENDED_AFTER {
            wheel.file(now + millis(later), Due::Ended(live.clone()));
        }
    }

    /// Schedules the retry of a look without an answer at a live whose room has ended. False if too
    /// many retries wait already.
    pub fn recheck_ended_again(&self, live: EndedLive) -> bool {
        let of = live.record.live_epoch();
        let mut retried = self.retried.lock();
        if !retried.takes(&of) {
            return false;
        }
        if let Some(at) = retried.add(live, self.clock.now()) {
            self.wheel.lock().file(at, Due::EndedAgain(of));
        }
        true
    }

    /// Takes the live of a retried look.
    pub fn take_retried(&self, of: &LiveEpoch) -> Option<EndedLive> {
        self.retried.lock().take(of)
    }

    /// Notes the end of a check, and schedules the next one.
    pub fn checked(&self, room: &Arc<Room>) {
        let now = self.clock.now();
        if room.schedule.check.may_miss_messages() {
            let every = self.check_deaf;
            self.check_at(
                room,
                now + every - every / 5 + rand::random_range(0..=every / 10),
            );
        } else {
            room.schedule.check.by(self.next_check(now));
        }
    }

    /// When the next regular check is due after one at `now`.
    fn next_check(&self, now: Moment) -> Moment {
        let every = self.check_every;
        now + every - every / 10 + rand::random_range(0..=every / 5)
    }

    /// The greatest age of a check that makes up for missing messages, in ms: a little more than the
    /// time between two of them, so that figures stay exact while a check is under way.
    pub fn enough(&self) -> Millis {
        self.check_deaf * 5 / 4
    }

    /// Notes that this gateway may miss a live's messages from now on: more frequent checks make up
    /// for that.
    pub fn set_deaf(&self, room: &Room) {
        if room.schedule.check.set_deaf() {
            room.schedule
                .check
                .by(self.clock.now() + rand::random_range(0..=self.check_deaf));
        }
    }

    /// Applies a new roster, which decides whose viewers count and whether figures are in doubt.
    pub fn roster_changed(&self, roster: &Roster) {
        self.rooms
            .update_friends_where(|room| room.friends.roster_changed());
        for room in self.rooms.all() {
            let changed = room.figures.note_peers(|peers| peers.sum_up(roster));
            if changed {
                self.rooms.count(&room);
            }
            // Even if nothing changes now: an earlier message may have applied the new roster.
            let has_unswept = !room.figures.unswept().is_empty();
            if has_unswept {
                room.schedule.check.doubt();
            }
            if changed || has_unswept {
                // The sweep of a dead gateway's members comes about now, and perhaps no message
                // tells this gateway the new size.
                self.check_at(&room, self.clock.now() + rand::random_range(1_000..3_000));
            }
        }
    }

    /// Takes what is due.
    pub fn due(&self, now: Moment) -> Vec<Due> {
        self.wheel.lock().due(now)
    }
}
