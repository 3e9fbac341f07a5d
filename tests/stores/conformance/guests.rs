//! Guests have claims as all viewers, are counted apart, and stand in no public set.

use rollcall::features::WholeStore;
use std::sync::Arc;

use rollcall::base::ids::{Group, UserId};
use rollcall::store::{Apply, Arrived, CountReply, Drift, Figures};

use super::{
    Caller, counting, figures, loaded, look, members, on_each, opened, peaks, slice, sweep, users,
};

on_each!(
    a_guest_is_counted_and_stands_in_no_set,
    a_guest_becomes_a_user_in_one_call,
    guests_of_a_dead_gateway_are_swept,
    no_pass_and_no_claim_puts_a_guest_into_a_set,
    the_record_tells_how_many_are_guests,
);

fn guest(name: &str) -> UserId {
    UserId::guest(name).expect("an id")
}

async fn a_guest_is_counted_and_stands_in_no_set(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a");
    let mut crowd = users(0, 2);
    crowd.extend([guest("g1"), guest("g2")]);
    let size = a.registers(&crowd).await;
    assert_eq!((size.card, size.guests), (4, 2));
    assert!(size.is_in_order(), "{size:?}");
    assert_eq!(members(&store, &slice(), Group::All).await, users(0, 2));
    let found = look(&store, &slice(), "a").await;
    assert!(found.is_intact && found.size.guests == 2);
    let size = a.leaves(&[guest("g1")]).await;
    assert_eq!((size.card, size.guests, size.leaves), (3, 1, 1));
    assert!(size.is_in_order(), "{size:?}");
}

async fn a_guest_becomes_a_user_in_one_call(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a");
    let before = a.registers(&[guest("g1")]).await;
    assert_eq!((before.card, before.guests), (1, 1));
    let after = a.changes(&users(7, 8), &[guest("g1")]).await;
    assert_eq!((after.card, after.guests, after.leaves), (1, 0, 1));
    assert_eq!(members(&store, &slice(), Group::All).await, users(7, 8));
}

async fn guests_of_a_dead_gateway_are_swept(store: Arc<dyn WholeStore>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&[guest("g1"), guest("g2")]).await;
    b.registers(&[guest("g2")]).await;
    let swept = sweep(&store, &slice(), 1, &[("a", 0)]).await;
    assert_eq!(swept.released, 2);
    let found = look(&store, &slice(), "b").await;
    assert_eq!((found.size.card, found.size.guests), (1, 1));
    assert!(found.is_intact && found.size.is_in_order());
    assert_eq!(found.entries.len(), 1);
}

async fn no_pass_and_no_claim_puts_a_guest_into_a_set(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&[guest("g1")]).await;
    let passed = store.pass(&a.pass()).await.unwrap().unwrap();
    assert_eq!((passed.drift, passed.size.guests), (Drift::default(), 1));
    // Even a claim that calls a guest a fan puts nobody into a set.
    let call = Apply {
        since: vec![1],
        joins: vec![],
        fans: vec![guest("g1")],
        ..a.next(a.entry, &[guest("g1")], &[])
    };
    let size = a.makes(&call).await;
    assert_eq!((size.card, size.fans, size.guests), (1, 0, 1));
    assert!(size.is_in_order(), "{size:?}");
    assert!(members(&store, &slice(), Group::Fans).await.is_empty());
}

async fn the_record_tells_how_many_are_guests(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    let told = Figures {
        guests: 2,
        ..figures(3, 1)
    };
    let wish = counting(&record, told, peaks(3, 1), Arrived::default());
    assert_eq!(store.count_live(&wish).await, Ok(CountReply::Counted));
    assert_eq!(store.count_live(&wish).await, Ok(CountReply::Same));
    let read = loaded(&store, "42").await;
    assert_eq!(read.counted.map(|counted| counted.figures), Some(told));
}
