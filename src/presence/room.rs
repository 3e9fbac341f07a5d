//! One epoch of one live on this gateway: its slices, its figures, the sockets that listen to them,
//! and its end. Sessions join and leave; the loops in `sync`, `peers` and `dashboards` bring the
//! news of the store and the peers.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::time::Instant;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::acks::CachedAcks;
use super::attendance::Unrecorded;
use super::bans::{Bans, KnownBans};
use super::check_due::CheckDue;
use super::counting::Counting;
use super::figures::{Figures, Quality};
use super::friends_here::FriendsHere;
use super::gateways::Roster;
use super::moves::Moves;
use super::own_lease::OwnLease;
use super::published_viewers::PublishedViewers;
use super::pushed_counts::PushedCounts;
use super::queue::Queued;
use super::remote_viewers::RemoteViewers;
use super::room_info::RoomInfo;
use super::room_peaks::RoomPeaks;
use super::room_stream::{RoomStream, ShownStream};
use super::seats::Seats;
use super::slice::{SetSize, Slice};
use super::tally::{Tally, ViewerCount};
use super::throttle::{Shown, Throttle};
use crate::base::clock::Millis;
use crate::base::ids::{GatewayId, SliceId, UserId};
use crate::config::FanSource;
use crate::presence::conn::{Conn, Signals};
use crate::store::{Arrived, LiveRecord, LiveState, Peaks, SliceSize};

/// How a room ended.
#[derive(Debug, Clone)]
pub enum End {
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSeat {
    /// See [`Ended`].
    Ended,
    /// A moderator removed the user, who may not come back for this long.
    Banned(Duration),
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
    /// How long a live that a stream opened outlives it.
    pub stream_grace: Duration,
}

impl Default for RoomTerms {
    fn default() -> Self {
        Self {
            fan_source: FanSource::default(),
            uniques: true,
            own: Arc::default(),
            stream_grace: Duration::from_secs(20),
        }
    }
}

#[derive(Debug)]
pub struct Room {
    /// The live as it was when the room was made: its epoch, streamer and slices do not change. See
    /// [`Room::record_now`].
    pub record: LiveRecord,
    /// By the index of the users' slice. The room seats users in `seating.rs`.
    pub(super) seats: Box<[Mutex<Seats>]>,
    pub(super) slices: Box<[Slice]>,
    end: OnceLock<End>,
    /// Set while eviction checks whether the room is in use. The room refuses a join then, and the
    /// session looks for the live again.
    leaving: AtomicBool,
    pub(super) tally: Tally,
    own: Arc<OwnLease>,
    /// Whether the gateway counts different users.
    pub uniques: bool,
    pub bans: Bans,
    remote: RemoteViewers,
    pub published: PublishedViewers,
    size: SetSize,
    /// The highest exact figures that this gateway knows of.
    peaks: Mutex<RoomPeaks>,
    /// The peaks that the store heard of last.
    written_peaks: Mutex<Peaks>,
    listeners: Mutex<Vec<(Arc<Conn>, Interest)>>,
    /// The viewers who get pushed counts.
    pub pushed: PushedCounts,
    /// The viewers who asked for their friends here.
    pub friends: FriendsHere,
    /// Whether the room is in the queue of the friends task.
    pub friends_queued: Queued,
    /// The users who came or left, for the gateways with viewers who asked for their friends here.
    pub moves: Moves,
    pub throttle: Mutex<Throttle>,
    /// Whether the room is in the queue of the counts task.
    pub counts_queued: Queued,
    pub acks: ArcSwap<CachedAcks>,
    /// The information that a back end wrote about the live.
    pub info: RoomInfo,
    pub stream: RoomStream,
    stream_grace: Duration,
    pub counting: Counting,
    /// The fans whose attendance the store does not have yet.
    pub unrecorded: Unrecorded,
    /// When a user last joined or left.
    used: AtomicU64,
    /// When the store last confirmed that this epoch is open.
    confirmed_open: AtomicU64,
    /// The state of the rate limit of joins.
    pub(super) joins: AtomicU64,
    pub check: CheckDue,
    /// Whether a system other than the store knows the fans.
    pub(super) asks_elsewhere: bool,
}

impl Room {
    /// An empty room of an open live.
    pub fn new(record: LiveRecord, bans: KnownBans, now: Millis, terms: RoomTerms) -> Self {
        let RoomTerms {
            fan_source,
            uniques,
            own,
            stream_grace,
        } = terms;
        let by_token = match fan_source {
            FanSource::Token => Some(&record.streamer),
            _ => None,
        };
        let seats = (0..record.slices)
            .map(|_| Mutex::new(Seats::new(by_token.cloned())))
            .collect();
        let slices = record.all_slices().map(|id| Slice::new(id, now)).collect();
        let slices_with_attendance = if record.terms.attendance {
            record.slices
        } else {
            0
        };
        Self {
            seats,
            slices,
            end: OnceLock::new(),
            leaving: AtomicBool::new(false),
            tally: Tally::default(),
            own,
            uniques,
            bans: Bans::new(bans, now),
            remote: RemoteViewers::default(),
            published: PublishedViewers::default(),
            size: SetSize::default(),
            peaks: Mutex::new(RoomPeaks::new(record.peaks)),
            written_peaks: Mutex::new(record.peaks),
            listeners: Mutex::new(Vec::new()),
            pushed: PushedCounts::default(),
            friends: FriendsHere::default(),
            friends_queued: Queued::default(),
            moves: Moves::default(),
            throttle: Mutex::default(),
            counts_queued: Queued::default(),
            acks: ArcSwap::from_pointee(CachedAcks::default()),
            info: RoomInfo::new(&record),
            stream: RoomStream::new(record.stream),
            stream_grace,
            counting: Counting::default(),
            unrecorded: Unrecorded::new(slices_with_attendance),
            used: AtomicU64::new(now),
            confirmed_open: AtomicU64::new(now),
            joins: AtomicU64::new(0),
            check: CheckDue::default(),
            asks_elsewhere: fan_source.is_elsewhere(),
            record,
        }
    }

    pub fn end(&self) -> Option<&End> {
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
            Some(End::Closed(record)) => Some(record),
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

    pub fn own_viewers(&self) -> ViewerCount {
        self.tally.here()
    }

    /// The viewers on all gateways who are away, as each gateway counts them; never more than the
    /// number of viewers.
    pub fn away(&self) -> u64 {
        self.tally.away().min(self.figures().viewers)
    }

    /// Makes the publisher ask the peers for their viewers, and doubts their former messages. True
    /// as for [`Self::note_peer_viewers`].
    pub fn ask_peers(&self, roster: &Roster) -> bool {
        self.published.ask();
        self.remote_changed(self.remote.doubt(roster))
    }

    /// Whether a peer that asks may lack something that this gateway told, or has yet to tell.
    pub fn has_published_viewers(&self) -> bool {
        !self.published.is_nothing() || self.published.differs_from(self.own_viewers())
    }

    /// Notes the viewers of a peer. This and the next two methods return true if the number of
    /// viewers who are away, or the quality of the figures, changed.
    pub fn note_peer_viewers(
        &self,
        peer: &GatewayId,
        count: ViewerCount,
        number: u64,
        roster: &Roster,
    ) -> bool {
        self.remote_changed(self.remote.heard(peer, count, number, roster))
    }

    /// Notes that these other gateways have an entry in a slice.
    pub fn note_holders(&self, gateways: &[GatewayId], roster: &Roster) -> bool {
        self.remote_changed(self.remote.holds(gateways, roster))
    }

    pub fn roster_changed(&self, roster: &Roster) -> bool {
        self.remote_changed(self.remote.roster_changed(roster))
    }

    /// Dead gateways that may still have members in the slices, so that the figures are too high.
    pub fn unswept(&self) -> BTreeSet<GatewayId> {
        self.remote.unswept()
    }

    /// Notes that these gateways have no members in the slices. True if the quality of the figures
    /// changed.
    pub fn note_swept(&self, gone: &BTreeSet<GatewayId>, roster: &Roster) -> bool {
        self.remote_changed(self.remote.swept(gone, roster))
    }

    /// Whether this gateway is the one that writes the live's figures into its record. Among the
    /// gateways with viewers, the gateway with the highest hash writes. If no gateway has viewers
    /// left, each gateway that had some may write.
    pub fn is_counted_here(&self, own: &GatewayId, roster: &Roster) -> bool {
        let peers = self.remote.with_viewers(roster);
        let highest_peer = peers.iter().map(|peer| self.writer_rank(peer)).max();
        match highest_peer {
            Some(peer) => self.own_viewers().viewers > 0 && peer < self.writer_rank(own),
            None => {
                self.own_viewers().viewers > 0
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

    fn remote_changed(&self, changed: bool) -> bool {
        if changed {
            self.tally.set_away_elsewhere(|| self.remote.away());
            self.note_peaks();
        }
        changed
    }

    /// The viewers and fans on all gateways, as the store last said; at least the viewers who are
    /// here, since the store may not know all of them yet.
    pub fn figures(&self) -> Figures {
        Figures {
            viewers: self.size.members().max(self.tally.viewers_here()),
            fans: self.size.fans(),
        }
    }

    /// Whether a user counts here whom the store does not hold for this gateway yet, so that its
    /// figures may be older than the user's join.
    pub fn is_newcomer(&self, user: &UserId) -> bool {
        self.slices[self.place_of_user(user)]
            .lock()
            .desired()
            .is_newcomer(user)
    }

    /// The figures for a newcomer: one more viewer than the store knows of. The store may know the
    /// newcomer from another gateway, so these are never exact.
    pub fn figures_for_newcomer(&self) -> Figures {
        let Figures { viewers, fans } = self.figures();
        Figures {
            viewers: viewers.max(self.size.members() + 1),
            fans,
        }
    }

    /// [`Self::show`] for a newcomer.
    pub fn show_newcomer(&self, at: Millis, quality: impl FnOnce() -> Quality) -> Shown {
        let shown = self.show(at, quality);
        Shown {
            figures: self.figures_for_newcomer(),
            quality: match shown.quality {
                Quality::Exact => Quality::Partial,
                worse => worse,
            },
            ..shown
        }
    }

    /// The figures as the store last said, and the numbers of users who came and left, of one
    /// moment: each user who came has left or is there.
    pub fn totals(&self) -> (Figures, Arrived) {
        let mut arrived = Arrived::default();
        let mut fans = 0;
        for slice in &self.slices {
            let size = slice.size();
            arrived = arrived.plus(size.arrived());
            fans += size.fans;
        }
        let viewers = arrived.joins.saturating_sub(arrived.leaves);
        (Figures { viewers, fans }, arrived)
    }

    /// The figures for dashboards. `quality` runs last, so that no doubtful figure passes for a
    /// certain one.
    pub fn show(&self, at: Millis, quality: impl FnOnce() -> Quality) -> Shown {
        let (figures, arrived) = self.totals();
        Shown {
            at,
            figures,
            away: self.tally.away().min(figures.viewers),
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
    pub fn note_size(&self, place: usize, size: SliceSize, now: Millis) -> bool {
        let has_changed = self.slices[place].note(size, now, &self.size);
        self.note_peaks();
        has_changed
    }

    /// Notes the figures as peaks, if they are exact as far as this room can tell. Returns the
    /// peaks.
    pub fn note_peaks(&self) -> Peaks {
        let Figures { viewers, fans } = self.figures();
        if self.quality() == Quality::Exact && self.own.sees_peers() {
            self.peaks
                .lock()
                .note(Peaks { viewers, fans }, self.own.renewals());
        }
        self.peaks()
    }

    /// The highest figures that are certain: this gateway has renewed its lease since it noted
    /// them. So it would know by now if the store had lost its data, or come back with older data,
    /// before.
    pub fn sure_peaks(&self) -> Peaks {
        self.peaks.lock().sure(self.own.renewals())
    }

    /// The highest figures, including the latest ones.
    pub fn peaks(&self) -> Peaks {
        self.peaks.lock().highest()
    }

    /// Notes that everything that the store said of this live is in doubt from `now` on, until a
    /// later call or check shows that it is right.
    pub fn doubt(&self, now: Millis) {
        self.check.doubt_all(now);
        self.peaks.lock().forget_unsure();
    }

    pub fn note_peaks_written(&self, peaks: Peaks) {
        *self.written_peaks.lock() = peaks;
    }

    /// Whether there are peaks that the store has not heard of yet.
    pub fn has_new_peaks(&self) -> bool {
        let told = *self.written_peaks.lock();
        told.max(self.sure_peaks()) != told
    }

    /// Whether the peers have, or may have, a wrong number of this gateway's viewers.
    pub fn has_unpublished_viewers(&self) -> bool {
        self.published.differs_from(self.own_viewers())
    }

    /// `Partial` while a gateway with viewers is late with its lease or not swept, a slice is in a
    /// rebuild, or everything is in doubt.
    pub fn quality(&self) -> Quality {
        let in_doubt = self.remote.in_doubt() || self.has_rebuild() || self.is_unproven();
        if in_doubt {
            Quality::Partial
        } else {
            Quality::Exact
        }
    }

    /// Since when a change here waits for the store.
    pub fn waits_for_store_since(&self) -> Option<Instant> {
        self.slices
            .iter()
            .filter_map(|slice| slice.lock().unconfirmed_since())
            .min()
    }

    /// Whether a slice is in a rebuild, and so may have a wrong size.
    pub fn has_rebuild(&self) -> bool {
        self.size.has_rebuild()
    }

    /// Whether everything that the store said of this live is in doubt.
    pub fn is_unproven(&self) -> bool {
        self.check.doubted_since().is_some()
    }

    /// Ends the doubt about everything if a check, and a call or a check of each slice, have shown
    /// since that all is right. True if the doubt ended.
    pub fn end_doubt(&self) -> bool {
        let Some(since) = self.check.doubted_since() else {
            return false;
        };
        let is_proven = self.check.is_checked_since(since)
            && self.slices.iter().all(|slice| slice.is_proven_since(since));
        is_proven && self.check.end_doubt(since)
    }

    /// When the store last told the size of the slice with the oldest news.
    pub fn oldest_update(&self) -> Millis {
        self.slices.iter().map(Slice::heard).min().unwrap_or(0)
    }

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
        self.end.set(End::Closed(Arc::new(record))).is_ok()
    }

    /// Tells the listeners that the room has ended, and forgets the viewers.
    pub fn release_listeners(&self) {
        for (conn, _) in self.listeners.lock().drain(..) {
            conn.signal(Signals::ENDED);
        }
        self.pushed.clear();
        self.friends.clear();
        self.tally.clear();
        self.remote.clear();
    }

    /// Ends the room if it is not in use. Called while the map's shard is locked.
    pub(super) fn end_if_idle(&self) -> bool {
        self.leaving.store(true, Ordering::Release);
        if self.is_used() || self.end.get().is_some() {
            self.leaving.store(false, Ordering::Release);
            return false;
        }
        self.end.set(End::Evicted).is_ok()
    }

    /// Notes that a user joined or left.
    pub(super) fn note_used(&self, now: Millis) {
        self.used.store(now, Ordering::Relaxed);
    }

    pub fn last_used(&self) -> Millis {
        self.used.load(Ordering::Relaxed)
    }

    pub fn note_confirmed_open(&self, now: Millis) {
        self.confirmed_open.fetch_max(now, Ordering::Relaxed);
    }

    pub fn confirmed_open_at(&self) -> Millis {
        self.confirmed_open.load(Ordering::Relaxed)
    }
}
