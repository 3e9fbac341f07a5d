//! Owns one slice of a room: who sits in it on this gateway, whose fan check is due, and the [`Ledger`] towards the
//! store. Behind one small lock, taken on join, leave and flush, never for a heartbeat. Never awaits.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::ledger::Ledger;
use super::tally::{Change, Standing};
use super::unconfirmed::Unconfirmed;
use crate::clock::{Millis, UnixMicros};
use crate::conn::Conn;
use crate::ids::{SliceId, UserId};
use crate::store::MAX_BATCH;

/// Whether a viewer follows the streamer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fan {
    /// No check has answered yet.
    Unknown,
    /// No.
    No,
    /// Yes.
    Yes,
}

/// A user in a room, shared by the slice and the user's sockets.
#[derive(Debug)]
pub struct Member {
    /// Who.
    pub user: UserId,
    fan: AtomicU8,
}

impl Member {
    /// The last answer of the fan check.
    pub fn fan(&self) -> Fan {
        match self.fan.load(Ordering::Relaxed) {
            0 => Fan::Unknown,
            1 => Fan::No,
            _ => Fan::Yes,
        }
    }

    fn set_fan(&self, is_fan: bool) {
        self.fan.store(if is_fan { 2 } else { 1 }, Ordering::Relaxed);
    }
}

/// A member's sockets in this room.
#[derive(Debug)]
struct Seat {
    member: Arc<Member>,
    conns: Vec<Arc<Conn>>,
}

impl Seat {
    /// Whether any of the sockets counts (`?count=false` ones do not).
    fn counts(&self) -> bool {
        self.conns.iter().any(|conn| conn.identity.counted)
    }

    fn standing(&self) -> Standing {
        match self.counts() {
            false => Standing::Uncounted,
            true if self.conns.iter().all(|conn| conn.is_held() || !conn.identity.counted) => Standing::Moving,
            true => Standing::Here,
        }
    }
}

/// Where a slice stands in the flusher's queue; one job a slice runs at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Idle,
    Queued,
    Running,
    RunningAgain,
}

/// What is behind the slice's lock.
#[derive(Debug)]
pub struct SliceState {
    seats: HashMap<UserId, Seat>,
    /// What the store shall hold.
    pub ledger: Ledger,
    /// Whose fan check is due now.
    unchecked: Vec<Arc<Member>>,
    /// Whose fan check was answered, oldest first.
    checked: VecDeque<(Millis, Arc<Member>)>,
    turn: Turn,
    /// Since when the store has something to confirm.
    pub unconfirmed: Unconfirmed,
    /// The lease is to be renewed with the next flush.
    pub refresh_due: bool,
    /// What the store holds is to be read and compared with the next flush.
    pub reconcile_due: bool,
    /// Somebody was sent to the store, or taken out there, since what it holds was last read; or it was not as expected.
    pub written: bool,
    /// The number of the call after which its entry in the store was found to stand under the gateway's own lease.
    pub covered: u64,
    /// When all of the slice may be sent or read again, once it has asked for that.
    pub whole_at: Option<Millis>,
    /// Users whom the store was found to hold wrongly, until that is put right.
    pub drift: usize,
    /// Where the next look for members whom nobody holds goes on.
    pub check_cursor: u64,
}

/// A user's seat, as it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeatTold {
    /// Sockets in it.
    pub sockets: usize,
    /// Whether any of them counts.
    pub counted: bool,
    /// The last answer of the fan check.
    pub fan: Fan,
    /// When any of them was last heard.
    pub last_heard: Millis,
}

/// One slice of a room.
#[derive(Debug)]
pub struct Slice {
    /// Which slice.
    pub id: SliceId,
    state: Mutex<SliceState>,
    /// Fans in the slice over all gateways, as the store last said.
    card: AtomicU64,
    /// When the store last said so; 0 is never.
    heard: AtomicU64,
    /// When it was so, by the store's clock.
    as_of: Mutex<UnixMicros>,
    /// The store told this gateway something that the others may not have heard yet.
    news: AtomicBool,
}

/// What a word about a slice's size changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noted {
    /// Nothing.
    Same,
    /// The size.
    Changed,
    /// Two sizes of the same moment: which came later is not known, so the store is to be asked.
    Unsure,
    /// It is older than what is known.
    Old,
}

impl Slice {
    /// An empty slice, of a room made at `now`.
    pub fn new(id: SliceId, now: Millis) -> Self {
        let state = SliceState {
            seats: HashMap::new(),
            // Above every number of an earlier room's: no slice makes a thousand calls in a millisecond.
            ledger: Ledger::numbered_from(now * 1_000),
            unchecked: Vec::new(),
            checked: VecDeque::new(),
            turn: Turn::Idle,
            unconfirmed: Unconfirmed::default(),
            refresh_due: false,
            reconcile_due: false,
            written: false,
            covered: 0,
            whole_at: None,
            drift: 0,
            check_cursor: 0,
        };
        Self {
            id,
            state: Mutex::new(state),
            card: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            as_of: Mutex::new(0),
            news: AtomicBool::new(false),
        }
    }

    /// Takes the lock; for a few instructions, never across an await.
    pub fn lock(&self) -> MutexGuard<'_, SliceState> {
        self.state.lock()
    }

    /// Notes what the store said of the slice at `at`, to this gateway or to another. The newest counts. Only when nothing
    /// was heard for `patience` is an older one taken: then the store's clock was put back. `sum` is that of
    /// the room's slices and follows.
    pub fn note(&self, (card, at): (u64, UnixMicros), now: Millis, patience: Millis, sum: &AtomicU64) -> Noted {
        let mut as_of = self.as_of.lock();
        let heard = self.heard();
        if at < *as_of && heard != 0 && now.saturating_sub(heard) < patience {
            return Noted::Old;
        }
        let tie = at == *as_of && heard != 0;
        *as_of = at;
        self.heard.store(now.max(1), Ordering::Relaxed);
        let before = self.card.swap(card, Ordering::Relaxed);
        // Under the lock: two differences of one slice in the wrong order could make the sum negative for a moment.
        sum.fetch_add(card.wrapping_sub(before), Ordering::Relaxed);
        match before {
            before if before == card => Noted::Same,
            _ if tie => Noted::Unsure,
            _ => Noted::Changed,
        }
    }

    /// The store was found at `now` to be of this size, as it was known to be. Where it became another since, nothing is
    /// known by this.
    pub fn still_is(&self, card: u64, now: Millis) {
        let _as_of = self.as_of.lock();
        if self.card() == card {
            self.heard.fetch_max(now.max(1), Ordering::Relaxed);
        }
    }

    /// There is something to tell the others.
    pub fn has_news(&self) {
        self.news.store(true, Ordering::Relaxed);
    }

    /// Takes what is to be told: the size and its time.
    pub fn take_news(&self) -> Option<(u64, UnixMicros)> {
        if !self.news.swap(false, Ordering::Relaxed) {
            return None;
        }
        let as_of = self.as_of.lock();
        Some((self.card(), *as_of))
    }

    /// Fans in the slice, as last heard.
    pub fn card(&self) -> u64 {
        self.card.load(Ordering::Relaxed)
    }

    /// When the store last spoke of the slice; 0 is never.
    pub fn heard(&self) -> Millis {
        self.heard.load(Ordering::Relaxed)
    }
}

impl SliceState {
    /// Seats a socket.
    pub fn join(&mut self, conn: &Arc<Conn>) -> (Arc<Member>, Change) {
        let user = &conn.identity.user;
        let seat = self.seats.entry(user.clone()).or_insert_with(|| Seat {
            member: Arc::new(Member { user: user.clone(), fan: AtomicU8::new(0) }),
            conns: Vec::with_capacity(1),
        });
        let before = seat.standing();
        if seat.conns.is_empty() {
            self.unchecked.push(seat.member.clone());
        }
        seat.conns.push(conn.clone());
        let after = seat.standing();
        let member = seat.member.clone();
        if before == Standing::Uncounted && after != before && member.fan() == Fan::Yes {
            self.ledger.want(user);
        }
        self.forget_departed();
        (member, Change { before, after })
    }

    /// Keeps the lists of checks in proportion to who is here, however many came and went since.
    fn forget_departed(&mut self) {
        let most = 2 * self.seats.len() + MAX_BATCH;
        let seats = &self.seats;
        let here = |member: &Arc<Member>| seats.get(&member.user).is_some_and(|seat| Arc::ptr_eq(&seat.member, member));
        if self.unchecked.len() > most {
            let mut seen = HashSet::new();
            self.unchecked.retain(|member| here(member) && seen.insert(Arc::as_ptr(member)));
        }
        if self.checked.len() > most {
            let mut seen = HashSet::new();
            // The newest answer of each counts.
            let mut kept: VecDeque<_> = VecDeque::with_capacity(seats.len());
            while let Some((at, member)) = self.checked.pop_back() {
                if here(&member) && seen.insert(Arc::as_ptr(&member)) {
                    kept.push_front((at, member));
                }
            }
            self.checked = kept;
        }
    }

    /// Keeps a socket's seat for one who moves to another gateway.
    pub fn hold(&mut self, conn: &Arc<Conn>) -> Option<Change> {
        let seat = self.seats.get(&conn.identity.user)?;
        let before = seat.standing();
        conn.set_held();
        Some(Change { before, after: seat.standing() })
    }

    /// Takes a socket from its seat; one that has none is left alone.
    pub fn leave(&mut self, conn: &Arc<Conn>) -> Option<Change> {
        let user = &conn.identity.user;
        let seat = self.seats.get_mut(user)?;
        let before = seat.standing();
        seat.conns.retain(|other| !Arc::ptr_eq(other, conn));
        let after = seat.standing();
        if seat.conns.is_empty() {
            self.seats.remove(user);
        }
        if after == Standing::Uncounted && before != after {
            self.ledger.unwant(user);
        }
        Some(Change { before, after })
    }

    /// Takes a user's seat; answers the sockets that were in it.
    pub fn remove(&mut self, user: &UserId) -> Option<(Vec<Arc<Conn>>, Change)> {
        let seat = self.seats.remove(user)?;
        let before = seat.standing();
        if before != Standing::Uncounted {
            self.ledger.unwant(user);
        }
        Some((seat.conns, Change { before, after: Standing::Uncounted }))
    }

    /// What a user's seat looks like, if there is one.
    pub fn seat(&self, user: &UserId) -> Option<SeatTold> {
        let seat = self.seats.get(user)?;
        Some(SeatTold {
            sockets: seat.conns.len(),
            counted: seat.counts(),
            fan: seat.member.fan(),
            last_heard: seat.conns.iter().map(|conn| conn.last_heard()).max().unwrap_or(0),
        })
    }

    /// Takes in an answer of the fan check.
    pub fn fan_answered(&mut self, user: &UserId, is_fan: bool, now: Millis) {
        let Some(seat) = self.seats.get(user) else { return };
        seat.member.set_fan(is_fan);
        self.checked.push_back((now, seat.member.clone()));
        if is_fan && seat.counts() {
            self.ledger.want(user);
        } else {
            self.ledger.unwant(user);
        }
        self.forget_departed();
    }

    /// Makes a user's fan check due now, if the user is here.
    pub fn check_again(&mut self, user: &UserId) -> bool {
        let Some(seat) = self.seats.get(user) else { return false };
        self.unchecked.push(seat.member.clone());
        true
    }

    /// Makes the checks due that were answered before `then`. True if there are any.
    pub fn expire_checks(&mut self, then: Millis) -> bool {
        while let Some((at, member)) = self.checked.front() {
            if *at > then {
                break;
            }
            if self.is_seated(member) {
                self.unchecked.push(member.clone());
            }
            self.checked.pop_front();
        }
        !self.unchecked.is_empty()
    }

    fn is_seated(&self, member: &Arc<Member>) -> bool {
        self.seats.get(&member.user).is_some_and(|seat| Arc::ptr_eq(&seat.member, member))
    }

    /// Takes up to [`MAX_BATCH`] users whose check is due and who are still here, each once.
    pub fn take_unchecked(&mut self) -> Vec<UserId> {
        let mut users = HashSet::new();
        while users.len() < MAX_BATCH {
            let Some(member) = self.unchecked.pop() else { break };
            if self.is_seated(&member) {
                users.insert(member.user.clone());
            }
        }
        users.into_iter().collect()
    }

    /// Gives back users whose check had no answer.
    pub fn return_unchecked(&mut self, users: &[UserId]) {
        for user in users {
            self.check_again(user);
        }
    }

    /// How many users wait for a fan check.
    pub fn unchecked(&self) -> usize {
        self.unchecked.len()
    }

    /// Whether nobody is here and the store owes and is owed nothing.
    pub fn is_idle(&self) -> bool {
        self.seats.is_empty() && !self.ledger.is_registered() && !self.ledger.is_dirty() && self.turn == Turn::Idle
    }

    /// The gateway ends: nobody is wanted any more, and no check can change that.
    pub fn want_nobody(&mut self) {
        self.ledger.unwant_all();
        self.unchecked.clear();
        self.checked.clear();
        self.seats.clear();
    }

    /// Whether a flush has something to do.
    pub fn is_dirty(&self) -> bool {
        self.has_changes() || self.refresh_due || self.reconcile_due
    }

    /// Whether a flush may change what figures show.
    fn has_changes(&self) -> bool {
        self.ledger.is_dirty() || !self.unchecked.is_empty()
    }

    /// Asks for a turn of the flusher. True if the caller must queue the slice.
    pub fn ask_turn(&mut self, now: Instant) -> bool {
        if self.has_changes() {
            self.unconfirmed.note(now);
        }
        match self.turn {
            Turn::Idle => {
                self.turn = Turn::Queued;
                true
            }
            Turn::Running => {
                self.turn = Turn::RunningAgain;
                false
            }
            Turn::Queued | Turn::RunningAgain => false,
        }
    }

    /// The flusher's job for this slice starts.
    pub fn start_turn(&mut self) {
        self.turn = Turn::Running;
        self.unconfirmed.start();
    }

    /// The job ends. True if the slice must be queued again.
    pub fn end_turn(&mut self) -> bool {
        let again = self.turn == Turn::RunningAgain;
        self.turn = if again { Turn::Queued } else { Turn::Idle };
        again
    }

    /// The job failed and is to be tried again later: the slice counts as queued meanwhile.
    pub fn postpone_turn(&mut self) {
        self.turn = Turn::Queued;
    }

    /// The epoch is over: forgets everybody and answers their sockets.
    pub fn clear(&mut self) -> Vec<Arc<Conn>> {
        self.ledger.clear();
        self.unchecked = Vec::new();
        self.checked = VecDeque::new();
        self.unconfirmed = Unconfirmed::default();
        self.refresh_due = false;
        self.reconcile_due = false;
        self.written = false;
        self.drift = 0;
        std::mem::take(&mut self.seats).into_values().flat_map(|seat| seat.conns).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LiveId;

    const PATIENCE: Millis = 1_000;

    fn slice() -> Slice {
        let id = SliceId { live: LiveId::parse("42").unwrap(), index: 1, of: 1 };
        Slice::new(id, 1)
    }

    fn note(slice: &Slice, said: (u64, UnixMicros), now: Millis) -> Noted {
        let sum = AtomicU64::new(slice.card());
        let noted = slice.note(said, now, PATIENCE, &sum);
        assert_eq!(sum.into_inner(), slice.card(), "the sum follows");
        noted
    }

    #[test]
    fn an_older_size_never_replaces_a_newer_one() {
        let slice = slice();
        assert_eq!(note(&slice, (5, 100), 10), Noted::Changed);
        assert_eq!(note(&slice, (4, 99), 11), Noted::Old);
        assert_eq!((slice.card(), slice.heard()), (5, 10));
        assert_eq!(note(&slice, (5, 101), 12), Noted::Same);
        assert_eq!((slice.card(), slice.heard()), (5, 12));
    }

    #[test]
    fn two_sizes_of_one_moment_are_to_be_asked_about() {
        let slice = slice();
        note(&slice, (5, 100), 10);
        assert_eq!(note(&slice, (5, 100), 11), Noted::Same);
        assert_eq!(note(&slice, (6, 100), 12), Noted::Unsure);
    }

    #[test]
    fn a_clock_that_was_put_back_holds_nothing_up_for_long() {
        let slice = slice();
        note(&slice, (5, 100_000), 10);
        assert_eq!(note(&slice, (6, 200), 500), Noted::Old);
        assert_eq!(note(&slice, (6, 700), 1_010), Noted::Changed);
        assert_eq!(note(&slice, (7, 701), 1_020), Noted::Changed);
    }

    #[test]
    fn news_are_told_once_and_as_they_are_by_then() {
        let slice = slice();
        assert_eq!(slice.take_news(), None);
        note(&slice, (5, 100), 10);
        slice.has_news();
        note(&slice, (6, 110), 11);
        assert_eq!(slice.take_news(), Some((6, 110)));
        assert_eq!(slice.take_news(), None);
    }
}
