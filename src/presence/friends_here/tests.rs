//! Who is told what, in which order, and what is kept.

use super::kept_follows::MOST_FOLLOWS;
use super::work::{HEARS_WITHIN, MAX_ASKERS_PER_LOAD};
use super::*;
use crate::base::clock::moment;
use crate::presence::conn::Signals;
use crate::testing;

fn user(name: &str) -> UserId {
    UserId::parse(name).unwrap()
}

fn users(names: &[&str]) -> Vec<UserId> {
    names.iter().map(|name| user(name)).collect()
}

fn read(names: &[&str]) -> FollowsRead {
    FollowsRead {
        users: users(names).into(),
        partial: false,
    }
}

/// A room in which somebody asked, and hears of moves.
struct Here {
    friends: FriendsHere,
    follows: Arc<KeptFollows>,
    now: Moment,
}

impl Here {
    fn new() -> Self {
        Self {
            friends: FriendsHere::default(),
            follows: Arc::default(),
            now: moment(0),
        }
    }

    fn add(&self, name: &str) -> Arc<Asker> {
        self.friends
            .add(&testing::conn(name), &self.follows, self.now)
    }

    fn next(&self) -> Work {
        self.friends.next(2, self.now, WorkPace::Free)
    }

    /// Does all work: everybody follows `followed`, and `here` are here. How many users were looked
    /// for.
    fn work(&self, followed: &[&str], here: &[&str]) -> usize {
        let mut looked = 0;
        loop {
            match self.next() {
                Work::Ask => {}
                Work::Load(askers) => {
                    for asker in &askers {
                        self.friends.loaded(asker, &read(followed));
                    }
                }
                Work::Look(some) => {
                    looked += some.len();
                    self.looked(&some, |user| {
                        if here.contains(&user) {
                            Sighting::Here
                        } else {
                            Sighting::Gone
                        }
                    });
                }
                Work::Wait(_) | Work::Nothing => return looked,
            }
        }
    }

    fn looked(&self, users: &[UserId], seen: impl Fn(&str) -> Sighting) {
        self.friends
            .looked(users.iter().map(|user| (user, seen(user.as_str()))));
    }

    /// Wakes the sockets; whether this one has news then.
    fn told(&self, asker: &Arc<Asker>) -> Option<Vec<UserId>> {
        self.friends.tell(self.now);
        let woken = !asker.take(Signals::FRIENDS).is_empty();
        woken.then(|| asker.update())?.map(|shown| shown.users)
    }
}

#[test]
fn the_first_answer_comes_when_all_friends_were_looked_for() {
    let here = Here::new();
    let asker = here.add("me");
    assert_eq!(here.told(&asker), None);
    assert!(here.friends.hears());
    assert!(matches!(here.next(), Work::Ask));
    let Work::Load(askers) = here.next() else {
        panic!("it is not known whom the viewer follows")
    };
    here.friends.loaded(&askers[0], &read(&["a", "b", "c"]));
    let Work::Look(some) = here.next() else {
        panic!("nobody was looked for")
    };
    here.looked(&some, |_| Sighting::Here);
    assert_eq!(here.told(&asker), None, "one is unknown");
    here.work(&[], &["a", "b", "c"]);
    assert_eq!(here.told(&asker), Some(users(&["a", "b", "c"])));
    assert_eq!(here.told(&asker), None);
}

#[test]
fn nobody_is_looked_for_before_moves_are_heard_of_or_a_while_has_passed() {
    let mut here = Here::new();
    here.add("me");
    assert_eq!(here.work(&["a"], &["a"]), 0);
    here.now = moment(HEARS_WITHIN);
    assert_eq!(here.work(&["a"], &["a"]), 1);
    // What was read before may be wrong.
    assert!(here.friends.hears());
    assert_eq!(here.work(&["a"], &["a"]), 1);
}

#[test]
fn a_move_costs_only_those_who_follow_the_user() {
    let mut here = Here::new();
    let asker = here.add("me");
    here.friends.hears();
    here.work(&["a", "b"], &[]);
    assert_eq!(here.told(&asker), Some(vec![]));
    assert!(!here.friends.moved(&users(&["x", "y"])));
    assert!(here.friends.moved(&users(&["x", "a"])));
    assert_eq!(here.work(&["a", "b"], &["a"]), 1);
    assert_eq!(here.told(&asker), None, "it is too soon");
    here.now += EVERY;
    assert_eq!(here.told(&asker), Some(users(&["a"])));
    // Came and went between two answers.
    here.friends.moved(&users(&["b"]));
    here.work(&[], &["a", "b"]);
    here.friends.moved(&users(&["b"]));
    here.work(&[], &["a"]);
    here.now += EVERY;
    assert_eq!(here.told(&asker), None);
}

#[test]
fn viewers_share_what_is_known_of_those_whom_they_follow() {
    let here = Here::new();
    let first = here.add("me");
    here.friends.hears();
    assert_eq!(here.work(&["a", "b"], &["a"]), 2);
    let second = here.add("you");
    assert_eq!(here.work(&["a", "b"], &["a"]), 0);
    assert_eq!(here.told(&second), Some(users(&["a"])));
    assert_eq!(here.follows.kept(), 4);
    here.friends.remove(&first);
    here.friends.remove(&first);
    assert_eq!(here.follows.kept(), 2);
    assert!(here.friends.moved(&users(&["b"])));
    here.friends.clear();
    assert_eq!((here.follows.kept(), here.friends.is_empty()), (0, true));
    assert!(!here.friends.moved(&users(&["b"])));
    assert!(matches!(here.next(), Work::Nothing));
}

#[test]
fn a_follow_and_an_unfollow_change_what_is_kept() {
    let mut here = Here::new();
    let asker = here.add("me");
    here.friends.hears();
    here.work(&["a", "b"], &["a", "b"]);
    assert_eq!(here.told(&asker), Some(users(&["a", "b"])));
    here.friends.load_at(&asker, moment(0));
    assert_eq!(here.work(&["b", "c"], &["a", "b", "c"]), 1);
    here.now += EVERY;
    assert_eq!(here.told(&asker), Some(users(&["b", "c"])));
    assert_eq!(here.follows.kept(), 2);
    assert!(!here.friends.moved(&users(&["a"])));
}

#[test]
fn what_failed_is_done_again_unless_nobody_wants_it() {
    let here = Here::new();
    let asker = here.add("me");
    here.friends.hears();
    let ask = here.next();
    here.friends.failed(ask);
    assert!(matches!(here.next(), Work::Ask));
    let load = here.next();
    here.friends.failed(load);
    let Work::Load(askers) = here.next() else {
        panic!("the viewer waits")
    };
    here.friends.loaded(&askers[0], &read(&["a"]));
    let look = here.next();
    assert!(matches!(here.next(), Work::Nothing));
    here.friends.failed(look);
    let look = here.next();
    assert!(
        matches!(&look, Work::Look(some) if some.len() == 1),
        "{look:?}"
    );
    here.friends.remove(&asker);
    here.friends.failed(look);
    here.friends.failed(Work::Load(askers));
    assert!(matches!(here.next(), Work::Nothing));
}

#[test]
fn doubt_has_time_and_a_death_has_not() {
    let here = Here::new();
    here.add("me");
    here.friends.hears();
    here.work(&["a", "b", "c"], &["a"]);
    assert!(here.friends.doubt() && here.friends.doubt_follows());
    assert!(matches!(
        here.friends.next(2, moment(0), WorkPace::From(moment(9))),
        Work::Wait(at) if at == moment(9)
    ));
    assert!(here.friends.roster_changed());
    assert!(
        matches!(here.friends.next(2, moment(0), WorkPace::From(moment(9))), Work::Look(some) if some == users(&["a"]))
    );
    assert_eq!(here.work(&["a", "b", "c"], &[]), 3);
}

#[test]
fn what_is_kept_on_a_gateway_is_bounded() {
    let here = Here::new();
    let asker = here.add("me");
    here.friends.hears();
    assert_eq!(here.follows.take(MOST_FOLLOWS - 2), MOST_FOLLOWS - 2);
    here.work(&["a", "b", "c"], &["a", "b", "c"]);
    assert_eq!(here.follows.kept(), MOST_FOLLOWS);
    here.friends.tell(moment(0));
    let shown = asker.update().unwrap();
    assert_eq!((shown.count, shown.partial), (2, true));
}

#[test]
fn a_followed_user_who_is_named_twice_is_looked_for_once() {
    let here = Here::new();
    let asker = here.add("me");
    here.friends.hears();
    here.work(&["a", "b", "a"], &["a"]);
    assert_eq!(here.told(&asker), Some(users(&["a"])));
    assert_eq!(here.follows.kept(), 2);
    here.friends.remove(&asker);
    assert_eq!(here.follows.kept(), 0);
}

#[test]
fn a_friend_on_a_gateway_that_nobody_knows_is_looked_for_again_once_the_gateway_is_known() {
    let mut here = Here::new();
    let asker = here.add("me");
    here.friends.hears();
    assert!(matches!(here.next(), Work::Ask) && matches!(here.next(), Work::Load(_)));
    here.friends.loaded(&asker, &read(&["a", "b"]));
    let Work::Look(some) = here.next() else {
        panic!("nobody was looked for")
    };
    here.looked(&some, |user| {
        if user == "a" {
            Sighting::Unsure
        } else {
            Sighting::Gone
        }
    });
    assert_eq!(here.told(&asker), Some(vec![]));
    assert!(here.friends.roster_changed());
    assert_eq!(
        here.work(&[], &["a", "b"]),
        1,
        "nobody says that the other is here"
    );
    here.now += EVERY;
    assert_eq!(here.told(&asker), Some(users(&["a"])));
}

#[test]
fn those_who_came_first_are_answered_while_others_come() {
    let here = Here::new();
    here.friends.hears();
    let first = here.add("me");
    assert!(matches!(here.next(), Work::Load(_)));
    here.friends.loaded(&first, &read(&["a", "b"]));
    for n in 0..2 * MAX_ASKERS_PER_LOAD {
        here.add(&format!("u{n}"));
    }
    let Work::Look(some) = here.next() else {
        panic!("a full call was not made")
    };
    here.looked(&some, |_| Sighting::Here);
    assert_eq!(here.told(&first), Some(users(&["a", "b"])));
    assert!(matches!(here.next(), Work::Load(some) if some.len() == MAX_ASKERS_PER_LOAD));
}

#[test]
fn a_viewer_whose_follows_cannot_be_read_keeps_nobody_waiting() {
    let here = Here::new();
    here.friends.hears();
    let (broken, other) = (here.add("broken"), here.add("other"));
    let Work::Load(both) = here.next() else {
        panic!("two viewers wait")
    };
    assert_eq!(both.len(), 2);
    here.friends.loaded(&other, &read(&["a"]));
    for _ in 0..3 {
        here.friends.failed(Work::Load(vec![broken.clone()]));
        here.friends.moved(&users(&["a"]));
        here.friends.doubt();
        for _ in 0..2 {
            let Work::Look(some) = here.next() else {
                panic!("a friend of the other is looked for first")
            };
            here.looked(&some, |_| Sighting::Here);
        }
        assert!(matches!(here.next(), Work::Load(some) if Arc::ptr_eq(&some[0], &broken)));
    }
    assert_eq!(here.told(&other), Some(users(&["a"])));
}

#[test]
fn viewers_whose_follows_are_in_doubt_keep_their_places_when_doubt_comes_again() {
    let here = Here::new();
    here.friends.hears();
    let (first, second) = (here.add("first"), here.add("second"));
    here.work(&["a"], &["a"]);
    let doubted = || {
        assert!(here.friends.doubt_follows());
        let Work::Load(some) = here.next() else {
            panic!("follows in doubt are not read again")
        };
        assert_eq!(some.len(), 1);
        some[0].clone()
    };
    // One is read after each doubt: over two doubts, both are.
    let read = [doubted(), doubted()];
    assert!(
        read.iter().any(|asker| Arc::ptr_eq(asker, &first)),
        "the first viewer waits for ever"
    );
    assert!(
        read.iter().any(|asker| Arc::ptr_eq(asker, &second)),
        "the second viewer waits for ever"
    );
}

#[test]
fn a_viewer_who_has_to_wait_keeps_no_other_waiting_and_is_served_when_the_time_comes() {
    let mut here = Here::new();
    here.friends.hears();
    let (greedy, other) = (here.add("greedy"), here.add("other"));
    let Work::Load(both) = here.next() else {
        panic!("two viewers wait")
    };
    assert_eq!(both.len(), 2);
    here.friends.load_at(&greedy, moment(50));
    assert_eq!(here.friends.loaded(&other, &read(&["a"])), 1);
    assert!(matches!(here.next(), Work::Look(_)));
    here.looked(&users(&["a"]), |_| Sighting::Here);
    assert!(matches!(here.next(), Work::Wait(at) if at == moment(50)));
    assert_eq!(here.told(&other), Some(users(&["a"])));
    here.now = moment(50);
    let Work::Load(some) = here.next() else {
        panic!("the wait is over")
    };
    assert!(Arc::ptr_eq(&some[0], &greedy));
    assert_eq!(
        here.friends.loaded(&greedy, &read(&["a"])),
        0,
        "it is known where this friend is"
    );
    here.friends.load_at(&greedy, moment(70));
    here.friends.load_at(&greedy, moment(0));
    assert!(
        matches!(here.next(), Work::Wait(at) if at == moment(70)),
        "a follow does not end the wait"
    );
    here.friends.remove(&greedy);
    assert!(matches!(here.next(), Work::Nothing), "the viewer has left");
}
