//! Viewers per gateway: absolute, numbered, forgotten when old, refused when late.

use std::sync::Arc;
use std::time::Duration;

use rollcall::ids::Epoch;
use rollcall::store::{SayViewers, Store, ViewersReply};

use super::{LONG, gateway, live, on_each};

on_each!(
    what_a_gateway_says_is_read_by_all,
    an_older_number_changes_nothing,
    a_new_epoch_begins_with_nothing,
    what_is_said_after_the_close_is_refused,
    a_gateway_takes_its_word_back_unless_it_spoke_since,
    what_is_old_is_dropped_whoever_looks,
    looking_at_what_nobody_spoke_of_leaves_nothing,
);

fn say(name: &str, viewers: u64, number: u64) -> SayViewers {
    SayViewers { live: live("42"), epoch: Epoch(1), gateway: gateway(name), viewers, number, keep: LONG }
}

fn known(reply: ViewersReply) -> (bool, Vec<(String, u64, u64)>) {
    let ViewersReply::Known { begins, gateways } = reply else { panic!("it is over") };
    let mut said: Vec<_> = gateways.iter().map(|g| (g.gateway.to_string(), g.viewers, g.number)).collect();
    assert!(gateways.iter().all(|g| g.age < Duration::from_secs(60)), "{gateways:?}");
    said.sort();
    (begins, said)
}

fn said(all: &[(&str, u64, u64)]) -> Vec<(String, u64, u64)> {
    all.iter().map(|(name, viewers, number)| ((*name).to_owned(), *viewers, *number)).collect()
}

async fn view(store: &Arc<dyn Store>, epoch: u64) -> (bool, Vec<(String, u64, u64)>) {
    known(store.view_viewers(&live("42"), Epoch(epoch), LONG).await.unwrap())
}

async fn what_a_gateway_says_is_read_by_all(store: Arc<dyn Store>) {
    assert_eq!(known(store.say_viewers(&say("a", 3, 1)).await.unwrap()), (true, said(&[("a", 3, 1)])));
    let both = said(&[("a", 3, 1), ("b", 0, 1)]);
    assert_eq!(known(store.say_viewers(&say("b", 0, 1)).await.unwrap()), (false, both.clone()));
    assert_eq!(view(&store, 1).await, (false, both));
}

async fn an_older_number_changes_nothing(store: Arc<dyn Store>) {
    store.say_viewers(&say("a", 3, 7)).await.unwrap();
    for number in [7, 6] {
        let reply = store.say_viewers(&say("a", 9, number)).await.unwrap();
        assert_eq!(known(reply), (false, said(&[("a", 3, 7)])));
    }
    assert_eq!(known(store.say_viewers(&say("a", 9, 8)).await.unwrap()).1, said(&[("a", 9, 8)]));
}

async fn a_new_epoch_begins_with_nothing(store: Arc<dyn Store>) {
    store.say_viewers(&say("a", 3, 1)).await.unwrap();
    let next = SayViewers { epoch: Epoch(2), ..say("b", 1, 1) };
    assert_eq!(known(store.say_viewers(&next).await.unwrap()), (true, said(&[("b", 1, 1)])));
    assert_eq!(store.say_viewers(&say("a", 4, 2)).await.unwrap(), ViewersReply::Over);
    assert_eq!(store.view_viewers(&live("42"), Epoch(1), LONG).await.unwrap(), ViewersReply::Over);
    // The close of the old epoch, late, does not touch the new one.
    store.close_viewers(&live("42"), Epoch(1)).await.unwrap();
    assert_eq!(view(&store, 2).await, (false, said(&[("b", 1, 1)])));
}

async fn what_is_said_after_the_close_is_refused(store: Arc<dyn Store>) {
    store.say_viewers(&say("a", 3, 1)).await.unwrap();
    for _ in 0..2 {
        store.close_viewers(&live("42"), Epoch(1)).await.unwrap();
        assert_eq!(store.say_viewers(&say("a", 4, 2)).await.unwrap(), ViewersReply::Over);
        assert_eq!(store.view_viewers(&live("42"), Epoch(1), LONG).await.unwrap(), ViewersReply::Over);
    }
    assert_eq!(view(&store, 2).await, (true, said(&[])));
}

async fn a_gateway_takes_its_word_back_unless_it_spoke_since(store: Arc<dyn Store>) {
    store.say_viewers(&say("a", 3, 5)).await.unwrap();
    store.forget_viewers(&live("42"), &gateway("a"), 4).await.unwrap();
    store.forget_viewers(&live("42"), &gateway("b"), 9).await.unwrap();
    store.forget_viewers(&live("43"), &gateway("a"), 9).await.unwrap();
    assert_eq!(view(&store, 1).await, (false, said(&[("a", 3, 5)])));
    store.forget_viewers(&live("42"), &gateway("a"), 5).await.unwrap();
    assert_eq!(view(&store, 1).await, (false, said(&[("a", 0, 5)])));
    let late = known(store.say_viewers(&say("a", 3, 4)).await.unwrap());
    assert_eq!(late, (false, said(&[("a", 0, 5)])), "what was said before is not said again");
}

async fn what_is_old_is_dropped_whoever_looks(store: Arc<dyn Store>) {
    store.say_viewers(&say("a", 3, 1)).await.unwrap();
    // Waiting is the condition here: a word's age is a time that passes.
    let keep = Duration::from_millis(40);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
    while !known(store.view_viewers(&live("42"), Epoch(1), keep).await.unwrap()).1.is_empty() {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(view(&store, 1).await, (false, said(&[])), "dropped, not hidden");
}

async fn looking_at_what_nobody_spoke_of_leaves_nothing(store: Arc<dyn Store>) {
    assert_eq!(view(&store, 3).await, (true, said(&[])));
    let (begins, _) = known(store.say_viewers(&say("a", 1, 1)).await.unwrap());
    assert!(begins, "an older epoch may still begin");
}
