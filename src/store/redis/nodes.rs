//! Owns the set of masters and the map of slots: who is asked for which key, and how the map is kept true. It is read
//! again every few seconds, when a node goes down, and when a node sends a call elsewhere; by one task, one reading at a
//! time, each with a deadline. With one server and no sentinels there is nothing to read.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::ConnectError;
use super::address::{Host, Layout};
use super::board::Board;
use super::client::{Manner, Probes};
use super::keys;
use super::node::Node;
use super::scout;
use super::slots::{SlotMap, SlotRange};
use crate::metrics::Metrics;
use crate::store::{Doubts, Health, Parts, StoreError, StoreResult};

/// The first reading of the map and the first connections, all in all.
const START_DEADLINE: Duration = Duration::from_secs(5);
/// How often the map is read: while all is well, and while some node is down.
const EVERY: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(1));
/// Two readings are so far apart at least, however many ask.
const GAP: Duration = Duration::from_millis(100);
/// One reading, with the connections to new nodes.
const READING_DEADLINE: Duration = Duration::from_secs(5);
/// A node without slots that no call was sent to for so long is let go of.
const GUEST_STAYS: Duration = Duration::from_secs(60);

/// The masters; their connections end when this is dropped.
#[derive(Debug)]
pub(super) struct Nodes {
    shared: Arc<Shared>,
    _tasks: DropGuard,
}

/// How to speak to the nodes, who they are now, and whom to tell that they may be others.
#[derive(Debug, Clone)]
pub(super) struct Listening {
    pub(super) manner: Manner,
    pub(super) map: watch::Receiver<Arc<SlotMap>>,
    pub(super) board: Arc<Board>,
}

#[derive(Debug)]
struct Shared {
    manner: Manner,
    board: Arc<Board>,
    map: watch::Sender<Arc<SlotMap>>,
    /// How often the map was read.
    readings: watch::Sender<u64>,
    /// Nodes that calls were sent on to and that serve no slot yet: a new master that is being filled.
    guests: Mutex<Vec<(Arc<Node>, Instant)>>,
    adopting: tokio::sync::Mutex<()>,
}

impl Nodes {
    /// Finds the masters and connects to them.
    ///
    /// # Errors
    /// If nobody says who they are, or none of them answers.
    pub(super) async fn connect(manner: Manner, metrics: Arc<Metrics>) -> Result<Self, ConnectError> {
        let board = Arc::new(Board::new(metrics));
        let first = timeout(START_DEADLINE, async {
            let ranges = scout::ranges(&manner, None).await?;
            open_all(&manner, &ranges, &board).await
        });
        let map = first.await.unwrap_or(Err(StoreError::Timeout))?;
        take_over(&map, &manner, &board);
        let fixed = manner.address().layout == Layout::Single;
        let shared = Arc::new(Shared {
            manner,
            board,
            map: watch::Sender::new(Arc::new(map)),
            readings: watch::Sender::new(0),
            guests: Mutex::default(),
            adopting: tokio::sync::Mutex::default(),
        });
        let stop = CancellationToken::new();
        if !fixed {
            let (keeper, stopped) = (Arc::clone(&shared), stop.clone());
            tokio::spawn(async move { stopped.run_until_cancelled(keeper.keep()).await });
        }
        let (board, map, stopped) = (Arc::clone(&shared.board), shared.map.subscribe(), stop.clone());
        tokio::spawn(async move { stopped.run_until_cancelled(board.doubter().tell(map)).await });
        Ok(Self { shared, _tasks: stop.drop_guard() })
    }

    pub(super) fn health(&self) -> watch::Receiver<Health> {
        self.shared.board.any()
    }

    pub(super) fn parts(&self) -> watch::Receiver<Arc<Parts>> {
        self.shared.board.parts()
    }

    pub(super) fn doubts(&self) -> Doubts {
        self.shared.board.doubter().hear()
    }

    /// What listening at the nodes takes.
    pub(super) fn listening(&self) -> Listening {
        let Shared { manner, map, board, .. } = &*self.shared;
        Listening { manner: manner.clone(), map: map.subscribe(), board: Arc::clone(board) }
    }

    /// Who serves a slot.
    pub(super) fn owner(&self, slot: u16) -> StoreResult<Arc<Node>> {
        let owner = self.shared.map.borrow().owner(slot).cloned();
        owner.ok_or_else(|| {
            self.shared.board.suspect_map();
            StoreError::Refused(format!("CLUSTERDOWN slot {slot} is not served"))
        })
    }

    /// All masters that serve slots.
    pub(super) fn masters(&self) -> Vec<Arc<Node>> {
        self.shared.map.borrow().nodes().to_vec()
    }

    /// The node that another one sent a call to. One that is not known yet is looked for on the map first, and taken as a
    /// guest if it is not there.
    pub(super) async fn sent_to(&self, host: &Host) -> StoreResult<Arc<Node>> {
        if let Some(node) = self.shared.known(host) {
            return Ok(node);
        }
        let mut readings = self.shared.readings.subscribe();
        readings.mark_unchanged();
        self.shared.board.suspect_map();
        let _ = readings.changed().await;
        let _one_at_a_time = self.shared.adopting.lock().await;
        if let Some(node) = self.shared.known(host) {
            return Ok(node);
        }
        let (node, outcome) = Node::open(&self.shared.manner, host, &self.shared.board).await?;
        outcome?;
        tracing::info!(node = %host, "redis sends calls to a node that serves no slot yet");
        self.shared.guests.lock().push((Arc::clone(&node), Instant::now()));
        Ok(node)
    }

    /// Whether calls are sent on to other nodes.
    pub(super) fn are_cluster(&self) -> bool {
        self.shared.manner.address().layout == Layout::Cluster
    }

    /// The map may be wrong: read it again, soon.
    pub(super) fn suspect_map(&self) {
        self.shared.board.suspect_map();
    }
}

impl Shared {
    fn known(&self, host: &Host) -> Option<Arc<Node>> {
        if let Some(node) = self.map.borrow().at(host) {
            return Some(Arc::clone(node));
        }
        let mut guests = self.guests.lock();
        let (node, last) = guests.iter_mut().find(|(node, _)| node.host() == host)?;
        *last = Instant::now();
        Some(Arc::clone(node))
    }

    async fn keep(&self) {
        loop {
            let every = if self.board.is_whole() { EVERY.0 } else { EVERY.1 };
            tokio::select! {
                () = self.board.map_suspected() => {}
                () = sleep(every.mul_f64(rand::random_range(0.8..1.2))) => {}
            }
            match timeout(READING_DEADLINE, self.read()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "nobody says who the redis masters are"),
                Err(_) => tracing::debug!("nobody says in time who the redis masters are"),
            }
            self.readings.send_modify(|n| *n += 1);
            sleep(GAP).await;
        }
    }

    async fn read(&self) -> StoreResult<()> {
        let old = Arc::clone(&self.map.borrow());
        let ranges = scout::ranges(&self.manner, Some(&old)).await?;
        self.guests.lock().retain(|(_, last)| last.elapsed() < GUEST_STAYS);
        if ranges == old.ranges() {
            return Ok(());
        }
        let opening = hosts(&ranges).into_iter().map(|host| async move {
            match self.known(&host) {
                Some(node) => Ok(node),
                None => Node::open(&self.manner, &host, &self.board).await.map(|(node, _)| node),
            }
        });
        let nodes: Vec<_> = join_all(opening).await.into_iter().collect::<StoreResult<_>>()?;
        let names: Vec<_> = nodes.iter().map(|node| node.host().to_string()).collect();
        tracing::info!(masters = names.join(" "), "the redis masters or their slots have changed");
        self.guests.lock().retain(|(guest, _)| nodes.iter().all(|node| node.host() != guest.host()));
        let map = Arc::new(SlotMap::new(ranges, nodes));
        take_over(&map, &self.manner, &self.board);
        self.map.send_replace(Arc::clone(&map));
        self.board.doubter().of_slots(map.moved_since(&old));
        Ok(())
    }
}

/// From now on these nodes count, and are probed with keys that lie on them.
fn take_over(map: &SlotMap, manner: &Manner, board: &Board) {
    for node in map.nodes() {
        node.probe_with(match (manner.probes(), &manner.address().layout) {
            (Probes::Ping, _) => None,
            (Probes::Canary, Layout::Cluster) => map.canary_at(node.host(), node.canary()),
            (Probes::Canary, Layout::Single | Layout::Sentinel(_)) => Some(keys::CANARY.to_owned()),
        });
    }
    board.list(map);
}

/// Connects to every master; at least one must answer.
async fn open_all(manner: &Manner, ranges: &[SlotRange], board: &Arc<Board>) -> StoreResult<SlotMap> {
    let hosts = hosts(ranges);
    let opening = hosts.iter().map(|host| Node::open(manner, host, board));
    let opened: Vec<_> = join_all(opening).await.into_iter().collect::<StoreResult<_>>()?;
    if opened.iter().all(|(_, outcome)| outcome.is_err())
        && let Some((_, outcome)) = opened.first()
    {
        outcome.clone()?;
    }
    Ok(SlotMap::new(ranges.to_vec(), opened.into_iter().map(|(node, _)| node).collect()))
}

/// Each host once.
fn hosts(ranges: &[SlotRange]) -> Vec<Host> {
    let mut hosts: Vec<Host> = ranges.iter().map(|range| range.host.clone()).collect();
    hosts.sort();
    hosts.dedup();
    hosts
}
