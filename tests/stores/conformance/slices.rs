//! Joins, leaves, refusals, epochs and pages of a slice.

use std::sync::Arc;

use rollcall::ids::{Epoch, SliceId};
use rollcall::store::{ApplyReply, CheckSlice, Entry, Store, Strays};

use super::{Caller, LONG, fans, gateway, held, live, on_each, slice, user, users};

on_each!(
    who_joins_is_in_and_who_leaves_is_out,
    a_user_on_two_gateways_counts_once_and_stays_until_both_let_go,
    a_gateway_without_an_entry_is_unknown,
    a_call_that_is_not_above_the_last_is_stale,
    a_closed_epoch_takes_nobody,
    a_newer_epoch_refuses_the_older_and_wipes_its_leftovers,
    a_closed_older_epoch_gives_way_too,
    an_older_close_leaves_a_newer_epoch_alone,
    release_drops_the_entry_of_who_holds_nobody,
    release_keeps_the_entry_of_who_still_holds,
    a_batch_of_a_thousand_goes_in_and_out,
    pages_show_everybody_of_a_big_slice,
    slices_of_one_live_are_apart,
    a_slice_that_nobody_used_is_empty,
    a_close_of_a_slice_that_nobody_used_holds,
    leaving_twice_or_without_having_joined_changes_nothing,
    a_check_takes_nobody_out_whom_a_gateway_holds,
    a_gateway_without_an_entry_checks_nothing,
    a_reading_of_what_is_held_misses_nobody_of_a_slice_that_is_whole,
);

async fn who_joins_is_in_and_who_leaves_is_out(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    let view = a.registers(&users(0, 3)).await;
    assert_eq!((view.card, view.held), (3, 3));
    let view = a.done(Entry::Keep, &users(3, 5), &users(0, 1)).await;
    assert_eq!((view.card, view.held), (4, 4));
    assert!(!store.is_fan_online(&slice(), &user(0)).await.unwrap());
    assert!(store.is_fan_online(&slice(), &user(4)).await.unwrap());
    assert_eq!(fans(&store, &slice()).await, users(1, 5));
    assert_eq!(held(&store, &slice(), &a.name).await, users(1, 5));
    let view = store.view_slice(&slice(), LONG).await.unwrap();
    assert_eq!((view.card, view.held), (4, 0));
    assert_eq!(store.fence(&slice()).await.unwrap(), Some(Epoch(1)));
}

async fn a_user_on_two_gateways_counts_once_and_stays_until_both_let_go(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 2)).await;
    let view = b.registers(&users(1, 3)).await;
    assert_eq!((view.card, view.held), (3, 2));
    assert_eq!(a.leaves(&users(0, 2)).await.card, 2);
    assert!(store.is_fan_online(&slice(), &user(1)).await.unwrap());
    assert_eq!(b.leaves(&users(1, 2)).await.card, 1);
    assert_eq!(fans(&store, &slice()).await, users(2, 3));
}

async fn a_gateway_without_an_entry_is_unknown(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    assert_eq!(a.call(Entry::Keep, &users(0, 1), &[]).await, ApplyReply::Unknown);
    assert_eq!(a.call(Entry::Release, &[], &[]).await, ApplyReply::Unknown);
    assert_eq!(store.fence(&slice()).await.unwrap(), None);
    Caller::new(&store, "b").registers(&[]).await;
    assert_eq!(a.call(Entry::Keep, &users(0, 1), &[]).await, ApplyReply::Unknown);
    assert!(fans(&store, &slice()).await.is_empty());
}

async fn a_call_that_is_not_above_the_last_is_stale(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    let first = a.next(Entry::Register, &users(0, 1), &[]);
    a.registers(&users(1, 2)).await;
    a.leaves(&users(1, 2)).await;
    for late in [first, Caller { number: 2, ..Caller::new(&store, "a") }.next(Entry::Keep, &users(5, 6), &[])] {
        assert_eq!(store.apply(&late).await.unwrap(), ApplyReply::Stale);
    }
    assert!(fans(&store, &slice()).await.is_empty());
    assert_eq!(a.joins(&users(7, 8)).await.card, 1);
}

async fn a_closed_epoch_takes_nobody(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 3)).await;
    store.close_slice(&slice(), Epoch(1)).await.unwrap();
    assert_eq!(a.call(Entry::Keep, &users(5, 6), &[]).await, ApplyReply::Closed);
    assert_eq!(a.call(Entry::Register, &users(5, 6), &[]).await, ApplyReply::Closed);
    assert_eq!(b.call(Entry::Register, &users(5, 6), &[]).await, ApplyReply::Closed);
    assert_eq!(a.call(Entry::Release, &[], &[]).await, ApplyReply::Closed);
    assert!(fans(&store, &slice()).await.is_empty());
    assert!(held(&store, &slice(), &a.name).await.is_empty());
    assert_eq!(store.fence(&slice()).await.unwrap(), Some(Epoch(1)));
    store.close_slice(&slice(), Epoch(1)).await.unwrap();
    assert_eq!(store.view_slice(&slice(), LONG).await.unwrap().card, 0);
}

async fn a_newer_epoch_refuses_the_older_and_wipes_its_leftovers(store: Arc<dyn Store>) {
    let (mut old, mut new) = (Caller::new(&store, "old"), Caller::new(&store, "new"));
    old.registers(&users(0, 5)).await;
    new.epoch = 3;
    // Only who registers begins the epoch.
    assert_eq!(new.call(Entry::Keep, &users(7, 8), &[]).await, ApplyReply::Unknown);
    assert_eq!(fans(&store, &slice()).await, users(0, 5));
    let view = new.registers(&users(7, 9)).await;
    assert_eq!((view.card, view.held), (2, 2));
    assert_eq!(fans(&store, &slice()).await, users(7, 9));
    assert!(held(&store, &slice(), &old.name).await.is_empty());
    for entry in [Entry::Keep, Entry::Register, Entry::Release] {
        assert_eq!(old.call(entry, &users(0, 1), &[]).await, ApplyReply::Newer(Epoch(3)));
    }
    assert_eq!(store.fence(&slice()).await.unwrap(), Some(Epoch(3)));
    // Numbers of the wiped epoch are forgotten with it.
    old.epoch = 3;
    old.number = 0;
    assert_eq!(old.registers(&users(8, 10)).await.card, 3);
}

async fn a_closed_older_epoch_gives_way_too(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 5)).await;
    store.close_slice(&slice(), Epoch(1)).await.unwrap();
    a.epoch = 2;
    assert_eq!(a.call(Entry::Keep, &users(0, 1), &[]).await, ApplyReply::Unknown);
    assert_eq!(a.registers(&users(0, 1)).await.card, 1);
    a.epoch = 1;
    assert_eq!(a.call(Entry::Register, &users(1, 2), &[]).await, ApplyReply::Newer(Epoch(2)));
    store.close_slice(&slice(), Epoch(2)).await.unwrap();
    assert_eq!(a.call(Entry::Register, &users(1, 2), &[]).await, ApplyReply::Newer(Epoch(2)));
}

async fn an_older_close_leaves_a_newer_epoch_alone(store: Arc<dyn Store>) {
    let mut a = Caller { epoch: 2, ..Caller::new(&store, "a") };
    a.registers(&users(0, 2)).await;
    store.close_slice(&slice(), Epoch(1)).await.unwrap();
    assert_eq!(a.refreshes().await.card, 2);
}

async fn release_drops_the_entry_of_who_holds_nobody(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 2)).await;
    let view = a.done(Entry::Release, &[], &users(0, 2)).await;
    assert_eq!((view.card, view.held), (0, 0));
    assert_eq!(a.call(Entry::Keep, &[], &[]).await, ApplyReply::Unknown);
    assert_eq!(a.registers(&users(0, 1)).await.card, 1);
}

async fn release_keeps_the_entry_of_who_still_holds(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 2)).await;
    assert_eq!(a.done(Entry::Release, &[], &users(0, 1)).await.held, 1);
    assert_eq!(a.refreshes().await.held, 1);
}

async fn a_batch_of_a_thousand_goes_in_and_out(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 1_000)).await;
    b.registers(&users(500, 1_500)).await;
    assert_eq!(a.leaves(&users(0, 1_000)).await.card, 1_000);
    let view = b.done(Entry::Keep, &users(0, 500), &users(500, 1_000)).await;
    assert_eq!((view.card, view.held), (1_000, 1_000));
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
    let of = |index, of| SliceId { live: live("42"), index, of };
    let mut callers: Vec<Caller> =
        [of(1, 1), of(1, 4), of(2, 4)].map(|slice| Caller { slice, ..Caller::new(&store, "a") }).into();
    for (n, caller) in callers.iter_mut().enumerate() {
        caller.registers(&users(n, n + 1)).await;
    }
    for (n, caller) in callers.iter().enumerate() {
        assert_eq!(fans(&store, &caller.slice).await, users(n, n + 1));
    }
    store.close_slice(&of(2, 4), Epoch(1)).await.unwrap();
    assert_eq!(callers[1].refreshes().await.card, 1);
    // A slice's key says which one it is, not of how many.
    assert_eq!(store.fence(&of(2, 8)).await.unwrap(), Some(Epoch(1)));
}

async fn a_slice_that_nobody_used_is_empty(store: Arc<dyn Store>) {
    let view = store.view_slice(&slice(), LONG).await.unwrap();
    assert_eq!((view.card, view.held, view.silent), (0, 0, Vec::new()));
    assert_eq!(store.fence(&slice()).await.unwrap(), None);
    assert!(fans(&store, &slice()).await.is_empty());
    assert!(!store.is_fan_online(&slice(), &user(1)).await.unwrap());
    let swept = store.sweep(&slice(), &gateway("a"), LONG).await.unwrap();
    assert_eq!((swept.released, swept.done, swept.card), (0, true, 0));
}

async fn a_close_of_a_slice_that_nobody_used_holds(store: Arc<dyn Store>) {
    store.close_slice(&slice(), Epoch(4)).await.unwrap();
    let mut a = Caller { epoch: 4, ..Caller::new(&store, "a") };
    assert_eq!(a.call(Entry::Register, &users(0, 1), &[]).await, ApplyReply::Closed);
    a.epoch = 3;
    assert_eq!(a.call(Entry::Register, &users(0, 1), &[]).await, ApplyReply::Newer(Epoch(4)));
    a.epoch = 5;
    assert_eq!(a.registers(&users(0, 1)).await.card, 1);
}

async fn leaving_twice_or_without_having_joined_changes_nothing(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 3)).await;
    b.registers(&[]).await;
    let view = b.leaves(&users(0, 3)).await;
    assert_eq!((view.card, view.held), (3, 0));
    a.leaves(&users(0, 1)).await;
    assert_eq!(a.leaves(&users(0, 1)).await.card, 2);
    a.joins(&users(1, 3)).await;
    assert_eq!(fans(&store, &slice()).await, users(1, 3));
}

async fn a_check_takes_nobody_out_whom_a_gateway_holds(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&[]).await;
    for batch in users(0, 2_500).chunks(1_000) {
        a.joins(batch).await;
    }
    b.registers(&users(2_400, 2_600)).await;
    for (holder, strays) in [(Some(gateway("a")), Strays::Drop), (None, Strays::Count), (None, Strays::Drop)] {
        let mut check = CheckSlice { slice: slice(), holder, cursor: 0, strays };
        let mut looked = 0;
        loop {
            let page = store.check_slice(&check).await.unwrap();
            assert!(page.looked <= 1_200, "a page of {}", page.looked);
            assert_eq!((page.strays, page.names, page.card, page.held), (0, Vec::new(), 2_600, 2_700));
            looked += page.looked;
            let Some(next) = page.next else { break };
            check.cursor = next;
        }
        assert!(looked >= 2_600, "only {looked} were looked at");
    }
    assert_eq!(fans(&store, &slice()).await, users(0, 2_600));
}

async fn a_gateway_without_an_entry_checks_nothing(store: Arc<dyn Store>) {
    Caller::new(&store, "a").registers(&users(0, 3)).await;
    let holder = Some(gateway("swept"));
    let check = CheckSlice { slice: slice(), holder, cursor: 0, strays: Strays::Drop };
    let page = store.check_slice(&check).await.unwrap();
    assert_eq!((page.looked, page.strays, page.next, page.card), (0, 0, None, 3));
    let unused = SliceId { live: live("43"), index: 1, of: 1 };
    let page = store.check_slice(&CheckSlice { slice: unused, holder: None, ..check }).await.unwrap();
    assert_eq!((page.looked, page.card, page.held), (0, 0, 0));
}

async fn a_reading_of_what_is_held_misses_nobody_of_a_slice_that_is_whole(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 5)).await;
    let page = store.held_page(&slice(), &a.name, 0).await.unwrap();
    assert_eq!((page.users.len(), page.missing, page.next), (5, Vec::new(), None));
}
