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
    /// Up while any node is.
    any: watch::Sender<Health>,
    /// Up while every node is.
    all: watch::Sender<Health>,
    /// Somebody has reason to think that the map is wrong.
    doubts: Notify,
    metrics: Arc<Metrics>,
}

impl Board {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        let [any, all] = [(), ()].map(|()| watch::Sender::new(Health::Down));
        Self { nodes: Mutex::default(), any, all, doubts: Notify::new(), metrics }
    }

    pub(super) fn any(&self) -> watch::Receiver<Health> {
        self.any.subscribe()
    }

    pub(super) fn all(&self) -> watch::Receiver<Health> {
        self.all.subscribe()
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

    fn judge(&self) {
        let nodes = self.nodes.lock();
        let is_up = |node: &watch::Receiver<Health>| *node.borrow() == Health::Up;
        let tell = |sender: &watch::Sender<Health>, up| {
            let now = if up { Health::Up } else { Health::Down };
            sender.send_if_modified(|health| std::mem::replace(health, now) != now)
        };
        let any = nodes.iter().any(is_up);
        tell(&self.all, any && nodes.iter().all(is_up));
        if tell(&self.any, any) {
            self.metrics.store_up.set(i64::from(any));
        }
    }
}
