//! Decides whether a node can be used. The watchdog probes the node each second, whatever else is
//! under way. It probes at once when the canary changes, the connection was made again, or a call
//! found the server to be a replica. The client library does not notice a server that stops
//! answering while commands are still being written, nor does it recover from every error; the
//! watchdog does both. It starts with the node's connection and ends when the store is dropped.
//!
//! A server that has become a replica is down at once. The watchdog then connects again and looks
//! the name up anew until it leads to a master: that is how a managed Redis behind one name fails
//! over.

use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::{ClientLike, EventInterface};
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast::error::RecvError, watch};
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::client::{ConnectionTask, connect};
use super::errors::ServerError;
use super::monitor::Monitor;
use super::probe::{self, Probed};
use super::refusals::RefusalLog;
use crate::base::backoff::Backoff;
use crate::base::clock::{UnixMillis, millis};
use crate::base::redis_address::Host;
use crate::store::Health;

/// How often to probe.
const PROBE: Duration = Duration::from_secs(1);
/// A node is down after this many probes in a row without an answer.
const MISSES: u32 = 2;
/// The watchdog gives up a forced reconnect that takes longer; the next miss tries another.
const RECONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// The waits between connections to a name that leads to a replica.
const REDIAL: Backoff = Backoff {
    first: 500,
    longest: 4_000,
};
/// How long the library may take from a new connection to the first command on it.
const SETTLE: Duration = Duration::from_millis(200);

/// The state that a node shares with its watchdog.
#[derive(Debug)]
pub(crate) struct NodeState {
    health: watch::Sender<Health>,
    /// The number of times that the connection was made again.
    connections: watch::Sender<u64>,
    /// A call found the server to be a replica.
    replica_seen: Notify,
    /// The key of the probes; `None` if the server serves none.
    canary: Mutex<Option<String>>,
    canary_changed: Notify,
    /// The server's clock in its last answer, and when that answer came.
    clock: Mutex<Option<(UnixMillis, Instant)>>,
    refusals: RefusalLog,
}

impl NodeState {
    pub(crate) fn new(now: Health) -> Self {
        Self {
            health: watch::Sender::new(now),
            connections: watch::Sender::new(0),
            replica_seen: Notify::new(),
            canary: Mutex::default(),
            canary_changed: Notify::new(),
            clock: Mutex::default(),
            refusals: RefusalLog::default(),
        }
    }

    pub(crate) fn health(&self) -> watch::Receiver<Health> {
        self.health.subscribe()
    }

    pub(crate) fn is_up(&self) -> bool {
        *self.health.borrow() == Health::Up
    }

    pub(crate) fn connections(&self) -> watch::Receiver<u64> {
        self.connections.subscribe()
    }

    pub(crate) fn see_replica(&self) {
        self.replica_seen.notify_one();
    }

    pub(crate) fn refusals(&self) -> &RefusalLog {
        &self.refusals
    }

    pub(crate) fn canary(&self) -> Option<String> {
        self.canary.lock().clone()
    }

    pub(crate) fn probe_with(&self, canary: Option<String>) {
        let mut known = self.canary.lock();
        if *known != canary {
            *known = canary;
            self.canary_changed.notify_one();
        }
    }

    pub(crate) fn hear_time(&self, at: UnixMillis) {
        *self.clock.lock() = Some((at, Instant::now()));
    }

    /// The server's clock now, less the time that its last answer took to arrive. `None` after a
    /// new connection, which may lead to another server, until that server has answered.
    pub(crate) fn time_now(&self) -> Option<UnixMillis> {
        let last = *self.clock.lock();
        let (at, heard) = last?;
        Some(at + millis(heard.elapsed()))
    }

    fn forget_time(&self) {
        *self.clock.lock() = None;
    }
}

/// The reason for a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Tick,
    CanaryChanged,
    Reconnected,
    ReplicaSeen,
}

/// The canary, as the last answer to a probe had it.
struct Canary {
    key: String,
    value: String,
}

struct Watchdog {
    host: Host,
    client: Client,
    connection: ConnectionTask,
    /// At most one at a time: the library would queue them up and run each after the outage.
    reconnecting: Option<AbortOnDropHandle<()>>,
    missed: u32,
    state: Arc<NodeState>,
    monitor: Arc<Monitor>,
    canary: Option<Canary>,
    /// Since its last answer the server may have lost data, or messages may have been missed.
    in_doubt: bool,
    /// When the watchdog last probed a new connection, without waiting for the tick.
    probed_reconnect: Option<Instant>,
    redial_at: Instant,
    /// The number of times that the connection was made again since the last answer.
    redials: u32,
    /// The last refusal that was logged.
    refused: Option<String>,
}

/// Watches a client until `stop`, then ends its connection.
pub(crate) fn spawn(
    host: &Host,
    client: Client,
    connection: ConnectionTask,
    now: Health,
    monitor: Arc<Monitor>,
    stop: CancellationToken,
) -> Arc<NodeState> {
    let state = Arc::new(NodeState::new(now));
    let dog = Watchdog {
        host: host.clone(),
        client,
        connection,
        reconnecting: None,
        missed: if now == Health::Up { 0 } else { MISSES },
        in_doubt: now == Health::Down,
        state: Arc::clone(&state),
        monitor,
        canary: None,
        probed_reconnect: None,
        redial_at: Instant::now(),
        redials: 0,
        refused: None,
    };
    // Boxed: the library's futures are large.
    tokio::spawn(Box::pin(dog.run(stop)));
    state
}

impl Watchdog {
    async fn run(mut self, stop: CancellationToken) {
        let state = Arc::clone(&self.state);
        let mut reconnects = self.client.reconnect_rx();
        let mut ticks = interval(PROBE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let watching = async {
            loop {
                let cause = tokio::select! {
                    _ = ticks.tick() => Cause::Tick,
                    () = state.canary_changed.notified() => Cause::CanaryChanged,
                    () = state.replica_seen.notified() => Cause::ReplicaSeen,
                    seen = reconnects.recv() => match seen {
                        Ok(_) | Err(RecvError::Lagged(_)) => Cause::Reconnected,
                        Err(RecvError::Closed) => return,
                    },
                };
                self.probe(cause).await;
            }
        };
        tokio::select! {
            () = watching => {}
            () = stop.cancelled() => {}
        }
    }

    async fn probe(&mut self, cause: Cause) {
        if cause == Cause::Reconnected {
            self.in_doubt = true;
            self.state.forget_time();
            self.state.connections.send_modify(|n| *n += 1);
            // Limits the probes of a connection that breaks again and again.
            if self.probed_reconnect.is_some_and(|at| at.elapsed() < PROBE) {
                return;
            }
            self.probed_reconnect = Some(Instant::now());
            let _ = timeout(SETTLE, self.client.wait_for_connect()).await;
        }
        for said in self.state.refusals.take_over(Instant::now()) {
            tracing::info!(node = %self.host, error = said, "redis has not refused a call so for a minute");
        }
        let key = self.state.canary();
        match probe::ask(&self.client, key.as_deref()).await {
            Probed::Leads { canary, at } => {
                self.state.hear_time(at);
                self.compare(key, canary);
                self.refused = None;
                self.answered();
            }
            Probed::Answers => self.answered(),
            // A user who may not write the canary cannot recognize a replica by it.
            Probed::Refuses(ServerError::NoPermission, _) if cause == Cause::ReplicaSeen => {
                self.redial()
            }
            Probed::Refuses(why, said) => self.refused(why, said),
            Probed::Follows => self.redial(),
            Probed::Unready => {
                self.missed = MISSES;
                self.tell(
                    Health::Down,
                    "redis is not ready: it loads its data, or its cluster is down",
                );
            }
            Probed::Silent if cause == Cause::Tick => {
                self.missed += 1;
                if self.missed >= MISSES {
                    self.tell(Health::Down, "redis does not answer");
                    self.reconnect();
                }
            }
            Probed::Silent => {}
        }
    }

    /// A canary that is gone or different means that the server lost its data, or that it is
    /// another server.
    fn compare(&mut self, key: Option<String>, found: Option<String>) {
        if let Some(known) = &self.canary
            && key.as_ref() == Some(&known.key)
            && found.as_ref() != Some(&known.value)
        {
            tracing::warn!(node = %self.host, "redis has lost data, or has the data of another server");
            self.in_doubt = true;
        }
        self.canary = match (key, found) {
            (Some(key), Some(value)) => Some(Canary { key, value }),
            _ => None,
        };
    }

    fn answered(&mut self) {
        self.missed = 0;
        self.redials = 0;
        self.tell(Health::Up, "redis answers again");
        if std::mem::take(&mut self.in_doubt) {
            self.monitor.doubts().of_node(&self.host);
        }
    }

    fn refused(&mut self, why: ServerError, said: String) {
        match why {
            ServerError::Moved | ServerError::Ask => self.monitor.suspect_map(),
            _ if self.refused.as_deref() == Some(said.as_str()) => {}
            _ => {
                let node = &self.host;
                let canary = self.state.canary().unwrap_or_default();
                tracing::warn!(%node, error = said, canary, "redis refuses the probe, which writes the canary");
                self.refused = Some(said);
            }
        }
        self.answered();
    }

    /// The server follows another one, so the name may lead to a master by now.
    fn redial(&mut self) {
        self.missed = MISSES;
        self.tell(Health::Down, "this redis is a replica");
        let now = Instant::now();
        if now < self.redial_at {
            return;
        }
        self.redial_at = now + Duration::from_millis(REDIAL.wait(self.redials));
        self.redials += 1;
        self.reconnect();
    }

    fn reconnect(&mut self) {
        if self.connection.is_finished() {
            // The library gives up for good on an error that it takes for a wrong setting: connect
            // again.
            (self.connection, _) = connect(&self.client);
        } else if self.client.is_connected()
            && self
                .reconnecting
                .as_ref()
                .is_none_or(AbortOnDropHandle::is_finished)
        {
            let client = self.client.clone();
            self.reconnecting = Some(AbortOnDropHandle::new(tokio::spawn(async move {
                // It waits for as long as the server does not answer.
                let _ = timeout(RECONNECT_DEADLINE, client.force_reconnection()).await;
            })));
        }
    }

    fn tell(&mut self, now: Health, why: &'static str) {
        let changed = self
            .state
            .health
            .send_if_modified(|health| std::mem::replace(health, now) != now);
        if !changed {
            return;
        }
        self.monitor.changed(now);
        match now {
            Health::Up => tracing::info!(node = %self.host, "{why}"),
            Health::Down => {
                self.in_doubt = true;
                tracing::warn!(node = %self.host, "{why}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_servers_clock_goes_on_from_what_was_heard_last() {
        let state = NodeState::new(Health::Up);
        assert_eq!(state.time_now(), None);
        state.hear_time(5_000);
        advance(Duration::from_millis(300)).await;
        assert_eq!(state.time_now(), Some(5_300));
        // A server may put its clock back.
        state.hear_time(4_000);
        assert_eq!(state.time_now(), Some(4_000));
        state.forget_time();
        assert_eq!(state.time_now(), None);
    }
}
