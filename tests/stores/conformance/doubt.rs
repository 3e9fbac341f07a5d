//! Slices in doubt: another program wrote there, or the store lost writes.

use std::sync::Arc;

use rollcall::base::ids::{Epoch, Group};
use rollcall::store::{
    ApplyReply, Arrived, DOUBT_AFTER_LOSS, Fence, HeldFrom, Holders, Settled, SliceSize,
    SliceTotals, Store, Strays, Surplus, Uniques,
};

use super::former::redis;
use super::{Caller, fans, gateway, on_each, slice, user, users};

on_each!(
    a_slice_that_only_gateways_change_is_in_no_doubt,
    a_slice_that_is_older_than_a_gateway_knows_is_in_doubt_for_a_while,
    a_doubt_goes_with_its_epoch,
    who_comes_first_and_who_leaves_last_is_counted_once,
    different_users_are_counted_once_each,
    what_was_counted_before_a_loss_goes_on,
);

const EPOCH: Epoch = Epoch(1);

const VIEWERS: &str = "{online-fans:42}:viewers";

const NONE: Surplus = Surplus {
    members: 0,
    fans: 0,
};

fn whole(group: Group) -> HeldFrom {
    HeldFrom {
        group,
        cursor: 0,
        most: 1_000,
    }
}

async fn a_slice_that_only_gateways_change_is_in_no_doubt(store: Arc<dyn Store>) {
    assert_eq!(
        store
            .compare(&slice(), EPOCH, SliceSize::default())
            .await
            .unwrap(),
        None,
        "nobody used it"
    );
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    assert!(!a.registers(&users(0, 5)).await.size.in_doubt);
    assert!(!b.registers(&users(3, 8)).await.size.in_doubt);
    assert!(!a.leaves(&users(2, 4)).await.size.in_doubt);
    assert!(
        !store
            .sweep(&slice(), &b.name, 3, 0)
            .await
            .unwrap()
            .size
            .in_doubt
    );
    let compared = store
        .compare(&slice(), EPOCH, SliceSize::default())
        .await
        .unwrap()
        .unwrap();
    assert!(!compared.size.in_doubt);
    assert_eq!((compared.surplus, compared.wait), (NONE, 0));
    assert!(
        !store
            .survey(&[slice()])
            .await
            .remove(0)
            .unwrap()
            .may_be_in_doubt
    );
    assert_eq!(
        store.settle(&slice(), EPOCH, NONE).await.unwrap(),
        Settled::Settled(compared.size)
    );
    assert_eq!(
        store
            .put_back(&slice(), EPOCH, &a.name, whole(Group::Fans))
            .await
            .unwrap()
            .put_back,
        0
    );
    assert_eq!(
        store
            .compare(&slice(), Epoch(2), SliceSize::default())
            .await
            .unwrap(),
        None,
        "it is of another epoch"
    );
    assert_eq!(
        store.settle(&slice(), Epoch(2), NONE).await.unwrap(),
        Settled::Over
    );
}

async fn a_slice_that_is_older_than_a_gateway_knows_is_in_doubt_for_a_while(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    let before = a.registers(&users(0, 5)).await.size;
    let mut call = b.next(None, &users(5, 6), &[]);
    call.known = SliceSize {
        version: before.version + 1_000_000_000,
        ..before
    };
    let ApplyReply::Done(view) = store.apply(&call).await.unwrap() else {
        panic!("it is done")
    };
    assert!(view.size.in_doubt && view.size.version > before.version);
    assert!(a.moves_on().await.size.in_doubt);
    assert!(
        store
            .read_slice(&slice(), &a.name)
            .await
            .unwrap()
            .size
            .in_doubt
    );
    assert!(
        store
            .survey(&[slice()])
            .await
            .remove(0)
            .unwrap()
            .may_be_in_doubt
    );
    let compared = store
        .compare(&slice(), EPOCH, SliceSize::default())
        .await
        .unwrap()
        .unwrap();
    let longest = DOUBT_AFTER_LOSS.as_millis() as u64;
    assert!(
        (longest - 5_000..=longest).contains(&compared.wait),
        "{compared:?}"
    );
    assert_eq!(
        store
            .settle(&slice(), EPOCH, compared.surplus)
            .await
            .unwrap(),
        Settled::Early
    );
}

async fn a_doubt_goes_with_its_epoch(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    let mut call = a.next(None, &users(0, 5), &[]);
    call.known = SliceSize {
        version: 1,
        ..SliceSize::default()
    };
    let ApplyReply::Done(view) = store.apply(&call).await.unwrap() else {
        panic!("it is done")
    };
    assert!(view.size.in_doubt, "there was something that is lost");
    store.close_slice(&slice(), EPOCH).await.unwrap();
    let reading = store.read_slice(&slice(), &a.name).await.unwrap();
    assert_eq!(
        (reading.fence, reading.size.in_doubt),
        (Some(Fence::Closed(EPOCH)), false)
    );
    let mut next = Caller {
        epoch: 2,
        ..Caller::new(&store, "a")
    };
    assert!(!next.registers(&users(0, 5)).await.size.in_doubt);
}

/// Removes strays and puts back whom gateways hold, as a repair does. Returns how many there were
/// of each.
async fn repair(store: &Arc<dyn Store>, gateways: &[&str]) -> (u64, u64) {
    let (mut strays, mut put_back) = (0, 0);
    for group in [Group::All, Group::Fans] {
        strays += store
            .strays(&slice(), group, 0, 1_000, Strays::Drop)
            .await
            .unwrap()
            .strays;
        for name in gateways {
            put_back += store
                .put_back(&slice(), EPOCH, &gateway(name), whole(group))
                .await
                .unwrap()
                .put_back;
        }
    }
    (strays, put_back)
}

#[tokio::test]
async fn a_member_who_was_removed_by_hand_is_missed_by_the_next_call_and_put_back() {
    let (server, store) = redis().await;
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 10)).await;
    b.registers(&users(10, 20)).await;
    server.cli(&["SREM", VIEWERS, user(1).as_str()]);
    server.cli(&["SREM", "online-fans:42", user(1).as_str()]);
    // A leave on the other gateway makes the size look plausible.
    let view = b.leaves(&users(19, 20)).await;
    assert_eq!((view.size.card, view.size.in_doubt), (19, true));
    assert_eq!(
        store
            .compare(&slice(), EPOCH, SliceSize::default())
            .await
            .unwrap()
            .unwrap()
            .surplus,
        Surplus {
            members: -1,
            fans: -1
        }
    );
    assert_eq!(repair(&store, &["a", "b"]).await, (0, 2));
    let compared = store
        .compare(&slice(), EPOCH, SliceSize::default())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((compared.surplus, compared.size.in_doubt), (NONE, true));
    let Settled::Settled(size) = store.settle(&slice(), EPOCH, NONE).await.unwrap() else {
        panic!("it is repaired")
    };
    assert_eq!((counted(size), size.in_doubt), ((20, 1, 19), false));
    assert_eq!(fans(&store, &slice()).await, users(0, 19));
    assert!(!a.moves_on().await.size.in_doubt);
}

#[tokio::test]
async fn a_stranger_a_lost_set_and_a_sweep_are_compared_with_the_count() {
    let (server, store) = redis().await;
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 3)).await;
    b.registers(&users(3, 6)).await;
    server.cli(&["SADD", VIEWERS, "stranger"]);
    assert!(
        store
            .read_slice(&slice(), &a.name)
            .await
            .unwrap()
            .size
            .in_doubt
    );
    assert!(
        store
            .sweep(&slice(), &b.name, 1, 0)
            .await
            .unwrap()
            .size
            .in_doubt
    );
    assert_eq!(repair(&store, &["a", "b"]).await, (1, 0));
    assert!(matches!(
        store.settle(&slice(), EPOCH, NONE).await.unwrap(),
        Settled::Settled(_)
    ));
    server.cli(&["SADD", "online-fans:42", "stranger"]);
    assert!(
        a.moves_on().await.size.in_doubt,
        "a fan whom nobody counted"
    );
    assert_eq!(repair(&store, &["a", "b"]).await, (1, 0));
    assert!(matches!(
        store.settle(&slice(), EPOCH, NONE).await.unwrap(),
        Settled::Settled(_)
    ));
    server.cli(&["DEL", "online-fans:42", VIEWERS]);
    assert!(a.moves_on().await.size.in_doubt);
    assert_eq!(repair(&store, &["a", "b"]).await, (0, 10));
    assert!(matches!(
        store.settle(&slice(), EPOCH, NONE).await.unwrap(),
        Settled::Settled(_)
    ));
    assert!(!a.moves_on().await.size.in_doubt);
}

#[tokio::test]
async fn a_doubt_does_not_end_if_somebody_writes_during_the_repair() {
    let (server, store) = redis().await;
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 3)).await;
    server.cli(&["SADD", "online-fans:42", "one"]);
    let compared = store
        .compare(&slice(), EPOCH, SliceSize::default())
        .await
        .unwrap()
        .unwrap();
    server.cli(&["SADD", "online-fans:42", "two"]);
    assert_eq!(
        store
            .settle(&slice(), EPOCH, compared.surplus)
            .await
            .unwrap(),
        Settled::Changed
    );
}

#[tokio::test]
async fn a_clock_that_goes_back_makes_no_doubt_longer() {
    let (server, store) = redis().await;
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 3)).await;
    let fence = "{online-fans:42}:fence";
    let in_a_year = server
        .cli(&["TIME"])
        .lines()
        .next()
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1_000
        + 31_536_000_000;
    let before = server.cli(&["GET", fence]).trim().to_owned();
    server.cli(&["SET", fence, &format!("{before}:{in_a_year}")]);
    let compared = store
        .compare(&slice(), EPOCH, SliceSize::default())
        .await
        .unwrap()
        .unwrap();
    assert!(
        compared.size.in_doubt && compared.wait <= DOUBT_AFTER_LOSS.as_millis() as u64,
        "{compared:?}"
    );
    assert_eq!(
        store
            .settle(&slice(), EPOCH, compared.surplus)
            .await
            .unwrap(),
        Settled::Early
    );
}

#[tokio::test]
async fn a_fence_of_a_former_version_is_foreign() {
    let (server, store) = redis().await;
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 3)).await;
    let fence = "{online-fans:42}:fence";
    for former in [
        "open:1:1795309809000000",
        "open:1:1795309809000000:3-0",
        "closed:1",
        "closed:1:3-0:3",
    ] {
        server.cli(&["SET", fence, former]);
        let next = a.next(a.entry, &users(3, 4), &[]);
        store.apply(&next).await.unwrap_err();
        assert_eq!(
            store.drop_foreign_keys(&slice(), &a.name).await.unwrap(),
            [fence],
            "{former}"
        );
        assert_eq!(a.registers(&users(0, 4)).await.size.card, 4);
    }
}

/// What the calls have counted of a slice: how many came, how many left, and how many are there.
fn counted(size: SliceSize) -> (u64, u64, u64) {
    let Arrived { joins, leaves } = size.arrived();
    (joins, leaves, size.card)
}

async fn who_comes_first_and_who_leaves_last_is_counted_once(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    assert_eq!(counted(a.registers(&users(0, 5)).await.size), (5, 0, 5));
    assert_eq!(
        counted(b.registers(&users(3, 8)).await.size),
        (8, 0, 8),
        "two of them were there"
    );
    assert_eq!(
        counted(a.joins(&users(0, 5)).await.size),
        (8, 0, 8),
        "nobody came"
    );
    assert_eq!(
        counted(a.leaves(&users(0, 4)).await.size),
        (8, 3, 5),
        "one is on the other gateway"
    );
    assert_eq!(
        counted(a.leaves(&users(0, 4)).await.size),
        (8, 3, 5),
        "they had left"
    );
    assert_eq!(
        counted(a.joins(&users(0, 1)).await.size),
        (9, 3, 6),
        "who comes back comes again"
    );
    let swept = store.sweep(&slice(), &b.name, 100, 0).await.unwrap();
    assert_eq!(counted(swept.size), (9, 7, 2), "a swept user has left");
    let reading = store.read_slice(&slice(), &a.name).await.unwrap();
    assert_eq!(
        (counted(reading.size), reading.size.in_doubt),
        ((9, 7, 2), false)
    );
    for _ in 0..2 {
        let totals = store.close_slice(&slice(), EPOCH).await.unwrap();
        assert_eq!(
            (totals.arrived, totals.uniques),
            (
                Arrived {
                    joins: 9,
                    leaves: 7
                },
                Uniques {
                    viewers: 8,
                    fans: 8
                }
            ),
            "also when it is done again"
        );
    }
    assert_eq!(
        store.close_slice(&slice(), Epoch(2)).await.unwrap(),
        SliceTotals::default(),
        "another epoch"
    );
    assert_eq!(
        store.close_slice(&slice(), EPOCH).await.unwrap(),
        SliceTotals::default()
    );
}

async fn different_users_are_counted_once_each(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 800)).await;
    for from in [400, 800, 0] {
        a.joins(&users(from, from + 800)).await;
        a.leaves(&users(from, from + 800)).await;
    }
    let uniques = store.close_slice(&slice(), EPOCH).await.unwrap().uniques;
    assert!(
        uniques.viewers.abs_diff(1_600) < 80 && uniques.fans == uniques.viewers,
        "{uniques:?}"
    );
    let mut next = Caller {
        epoch: 2,
        ..Caller::new(&store, "a")
    };
    let mut call = next.next(None, &users(0, 5), &[]);
    call.uniques = false;
    store.apply(&call).await.unwrap();
    let totals = store.close_slice(&slice(), Epoch(2)).await.unwrap();
    assert_eq!(
        (totals.arrived.joins, totals.uniques),
        (5, Uniques::default()),
        "nobody wants to know"
    );
}

async fn what_was_counted_before_a_loss_goes_on(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    // As if the store had lost a slice with ten members, of whom three are told again first.
    let known = SliceSize {
        card: 10,
        fans: 10,
        leaves: 4,
        version: 1_000,
        in_doubt: false,
    };
    let mut call = a.next(None, &users(0, 3), &[]);
    call.known = known;
    let ApplyReply::Done(view) = store.apply(&call).await.unwrap() else {
        panic!("it is done")
    };
    a.entry = Some(call.number);
    assert_eq!(
        (counted(view.size), view.size.in_doubt),
        ((14, 4, 10), true),
        "they are among the ten"
    );
    assert_eq!(counted(a.leaves(&users(0, 1)).await.size), (14, 5, 9));
    assert_eq!(
        counted(a.joins(&users(3, 12)).await.size),
        (16, 5, 11),
        "two more than were known"
    );
    let compared = store
        .compare(&slice(), EPOCH, SliceSize::default())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((compared.surplus, compared.size.fans), (NONE, 11));
}

#[tokio::test]
async fn what_leaves_the_size_as_it_was_is_found_by_comparison() {
    let (server, store) = redis().await;
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 3)).await;
    b.registers(&users(2, 5)).await;
    let holders = Holders {
        slice: slice(),
        gateways: vec![gateway("a"), gateway("b")],
        overlap: true,
    };
    let differ = async || {
        store
            .differ_from_held(std::slice::from_ref(&holders))
            .await
            .remove(0)
            .unwrap()
    };
    assert!(!differ().await);
    server.cli(&["SREM", VIEWERS, user(0).as_str()]);
    server.cli(&["SADD", VIEWERS, "stranger"]);
    assert!(
        !store
            .compare(&slice(), EPOCH, SliceSize::default())
            .await
            .unwrap()
            .unwrap()
            .size
            .in_doubt,
        "the size is the same"
    );
    assert!(differ().await);
    assert_eq!(repair(&store, &["a", "b"]).await, (1, 1));
    assert!(
        !differ().await
            && store
                .compare(&slice(), EPOCH, SliceSize::default())
                .await
                .unwrap()
                .unwrap()
                .size
                .in_doubt
    );
    // One whom another gateway holds, too.
    server.cli(&["SREM", "{online-fans:42}:held:a", user(2).as_str()]);
    server.cli(&["SADD", "{online-fans:42}:held:a", "stranger"]);
    assert!(differ().await, "the slice lacks the stranger");
}

#[tokio::test]
async fn keys_of_another_type_are_removed_and_no_others() {
    let (server, store) = redis().await;
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 3)).await;
    assert!(
        store
            .drop_foreign_keys(&slice(), &a.name)
            .await
            .unwrap()
            .is_empty()
    );
    let keys = [
        "online-fans:42",
        "{online-fans:42}:held:a",
        "{online-fans:42}:fence",
    ];
    server.cli(&["SET", keys[0], "text"]);
    server.cli(&["SET", keys[1], "text"]);
    server.cli(&["SET", keys[2], "text"]);
    let next = a.next(a.entry, &users(3, 4), &[]);
    store.apply(&next).await.unwrap_err();
    let mut removed = store.drop_foreign_keys(&slice(), &a.name).await.unwrap();
    removed.sort();
    let mut expected = keys.map(str::to_owned);
    expected.sort();
    assert_eq!(removed, expected);
    server.cli(&["SET", "{online-fans:42}:gateways", "text"]);
    assert_eq!(
        store.drop_foreign_keys(&slice(), &a.name).await.unwrap(),
        ["{online-fans:42}:gateways"]
    );
    a.registers(&users(0, 4)).await;
    assert_eq!(fans(&store, &slice()).await, users(0, 4));
}

#[tokio::test]
async fn a_held_set_of_another_type_is_removed_although_its_gateway_has_no_entry() {
    let (server, store) = redis().await;
    let mut a = Caller::new(&store, "a");
    server.cli(&["SET", "{online-fans:42}:held:a", "text"]);
    store.read_slice(&slice(), &a.name).await.unwrap_err();
    assert_eq!(
        store.drop_foreign_keys(&slice(), &a.name).await.unwrap(),
        ["{online-fans:42}:held:a"]
    );
    a.registers(&users(0, 3)).await;
    assert_eq!(fans(&store, &slice()).await, users(0, 3));
}
