//! Owns nothing by itself: holds what the parts of one gateway share, and the few decisions that need several of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::task::TaskTracker;

use crate::admission::Admission;
use crate::clock::{Clock, Millis};
use crate::config::Config;
use crate::counts::{Changed, Quality};
use crate::fans::FanCheck;
use crate::flush::FlushQueue;
use crate::gossip::Gossip;
use crate::ids::{GatewayId, SliceId, UserId};
use crate::lease::OwnLease;
use crate::liveness::Liveness;
use crate::lives::{self, Lives};
use crate::metrics::Metrics;
use crate::reaper::Reaper;
use crate::rooms::{Room, Rooms};
use crate::store::{Doubt, Health, MAX_BATCH, Parts, Store, StoreResult, StraysPage};
use crate::streamers::Streamers;
use crate::upkeep::Upkeep;
use crate::walk::Walk;

/// What the parts of one gateway share.
pub struct Core {
    /// The settings.
    pub config: Config,
    /// The time.
    pub clock: Clock,
    /// This gateway's lease, and its id of now.
    pub own_lease: OwnLease,
    /// Which gateways live.
    pub liveness: Arc<Liveness>,
    /// The store, for what this gateway does by itself: leases, flushes, checks, the walk.
    pub store: Arc<dyn Store>,
    /// The same store, for what clients ask: however much that is, the other does not wait behind it.
    pub requests: Arc<dyn Store>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// Who may become a socket.
    pub(crate) admission: Admission,
    /// Who is in which live.
    pub rooms: Arc<Rooms>,
    /// Opening and closing.
    pub lives: Arc<Lives>,
    /// Who follows whom, for the flusher.
    pub fan_check: FanCheck,
    /// Slices to flush.
    pub flush: Arc<FlushQueue>,
    /// Rooms whose figures changed.
    pub changed: Arc<Changed>,
    /// What is said to other gateways.
    pub gossip: Arc<Gossip>,
    /// Rooms under care.
    pub upkeep: Arc<Upkeep>,
    /// Sockets under watch.
    pub(crate) reaper: Reaper,
    /// The walk over all open lives.
    pub walk: Walk,
    /// The sockets of streamers.
    pub streamers: Streamers,
    draining: AtomicBool,
}

impl Core {
    /// Wires the parts up. Nothing runs yet.
    pub fn new(config: Config, store: Arc<dyn Store>, metrics: Arc<Metrics>, tasks: TaskTracker) -> Arc<Self> {
        let clock = Clock::start();
        let rooms = Arc::new(Rooms::default());
        let upkeep = Arc::new(Upkeep::new(clock, &config));
        let own_lease = OwnLease::default();
        let liveness = Arc::new(Liveness::new(config.lease, config.lease_refresh));
        let requests = store.clone().for_clients();
        let gossip = Arc::new(Gossip::new(own_lease.present(), store.clone(), metrics.clone()));
        let lives = Arc::new(Lives::new(lives::Parts {
            store: requests.clone(),
            rooms: rooms.clone(),
            clock,
            metrics: metrics.clone(),
            upkeep: upkeep.clone(),
            gossip: gossip.clone(),
            liveness: liveness.clone(),
            closed_ttl: config.closed_ttl,
            tasks,
        }));
        metrics.store_up.set(1);
        Arc::new(Self {
            admission: Admission::new(&config),
            fan_check: FanCheck::new(config.fan_source, store.clone()),
            reaper: Reaper::new(&config, clock),
            streamers: Streamers::default(),
            walk: Walk::default(),
            flush: Arc::new(FlushQueue::default()),
            changed: Arc::new(Changed::default()),
            draining: AtomicBool::new(false),
            own_lease,
            liveness,
            config,
            clock,
            store,
            requests,
            metrics,
            rooms,
            lives,
            gossip,
            upkeep,
        })
    }

    /// This gateway's id of now.
    pub fn id(&self) -> GatewayId {
        self.own_lease.incarnation().id.clone()
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
        self.check_again(user, streamer);
        self.gossip.follow(user, streamer);
        Ok(news)
    }

    /// Takes a follow back, seen at once by every room of the streamer on every gateway.
    ///
    /// # Errors
    /// The store's.
    pub async fn unfollow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        let news = self.requests.unfollow(user, streamer).await?;
        self.check_again(user, streamer);
        self.gossip.follow(user, streamer);
        Ok(news)
    }

    /// A user's fan check is due at once in every room of the streamer.
    pub fn check_again(&self, user: &UserId, streamer: &UserId) {
        for room in self.rooms.of_streamer(streamer) {
            let (place, slice) = room.slice_of(user);
            let here = slice.lock().check_again(user);
            if here {
                self.flush.mark(&room, place);
            }
        }
    }

    /// The store told this gateway the size of a slice and its version: dashboards and the other gateways are to hear. Of the
    /// same size too, which here is no news: the others may have heard another one of a version between.
    pub fn note_card(&self, room: &Arc<Room>, place: usize, size: (u64, u64)) {
        let slice = &room.slices()[place];
        self.hear_card(room, place, size);
        if size.1 >= slice.size().1 {
            slice.has_news();
            self.gossip.mark(room);
        }
    }

    /// The size of a slice and its version, as the store told this gateway or another.
    pub fn hear_card(&self, room: &Arc<Room>, place: usize, size: (u64, u64)) {
        let slice = &room.slices()[place];
        // The first time makes figures exact, whatever the size.
        let first = slice.heard() == 0;
        if room.note_card(slice, size, self.clock.now()) || first {
            self.changed.mark(room);
        }
    }

    /// Notes members of a slice that no gateway held and that were taken out.
    pub fn strays_dropped(&self, slice: &SliceId, page: &StraysPage) {
        if page.strays == 0 {
            return;
        }
        self.metrics.drifted("stray", page.strays);
        tracing::warn!(live_id = %slice.live, slice = slice.index, members = page.strays, "took members out whom no gateway held");
    }

    /// How many members one call may take out of a slice: each of them is looked for at every gateway.
    pub fn removals_a_call(&self) -> usize {
        (MAX_BATCH / self.liveness.roster().living.len().max(1)).max(10)
    }

    /// The roster of gateways is another than before: other viewers count, or are in doubt.
    pub fn roster_changed(&self) {
        let roster = self.liveness.roster();
        for room in self.rooms.all() {
            if room.peers.look(&roster) {
                room.note_peers();
                self.changed.mark(&room);
                // What a gateway held that died is swept by now, or soon: its size may be told to nobody here.
                self.upkeep.check_at(&room, self.clock.now() + rand::random_range(1_000..3_000));
            }
        }
    }

    /// Anything may have been lost: all that this gateway holds is checked at once.
    pub fn doubt_everything(&self) {
        self.upkeep.check_soon(self.rooms.all());
        self.streamers.say_all_again();
    }

    /// There is reason to doubt what the store holds in some slots.
    pub fn doubt(&self, doubt: &Doubt) {
        self.metrics.doubts.inc();
        let list = doubt.covers(self.store.slot_of_list());
        let lies_there = |room: &Arc<Room>| {
            list || doubt.covers(self.store.slot_of_live(&room.record.live))
                || room.slices().iter().any(|slice| doubt.covers(self.store.slot_of_slice(&slice.id)))
        };
        let mut rooms = self.rooms.all();
        rooms.retain(lies_there);
        self.upkeep.check_soon(rooms);
        self.streamers.say_all_again();
    }

    /// This gateway has a new id, under which it has said nothing yet.
    pub fn say_everything_anew(&self) {
        for room in self.rooms.all() {
            for place in 0..room.slices().len() {
                self.flush.mark(&room, place);
            }
            self.gossip.mark(&room);
        }
        self.streamers.say_all_again();
    }

    /// The store shall hold nobody of this gateway's any more.
    pub fn want_nobody(&self) {
        for room in self.rooms.all() {
            for (place, slice) in room.slices().iter().enumerate() {
                let dirty = {
                    let mut state = slice.lock();
                    state.want_nobody();
                    state.is_dirty()
                };
                if dirty {
                    self.flush.mark(&room, place);
                }
            }
        }
    }

    /// How far a room's figures can be trusted now.
    pub fn quality(&self, room: &Room) -> Quality {
        if *self.store.health().borrow() == Health::Down {
            return Quality::Stale;
        }
        // A gateway that cannot renew its lease cannot see either who else still lives.
        if !self.own_lease.is_fresh(self.clock.now(), self.config.lease / 2) && self.own_lease.had_any() {
            return Quality::Partial;
        }
        let parts = self.store.parts().borrow().clone();
        if !parts.is_whole() && self.is_partly_away(room, &parts) {
            return Quality::Partial;
        }
        room.quality()
    }

    /// Whether the record of a live or one of its slices lies where the store does not answer.
    fn is_partly_away(&self, room: &Room, parts: &Parts) -> bool {
        parts.is_away(self.store.slot_of_live(&room.record.live))
            || room.slices().iter().any(|slice| parts.is_away(self.store.slot_of_slice(&slice.id)))
    }

    /// When the figures of a room were last sure to be those of the store.
    pub fn sure_at(&self, room: &Room) -> Millis {
        match self.quality(room) {
            Quality::Exact => self.clock.now(),
            Quality::Partial => room.heard_of_all(),
            Quality::Stale => room.heard_of_all().max(self.own_lease.renewed_at()),
        }
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
                fans += state.ledger.wanted();
                unchecked += state.unchecked();
                drift += state.drift;
            }
        }
        self.metrics.lives.set(rooms.len() as i64);
        self.metrics.members.set(members as i64);
        self.metrics.fans.set(fans as i64);
        self.metrics.fan_check_queue.set(unchecked as i64);
        self.metrics.drift.set(drift as i64);
        self.metrics.ghost_oldest_seconds.set(self.walk.oldest_unswept(self.clock.now()).as_secs() as i64);
        self.metrics.render()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing;

    #[tokio::test]
    async fn a_change_that_leaves_the_size_as_it_was_known_is_told() {
        let core = testing::core();
        let room = testing::open_live(&core, "42").await;
        let slice = &room.slices()[0];
        let (_, before) = slice.size();
        core.hear_card(&room, 0, (66, before + 1));
        assert_eq!(slice.take_news(), None, "whoever said so told the others");
        // Somebody came by another gateway, whose word is on its way; then somebody went by this one.
        core.note_card(&room, 0, (66, before + 3));
        assert_eq!(slice.take_news(), Some((66, before + 3)), "the others may hold the size of the version between");
        // An answer that others have overtaken is no news.
        core.note_card(&room, 0, (67, before + 2));
        assert_eq!(slice.take_news(), None);
    }
}
