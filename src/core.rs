//! STAND-IN, replaced at merge: only what the HTTP edge asks of the core.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::task::TaskTracker;

use crate::clock::Clock;
use crate::config::Config;
use crate::ids::{GatewayId, UserId};
use crate::lives::Lives;
use crate::metrics::Metrics;
use crate::store::{Store, StoreResult};

/// What every part of a gateway shares.
pub struct Core {
    /// The settings.
    pub config: Config,
    /// The clock.
    pub clock: Clock,
    /// This process.
    pub id: GatewayId,
    /// The store.
    pub store: Arc<dyn Store>,
    /// The lives.
    pub lives: Arc<Lives>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    draining: AtomicBool,
}

impl Core {
    /// Builds a core.
    pub fn new(config: Config, store: Arc<dyn Store>, metrics: Arc<Metrics>, _tasks: TaskTracker) -> Arc<Self> {
        Arc::new(Self {
            config,
            clock: Clock::start(),
            id: GatewayId::random(),
            lives: Arc::new(Lives::new(store.clone())),
            store,
            metrics,
            draining: AtomicBool::new(false),
        })
    }

    /// Whether a drain has begun.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Begins a drain.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Follows, seen by every room at once.
    pub async fn follow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        self.store.follow(user, streamer).await
    }

    /// Unfollows, seen by every room at once.
    pub async fn unfollow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        self.store.unfollow(user, streamer).await
    }
}
