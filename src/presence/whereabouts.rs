//! In which lives each user of this gateway is, and what the store has to be told of it. State only:
//! `sync::whereabouts` tells the store the present state, so a call that failed is simply made again. Once the store
//! was told that a user came to a live or left it, gateways with viewers who asked for their friends there hear of it
//! ([`Moved`]).
//!
//! A user who is in several lives by several sockets is said to be in all of them, the one joined last at the end.
//! A socket that is in no list does not make its user be anywhere.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::own_lease::Incarnation;
use super::resync_at::ResyncAt;
use crate::base::clock::Millis;
use crate::base::ids::{LiveId, USERS_SLICES, UserId};
use crate::store::{Chain, MAX_WHEREABOUTS, TellWhereabouts};

/// Users of one call.
const USERS_A_CALL: usize = 500;

/// Of a slice, so many users at most wait to be told, or twice those who are here. Beyond that, all are told again from
/// what the store then names.
const MOST_UNTOLD: usize = 16_384;

/// So many lives that a user left are remembered until the store was told. Beyond that, every live counts as moved.
const MOST_LEFT: usize = 64;

/// Who came to lives or left them, as the store knows by now.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Moved {
    pub users: Vec<(LiveId, UserId)>,
    /// Anybody may have moved, anywhere.
    pub anybody: bool,
}

/// What follows from an answer of the store.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// What the store has must be read, and [`Whereabouts::found`] be told.
    pub must_read: bool,
    pub moved: Moved,
}

#[derive(Debug)]
pub struct Whereabouts {
    slices: Vec<Mutex<Slice>>,
    /// The number of the last call.
    numbers: AtomicU64,
    changed: Notify,
}

/// The users of one slice.
#[derive(Debug, Default)]
struct Slice {
    /// The live of each seat of a user, the last joined last.
    lives: HashMap<UserId, Vec<LiveId>>,
    /// The users of whom the store has to be told, each with the lives that the user left since.
    untold: HashMap<UserId, Vec<LiveId>>,
    /// The lives that the users of the call under way left. A slice has one call at a time.
    telling: Vec<(LiveId, UserId)>,
    /// It was forgotten who moved.
    forgot_moves: bool,
    /// The store may have lost what it was told.
    doubted: bool,
    /// The incarnation that told the store, and the number of its last call that was answered.
    told: Option<(u32, u64)>,
    /// The store may have other words of this gateway than it was told: it lost some, came back with older ones, knows
    /// this gateway by another id, or another program wrote there. What it has was not read since.
    must_read: bool,
    /// When what it has may be read.
    resync_at: ResyncAt,
}

impl Default for Whereabouts {
    fn default() -> Self {
        let slices = (0..USERS_SLICES).map(|_| Mutex::default()).collect();
        Self { slices, numbers: AtomicU64::new(0), changed: Notify::new() }
    }
}

impl Whereabouts {
    /// A socket of a user took a seat in a live.
    pub fn joined(&self, user: &UserId, live: &LiveId) {
        self.change(user, |lives| lives.push(live.clone()));
    }

    /// A socket of a user gave up its seat in a live. If the live has closed, it may be open again when the store is
    /// told: those who are in it then must hear that the user is gone.
    pub fn left(&self, user: &UserId, live: &LiveId) {
        self.change(user, |lives| give_up(lives, live));
    }

    fn change(&self, user: &UserId, change: impl FnOnce(&mut Vec<LiveId>)) {
        let mut slice = self.slice(user.slice_index(USERS_SLICES)).lock();
        let lives = slice.lives.entry(user.clone()).or_default();
        let before = to_tell(lives);
        change(lives);
        let after = to_tell(lives);
        if lives.is_empty() {
            slice.lives.remove(user);
        }
        if before != after {
            let left = before.into_iter().filter(|live| !after.contains(live)).collect();
            slice.must_tell(user, left);
            drop(slice);
            self.changed.notify_one();
        }
    }

    fn slice(&self, index: u32) -> &Mutex<Slice> {
        &self.slices[(index.saturating_sub(1) % USERS_SLICES) as usize]
    }

    /// Waits until something changed since the last wait.
    pub async fn changes(&self) {
        self.changed.notified().await;
    }

    /// Has the store asked whether it still has what it was told.
    pub fn doubt_all(&self) {
        self.slices.iter().for_each(|slice| slice.lock().doubted = true);
    }

    /// The calls to make now, one a slice at most. Each must be followed by [`Self::noted`] or [`Self::failed`].
    pub fn calls(&self, own: &Incarnation) -> Vec<TellWhereabouts> {
        (1..=USERS_SLICES).filter_map(|index| self.call(index, own)).collect()
    }

    fn call(&self, index: u32, own: &Incarnation) -> Option<TellWhereabouts> {
        let mut slice = self.slice(index).lock();
        if slice.told.is_some_and(|(incarnation, _)| incarnation != own.number) {
            // The store knows nothing of the new id.
            slice.told = None;
            (slice.must_read, slice.doubted) = (true, true);
        }
        let doubted = std::mem::take(&mut slice.doubted) && (slice.told.is_some() || !slice.lives.is_empty());
        if slice.untold.is_empty() && !doubted {
            return None;
        }
        let some: Vec<UserId> = slice.untold.keys().take(USERS_A_CALL).cloned().collect();
        let users = some.into_iter().map(|user| {
            let left = slice.untold.remove(&user).unwrap_or_default();
            slice.telling.extend(left.into_iter().map(|live| (live, user.clone())));
            let lives = slice.lives.get(&user).map(|lives| to_tell(lives)).unwrap_or_default();
            (user, lives)
        });
        let users = users.collect();
        let known = slice.told.map_or(0, |(_, number)| number);
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        Some(TellWhereabouts { slice: index, gateway: own.id.clone(), number, known, users })
    }

    /// Notes that the store was told. If what it has must be read, [`Self::found`] is to be called once
    /// [`Self::resync_at`] says so.
    pub fn noted(&self, call: &TellWhereabouts, own: &Incarnation, chain: Chain) -> Noted {
        let mut slice = self.slice(call.slice).lock();
        slice.must_read |= chain == Chain::Broken;
        slice.told = Some((own.number, call.number));
        let mut users = std::mem::take(&mut slice.telling);
        let told =
            |(user, lives): &(UserId, Vec<LiveId>)| lives.iter().map(|live| (live.clone(), user.clone())).collect();
        users.extend(call.users.iter().flat_map(|there| -> Vec<_> { told(there) }));
        let (must_read, more) = (slice.must_read, !slice.untold.is_empty());
        let anybody = !must_read && !more && std::mem::take(&mut slice.forgot_moves);
        drop(slice);
        if more {
            self.changed.notify_one();
        }
        Noted { must_read, moved: Moved { users, anybody } }
    }

    /// When what the store has of a slice may be read, and told again where it is wrong; `None` is now. See
    /// [`ResyncAt::take`].
    pub fn resync_at(&self, index: u32, now: Millis, book: impl FnOnce(u32) -> Millis) -> Option<Millis> {
        let mut slice = self.slice(index).lock();
        let users = slice.lives.len();
        slice.resync_at.take(users, now, book)
    }

    /// Takes in the words of this gateway that the store has in a slice, of each user in order. Where they are not as
    /// they should be, they are told again. How many users those are.
    pub fn found(&self, index: u32, mut words: HashMap<UserId, Vec<LiveId>>) -> usize {
        let mut slice = self.slice(index).lock();
        slice.must_read = false;
        let mut wrong = Vec::new();
        for (user, lives) in &slice.lives {
            let said = words.remove(user).unwrap_or_default();
            // Of a user in very many lives, the store keeps the last ones.
            if said != to_tell(lives) && (said.len() < MAX_WHEREABOUTS || !to_tell(lives).ends_with(&said)) {
                wrong.push(user.clone());
            }
        }
        wrong.extend(words.into_keys());
        // Who is on the way to the store is not wrong there.
        wrong.retain(|user| !slice.untold.contains_key(user));
        if !wrong.is_empty() {
            // It is not known what the store named before.
            slice.forgot_moves = true;
        }
        let found = wrong.len();
        slice.untold.extend(wrong.into_iter().map(|user| (user, Vec::new())));
        drop(slice);
        self.changed.notify_one();
        found
    }

    /// Has what the store has read in some slices, about `most` users of this gateway, from a slice on: another program
    /// may have written there and left the number of users as it was. Returns the slice to go on with.
    pub fn read_back(&self, from: u32, most: usize) -> u32 {
        let mut users = 0;
        let mut index = from;
        for _ in 0..USERS_SLICES {
            let mut slice = self.slice(index).lock();
            (slice.must_read, slice.doubted) = (true, true);
            users += slice.lives.len();
            index = index % USERS_SLICES + 1;
            if users >= most {
                break;
            }
        }
        index
    }

    /// Has a slice asked again: what the store names could not be read.
    pub fn doubt(&self, index: u32) {
        self.slice(index).lock().doubted = true;
    }

    /// Notes that nobody knows whether the store was told.
    pub fn failed(&self, call: &TellWhereabouts) {
        let mut slice = self.slice(call.slice).lock();
        slice.doubted = true;
        for (user, _) in &call.users {
            slice.untold.entry(user.clone()).or_default();
        }
        for (live, user) in std::mem::take(&mut slice.telling) {
            slice.must_tell(&user, vec![live]);
        }
    }
}

impl Slice {
    /// Has the store told of a user, who left these lives.
    fn must_tell(&mut self, user: &UserId, left: Vec<LiveId>) {
        if self.untold.len() >= MOST_UNTOLD.max(2 * self.lives.len()) {
            // The store is away for long.
            self.untold.clear();
            (self.must_read, self.doubted, self.forgot_moves) = (true, true, true);
        }
        let known = self.untold.entry(user.clone()).or_default();
        for live in left {
            if known.len() >= MOST_LEFT {
                known.clear();
                self.forgot_moves = true;
            }
            if !known.contains(&live) {
                known.push(live);
            }
        }
    }
}

fn give_up(lives: &mut Vec<LiveId>, live: &LiveId) {
    if let Some(place) = lives.iter().rposition(|there| there == live) {
        lives.remove(place);
    }
}

/// The lives of a user as the store is told of them: each once, the one joined last at the end.
fn to_tell(lives: &[LiveId]) -> Vec<LiveId> {
    let later = |place: usize| &lives[place + 1..];
    let last = lives.iter().enumerate().filter(|(place, live)| !later(*place).contains(live));
    last.map(|(_, live)| live.clone()).collect()
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use crate::base::clock::Clock;
    use crate::base::ids::GatewayId;
    use crate::store::memory::MemoryStore;
    use crate::store::{OnlineUsers, ToldWhereabouts, Whereabouts as _};

    fn id(name: &str) -> (UserId, LiveId) {
        (UserId::parse("u1").unwrap(), LiveId::parse(name).unwrap())
    }

    /// Users whose words are in this slice.
    fn of_slice(index: u32) -> impl Iterator<Item = UserId> {
        let users = (0..).map(|n| UserId::parse(&format!("u{n}")).unwrap());
        users.filter(move |user| user.slice_index(USERS_SLICES) == index)
    }

    fn own(number: u32) -> Incarnation {
        Incarnation { id: GatewayId::parse(&format!("g{number}")).unwrap(), number }
    }

    /// What the store is told now of the user, if anything.
    fn told(whereabouts: &Whereabouts, own: &Incarnation, chain: Chain) -> Option<Vec<Vec<LiveId>>> {
        let call = whereabouts.calls(own).pop()?;
        if whereabouts.noted(&call, own, chain).must_read {
            whereabouts.found(call.slice, HashMap::new());
        }
        Some(call.users.into_iter().map(|(_, lives)| lives).collect())
    }

    /// Has a store carry out the next call, which has an answer.
    fn answered(whereabouts: &Whereabouts, own: &Incarnation, store: &MemoryStore) -> Noted {
        let call = whereabouts.calls(own).pop().unwrap();
        match store.tell_whereabouts(&call).now_or_never().unwrap() {
            Ok(ToldWhereabouts::Noted(chain)) => whereabouts.noted(&call, own, chain),
            other => panic!("{other:?}"),
        }
    }

    /// Has a store carry out the next call, of which the gateway does not hear.
    fn unanswered(whereabouts: &Whereabouts, own: &Incarnation, store: &MemoryStore) {
        let call = whereabouts.calls(own).pop().unwrap();
        store.tell_whereabouts(&call).now_or_never().unwrap().unwrap();
        whereabouts.failed(&call);
    }

    /// Has a store lose the words of a gateway about a user.
    fn lose(store: &MemoryStore, own: &Incarnation, user: &UserId) {
        let (slice, gateway) = (user.slice_index(USERS_SLICES), std::slice::from_ref(&own.id));
        store.forget_whereabouts(slice, gateway, std::slice::from_ref(user)).now_or_never().unwrap().unwrap();
    }

    /// Who moved where, as the store is told now.
    fn moved(whereabouts: &Whereabouts, own: &Incarnation) -> Moved {
        let call = whereabouts.calls(own).pop().unwrap();
        let mut moved = whereabouts.noted(&call, own, Chain::Unbroken).moved;
        moved.users.sort();
        moved
    }

    #[test]
    fn the_lives_of_a_user_are_told_until_their_seats_are_given_up() {
        let (whereabouts, own) = (Whereabouts::default(), own(1));
        let ((user, one), (_, two)) = (id("1"), id("2"));
        whereabouts.joined(&user, &one);
        assert_eq!(told(&whereabouts, &own, Chain::Unbroken), Some(vec![vec![one.clone()]]));
        whereabouts.joined(&user, &one);
        assert_eq!(told(&whereabouts, &own, Chain::Unbroken), None, "a second device in the same live");
        whereabouts.joined(&user, &two);
        assert_eq!(told(&whereabouts, &own, Chain::Unbroken), Some(vec![vec![one.clone(), two.clone()]]));
        whereabouts.left(&user, &one);
        assert_eq!(told(&whereabouts, &own, Chain::Unbroken), None);
        whereabouts.left(&user, &two);
        assert_eq!(told(&whereabouts, &own, Chain::Unbroken), Some(vec![vec![one.clone()]]));
        whereabouts.left(&user, &one);
        assert_eq!(told(&whereabouts, &own, Chain::Unbroken), Some(vec![vec![]]));
        assert_eq!(told(&whereabouts, &own, Chain::Unbroken), None);
    }

    #[test]
    fn who_moved_is_known_once_the_store_was_told() {
        let (whereabouts, own) = (Whereabouts::default(), own(1));
        let ((user, one), (_, two)) = (id("1"), id("2"));
        let there = |live: &LiveId| (live.clone(), user.clone());
        whereabouts.joined(&user, &one);
        assert_eq!(moved(&whereabouts, &own), Moved { users: vec![there(&one)], anybody: false });
        whereabouts.left(&user, &one);
        whereabouts.joined(&user, &two);
        let call = whereabouts.calls(&own).pop().unwrap();
        whereabouts.left(&user, &two);
        whereabouts.failed(&call);
        assert_eq!(moved(&whereabouts, &own), Moved { users: vec![there(&one), there(&two)], anybody: false });
        for n in 0..=MOST_LEFT {
            let live = LiveId::parse(&n.to_string()).unwrap();
            whereabouts.joined(&user, &live);
            whereabouts.left(&user, &live);
        }
        let moved = moved(&whereabouts, &own);
        assert!(moved.anybody && moved.users.len() <= MOST_LEFT, "{moved:?}");
    }

    #[test]
    fn a_call_without_an_answer_is_made_again_from_the_present_state() {
        let (whereabouts, own, (user, live)) = (Whereabouts::default(), own(1), id("1"));
        whereabouts.joined(&user, &live);
        let call = whereabouts.calls(&own).pop().unwrap();
        whereabouts.left(&user, &live);
        whereabouts.failed(&call);
        assert_eq!(told(&whereabouts, &own, Chain::Unbroken), Some(vec![vec![]]));
        assert_eq!(told(&whereabouts, &own, Chain::Unbroken), None);
    }

    #[test]
    fn calls_that_were_carried_out_without_an_answer_are_no_loss() {
        let (store, whereabouts) = (MemoryStore::new(Clock::start()), Whereabouts::default());
        let (own, (user, live)) = (own(1), id("1"));
        for round in 0..3 {
            // In the first round nothing was answered before.
            for _ in 0..round + 1 {
                whereabouts.joined(&user, &live);
                unanswered(&whereabouts, &own, &store);
                whereabouts.left(&user, &live);
                unanswered(&whereabouts, &own, &store);
            }
            assert!(!answered(&whereabouts, &own, &store).must_read, "round {round}");
        }
    }

    #[test]
    fn a_store_that_lost_its_data_before_calls_without_an_answer_is_told_everything() {
        let (store, whereabouts) = (MemoryStore::new(Clock::start()), Whereabouts::default());
        let (own, (user, live)) = (own(1), id("1"));
        let other = of_slice(user.slice_index(USERS_SLICES)).find(|other| *other != user).unwrap();
        whereabouts.joined(&user, &live);
        assert!(!answered(&whereabouts, &own, &store).must_read);
        whereabouts.joined(&other, &live);
        unanswered(&whereabouts, &own, &store);
        lose(&store, &own, &user);
        unanswered(&whereabouts, &own, &store);
        unanswered(&whereabouts, &own, &store);
        assert!(answered(&whereabouts, &own, &store).must_read);
        whereabouts.found(user.slice_index(USERS_SLICES), HashMap::new());
        assert!(!answered(&whereabouts, &own, &store).must_read);
        let words = |user| store.whereabouts_of(std::slice::from_ref(user)).now_or_never().unwrap().unwrap().remove(0);
        assert_eq!([words(&user), words(&other)], [vec![(own.id.clone(), live.clone())], vec![(own.id.clone(), live)]]);
    }

    #[test]
    fn a_store_that_lost_something_and_a_new_incarnation_are_told_everything() {
        let (whereabouts, first, (user, live)) = (Whereabouts::default(), own(1), id("1"));
        whereabouts.joined(&user, &live);
        assert!(told(&whereabouts, &first, Chain::Unbroken).is_some());
        whereabouts.doubt_all();
        assert_eq!(told(&whereabouts, &first, Chain::Unbroken), Some(vec![]), "it is only asked");
        assert_eq!(told(&whereabouts, &first, Chain::Unbroken), None);
        whereabouts.doubt_all();
        assert_eq!(told(&whereabouts, &first, Chain::Broken), Some(vec![]), "it knows nothing");
        assert_eq!(told(&whereabouts, &first, Chain::Unbroken), Some(vec![vec![live.clone()]]));
        assert_eq!(told(&whereabouts, &own(2), Chain::Unbroken), Some(vec![]), "it does not know the new id");
        assert_eq!(told(&whereabouts, &own(2), Chain::Unbroken), Some(vec![vec![live]]));
        assert_eq!(told(&whereabouts, &own(2), Chain::Unbroken), None);
    }

    #[test]
    fn a_store_that_came_back_with_older_words_is_told_of_those_who_left() {
        let (whereabouts, own, (user, live)) = (Whereabouts::default(), own(1), id("1"));
        whereabouts.joined(&user, &live);
        assert!(told(&whereabouts, &own, Chain::Unbroken).is_some());
        whereabouts.left(&user, &live);
        assert_eq!(told(&whereabouts, &own, Chain::Unbroken), Some(vec![vec![]]));
        whereabouts.doubt_all();
        let call = whereabouts.calls(&own).pop().unwrap();
        assert!(whereabouts.noted(&call, &own, Chain::Broken).must_read, "the first call is the last that it knows");
        // What it names could not be read.
        whereabouts.doubt(call.slice);
        let call = whereabouts.calls(&own).pop().unwrap();
        assert!(whereabouts.noted(&call, &own, Chain::Unbroken).must_read);
        whereabouts.found(call.slice, HashMap::from([(user.clone(), vec![live.clone()])]));
        let moved = moved(&whereabouts, &own);
        assert_eq!(moved, Moved { users: vec![], anybody: true }, "where the user was is not known");
        assert_eq!(told(&whereabouts, &own, Chain::Unbroken), None);
    }

    #[test]
    fn a_slice_that_lost_something_keeps_its_time_and_its_loss() {
        let (whereabouts, own, (user, live)) = (Whereabouts::default(), own(1), id("1"));
        whereabouts.joined(&user, &live);
        assert!(told(&whereabouts, &own, Chain::Unbroken).is_some());
        whereabouts.doubt_all();
        let call = whereabouts.calls(&own).pop().unwrap();
        assert!(whereabouts.noted(&call, &own, Chain::Broken).must_read);
        assert_eq!(whereabouts.resync_at(call.slice, 10, |users| 1_000 * Millis::from(users)), Some(1_010));
        assert_eq!(whereabouts.resync_at(call.slice, 500, |_| panic!("it has a time")), Some(1_010));
        // A change is told meanwhile.
        whereabouts.left(&user, &live);
        let call = whereabouts.calls(&own).pop().unwrap();
        assert_eq!(call.users, [(user.clone(), vec![])]);
        assert!(whereabouts.noted(&call, &own, Chain::Unbroken).must_read, "nobody has read what the store has");
        assert_eq!(whereabouts.resync_at(call.slice, 1_010, |_| panic!("it has a time")), None);
        whereabouts.found(call.slice, HashMap::from([(user, vec![live])]));
        assert_eq!(told(&whereabouts, &own, Chain::Unbroken), Some(vec![vec![]]));
    }

    #[test]
    fn changes_during_a_long_outage_are_bounded_and_made_up_for() {
        let (whereabouts, own) = (Whereabouts::default(), own(1));
        let live = LiveId::parse("42").unwrap();
        for user in of_slice(1).take(MOST_UNTOLD + 100) {
            whereabouts.joined(&user, &live);
            whereabouts.left(&user, &live);
        }
        assert!(whereabouts.slice(1).lock().untold.len() <= MOST_UNTOLD);
        let call = whereabouts.call(1, &own).unwrap();
        assert!(whereabouts.noted(&call, &own, Chain::Unbroken).must_read, "the store must say whom it names");
        let (stale, _) = id("42");
        whereabouts.found(1, HashMap::from([(stale.clone(), vec![live])]));
        let mut told = Vec::new();
        while let Some(call) = whereabouts.call(1, &own) {
            whereabouts.noted(&call, &own, Chain::Unbroken);
            told.extend(call.users);
        }
        assert!(told.contains(&(stale, vec![])));
    }
}
