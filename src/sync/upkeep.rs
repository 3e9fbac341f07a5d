//! Upkeep of rooms: renews fan checks, has due rooms checked, and evicts idle rooms. It also reacts
//! to the store's health and doubts. The schedule is in [`crate::presence::checks`].

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::base::clock::{Millis, Moment, millis};
use crate::peers::core::Core;
use crate::presence::checks::{Due, MAX_CHECKED, TICK};
use crate::presence::ended_lives::EndedLive;
use crate::presence::{Audience, Room};
use crate::store::LiveEpoch;
use crate::store::{Doubt, Health, REBUILD};
use crate::sync::check::Checker;
use crate::sync::fan_check::{Expired, FanCheck};
use crate::sync::lives::leave_channel;
use crate::sync::seen::SeenUsers;

/// A room that was unused for this long is evicted.
const IDLE: Duration = Duration::from_secs(30);

/// A rebuild that is due to end is ended within this time, in ms.
const REBUILD_ENDS_WITHIN: Millis = 1_000;

/// Slices whose public sets differ from what gateways hold are looked at after a time in this range,
/// in ms. All gateways that hold a slice hear of it at the same time, and the
/// pass of one of them is mostly enough.
const LOOK_AFTER: Range<Millis> = 1_000..10_000;

/// Maximum calls under way. Further checks wait for a moment.
const MAX_CALLS: usize = 16;

pub struct Upkeep {
    pub core: Arc<Core>,
    pub checker: Arc<Checker>,
    pub seen: Arc<SeenUsers>,
    pub fans: Arc<FanCheck>,
}

/// Takes the rooms of one call: the rooms that have waited longest.
fn next_checked<T>(due: &mut VecDeque<T>) -> Vec<T> {
    due.drain(..due.len().min(MAX_CHECKED)).collect()
}

impl Upkeep {
    pub async fn run(self, stop: CancellationToken) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        let mut health = self.core.store.health();
        let mut known = *health.borrow_and_update();
        self.core.checks.platform_checked();
        let mut calls = JoinSet::new();
        // Each set has at most one task, which looks at many ended lives. Checks do not wait for it.
        // First looks do not wait for repeated ones, which may take long while a part of the store
        // is away.
        let mut looks = JoinSet::new();
        let mut retries = JoinSet::new();
        let mut due: VecDeque<Arc<Room>> = VecDeque::new();
        let mut ended: Vec<EndedLive> = Vec::new();
        let mut retried: Vec<LiveEpoch> = Vec::new();
        let mut expired: Vec<Expired> = Vec::new();
        let mut doubts = self.core.store.doubts();
        let mut parts = self.core.store.parts();
        let mut unheard = self.core.store.unheard();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = tick.tick() => {}
                Some(doubt) = doubts.next() => {
                    self.doubt(&doubt);
                    continue;
                }
                Ok(()) = parts.changed() => {
                    // Figures in a part that is away are in doubt.
                    self.core.rooms.count_all();
                    continue;
                }
                Ok(()) = unheard.changed() => {
                    let there = unheard.borrow_and_update().clone();
                    // Messages may have been missing and come again since this task last ran.
                    self.core.rooms.update_friends_where(|room| room.friends.doubt());
                    self.note_unheard(there.as_ref(), self.core.rooms.all());
                    continue;
                }
            }
            let present = *health.borrow_and_update();
            if known != present {
                known = present;
                self.note_health(present);
            }
            for tasks in [&mut calls, &mut looks, &mut retries] {
                while let Some(done) = tasks.try_join_next() {
                    // A call that panicked is a bug, and the wiring stops the process.
                    if done.is_err() {
                        return;
                    }
                }
            }
            let now = self.core.clock.now();
            for audience in self.core.rooms.to_look_at.take() {
                self.look_later(&audience, now);
            }
            let missing = unheard.borrow().clone();
            for filed in self.core.checks.due(now) {
                match filed {
                    Due::Look(room) => {
                        if self.look(&room, now) {
                            // The room may be newer than the news.
                            self.note_unheard(missing.as_ref(), vec![room.clone()]);
                            self.expire_fan_checks(&room, now, &mut expired);
                            if room.schedule.check.take(now) {
                                due.push_back(room.clone());
                            }
                            self.core.checks.file_next_look(room);
                        }
                    }
                    Due::Check(room) => {
                        if room.end().is_none() && room.schedule.check.take(now) {
                            due.push_back(room);
                        }
                    }
                    Due::Ended(live) => ended.push(live),
                    Due::EndedAgain(of) => retried.push(of),
                }
            }
            // While the store is away a check learns nothing; every room is checked when the store
            // is back.
            if present == Health::Down {
                for room in due.drain(..) {
                    self.core.checks.checked(&room);
                }
            }
            if present == Health::Up && !ended.is_empty() && looks.is_empty() {
                let checker = self.checker.clone();
                let ended = std::mem::take(&mut ended);
                looks.spawn(async move { checker.check_ended(ended).await });
            }
            if present == Health::Up && !retried.is_empty() && retries.is_empty() {
                let mut lives = Vec::with_capacity(retried.len());
                for of in retried.drain(..) {
                    lives.extend(self.core.checks.take_retried(&of));
                }
                let checker = self.checker.clone();
                retries.spawn(async move { checker.check_ended(lives).await });
            }
            if self.core.checks.platform.take(now) {
                self.core.checks.platform_checked();
                if present == Health::Up {
                    for platform in self.core.rooms.platforms() {
                        let checker = self.checker.clone();
                        let platform = platform.clone();
                        calls.spawn(async move { checker.check_platform(platform).await });
                    }
                }
            }
            if !expired.is_empty() && calls.len() < MAX_CALLS {
                let fans = self.fans.clone();
                let expired = std::mem::take(&mut expired);
                calls.spawn(async move { fans.renew(expired).await });
            }
            while !due.is_empty() && calls.len() < MAX_CALLS {
                let rooms = next_checked(&mut due);
                let checker = self.checker.clone();
                calls.spawn(async move { checker.check(rooms).await });
            }
        }
    }

    fn note_health(&self, health: Health) {
        self.core.rules.doubt(self.core.clock.now());
        match health {
            Health::Down => {
                tracing::warn!("the store is away; sockets are kept, counts are stale");
                self.core.metrics.store_up.set(0);
                self.core.gateways.own.note_store(health);
            }
            Health::Up => {
                tracing::info!("the store is back");
                self.core.metrics.store_up.set(1);
                self.core.gateways.doubt();
                self.core.checks.doubt_all();
                self.core.gateways.own.note_store(health);
            }
        }
    }

    fn look_later(&self, audience: &Audience, now: Moment) {
        let at = if audience.has_rebuild() {
            // Somebody has to end it.
            now + millis(REBUILD) + rand::random_range(0..REBUILD_ENDS_WITHIN)
        } else {
            now + rand::random_range(LOOK_AFTER)
        };
        match audience {
            Audience::Room(room) => self.core.checks.check_at(room, at),
            Audience::Platform(_) => self.core.checks.platform.by(at),
        }
    }

    /// Checks the rooms whose keys lie in the doubted slots. Follows and last-seen times may lie in
    /// any slot, so they are always in doubt.
    fn doubt(&self, doubt: &Doubt) {
        self.core.metrics.doubts.inc();
        self.core.rules.doubt(self.core.clock.now());
        self.seen.forget();
        self.core.rooms.recent_follows.clear();
        self.core
            .rooms
            .update_friends_where(|room| room.friends.doubt_follows());
        let list = doubt.covers(self.core.store.slot_of_list());
        let mut rooms = self.core.rooms.all();
        rooms.retain(|room| {
            list || doubt.covers(self.core.store.slot_of_live(&room.record.live))
                || room
                    .slices()
                    .iter()
                    .any(|slice| doubt.covers(self.core.store.slot_of_slice(&slice.id)))
        });
        self.core.checks.doubt(rooms);
        let mut slices = self
            .core
            .rooms
            .platforms()
            .flat_map(|platform| platform.slices());
        if slices.any(|slice| doubt.covers(self.core.store.slot_of_slice(&slice.id))) {
            self.core.checks.platform.by(self.core.clock.now());
        }
    }

    /// Notes in which slots messages of some gateway do not arrive. Rooms there are checked soon,
    /// and often until the messages arrive again; then once more, for what the last ones said.
    fn note_unheard(&self, there: Option<&Doubt>, mut rooms: Vec<Arc<Room>>) {
        rooms.retain(|room| {
            let is_there = match there {
                Some(there) => there.covers(self.core.store.slot_of_live(&room.record.live)),
                None => false,
            };
            let changed = room.schedule.check.set_unheard(is_there);
            if changed || is_there {
                if room.friends.doubt() {
                    self.core.rooms.update_friends(room);
                }
                // Another gateway may have asked for moves, and its message was lost.
                if room.moves.note_asked() {
                    self.core.rooms.publish(room);
                }
            }
            changed
        });
        for room in &rooms {
            self.core.rooms.show(room);
        }
        self.core.checks.check_soon(rooms);
    }

    /// One look at a room, in memory. False if the room is gone.
    fn look(&self, room: &Arc<Room>, now: Moment) -> bool {
        if room.end().is_some() {
            return false;
        }
        let owes = room.figures.has_unpublished_viewers() || room.schedule.counting.queued.is_set();
        let used = room.is_used() || owes || self.core.rooms.is_kept_here(room);
        if !used
            && now.since(room.schedule.last_used()) > millis(IDLE)
            && self.lets_go(room, now)
            && self.core.rooms.evict_if_idle(room)
        {
            leave_channel(
                self.core.store.as_ref(),
                &self.core.rooms,
                &room.record.live,
            );
            self.core.checks.recheck_ended(room);
            return false;
        }
        room.seats.bans.forget_ended(now);
        true
    }

    /// Whether no slice has an entry of this gateway any more. Has the entries taken away that are
    /// there.
    fn lets_go(&self, room: &Arc<Room>, now: Moment) -> bool {
        let mut has_let_go = true;
        for slice in Audience::from(room).slices() {
            let mut state = slice.lock();
            if state.has_let_go() {
                continue;
            }
            has_let_go = false;
            let is_due = state.let_go(now);
            drop(state);
            if is_due {
                self.core.rooms.flush(&slice);
            }
        }
        has_let_go
    }

    /// Finds the users whose fan check has expired. Large slices are left to the flusher.
    fn expire_fan_checks(&self, room: &Arc<Room>, now: Moment, expired: &mut Vec<Expired>) {
        let then = now - millis(self.core.config.fan_ttl);
        let together = if self.core.checks.takes_fan_turn(room, now) {
            now
        } else {
            then
        };
        for slice in Audience::from(room).slices() {
            let fans = slice.expire_checks(then, together);
            self.core.rooms.check_fans(&slice);
            if let Some(fans) = fans {
                let streamer = room.record.streamer.clone();
                expired.push(Expired {
                    slice,
                    streamer,
                    fans,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::LiveId;
    use crate::config::Config;
    use crate::store::CloseReason;
    use crate::testing::{FaultyStore, open_live, parts_on};

    #[test]
    fn the_rooms_that_have_waited_longest_are_checked_first() {
        let mut due: VecDeque<usize> = (0..=MAX_CHECKED).collect();
        assert_eq!(next_checked(&mut due), (0..MAX_CHECKED).collect::<Vec<_>>());
        assert_eq!(next_checked(&mut due), [MAX_CHECKED]);
    }

    #[tokio::test(start_paused = true)]
    async fn checks_do_not_wait_for_looks_at_ended_lives() {
        let store = Arc::new(FaultyStore::new());
        let parts = parts_on(&Config::default(), store.clone());
        let (lives, sessions) = (parts.app.lives.clone(), parts.app.sessions.clone());
        let (checks, clock) = (parts.upkeep.core.checks.clone(), parts.app.core.clock);
        for n in 0..2 * MAX_CALLS {
            open_live(&sessions, &format!("ended{n}")).await;
            let live = LiveId::parse(&format!("ended{n}")).unwrap();
            lives
                .close(&live, None, CloseReason::Requested)
                .await
                .unwrap();
        }
        let room = open_live(&sessions, "42").await;
        // Only these looks read a record.
        store.hangs("load_live");
        let stop = CancellationToken::new();
        let upkeep = tokio::spawn(parts.upkeep.run(stop.clone()));
        let calls = || store.calls.load(std::sync::atomic::Ordering::SeqCst);
        let before = calls();
        let until = async |wished: &dyn Fn() -> bool| {
            let looks = async {
                while !wished() {
                    tokio::time::sleep(TICK).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(30), looks)
                .await
                .unwrap();
        };
        until(&|| calls() >= before + MAX_CALLS as u64).await;
        checks.check_soon(vec![room.clone()]);
        until(&|| {
            room.schedule.check.at() != Moment::NEVER
                && room.schedule.check.at() > clock.now() + 30_000
        })
        .await;
        stop.cancel();
        upkeep.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_look_at_an_ended_live_does_not_wait_for_looks_that_are_made_again() {
        let store = Arc::new(FaultyStore::new());
        let parts = parts_on(&Config::default(), store.clone());
        let (lives, sessions) = (parts.app.lives.clone(), parts.app.sessions.clone());
        let closes = async |live: &str| {
            open_live(&sessions, live).await;
            lives
                .close(&LiveId::parse(live).unwrap(), None, CloseReason::Requested)
                .await
                .unwrap();
        };
        closes("retried").await;
        store.fails_once("load_live", 0);
        let stop = CancellationToken::new();
        let upkeep = tokio::spawn(parts.upkeep.run(stop.clone()));
        tokio::time::sleep(Duration::from_millis(10_500)).await;
        store.hangs("load_live");
        tokio::time::sleep(Duration::from_secs(2)).await;
        store.heals();
        closes("fresh").await;
        let calls = || store.calls.load(std::sync::atomic::Ordering::SeqCst);
        let before = calls();
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert!(calls() > before);
        stop.cancel();
        upkeep.await.unwrap();
    }
}
