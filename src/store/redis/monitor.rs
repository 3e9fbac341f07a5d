//! The health of the store: up while any node answers, whole while all do. Watchdogs report here.
//! While a node is down, calls to it fail and the topology reads the map again. Calls to the other
//! nodes must go on.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::doubts::DoubtCollector;
use crate::base::metrics::Metrics;
use crate::store::{Health, Parts};

/// The health of every node. Holds no node, because each node's watchdog holds the monitor.
#[derive(Debug)]
pub(crate) struct Monitor {
    listed: Mutex<ListedNodes>,
    /// Up while any node is.
    any: watch::Sender<Health>,
    parts: watch::Sender<Arc<Parts>>,
    /// The map may be wrong.
    suspicions: Notify,
    doubts: DoubtCollector,
    metrics: Arc<Metrics>,
}

/// The nodes, and the number of the one that serves each slot.
#[derive(Debug, Default)]
struct ListedNodes {
    owners: Arc<[u16]>,
    nodes: Vec<watch::Receiver<Health>>,
}

impl Monitor {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self {
            listed: Mutex::default(),
            any: watch::Sender::new(Health::Down),
            parts: watch::Sender::new(Arc::new(Parts::one(Health::Down))),
            suspicions: Notify::new(),
            doubts: DoubtCollector::default(),
            metrics,
        }
    }

    pub(crate) fn any(&self) -> watch::Receiver<Health> {
        self.any.subscribe()
    }

    pub(crate) fn parts(&self) -> watch::Receiver<Arc<Parts>> {
        self.parts.subscribe()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.parts.borrow().is_whole()
    }

    pub(crate) fn doubts(&self) -> &DoubtCollector {
        &self.doubts
    }

    /// Makes these nodes count from now on; `owners` has the place of each slot's node among them.
    pub(crate) fn list(&self, owners: Arc<[u16]>, nodes: Vec<watch::Receiver<Health>>) {
        *self.listed.lock() = ListedNodes { owners, nodes };
        self.judge();
    }

    pub(crate) fn changed(&self, now: Health) {
        self.judge();
        if now == Health::Down {
            self.suspect_map();
        }
    }

    /// The map may be wrong: makes the topology read it again soon.
    pub(crate) fn suspect_map(&self) {
        self.suspicions.notify_one();
    }

    pub(crate) async fn map_suspected(&self) {
        self.suspicions.notified().await;
    }

    fn judge(&self) {
        // The lock is held to the end, so that of two calls the later one publishes last.
        let listed = self.listed.lock();
        let up: Vec<bool> = listed
            .nodes
            .iter()
            .map(|node| *node.borrow() == Health::Up)
            .collect();
        let any = up.contains(&true);
        let now = Arc::new(Parts::of(Arc::clone(&listed.owners), up));
        self.parts.send_if_modified(|parts| {
            let changed = *parts != now;
            *parts = now;
            changed
        });
        let now = if any { Health::Up } else { Health::Down };
        if self
            .any
            .send_if_modified(|health| std::mem::replace(health, now) != now)
        {
            self.metrics.store_up.set(i64::from(any));
        }
    }
}
