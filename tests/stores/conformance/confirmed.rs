//! Viewers whom a back end confirmed: they count while they are there, within the minute.

use rollcall::features::WholeStore;
use std::sync::Arc;

use rollcall::base::ids::{Epoch, UserId};

use super::{Caller, on_each, slice, sweep, user, users};

on_each!(
    who_is_there_is_confirmed_until_leaving_the_last_gateway,
    who_leaves_with_a_dead_gateway_is_confirmed_no_more,
    a_confirmation_is_of_one_epoch_and_goes_with_the_close,
    a_thousand_are_confirmed_in_one_call,
);

async fn confirm(store: &Arc<dyn WholeStore>, users: &[UserId]) -> u64 {
    let said = store.confirm(&slice(), Epoch(1), users).await.unwrap();
    assert_eq!((said.slice, said.kept), (1, said.viewers), "all are new");
    said.viewers
}

async fn who_is_there_is_confirmed_until_leaving_the_last_gateway(store: Arc<dyn WholeStore>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    assert_eq!(confirm(&store, &[user(1)]).await, 0, "no slice yet");
    a.registers(&[user(1), user(2)]).await;
    b.registers(&[user(2), user(3)]).await;
    assert_eq!(confirm(&store, &[]).await, 0);
    assert_eq!(confirm(&store, &[user(1), user(2), user(9)]).await, 2);
    assert_eq!(confirm(&store, &[user(2)]).await, 2, "each once");
    a.leaves(&[user(2)]).await;
    assert_eq!(
        confirm(&store, &[]).await,
        2,
        "another gateway holds the user"
    );
    b.leaves(&[user(2)]).await;
    assert_eq!(confirm(&store, &[]).await, 1);
    b.joins(&[user(2)]).await;
    assert_eq!(
        confirm(&store, &[]).await,
        1,
        "who comes back is a new viewer"
    );
    assert_eq!(confirm(&store, &[user(2), user(3)]).await, 3);
}

async fn who_leaves_with_a_dead_gateway_is_confirmed_no_more(store: Arc<dyn WholeStore>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 10)).await;
    b.registers(&users(5, 15)).await;
    assert_eq!(confirm(&store, &users(0, 20)).await, 15);
    sweep(&store, &slice(), 1, &[("a", 0)]).await;
    assert_eq!(confirm(&store, &[]).await, 10);
}

async fn a_confirmation_is_of_one_epoch_and_goes_with_the_close(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 3)).await;
    assert_eq!(confirm(&store, &users(0, 3)).await, 3);
    let other = store.confirm(&slice(), Epoch(2), &users(0, 3)).await;
    assert_eq!(other.unwrap().viewers, 0);
    assert_eq!(confirm(&store, &[]).await, 3);
    store.close_slice(&slice(), Epoch(1)).await.unwrap();
    assert_eq!(confirm(&store, &users(0, 3)).await, 0);
    let mut next = Caller::new(&store, "a").in_epoch(2);
    next.registers(&users(0, 3)).await;
    let again = store.confirm(&slice(), Epoch(2), &users(0, 1)).await;
    assert_eq!(again.unwrap().viewers, 1, "nothing of the epoch before");
}

async fn a_thousand_are_confirmed_in_one_call(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 1_000)).await;
    a.joins(&users(1_000, 2_000)).await;
    assert_eq!(confirm(&store, &users(0, 1_000)).await, 1_000);
    assert_eq!(confirm(&store, &users(1_000, 2_000)).await, 2_000);
    a.leaves(&users(0, 1_000)).await;
    assert_eq!(confirm(&store, &[]).await, 1_000);
}
