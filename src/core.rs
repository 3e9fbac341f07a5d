//! Owns nothing by itself: holds what the parts of one gateway share, and the few decisions that need several of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dashmap::DashMap;
use tokio_util::task::TaskTracker;

use crate::admission::Door;
use crate::auth::Role;
use crate::clock::{Clock, Millis, UnixMicros, millis};
use crate::config::Config;
use crate::conn::Conn;
use crate::counts::{Changed, Quality};
use crate::fans::FanCheck;
use crate::flush::FlushQueue;
use crate::gossip::Gossip;
use crate::ids::{GatewayId, SliceId, UserId};
use crate::lives::{Lives, Parts};
use crate::metrics::Metrics;
use crate::own_lease;
use crate::reaper::Reaper;
use crate::rooms::{Noted, Room, Rooms};
use crate::store::{CheckedPage, Health, Store, StoreResult};
use crate::sweep::Suspects;
use crate::upkeep::Upkeep;

/// What the parts of one gateway share.
pub struct Core {
    /// The settings.
    pub config: Config,
    /// The time.
    pub clock: Clock,
    /// This process.
    pub id: GatewayId,
    /// The store.
    pub store: Arc<dyn Store>,
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// Who may become a socket.
    pub door: Door,
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
    /// This gateway's own lease.
    pub own_lease: own_lease::Hold,
    /// Sockets under watch.
    pub reaper: Reaper,
    /// Gateways that are late.
    pub suspects: Suspects,
    /// The sockets of streamers.
    pub streamers: Streamers,
    /// Since when all of the store answers; `u64::MAX` while some of it does not.
    pub store_up_since: AtomicU64,
    draining: AtomicBool,
}

impl Core {
    /// Wires the parts up. Nothing runs yet.
    pub fn new(config: Config, store: Arc<dyn Store>, metrics: Arc<Metrics>, tasks: TaskTracker) -> Arc<Self> {
        let clock = Clock::start();
        let rooms = Arc::new(Rooms::default());
        let flush = Arc::new(FlushQueue::default());
        let changed = Arc::new(Changed::default());
        let upkeep = Arc::new(Upkeep::new(clock, config.lease_refresh));
        let id = GatewayId::random();
        let gossip = Gossip::new(id.clone(), store.clone(), metrics.clone(), clock, config.lease);
        let gossip = Arc::new(gossip);
        let lives = Arc::new(Lives::new(Parts {
            store: store.clone(),
            rooms: rooms.clone(),
            clock,
            metrics: metrics.clone(),
            upkeep: upkeep.clone(),
            gossip: gossip.clone(),
            lease: config.lease,
            tasks,
        }));
        metrics.store_up.set(1);
        Arc::new(Self {
            id,
            door: Door::new(&config),
            fan_check: FanCheck::new(config.fan_source, store.clone()),
            reaper: Reaper::new(&config, clock),
            suspects: Suspects::new(config.lease),
            streamers: Streamers::default(),
            own_lease: own_lease::Hold::default(),
            store_up_since: AtomicU64::new(0),
            draining: AtomicBool::new(false),
            config,
            clock,
            store,
            metrics,
            rooms,
            lives,
            flush,
            changed,
            gossip,
            upkeep,
        })
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
        let news = self.store.follow(user, streamer).await?;
        self.check_again(user, streamer);
        self.gossip.follow(user, streamer);
        Ok(news)
    }

    /// Takes a follow back, seen at once by every room of the streamer on every gateway.
    ///
    /// # Errors
    /// The store's.
    pub async fn unfollow(&self, user: &UserId, streamer: &UserId) -> StoreResult<bool> {
        let news = self.store.unfollow(user, streamer).await?;
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

    /// The store told this gateway the size of a slice, and when that was: dashboards and the other gateways are to hear.
    pub fn note_card(&self, room: &Arc<Room>, place: usize, said: (u64, UnixMicros)) {
        if self.hear_card(room, place, said) {
            room.slices()[place].has_news();
            self.gossip.mark(room);
        }
    }

    /// The size of a slice, as the store told this gateway or another. True if that is news.
    pub fn hear_card(&self, room: &Arc<Room>, place: usize, said: (u64, UnixMicros)) -> bool {
        let slice = &room.slices()[place];
        let noted = room.note_card(slice, said, self.clock.now(), millis(self.config.lease));
        if noted == Noted::Unsure {
            slice.lock().refresh_due = true;
            self.flush.mark(room, place);
        }
        if noted != Noted::Old {
            // Hearing of a slice can make figures exact again, whatever its size.
            self.changed.mark(room);
        }
        matches!(noted, Noted::Changed | Noted::Unsure)
    }

    /// Notes members of a slice that no gateway held and that were taken out.
    pub fn strays_dropped(&self, slice: &SliceId, page: &CheckedPage) {
        if page.strays == 0 {
            return;
        }
        self.metrics.drifted("stray", page.strays);
        tracing::warn!(live_id = %slice.live, slice = slice.index, members = page.strays, "took members out whom no gateway held");
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
        // Before the first lease has passed, "since the start" is as good as it gets.
        room.quality(self.clock.now().saturating_sub(millis(self.config.lease)))
    }

    /// How old a peer's last refresh must be to be suspected: one more missed refresh and its lease has run out.
    pub fn suspicion(&self) -> Duration {
        self.config.lease.saturating_sub(self.config.lease_refresh + self.config.lease_refresh / 4)
    }

    /// Whether a streamer, silent for so long by the store's clock, has given up. Nobody is judged until the store was
    /// up for a whole lease: while it was away, no gateway could tell it whom it heard.
    pub fn streamer_gave_up(&self, silent: Duration) -> bool {
        let Some(timeout) = self.config.streamer_timeout else { return false };
        let up_since = self.store_up_since.load(Ordering::Relaxed);
        silent > timeout && self.clock.now().saturating_sub(up_since) >= millis(self.config.lease)
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
        self.metrics.ghost_oldest_seconds.set(self.suspects.oldest(self.clock.now()).as_secs() as i64);
        self.metrics.render()
    }
}

/// The sockets of streamers, by user: a live opened over its streamer's socket lasts as long as one of them is heard,
/// whether or not the gateway at which that is has a room of the live.
#[derive(Debug, Default)]
pub struct Streamers {
    here: DashMap<UserId, Vec<Arc<Conn>>>,
    /// When another gateway last said that it heard them.
    elsewhere: DashMap<UserId, Millis>,
}

impl Streamers {
    /// Notes a new socket, if it is a streamer's.
    pub fn admit(&self, conn: &Arc<Conn>) {
        if conn.identity.role == Role::Streamer {
            self.here.entry(conn.identity.user.clone()).or_default().push(conn.clone());
        }
    }

    /// Forgets a socket.
    pub fn forget(&self, conn: &Arc<Conn>) {
        if conn.identity.role != Role::Streamer {
            return;
        }
        if let Some(mut conns) = self.here.get_mut(&conn.identity.user) {
            conns.retain(|other| !Arc::ptr_eq(other, conn));
        }
        self.here.remove_if(&conn.identity.user, |_, conns| conns.is_empty());
    }

    /// Whether one of a streamer's open sockets is on this gateway.
    pub fn is_here(&self, streamer: &UserId) -> bool {
        self.here.contains_key(streamer)
    }

    /// When one of a streamer's open sockets was last heard, here or elsewhere.
    pub fn last_heard(&self, streamer: &UserId) -> Option<Millis> {
        let here = self.here.get(streamer).and_then(|conns| conns.iter().map(|conn| conn.last_heard()).max());
        here.max(self.elsewhere.get(streamer).map(|at| *at))
    }

    /// The streamers who were heard here since `then`.
    pub fn heard_here(&self, then: Millis) -> Vec<UserId> {
        let heard = |conns: &[Arc<Conn>]| conns.iter().any(|conn| conn.last_heard() >= then);
        self.here.iter().filter(|there| heard(there.value())).map(|there| there.key().clone()).collect()
    }

    /// Another gateway heard these.
    pub fn heard_elsewhere(&self, streamers: Vec<UserId>, now: Millis) {
        for streamer in streamers {
            self.elsewhere.insert(streamer, now);
        }
    }

    /// Forgets those of whom no other gateway has spoken since `then`.
    pub fn forget_elsewhere(&self, then: Millis) {
        self.elsewhere.retain(|_, at| *at >= then);
    }
}
