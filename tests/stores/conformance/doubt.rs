//! Slices in doubt: another program wrote there, or the store lost writes.

use std::sync::Arc;

use rollcall::base::ids::Epoch;
use rollcall::store::{ApplyReply, DOUBT_AFTER_LOSS, Fence, HeldFrom, Holders, Settled, Store, Strays};

use super::former::redis;
use super::{Caller, fans, gateway, on_each, slice, user, users};

on_each!(
    a_slice_that_only_gateways_change_is_in_no_doubt,
    a_slice_that_is_older_than_a_gateway_knows_is_in_doubt_for_a_while,
    a_doubt_goes_with_its_epoch,
);

const EPOCH: Epoch = Epoch(1);

const WHOLE: HeldFrom = HeldFrom { cursor: 0, most: 1_000 };

async fn a_slice_that_only_gateways_change_is_in_no_doubt(store: Arc<dyn Store>) {
    assert_eq!(store.compare(&slice(), EPOCH, 0).await.unwrap(), None, "nobody used it");
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    assert!(!a.registers(&users(0, 5)).await.size.in_doubt);
    assert!(!b.registers(&users(3, 8)).await.size.in_doubt);
    assert!(!a.leaves(&users(2, 4)).await.size.in_doubt);
    assert!(!store.sweep(&slice(), &b.name, 3, 0).await.unwrap().size.in_doubt);
    let compared = store.compare(&slice(), EPOCH, 0).await.unwrap().unwrap();
    assert!(!compared.size.in_doubt);
    assert_eq!((compared.difference, compared.wait), (0, 0));
    assert!(!store.survey(&[slice()]).await.remove(0).unwrap().may_be_in_doubt);
    assert_eq!(store.settle(&slice(), EPOCH, 0).await.unwrap(), Settled::Settled(compared.size));
    assert_eq!(store.put_back(&slice(), EPOCH, &a.name, WHOLE).await.unwrap().put_back, 0);
    assert_eq!(store.compare(&slice(), Epoch(2), 0).await.unwrap(), None, "it is of another epoch");
    assert_eq!(store.settle(&slice(), Epoch(2), 0).await.unwrap(), Settled::Over);
}

async fn a_slice_that_is_older_than_a_gateway_knows_is_in_doubt_for_a_while(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    let before = a.registers(&users(0, 5)).await.size;
    let mut call = b.next(None, &users(5, 6), &[]);
    call.known = before.version + 1_000_000_000;
    let ApplyReply::Done(view) = store.apply(&call).await.unwrap() else { panic!("it is done") };
    assert!(view.size.in_doubt && view.size.version > before.version);
    assert!(a.moves_on().await.size.in_doubt);
    assert!(store.read_slice(&slice(), &a.name).await.unwrap().size.in_doubt);
    assert!(store.survey(&[slice()]).await.remove(0).unwrap().may_be_in_doubt);
    let compared = store.compare(&slice(), EPOCH, 0).await.unwrap().unwrap();
    let longest = DOUBT_AFTER_LOSS.as_millis() as u64;
    assert!((longest - 5_000..=longest).contains(&compared.wait), "{compared:?}");
    assert_eq!(store.settle(&slice(), EPOCH, compared.difference).await.unwrap(), Settled::Early);
}

async fn a_doubt_goes_with_its_epoch(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    let mut call = a.next(None, &users(0, 5), &[]);
    call.known = 1;
    let ApplyReply::Done(view) = store.apply(&call).await.unwrap() else { panic!("it is done") };
    assert!(view.size.in_doubt, "there was something that is lost");
    store.close_slice(&slice(), EPOCH).await.unwrap();
    let reading = store.read_slice(&slice(), &a.name).await.unwrap();
    assert_eq!((reading.fence, reading.size.in_doubt), (Some(Fence::Closed(EPOCH)), false));
    let mut next = Caller { epoch: 2, ..Caller::new(&store, "a") };
    assert!(!next.registers(&users(0, 5)).await.size.in_doubt);
}

/// Removes strays and puts back whom gateways hold, as a repair does. Returns how many there were of each.
async fn repair(store: &Arc<dyn Store>, gateways: &[&str]) -> (u64, u64) {
    let strays = store.strays(&slice(), 0, 1_000, Strays::Drop).await.unwrap().strays;
    let mut put_back = 0;
    for name in gateways {
        put_back += store.put_back(&slice(), EPOCH, &gateway(name), WHOLE).await.unwrap().put_back;
    }
    (strays, put_back)
}

#[tokio::test]
async fn a_member_who_was_removed_by_hand_is_missed_by_the_next_call_and_put_back() {
    let (server, store) = redis().await;
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 10)).await;
    b.registers(&users(10, 20)).await;
    server.cli(&["SREM", "online-fans:42", user(1).as_str()]);
    // A leave on the other gateway makes the size look plausible.
    let view = b.leaves(&users(19, 20)).await;
    assert_eq!((view.size.card, view.size.in_doubt), (18, true));
    assert_eq!(store.compare(&slice(), EPOCH, 0).await.unwrap().unwrap().difference, -1);
    assert_eq!(repair(&store, &["a", "b"]).await, (0, 1));
    let compared = store.compare(&slice(), EPOCH, 0).await.unwrap().unwrap();
    assert_eq!((compared.difference, compared.size.in_doubt), (0, true));
    let Settled::Settled(size) = store.settle(&slice(), EPOCH, 0).await.unwrap() else { panic!("it is repaired") };
    assert_eq!((size.card, size.in_doubt), (19, false));
    assert_eq!(fans(&store, &slice()).await, users(0, 19));
    assert!(!a.moves_on().await.size.in_doubt);
}

#[tokio::test]
async fn a_stranger_a_lost_set_and_a_sweep_are_compared_with_the_count() {
    let (server, store) = redis().await;
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 3)).await;
    b.registers(&users(3, 6)).await;
    server.cli(&["SADD", "online-fans:42", "stranger"]);
    assert!(store.read_slice(&slice(), &a.name).await.unwrap().size.in_doubt);
    assert!(store.sweep(&slice(), &b.name, 1, 0).await.unwrap().size.in_doubt);
    assert_eq!(repair(&store, &["a", "b"]).await, (1, 0));
    assert!(matches!(store.settle(&slice(), EPOCH, 0).await.unwrap(), Settled::Settled(_)));
    server.cli(&["DEL", "online-fans:42"]);
    assert!(a.moves_on().await.size.in_doubt);
    assert_eq!(repair(&store, &["a", "b"]).await, (0, 5));
    assert!(matches!(store.settle(&slice(), EPOCH, 0).await.unwrap(), Settled::Settled(_)));
    assert!(!a.moves_on().await.size.in_doubt);
}

#[tokio::test]
async fn a_doubt_does_not_end_if_somebody_writes_during_the_repair() {
    let (server, store) = redis().await;
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 3)).await;
    server.cli(&["SADD", "online-fans:42", "one"]);
    let compared = store.compare(&slice(), EPOCH, 0).await.unwrap().unwrap();
    server.cli(&["SADD", "online-fans:42", "two"]);
    assert_eq!(store.settle(&slice(), EPOCH, compared.difference).await.unwrap(), Settled::Changed);
}

#[tokio::test]
async fn a_fence_of_a_former_version_is_in_doubt_once() {
    let (server, store) = redis().await;
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 3)).await;
    server.cli(&["SET", "{online-fans:42}:fence", "open:1:1795309809000000"]);
    assert!(store.read_slice(&slice(), &a.name).await.unwrap().size.in_doubt);
    assert!(a.moves_on().await.size.in_doubt);
    assert!(matches!(store.settle(&slice(), EPOCH, 0).await.unwrap(), Settled::Settled(_)));
    assert!(!a.moves_on().await.size.in_doubt);
}

#[tokio::test]
async fn what_leaves_the_size_as_it_was_is_found_by_comparison() {
    let (server, store) = redis().await;
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 3)).await;
    b.registers(&users(2, 5)).await;
    let holders = Holders { slice: slice(), gateways: vec![gateway("a"), gateway("b")], overlap: true };
    let differ = async || store.differ_from_held(std::slice::from_ref(&holders)).await.remove(0).unwrap();
    assert!(!differ().await);
    server.cli(&["SREM", "online-fans:42", user(0).as_str()]);
    server.cli(&["SADD", "online-fans:42", "stranger"]);
    assert!(!store.compare(&slice(), EPOCH, 0).await.unwrap().unwrap().size.in_doubt, "the size is the same");
    assert!(differ().await);
    assert_eq!(repair(&store, &["a", "b"]).await, (1, 1));
    assert!(!differ().await && store.compare(&slice(), EPOCH, 0).await.unwrap().unwrap().size.in_doubt);
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
    assert!(store.drop_foreign_keys(&slice(), &a.name).await.unwrap().is_empty());
    let keys = ["online-fans:42", "{online-fans:42}:held:a", "{online-fans:42}:fence"];
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
    assert_eq!(store.drop_foreign_keys(&slice(), &a.name).await.unwrap(), ["{online-fans:42}:gateways"]);
    a.registers(&users(0, 4)).await;
    assert_eq!(fans(&store, &slice()).await, users(0, 4));
}

#[tokio::test]
async fn a_held_set_of_another_type_is_removed_although_its_gateway_has_no_entry() {
    let (server, store) = redis().await;
    let mut a = Caller::new(&store, "a");
    server.cli(&["SET", "{online-fans:42}:held:a", "text"]);
    store.read_slice(&slice(), &a.name).await.unwrap_err();
    assert_eq!(store.drop_foreign_keys(&slice(), &a.name).await.unwrap(), ["{online-fans:42}:held:a"]);
    a.registers(&users(0, 3)).await;
    assert_eq!(fans(&store, &slice()).await, users(0, 3));
}
