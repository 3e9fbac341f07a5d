//! Owns the connections of a port that are no WebSocket: in their handshake, or HTTP. There is room for so many.
//!
//! Clients that connect and never finish a request must not keep others out. When there is no room, who has been idle
//! (no whole request under way) for longest goes, if that was for longer than [`GRACE`]; until somebody has, the accept loop
//! waits and newcomers stay in the kernel's backlog. An honest handshake is done in milliseconds, so it never is that one.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;

/// How long a connection may be idle when others wait for its place.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// When all are busy: how long until it is looked again. Requests end soon.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The room of one port.
#[derive(Debug)]
pub(super) struct Newcomers {
    slots: Arc<Semaphore>,
    metrics: Arc<Metrics>,
    known: Mutex<Known>,
}

/// Oldest first. Those who are gone or became sockets are weeded out from the front, and all of them whenever the list has
/// doubled: after a herd it is as short as before.
#[derive(Debug, Default)]
struct Known {
    newcomers: VecDeque<Weak<Newcomer>>,
    /// At which length all are weeded out next.
    weed_at: usize,
}

/// How many newcomers are not worth the weeding.
const FEW: usize = 32;

impl Known {
    fn push(&mut self, newcomer: &Arc<Newcomer>) {
        self.weed_front();
        if self.newcomers.len() >= self.weed_at {
            self.newcomers.retain(|newcomer| newcomer.upgrade().is_some_and(|newcomer| newcomer.is_here()));
            self.weed_at = 2 * self.newcomers.len().max(FEW);
        }
        if self.newcomers.capacity() > 4 * self.newcomers.len().max(FEW) {
            self.newcomers.shrink_to(2 * self.newcomers.len().max(FEW));
        }
        self.newcomers.push_back(Arc::downgrade(newcomer));
    }

    fn weed_front(&mut self) {
        while self.newcomers.front().is_some_and(|first| first.upgrade().is_none_or(|first| !first.is_here())) {
            self.newcomers.pop_front();
        }
    }
}

/// A connection that is no socket.
#[derive(Debug)]
pub(crate) struct Newcomer {
    metrics: Arc<Metrics>,
    state: Mutex<State>,
    gone: CancellationToken,
}

#[derive(Debug)]
struct State {
    slot: Option<OwnedSemaphorePermit>,
    /// `None` while a request is answered.
    idle_since: Option<Instant>,
}

impl Newcomers {
    /// Room for so many.
    pub(super) fn new(most: usize, metrics: Arc<Metrics>) -> Self {
        Self { slots: Arc::new(Semaphore::new(most)), metrics, known: Mutex::default() }
    }

    /// Waits for room, and makes it when somebody was idle for too long.
    pub(super) async fn admit(&self) -> Arc<Newcomer> {
        let slot = loop {
            match self.slots.clone().try_acquire_owned() {
                Ok(slot) => break slot,
                // Nobody closes the semaphore.
                Err(_) => {
                    let patience = self.make_room(Instant::now());
                    let _ = tokio::time::timeout(patience, self.slots.acquire()).await;
                }
            }
        };
        self.metrics.connections.inc();
        let newcomer = Arc::new(Newcomer {
            metrics: self.metrics.clone(),
            state: Mutex::new(State { slot: Some(slot), idle_since: Some(Instant::now()) }),
            gone: CancellationToken::new(),
        });
        self.known.lock().push(&newcomer);
        newcomer
    }

    /// Sends away who was idle for longest, or answers how long until there may be room.
    fn make_room(&self, now: Instant) -> Duration {
        let mut known = self.known.lock();
        known.weed_front();
        let idle = known.newcomers.iter().enumerate().filter_map(|(place, newcomer)| {
            let newcomer = newcomer.upgrade()?;
            let since = newcomer.idle_since().filter(|_| !newcomer.gone.is_cancelled())?;
            Some((since, place, newcomer))
        });
        match idle.min_by_key(|(since, ..)| *since) {
            Some((since, place, newcomer)) if now.saturating_duration_since(since) >= GRACE => {
                known.newcomers.remove(place);
                newcomer.gone.cancel();
                self.metrics.connections_dropped.inc();
                LOOK_AGAIN
            }
            Some((since, ..)) => (since + GRACE).saturating_duration_since(now).min(LOOK_AGAIN),
            None => LOOK_AGAIN,
        }
    }
}

impl Newcomer {
    /// A request is complete, with its body, and will be answered.
    pub(super) fn busy(&self) {
        self.state.lock().idle_since = None;
    }

    /// The answer is made; or a request has begun whose body is yet to come.
    pub(super) fn idle(&self) {
        self.state.lock().idle_since = Some(Instant::now());
    }

    /// Waits to be sent away.
    pub(super) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// It is a socket from here on, or about to be one: its place is for another.
    pub(crate) fn becomes_socket(&self) {
        if self.state.lock().slot.take().is_some() {
            self.metrics.connections.dec();
        }
    }

    fn is_here(&self) -> bool {
        self.state.lock().slot.is_some()
    }

    /// Since when no request is under way; `None` if one is, or if it became a socket.
    fn idle_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        state.idle_since.filter(|_| state.slot.is_some())
    }
}

impl Drop for Newcomer {
    fn drop(&mut self) {
        self.becomes_socket();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn after_a_herd_nothing_is_kept_of_those_who_are_gone() {
        let newcomers = Newcomers::new(4_096, Arc::default());
        // One who stays is in front of a herd.
        let stays = newcomers.admit().await;
        let mut herd = Vec::new();
        for _ in 0..2_000 {
            herd.push(newcomers.admit().await);
        }
        drop(herd);
        for _ in 0..3_000 {
            newcomers.admit().await.becomes_socket();
        }
        let known = newcomers.known.lock();
        assert!(stays.is_here() && known.newcomers.front().is_some_and(|first| first.upgrade().is_some()));
        assert!(known.newcomers.len() <= 2 * FEW + 1, "{} are known", known.newcomers.len());
        assert!(known.newcomers.capacity() <= 8 * FEW, "there is room for {}", known.newcomers.capacity());
    }
}
