//! Owns the judgement of the store as a whole: up while any node answers. Trouble with one node is told to who asks of
//! it, and to the keeper of the map; it must not stop the others. Watchdogs report here.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::metrics::Metrics;
use crate::store::Health;

/// The health of every node there is.
#[derive(Debug)]
pub(super) struct Board {
    nodes: Mutex<Vec<watch::Receiver<Health>>>,
    whole: watch::Sender<Health>,
    /// Somebody has reason to think that the map is wrong.
    doubts: Notify,
    metrics: Arc<Metrics>,
}

impl Board {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self { nodes: Mutex::default(), whole: watch::Sender::new(Health::Down), doubts: Notify::new(), metrics }
    }

    pub(super) fn whole(&self) -> watch::Receiver<Health> {
        self.whole.subscribe()
    }

    /// From now on these nodes count.
    pub(super) fn list(&self, nodes: Vec<watch::Receiver<Health>>) {
        *self.nodes.lock() = nodes;
        self.judge();
    }

    /// A node's health has changed.
    pub(super) fn changed(&self, now: Health) {
        self.judge();
        if now == Health::Down {
            self.doubt();
        }
    }

    pub(super) fn doubt(&self) {
        self.doubts.notify_one();
    }

    pub(super) async fn doubted(&self) {
        self.doubts.notified().await;
    }

    /// Whether some node does not answer.
    pub(super) fn troubled(&self) -> bool {
        self.nodes.lock().iter().any(|node| *node.borrow() == Health::Down)
    }

    fn judge(&self) {
        let nodes = self.nodes.lock();
        let up = nodes.iter().any(|node| *node.borrow() == Health::Up);
        let now = if up { Health::Up } else { Health::Down };
        if self.whole.send_if_modified(|health| std::mem::replace(health, now) != now) {
            self.metrics.store_up.set(i64::from(up));
        }
    }
}
