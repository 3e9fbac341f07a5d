//! Decides when counts go out. The task looks at the rooms whose figures changed. It wakes their
//! dashboards as often as the room's [`crate::presence::throttle`] allows, and the viewers who
//! asked for counts as often as its [`crate::presence::pushed_counts`] allows. A woken socket reads
//! the newest figures, so a slow socket skips figures instead of falling behind.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::time::DelayQueue;
use tokio_util::time::delay_queue::Key;

use crate::base::clock::Moment;
use crate::peers::core::Core;
use crate::presence::Room;
use crate::presence::throttle::{Shown, ThrottleStep};
use crate::presence::trust::Trust;

pub struct CountsTask {
    pub core: Arc<Core>,
    pub trust: Arc<Trust>,
}

/// Rooms to look at again later, each of them once.
#[derive(Default)]
struct DelayedRooms {
    queue: DelayQueue<Arc<Room>>,
    /// By the room's address.
    waiting: HashMap<usize, (Key, Moment)>,
}

impl DelayedRooms {
    fn add(&mut self, room: Arc<Room>, at: Moment, now: Moment) {
        let wait = Duration::from_millis(at.since(now));
        let address = Arc::as_ptr(&room) as usize;
        match self.waiting.get_mut(&address) {
            None => {
                let key = self.queue.insert(room, wait);
                self.waiting.insert(address, (key, at));
            }
            Some((key, then)) if at < *then => {
                self.queue.reset(key, wait);
                *then = at;
            }
            Some(_) => {}
        }
    }

    async fn next(&mut self) -> Option<Arc<Room>> {
        let room = self.queue.next().await?.into_inner();
        self.waiting.remove(&(Arc::as_ptr(&room) as usize));
        Some(room)
    }
}

impl CountsTask {
    pub async fn run(self, stop: CancellationToken) {
        let mut later = DelayedRooms::default();
        let mut wakes = JoinSet::new();
        let mut health = self.core.store.health();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.core.rooms.to_count.wait() => {
                    for room in self.core.rooms.to_count.take() {
                        room.schedule.counts_queued.clear();
                        self.look(room, &mut later, &mut wakes);
                    }
                }
                // A panic in a wake is a bug: this task ends, and the wiring stops the process.
                Some(woken) = wakes.join_next(), if !wakes.is_empty() => if woken.is_err() { return },
                changed = health.changed() => {
                    // The store is dropped only when the gateway stops.
                    if changed.is_err() { return }
                    self.core.rooms.count_all();
                }
                Some(room) = later.next() => self.look(room, &mut later, &mut wakes),
            }
        }
    }

    fn look(&self, room: Arc<Room>, later: &mut DelayedRooms, wakes: &mut JoinSet<()>) {
        let now = self.core.clock.now();
        let shown = self.show(&room, now);
        let mut throttle = room.schedule.throttle.lock();
        let step = throttle.step(shown);
        let lag = throttle.lag();
        drop(throttle);
        match step {
            ThrottleStep::Nothing => {}
            ThrottleStep::Send => {
                self.core
                    .metrics
                    .counts_lag_seconds
                    .observe(lag as f64 / 1_000.0);
                room.signal_counts();
            }
            ThrottleStep::At(at) => later.add(room.clone(), at, now),
        }
        let step = room
            .pushed
            .step(|| (self.show(&room, now), room.info.revision()));
        match step {
            ThrottleStep::Nothing => {}
            ThrottleStep::Send => {
                wakes.spawn(async move { room.pushed.wake().await });
            }
            ThrottleStep::At(at) => later.add(room, at, now),
        }
    }

    fn show(&self, room: &Room, now: Moment) -> Shown {
        room.show(now, || self.trust.quality(room))
    }
}

#[cfg(test)]
mod tests;
