//! The users of the platform who are in a set through this gateway, whether or not they joined a
//! live: the users online, who have a socket or whose connection broke a moment ago, and the
//! streamers with a socket. Such a set in the store is always open, in one epoch.
//!
//! For users online the store also notes when they were last seen. The call that takes a user out
//! of the set writes the note, and the call that adds the user deletes it, in one step: so each
//! user is either in the set or has a note. A separate call writes the notes of the other users:
//! those who came and went between two calls, and those who left while the store lost the set or
//! came back with older data.
//!
//! The store also notes which lives each user online is in. A call says that a user came to a live
//! or left it. After its answer, gateways with viewers who asked for their friends there hear of it
//! ([`Telling::moved`]). Never awaits.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::desired_state::Standing;
use super::slice::{SetSize, Slice};
use crate::base::clock::Moment;
use crate::base::ids::{LiveId, OnlineSet, STREAMERS_SLICES, SliceId, USERS_SLICES, UserId};
use crate::store::{MAX_BATCH, MAX_LIVES, SliceSize};

/// The most users of one slice whose times wait for the store. While the store is away, a further
/// user who leaves the set counts as seen at the time of the call that takes the user out; a
/// further user who came and went meanwhile gets no note.
const MAX_SEEN: usize = 65_536;

/// The most lives per user that the user came to or left and that wait for the store. Beyond that,
/// any user of the slice may have moved.
const MOST_MOVED: usize = 64;

/// The users of the platform in one set.
#[derive(Debug)]
pub struct Platform {
    set: OnlineSet,
    /// By the place of the slice.
    users: Box<[Mutex<SliceUsers>]>,
    slices: Box<[Slice]>,
    /// The sum of the slices' sizes.
    online: SetSize,
}

/// The users of one slice.
#[derive(Debug, Default)]
struct SliceUsers {
    here: HashMap<UserId, Here>,
    /// When the users who went were last heard, until the store knows.
    seen: HashMap<UserId, Moment>,
    /// The live of each seat of a user, the live joined last at the end.
    lives: HashMap<UserId, Vec<LiveId>>,
    /// The lives that a user came to or left, until the store knows.
    moved: HashMap<UserId, Vec<LiveId>>,
    /// This gateway forgot some moves, or the store lost the lives of users: anybody may have
    /// moved.
    anybody_moved: bool,
}

/// The part of one call about the lives of users.
#[derive(Debug, Default)]
pub struct Telling {
    /// For each user who is there, the lives on this gateway, the live joined last at the end.
    pub lives: Vec<Vec<LiveId>>,
    /// The lives that users came to or left, as the store knows after the call.
    pub moved: Vec<(LiveId, UserId)>,
}

impl Telling {
    fn add_moves(&mut self, user: &UserId, lives: impl IntoIterator<Item = LiveId>) {
        for live in lives {
            self.moved.push((live, user.clone()));
        }
    }
}

#[derive(Debug, Default)]
struct Here {
    /// When any of the user's ended sockets was last heard.
    heard: Moment,
    sockets: u32,
}

impl Platform {
    /// The users online.
    pub fn of_users(now: Moment) -> Self {
        Self::new(OnlineSet::Users, USERS_SLICES, now)
    }

    /// The streamers with a socket.
    pub fn of_streamers(now: Moment) -> Self {
        Self::new(OnlineSet::Streamers, STREAMERS_SLICES, now)
    }

    fn new(set: OnlineSet, of: u32, now: Moment) -> Self {
        let slices = SliceId::all(set.clone(), of).map(|id| Slice::new(id, now));
        let users = (0..of).map(|_| Mutex::default());
        Self {
            set,
            users: users.collect(),
            slices: slices.collect(),
            online: SetSize::default(),
        }
    }

    /// The set that these users are in.
    pub fn set(&self) -> &OnlineSet {
        &self.set
    }

    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// The place of a user's slice in [`Platform::slices`].
    pub(super) fn place_of(&self, user: &UserId) -> usize {
        user.slice_index(self.slices.len() as u32) as usize - 1
    }

    /// Whether a user is here.
    pub fn is_here(&self, user: &UserId) -> bool {
        self.users[self.place_of(user)]
            .lock()
            .here
            .contains_key(user)
    }

    /// Notes a socket of a user.
    pub fn enter(&self, user: &UserId) {
        let place = self.place_of(user);
        let mut users = self.users[place].lock();
        let here = users.here.entry(user.clone()).or_default();
        here.sockets += 1;
        if here.sockets == 1 {
            users.seen.remove(user);
            self.slices[place].lock().want(user, Standing::Member);
        }
    }

    /// Forgets a socket of a user, which was last heard at `heard`.
    pub fn leave(&self, user: &UserId, heard: Moment) {
        let place = self.place_of(user);
        let mut users = self.users[place].lock();
        let Some(here) = users.here.get_mut(user) else {
            return;
        };
        here.sockets -= 1;
        here.heard = here.heard.max(heard);
        if here.sockets > 0 {
            return;
        }
        let heard = here.heard;
        users.here.remove(user);
        users.note_seen(user, heard);
        let mut state = self.slices[place].lock();
        state.want(user, Standing::Gone);
        if state.desired().is_settled(user) {
            // The store never knew of the visit.
            users.moved.remove(user);
        }
        if users.shrink() {
            state.shrink();
        }
    }

    /// Notes that a socket of a user took a seat in a live. True if a call must tell the store.
    pub fn join_live(&self, user: &UserId, live: &LiveId) -> bool {
        self.change_lives(user, |lives| lives.push(live.clone()))
    }

    /// Notes that a socket of a user gave up its seat in a live. True if a call must tell the
    /// store, even if the live has closed: it may be open again by then, and its viewers must hear
    /// that the user is gone.
    pub fn leave_live(&self, user: &UserId, live: &LiveId) -> bool {
        self.change_lives(user, |lives| give_up(lives, live))
    }

    fn change_lives(&self, user: &UserId, change: impl FnOnce(&mut Vec<LiveId>)) -> bool {
        let place = self.place_of(user);
        let mut users = self.users[place].lock();
        let lives = users.lives.entry(user.clone()).or_default();
        let before = to_tell(lives);
        change(lives);
        let after = to_tell(lives);
        if lives.is_empty() {
            users.lives.remove(user);
        }
        if before == after {
            return false;
        }
        let mut state = self.slices[place].lock();
        state.tell_again(user);
        if state.desired().is_settled(user) {
            return false;
        }
        for live in before.iter().filter(|live| !after.contains(live)) {
            users.note_moved(user, live);
        }
        true
    }

    /// The part of a call about the lives of the users who are there, and of those who left.
    /// [`Self::not_told`] takes it back if the call fails.
    pub(super) fn telling(&self, place: usize, here: &[UserId], gone: &[UserId]) -> Telling {
        if self.set != OnlineSet::Users {
            return Telling::default();
        }
        let mut users = self.users[place].lock();
        let mut telling = Telling::default();
        for user in here.iter().chain(gone) {
            let moved = users.moved.remove(user).unwrap_or_default();
            telling.add_moves(user, moved);
        }
        for user in here {
            let lives = users.told_lives(user);
            telling.add_moves(user, lives.iter().cloned());
            telling.lives.push(lives);
        }
        telling
    }

    /// Takes back the part of a call that failed.
    pub(super) fn not_told(&self, place: usize, telling: Telling) {
        let mut users = self.users[place].lock();
        for (live, user) in telling.moved {
            users.note_moved(&user, &live);
        }
    }

    /// Notes that any user of the slice at this place may have moved: the store lost the lives of
    /// users, or other programs wrote there.
    pub(super) fn forget_moves(&self, place: usize) {
        let mut users = self.users[place].lock();
        users.moved.clear();
        users.anybody_moved = true;
    }

    /// Whether any user of the slice at this place may have moved, now that the store knows the
    /// whole slice. The call resets it.
    pub(super) fn take_anybody_moved(&self, place: usize) -> bool {
        let mut users = self.users[place].lock();
        users.anybody_moved
            && !self.slices[place].lock().is_dirty()
            && std::mem::take(&mut users.anybody_moved)
    }

    /// The number of users who are in the set through this gateway.
    pub fn here(&self) -> usize {
        self.users.iter().map(|users| users.lock().here.len()).sum()
    }

    /// Takes all users out of the set: the gateway stops.
    pub(super) fn want_nobody(&self, now: Moment) {
        for (users, slice) in self.users.iter().zip(&self.slices) {
            let mut users = users.lock();
            for (user, _) in std::mem::take(&mut users.here) {
                users.note_seen(&user, now);
            }
            slice.lock().want_nobody();
        }
    }

    /// Whether the flusher has something to do for the slice at this place.
    pub(super) fn is_dirty(&self, place: usize) -> bool {
        !self.users[place].lock().seen.is_empty() || self.slices[place].lock().is_dirty()
    }

    /// When each of these users of the slice at this place was last heard; `None` if this gateway
    /// does not know.
    pub(super) fn left(&self, place: usize, users: &[UserId]) -> Vec<Option<Moment>> {
        let seen = &self.users[place].lock().seen;
        users.iter().map(|user| seen.get(user).copied()).collect()
    }

    /// Notes that the store knows when these users were last heard.
    pub(super) fn note_left_told(&self, place: usize, users: &[UserId], heard: &[Option<Moment>]) {
        let seen = &mut self.users[place].lock().seen;
        for (user, heard) in users.iter().zip(heard) {
            // The user may have come and gone once more.
            if seen.get(user) <= heard.as_ref() {
                seen.remove(user);
            }
        }
    }

    /// The users of the slice at this place who went, and of whom the store is yet to be told when.
    pub(super) fn seen(&self, place: usize) -> Vec<UserId> {
        self.users[place].lock().seen.keys().cloned().collect()
    }

    /// Takes up to [`MAX_BATCH`] users of the slice at this place who went and are not in the set
    /// any more, so that no change of the set notes when they were seen. Each comes with the time
    /// when the user was last heard.
    pub(super) fn take_seen(&self, place: usize) -> Vec<(UserId, Moment)> {
        let mut users = self.users[place].lock();
        let state = self.slices[place].lock();
        let settled = users
            .seen
            .keys()
            .filter(|user| state.desired().is_settled(user));
        let some: Vec<UserId> = settled.take(MAX_BATCH).cloned().collect();
        let mut taken = Vec::new();
        for user in some {
            taken.extend(users.seen.remove_entry(&user));
        }
        taken
    }

    /// Puts back users from [`Self::take_seen`] because the call about them failed.
    pub(super) fn note_seen(&self, place: usize, seen: Vec<(UserId, Moment)>) {
        let mut users = self.users[place].lock();
        for (user, heard) in seen {
            users.note_seen(&user, heard);
        }
    }

    /// Notes a slice's size from the store. True if more than the version changed.
    pub(super) fn note_size(&self, place: usize, size: SliceSize, now: Moment) -> bool {
        self.slices[place].note(size, now, &self.online)
    }
}

impl SliceUsers {
    /// The lives of a user in the form for the store: each once, the live joined last at the end.
    fn told_lives(&self, user: &UserId) -> Vec<LiveId> {
        match self.lives.get(user) {
            Some(lives) => to_tell(lives),
            None => Vec::new(),
        }
    }

    fn note_moved(&mut self, user: &UserId, live: &LiveId) {
        let known = self.moved.entry(user.clone()).or_default();
        if known.len() >= MOST_MOVED {
            known.clear();
            self.anybody_moved = true;
        }
        if !known.contains(live) {
            known.push(live.clone());
        }
    }

    fn note_seen(&mut self, user: &UserId, heard: Moment) {
        if self.seen.len() < MAX_SEEN || self.seen.contains_key(user) {
            let there = self.seen.entry(user.clone()).or_insert(heard);
            *there = heard.max(*there);
        }
    }

    /// Frees most of the memory that the map keeps from its peak, once few users are left. True if
    /// it did.
    fn shrink(&mut self) -> bool {
        let sparse = self.here.capacity() > 64 && self.here.len() < self.here.capacity() / 8;
        if sparse {
            self.here.shrink_to(self.here.len() * 2);
            self.seen.shrink_to(self.here.len() * 2);
            self.lives.shrink_to(self.here.len() * 2);
        }
        sparse
    }
}

fn give_up(lives: &mut Vec<LiveId>, live: &LiveId) {
    if let Some(place) = lives.iter().rposition(|there| there == live) {
        lives.remove(place);
    }
}

/// Each live once, the live joined last at the end; only the last [`MAX_LIVES`] of very many.
fn to_tell(lives: &[LiveId]) -> Vec<LiveId> {
    let mut told: Vec<LiveId> = Vec::new();
    for live in lives.iter().rev() {
        if told.len() < MAX_LIVES && !told.contains(live) {
            told.push(live.clone());
        }
    }
    told.reverse();
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;
    use crate::presence::turn::{TurnContext, TurnStep};
    use crate::store::{ApplyRefusal, ApplyReply};

    fn user(name: &str) -> UserId {
        UserId::parse(name).unwrap()
    }

    /// Brings a slice to a store that answers as expected; whom it is told to have left, and when.
    fn flush(platform: &Platform, place: usize) -> Vec<(UserId, Option<Moment>)> {
        let mut told = Vec::new();
        let mut turn = platform.slices[place].lock().begin_turn(1, context());
        loop {
            let step = platform.slices[place].lock().next_step(&mut turn);
            let TurnStep::Call(draft) = step else {
                return told;
            };
            let left = platform.left(place, &draft.leaves);
            let mut state = platform.slices[place].lock();
            state.answered(&draft, &done(), moment(0));
            drop(state);
            platform.note_left_told(place, &draft.leaves, &left);
            told.extend(draft.leaves.into_iter().zip(left));
        }
    }

    fn context() -> TurnContext {
        TurnContext {
            known_open: true,
            most_users: MAX_BATCH,
        }
    }

    fn done() -> ApplyReply {
        ApplyReply::Done(SliceSize::default())
    }

    /// Pinned, because every user online costs a slot of this size, and one of 16 bytes in the
    /// desired state.
    #[test]
    fn what_a_user_takes_stays_small() {
        assert_eq!(size_of::<(UserId, Here)>(), 32);
    }

    #[test]
    fn a_user_is_online_while_any_socket_is_open_and_was_seen_with_the_last_frame_of_any() {
        let platform = Platform::of_users(moment(0));
        let user = user("u1");
        let place = platform.place_of(&user);
        platform.enter(&user);
        platform.enter(&user);
        assert_eq!(flush(&platform, place), []);
        platform.leave(&user, moment(70));
        assert!(!platform.is_dirty(place));
        platform.leave(&user, moment(50));
        assert!(
            platform.take_seen(place).is_empty(),
            "the call that takes the user out tells it"
        );
        assert_eq!(flush(&platform, place), [(user.clone(), Some(moment(70)))]);
        assert!(!platform.is_dirty(place), "the store knows");
        platform.leave(&user, moment(90));
        assert!(
            !platform.is_dirty(place),
            "the user has no socket that could leave"
        );
    }

    #[test]
    fn a_user_who_came_and_went_between_two_flushes_is_noted_all_the_same() {
        let platform = Platform::of_users(moment(0));
        let user = user("u1");
        let place = platform.place_of(&user);
        platform.enter(&user);
        platform.leave(&user, moment(9));
        assert!(platform.is_dirty(place));
        assert_eq!(flush(&platform, place), []);
        let seen = platform.take_seen(place);
        assert_eq!(seen, [(user.clone(), moment(9))]);
        platform.note_seen(place, vec![(user.clone(), moment(20))]);
        platform.note_seen(place, seen);
        assert_eq!(
            platform.take_seen(place),
            [(user, moment(20))],
            "the later time stays"
        );
    }

    #[test]
    fn a_visit_during_the_call_that_ends_the_one_before_is_noted() {
        let platform = Platform::of_users(moment(0));
        let user = user("u1");
        let place = platform.place_of(&user);
        platform.enter(&user);
        flush(&platform, place);
        platform.leave(&user, moment(70));
        let mut turn = platform.slices[place].lock().begin_turn(1, context());
        let TurnStep::Call(draft) = platform.slices[place].lock().next_step(&mut turn) else {
            panic!("a call")
        };
        let left = platform.left(place, &draft.leaves);
        platform.enter(&user);
        platform.leave(&user, moment(90));
        platform.slices[place]
            .lock()
            .answered(&draft, &done(), moment(0));
        platform.note_left_told(place, &draft.leaves, &left);
        assert_eq!(left, [Some(moment(70))]);
        flush(&platform, place);
        assert_eq!(platform.take_seen(place), [(user, moment(90))]);
    }

    #[test]
    fn whoever_left_while_the_store_lost_the_set_is_noted() {
        let platform = Platform::of_users(moment(0));
        let user = user("u1");
        let place = platform.place_of(&user);
        platform.enter(&user);
        flush(&platform, place);
        platform.leave(&user, moment(95));
        let mut turn = platform.slices[place].lock().begin_turn(1, context());
        let TurnStep::Call(draft) = platform.slices[place].lock().next_step(&mut turn) else {
            panic!("a call")
        };
        let lost = ApplyReply::Refused(ApplyRefusal {
            entry: None,
            size: None,
        });
        platform.slices[place]
            .lock()
            .answered(&draft, &lost, moment(0));
        // No call takes the user out any more.
        assert_eq!(flush(&platform, place), []);
        assert_eq!(platform.take_seen(place), [(user, moment(95))]);
        assert!(!platform.is_dirty(place));
    }

    #[test]
    fn users_who_wait_are_taken_in_batches_and_bounded() {
        let platform = Platform::of_users(moment(0));
        let mine = (0..)
            .map(|n| user(&format!("u{n}")))
            .filter(|user| platform.place_of(user) == 0);
        for user in mine.take(MAX_SEEN + 1) {
            platform.note_seen(0, vec![(user, moment(1))]);
        }
        let mut taken = 0;
        while platform.is_dirty(0) {
            let batch = platform.take_seen(0).len();
            assert!((1..=MAX_BATCH).contains(&batch));
            taken += batch;
        }
        assert_eq!(taken, MAX_SEEN);
    }

    fn live(name: &str) -> LiveId {
        LiveId::parse(name).unwrap()
    }

    /// What the calls tell of the user, who stays there, with a store that answers as expected.
    fn told(platform: &Platform, user: &UserId) -> Vec<Telling> {
        let place = platform.place_of(user);
        let mut turn = platform.slices[place].lock().begin_turn(1, context());
        let mut told = Vec::new();
        loop {
            let step = platform.slices[place].lock().next_step(&mut turn);
            let TurnStep::Call(draft) = step else {
                return told;
            };
            told.push(platform.telling(place, &draft.joins, &draft.leaves));
            platform.slices[place]
                .lock()
                .answered(&draft, &done(), moment(0));
        }
    }

    /// The lives that the next call tells of a user.
    fn told_lives(platform: &Platform, user: &UserId) -> Option<Vec<LiveId>> {
        told(platform, user)
            .pop()
            .map(|telling| telling.lives.concat())
    }

    #[test]
    fn the_lives_of_a_user_are_told_until_their_seats_are_given_up() {
        let (platform, user) = (Platform::of_users(moment(0)), user("u1"));
        let [one, two] = ["1", "2"].map(live);
        platform.enter(&user);
        assert!(platform.join_live(&user, &one));
        assert_eq!(told_lives(&platform, &user), Some(vec![one.clone()]));
        assert!(!platform.join_live(&user, &one));
        assert_eq!(
            told_lives(&platform, &user),
            None,
            "a second device in the same live"
        );
        platform.join_live(&user, &two);
        assert_eq!(
            told_lives(&platform, &user),
            Some(vec![one.clone(), two.clone()])
        );
        platform.leave_live(&user, &one);
        assert_eq!(told_lives(&platform, &user), None);
        platform.leave_live(&user, &two);
        assert_eq!(told_lives(&platform, &user), Some(vec![one.clone()]));
        platform.leave_live(&user, &one);
        assert_eq!(told_lives(&platform, &user), Some(vec![]));
        assert_eq!(told_lives(&platform, &user), None);
    }

    #[test]
    fn of_very_many_lives_the_last_ones_are_told() {
        let (platform, user) = (Platform::of_users(moment(0)), user("u1"));
        platform.enter(&user);
        let lives: Vec<LiveId> = (0..MAX_LIVES + 3).map(|n| live(&n.to_string())).collect();
        for live in &lives {
            platform.join_live(&user, live);
        }
        assert_eq!(told_lives(&platform, &user), Some(lives[3..].to_vec()));
    }

    #[test]
    fn who_moved_is_known_once_the_store_was_told() {
        let (platform, user) = (Platform::of_users(moment(0)), user("u1"));
        let place = platform.place_of(&user);
        let [one, two] = ["1", "2"].map(live);
        let there = |live: &LiveId| (live.clone(), user.clone());
        let moved = || {
            told(&platform, &user)
                .into_iter()
                .flat_map(|telling| telling.moved)
                .collect::<Vec<_>>()
        };
        platform.enter(&user);
        platform.join_live(&user, &one);
        assert_eq!(moved(), [there(&one)]);
        platform.leave_live(&user, &one);
        platform.join_live(&user, &two);
        let lost = platform.telling(place, std::slice::from_ref(&user), &[]);
        platform.leave_live(&user, &two);
        platform.not_told(place, lost);
        let mut all = moved();
        all.sort();
        assert_eq!(all, [there(&one), there(&two)]);
        assert!(!platform.take_anybody_moved(place));
        for n in 0..=MOST_MOVED {
            platform.join_live(&user, &live(&n.to_string()));
            platform.leave_live(&user, &live(&n.to_string()));
        }
        assert!(
            !platform.take_anybody_moved(place),
            "the store does not know yet"
        );
        assert!(moved().len() <= MOST_MOVED);
        assert_eq!(
            [
                platform.take_anybody_moved(place),
                platform.take_anybody_moved(place)
            ],
            [true, false]
        );
    }

    #[test]
    fn nothing_is_kept_of_the_lives_of_a_user_whom_the_store_never_knew() {
        let (platform, user) = (Platform::of_users(moment(0)), user("u1"));
        let place = platform.place_of(&user);
        for _ in 0..2 {
            platform.enter(&user);
            platform.join_live(&user, &live("1"));
            platform.leave_live(&user, &live("1"));
            platform.leave(&user, moment(5));
        }
        let users = platform.users[place].lock();
        assert!(users.lives.is_empty() && users.moved.is_empty());
    }
}
