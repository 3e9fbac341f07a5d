//! What a slice promises. Whether Redis does the same is tested in `tests/stores/histories`.

use super::*;
use crate::base::ids::{Group, LiveId, SliceId};
use crate::store::slices::{Drift, Pass, Passed};

fn user(name: &str) -> UserId {
    UserId::parse(name).unwrap()
}

fn users(names: &str) -> Vec<UserId> {
    names.split_whitespace().map(user).collect()
}

fn gateway(name: &str) -> GatewayId {
    GatewayId::parse(name).unwrap()
}

/// A slice, and the gateways that use it as the protocol wants it.
#[derive(Clone)]
struct World {
    slice: StoredSlice,
    id: SliceId,
    now: UnixMillis,
    number: u64,
    /// The newest size of which the gateways know.
    known: SliceSize,
}

impl World {
    fn of(set: OnlineSet) -> Self {
        Self {
            slice: StoredSlice::default(),
            id: SliceId {
                set,
                index: 1,
                of: 1,
            },
            now: 1_000_000,
            number: 0,
            known: SliceSize::default(),
        }
    }

    fn of_live() -> Self {
        Self::of(OnlineSet::Live(LiveId::parse("42").unwrap()))
    }

    /// A live with the members `u1` and `u2` and the fan `u3`, all claimed by the gateway `g`.
    fn with_three() -> Self {
        let mut world = Self::of_live();
        world.says("g", "u1 u2", "u3");
        world
    }

    /// The next call of a gateway, which follows its entry.
    fn call(&mut self, from: &str) -> Apply {
        self.number += 1;
        let follows = match self.slice.entry(&gateway(from)) {
            Some(SliceEntry::At { number, .. }) => Some(number),
            _ => None,
        };
        Apply {
            slice: self.id.clone(),
            epoch: Epoch(1),
            gateway: gateway(from),
            number: self.number,
            follows,
            known: self.known,
            more: false,
            bye: false,
            joins: Vec::new(),
            fans: Vec::new(),
            since: Vec::new(),
            lives: Vec::new(),
            leaves: Vec::new(),
            left: None,
            uniques: false,
        }
    }

    fn apply(&mut self, call: &Apply) -> ApplyReply {
        self.slice.apply(call, UnixMillis::MAX, self.now)
    }

    fn done(&mut self, call: &Apply) {
        match self.apply(call) {
            ApplyReply::Done(size) => self.known = size,
            other => panic!("{other:?}"),
        }
    }

    /// A gateway claims members and fans.
    fn says(&mut self, from: &str, joins: &str, fans: &str) {
        let call = Apply {
            joins: users(joins),
            fans: users(fans),
            ..self.call(from)
        };
        self.done(&call);
    }

    /// A gateway takes its claims on users back.
    fn lets_go(&mut self, from: &str, leaves: &str) {
        let call = Apply {
            leaves: users(leaves),
            ..self.call(from)
        };
        self.done(&call);
    }

    /// A gateway whose entry is gone looks in vain for it.
    fn misses_its_entry(&mut self, from: &str, entry: u64) {
        let call = Apply {
            follows: Some(entry),
            ..self.call(from)
        };
        match self.apply(&call) {
            ApplyReply::Refused(ApplyRefusal { entry: None, .. }) => {}
            other => panic!("{other:?}"),
        }
    }

    fn first_page(&self, dead: &[(&str, UnixMillis)]) -> Pass {
        let dead = dead.iter().map(|(name, at)| (gateway(name), *at));
        Pass {
            slice: self.id.clone(),
            epoch: Epoch(1),
            known: self.known,
            wrong: None,
            dead: dead.collect(),
            from: None,
            only_claims: false,
        }
    }

    fn page(&mut self, pass: &Pass) -> Passed {
        self.slice.pass(pass, self.now).unwrap()
    }

    /// Makes a whole pass. Returns the drift and how many claims were dropped.
    fn pass(&mut self, dead: &[(&str, UnixMillis)]) -> (Drift, u64) {
        let mut pass = self.first_page(dead);
        let mut drift = Drift::default();
        let mut released = 0;
        loop {
            let page = self.page(&pass);
            drift.stray += page.drift.stray;
            drift.missing += page.drift.missing;
            released += page.released;
            self.known = page.size;
            if page.next.is_none() {
                return (drift, released);
            }
            pass.from = page.next;
        }
    }

    fn members(&self) -> Vec<String> {
        self.group(Group::All)
    }

    fn fans(&self) -> Vec<String> {
        self.group(Group::Fans)
    }

    fn group(&self, group: Group) -> Vec<String> {
        let mut names: Vec<String> = self.slice.members(group).map(UserId::to_string).collect();
        names.sort();
        names
    }

    fn size(&self) -> SliceSize {
        self.slice.size()
    }

    fn is_in_rebuild(&self) -> bool {
        self.size().rebuild
    }

    /// The members and fans by the claims, and how many left.
    fn figures(&self) -> (u64, u64, u64) {
        (self.size().card, self.size().fans, self.size().leaves)
    }
}

const NONE: Drift = Drift {
    stray: 0,
    missing: 0,
};

#[test]
fn figures_are_counted_by_the_claims() {
    let mut world = World::with_three();
    assert_eq!(world.figures(), (3, 1, 0));
    world.says("h", "u3", "u2");
    assert_eq!(
        world.figures(),
        (3, 2, 0),
        "a fan as long as anybody says so"
    );
    world.lets_go("g", "u1 u2 u3");
    assert_eq!(world.figures(), (2, 1, 1));
    assert_eq!(
        (world.members(), world.fans()),
        (
            vec!["u2".to_owned(), "u3".to_owned()],
            vec!["u2".to_owned()]
        )
    );
    world.slice.add_stranger(Group::All, &user("stray"));
    assert_eq!(world.figures(), (2, 1, 1));
    assert!(world.size().differs);
}

#[test]
fn the_earliest_time_stays_as_long_as_there_is_a_claim() {
    let mut world = World::of_live();
    for (from, at) in [("g", 50), ("h", 40), ("g", 60)] {
        let call = Apply {
            joins: users("u1"),
            since: vec![at],
            ..world.call(from)
        };
        world.done(&call);
    }
    assert_eq!(world.slice.since(&user("u1")), Some(40));
    world.lets_go("g", "u1");
    world.lets_go("h", "u1");
    assert_eq!(world.slice.since(&user("u1")), None);
}

#[test]
fn the_lives_of_the_gateway_that_spoke_last_come_last() {
    let mut world = World::of(OnlineSet::Users);
    let live = |name: &str| LiveId::parse(name).unwrap();
    for (from, lives) in [("g", "1 2"), ("h", "3"), ("g", "2")] {
        let call = Apply {
            joins: users("u1"),
            lives: vec![lives.split(' ').map(live).collect()],
            ..world.call(from)
        };
        world.done(&call);
    }
    let said = world.slice.whereabouts_of(&user("u1"));
    assert_eq!(said, [(gateway("h"), live("3")), (gateway("g"), live("2"))]);
    world.page(&world.first_page(&[("h", 5)]));
    let said = world.slice.whereabouts_of(&user("u1"));
    assert_eq!(said, [(gateway("g"), live("2"))]);
}

#[test]
fn strays_are_found_and_nobody_else_is_removed() {
    let mut world = World::with_three();
    world.slice.add_stranger(Group::All, &user("stray"));
    world.slice.add_stranger(Group::Fans, &user("u1"));
    let two_strays = Drift {
        stray: 2,
        missing: 0,
    };
    assert_eq!(world.pass(&[]), (two_strays, 0));
    assert_eq!(
        (world.members().len(), world.fans()),
        (3, vec!["u3".to_owned()])
    );
    assert_eq!(world.pass(&[]), (NONE, 0));
    assert_eq!((world.figures(), world.is_in_rebuild()), ((3, 1, 0), false));
}

#[test]
fn members_whom_another_program_took_out_are_put_back() {
    let mut world = World::with_three();
    world.slice.lose_set(Group::All);
    world.slice.take_out(Group::Fans, &user("u3"));
    let all_lacked = Drift {
        stray: 0,
        missing: 4,
    };
    assert_eq!(world.pass(&[]), (all_lacked, 0));
    assert_eq!((world.members().len(), world.fans().len()), (3, 1));
    assert!(world.size().is_in_order());
}

#[test]
fn a_pass_goes_through_all_pages_of_a_large_slice() {
    let mut world = World::of_live();
    let named = |prefix: &str, count: usize| -> String {
        let names: Vec<String> = (0..count).map(|n| format!("{prefix}{n}")).collect();
        names.join(" ")
    };
    for part in ["a", "b"] {
        world.says("g", &named(part, 900), "");
        world.says("h", &named(part, 100), "");
    }
    for stray in users(&named("stray", 700)) {
        world.slice.add_stranger(Group::All, &stray);
    }
    let strays = Drift {
        stray: 700,
        missing: 0,
    };
    assert_eq!(world.pass(&[("g", 5)]), (strays, 1_800));
    assert_eq!(world.figures(), (200, 0, 1_600));
    assert_eq!(world.members().len(), 200);
    assert_eq!(world.slice.entry(&gateway("g")), None);
}

#[test]
fn claims_of_the_dead_are_dropped_and_those_of_others_stay() {
    let mut world = World::with_three();
    world.says("h", "u2", "");
    assert_eq!(world.pass(&[("g", 900_000)]), (NONE, 3));
    assert_eq!(
        (world.members(), world.fans().len()),
        (vec!["u2".to_owned()], 0)
    );
    assert_eq!(world.figures(), (1, 0, 2));
    assert_eq!(world.slice.entry(&gateway("g")), None);
}

#[test]
fn who_leaves_with_a_dead_gateway_was_here_when_it_was_heard_last() {
    let mut world = World::of_live();
    world.says("g", "u1", "");
    world.says("h", "u1", "");
    let pass = Pass {
        only_claims: true,
        ..world.first_page(&[("g", 900_000), ("h", 800_000)])
    };
    assert_eq!(world.page(&pass).next, None);
    assert_eq!(world.slice.take_departed(), [(user("u1"), 900_000)]);
}

#[test]
fn a_dead_gateway_makes_no_claims_while_a_pass_drops_those_it_has() {
    let mut world = World::of_live();
    for n in 0..600 {
        world.says("g", &format!("u{n}"), "");
    }
    let part = world.page(&world.first_page(&[("g", 5)]));
    assert_ne!(part.next, None);
    let call = world.call("g");
    assert_eq!(
        world.apply(&call),
        ApplyReply::Refused(ApplyRefusal::default())
    );
}

#[test]
fn a_slice_that_forgets_keeps_its_public_sets() {
    let mut world = World::with_three();
    let newer = SliceSize {
        version: u64::MAX / 2,
        leaves: 7,
        ..world.known
    };
    world.known = newer;
    world.misses_its_entry("g", 1);
    assert_eq!((world.members().len(), world.fans().len()), (3, 1));
    assert!(world.is_in_rebuild());
    assert!(world.size().version > newer.version);
    assert_eq!(world.size().arrived(), newer.arrived());
}

#[test]
fn a_slice_whose_claims_or_entries_were_written_forgets() {
    let meddlers: [fn(&mut StoredSlice); 4] = [
        |slice| slice.lose_claims(&user("u1")),
        |slice| slice.invent_claim(&user("stray"), Some(&gateway("g")), Claim::Fan),
        |slice| slice.lose_entry(&gateway("g")),
        |slice| slice.lose_fence(),
    ];
    for meddle in meddlers {
        let mut world = World::with_three();
        let before = world.size().incarnation;
        meddle(&mut world.slice);
        world.page(&world.first_page(&[]));
        assert!(world.is_in_rebuild() && world.size().incarnation > before);
        assert_eq!((world.members().len(), world.fans().len()), (3, 1));
    }
}

#[test]
fn a_gateway_whose_entry_was_changed_has_the_slice_forget_once() {
    let mut world = World::with_three();
    world.slice.change_entry(&gateway("g"), 9);
    let wrong = Some(world.size().incarnation);
    let pass = Pass {
        wrong,
        ..world.first_page(&[])
    };
    world.page(&pass);
    let forgot = world.size().incarnation;
    assert!(forgot > pass.known.incarnation);
    world.page(&pass);
    assert_eq!(world.size().incarnation, forgot);
}

#[test]
fn a_rebuild_ends_after_5_s_and_only_when_all_entries_are_complete() {
    let mut world = World::with_three();
    world.slice.lose_claims(&user("u1"));
    world.misses_its_entry("g", 1);
    let call = Apply {
        more: true,
        joins: users("u1"),
        ..world.call("g")
    };
    world.done(&call);
    world.now += 10_000;
    world.pass(&[]);
    assert!(world.is_in_rebuild(), "the gateway has not said all");
    world.says("g", "u2", "u4");
    assert_eq!(world.figures(), (3, 1, 0));
    world.pass(&[]);
    assert!(!world.is_in_rebuild());
    assert_eq!(world.figures(), (3, 1, 0));
    assert_eq!(
        world.members().join(" "),
        "u1 u2 u4",
        "u3 was not said again"
    );
    assert_eq!(world.fans(), ["u4"]);
}

#[test]
fn nobody_leaves_the_public_sets_in_a_rebuild_and_all_are_counted_at_its_end() {
    let mut world = World::with_three();
    world.slice.lose_claims(&user("u1"));
    world.misses_its_entry("g", 1);
    world.says("g", "u1 u2", "u3");
    world.lets_go("g", "u2 u3");
    assert_eq!((world.members().len(), world.fans().len()), (3, 1));
    assert_eq!(world.figures(), (3, 1, 0), "they stand still");
    world.now += 4_999;
    world.pass(&[]);
    assert_eq!((world.is_in_rebuild(), world.members().len()), (true, 3));
    world.now += 1;
    world.pass(&[]);
    assert_eq!(
        (world.is_in_rebuild(), world.members()),
        (false, vec!["u1".to_owned()])
    );
    assert_eq!(world.figures(), (1, 0, 2));
}

#[test]
fn a_clock_that_goes_back_ends_no_rebuild_early() {
    let mut world = World::with_three();
    world.slice.lose_fence();
    world.page(&world.first_page(&[]));
    world.now -= 100_000;
    world.pass(&[]);
    world.now += 4_999;
    world.pass(&[]);
    assert!(world.is_in_rebuild());
    world.now += 1;
    world.pass(&[]);
    assert!(!world.is_in_rebuild());
}

#[test]
fn what_is_written_in_a_rebuild_is_noted_and_the_slice_forgets_again_at_its_end() {
    let meddlers: [fn(&mut StoredSlice); 3] = [
        |slice| slice.lose_entry(&gateway("g")),
        |slice| slice.lose_claims(&user("u1")),
        |slice| slice.invent_claim(&user("stray"), None, Claim::Member),
    ];
    for meddle in meddlers {
        let mut world = World::with_three();
        world.slice.lose_claims(&user("u2"));
        world.misses_its_entry("g", 1);
        world.says("g", "u1 u2", "u3");
        let first = world.size().incarnation;
        meddle(&mut world.slice);
        // Another call finds it, and what comes later does not hide it.
        world.says("h", "u5", "");
        world.says("g", "u1 u2", "u3");
        assert_eq!(world.size().incarnation, first, "one rebuild at a time");
        world.now += 5_000;
        world.pass(&[]);
        assert!(world.is_in_rebuild() && world.size().incarnation > first);
    }
}

#[test]
fn a_swapped_public_member_makes_the_slice_forget() {
    let mut world = World::with_three();
    world.slice.take_out(Group::All, &user("u1"));
    world.slice.add_stranger(Group::All, &user("stray"));
    let page = world.page(&world.first_page(&[]));
    assert_eq!((page.next, page.size.rebuild), (None, true));
    assert_eq!(
        world.members().join(" "),
        "stray u2 u3",
        "nothing is repaired"
    );
}

#[test]
fn a_claim_in_the_place_of_another_one_makes_the_slice_forget() {
    let mut world = World::with_three();
    let g = gateway("g");
    world
        .slice
        .invent_claim(&user("u3"), Some(&g), Claim::Member);
    world.slice.take_out(Group::Fans, &user("u3"));
    world.pass(&[]);
    assert!(world.is_in_rebuild(), "the calls have counted a fan");
    assert_eq!(world.members().join(" "), "u1 u2 u3");
}

#[test]
fn a_lost_fence_of_a_slice_that_was_used_makes_it_forget() {
    let mut world = World::with_three();
    let known = world.size();
    world.slice = StoredSlice::default();
    let part = world.page(&world.first_page(&[]));
    assert!(part.size.rebuild, "a pass finds it");
    world.slice = StoredSlice::default();
    world.says("g", "u1", "");
    assert!(world.is_in_rebuild());
    assert_eq!(world.size().arrived(), known.arrived());
    assert!(world.size().version > known.version);
}

#[test]
fn a_new_epoch_begins_with_an_empty_slice() {
    let mut world = World::with_three();
    world.known = SliceSize::default();
    let call = Apply {
        epoch: Epoch(2),
        follows: None,
        joins: users("u9"),
        ..world.call("g")
    };
    world.done(&call);
    assert_eq!(
        (world.members(), world.fans().len()),
        (vec!["u9".to_owned()], 0)
    );
    assert_eq!((world.figures(), world.is_in_rebuild()), ((1, 0, 0), false));
    let call = world.call("g");
    assert_eq!(world.apply(&call), ApplyReply::Over);
}

#[test]
fn a_call_that_follows_another_entry_is_refused_with_the_one_that_is_there() {
    let mut world = World::with_three();
    let call = Apply {
        follows: None,
        joins: users("u9"),
        ..world.call("g")
    };
    let refusal = ApplyRefusal {
        entry: Some(1),
        size: Some(world.size()),
    };
    assert_eq!(world.apply(&call), ApplyReply::Refused(refusal));
    let late = world.call("h");
    let reply = world.slice.apply(&late, world.now - 1, world.now);
    assert_eq!(reply, ApplyReply::Late(world.now));
    assert_eq!(world.members().len(), 3);
}

#[test]
fn a_token_is_never_used_twice() {
    let mut world = World::with_three();
    let bye = Apply {
        bye: true,
        ..world.call("g")
    };
    world.done(&bye);
    world.says("h", "", "");
    assert_eq!(world.slice.claimed_by(&gateway("h")), []);
    for claimed in world.slice.claims_page(0).users {
        assert_eq!(claimed.by[0].0, None, "a claim of nobody");
    }
    assert_eq!(world.pass(&[]), (NONE, 0));
    assert_eq!(world.figures(), (0, 0, 3));
}

#[test]
fn versions_go_on_when_the_clock_is_put_back_and_when_data_is_lost() {
    let mut world = World::with_three();
    let first = world.size().version;
    world.now -= 500;
    world.says("g", "", "");
    assert_eq!(world.size().version, first + 1);
    let mut anew = World::of_live();
    anew.now += 1;
    anew.says("g", "", "");
    assert!(anew.size().version > first + 1);
}

#[test]
fn slices_are_equal_whatever_their_versions_totals_and_tokens() {
    let world = World::with_three();
    let mut later = World::of_live();
    later.now += 77_000;
    later.says("h", "u9", "");
    later.lets_go("h", "u9");
    let bye = Apply {
        bye: true,
        ..later.call("h")
    };
    later.done(&bye);
    later.number = 0;
    later.says("g", "u1 u2", "u3");
    assert_eq!(world.slice, later.slice);
    later.slice.invent_claim(&user("u1"), None, Claim::Member);
    assert_ne!(world.slice, later.slice);
}

#[test]
fn a_close_forgets_all_but_the_totals_and_lets_nobody_in() {
    let mut world = World::with_three();
    world.lets_go("g", "u1");
    let (totals, moved) = world.slice.close(Epoch(1));
    assert_eq!(
        (totals.arrived.joins, totals.arrived.leaves, moved),
        (3, 1, true)
    );
    assert_eq!(world.slice.close(Epoch(1)), (totals, false));
    assert_eq!(world.members(), [""; 0]);
    let call = world.call("g");
    assert_eq!(world.apply(&call), ApplyReply::Over);
    assert_eq!(world.slice.pass(&world.first_page(&[]), world.now), None);
}
