//! The sweep of a gateway that was buried, and the look for strays.

use std::sync::Arc;

use rollcall::base::ids::{Epoch, GatewayId, Group, SliceId};
use rollcall::store::{ApplyReply, Holders, Store, Strays};

use super::{Caller, fans, fence, gateway, held, live, on_each, slice, users};

on_each!(
    a_sweep_goes_in_batches_and_ends_with_the_entry,
    a_sweep_keeps_whom_others_hold,
    a_sweep_of_a_gateway_that_let_go_takes_its_entry,
    a_gateway_that_was_swept_is_unknown,
    a_look_for_strays_takes_nobody_out_whom_a_gateway_holds,
    a_look_for_strays_goes_in_pages_of_any_size,
    a_slice_that_nobody_used_has_no_strays,
    many_small_slices_are_compared_with_what_gateways_hold_together,
);

async fn filled(store: &Arc<dyn Store>, name: &str, from: usize, to: usize) -> Caller {
    let mut caller = Caller::new(store, name);
    caller.registers(&[]).await;
    for batch in users(from, to).chunks(1_000) {
        caller.joins(batch).await;
    }
    caller
}

async fn a_sweep_goes_in_batches_and_ends_with_the_entry(store: Arc<dyn Store>) {
    for (most, expected) in [
        (1_000, vec![(1_000, 1_500), (1_000, 500), (500, 0)]),
        (1_250, vec![(1_250, 1_250); 1]),
    ] {
        let name = format!("g{most}");
        let a = filled(&store, &name, 0, 2_500).await;
        let mut steps = Vec::new();
        loop {
            let swept = store.sweep(&slice(), &a.name, most, 0).await.unwrap();
            steps.push((swept.released, swept.size.card));
            if swept.done {
                break;
            }
            // Half swept, the gateway still has its entry.
            let reading = store.read_slice(&slice(), &gateway("other")).await.unwrap();
            assert_eq!(reading.gateways, [gateway(&name)]);
        }
        assert_eq!(steps[..expected.len()], expected);
        assert_eq!(
            steps.iter().map(|(released, _)| released).sum::<u64>(),
            2_500
        );
        assert!(held(&store, &slice(), &a.name).await.is_empty());
        let reading = store.read_slice(&slice(), &gateway("other")).await.unwrap();
        assert_eq!((reading.size.card, reading.gateways), (0, vec![]));
    }
}

async fn a_sweep_keeps_whom_others_hold(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 10)).await;
    b.registers(&users(5, 15)).await;
    let swept = store.sweep(&slice(), &a.name, 100, 0).await.unwrap();
    assert_eq!(
        (swept.released, swept.done, swept.size.card),
        (10, true, 10)
    );
    assert_eq!(fans(&store, &slice()).await, users(5, 15));
    assert_eq!(b.moves_on().await.held, 10);
}

async fn a_sweep_of_a_gateway_that_let_go_takes_its_entry(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 2)).await;
    a.leaves(&users(0, 2)).await;
    let swept = store.sweep(&slice(), &a.name, 100, 0).await.unwrap();
    assert_eq!((swept.released, swept.done, swept.size.card), (0, true, 0));
    assert_eq!(
        store.read_slice(&slice(), &a.name).await.unwrap().entry,
        None
    );
    // The epoch is still the slice's own.
    assert_eq!(fence(&store, &slice()).await.unwrap(), Some(Epoch(1)));
}

async fn a_gateway_that_was_swept_is_unknown(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 3)).await;
    store.sweep(&slice(), &a.name, 2, 0).await.unwrap();
    // Not wholly swept, it still finds that it holds fewer than it thought.
    assert_eq!(a.moves_on().await.held, 1);
    store.sweep(&slice(), &a.name, 2, 0).await.unwrap();
    assert_eq!(
        a.call(a.entry, &users(0, 3), &[]).await,
        ApplyReply::Unknown
    );
    assert_eq!(a.registers(&users(0, 3)).await.size.card, 3);
}

async fn a_look_for_strays_takes_nobody_out_whom_a_gateway_holds(store: Arc<dyn Store>) {
    filled(&store, "a", 0, 2_500).await;
    Caller::new(&store, "b")
        .registers(&users(2_400, 2_600))
        .await;
    for strays in [Strays::Count, Strays::Drop] {
        let (mut cursor, mut pages) = (0, 0);
        loop {
            let page = store
                .strays(&slice(), Group::Fans, cursor, 1_000, strays)
                .await
                .unwrap();
            assert_eq!(
                (page.strays, page.names, page.size.card, page.held),
                (0, Vec::new(), 2_600, 2_700)
            );
            pages += 1;
            let Some(next) = page.next else { break };
            cursor = next;
        }
        assert!(pages >= 2, "2600 members in one page");
    }
    assert_eq!(fans(&store, &slice()).await, users(0, 2_600));
}

async fn a_look_for_strays_goes_in_pages_of_any_size(store: Arc<dyn Store>) {
    filled(&store, "a", 0, 900).await;
    for most in [50, 300] {
        let (mut cursor, mut pages) = (0, 0);
        loop {
            let page = store
                .strays(&slice(), Group::Fans, cursor, most, Strays::Count)
                .await
                .unwrap();
            pages += 1;
            let Some(next) = page.next else { break };
            cursor = next;
        }
        assert!(pages >= 900 / (most + 50), "{pages} pages of {most}");
    }
}

async fn a_slice_that_nobody_used_has_no_strays(store: Arc<dyn Store>) {
    let unused = SliceId::of_live(live("43"), 1, 1);
    let page = store
        .strays(&unused, Group::Fans, 0, 1_000, Strays::Drop)
        .await
        .unwrap();
    assert_eq!(
        (page.strays, page.next, page.size.card, page.held),
        (0, None, 0, 0)
    );
}

async fn many_small_slices_are_compared_with_what_gateways_hold_together(store: Arc<dyn Store>) {
    filled(&store, "a", 0, 300).await;
    filled(&store, "b", 200, 500).await;
    let (unused, [a, b, x]) = (
        SliceId::of_live(live("43"), 1, 1),
        ["a", "b", "x"].map(gateway),
    );
    let held_by = |slice: SliceId, gateways: &[&GatewayId]| {
        let gateways = gateways.iter().map(|&gateway| gateway.clone()).collect();
        Holders {
            slice,
            gateways,
            overlap: true,
        }
    };
    let asked = [
        held_by(slice(), &[&a, &b]),
        held_by(slice(), &[&a]),
        held_by(unused.clone(), &[&a]),
        held_by(slice(), &[&x, &b, &a]),
        held_by(slice(), &[]),
        held_by(unused, &[]),
    ];
    let found: Vec<bool> = store
        .differ_from_held(&asked)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(found, [false, true, false, false, true, false]);
    assert_eq!(fans(&store, &slice()).await, users(0, 500));
}
