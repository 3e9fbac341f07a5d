//! In which live each user of this gateway is, and what the store has to be told of it. State only: `sync::whereabouts`
//! tells the store the present state, so a call that failed is simply made again.
//!
//! A user who is in several lives by several sockets is said to be in the one joined last.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::own_lease::Incarnation;
use super::resync_at::ResyncAt;
use crate::base::clock::Millis;
use crate::base::ids::{LiveId, USERS_SLICES, UserId};
use crate::store::TellWhereabouts;

/// Users of one call.
const USERS_A_CALL: usize = 500;

/// Of a slice, so many users at most wait to be told, or twice those who are here. Beyond that, all are told again from
/// what the store then names.
const MOST_UNTOLD: usize = 16_384;

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
    /// The users of whom the store has to be told.
    untold: HashSet<UserId>,
    /// The store may have lost what it was told.
    doubted: bool,
    /// The incarnation that told the store, and the number of its last call that was answered.
    told: Option<(u32, u64)>,
    /// The store lost words, came back with older ones, or knows this gateway by another id; and what it has was not
    /// read since.
    lost: bool,
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

    /// A socket of a user gave up its seat in a live.
    pub fn left(&self, user: &UserId, live: &LiveId) {
        self.change(user, |lives| {
            if let Some(place) = lives.iter().rposition(|there| there == live) {
                lives.remove(place);
            }
        });
    }

    fn change(&self, user: &UserId, change: impl FnOnce(&mut Vec<LiveId>)) {
        let mut slice = self.slice(user.slice_index(USERS_SLICES)).lock();
        let lives = slice.lives.entry(user.clone()).or_default();
        let before = lives.last().cloned();
        change(lives);
        let changed = lives.last() != before.as_ref();
        if lives.is_empty() {
            slice.lives.remove(user);
        }
        if changed {
            if slice.untold.len() >= MOST_UNTOLD.max(2 * slice.lives.len()) {
                // The store is away for long.
                slice.untold.clear();
                (slice.lost, slice.doubted) = (true, true);
            }
            slice.untold.insert(user.clone());
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
            (slice.lost, slice.doubted) = (true, true);
        }
        let doubted = std::mem::take(&mut slice.doubted) && (slice.told.is_some() || !slice.lives.is_empty());
        if slice.untold.is_empty() && !doubted {
            return None;
        }
        let some: Vec<UserId> = slice.untold.iter().take(USERS_A_CALL).cloned().collect();
        let users = some.into_iter().map(|user| {
            slice.untold.remove(&user);
            let live = slice.lives.get(&user).and_then(|lives| lives.last()).cloned();
            (user, live)
        });
        let users = users.collect();
        let number = self.numbers.fetch_add(1, Ordering::Relaxed) + 1;
        Some(TellWhereabouts { slice: index, gateway: own.id.clone(), number, users })
    }

    /// Notes that the store was told, and the number of the call before, as the store knows it. True if the store lost
    /// something or came back with something older: then [`Self::found`] must be told whom it names, once
    /// [`Self::resync_at`] says so.
    pub fn noted(&self, call: &TellWhereabouts, own: &Incarnation, before: u64) -> bool {
        let mut slice = self.slice(call.slice).lock();
        let known = slice.told.filter(|(incarnation, _)| *incarnation == own.number).map_or(0, |(_, number)| number);
        // A later number is that of a call whose answer was lost.
        slice.lost |= before < known;
        slice.told = Some((own.number, call.number));
        let (lost, more) = (slice.lost, !slice.untold.is_empty());
        drop(slice);
        if more {
            self.changed.notify_one();
        }
        lost
    }

    /// When what the store has of a slice that lost something may be read, and all who are here told again; `None` is
    /// now. See [`ResyncAt::take`].
    pub fn resync_at(&self, index: u32, now: Millis, book: impl FnOnce(u32) -> Millis) -> Option<Millis> {
        let mut slice = self.slice(index).lock();
        let users = slice.lives.len();
        slice.resync_at.take(users, now, book)
    }

    /// Takes in of whom the store has a word of this gateway in a slice, after it lost something. Those and all who are
    /// here are told again.
    pub fn found(&self, index: u32, users: Vec<UserId>) {
        let mut slice = self.slice(index).lock();
        slice.lost = false;
        slice.tell_all();
        slice.untold.extend(users);
        drop(slice);
        self.changed.notify_one();
    }

    /// Has a slice asked again: what the store names could not be read.
    pub fn doubt(&self, index: u32) {
        self.slice(index).lock().doubted = true;
    }

    /// Notes that nobody knows whether the store was told.
    pub fn failed(&self, call: &TellWhereabouts) {
        let mut slice = self.slice(call.slice).lock();
        slice.doubted = true;
        slice.untold.extend(call.users.iter().map(|(user, _)| user.clone()));
    }
}

impl Slice {
    fn tell_all(&mut self) {
        self.untold.extend(self.lives.keys().cloned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::GatewayId;

    fn id(name: &str) -> (UserId, LiveId) {
        (UserId::parse("u1").unwrap(), LiveId::parse(name).unwrap())
    }

    fn own(number: u32) -> Incarnation {
        Incarnation { id: GatewayId::parse(&format!("g{number}")).unwrap(), number }
    }

    /// What the store is told now of the user, if anything; it knows of the call before.
    fn told(whereabouts: &Whereabouts, own: &Incarnation, before: Option<u64>) -> Option<Vec<Option<LiveId>>> {
        let call = whereabouts.calls(own).pop()?;
        if whereabouts.noted(&call, own, before.unwrap_or(call.number - 1)) {
            whereabouts.found(call.slice, Vec::new());
        }
        Some(call.users.into_iter().map(|(_, live)| live).collect())
    }

    #[test]
    fn the_live_joined_last_is_told_until_its_seat_is_given_up() {
        let (whereabouts, own) = (Whereabouts::default(), own(1));
        let ((user, one), (_, two)) = (id("1"), id("2"));
        whereabouts.joined(&user, &one);
        assert_eq!(told(&whereabouts, &own, None), Some(vec![Some(one.clone())]));
        whereabouts.joined(&user, &one);
        assert_eq!(told(&whereabouts, &own, None), None, "a second device in the same live");
        whereabouts.joined(&user, &two);
        assert_eq!(told(&whereabouts, &own, None), Some(vec![Some(two.clone())]));
        whereabouts.left(&user, &one);
        assert_eq!(told(&whereabouts, &own, None), None);
        whereabouts.left(&user, &two);
        assert_eq!(told(&whereabouts, &own, None), Some(vec![Some(one.clone())]));
        whereabouts.left(&user, &one);
        assert_eq!(told(&whereabouts, &own, None), Some(vec![None]));
        assert_eq!(told(&whereabouts, &own, None), None);
    }

    #[test]
    fn a_call_without_an_answer_is_made_again_from_the_present_state() {
        let (whereabouts, own, (user, live)) = (Whereabouts::default(), own(1), id("1"));
        whereabouts.joined(&user, &live);
        let call = whereabouts.calls(&own).pop().unwrap();
        whereabouts.left(&user, &live);
        whereabouts.failed(&call);
        // The call was carried out all the same.
        assert_eq!(told(&whereabouts, &own, Some(call.number)), Some(vec![None]));
        assert_eq!(told(&whereabouts, &own, None), None);
    }

    #[test]
    fn a_store_that_lost_something_and_a_new_incarnation_are_told_everything() {
        let (whereabouts, first, (user, live)) = (Whereabouts::default(), own(1), id("1"));
        whereabouts.joined(&user, &live);
        assert!(told(&whereabouts, &first, None).is_some());
        whereabouts.doubt_all();
        assert_eq!(told(&whereabouts, &first, None), Some(vec![]), "it is only asked");
        assert_eq!(told(&whereabouts, &first, None), None);
        whereabouts.doubt_all();
        assert_eq!(told(&whereabouts, &first, Some(0)), Some(vec![]), "it knows nothing");
        assert_eq!(told(&whereabouts, &first, None), Some(vec![Some(live.clone())]));
        assert_eq!(told(&whereabouts, &own(2), Some(0)), Some(vec![]), "it does not know the new id");
        assert_eq!(told(&whereabouts, &own(2), None), Some(vec![Some(live)]));
        assert_eq!(told(&whereabouts, &own(2), None), None);
    }

    #[test]
    fn a_store_that_came_back_with_older_words_is_told_of_those_who_left() {
        let (whereabouts, own, (user, live)) = (Whereabouts::default(), own(1), id("1"));
        whereabouts.joined(&user, &live);
        assert!(told(&whereabouts, &own, None).is_some());
        whereabouts.left(&user, &live);
        assert_eq!(told(&whereabouts, &own, None), Some(vec![None]));
        whereabouts.doubt_all();
        let call = whereabouts.calls(&own).pop().unwrap();
        assert!(whereabouts.noted(&call, &own, 1), "the first call is the last that it knows");
        // What it names could not be read.
        whereabouts.doubt(call.slice);
        let call = whereabouts.calls(&own).pop().unwrap();
        assert!(whereabouts.noted(&call, &own, call.number - 1));
        whereabouts.found(call.slice, vec![user]);
        assert_eq!(told(&whereabouts, &own, None), Some(vec![None]));
        assert_eq!(told(&whereabouts, &own, None), None);
    }

    #[test]
    fn a_slice_that_lost_something_keeps_its_time_and_its_loss() {
        let (whereabouts, own, (user, live)) = (Whereabouts::default(), own(1), id("1"));
        whereabouts.joined(&user, &live);
        assert!(told(&whereabouts, &own, None).is_some());
        whereabouts.doubt_all();
        let call = whereabouts.calls(&own).pop().unwrap();
        assert!(whereabouts.noted(&call, &own, 0));
        assert_eq!(whereabouts.resync_at(call.slice, 10, |users| 1_000 * Millis::from(users)), Some(1_010));
        assert_eq!(whereabouts.resync_at(call.slice, 500, |_| panic!("it has a time")), Some(1_010));
        // A change is told meanwhile.
        whereabouts.left(&user, &live);
        let call = whereabouts.calls(&own).pop().unwrap();
        assert_eq!(call.users, [(user.clone(), None)]);
        assert!(whereabouts.noted(&call, &own, call.number - 1), "nobody has read what the store has");
        assert_eq!(whereabouts.resync_at(call.slice, 1_010, |_| panic!("it has a time")), None);
        whereabouts.found(call.slice, vec![user]);
        assert_eq!(told(&whereabouts, &own, None), Some(vec![None]));
    }

    #[test]
    fn changes_during_a_long_outage_are_bounded_and_made_up_for() {
        let (whereabouts, own) = (Whereabouts::default(), own(1));
        let live = LiveId::parse("42").unwrap();
        let of_slice = |n: &usize| UserId::parse(&format!("u{n}")).unwrap().slice_index(USERS_SLICES) == 1;
        for n in (0..).filter(of_slice).take(MOST_UNTOLD + 100) {
            let user = UserId::parse(&format!("u{n}")).unwrap();
            whereabouts.joined(&user, &live);
            whereabouts.left(&user, &live);
        }
        assert!(whereabouts.slice(1).lock().untold.len() <= MOST_UNTOLD);
        let call = whereabouts.call(1, &own).unwrap();
        assert!(whereabouts.noted(&call, &own, 0), "the store must say whom it names");
        let (stale, _) = id("42");
        whereabouts.found(1, vec![stale.clone()]);
        let mut told = Vec::new();
        while let Some(call) = whereabouts.call(1, &own) {
            whereabouts.noted(&call, &own, call.number - 1);
            told.extend(call.users);
        }
        assert!(told.contains(&(stale, None)));
    }
}
