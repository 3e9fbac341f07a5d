//! Joins, leaves, numbers of calls, epochs and pages of a slice. `passes` has sweeps and strays,
//! `rebuilds` what happens when a slice forgets.

use rollcall::features::WholeStore;
use std::sync::Arc;

use rollcall::base::ids::{Epoch, Group, OnlineSet, SliceId, UserId};
use rollcall::store::{
    Apply, ApplyRefusal, ApplyReply, Arrived, Claim, ClaimedUser, Entries, Fence, SliceEntry,
    SliceLook, SliceSize, SliceTotals, Uniques,
};

use super::{
    Caller, arrived, at, claimed, claims, fans, fence, gateway, is_fan, is_refused, live, look,
    members, on_each, pass, passes, slice, sweep, user, users,
};

on_each!(
    a_fan_who_joins_is_in_and_one_who_leaves_is_out,
    a_user_on_two_gateways_counts_once_and_stays_until_both_let_go,
    a_call_that_follows_an_entry_needs_one,
    a_call_that_follows_another_number_is_refused,
    a_refusal_tells_the_entry_and_the_size,
    an_entry_is_made_once,
    a_call_that_was_carried_out_twice_does_nothing_the_second_time,
    a_number_may_be_lower_than_the_last,
    an_entry_stays_without_users_and_goes_with_a_bye,
    an_entry_is_complete_when_its_gateway_has_said_all,
    a_new_entry_has_nothing_to_do_with_the_last_one,
    a_closed_epoch_takes_nobody,
    a_newer_epoch_refuses_the_older_and_wipes_its_leftovers,
    a_closed_older_epoch_gives_way_too,
    an_older_close_leaves_a_newer_epoch_alone,
    a_batch_of_a_thousand_goes_in_and_out,
    pages_show_everybody_of_a_big_slice,
    slices_of_one_live_are_apart,
    a_slice_that_nobody_used_is_empty,
    a_close_of_a_slice_that_nobody_used_holds,
    leaving_twice_or_without_having_joined_changes_nothing,
    a_look_tells_how_the_slice_stands_for_its_gateway,
    many_slices_are_looked_at_at_once,
    claims_are_in_the_order_in_which_they_were_made,
    every_change_has_a_higher_version,
    a_member_is_a_fan_as_long_as_a_gateway_says_so,
    who_leaves_is_no_fan,
    who_comes_first_and_who_leaves_last_is_counted_once,
    different_users_are_counted_once_each,
);

async fn a_fan_who_joins_is_in_and_one_who_leaves_is_out(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a");
    assert_eq!(a.registers(&users(0, 3)).await.card, 3);
    assert_eq!(a.changes(&users(3, 5), &users(0, 1)).await.card, 4);
    let are = [0, 4].map(|n| (n, n == 4));
    for (n, is_there) in are {
        let found = is_fan(&store, n).await;
        assert_eq!(found, is_there, "user {n}");
    }
    assert_eq!(fans(&store, &slice()).await, users(1, 5));
    assert_eq!(claimed(&store, &slice(), &a.name).await, users(1, 5));
    assert_eq!(fence(&store, &slice()).await.unwrap(), Some(Epoch(1)));
}

async fn a_user_on_two_gateways_counts_once_and_stays_until_both_let_go(
    store: Arc<dyn WholeStore>,
) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 2)).await;
    assert_eq!(b.registers(&users(1, 3)).await.card, 3);
    assert_eq!(a.leaves(&users(0, 2)).await.card, 2);
    assert!(is_fan(&store, 1).await);
    assert_eq!(b.leaves(&users(1, 2)).await.card, 1);
    assert_eq!(fans(&store, &slice()).await, users(2, 3));
}

async fn a_call_that_follows_an_entry_needs_one(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a");
    let nothing = ApplyRefusal {
        entry: None,
        size: None,
    };
    assert_eq!(
        a.call(Some(7), &users(0, 1), &[]).await,
        ApplyReply::Refused(nothing)
    );
    assert_eq!(fence(&store, &slice()).await.unwrap(), None);
    Caller::new(&store, "b").registers(&[]).await;
    assert!(is_refused(&a.call(Some(7), &users(0, 1), &[]).await, None));
    assert!(fans(&store, &slice()).await.is_empty());
    assert_eq!(a.looks().await.entry, None);
}

async fn a_call_that_follows_another_number_is_refused(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 1)).await;
    a.joins(&users(1, 2)).await;
    for follows in [0, 1, 3, u64::MAX >> 12] {
        let reply = a.call(Some(follows), &users(5, 6), &users(0, 1)).await;
        assert!(
            is_refused(&reply, Some(2)),
            "it follows {follows}: {reply:?}"
        );
    }
    assert_eq!(fans(&store, &slice()).await, users(0, 2));
    assert_eq!(a.joins(&users(7, 8)).await.card, 3);
}

async fn a_refusal_tells_the_entry_and_the_size(store: Arc<dyn WholeStore>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    let size = a.registers(&users(0, 3)).await;
    for (caller, entry) in [(&mut a, Some(1)), (&mut b, None)] {
        let refusal = ApplyRefusal {
            entry,
            size: Some(size),
        };
        let reply = caller.call(Some(9), &users(5, 6), &[]).await;
        assert_eq!(reply, ApplyReply::Refused(refusal));
    }
    // It says nothing of another epoch.
    a.epoch = 2;
    let reply = a.call(Some(1), &users(5, 6), &[]).await;
    let nothing = ApplyRefusal {
        entry: None,
        size: None,
    };
    assert_eq!(reply, ApplyReply::Refused(nothing));
}

async fn an_entry_is_made_once(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 1)).await;
    assert!(is_refused(&a.call(None, &users(5, 6), &[]).await, Some(1)));
    assert_eq!(fans(&store, &slice()).await, users(0, 1));
    assert_eq!(a.moves_on().await.card, 1);
}

async fn a_call_that_was_carried_out_twice_does_nothing_the_second_time(
    store: Arc<dyn WholeStore>,
) {
    let mut a = Caller::new(&store, "a");
    let registers = a.next(None, &users(0, 2), &[]);
    let leaves = a.next(Some(1), &[], &users(0, 1));
    let comes_back = a.next(Some(2), &users(0, 1), &[]);
    for call in [&registers, &leaves, &comes_back] {
        a.makes(call).await;
    }
    for call in [&leaves, &registers, &comes_back, &leaves] {
        assert!(is_refused(&store.apply(call).await.unwrap(), Some(3)));
    }
    assert_eq!(fans(&store, &slice()).await, users(0, 2));
}

/// A gateway that begins anew numbers on from any number that it has not used.
async fn a_number_may_be_lower_than_the_last(store: Arc<dyn WholeStore>) {
    let mut a = Caller {
        number: 50,
        ..Caller::new(&store, "a")
    };
    a.registers(&users(0, 1)).await;
    a.number = 10;
    a.joins(&users(1, 2)).await;
    assert_eq!(a.looks().await.entry, Some(at(11)));
}

async fn an_entry_stays_without_users_and_goes_with_a_bye(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 2)).await;
    assert_eq!(a.leaves(&users(0, 2)).await.card, 0);
    let found = look(&store, &slice(), "b").await;
    assert_eq!(found.entries, [(gateway("a"), at(2))]);
    assert!(is_refused(&a.call(None, &[], &[]).await, Some(2)));
    assert_eq!(a.joins(&users(0, 1)).await.card, 1);
    a.leaves(&users(0, 1)).await;
    let size = a.says_bye().await;
    assert_eq!((size.card, size.rebuild), (0, false));
    let found = a.looks().await;
    assert_eq!((found.entry, found.entries), (None, vec![]));
    assert_eq!(found.fence, Some(Fence::Open(Epoch(1))), "it is still open");
    // An empty look of the slice is nothing that was lost.
    assert!(found.is_intact);
    assert!(is_refused(&a.call(Some(6), &[], &[]).await, None));
    let size = a.registers(&users(0, 1)).await;
    assert_eq!((size.card, size.rebuild), (1, false));
}

async fn an_entry_is_complete_when_its_gateway_has_said_all(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a");
    let is_complete = async |a: &Caller| match a.looks().await.entry {
        Some(SliceEntry::At {
            number,
            is_complete,
        }) if number == a.number => is_complete,
        other => panic!("{other:?}"),
    };
    a.says_some(&users(0, 2)).await;
    assert!(!is_complete(&a).await);
    a.says_some(&[]).await;
    assert!(!is_complete(&a).await);
    a.joins(&users(2, 3)).await;
    assert!(is_complete(&a).await);
    assert_eq!(claimed(&store, &slice(), &a.name).await, users(0, 3));
}

/// What a gateway claimed under an entry that it took away is not its own under the next.
async fn a_new_entry_has_nothing_to_do_with_the_last_one(store: Arc<dyn WholeStore>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 3)).await;
    b.registers(&users(2, 4)).await;
    // It should have let go of them first.
    a.says_bye().await;
    a.registers(&users(9, 10)).await;
    assert_eq!(claimed(&store, &slice(), &a.name).await, users(9, 10));
    assert_eq!(a.leaves(&users(0, 3)).await.card, 5, "they are nobody's");
    let passed = passes(&store, pass(&slice(), 1)).await.unwrap();
    assert_eq!((passed.released, passed.size.card), (0, 3));
    assert_eq!(
        fans(&store, &slice()).await,
        [user(2), user(3), user(9)],
        "the pass takes them out"
    );
}

async fn a_closed_epoch_takes_nobody(store: Arc<dyn WholeStore>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 3)).await;
    for _ in 0..2 {
        store.close_slice(&slice(), Epoch(1)).await.unwrap();
        assert_eq!(a.call(a.entry, &users(5, 6), &[]).await, ApplyReply::Over);
        assert_eq!(a.call(None, &users(5, 6), &[]).await, ApplyReply::Over);
        assert_eq!(b.call(None, &users(5, 6), &[]).await, ApplyReply::Over);
        assert_eq!(a.call(a.entry, &[], &users(0, 3)).await, ApplyReply::Over);
        assert_eq!(passes(&store, a.pass()).await, None);
        assert!(fans(&store, &slice()).await.is_empty());
        assert!(claims(&store, &slice()).await.is_empty());
        let found = a.looks().await;
        assert_eq!((found.size, found.entry), (SliceSize::default(), None));
        assert_eq!((found.entries, found.has_keys), (vec![], false));
        assert_eq!(found.fence, Some(Fence::Closed(Epoch(1))));
    }
}

async fn a_newer_epoch_refuses_the_older_and_wipes_its_leftovers(store: Arc<dyn WholeStore>) {
    let (mut old, mut new) = (Caller::new(&store, "old"), Caller::new(&store, "new"));
    old.registers(&users(0, 5)).await;
    new.epoch = 3;
    // Only a call that makes an entry begins the epoch.
    assert!(is_refused(
        &new.call(Some(1), &users(7, 8), &[]).await,
        None
    ));
    assert_eq!(passes(&store, new.pass()).await, None);
    assert_eq!(fans(&store, &slice()).await, users(0, 5));
    let size = new.registers(&users(7, 9)).await;
    assert_eq!(
        (size.card, size.arrived().joins, size.rebuild),
        (2, 2, false)
    );
    assert_eq!(fans(&store, &slice()).await, users(7, 9));
    assert!(claimed(&store, &slice(), &old.name).await.is_empty());
    for follows in [None, Some(1)] {
        assert_eq!(old.call(follows, &users(0, 1), &[]).await, ApplyReply::Over);
    }
    assert_eq!(fence(&store, &slice()).await.unwrap(), Some(Epoch(3)));
    // The entries of the wiped epoch are gone with it.
    old.epoch = 3;
    assert!(is_refused(
        &old.call(Some(1), &users(8, 9), &[]).await,
        None
    ));
    assert_eq!(old.registers(&users(8, 10)).await.card, 3);
}

async fn a_closed_older_epoch_gives_way_too(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 5)).await;
    store.close_slice(&slice(), Epoch(1)).await.unwrap();
    a.epoch = 2;
    assert!(is_refused(&a.call(Some(1), &users(0, 1), &[]).await, None));
    assert_eq!(a.registers(&users(0, 1)).await.card, 1);
    a.epoch = 1;
    assert_eq!(a.call(None, &users(1, 2), &[]).await, ApplyReply::Over);
    store.close_slice(&slice(), Epoch(2)).await.unwrap();
    assert_eq!(a.call(None, &users(1, 2), &[]).await, ApplyReply::Over);
}

async fn an_older_close_leaves_a_newer_epoch_alone(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a").in_epoch(2);
    a.registers(&users(0, 2)).await;
    store.close_slice(&slice(), Epoch(1)).await.unwrap();
    assert_eq!(a.moves_on().await.card, 2);
}

async fn a_batch_of_a_thousand_goes_in_and_out(store: Arc<dyn WholeStore>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 1_000)).await;
    b.registers(&users(500, 1_500)).await;
    assert_eq!(a.leaves(&users(0, 1_000)).await.card, 1_000);
    let size = b.changes(&users(0, 500), &users(500, 1_000)).await;
    assert_eq!((size.card, size.differs), (1_000, false));
}

async fn pages_show_everybody_of_a_big_slice(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&[]).await;
    for batch in users(0, 4_500).chunks(1_000) {
        a.joins(batch).await;
    }
    assert_eq!(fans(&store, &slice()).await, users(0, 4_500));
    assert_eq!(claimed(&store, &slice(), &a.name).await, users(0, 4_500));
}

async fn slices_of_one_live_are_apart(store: Arc<dyn WholeStore>) {
    let of = |index, of| SliceId::of_live(live("42"), index, of);
    let mut callers: Vec<Caller> = [of(1, 1), of(1, 4), of(2, 4)]
        .map(|slice| Caller::new(&store, "a").in_slice(slice))
        .into();
    for (n, caller) in callers.iter_mut().enumerate() {
        caller.registers(&users(n, n + 1)).await;
    }
    for (n, caller) in callers.iter().enumerate() {
        assert_eq!(fans(&store, &caller.slice).await, users(n, n + 1));
    }
    store.close_slice(&of(2, 4), Epoch(1)).await.unwrap();
    assert_eq!(callers[1].moves_on().await.card, 1);
    // A slice's key says which one it is, not of how many.
    assert_eq!(fence(&store, &of(2, 8)).await.unwrap(), Some(Epoch(1)));
}

async fn a_slice_that_nobody_used_is_empty(store: Arc<dyn WholeStore>) {
    let unused = SliceLook {
        is_intact: true,
        ..SliceLook::default()
    };
    for _ in 0..2 {
        assert_eq!(look(&store, &slice(), "a").await, unused);
        assert!(members(&store, &slice(), Group::All).await.is_empty());
        assert!(claims(&store, &slice()).await.is_empty());
        assert!(!is_fan(&store, 1).await);
        // A pass makes nothing of nothing.
        assert_eq!(passes(&store, pass(&slice(), 1)).await, None);
    }
}

async fn a_close_of_a_slice_that_nobody_used_holds(store: Arc<dyn WholeStore>) {
    store.close_slice(&slice(), Epoch(4)).await.unwrap();
    let mut a = Caller::new(&store, "a").in_epoch(4);
    assert_eq!(a.call(None, &users(0, 1), &[]).await, ApplyReply::Over);
    a.epoch = 3;
    assert_eq!(a.call(None, &users(0, 1), &[]).await, ApplyReply::Over);
    a.epoch = 5;
    assert_eq!(a.registers(&users(0, 1)).await.card, 1);
}

async fn leaving_twice_or_without_having_joined_changes_nothing(store: Arc<dyn WholeStore>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 3)).await;
    b.registers(&[]).await;
    assert_eq!(b.leaves(&users(0, 3)).await.card, 3);
    a.leaves(&users(0, 1)).await;
    assert_eq!(a.leaves(&users(0, 1)).await.card, 2);
    a.joins(&users(1, 3)).await;
    assert_eq!(fans(&store, &slice()).await, users(1, 3));
}

async fn a_look_tells_how_the_slice_stands_for_its_gateway(store: Arc<dyn WholeStore>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    let incarnation = a.registers(&users(0, 3)).await.incarnation;
    a.leaves(&users(0, 1)).await;
    let size = b.registers(&users(2, 5)).await;
    let expected = SliceSize {
        card: 4,
        fans: 4,
        guests: 0,
        leaves: 1,
        version: size.version,
        incarnation,
        rebuild: false,
        differs: false,
    };
    assert_eq!(size, expected);
    for (name, entry) in [("a", Some(at(2))), ("b", Some(at(1))), ("c", None)] {
        let found = SliceLook {
            fence: Some(Fence::Open(Epoch(1))),
            size,
            is_intact: true,
            has_keys: true,
            entry,
            entries: vec![(gateway("a"), at(2)), (gateway("b"), at(1))],
        };
        assert_eq!(look(&store, &slice(), name).await, found, "{name}");
    }
}

async fn many_slices_are_looked_at_at_once(store: Arc<dyn WholeStore>) {
    let slices: Vec<_> = SliceId::all(OnlineSet::Live(live("42")), 256).collect();
    for (slice, name, fans) in [
        (&slices[3], "a", 2),
        (&slices[3], "b", 3),
        (&slices[200], "b", 1),
    ] {
        let mut caller = Caller::new(&store, name).in_slice(slice.clone());
        caller.registers(&users(0, fans)).await;
    }
    store.close_slice(&slices[5], Epoch(7)).await.unwrap();
    for asked in [Entries::All, Entries::Own] {
        let found = store.look(&slices, &gateway("a"), asked).await;
        assert_eq!(found.len(), slices.len());
        for (n, found) in found.into_iter().enumerate() {
            let mut found = found.unwrap();
            found.entries.sort_by(|(one, _), (other, _)| one.cmp(other));
            let (fence, card, mut gateways) = match n {
                3 => (Some(Fence::Open(Epoch(1))), 3, vec!["a", "b"]),
                200 => (Some(Fence::Open(Epoch(1))), 1, vec!["b"]),
                5 => (Some(Fence::Closed(Epoch(7))), 0, vec![]),
                _ => (None, 0, vec![]),
            };
            let entry = gateways.contains(&"a").then_some(at(1));
            if asked == Entries::Own {
                gateways.clear();
            }
            let entries: Vec<_> = gateways.iter().map(|name| (gateway(name), at(1))).collect();
            assert_eq!((found.fence, found.size.card), (fence, card), "slice {n}");
            assert_eq!((found.entry, found.entries), (entry, entries), "slice {n}");
            assert!(found.is_intact && found.has_keys == (card > 0), "slice {n}");
        }
    }
}

async fn claims_are_in_the_order_in_which_they_were_made(store: Arc<dyn WholeStore>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 2)).await;
    b.are_no_fans(&users(1, 2)).await;
    let of = |user, by: &[(&str, Claim)]| ClaimedUser {
        user,
        since: Some(1),
        by: by
            .iter()
            .map(|(name, claim)| (Some(gateway(name)), claim.clone()))
            .collect(),
    };
    let (fan, member) = (Claim::Fan, Claim::Member);
    let first = of(user(0), &[("a", fan.clone())]);
    let second = [
        of(user(1), &[("a", fan.clone()), ("b", member.clone())]),
        of(user(1), &[("b", member.clone()), ("a", fan.clone())]),
        of(user(1), &[("b", member.clone()), ("a", member.clone())]),
        of(user(1), &[("a", member)]),
    ];
    assert_eq!(
        claims(&store, &slice()).await,
        [first.clone(), second[0].clone()]
    );
    a.joins(&users(1, 2)).await;
    assert_eq!(
        claims(&store, &slice()).await,
        [first.clone(), second[1].clone()]
    );
    a.are_no_fans(&users(1, 2)).await;
    assert_eq!(
        claims(&store, &slice()).await,
        [first.clone(), second[2].clone()]
    );
    b.leaves(&users(1, 2)).await;
    assert_eq!(claims(&store, &slice()).await, [first, second[3].clone()]);
}

async fn every_change_has_a_higher_version(store: Arc<dyn WholeStore>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    let mut last = 0;
    let mut is_higher = |version: u64| {
        assert!(version > last, "{version} after {last}");
        last = version;
    };
    is_higher(a.registers(&users(0, 3)).await.version);
    is_higher(b.registers(&users(0, 9)).await.version);
    is_higher(a.joins(&users(3, 4)).await.version);
    is_higher(a.moves_on().await.version);
    is_higher(sweep(&store, &slice(), 1, &[("a", 0)]).await.size.version);
    let idle = sweep(&store, &slice(), 1, &[("a", 0)]).await.size.version;
    assert_eq!(
        b.looks().await.size.version,
        idle,
        "a sweep of nobody changes nothing"
    );
    assert!(is_refused(&a.call(Some(70), &users(5, 6), &[]).await, None));
    assert_eq!(
        b.looks().await.size.version,
        idle,
        "nor does a refused call"
    );
    is_higher(b.says_bye().await.version);
    // A version goes on above all that was heard of, over a close and a new epoch too.
    store.close_slice(&slice(), Epoch(1)).await.unwrap();
    b.epoch = 2;
    is_higher(b.registers(&users(0, 1)).await.version);
}

/// Members and fans of the slice, as the sets have them.
async fn both(store: &Arc<dyn WholeStore>) -> [Vec<UserId>; 2] {
    [
        members(store, &slice(), Group::All).await,
        fans(store, &slice()).await,
    ]
}

async fn a_member_is_a_fan_as_long_as_a_gateway_says_so(store: Arc<dyn WholeStore>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    let size = a.are_no_fans(&users(0, 3)).await;
    assert_eq!((size.card, size.fans), (3, 0));
    let size = b.registers(&users(1, 2)).await;
    assert_eq!(
        (size.card, size.fans, both(&store).await),
        (3, 1, [users(0, 3), users(1, 2)])
    );
    // The answer of a fan check is one more change of the same member.
    let size = a.joins(&users(0, 2)).await;
    assert_eq!((size.card, size.fans), (3, 2));
    let size = a.are_no_fans(&users(0, 2)).await;
    assert_eq!(
        (size.card, size.fans),
        (3, 1),
        "one of them is a fan by the other gateway"
    );
    assert_eq!(both(&store).await, [users(0, 3), users(1, 2)]);
    let size = b.are_no_fans(&users(1, 2)).await;
    assert_eq!(
        (size.card, size.fans, size.leaves),
        (3, 0, 0),
        "nobody left"
    );
    assert!(size.is_in_order());
    assert_eq!(both(&store).await, [users(0, 3), vec![]]);
}

async fn who_leaves_is_no_fan(store: Arc<dyn WholeStore>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 4)).await;
    b.are_no_fans(&users(2, 6)).await;
    // Two of them stay with the other gateway, which does not call them fans.
    let size = a.leaves(&users(1, 4)).await;
    assert_eq!((size.card, size.fans), (5, 1));
    assert_eq!(
        both(&store).await,
        [[users(0, 1), users(2, 6)].concat(), users(0, 1)]
    );
    let size = sweep(&store, &slice(), 1, &[("a", 0)]).await.size;
    assert_eq!((size.card, size.fans, size.is_in_order()), (4, 0, true));
    assert_eq!(both(&store).await, [users(2, 6), vec![]]);
    let totals = store.close_slice(&slice(), Epoch(1)).await.unwrap();
    assert_eq!((totals.uniques.viewers, totals.uniques.fans), (6, 4));
}

/// What the calls have counted of a slice: how many came, how many left, and how many are there.
pub fn counted(size: SliceSize) -> (u64, u64, u64) {
    let Arrived { joins, leaves } = size.arrived();
    (joins, leaves, size.card)
}

async fn who_comes_first_and_who_leaves_last_is_counted_once(store: Arc<dyn WholeStore>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    assert_eq!(counted(a.registers(&users(0, 5)).await), (5, 0, 5));
    assert_eq!(
        counted(b.registers(&users(3, 8)).await),
        (8, 0, 8),
        "two of them were there"
    );
    assert_eq!(
        counted(a.joins(&users(0, 5)).await),
        (8, 0, 8),
        "nobody came"
    );
    assert_eq!(
        counted(a.leaves(&users(0, 4)).await),
        (8, 3, 5),
        "one is on the other gateway"
    );
    assert_eq!(
        counted(a.leaves(&users(0, 4)).await),
        (8, 3, 5),
        "they had left"
    );
    assert_eq!(
        counted(a.joins(&users(0, 1)).await),
        (9, 3, 6),
        "who comes back comes again"
    );
    let swept = sweep(&store, &slice(), 1, &[("b", 0)]).await;
    assert_eq!(counted(swept.size), (9, 7, 2), "a swept user has left");
    let found = a.looks().await;
    assert_eq!(
        (counted(found.size), found.size.is_in_order()),
        ((9, 7, 2), true)
    );
    let totals = SliceTotals {
        arrived: arrived(9, 7),
        uniques: Uniques {
            viewers: 8,
            fans: 8,
        },
    };
    for _ in 0..2 {
        let closed = store.close_slice(&slice(), Epoch(1)).await.unwrap();
        assert_eq!(closed, totals, "also when it is done again");
    }
    for epoch in [2, 1] {
        let closed = store.close_slice(&slice(), Epoch(epoch)).await.unwrap();
        assert_eq!(closed, SliceTotals::default(), "another epoch");
    }
}

async fn different_users_are_counted_once_each(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 800)).await;
    for from in [400, 800, 0] {
        a.joins(&users(from, from + 800)).await;
        a.leaves(&users(from, from + 800)).await;
    }
    let uniques = store.close_slice(&slice(), Epoch(1)).await.unwrap().uniques;
    assert!(
        uniques.viewers.abs_diff(1_600) < 80 && uniques.fans == uniques.viewers,
        "{uniques:?}"
    );
    let mut next = Caller::new(&store, "a").in_epoch(2);
    let call = Apply {
        uniques: false,
        ..next.next(None, &users(0, 5), &[])
    };
    next.makes(&call).await;
    let totals = store.close_slice(&slice(), Epoch(2)).await.unwrap();
    assert_eq!(
        (totals.arrived.joins, totals.uniques),
        (5, Uniques::default()),
        "nobody wants to know"
    );
}
