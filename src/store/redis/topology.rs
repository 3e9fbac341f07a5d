//! The masters and the map of slots: which master serves which key. One task keeps the map up to
//! date: it reads the map every few seconds, when a node goes down, and when a node redirects a
//! call. It makes one reading at a time, each with a deadline. With one server and no sentinels
//! there is nothing to read. The router and the subscriber share the map.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::client::{AllowedProbes, Connector};
use super::discovery;
use super::errors::ConnectError;
use super::keys::Keys;
use super::monitor::Monitor;
use super::node::Node;
use super::slots::{SlotMap, SlotRange};
use crate::base::metrics::Metrics;
use crate::base::redis_address::{Host, Layout};
use crate::store::{StoreError, StoreResult};

/// The deadline of the first reading of the map and the first connections together.
const START_DEADLINE: Duration = Duration::from_secs(5);
/// The time between two readings of the map while all nodes answer.
const READ_EVERY: Duration = Duration::from_secs(5);
/// The same while some node is down.
const READ_EVERY_WHILE_DOWN: Duration = Duration::from_secs(1);
/// The shortest time between two readings, whatever the number of requests.
const GAP: Duration = Duration::from_millis(100);
/// The deadline of one reading, with the connections to new nodes.
const READING_DEADLINE: Duration = Duration::from_secs(5);
/// A node without slots is dropped when no call was redirected to it for this long.
const GUEST_STAYS: Duration = Duration::from_secs(60);

/// The known masters; their connections end when this is dropped.
#[derive(Debug)]
pub(crate) struct Topology {
    connector: Connector,
    keys: Keys,
    monitor: Arc<Monitor>,
    map: watch::Sender<Arc<SlotMap>>,
    /// How often the map was read.
    readings: watch::Sender<u64>,
    guests: Mutex<Vec<GuestNode>>,
    adopting: tokio::sync::Mutex<()>,
}

/// A node to which calls were redirected and that serves no slot yet: a new master that slots are
/// moving to.
#[derive(Debug)]
struct GuestNode {
    node: Arc<Node>,
    last_redirection: Instant,
}

impl Topology {
    /// Finds the masters and connects to them. The topology's tasks end when the guard is dropped.
    pub(crate) async fn connect(
        connector: Connector,
        keys: Keys,
        metrics: Arc<Metrics>,
    ) -> Result<(Arc<Self>, DropGuard), ConnectError> {
        let monitor = Arc::new(Monitor::new(metrics));
        let first = timeout(START_DEADLINE, async {
            let ranges = discovery::slot_ranges(&connector, None).await?;
            open_all(&connector, &ranges, &monitor).await
        });
        let map = match first.await {
            Ok(map) => map?,
            Err(_) => return Err(StoreError::Timeout.into()),
        };
        let topology = Arc::new(Self {
            connector,
            keys,
            monitor,
            map: watch::Sender::new(Arc::new(map)),
            readings: watch::Sender::new(0),
            guests: Mutex::default(),
            adopting: tokio::sync::Mutex::default(),
        });
        topology.take_over(&topology.map());
        let stop = CancellationToken::new();
        if topology.layout() != &Layout::Single {
            let keeper = Arc::clone(&topology);
            let stopped = stop.clone();
            tokio::spawn(async move { stopped.run_until_cancelled(keeper.keep()).await });
        }
        let monitor = Arc::clone(&topology.monitor);
        let map = topology.map.subscribe();
        let stopped = stop.clone();
        tokio::spawn(async move {
            stopped
                .run_until_cancelled(
                    monitor
                        .doubts()
                        .send_doubts(|host| map.borrow().slots_if_up(host)),
                )
                .await
        });
        Ok((topology, stop.drop_guard()))
    }

    pub(crate) fn connector(&self) -> &Connector {
        &self.connector
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) fn monitor(&self) -> &Monitor {
        &self.monitor
    }

    pub(crate) fn layout(&self) -> &Layout {
        &self.connector.address().layout
    }

    pub(crate) fn map(&self) -> Arc<SlotMap> {
        Arc::clone(&self.map.borrow())
    }

    /// The map; the receiver learns when another map takes its place.
    pub(crate) fn maps(&self) -> watch::Receiver<Arc<SlotMap>> {
        self.map.subscribe()
    }

    pub(crate) fn owner(&self, slot: u16) -> StoreResult<Arc<Node>> {
        let owner = self.map.borrow().owner(slot).cloned();
        match owner {
            Some(node) => Ok(node),
            None => {
                self.monitor.suspect_map();
                Err(StoreError::Refused(format!(
                    "CLUSTERDOWN slot {slot} is not served"
                )))
            }
        }
    }

    /// The node to which another one redirected a call. If the node is unknown, waits for a new map
    /// first; a node that is not on it becomes a guest.
    pub(crate) async fn sent_to(&self, host: &Host) -> StoreResult<Arc<Node>> {
        if let Some(node) = self.known(host) {
            return Ok(node);
        }
        let mut readings = self.readings.subscribe();
        readings.mark_unchanged();
        self.monitor.suspect_map();
        let _ = readings.changed().await;
        let _one_at_a_time = self.adopting.lock().await;
        if let Some(node) = self.known(host) {
            return Ok(node);
        }
        let (node, outcome) = Node::open(&self.connector, host, &self.monitor).await?;
        outcome?;
        tracing::info!(node = %host, "redis redirects calls to a node that serves no slot yet");
        self.guests.lock().push(GuestNode {
            node: Arc::clone(&node),
            last_redirection: Instant::now(),
        });
        Ok(node)
    }

    fn known(&self, host: &Host) -> Option<Arc<Node>> {
        if let Some(node) = self.map.borrow().at(host) {
            return Some(Arc::clone(node));
        }
        let mut guests = self.guests.lock();
        let guest = guests.iter_mut().find(|guest| guest.node.host() == host)?;
        guest.last_redirection = Instant::now();
        Some(Arc::clone(&guest.node))
    }

    async fn keep(&self) {
        loop {
            let every = if self.monitor.is_whole() {
                READ_EVERY
            } else {
                READ_EVERY_WHILE_DOWN
            };
            tokio::select! {
                () = self.monitor.map_suspected() => {}
                () = sleep(every.mul_f64(rand::random_range(0.8..1.2))) => {}
            }
            match timeout(READING_DEADLINE, self.read()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "cannot find the redis masters"),
                Err(_) => tracing::debug!("cannot find the redis masters in time"),
            }
            self.readings.send_modify(|n| *n += 1);
            sleep(GAP).await;
        }
    }

    async fn read(&self) -> StoreResult<()> {
        let old = self.map();
        let ranges = discovery::slot_ranges(&self.connector, Some(&old)).await?;
        self.guests
            .lock()
            .retain(|guest| guest.last_redirection.elapsed() < GUEST_STAYS);
        if ranges == old.ranges() {
            return Ok(());
        }
        let opening = hosts(&ranges).into_iter().map(|host| async move {
            match self.known(&host) {
                Some(node) => Ok(node),
                None => {
                    let (node, _) = Node::open(&self.connector, &host, &self.monitor).await?;
                    Ok(node)
                }
            }
        });
        let nodes: Vec<_> = join_all(opening)
            .await
            .into_iter()
            .collect::<StoreResult<_>>()?;
        let names: Vec<_> = nodes.iter().map(|node| node.host().to_string()).collect();
        tracing::info!(
            masters = names.join(" "),
            "the redis masters or their slots have changed"
        );
        self.guests
            .lock()
            .retain(|guest| nodes.iter().all(|node| node.host() != guest.node.host()));
        let map = Arc::new(SlotMap::new(ranges, nodes));
        self.take_over(&map);
        self.map.send_replace(Arc::clone(&map));
        self.monitor.doubts().of_slots(map.moved_since(&old));
        Ok(())
    }

    /// Makes the nodes of this map count for the store's health, and probes each with a key that it
    /// serves.
    fn take_over(&self, map: &SlotMap) {
        for node in map.nodes() {
            let state = node.state();
            let canary = match (self.connector.probes(), self.layout()) {
                (AllowedProbes::Ping, _) => None,
                (AllowedProbes::Canary, Layout::Cluster) => {
                    map.canary_at(node.host(), state.canary(), &self.keys)
                }
                (AllowedProbes::Canary, Layout::Single | Layout::Sentinel(_)) => {
                    Some(self.keys.canary())
                }
            };
            state.probe_with(canary);
        }
        let health = map.nodes().iter().map(|node| node.state().health());
        self.monitor.list(map.owners(), health.collect());
    }
}

/// Connects to every master; at least one must answer.
async fn open_all(
    connector: &Connector,
    ranges: &[SlotRange],
    monitor: &Arc<Monitor>,
) -> StoreResult<SlotMap> {
    let hosts = hosts(ranges);
    let opening = hosts
        .iter()
        .map(|host| Node::open(connector, host, monitor));
    let opened: Vec<_> = join_all(opening)
        .await
        .into_iter()
        .collect::<StoreResult<_>>()?;
    if opened.iter().all(|(_, outcome)| outcome.is_err())
        && let Some((_, outcome)) = opened.first()
    {
        outcome.clone()?;
    }
    Ok(SlotMap::new(
        ranges.to_vec(),
        opened.into_iter().map(|(node, _)| node).collect(),
    ))
}

/// Each host once.
fn hosts(ranges: &[SlotRange]) -> Vec<Host> {
    let mut hosts: Vec<Host> = ranges.iter().map(|range| range.host.clone()).collect();
    hosts.sort();
    hosts.dedup();
    hosts
}
