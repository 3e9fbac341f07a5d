//! A coarse timer wheel: hands out items at about a given time, at a cost of O(1) each. The reaper
//! files sockets in it, upkeep files rooms.
//!
//! The wheel never cancels or moves an item: the caller checks the present state of an item that
//! comes out, and files it again if necessary. So a heartbeat touches no timer.

use crate::base::clock::{Millis, Moment};

#[derive(Debug)]
pub(crate) struct TimerWheel<T> {
    tick: Millis,
    /// The tick up to which everything was handed out.
    done: u64,
    /// One for each tick of a round; an item carries the tick at which it is due.
    buckets: Vec<Vec<(u64, T)>>,
}

impl<T> TimerWheel<T> {
    /// A wheel of `tick` milliseconds a bucket that goes round once in `span`; an item that is due
    /// later than that costs one extra look each round.
    pub(crate) fn new(tick: Millis, span: Millis, now: Moment) -> Self {
        let tick = tick.max(1);
        let size = (span / tick + 2).clamp(4, 4_096) as usize;
        Self {
            tick,
            done: now.as_millis() / tick,
            buckets: (0..size).map(|_| Vec::new()).collect(),
        }
    }

    /// Files an item, which comes out at `at` or up to two ticks later, never before; an item in
    /// the past comes out at the next tick.
    pub(crate) fn file(&mut self, at: Moment, item: T) {
        let due = at.as_millis().div_ceil(self.tick).max(self.done + 1);
        let size = self.buckets.len() as u64;
        self.buckets[(due % size) as usize].push((due, item));
    }

    /// Takes out all items that are due by `now`. A bucket keeps no more memory than its remaining
    /// items need, so that one round after a peak the wheel is as small as before.
    pub(crate) fn due(&mut self, now: Moment) -> Vec<T> {
        let now = now.as_millis() / self.tick;
        let size = self.buckets.len() as u64;
        let mut due = Vec::new();
        for tick in (self.done + 1..=now).take(self.buckets.len()) {
            let bucket = &mut self.buckets[(tick % size) as usize];
            let (ready, later): (Vec<_>, Vec<_>) = std::mem::take(bucket)
                .into_iter()
                .partition(|(at, _)| *at <= now);
            *bucket = later;
            due.extend(ready.into_iter().map(|(_, item)| item));
        }
        self.done = self.done.max(now);
        due
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.buckets.iter().flatten().map(|(_, item)| item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;

    #[test]
    fn items_come_out_once_and_never_early() {
        let mut wheel = TimerWheel::new(250, 5_000, moment(1_000));
        let times = [0, 1_000, 1_001, 1_249, 1_250, 2_000, 6_100, 60_000];
        for at in times {
            wheel.file(moment(at), at);
        }
        let mut seen = Vec::new();
        for now in (1_000..70_000).step_by(100) {
            for at in wheel.due(moment(now)) {
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
        let mut wheel = TimerWheel::new(100, 1_000, moment(0));
        for at in 0..5_000 {
            wheel.file(moment(at), at);
        }
        assert_eq!(wheel.due(moment(1_000_000)).len(), 5_000);
    }

    #[test]
    fn the_wheel_frees_its_memory_after_a_peak() {
        let mut wheel = TimerWheel::new(100, 1_000, moment(0));
        let memory =
            |wheel: &TimerWheel<u64>| wheel.buckets.iter().map(Vec::capacity).sum::<usize>();
        for at in 0..100_000 {
            wheel.file(moment(at % 1_000), at);
        }
        assert!(memory(&wheel) >= 100_000);
        // All are looked at for some rounds; then all but ten have gone.
        for now in (0..5_000).step_by(100) {
            for thing in wheel.due(moment(now)) {
                if now < 3_000 || thing < 10 {
                    wheel.file(moment(now + 500), thing);
                }
            }
        }
        assert_eq!(wheel.iter().count(), 10);
        assert!(memory(&wheel) <= 100, "memory for {}", memory(&wheel));
    }
}
