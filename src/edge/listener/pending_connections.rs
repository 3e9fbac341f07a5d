//! The connections of one port that are not WebSockets: in their handshake, or plain HTTP. Their number is bounded.
//!
//! Clients that connect and never finish a request must not keep others out. At the bound, the listener closes the
//! connection that has been idle (without a complete request) for longest, if that was longer than [`GRACE`]. If there
//! is none, the accept loop waits, and new connections stay in the kernel's backlog. An honest handshake takes
//! milliseconds.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::base::metrics::Metrics;

/// How long a connection may be idle when others wait for its slot.
const GRACE: Duration = Duration::from_secs(1);

/// How long to wait before looking again when every connection is busy. Requests end soon.
const RETRY: Duration = Duration::from_millis(50);

/// Lists of up to this length are not worth pruning.
const FEW: usize = 32;

#[derive(Debug)]
pub(super) struct PendingConnections {
    slots: Arc<Semaphore>,
    metrics: Arc<Metrics>,
    known: Mutex<Known>,
}

/// Each with the time since which it was idle when it was put at the end: the first has been idle for longest, unless
/// it answered a request since. Connections that ended or became sockets are pruned from the front, and all of them
/// whenever the list has doubled, so that after a herd the list is as short as before.
#[derive(Debug, Default)]
struct Known {
    connections: VecDeque<(Instant, Weak<PendingConnection>)>,
    /// At which length the whole list is pruned next.
    prune_at: usize,
}

impl Known {
    fn push(&mut self, connection: &Arc<PendingConnection>) {
        self.prune_front();
        if self.connections.len() >= self.prune_at {
            self.connections.retain(is_pending);
            self.prune_at = 2 * self.connections.len().max(FEW);
        }
        if self.connections.capacity() > 4 * self.connections.len().max(FEW) {
            self.connections.shrink_to(2 * self.connections.len().max(FEW));
        }
        self.connections.push_back((Instant::now(), Arc::downgrade(connection)));
    }

    fn prune_front(&mut self) {
        while self.connections.front().is_some_and(|first| !is_pending(first)) {
            self.connections.pop_front();
        }
    }

    /// The first that has been idle since it came to its place, and since when; moves the others to the end.
    fn longest_idle(&mut self, now: Instant) -> Option<(Instant, Arc<PendingConnection>)> {
        for _ in 0..self.connections.len() {
            let (noted, first) = self.connections.pop_front()?;
            let Some(connection) = first.upgrade().filter(|connection| connection.is_pending()) else { continue };
            match connection.idle_since() {
                Some(since) if since <= noted => {
                    self.connections.push_front((noted, first));
                    return Some((since, connection));
                }
                since => self.connections.push_back((since.unwrap_or(now), first)),
            }
        }
        None
    }
}

fn is_pending((_, connection): &(Instant, Weak<PendingConnection>)) -> bool {
    connection.upgrade().is_some_and(|connection| connection.is_pending())
}

#[derive(Debug)]
pub(crate) struct PendingConnection {
    metrics: Arc<Metrics>,
    state: Mutex<State>,
    evicted: CancellationToken,
}

#[derive(Debug)]
struct State {
    slot: Option<OwnedSemaphorePermit>,
    /// `None` while a request is answered.
    idle_since: Option<Instant>,
}

impl PendingConnections {
    pub(super) fn new(most: usize, metrics: Arc<Metrics>) -> Self {
        Self { slots: Arc::new(Semaphore::new(most)), metrics, known: Mutex::default() }
    }

    /// Waits for a slot, and frees one if a connection was idle for too long.
    pub(super) async fn admit(&self) -> Arc<PendingConnection> {
        let slot = loop {
            match self.slots.clone().try_acquire_owned() {
                Ok(slot) => break slot,
                // The semaphore is never closed.
                Err(_) => {
                    let wait = self.evict_idle(Instant::now());
                    let _ = tokio::time::timeout(wait, self.slots.acquire()).await;
                }
            }
        };
        self.metrics.connections.inc();
        let connection = Arc::new(PendingConnection {
            metrics: self.metrics.clone(),
            state: Mutex::new(State { slot: Some(slot), idle_since: Some(Instant::now()) }),
            evicted: CancellationToken::new(),
        });
        self.known.lock().push(&connection);
        connection
    }

    /// Closes the connection that has been idle for longest, if for too long; returns how long until a slot may be
    /// free.
    fn evict_idle(&self, now: Instant) -> Duration {
        let mut known = self.known.lock();
        match known.longest_idle(now) {
            Some((since, connection)) if now.saturating_duration_since(since) >= GRACE => {
                known.connections.pop_front();
                connection.evicted.cancel();
                self.metrics.connections_dropped.inc();
                RETRY
            }
            Some((since, _)) => (since + GRACE).saturating_duration_since(now).min(RETRY),
            None => RETRY,
        }
    }
}

impl PendingConnection {
    /// A request is complete, with its body, and will be answered.
    pub(super) fn busy(&self) {
        self.state.lock().idle_since = None;
    }

    /// The request is answered; or a request has begun whose body is yet to come.
    pub(super) fn idle(&self) {
        self.state.lock().idle_since = Some(Instant::now());
    }

    pub(super) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }

    /// The connection is a WebSocket from here on, or about to become one: frees its slot.
    pub(crate) fn becomes_socket(&self) {
        if self.state.lock().slot.take().is_some() {
            self.metrics.connections.dec();
        }
    }

    fn is_pending(&self) -> bool {
        self.state.lock().slot.is_some()
    }

    /// `None` while a request is answered.
    fn idle_since(&self) -> Option<Instant> {
        self.state.lock().idle_since
    }
}

impl Drop for PendingConnection {
    fn drop(&mut self) {
        self.becomes_socket();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn after_a_herd_ended_connections_take_no_memory() {
        let pending = PendingConnections::new(4_096, Arc::default());
        // One connection that stays is in front of a herd.
        let _stays = pending.admit().await;
        let mut herd = Vec::new();
        for _ in 0..2_000 {
            herd.push(pending.admit().await);
        }
        drop(herd);
        for _ in 0..3_000 {
            pending.admit().await.becomes_socket();
        }
        let known = pending.known.lock();
        assert!(known.connections.front().is_some_and(is_pending));
        assert!(known.connections.len() <= 2 * FEW + 1, "{} are known", known.connections.len());
        assert!(known.connections.capacity() <= 8 * FEW, "there is room for {}", known.connections.capacity());
    }
}
