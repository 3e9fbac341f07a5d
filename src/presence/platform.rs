//! The users of the platform who are in a set through this gateway, whether or not they joined a live: those online, who
//! have a socket or whose connection broke a moment ago, and the streamers with a socket. Such a set in the store is
//! always open, in one epoch.
//!
//! Of users online the store also notes when they were last seen. The call that takes users out of the set notes it, and the call that
//! puts them in forgets it, in one step: so everybody is in one of the two. A call of its own notes the others: those
//! who came and went between two calls, and those who left while the store lost the set or came back with older data.
//! Never awaits.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::desired_state::Standing;
use super::slice::{ReadSize, SetSize, Slice};
use crate::base::clock::Millis;
use crate::base::ids::{OnlineSet, STREAMERS_SLICES, SliceId, USERS_SLICES, UserId};
use crate::store::{MAX_BATCH, SliceSize};

/// The most users of one slice whose times wait for the store. While the store is away, a further user who leaves the
/// set counts as seen when the call takes the user out; a further user who came and went meanwhile is not noted.
const MAX_SEEN: usize = 65_536;

/// The users of the platform in one set.
#[derive(Debug)]
pub struct Platform {
    set: OnlineSet,
    /// By slice.
    users: Box<[Mutex<Users>]>,
    slices: Box<[Slice]>,
    /// The sum of the slices' sizes.
    online: SetSize,
}

/// The users of one slice.
#[derive(Debug, Default)]
struct Users {
    here: HashMap<UserId, Here>,
    /// When those who went were last heard, until the store knows.
    seen: HashMap<UserId, Millis>,
}

#[derive(Debug, Default)]
struct Here {
    /// When the latest of the user's sockets that ended was heard.
    heard: Millis,
    sockets: u32,
}

impl Platform {
    /// The users online.
    pub fn of_users(now: Millis) -> Self {
        Self::new(OnlineSet::Users, USERS_SLICES, now)
    }

    /// The streamers with a socket.
    pub fn of_streamers(now: Millis) -> Self {
        Self::new(OnlineSet::Streamers, STREAMERS_SLICES, now)
    }

    fn new(set: OnlineSet, of: u32, now: Millis) -> Self {
        let slices = SliceId::all(set.clone(), of).map(|id| Slice::new(id, now));
        let users = (0..of).map(|_| Mutex::default());
        Self { set, users: users.collect(), slices: slices.collect(), online: SetSize::default() }
    }

    /// Which set it is.
    pub fn set(&self) -> &OnlineSet {
        &self.set
    }

    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// The place of a user's slice in [`Platform::slices`].
    pub fn place_of(&self, user: &UserId) -> usize {
        user.slice_index(self.slices.len() as u32) as usize - 1
    }

    /// Whether a user is here.
    pub fn is_here(&self, user: &UserId) -> bool {
        self.users[self.place_of(user)].lock().here.contains_key(user)
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
    pub fn leave(&self, user: &UserId, heard: Millis) {
        let place = self.place_of(user);
        let mut users = self.users[place].lock();
        let Some(here) = users.here.get_mut(user) else { return };
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
        if users.shrink() {
            state.shrink();
        }
    }

    /// How many users are online here.
    pub fn here(&self) -> usize {
        self.users.iter().map(|users| users.lock().here.len()).sum()
    }

    /// Takes everybody out: the gateway stops.
    pub(super) fn want_nobody(&self, now: Millis) {
        for (users, slice) in self.users.iter().zip(&self.slices) {
            let mut users = users.lock();
            for (user, _) in std::mem::take(&mut users.here) {
                users.note_seen(&user, now);
            }
            slice.lock().want_nobody();
        }
    }

    /// Whether the flusher has something to do for the slice at this place.
    pub fn is_dirty(&self, place: usize) -> bool {
        !self.users[place].lock().seen.is_empty() || self.slices[place].lock().is_dirty()
    }

    /// When each of these users of the slice at this place was last heard; `None` for a user of whom it is not known.
    pub fn left(&self, place: usize, users: &[UserId]) -> Vec<Option<Millis>> {
        let seen = &self.users[place].lock().seen;
        users.iter().map(|user| seen.get(user).copied()).collect()
    }

    /// Notes that the store knows of these users that they were last heard at these times.
    pub fn note_left_told(&self, place: usize, users: &[UserId], heard: &[Option<Millis>]) {
        let seen = &mut self.users[place].lock().seen;
        for (user, heard) in users.iter().zip(heard) {
            // The user may have come and gone once more.
            if seen.get(user) <= heard.as_ref() {
                seen.remove(user);
            }
        }
    }

    /// Takes up to [`MAX_BATCH`] users of the slice at this place who went and whom the set need not lose any more, so
    /// that no change of the set notes when they were seen. Each comes with the time when the user was last heard.
    pub fn take_seen(&self, place: usize) -> Vec<(UserId, Millis)> {
        let mut users = self.users[place].lock();
        let state = self.slices[place].lock();
        let settled = users.seen.keys().filter(|user| state.desired().is_settled(user));
        let some: Vec<UserId> = settled.take(MAX_BATCH).cloned().collect();
        some.into_iter().filter_map(|user| users.seen.remove_entry(&user)).collect()
    }

    /// Puts users back whom [`Self::take_seen`] gave, because the call that was to note them failed.
    pub fn note_seen(&self, place: usize, seen: Vec<(UserId, Millis)>) {
        let mut users = self.users[place].lock();
        for (user, heard) in seen {
            users.note_seen(&user, heard);
        }
    }

    /// Has the store told of everybody who is unsettled in the slice at this place and not here: the store lost the
    /// slice, or came back with older data. When those were last heard is not known: not after `now`.
    pub fn note_unsettled(&self, place: usize, now: Millis) {
        let mut users = self.users[place].lock();
        let state = self.slices[place].lock();
        for user in state.desired().unsettled_users() {
            if !users.here.contains_key(user) && !users.seen.contains_key(user) {
                users.note_seen(user, now);
            }
        }
    }

    /// Takes in a slice's size, as the store told it.
    pub fn note_size(&self, place: usize, size: SliceSize, now: Millis) {
        self.slices[place].note(size, now, &self.online);
    }

    /// As [`Platform::note_size`], for what a check read that expected version `expected`.
    pub fn note_reading(&self, place: usize, read: ReadSize) {
        self.slices[place].note_reading(read, &self.online);
    }
}

impl Users {
    fn note_seen(&mut self, user: &UserId, heard: Millis) {
        if self.seen.len() < MAX_SEEN || self.seen.contains_key(user) {
            let there = self.seen.entry(user.clone()).or_insert(heard);
            *there = heard.max(*there);
        }
    }

    /// Frees most of the memory that the map keeps from its peak, once few users are left. True if it did.
    fn shrink(&mut self) -> bool {
        let sparse = self.here.capacity() > 64 && self.here.len() < self.here.capacity() / 8;
        if sparse {
            self.here.shrink_to(self.here.len() * 2);
            self.seen.shrink_to(self.here.len() * 2);
        }
        sparse
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presence::desired_state::CallLimit;
    use crate::presence::turn::{Step, TurnContext};
    use crate::store::{ApplyReply, HeldMembers, SliceView};

    fn user(name: &str) -> UserId {
        UserId::parse(name).unwrap()
    }

    /// Brings a slice to a store that answers as expected; whom it is told to have left, and when.
    fn flush(platform: &Platform, place: usize) -> Vec<(UserId, Option<Millis>)> {
        let mut told = Vec::new();
        let mut turn = platform.slices[place].lock().begin_turn(1, context());
        loop {
            let step = platform.slices[place].lock().next_step(&mut turn);
            let Step::Call(draft) = step else { return told };
            let left = platform.left(place, &draft.leaves);
            let mut state = platform.slices[place].lock();
            let held = state.desired().wanted() as u64;
            state.answered(
                &draft,
                &ApplyReply::Done(SliceView {
                    size: SliceSize { card: held, ..SliceSize::default() },
                    held,
                    held_fans: 0,
                }),
                0,
            );
            drop(state);
            platform.note_left_told(place, &draft.leaves, &left);
            told.extend(draft.leaves.into_iter().zip(left));
        }
    }

    fn context() -> TurnContext {
        TurnContext { known_open: true, limit: CallLimit::WHOLE_BATCH }
    }

    /// Pinned, because every user online costs a slot of this size, and one of 16 bytes in the desired state.
    #[test]
    fn what_a_user_takes_stays_small() {
        assert_eq!(size_of::<(UserId, Here)>(), 32);
    }

    #[test]
    fn a_user_is_online_while_any_socket_is_open_and_was_seen_with_the_last_frame_of_any() {
        let platform = Platform::of_users(0);
        let user = user("u1");
        let place = platform.place_of(&user);
        platform.enter(&user);
        platform.enter(&user);
        assert_eq!(flush(&platform, place), []);
        platform.leave(&user, 70);
        assert!(!platform.is_dirty(place));
        platform.leave(&user, 50);
        assert!(platform.take_seen(place).is_empty(), "the call that takes the user out tells it");
        assert_eq!(flush(&platform, place), [(user.clone(), Some(70))]);
        assert!(!platform.is_dirty(place), "the store knows");
        platform.leave(&user, 90);
        assert!(!platform.is_dirty(place), "the user has no socket that could leave");
    }

    #[test]
    fn a_user_who_came_and_went_between_two_flushes_is_noted_all_the_same() {
        let platform = Platform::of_users(0);
        let user = user("u1");
        let place = platform.place_of(&user);
        platform.enter(&user);
        platform.leave(&user, 9);
        assert!(platform.is_dirty(place));
        assert_eq!(flush(&platform, place), []);
        let seen = platform.take_seen(place);
        assert_eq!(seen, [(user.clone(), 9)]);
        platform.note_seen(place, vec![(user.clone(), 20)]);
        platform.note_seen(place, seen);
        assert_eq!(platform.take_seen(place), [(user, 20)], "the later time stays");
    }

    #[test]
    fn a_visit_during_the_call_that_ends_the_one_before_is_noted() {
        let platform = Platform::of_users(0);
        let user = user("u1");
        let place = platform.place_of(&user);
        platform.enter(&user);
        flush(&platform, place);
        platform.leave(&user, 70);
        let mut turn = platform.slices[place].lock().begin_turn(1, context());
        let Step::Call(draft) = platform.slices[place].lock().next_step(&mut turn) else { panic!("a call") };
        let left = platform.left(place, &draft.leaves);
        platform.enter(&user);
        platform.leave(&user, 90);
        let done = ApplyReply::Done(SliceView { size: SliceSize::default(), held: 0, held_fans: 0 });
        platform.slices[place].lock().answered(&draft, &done, 0);
        platform.note_left_told(place, &draft.leaves, &left);
        assert_eq!(left, [Some(70)]);
        flush(&platform, place);
        assert_eq!(platform.take_seen(place), [(user, 90)]);
    }

    #[test]
    fn whoever_left_while_the_store_lost_the_set_is_noted() {
        let platform = Platform::of_users(0);
        let mut mine = (0..).map(|n| user(&format!("u{n}"))).filter(|user| platform.place_of(user) == 0);
        let [here, gone, settled, leaving] = [(); 4].map(|()| mine.next().unwrap());
        for user in [&here, &gone, &settled, &leaving] {
            platform.enter(user);
        }
        flush(&platform, 0);
        platform.leave(&gone, 6);
        assert_eq!(flush(&platform, 0), [(gone.clone(), Some(6))]);
        // Older data: without one who is here, and with one who is gone.
        platform.leave(&leaving, 70);
        let held = [&gone, &settled, &leaving].map(Clone::clone).into();
        platform.slices[0].lock().reconcile(Some(1), &HeldMembers { users: held, ..HeldMembers::default() });
        platform.note_unsettled(0, 90);
        let told: HashMap<_, _> = flush(&platform, 0).into_iter().collect();
        assert_eq!(told, [(gone, Some(90)), (leaving, Some(70))].into());
        assert!(platform.take_seen(0).is_empty());
        // The entry is gone, while one was leaving: no call takes that one out any more.
        platform.leave(&settled, 95);
        platform.slices[0].lock().begin_turn(2, context());
        assert!(platform.slices[0].lock().reassert());
        platform.note_unsettled(0, 100);
        assert_eq!(flush(&platform, 0), []);
        assert_eq!(platform.take_seen(0), [(settled, 95)]);
        assert!(!platform.is_dirty(0));
    }

    #[test]
    fn users_who_wait_are_taken_in_batches_and_bounded() {
        let platform = Platform::of_users(0);
        let mine = (0..).map(|n| user(&format!("u{n}"))).filter(|user| platform.place_of(user) == 0);
        for user in mine.take(MAX_SEEN + 1) {
            platform.note_seen(0, vec![(user, 1)]);
        }
        let mut taken = 0;
        while platform.is_dirty(0) {
            let batch = platform.take_seen(0).len();
            assert!((1..=MAX_BATCH).contains(&batch));
            taken += batch;
        }
        assert_eq!(taken, MAX_SEEN);
    }
}
