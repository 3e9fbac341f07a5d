//! Owns one slice of a room: who sits in it on this gateway, whose fan check is due, and the [`DesiredState`] towards
//! the store. Behind one small lock, taken on join, leave and flush, never for a heartbeat. Never awaits.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::desired_state::{DesiredState, Difference, Draft, Verdict};
use super::tally::{Change, Standing};
use super::turn::{Occasion, Step, Turn};
use super::unconfirmed::Unconfirmed;
use crate::base::clock::Millis;
use crate::base::ids::{Epoch, SliceId, UserId};
use crate::presence::conn::Conn;
use crate::store::Fence;
use crate::store::{ApplyReply, HeldMembers, MAX_BATCH, SliceReading};

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

/// Where a slice is in the flusher's queue; the flusher runs one job a slice at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    Idle,
    Queued,
    Running,
    RunningAgain,
}

/// What is behind the slice's lock.
#[derive(Debug)]
pub struct SliceState {
    seats: HashMap<UserId, Seat>,
    desired: DesiredState,
    /// Whose fan check is due now.
    unchecked: VecDeque<Arc<Member>>,
    /// Whose fan check was answered, oldest first.
    checked: VecDeque<(Millis, Arc<Member>)>,
    job: Job,
    unconfirmed: Unconfirmed,
    /// When all of the slice may be sent or read again, once it has asked for that.
    whole_at: Option<Millis>,
    /// Users whom the store was found to hold wrongly, until that is put right.
    drift: usize,
    /// The incarnation of this gateway that makes the calls; 0 before the first call.
    incarnation: u32,
    /// When the store's keys of the slice were last written, so that their lifetimes began anew.
    written: Millis,
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
    /// The version of the slice that had this size.
    version: Mutex<u64>,
    /// The store told this gateway something that the others may not have heard yet.
    news: AtomicBool,
}

impl Slice {
    /// An empty slice, of a room made at `now`.
    pub fn new(id: SliceId, now: Millis) -> Self {
        let state = SliceState {
            seats: HashMap::new(),
            // Above every number of an earlier room's: no slice makes a thousand calls in a millisecond.
            desired: DesiredState::numbered_from(now * 1_000),
            unchecked: VecDeque::new(),
            checked: VecDeque::new(),
            job: Job::Idle,
            unconfirmed: Unconfirmed::default(),
            whole_at: None,
            drift: 0,
            incarnation: 0,
            written: now,
        };
        Self {
            id,
            state: Mutex::new(state),
            card: AtomicU64::new(0),
            heard: AtomicU64::new(0),
            version: Mutex::new(0),
            news: AtomicBool::new(false),
        }
    }

    /// Takes the lock; for a few instructions, never across an await.
    pub fn lock(&self) -> MutexGuard<'_, SliceState> {
        self.state.lock()
    }

    /// Notes a size of the slice and the version that has it, as the store told this gateway or another. The highest
    /// version counts. `sum` is that of the room's slices and follows. True if the size is news.
    pub fn note(&self, card: u64, version: u64, now: Millis, sum: &AtomicU64) -> bool {
        let mut known = self.version.lock();
        version >= *known && self.set((card, version), &mut known, now, sum)
    }

    /// Notes what a check read that expected version `expected`. It counts, whichever version it has, unless another
    /// was heard of meanwhile: a store that lost data may begin anew with a lower one.
    pub fn note_reading(&self, expected: u64, (card, version): (u64, u64), now: Millis, sum: &AtomicU64) -> bool {
        let mut known = self.version.lock();
        *known == expected && self.set((card, version), &mut known, now, sum)
    }

    fn set(&self, (card, version): (u64, u64), known: &mut u64, now: Millis, sum: &AtomicU64) -> bool {
        *known = version;
        self.heard.store(now.max(1), Ordering::Relaxed);
        let before = self.card.swap(card, Ordering::Relaxed);
        // Under the lock: two differences of one slice in the wrong order could make the sum negative for a moment.
        sum.fetch_add(card.wrapping_sub(before), Ordering::Relaxed);
        before != card
    }

    /// The size and its version, as last heard.
    pub fn size(&self) -> (u64, u64) {
        let version = self.version.lock();
        (self.card(), *version)
    }

    /// The store was found at `now` to be as it was known to be.
    pub fn still_is(&self, version: u64, now: Millis) {
        let known = self.version.lock();
        if *known == version {
            self.heard.fetch_max(now.max(1), Ordering::Relaxed);
        }
    }

    /// There is something to tell the others.
    pub fn has_news(&self) {
        self.news.store(true, Ordering::Relaxed);
    }

    /// Takes what is to be told: the size and its version.
    pub fn take_news(&self) -> Option<(u64, u64)> {
        self.news.swap(false, Ordering::Relaxed).then(|| self.size())
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
            self.unchecked.push_back(seat.member.clone());
        }
        seat.conns.push(conn.clone());
        let after = seat.standing();
        let member = seat.member.clone();
        if before == Standing::Uncounted && after != before && member.fan() == Fan::Yes {
            self.desired.want(user);
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

    /// A map keeps the room of its peak; gives most of it back once few are left.
    fn give_back_room(&mut self) {
        if self.seats.capacity() > 64 && self.seats.len() < self.seats.capacity() / 8 {
            self.seats.shrink_to(self.seats.len() * 2);
            self.checked.shrink_to(self.seats.len() * 2);
            self.unchecked.shrink_to(self.seats.len() * 2);
            self.desired.give_back_room();
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
            self.give_back_room();
        }
        if after == Standing::Uncounted && before != after {
            self.desired.unwant(user);
        }
        Some(Change { before, after })
    }

    /// Takes a user's seat; answers the sockets that were in it.
    pub fn remove(&mut self, user: &UserId) -> Option<(Vec<Arc<Conn>>, Change)> {
        let seat = self.seats.remove(user)?;
        let before = seat.standing();
        if before != Standing::Uncounted {
            self.desired.unwant(user);
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
            self.desired.want(user);
        } else {
            self.desired.unwant(user);
        }
        self.forget_departed();
    }

    /// Makes a user's fan check due now, if the user is here.
    pub fn check_again(&mut self, user: &UserId) -> bool {
        let Some(seat) = self.seats.get(user) else { return false };
        self.unchecked.push_back(seat.member.clone());
        true
    }

    /// Makes the checks due that were answered before `then`; if there are any, those along with them that were
    /// answered before `along`, so that they are asked in one call from then on. True if there are any.
    pub fn expire_checks(&mut self, then: Millis, along: Millis) -> bool {
        let any = self.checked.front().is_some_and(|(at, _)| *at <= then);
        while let Some((at, member)) = self.checked.front().filter(|_| any) {
            if *at > along {
                break;
            }
            if self.is_seated(member) {
                self.unchecked.push_back(member.clone());
            }
            self.checked.pop_front();
        }
        !self.unchecked.is_empty()
    }

    fn is_seated(&self, member: &Arc<Member>) -> bool {
        self.seats.get(&member.user).is_some_and(|seat| Arc::ptr_eq(&seat.member, member))
    }

    /// Takes up to [`MAX_BATCH`] users whose check is due and who are still here, each once, those that wait longest
    /// first.
    pub fn take_unchecked(&mut self) -> Vec<UserId> {
        let mut users = HashSet::new();
        while users.len() < MAX_BATCH {
            let Some(member) = self.unchecked.pop_front() else { break };
            if self.is_seated(&member) {
                users.insert(member.user.clone());
            }
        }
        users.into_iter().collect()
    }

    /// Gives back users whose check had no answer; they go first again.
    pub fn return_unchecked(&mut self, users: &[UserId]) {
        for user in users {
            if let Some(seat) = self.seats.get(user) {
                self.unchecked.push_front(seat.member.clone());
            }
        }
    }

    /// How many users wait for a fan check.
    pub fn unchecked(&self) -> usize {
        self.unchecked.len()
    }

    /// Whether nobody is here and the store owes and is owed nothing.
    pub fn is_idle(&self) -> bool {
        self.seats.is_empty() && self.desired.is_empty() && self.job == Job::Idle
    }

    /// The gateway ends: nobody is wanted any more, and no check can change that.
    pub fn want_nobody(&mut self) {
        self.desired.unwant_all();
        self.unchecked.clear();
        self.checked.clear();
        self.seats.clear();
    }

    /// Whether a flush has something to do.
    pub fn is_dirty(&self) -> bool {
        self.desired.is_dirty() || !self.unchecked.is_empty()
    }

    /// Takes in what was read when the room was made: the slice has an entry that this incarnation made.
    pub fn found(&mut self, number: u64, held: u64, incarnation: u32) {
        self.incarnation = incarnation;
        self.desired.found(number, held);
    }

    /// Has the store hold a user who has no seat.
    #[cfg(test)]
    pub fn want(&mut self, user: &UserId) {
        self.desired.want(user);
    }

    /// What the store should hold, for whoever only looks.
    pub fn desired(&self) -> &DesiredState {
        &self.desired
    }

    /// Users whom the store was found to hold wrongly.
    pub fn drift(&self) -> usize {
        self.drift
    }

    /// Whether the next call makes this gateway's entry.
    pub fn registers_next(&self) -> bool {
        self.desired.is_dirty() && (self.desired.registers() || self.desired.is_lost())
    }

    /// When the oldest change was made that the store has not confirmed.
    pub fn unconfirmed_since(&self) -> Option<Instant> {
        self.unconfirmed.since()
    }

    // ------------------------------------------------------------------------------------------------- the flusher's

    /// Asks for a job. True if the caller must queue the slice.
    pub fn ask_job(&mut self, now: Instant) -> bool {
        if self.is_dirty() {
            self.unconfirmed.note(now);
        }
        match self.job {
            Job::Idle => {
                self.job = Job::Queued;
                true
            }
            Job::Running => {
                self.job = Job::RunningAgain;
                false
            }
            Job::Queued | Job::RunningAgain => false,
        }
    }

    pub fn start_job(&mut self) {
        self.job = Job::Running;
        self.unconfirmed.start();
    }

    /// The job did all that it could do.
    pub fn confirm_job(&mut self) {
        self.unconfirmed.confirm();
    }

    /// Ends a job that was confirmed. True if the slice must be queued again.
    pub fn end_job(&mut self) -> bool {
        let again = self.job == Job::RunningAgain;
        self.job = if again { Job::Queued } else { Job::Idle };
        again
    }

    /// The job failed or has to wait: the slice stays queued.
    pub fn postpone_job(&mut self) {
        self.unconfirmed.put_back();
        self.job = Job::Queued;
    }

    /// Begins a turn of calls by this incarnation. Of a new one the store holds nobody.
    pub fn begin_turn(&mut self, incarnation: u32, occasion: Occasion) -> Turn {
        if std::mem::replace(&mut self.incarnation, incarnation) != incarnation {
            self.desired.lose();
        }
        Turn::new(occasion, &self.desired)
    }

    pub fn next_step(&mut self, turn: &mut Turn) -> Step {
        turn.next(&mut self.desired)
    }

    /// Takes in the answer to the call under way.
    pub fn answered(&mut self, draft: &Draft, reply: &ApplyReply, now: Millis) -> Verdict {
        if matches!(reply, ApplyReply::Done(_)) {
            self.written = now;
        }
        self.desired.answered(draft, reply)
    }

    /// The call under way had no answer.
    pub fn failed(&mut self, draft: &Draft) {
        self.desired.failed(draft);
    }

    /// Sends everybody again whom a lost entry held. True if it was lost.
    pub fn assert_again(&mut self) -> bool {
        let lost = self.desired.is_lost();
        if lost {
            self.desired.assert_again();
        }
        lost
    }

    /// Takes in the entry and the users that the store was read to hold.
    pub fn reconcile(&mut self, entry: Option<u64>, held: &HeldMembers) -> Difference {
        let mut difference = self.desired.reconcile(entry, &held.users);
        difference.missing += self.desired.send_again(&held.missing);
        self.drift = difference.total();
        difference
    }

    /// Ends a turn. True if something is left to do.
    pub fn end_turn(&mut self) -> bool {
        if !self.desired.is_dirty() {
            self.drift = 0;
        }
        self.is_dirty()
    }

    /// When all of the slice may be sent or read again: `None` is now. Whoever asked keeps its place; `book` reserves
    /// one for so many users and answers how long that takes.
    pub fn whole_at(&mut self, now: Millis, book: impl FnOnce(u32) -> Millis) -> Option<Millis> {
        let users = u32::try_from(self.desired.wanted()).unwrap_or(u32::MAX);
        let at = match self.whole_at.take() {
            Some(at) => at,
            None if users == 0 => now,
            None => now + book(users),
        };
        (at > now).then(|| *self.whole_at.insert(at))
    }

    // ------------------------------------------------------------------------------------------------- the checker's

    /// What a check should find: the entry and the number of users held. If something is unsettled there is nothing to
    /// compare: then one more call is made, whose answer tells as much.
    pub fn expect(&mut self, incarnation: u32) -> Option<(Option<u64>, u64)> {
        let is_settled = !self.desired.is_dirty() && (self.incarnation == incarnation || !self.desired.is_registered());
        let held = self.desired.held().filter(|_| is_settled);
        if held.is_none() {
            // The call under way may have been carried out before that happened which the check is made for.
            self.desired.move_on();
        }
        held.map(|held| (self.desired.entry(), held.members))
    }

    /// Takes in what a check found instead of `expected`, unless a call was made meanwhile. True if it was taken in.
    pub fn found_instead(&mut self, expected: Option<u64>, reading: &SliceReading, epoch: Epoch) -> bool {
        if self.desired.entry() != expected || self.desired.held().is_none() {
            return false;
        }
        match (expected, reading.entry) {
            (Some(_), None) => self.desired.lose(),
            (Some(_), Some(_)) => self.desired.doubt(),
            (None, Some(number)) if reading.fence == Some(Fence::Open(epoch)) => {
                self.desired.found(number, reading.held);
            }
            (None, _) => {}
        }
        true
    }

    /// Has the slice written once more if that was not done since `then`. True if it is due.
    pub fn write_again(&mut self, then: Millis) -> bool {
        let due = self.written < then && self.desired.wanted() > 0;
        if due {
            self.desired.move_on();
        }
        due
    }

    /// The epoch is over: forgets everybody and answers their sockets.
    pub fn clear(&mut self) -> Vec<Arc<Conn>> {
        self.desired.clear();
        self.unchecked = VecDeque::new();
        self.checked = VecDeque::new();
        self.unconfirmed = Unconfirmed::default();
        self.drift = 0;
        std::mem::take(&mut self.seats).into_values().flat_map(|seat| seat.conns).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::LiveId;

    fn slice() -> Slice {
        let id = SliceId { live: LiveId::parse("42").unwrap(), index: 1, of: 1 };
        Slice::new(id, 1)
    }

    fn note(slice: &Slice, (card, version): (u64, u64), now: Millis) -> bool {
        let sum = AtomicU64::new(slice.card());
        let news = slice.note(card, version, now, &sum);
        assert_eq!(sum.into_inner(), slice.card(), "the sum follows");
        news
    }

    #[test]
    fn an_older_size_never_replaces_a_newer_one() {
        let slice = slice();
        assert!(note(&slice, (5, 100), 10));
        assert!(!note(&slice, (4, 99), 11));
        assert_eq!((slice.size(), slice.heard()), ((5, 100), 10));
        assert!(!note(&slice, (5, 101), 12));
        assert_eq!((slice.size(), slice.heard()), ((5, 101), 12));
    }

    #[test]
    fn what_a_check_read_counts_unless_something_was_heard_meanwhile() {
        let slice = slice();
        note(&slice, (5, 100), 10);
        let read = |expected, size| slice.note_reading(expected, size, 20, &AtomicU64::new(slice.card()));
        assert!(!read(99, (7, 101)));
        assert!(read(100, (0, 3)), "the store lost its data");
        assert_eq!(slice.size(), (0, 3));
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
