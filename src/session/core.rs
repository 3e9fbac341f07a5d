//! What sessions and the HTTP API share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::clock::Clock;
use crate::base::ids::{GatewayId, UserId};
use crate::base::metrics::Metrics;
use crate::config::Config;
use crate::edge::admission::Admission;
use crate::peers::Outbox;
use crate::presence::Rooms;
use crate::presence::gateways::Gateways;
use crate::presence::streamers::Streamers;
use crate::presence::trust::Trust;
use crate::session::reaper::Reaper;
use crate::store::{Store, StoreResult};
use crate::sync::lives::Lives;
use crate::sync::removals::Removals;

pub struct Core {
    pub config: Config,
    pub clock: Clock,
    pub gateways: Arc<Gateways>,
    pub store: Arc<dyn Store>,
    /// The same store, for what clients ask: however much that is, the other does not wait behind it.
    pub requests: Arc<dyn Store>,
    pub metrics: Arc<Metrics>,
    pub(crate) admission: Admission,
    pub rooms: Arc<Rooms>,
    pub lives: Arc<Lives>,
    pub removals: Removals,
    pub outbox: Arc<Outbox>,
    pub(crate) reaper: Reaper,
    pub streamers: Arc<Streamers>,
    pub trust: Arc<Trust>,
    pub draining: AtomicBool,
}

impl Core {
    /// This gateway's id of now.
    pub fn id(&self) -> GatewayId {
        self.gateways.id()
    }

    /// Whether this gateway is on its way out and takes nobody in.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Takes nobody in from here on.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Adds a follow, seen at once by every room of the streamer on every gateway.
    ///
    /// # Errors
    /// The store's.
    pub async fn follow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        let news = self.requests.follow(user, streamer).await?;
        self.rooms.check_fan_again(user, streamer);
        self.outbox.follow(user, streamer);
        Ok(news)
    }

    /// Takes a follow back, seen at once by every room of the streamer on every gateway.
    ///
    /// # Errors
    /// The store's.
    pub async fn unfollow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        let news = self.requests.unfollow(user, streamer).await?;
        self.rooms.check_fan_again(user, streamer);
        self.outbox.follow(user, streamer);
        Ok(news)
    }

    /// The metrics as text, with the gauges that are read off at scrape.
    ///
    /// # Errors
    /// See [`Metrics::render`].
    pub fn render_metrics(&self) -> Result<String, std::fmt::Error> {
        let rooms = self.rooms.all();
        let (mut members, mut fans, mut unchecked, mut drift) = (0, 0, 0, 0);
        for room in &rooms {
            members += room.own_viewers().viewers;
            for slice in room.slices() {
                let state = slice.lock();
                fans += state.desired().wanted();
                unchecked += state.unchecked();
                drift += state.drift();
            }
        }
        self.metrics.lives.set(rooms.len() as i64);
        self.metrics.members.set(members as i64);
        self.metrics.fans.set(fans as i64);
        self.metrics.fan_check_queue.set(unchecked as i64);
        self.metrics.drift.set(drift as i64);
        self.metrics.ghost_oldest_seconds.set(self.gateways.oldest_unswept(self.clock.now()).as_secs() as i64);
        self.metrics.render()
    }
}
