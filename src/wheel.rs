//! Owns a coarse timer wheel: things to look at again at about a given time, at a cost of O(1) each.
//!
//! Nothing is cancelled or moved in the wheel: who is looked at decides from its own present state whether anything is
//! due, and is filed again. That makes a heartbeat free of timers (lazy re-filing). Called by the reaper (sockets) and
//! by upkeep (rooms).

use crate::clock::Millis;

/// A ring of buckets, one per tick.
#[derive(Debug)]
pub struct Wheel<T> {
    tick: Millis,
    /// The tick up to which everything was handed out.
    done: u64,
    buckets: Vec<Vec<(u64, T)>>,
}

impl<T> Wheel<T> {
    /// A wheel of `tick` milliseconds per bucket that goes round once in `span`; what is filed further off than that
    /// costs one extra look per round.
    pub fn new(tick: Millis, span: Millis, now: Millis) -> Self {
        let tick = tick.max(1);
        let size = (span / tick + 2).clamp(4, 4_096) as usize;
        Self { tick, done: now / tick, buckets: (0..size).map(|_| Vec::new()).collect() }
    }

    /// Files a thing to be handed out at `at` or up to two ticks later, never before; the past means the next turn.
    pub fn file(&mut self, at: Millis, thing: T) {
        let turn = at.div_ceil(self.tick).max(self.done + 1);
        let size = self.buckets.len() as u64;
        self.buckets[(turn % size) as usize].push((turn, thing));
    }

    /// Takes out all that is due by `now`. A bucket keeps no more room than what stays in it needs, so that once round
    /// after a peak the wheel is as small as before.
    pub fn due(&mut self, now: Millis) -> Vec<T> {
        let turn = now / self.tick;
        let size = self.buckets.len() as u64;
        let mut due = Vec::new();
        for step in (self.done + 1..=turn).take(self.buckets.len()) {
            let bucket = &mut self.buckets[(step % size) as usize];
            let (ready, later): (Vec<_>, Vec<_>) = std::mem::take(bucket).into_iter().partition(|(at, _)| *at <= turn);
            *bucket = later;
            due.extend(ready.into_iter().map(|(_, thing)| thing));
        }
        self.done = self.done.max(turn);
        due
    }

    /// Everything filed.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.buckets.iter().flatten().map(|(_, thing)| thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_come_out_once_and_never_early() {
        let mut wheel = Wheel::new(250, 5_000, 1_000);
        let times = [0, 1_000, 1_001, 1_249, 1_250, 2_000, 6_100, 60_000];
        for at in times {
            wheel.file(at, at);
        }
        let mut seen = Vec::new();
        for now in (1_000..70_000).step_by(100) {
            for at in wheel.due(now) {
                assert!(at <= now, "{at} came at {now}");
                assert!(now < at.max(1_000) + 600, "{at} came only at {now}");
                seen.push(at);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, times);
    }

    #[test]
    fn a_long_pause_loses_nothing() {
        let mut wheel = Wheel::new(100, 1_000, 0);
        for at in 0..5_000 {
            wheel.file(at, at);
        }
        assert_eq!(wheel.due(1_000_000).len(), 5_000);
    }

    #[test]
    fn after_a_peak_it_gives_the_room_back() {
        let mut wheel = Wheel::new(100, 1_000, 0);
        let room = |wheel: &Wheel<u64>| wheel.buckets.iter().map(Vec::capacity).sum::<usize>();
        for at in 0..100_000 {
            wheel.file(at % 1_000, at);
        }
        assert!(room(&wheel) >= 100_000);
        // All are looked at for some rounds; then all but ten have gone.
        for now in (0..5_000).step_by(100) {
            for thing in wheel.due(now) {
                if now < 3_000 || thing < 10 {
                    wheel.file(now + 500, thing);
                }
            }
        }
        assert_eq!(wheel.iter().count(), 10);
        assert!(room(&wheel) <= 100, "room for {}", room(&wheel));
    }
}
