//! Owns the judgement whether a node can be reached: a PING each second, whatever else is under way. The client library
//! does not notice a server that stopped answering while commands are still being written, nor does it come back from
//! every error by itself; this task does both. Born at connect, ends when the store is dropped.

use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::ConnectHandle;
use fred::types::config::Options;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::address::Host;
use super::board::Board;
use crate::store::Health;

/// How often to probe, and how long to wait for the answer.
const PROBE: Duration = Duration::from_secs(1);
/// So many probes in a row without an answer mean down.
const MISSES: u32 = 2;
/// A forced reconnect that takes longer is given up; the next miss tries another.
const RECONNECT_DEADLINE: Duration = Duration::from_secs(5);
/// How long to wait for calls under way at the end.
const QUIT_DEADLINE: Duration = Duration::from_secs(1);

struct Watchdog {
    host: Host,
    client: Client,
    /// None if there never was one.
    connection: Option<ConnectHandle>,
    /// At most one at a time: the library would queue them up and run each after the outage.
    reconnecting: Option<JoinHandle<()>>,
    missed: u32,
    health: watch::Sender<Health>,
    board: Arc<Board>,
}

/// Watches a client until `stop`, then ends its connection. One without a connection to begin with is down.
pub(super) fn spawn(
    (host, client): (&Host, Client),
    connection: Option<ConnectHandle>,
    board: Arc<Board>,
    stop: CancellationToken,
) -> watch::Receiver<Health> {
    let (now, missed) = if connection.is_some() { (Health::Up, 0) } else { (Health::Down, MISSES) };
    let (health, seen) = watch::channel(now);
    let mut dog = Watchdog { host: host.clone(), client, connection, reconnecting: None, missed, health, board };
    tokio::spawn(async move {
        let mut ticks = interval(PROBE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let watching = async {
            loop {
                ticks.tick().await;
                dog.probe().await;
            }
        };
        tokio::select! {
            () = watching => {}
            () = stop.cancelled() => {}
        }
        dog.end().await;
    });
    seen
}

impl Watchdog {
    async fn probe(&mut self) {
        let options = Options { timeout: Some(PROBE), max_attempts: Some(1), fail_fast: true, ..Options::default() };
        let ping = self.client.with_options(&options);
        let answered = timeout(PROBE, ping.ping::<String>(None)).await.is_ok_and(|answer| answer.is_ok());
        if answered {
            self.missed = 0;
            self.tell(Health::Up);
            return;
        }
        self.missed += 1;
        if self.missed >= MISSES {
            self.tell(Health::Down);
            self.revive();
        }
    }

    fn revive(&mut self) {
        if self.connection.as_ref().is_none_or(JoinHandle::is_finished) {
            // The library gives up for good on an error that it takes for a wrong setting: begin again.
            self.connection = Some(self.client.connect());
        } else if self.client.is_connected() && self.reconnecting.as_ref().is_none_or(JoinHandle::is_finished) {
            let client = self.client.clone();
            self.reconnecting = Some(tokio::spawn(async move {
                // It waits for as long as the server does not answer.
                let _ = timeout(RECONNECT_DEADLINE, client.force_reconnection()).await;
            }));
        }
    }

    fn tell(&self, now: Health) {
        let changed = self.health.send_if_modified(|health| std::mem::replace(health, now) != now);
        if !changed {
            return;
        }
        self.board.changed(now);
        match now {
            Health::Up => tracing::info!(node = %self.host, "redis answers again"),
            Health::Down => tracing::warn!(node = %self.host, "redis does not answer"),
        }
    }

    async fn end(self) {
        if let Some(reconnecting) = self.reconnecting {
            reconnecting.abort();
        }
        let _ = timeout(QUIT_DEADLINE, self.client.quit()).await;
        if let Some(connection) = self.connection {
            connection.abort();
        }
    }
}
