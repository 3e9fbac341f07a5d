//! Joins, leaves, numbers of calls, epochs and pages of a slice. `sweeps` has sweeps and strays,
//! `former` what only Redis can lose.

use std::sync::Arc;

use rollcall::base::ids::{Epoch, Group, OnlineSet, SliceId, UserId};
use rollcall::store::Fence;
use rollcall::store::{ApplyReply, SlicePart, SliceReading, SliceSize, SliceSurvey, Store};

use super::{
    Caller, fans, fence, gateway, held, live, members, of_size, on_each, slice, user, users,
};

on_each!(
    a_fan_who_joins_is_in_and_one_who_leaves_is_out,
    a_user_on_two_gateways_counts_once_and_stays_until_both_let_go,
    a_call_that_follows_an_entry_needs_one,
    a_call_that_follows_another_number_is_old,
    an_entry_is_made_once,
    a_call_that_was_carried_out_twice_does_nothing_the_second_time,
    a_number_may_be_lower_than_the_last,
    an_entry_stays_when_its_gateway_has_let_go,
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
    a_reading_tells_how_the_slice_stands_for_its_reader,
    a_survey_tells_what_each_slice_holds_for_whom,
    every_change_has_a_higher_version,
    a_page_of_what_is_held_misses_nobody_of_a_slice_that_is_whole,
    a_member_is_a_fan_as_long_as_a_gateway_says_so,
    who_leaves_is_no_fan,
);

async fn read(store: &Arc<dyn Store>, name: &str) -> SliceReading {
    let mut reading = store.read_slice(&slice(), &gateway(name)).await.unwrap();
    reading.gateways.sort();
    reading
}

async fn a_fan_who_joins_is_in_and_one_who_leaves_is_out(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    let view = a.registers(&users(0, 3)).await;
    assert_eq!((view.size.card, view.held), (3, 3));
    let view = a.changes(&users(3, 5), &users(0, 1)).await;
    assert_eq!((view.size.card, view.held), (4, 4));
    assert!(
        !store
            .is_member(&slice(), Group::Fans, &user(0))
            .await
            .unwrap()
    );
    assert!(
        store
            .is_member(&slice(), Group::Fans, &user(4))
            .await
            .unwrap()
    );
    assert_eq!(fans(&store, &slice()).await, users(1, 5));
    assert_eq!(held(&store, &slice(), &a.name).await, users(1, 5));
    assert_eq!(fence(&store, &slice()).await.unwrap(), Some(Epoch(1)));
}

async fn a_user_on_two_gateways_counts_once_and_stays_until_both_let_go(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 2)).await;
    let view = b.registers(&users(1, 3)).await;
    assert_eq!((view.size.card, view.held), (3, 2));
    assert_eq!(a.leaves(&users(0, 2)).await.size.card, 2);
    assert!(
        store
            .is_member(&slice(), Group::Fans, &user(1))
            .await
            .unwrap()
    );
    assert_eq!(b.leaves(&users(1, 2)).await.size.card, 1);
    assert_eq!(fans(&store, &slice()).await, users(2, 3));
}

async fn a_call_that_follows_an_entry_needs_one(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    assert_eq!(
        a.call(Some(7), &users(0, 1), &[]).await,
        ApplyReply::Unknown
    );
    assert_eq!(fence(&store, &slice()).await.unwrap(), None);
    Caller::new(&store, "b").registers(&[]).await;
    assert_eq!(
        a.call(Some(7), &users(0, 1), &[]).await,
        ApplyReply::Unknown
    );
    assert!(fans(&store, &slice()).await.is_empty());
    assert_eq!(read(&store, "a").await.entry, None);
}

async fn a_call_that_follows_another_number_is_old(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 1)).await;
    a.joins(&users(1, 2)).await;
    for follows in [0, 1, 3, u64::MAX >> 12] {
        let call = a.next(Some(follows), &users(5, 6), &users(0, 1));
        assert_eq!(
            store.apply(&call).await.unwrap(),
            ApplyReply::Old,
            "it follows {follows}"
        );
    }
    assert_eq!(
        (fans(&store, &slice()).await, read(&store, "a").await.entry),
        (users(0, 2), Some(2))
    );
    assert_eq!(a.joins(&users(7, 8)).await.size.card, 3);
}

async fn an_entry_is_made_once(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 1)).await;
    assert_eq!(a.call(None, &users(5, 6), &[]).await, ApplyReply::Old);
    assert_eq!(fans(&store, &slice()).await, users(0, 1));
    assert_eq!(a.moves_on().await.held, 1);
}

async fn a_call_that_was_carried_out_twice_does_nothing_the_second_time(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    let registers = a.next(None, &users(0, 2), &[]);
    let leaves = a.next(Some(1), &[], &users(0, 1));
    let comes_back = a.next(Some(2), &users(0, 1), &[]);
    for call in [&registers, &leaves, &comes_back] {
        assert!(matches!(
            store.apply(call).await.unwrap(),
            ApplyReply::Done(_)
        ));
    }
    for call in [&leaves, &registers, &comes_back, &leaves] {
        assert_eq!(store.apply(call).await.unwrap(), ApplyReply::Old);
    }
    assert_eq!(fans(&store, &slice()).await, users(0, 2));
}

/// A gateway that read its entry back numbers on from there, whatever it used before.
async fn a_number_may_be_lower_than_the_last(store: Arc<dyn Store>) {
    let mut a = Caller {
        number: 50,
        ..Caller::new(&store, "a")
    };
    a.registers(&users(0, 1)).await;
    a.number = 10;
    a.joins(&users(1, 2)).await;
    assert_eq!(read(&store, "a").await.entry, Some(11));
}

async fn an_entry_stays_when_its_gateway_has_let_go(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 2)).await;
    assert_eq!(a.leaves(&users(0, 2)).await.size.card, 0);
    let reading = read(&store, "b").await;
    assert_eq!(
        (reading.gateways, reading.fence),
        (vec![gateway("a")], Some(Fence::Open(Epoch(1))))
    );
    assert_eq!(a.call(None, &[], &[]).await, ApplyReply::Old);
    assert_eq!(a.joins(&users(0, 1)).await.size.card, 1);
}

async fn a_closed_epoch_takes_nobody(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 3)).await;
    for _ in 0..2 {
        store.close_slice(&slice(), Epoch(1)).await.unwrap();
        assert_eq!(a.call(a.entry, &users(5, 6), &[]).await, ApplyReply::Closed);
        assert_eq!(a.call(None, &users(5, 6), &[]).await, ApplyReply::Closed);
        assert_eq!(b.call(None, &users(5, 6), &[]).await, ApplyReply::Closed);
        assert_eq!(a.call(a.entry, &[], &users(0, 3)).await, ApplyReply::Closed);
        assert!(fans(&store, &slice()).await.is_empty());
        assert!(held(&store, &slice(), &a.name).await.is_empty());
        let reading = read(&store, "a").await;
        assert_eq!(
            (
                reading.size.card,
                reading.held,
                reading.entry,
                reading.gateways
            ),
            (0, 0, None, vec![])
        );
        assert_eq!(reading.fence, Some(Fence::Closed(Epoch(1))));
    }
}

async fn a_newer_epoch_refuses_the_older_and_wipes_its_leftovers(store: Arc<dyn Store>) {
    let (mut old, mut new) = (Caller::new(&store, "old"), Caller::new(&store, "new"));
    old.registers(&users(0, 5)).await;
    new.epoch = 3;
    // Only a call that makes an entry begins the epoch.
    assert_eq!(
        new.call(Some(1), &users(7, 8), &[]).await,
        ApplyReply::Unknown
    );
    assert_eq!(fans(&store, &slice()).await, users(0, 5));
    let view = new.registers(&users(7, 9)).await;
    assert_eq!((view.size.card, view.held), (2, 2));
    assert_eq!(fans(&store, &slice()).await, users(7, 9));
    assert!(held(&store, &slice(), &old.name).await.is_empty());
    for follows in [None, Some(1)] {
        assert_eq!(
            old.call(follows, &users(0, 1), &[]).await,
            ApplyReply::Newer(Epoch(3))
        );
    }
    assert_eq!(fence(&store, &slice()).await.unwrap(), Some(Epoch(3)));
    // The entries of the wiped epoch are gone with it.
    old.epoch = 3;
    assert_eq!(
        old.call(Some(1), &users(8, 9), &[]).await,
        ApplyReply::Unknown
    );
    assert_eq!(old.registers(&users(8, 10)).await.size.card, 3);
}

async fn a_closed_older_epoch_gives_way_too(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 5)).await;
    store.close_slice(&slice(), Epoch(1)).await.unwrap();
    a.epoch = 2;
    assert_eq!(
        a.call(Some(1), &users(0, 1), &[]).await,
        ApplyReply::Unknown
    );
    assert_eq!(a.registers(&users(0, 1)).await.size.card, 1);
    a.epoch = 1;
    assert_eq!(
        a.call(None, &users(1, 2), &[]).await,
        ApplyReply::Newer(Epoch(2))
    );
    store.close_slice(&slice(), Epoch(2)).await.unwrap();
    assert_eq!(
        a.call(None, &users(1, 2), &[]).await,
        ApplyReply::Newer(Epoch(2))
    );
}

async fn an_older_close_leaves_a_newer_epoch_alone(store: Arc<dyn Store>) {
    let mut a = Caller {
        epoch: 2,
        ..Caller::new(&store, "a")
    };
    a.registers(&users(0, 2)).await;
    store.close_slice(&slice(), Epoch(1)).await.unwrap();
    assert_eq!(a.moves_on().await.size.card, 2);
}

async fn a_batch_of_a_thousand_goes_in_and_out(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 1_000)).await;
    b.registers(&users(500, 1_500)).await;
    assert_eq!(a.leaves(&users(0, 1_000)).await.size.card, 1_000);
    let view = b.changes(&users(0, 500), &users(500, 1_000)).await;
    assert_eq!((view.size.card, view.held), (1_000, 1_000));
}

async fn pages_show_everybody_of_a_big_slice(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&[]).await;
    for batch in users(0, 4_500).chunks(1_000) {
        a.joins(batch).await;
    }
    assert_eq!(fans(&store, &slice()).await, users(0, 4_500));
    assert_eq!(held(&store, &slice(), &a.name).await, users(0, 4_500));
}

async fn slices_of_one_live_are_apart(store: Arc<dyn Store>) {
    let of = |index, of| SliceId::of_live(live("42"), index, of);
    let mut callers: Vec<Caller> = [of(1, 1), of(1, 4), of(2, 4)]
        .map(|slice| Caller {
            slice,
            ..Caller::new(&store, "a")
        })
        .into();
    for (n, caller) in callers.iter_mut().enumerate() {
        caller.registers(&users(n, n + 1)).await;
    }
    for (n, caller) in callers.iter().enumerate() {
        assert_eq!(fans(&store, &caller.slice).await, users(n, n + 1));
    }
    store.close_slice(&of(2, 4), Epoch(1)).await.unwrap();
    assert_eq!(callers[1].moves_on().await.size.card, 1);
    // A slice's key says which one it is, not of how many.
    assert_eq!(fence(&store, &of(2, 8)).await.unwrap(), Some(Epoch(1)));
}

async fn a_slice_that_nobody_used_is_empty(store: Arc<dyn Store>) {
    let expected = SliceReading {
        size: SliceSize::default(),
        fence: None,
        entry: None,
        held: 0,
        held_fans: 0,
        noted: Some(0),
        gateways: vec![],
    };
    assert_eq!(read(&store, "a").await, expected);
    assert_eq!(fence(&store, &slice()).await.unwrap(), None);
    assert!(fans(&store, &slice()).await.is_empty());
    assert!(
        !store
            .is_member(&slice(), Group::Fans, &user(1))
            .await
            .unwrap()
    );
    let swept = store.sweep(&slice(), &gateway("a"), 10, 0).await.unwrap();
    assert_eq!((swept.released, swept.done, swept.size.card), (0, true, 0));
    assert_eq!(read(&store, "a").await, expected);
}

async fn a_close_of_a_slice_that_nobody_used_holds(store: Arc<dyn Store>) {
    store.close_slice(&slice(), Epoch(4)).await.unwrap();
    let mut a = Caller {
        epoch: 4,
        ..Caller::new(&store, "a")
    };
    assert_eq!(a.call(None, &users(0, 1), &[]).await, ApplyReply::Closed);
    a.epoch = 3;
    assert_eq!(
        a.call(None, &users(0, 1), &[]).await,
        ApplyReply::Newer(Epoch(4))
    );
    a.epoch = 5;
    assert_eq!(a.registers(&users(0, 1)).await.size.card, 1);
}

async fn leaving_twice_or_without_having_joined_changes_nothing(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 3)).await;
    b.registers(&[]).await;
    let view = b.leaves(&users(0, 3)).await;
    assert_eq!((view.size.card, view.held), (3, 0));
    a.leaves(&users(0, 1)).await;
    assert_eq!(a.leaves(&users(0, 1)).await.size.card, 2);
    a.joins(&users(1, 3)).await;
    assert_eq!(fans(&store, &slice()).await, users(1, 3));
}

async fn a_reading_tells_how_the_slice_stands_for_its_reader(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 3)).await;
    a.leaves(&users(0, 1)).await;
    let version = b.registers(&users(2, 5)).await.size.version;
    let fence = Some(Fence::Open(Epoch(1)));
    let common = SliceReading {
        size: SliceSize {
            version,
            leaves: 1,
            ..of_size(4)
        },
        fence,
        entry: None,
        held: 0,
        held_fans: 0,
        noted: Some(4),
        gateways: vec![],
    };
    let of = |entry, held, gateways: &[&str]| {
        let gateways = gateways.iter().map(|name| gateway(name)).collect();
        SliceReading {
            entry,
            held,
            held_fans: held,
            gateways,
            ..common.clone()
        }
    };
    assert_eq!(read(&store, "a").await, of(Some(2), 2, &["b"]));
    assert_eq!(read(&store, "b").await, of(Some(1), 3, &["a"]));
    assert_eq!(read(&store, "c").await, of(None, 0, &["a", "b"]));
}

async fn a_survey_tells_what_each_slice_holds_for_whom(store: Arc<dyn Store>) {
    let slices: Vec<_> = SliceId::all(OnlineSet::Live(live("42")), 256).collect();
    for (slice, name, fans) in [
        (&slices[3], "a", 2),
        (&slices[3], "b", 3),
        (&slices[200], "b", 1),
    ] {
        let mut caller = Caller {
            slice: slice.clone(),
            ..Caller::new(&store, name)
        };
        caller.registers(&users(0, fans)).await;
    }
    store.close_slice(&slices[5], Epoch(7)).await.unwrap();
    let found = store.survey(&slices).await;
    assert_eq!(found.len(), slices.len());
    let part = |name, held| SlicePart {
        gateway: gateway(name),
        entry: 1,
        held,
        held_fans: held,
    };
    for (n, found) in found.into_iter().enumerate() {
        let mut found = found.unwrap();
        found
            .parts
            .sort_by(|one, other| one.gateway.cmp(&other.gateway));
        let (fence, card, parts) = match n {
            3 => (
                Some(Fence::Open(Epoch(1))),
                3,
                vec![part("a", 2), part("b", 3)],
            ),
            200 => (Some(Fence::Open(Epoch(1))), 1, vec![part("b", 1)]),
            5 => (Some(Fence::Closed(Epoch(7))), 0, Vec::new()),
            _ => (None, 0, Vec::new()),
        };
        let (fans, noted) = (card, Some(card));
        let expected = SliceSurvey {
            fence,
            card,
            fans,
            leaves: 0,
            noted,
            may_be_in_doubt: false,
            parts,
        };
        assert_eq!(found, expected, "slice {n}");
    }
}

async fn every_change_has_a_higher_version(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    let mut last = 0;
    let mut is_higher = |version: u64| {
        assert!(version > last, "{version} after {last}");
        last = version;
    };
    is_higher(a.registers(&users(0, 3)).await.size.version);
    is_higher(b.registers(&users(0, 9)).await.size.version);
    is_higher(a.joins(&users(3, 4)).await.size.version);
    is_higher(a.moves_on().await.size.version);
    is_higher(
        store
            .sweep(&slice(), &a.name, 2, 0)
            .await
            .unwrap()
            .size
            .version,
    );
    is_higher(
        store
            .sweep(&slice(), &a.name, 2, 0)
            .await
            .unwrap()
            .size
            .version,
    );
    let idle = store
        .sweep(&slice(), &a.name, 2, 0)
        .await
        .unwrap()
        .size
        .version;
    assert_eq!(
        read(&store, "b").await.size.version,
        idle,
        "a sweep of nobody changes nothing"
    );
    // A version goes on above all that was heard of, over a close and a new epoch too.
    store.close_slice(&slice(), Epoch(1)).await.unwrap();
    b.epoch = 2;
    is_higher(b.registers(&users(0, 1)).await.size.version);
}

async fn a_page_of_what_is_held_misses_nobody_of_a_slice_that_is_whole(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 5)).await;
    let page = store
        .held_page(&slice(), Group::Fans, &a.name, 0)
        .await
        .unwrap();
    assert_eq!(
        (page.users.len(), page.missing, page.next),
        (5, Vec::new(), None)
    );
}

/// A call that says of these users that they are there and no fans.
async fn are_no_fans(caller: &mut Caller, users: &[UserId]) -> SliceSize {
    let mut call = caller.next(caller.entry, users, &[]);
    call.joins = std::mem::take(&mut call.fans);
    let ApplyReply::Done(view) = caller.store.apply(&call).await.unwrap() else {
        panic!("{call:?}")
    };
    caller.entry = Some(caller.number);
    view.size
}

/// Members and fans of the slice, as the sets have them.
async fn both(store: &Arc<dyn Store>) -> [Vec<UserId>; 2] {
    [
        members(store, &slice(), Group::All).await,
        fans(store, &slice()).await,
    ]
}

async fn a_member_is_a_fan_as_long_as_a_gateway_says_so(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    let size = are_no_fans(&mut a, &users(0, 3)).await;
    assert_eq!((size.card, size.fans), (3, 0));
    let size = b.registers(&users(1, 2)).await.size;
    assert_eq!(
        (size.card, size.fans, both(&store).await),
        (3, 1, [users(0, 3), users(1, 2)])
    );
    // The answer of a fan check is one more change of the same member.
    let view = a.joins(&users(0, 2)).await;
    assert_eq!(
        (view.size.card, view.size.fans, view.held, view.held_fans),
        (3, 2, 3, 2)
    );
    let size = are_no_fans(&mut a, &users(0, 2)).await;
    assert_eq!(
        (size.card, size.fans),
        (3, 1),
        "one of them is a fan by the other gateway"
    );
    assert_eq!(both(&store).await, [users(0, 3), users(1, 2)]);
    let size = are_no_fans(&mut b, &users(1, 2)).await;
    assert_eq!(
        (size.card, size.fans, size.leaves),
        (3, 0, 0),
        "nobody left"
    );
    assert!(!size.in_doubt);
    let reading = read(&store, "a").await;
    assert_eq!(
        (reading.held, reading.held_fans, reading.size.in_doubt),
        (3, 0, false)
    );
}

async fn who_leaves_is_no_fan(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 4)).await;
    are_no_fans(&mut b, &users(2, 6)).await;
    // Two of them stay with the other gateway, which does not call them fans.
    let view = a.leaves(&users(1, 4)).await;
    assert_eq!((view.size.card, view.size.fans, view.held_fans), (5, 1, 1));
    assert_eq!(
        both(&store).await,
        [[users(0, 1), users(2, 6)].concat(), users(0, 1)]
    );
    let swept = store.sweep(&slice(), &a.name, 10, 0).await.unwrap();
    assert_eq!(
        (swept.size.card, swept.size.fans, swept.size.in_doubt),
        (4, 0, false)
    );
    assert_eq!(both(&store).await, [users(2, 6), vec![]]);
    let totals = store.close_slice(&slice(), Epoch(1)).await.unwrap();
    assert_eq!((totals.uniques.viewers, totals.uniques.fans), (6, 4));
}
