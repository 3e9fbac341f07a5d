//! Owns one epoch of one live on this gateway: its slices, its figures, who listens to them, and its end.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::acks::CachedAcks;
use super::announced::Announced;
use super::bans::{Bans, KnownBans};
use super::check_due::CheckDue;
use super::figures::Figures;
use super::figures::Quality;
use super::gateways::Roster;
use super::peaks::PeakTracker;
use super::queue::Queued;
use super::remote_viewers::RemoteViewers;
use super::seats::Member;
use super::slice::Slice;
use super::tally::{SeatChange, Tally, ViewerCount};
use super::throttle::Throttle;
use crate::base::clock::Millis;
use crate::base::ids::{GatewayId, SliceId, UserId};
use crate::presence::conn::{Conn, Signals};
use crate::store::{GatewayViewers, LiveRecord, LiveState, Peaks, Said};

/// How a room ended.
#[derive(Debug, Clone)]
pub enum End {
    /// The epoch is over; the record as closed (or closing) says why.
    Closed(Arc<LiveRecord>),
    /// Nobody needed the room here; the live goes on.
    Evicted,
}

/// What a listener wants to be told, besides the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interest {
    /// Counts, now and on change.
    Counts,
    /// Only the end: the socket that opened the live.
    End,
}

/// The room has ended; look for it anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended;

/// Why a socket gets no seat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoSeat {
    /// See [`Ended`].
    Ended,
    /// The user was removed, and may not come back for so long.
    Banned(Duration),
}

/// One epoch of one live on this gateway.
#[derive(Debug)]
pub struct Room {
    /// The live as it was when the room was made: its epoch, streamer and slices do not change.
    pub record: LiveRecord,
    slices: Box<[Slice]>,
    end: OnceLock<End>,
    /// Set while eviction looks whether anybody is here; a join that sees it must ask again.
    leaving: AtomicBool,
    tally: Tally,
    /// Who was removed.
    pub bans: Bans,
    remote: RemoteViewers,
    /// What the store and the peers were told of viewers here.
    pub announced: Announced,
    /// The sum of the slices' sizes; read with every heartbeat.
    fans: AtomicU64,
    peaks: PeakTracker,
    listeners: Mutex<Vec<(Arc<Conn>, Interest)>>,
    /// How often counts go to dashboards.
    pub throttle: Mutex<Throttle>,
    /// Whether the room is in the queue of the counts task.
    pub counts_queued: Queued,
    /// The last acknowledgement of heartbeats, kept while the figures stay.
    pub acks: ArcSwap<CachedAcks>,
    used: AtomicU64,
    touched: AtomicU64,
    /// When the next check is due, and what it is to look for.
    pub check: CheckDue,
}

impl Room {
    /// A room of an open live, with nobody in it.
    pub fn new(record: LiveRecord, bans: KnownBans, now: Millis) -> Self {
        let slices = SliceId::all(&record.live, record.slices).map(|id| Slice::new(id, now)).collect();
        Self {
            slices,
            end: OnceLock::new(),
            leaving: AtomicBool::new(false),
            tally: Tally::default(),
            bans: Bans::new(bans, now),
            remote: RemoteViewers::default(),
            announced: Announced::default(),
            fans: AtomicU64::new(0),
            peaks: PeakTracker::new(record.peaks),
            listeners: Mutex::new(Vec::new()),
            throttle: Mutex::default(),
            counts_queued: Queued::default(),
            acks: ArcSwap::from_pointee(CachedAcks::default()),
            used: AtomicU64::new(now),
            touched: AtomicU64::new(now),
            check: CheckDue::default(),
            record,
        }
    }

    /// How the room ended, if it has.
    pub fn end(&self) -> Option<&End> {
        self.end.get()
    }

    /// The record of the close, if the room ended by one.
    pub fn closed(&self) -> Option<&Arc<LiveRecord>> {
        match self.end.get() {
            Some(End::Closed(record)) => Some(record),
            _ => None,
        }
    }

    /// All slices, in order of their index.
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// The slice a user falls into, and its place in [`Room::slices`].
    pub fn slice_of(&self, user: &UserId) -> (usize, &Slice) {
        let place = user.slice_index(self.record.slices) as usize - 1;
        (place, &self.slices[place])
    }

    /// Seats a socket.
    ///
    /// # Errors
    /// If the room has ended or is being evicted, or the user is banned.
    pub fn join(&self, conn: &Arc<Conn>, now: Millis) -> Result<Arc<Member>, NoSeat> {
        let (_, slice) = self.slice_of(&conn.identity.user);
        let mut state = slice.lock();
        // Looked at under the lock: whoever ends the room takes every slice's lock after setting the end.
        if self.end.get().is_some() || self.leaving.load(Ordering::Acquire) {
            return Err(NoSeat::Ended);
        }
        // Under the lock too: whoever removes a user takes it after noting the ban.
        if let Some(left) = self.bans.remaining(&conn.identity.user, now) {
            return Err(NoSeat::Banned(left));
        }
        let (member, change) = state.join(conn);
        self.count(change, now);
        self.note_peaks();
        Ok(member)
    }

    /// Keeps a socket's seat for one who moves to another gateway.
    pub fn hold(&self, conn: &Arc<Conn>, now: Millis) {
        let (_, slice) = self.slice_of(&conn.identity.user);
        let mut state = slice.lock();
        if let Some(change) = state.hold(conn) {
            self.count(change, now);
        }
    }

    /// Takes a socket from its seat.
    pub fn leave(&self, conn: &Arc<Conn>, now: Millis) {
        let (_, slice) = self.slice_of(&conn.identity.user);
        let mut state = slice.lock();
        if let Some(change) = state.leave(conn) {
            self.count(change, now);
        }
    }

    /// Takes all sockets of a user from their seat and has them closed. Answers how many there were.
    pub fn remove_user(&self, user: &UserId, now: Millis) -> usize {
        let (_, slice) = self.slice_of(user);
        let mut state = slice.lock();
        let Some((conns, change)) = state.remove(user) else { return 0 };
        self.count(change, now);
        drop(state);
        for conn in &conns {
            conn.signal(Signals::REMOVED);
        }
        conns.len()
    }

    /// Under the slice's lock, so that the sum is exact when all locks are free.
    fn count(&self, change: SeatChange, now: Millis) {
        self.used.store(now, Ordering::Relaxed);
        self.tally.apply(change);
    }

    /// Viewers on this gateway.
    pub fn own_viewers(&self) -> ViewerCount {
        self.tally.here()
    }

    /// Takes in what a peer said of its viewers. True if the figures, or how far to trust them, changed.
    pub fn note_peer_viewers(&self, peer: &GatewayId, count: ViewerCount, number: u64, roster: &Roster) -> bool {
        self.remote_changed(self.remote.heard(peer, count, number, roster))
    }

    /// Takes in what the store knows of the viewers on all gateways. True as for [`Room::note_peer_viewers`].
    pub fn note_stored_viewers(&self, mut said: Vec<GatewayViewers>, own: &GatewayId, roster: &Roster) -> bool {
        said.retain(|viewers| viewers.gateway != *own);
        self.remote_changed(self.remote.read(&said, roster))
    }

    /// Takes in another roster. True as for [`Room::note_peer_viewers`].
    pub fn roster_changed(&self, roster: &Roster) -> bool {
        self.remote_changed(self.remote.roster_changed(roster))
    }

    /// Notes that the store could not be read when the room was made: figures are in doubt until it is.
    pub fn set_viewers_unread(&self) {
        self.remote.set_unread();
    }

    /// What the living peers said of their viewers, added up, as a check expects it of the store.
    pub fn said_by_peers(&self, roster: &Roster) -> Said {
        self.remote.said(roster)
    }

    fn remote_changed(&self, changed: bool) -> bool {
        if changed {
            self.tally.set_elsewhere(|| self.remote.viewers());
            self.note_peaks();
        }
        changed
    }

    /// Viewers on all gateways, and fans as the store last said.
    pub fn figures(&self) -> Figures {
        Figures { viewers: self.tally.shown(), fans: self.fans.load(Ordering::Relaxed) }
    }

    /// The store told this gateway or another the size of a slice: notes it, and the peak it may make. True if it is
    /// news.
    pub fn note_card(&self, slice: &Slice, (card, version): (u64, u64), now: Millis) -> bool {
        let news = slice.note(card, version, now, &self.fans);
        self.note_peaks();
        news
    }

    /// As [`Room::note_card`], of what a check read that expected another version.
    pub fn note_reading(&self, slice: &Slice, expected: u64, read: (u64, u64), now: Millis) -> bool {
        let news = slice.note_reading(expected, read, now, &self.fans);
        self.note_peaks();
        news
    }

    fn note_peaks(&self) {
        self.peaks.note(self.figures());
    }

    /// The highest figures that this gateway knows of.
    pub fn peaks(&self) -> Peaks {
        self.peaks.highest()
    }

    /// Notes that the store was told these peaks.
    pub fn note_peaks_told(&self, peaks: Peaks) {
        self.peaks.note_told(peaks);
    }

    /// Whether there are peaks that the store was not told.
    pub fn has_new_peaks(&self) -> bool {
        self.peaks.has_news()
    }

    /// `Partial` while a slice was never heard of, or a gateway with viewers is late with its lease.
    pub fn quality(&self) -> Quality {
        if !self.remote.in_doubt() && self.slices.iter().all(|slice| slice.heard() != 0) {
            Quality::Exact
        } else {
            Quality::Partial
        }
    }

    /// When the oldest change was made here that the store has not confirmed.
    pub fn unconfirmed_since(&self) -> Option<Instant> {
        self.slices.iter().filter_map(|slice| slice.lock().unconfirmed_since()).min()
    }

    /// When the slice that was heard of longest ago was heard of.
    pub fn oldest_update(&self) -> Millis {
        self.slices.iter().map(Slice::heard).min().unwrap_or(0)
    }

    /// Adds a listener, or changes what it wants.
    ///
    /// # Errors
    /// [`Ended`] if the room has ended or is being evicted.
    pub fn listen(&self, conn: &Arc<Conn>, interest: Interest) -> Result<(), Ended> {
        let mut listeners = self.listeners.lock();
        if self.end.get().is_some() || self.leaving.load(Ordering::Acquire) {
            return Err(Ended);
        }
        match listeners.iter_mut().find(|(other, _)| Arc::ptr_eq(other, conn)) {
            Some((_, there)) => *there = interest,
            None => listeners.push((conn.clone(), interest)),
        }
        Ok(())
    }

    /// Takes a listener out.
    pub fn unlisten(&self, conn: &Arc<Conn>) {
        self.listeners.lock().retain(|(other, _)| !Arc::ptr_eq(other, conn));
    }

    /// Whether somebody wants counts.
    pub fn is_watched(&self) -> bool {
        self.listeners.lock().iter().any(|(_, interest)| *interest == Interest::Counts)
    }

    /// Tells those who want counts that there are new ones.
    pub fn signal_counts(&self) {
        for (conn, interest) in self.listeners.lock().iter() {
            if *interest == Interest::Counts {
                conn.signal(Signals::COUNTS);
            }
        }
    }

    /// Whether anybody sits or listens here, so that the figures matter.
    pub fn is_used(&self) -> bool {
        !self.listeners.lock().is_empty() || self.slices.iter().any(|slice| !slice.lock().is_idle())
    }

    /// Ends the room by the close of its epoch. Joins are refused from here on; call [`Room::release`] for each slice
    /// next. False if it had ended before.
    pub fn close(&self, record: LiveRecord) -> bool {
        debug_assert_ne!(record.state, LiveState::Open);
        self.end.set(End::Closed(Arc::new(record))).is_ok()
    }

    /// Lets go of the sockets of one slice after [`Room::close`], and tells them. Answers how many sockets that were.
    pub fn release(&self, slice: &Slice) -> usize {
        let conns = slice.lock().clear();
        for conn in &conns {
            conn.signal(Signals::ENDED);
        }
        conns.len()
    }

    /// Tells the listeners of the end.
    pub fn release_listeners(&self) {
        for (conn, _) in self.listeners.lock().drain(..) {
            conn.signal(Signals::ENDED);
        }
        self.tally.clear();
        self.remote.clear();
    }

    /// Ends the room if nobody is here. Called with the map's shard locked.
    pub(super) fn end_if_idle(&self) -> bool {
        self.leaving.store(true, Ordering::Release);
        if self.is_used() || self.end.get().is_some() {
            self.leaving.store(false, Ordering::Release);
            return false;
        }
        self.end.set(End::Evicted).is_ok()
    }

    /// When somebody last came or went.
    pub fn last_used(&self) -> Millis {
        self.used.load(Ordering::Relaxed)
    }

    /// Notes that the store confirmed this epoch to be open.
    pub fn note_confirmed_open(&self, now: Millis) {
        self.touched.fetch_max(now, Ordering::Relaxed);
    }

    /// When the store last confirmed it.
    pub fn confirmed_open_at(&self) -> Millis {
        self.touched.load(Ordering::Relaxed)
    }
}
