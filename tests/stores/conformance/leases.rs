//! Leases, and the sweep of a gateway that let its own run out.

use std::sync::Arc;
use std::time::Duration;

use rollcall::ids::GatewayId;
use rollcall::store::{ApplyReply, Entry, SliceView, Store};

use super::{Caller, LONG, fans, gateway, held, on_each, slice, users};

on_each!(
    a_gateway_whose_lease_ran_out_is_named_to_others_only,
    a_view_names_every_silent_gateway_up_to_sixteen,
    a_change_names_nobody,
    a_fresh_gateway_is_not_swept,
    a_sweep_goes_in_batches_and_ends_with_the_entry,
    a_sweep_keeps_whom_others_hold,
    a_swept_gateway_is_unknown_until_it_registers,
    the_stores_clock_moves_and_is_told,
    a_lease_runs_out_and_is_fresh_again_after_a_call,
);

fn names(view: &SliceView) -> Vec<GatewayId> {
    view.silent.iter().map(|silent| silent.gateway.clone()).collect()
}

async fn a_gateway_whose_lease_ran_out_is_named_to_others_only(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 1)).await;
    assert!(b.registers(&[]).await.silent.is_empty());
    (a.lease, b.lease) = (Duration::ZERO, Duration::ZERO);
    assert_eq!(names(&b.refreshes().await), [gateway("a")]);
    assert_eq!(names(&a.refreshes().await), [gateway("b")]);
}

async fn a_view_names_every_silent_gateway_up_to_sixteen(store: Arc<dyn Store>) {
    for n in 0..20 {
        Caller::new(&store, &format!("g{n}")).registers(&[]).await;
        let silent = store.view_slice(&slice(), Duration::ZERO).await.unwrap().silent;
        assert_eq!(silent.len(), (n + 1).min(16));
    }
    assert!(store.view_slice(&slice(), LONG).await.unwrap().silent.is_empty());
}

async fn a_change_names_nobody(store: Arc<dyn Store>) {
    Caller::new(&store, "a").registers(&[]).await;
    let mut b = Caller { lease: Duration::ZERO, ..Caller::new(&store, "b") };
    assert!(b.registers(&users(0, 1)).await.silent.is_empty());
    assert!(b.leaves(&users(0, 1)).await.silent.is_empty());
    assert_eq!(b.refreshes().await.silent.len(), 1);
}

async fn a_fresh_gateway_is_not_swept(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 3)).await;
    let swept = store.sweep(&slice(), &a.name, LONG).await.unwrap();
    assert_eq!((swept.released, swept.done, swept.card), (0, true, 3));
    assert_eq!(a.refreshes().await.held, 3);
}

async fn a_sweep_goes_in_batches_and_ends_with_the_entry(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&[]).await;
    for batch in users(0, 2_500).chunks(1_000) {
        a.joins(batch).await;
    }
    let mut steps = Vec::new();
    loop {
        let swept = store.sweep(&slice(), &a.name, Duration::ZERO).await.unwrap();
        steps.push((swept.released, swept.card));
        if swept.done {
            break;
        }
        // Half swept, the gateway is still known.
        assert_eq!(names(&store.view_slice(&slice(), Duration::ZERO).await.unwrap()), [gateway("a")]);
    }
    assert_eq!(steps, [(1_000, 1_500), (1_000, 500), (500, 0)]);
    assert!(store.view_slice(&slice(), Duration::ZERO).await.unwrap().silent.is_empty());
    assert!(held(&store, &slice(), &a.name).await.is_empty());
}

async fn a_sweep_keeps_whom_others_hold(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 10)).await;
    b.registers(&users(5, 15)).await;
    let swept = store.sweep(&slice(), &a.name, Duration::ZERO).await.unwrap();
    assert_eq!((swept.released, swept.done, swept.card), (10, true, 10));
    assert_eq!(fans(&store, &slice()).await, users(5, 15));
    assert_eq!(b.refreshes().await.held, 10);
}

async fn a_swept_gateway_is_unknown_until_it_registers(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 3)).await;
    store.sweep(&slice(), &a.name, Duration::ZERO).await.unwrap();
    assert_eq!(a.call(Entry::Keep, &users(0, 3), &[]).await, ApplyReply::Unknown);
    assert_eq!(a.registers(&users(0, 3)).await.card, 3);
}

async fn the_stores_clock_moves_and_is_told(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    let first = a.registers(&[]).await.at;
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros() as u64;
    assert!(first.abs_diff(wall) < 60_000_000, "{first} is not about {wall}");
    let later = store.view_slice(&slice(), LONG).await.unwrap().at;
    assert!(later >= first && store.sweep(&slice(), &a.name, LONG).await.unwrap().at >= later);
}

async fn a_lease_runs_out_and_is_fresh_again_after_a_call(store: Arc<dyn Store>) {
    let lease = Duration::from_millis(60);
    let mut a = Caller { lease, ..Caller::new(&store, "a") };
    let joined = a.registers(&users(0, 1)).await.at;
    // Waiting is the condition here: the lease is over at a time, not at an event.
    loop {
        let view = store.view_slice(&slice(), lease).await.unwrap();
        // Leases are judged in whole milliseconds.
        let passed = view.at / 1_000 - joined / 1_000;
        assert_eq!(!view.silent.is_empty(), passed >= 60, "at {passed} ms");
        if !view.silent.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    a.refreshes().await;
    assert!(store.view_slice(&slice(), Duration::from_secs(30)).await.unwrap().silent.is_empty());
    assert_eq!(store.sweep(&slice(), &a.name, Duration::from_secs(30)).await.unwrap().released, 0);
}
