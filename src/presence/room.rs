//! One epoch of one live on this gateway: its slices, the users who sit here, its figures, what is
//! due, the sockets that listen, and its end. Sessions join and leave; the loops in `sync`, `peers`
//! and `dashboards` bring the news of the store and the peers.

mod figures;
mod schedule;
mod seats;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::time::Instant;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use self::figures::RoomFigures;
use self::schedule::Schedule;
use self::seats::RoomSeats;
use super::acks::CachedAcks;
use super::bans::KnownBans;
use super::confirmed::ConfirmedViewers;
use super::figures::{Figures, Quality};
use super::friends_here::FriendsHere;
use super::gateways::Roster;
use super::moves::Moves;
use super::own_lease::OwnLease;
use super::pushed_counts::PushedCounts;
use super::room_info::RoomInfo;
use super::room_stream::{RoomStream, ShownStream};
use super::rules::{KnownRules, RunningBan};
use super::sign_ins::SignIns;
use super::slice::Slice;
use super::throttle::Shown;
use crate::base::clock::{Clock, Moment};
use crate::base::ids::{GatewayId, SliceId, UserId};
use crate::config::FanSource;
use crate::presence::conn::{Conn, Signals};
use crate::store::{Arrived, LiveRecord, LiveState, SliceSize};

/// How a room ended.
#[derive(Debug, Clone)]
pub enum RoomEnd {
    /// The epoch is over; the closed or closing record says why.
    Closed(Arc<LiveRecord>),
    /// Nobody needed the room on this gateway; the live goes on.
    Evicted,
}

/// The news that a listener gets besides the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Counts, now and on change.
    Counts,
    /// Only the end, for the socket that opened the live.
    End,
}

/// The room has ended; the caller looks for the live again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended;

/// Why a socket gets no seat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoSeat {
    /// See [`Ended`].
    Ended,
    /// A moderator removed the user, who may not come back for this long.
    Banned(Duration),
    /// A ban of the platform or of the streamer runs.
    KeptOut(RunningBan),
    /// Too many users join the live at once.
    Crowded,
}

/// The settings that all rooms of a gateway share.
#[derive(Debug, Clone)]
pub struct RoomTerms {
    pub fan_source: FanSource,
    /// Whether the gateway counts different users.
    pub uniques: bool,
    pub own: Arc<OwnLease>,
    /// Who is banned, who moderates.
    pub rules: Arc<KnownRules>,
    pub clock: Clock,
    /// How long a live that a stream opened outlives it.
    pub stream_grace: Duration,
}

#[derive(Debug)]
pub struct Room {
    /// The live as it was when the room was made: its epoch, streamer and slices do not change. See
    /// [`Room::record_now`].
    pub record: LiveRecord,
    pub(super) slices: Box<[Slice]>,
    /// `seating.rs` seats the users.
    pub seats: RoomSeats,
    pub figures: RoomFigures,
    /// The viewers whom a back end confirmed.
    pub confirmed: ConfirmedViewers,
    pub schedule: Schedule,
    end: OnceLock<RoomEnd>,
    /// Set while eviction checks whether the room is in use. The room refuses a join then, and the
    /// session looks for the live again.
    leaving: AtomicBool,
    listeners: Mutex<Vec<(Arc<Conn>, Interest)>>,
    /// The viewers who get pushed counts.
    pub pushed: PushedCounts,
    /// The viewers who asked for their friends here.
    pub friends: FriendsHere,
    /// The guests who become users just now.
    pub(super) sign_ins: SignIns,
    /// The users who came or left, for the gateways with viewers who asked for their friends here.
    pub moves: Moves,
    pub acks: ArcSwap<CachedAcks>,
    /// The information that a back end wrote about the live.
    pub info: RoomInfo,
    pub stream: RoomStream,
    stream_grace: Duration,
    /// Whether the gateway counts different users.
    pub uniques: bool,
    pub rules: Arc<KnownRules>,
}

impl Room {
    /// An empty room of an open live.
    pub fn new(record: LiveRecord, bans: KnownBans, now: Moment, terms: RoomTerms) -> Self {
        Self {
            slices: record.all_slices().map(|id| Slice::new(id, now)).collect(),
            seats: RoomSeats::new(&record, bans, terms.fan_source, now),
            figures: RoomFigures::new(record.peaks, terms.own, terms.clock),
            confirmed: ConfirmedViewers::default(),
            schedule: Schedule::new(now),
            end: OnceLock::new(),
            leaving: AtomicBool::new(false),
            listeners: Mutex::new(Vec::new()),
            pushed: PushedCounts::default(),
            friends: FriendsHere::default(),
            sign_ins: SignIns::default(),
            moves: Moves::default(),
            acks: ArcSwap::from_pointee(CachedAcks::default()),
            info: RoomInfo::new(&record),
            stream: RoomStream::new(record.stream),
            stream_grace: terms.stream_grace,
            uniques: terms.uniques,
            rules: terms.rules,
            record,
        }
    }

    pub fn end(&self) -> Option<&RoomEnd> {
        self.end.get()
    }

    /// The live as a back end last wrote about it.
    pub fn record_now(&self) -> LiveRecord {
        let known = self.info.newest();
        LiveRecord {
            version: known.version,
            info: known.info.clone(),
            terms: known.terms.clone(),
            ..self.record.clone()
        }
    }

    /// The record of the close, if the room ended by one.
    pub fn closed(&self) -> Option<&Arc<LiveRecord>> {
        match self.end.get() {
            Some(RoomEnd::Closed(record)) => Some(record),
            _ => None,
        }
    }

    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// The place in [`Room::slices`] of this slice of a live; `None` if the room has no such slice.
    pub fn place_of(&self, slice: &SliceId) -> Option<usize> {
        let place = slice.index.checked_sub(1)? as usize;
        let there = self.slices.get(place)?;
        if there.id != *slice {
            return None;
        }
        Some(place)
    }

    /// The place of a user's slice in [`Room::slices`].
    pub fn place_of_user(&self, user: &UserId) -> usize {
        self.seats.place_of(user)
    }

    /// Since when a change here waits for the store.
    pub fn waits_for_store_since(&self) -> Option<Instant> {
        self.slices
            .iter()
            .filter_map(|slice| slice.lock().unconfirmed_since())
            .min()
    }

    /// When the store last told the size of the slice with the oldest news.
    pub fn oldest_update(&self) -> Moment {
        self.slices
            .iter()
            .map(Slice::heard)
            .min()
            .unwrap_or_default()
    }

    /// Whether a user counts here whom the store does not hold for this gateway yet, so that its
    /// figures may be older than the user's join.
    pub fn is_newcomer(&self, user: &UserId) -> bool {
        self.slices[self.place_of_user(user)]
            .lock()
            .desired()
            .is_newcomer(user)
    }

    /// The ban of the platform or of the streamer that keeps a user out. A moderator's ban keeps no
    /// host out.
    pub fn kept_out(&self, user: &UserId, now: Moment) -> Option<RunningBan> {
        let ban = self.rules.ban_by(&self.record.streamer, user, now)?;
        let holds = !ban.by_moderator || !self.info.names_host(user);
        holds.then_some(ban)
    }

    /// Whether a user hosts the live now.
    pub fn is_host(&self, user: &UserId, now: Moment) -> bool {
        let streamer = &self.record.streamer;
        self.info.names_host(user) && self.rules.ban_of_host(streamer, user, now).is_none()
    }

    /// Whether the user is the streamer or a host, who keep the live open while they are there.
    pub fn is_kept_by(&self, user: &UserId) -> bool {
        self.record.streamer == *user || self.info.names_host(user)
    }

    /// Signals the sockets of a user that sit or listen here.
    pub fn signal_user(&self, user: &UserId, signals: Signals) {
        for conn in self.seats.lock_of(user).conns(user) {
            conn.signal(signals);
        }
        for (conn, _) in self.listeners.lock().iter() {
            if conn.identity.user == *user {
                conn.signal(signals);
            }
        }
    }

    // --------------------------------------------------------------------------------- the figures

    /// The viewers and fans on all gateways. Each heartbeat asks for them.
    pub fn figures(&self) -> Figures {
        self.figures.now()
    }

    /// Whether this gateway is the one that writes the live's figures into its record. Among the
    /// gateways with viewers, the gateway with the highest hash writes. If no gateway has viewers
    /// left, each gateway that had some may write.
    pub fn is_counted_here(&self, own: &GatewayId, roster: &Roster) -> bool {
        let peers = self.figures.remote.lock().with_viewers(roster);
        let highest_peer = peers.iter().map(|peer| self.writer_rank(peer)).max();
        let has_viewers = self.figures.own_viewers().viewers > 0;
        match highest_peer {
            Some(peer) => has_viewers && peer < self.writer_rank(own),
            None => {
                has_viewers
                    || self
                        .slices
                        .iter()
                        .any(|slice| slice.lock().desired().is_registered())
            }
        }
    }

    /// The rank of a gateway for [`Self::is_counted_here`]: its hash, then its id.
    fn writer_rank(&self, gateway: &GatewayId) -> (u64, GatewayId) {
        let live = xxh3_64(self.record.live.as_str().as_bytes());
        let hash = xxh3_64_with_seed(gateway.as_str().as_bytes(), live);
        (hash, gateway.clone())
    }

    /// The figures as the store last said, and the numbers of users who came and left, of one
    /// moment: each user who came has left or is there.
    pub fn totals(&self) -> (Figures, Arrived) {
        let mut arrived = Arrived::default();
        let (mut fans, mut guests) = (0, 0);
        for slice in &self.slices {
            let size = slice.size();
            arrived = arrived.plus(size.arrived());
            fans += size.fans;
            guests += size.guests;
        }
        let viewers = arrived.joins.saturating_sub(arrived.leaves);
        let figures = Figures {
            viewers,
            fans,
            guests: guests.min(viewers),
        };
        (figures, arrived)
    }

    /// The figures for dashboards. `quality` runs last, so that no doubtful figure passes for a
    /// certain one.
    pub fn show(&self, at: Moment, quality: impl FnOnce() -> Quality) -> Shown {
        let (figures, arrived) = self.totals();
        let looks = self.figures.looks_of(figures.viewers);
        Shown {
            at,
            figures,
            away: looks.away,
            watching: looks.watching,
            confirmed: self.confirmed.viewers().min(figures.viewers),
            arrived,
            stream: self.shown_stream(),
            quality: quality(),
        }
    }

    /// The stream of the live, for clients; `None` if no media server told of one.
    pub fn shown_stream(&self) -> Option<ShownStream> {
        let status = self.stream.status()?;
        Some(ShownStream::of(&self.record, status, self.stream_grace))
    }

    /// Notes the size of a slice, which the store told this gateway or a peer, and a new peak if it
    /// makes one. True if more than the version changed.
    pub fn note_size(&self, place: usize, size: SliceSize, now: Moment) -> bool {
        let has_changed = self.slices[place].note(size, now, &self.figures.size);
        self.figures.note_peaks();
        has_changed
    }

    /// Notes that everything that the store said of this live is in doubt from `now` on, until a
    /// later call or check shows that it is right.
    pub fn doubt(&self, now: Moment) {
        self.figures.doubt(now);
        self.schedule.check.doubt();
    }

    /// Ends the doubt about everything if a check, and a call or a check of each slice, have shown
    /// since that all is right. True if the doubt ended.
    pub fn end_doubt(&self) -> bool {
        self.figures.end_doubt(|since| {
            self.schedule.check.is_checked_since(since)
                && self.slices.iter().all(|slice| slice.is_proven_since(since))
        })
    }

    // ----------------------------------------------------------------------------------- listeners

    /// Adds a listener, or changes its interest.
    pub fn listen(&self, conn: &Arc<Conn>, interest: Interest) -> Result<(), Ended> {
        let mut listeners = self.listeners.lock();
        if self.is_ending() {
            return Err(Ended);
        }
        match listeners
            .iter_mut()
            .find(|(other, _)| Arc::ptr_eq(other, conn))
        {
            Some((_, there)) => *there = interest,
            None => listeners.push((conn.clone(), interest)),
        }
        Ok(())
    }

    pub fn unlisten(&self, conn: &Arc<Conn>) {
        self.listeners
            .lock()
            .retain(|(other, _)| !Arc::ptr_eq(other, conn));
    }

    /// Whether a dashboard or a viewer listens for counts.
    pub fn is_watched(&self) -> bool {
        !self.pushed.is_empty()
            || self
                .listeners
                .lock()
                .iter()
                .any(|(_, interest)| *interest == Interest::Counts)
    }

    /// Wakes the dashboards.
    pub fn signal_counts(&self) {
        for (conn, interest) in self.listeners.lock().iter() {
            if *interest == Interest::Counts {
                conn.signal(Signals::COUNTS);
            }
        }
    }

    // ------------------------------------------------------------------------------------- the end

    /// Whether the room has ended or is being evicted.
    pub(super) fn is_ending(&self) -> bool {
        self.end.get().is_some() || self.leaving.load(Ordering::Acquire)
    }

    /// Whether any user sits or listens here, or the store needs a call.
    pub fn is_used(&self) -> bool {
        !self.listeners.lock().is_empty() || !self.is_empty()
    }

    /// Ends the room by the close of its epoch. The room refuses joins from here on. The caller
    /// calls [`Room::release`] for each slice next. False if the room had ended before.
    pub fn close(&self, record: LiveRecord) -> bool {
        debug_assert_ne!(record.state, LiveState::Open);
        self.end.set(RoomEnd::Closed(Arc::new(record))).is_ok()
    }

    /// Tells the listeners that the room has ended, and forgets the viewers.
    pub fn release_listeners(&self) {
        for (conn, _) in self.listeners.lock().drain(..) {
            conn.signal(Signals::ENDED);
        }
        self.pushed.clear();
        self.friends.clear();
        self.figures.clear();
    }

    /// Ends the room if it is not in use. Called while the map's shard is locked.
    pub(super) fn end_if_idle(&self) -> bool {
        self.leaving.store(true, Ordering::Release);
        if self.is_used() || self.end.get().is_some() {
            self.leaving.store(false, Ordering::Release);
            return false;
        }
        self.end.set(RoomEnd::Evicted).is_ok()
    }
}
