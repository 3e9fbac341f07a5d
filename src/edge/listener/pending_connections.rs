//! The connections of one port that are not WebSockets: in their handshake, or plain HTTP. Their number is bounded.
//!
//! Clients that connect and never finish a request must not keep others out. At the bound, the listener closes the
//! connection that has been idle (without a complete request) for longest, if that was longer than [`GRACE`]. If there
//! is none, the accept loop waits, and new connections stay in the kernel's backlog. An honest handshake takes
//! milliseconds.

use std::collections::BTreeMap;
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

/// In the order of the times since which they are idle, as far as that is known: a connection that answered a request
/// since has a later time by now. Connections that ended or became sockets are pruned whenever the list has doubled.
#[derive(Debug, Default)]
struct Known {
    connections: BTreeMap<(Instant, u64), Weak<PendingConnection>>,
    /// Tells apart those of one time.
    last: u64,
    /// At which length the list is pruned next.
    prune_at: usize,
}

impl Known {
    fn note(&mut self, since: Instant, connection: Weak<PendingConnection>) {
        self.last += 1;
        self.connections.insert((since, self.last), connection);
        if self.connections.len() >= self.prune_at {
            self.connections.retain(|_, connection| connection.upgrade().is_some_and(|known| known.is_pending()));
            self.prune_at = 2 * self.connections.len().max(FEW);
        }
    }

    /// The connection that has been idle for longest, and since when.
    fn longest_idle(&mut self, now: Instant) -> Option<(Instant, Arc<PendingConnection>)> {
        while let Some(first) = self.connections.first_entry().filter(|first| first.key().0 < now) {
            let noted = first.key().0;
            let connection = first.get().upgrade().filter(|connection| connection.is_pending());
            match connection.map(|connection| (connection.idle_since(), connection)) {
                None => drop(first.remove()),
                Some((Some(since), connection)) if since == noted => return Some((since, connection)),
                // One that answers a request will be idle since now at the earliest.
                Some((since, _)) => {
                    let connection = first.remove();
                    self.note(since.unwrap_or(now), connection);
                }
            }
        }
        None
    }
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
        let now = Instant::now();
        let connection = Arc::new(PendingConnection {
            metrics: self.metrics.clone(),
            state: Mutex::new(State { slot: Some(slot), idle_since: Some(now) }),
            evicted: CancellationToken::new(),
        });
        self.known.lock().note(now, Arc::downgrade(&connection));
        connection
    }

    /// Closes the connection that has been idle for longest, if for too long; returns how long until a slot may be
    /// free.
    fn evict_idle(&self, now: Instant) -> Duration {
        let mut known = self.known.lock();
        match known.longest_idle(now) {
            Some((since, connection)) if now.saturating_duration_since(since) >= GRACE => {
                known.connections.pop_first();
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
        assert!(known.connections.len() <= 2 * FEW + 1, "{} are known", known.connections.len());
    }

    #[tokio::test(start_paused = true)]
    async fn the_one_that_is_idle_for_longest_goes_first_whenever_it_came() {
        let pending = PendingConnections::new(3, Arc::default());
        let seconds = |seconds| tokio::time::advance(Duration::from_secs(seconds));
        let first = pending.admit().await;
        seconds(1).await;
        let second = pending.admit().await;
        let busy = pending.admit().await;
        busy.busy();
        seconds(10).await;
        second.busy();
        second.idle();
        seconds(10).await;
        first.busy();
        first.idle();
        assert_eq!(pending.evict_idle(Instant::now()), RETRY);
        assert!(second.evicted.is_cancelled() && !first.evicted.is_cancelled() && !busy.evicted.is_cancelled());
        drop(second);
        assert_eq!(pending.evict_idle(Instant::now()), RETRY, "the first has just answered");
        seconds(2).await;
        assert_eq!(pending.evict_idle(Instant::now()), RETRY);
        assert!(first.evicted.is_cancelled() && !busy.evicted.is_cancelled());
        assert_eq!(pending.evict_idle(Instant::now()), RETRY);
    }
}
