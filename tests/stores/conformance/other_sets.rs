//! What slices keep besides who is there: since when each viewer of a live is there; and the users
//! online on the platform, whose slices are apart from those of lives.

use rollcall::features::WholeStore;
use std::sync::Arc;

use rollcall::base::clock::UnixMillis;
use rollcall::base::ids::{Epoch, Group, SliceId, UserId};
use rollcall::store::OpenLive;

use super::{
    Caller, fans, live, on_each, opened_as, slice, streamers_slice, sweep, users, users_slice, wish,
};

/// Changes a slice that keeps times: everybody who joins is there since `at`.
async fn changes(caller: &mut Caller, at: UnixMillis, joins: &[UserId], leaves: &[UserId]) -> u64 {
    caller.changes_at(at, joins, leaves).await.card
}

async fn since(store: &Arc<dyn WholeStore>, asked: &[UserId]) -> Vec<Option<UnixMillis>> {
    store.since_of(&slice(), asked).await.unwrap()
}

async fn a_viewer_is_there_since_the_earliest_time_that_a_gateway_says(store: Arc<dyn WholeStore>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    changes(&mut a, 1_000, &users(0, 3), &[]).await;
    changes(&mut b, 2_000, &users(1, 4), &[]).await;
    assert_eq!(
        since(&store, &users(0, 5)).await,
        [Some(1_000), Some(1_000), Some(1_000), Some(2_000), None]
    );
    changes(&mut b, 500, &users(2, 3), &[]).await;
    assert_eq!(since(&store, &users(2, 3)).await, [Some(500)]);
    // The other gateway still holds one of the two who leave.
    assert_eq!(changes(&mut a, 0, &[], &users(0, 2)).await, 3);
    assert_eq!(since(&store, &users(0, 2)).await, [None, Some(1_000)]);
    // Who comes back is there since then.
    changes(&mut a, 9_000, &users(0, 1), &[]).await;
    assert_eq!(since(&store, &users(0, 1)).await, [Some(9_000)]);
}

async fn times_go_with_sweeps_and_closes(store: Arc<dyn WholeStore>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    changes(&mut a, 1_000, &users(0, 3), &[]).await;
    changes(&mut b, 2_000, &users(2, 4), &[]).await;
    let swept = sweep(&store, &slice(), 1, &[("a", 0)]).await;
    assert_eq!((swept.released, swept.size.card), (3, 2));
    assert_eq!(
        since(&store, &users(0, 4)).await,
        [None, None, Some(1_000), Some(2_000)]
    );
    store.close_slice(&slice(), Epoch(1)).await.unwrap();
    assert_eq!(since(&store, &users(0, 4)).await, [None; 4]);
    // The next epoch begins with nobody.
    let mut c = Caller {
        epoch: 2,
        ..Caller::new(&store, "c")
    };
    changes(&mut c, 7_000, &users(0, 1), &[]).await;
    assert_eq!(
        since(&store, &users(0, 4)).await,
        [Some(7_000), None, None, None]
    );
}

async fn a_whole_batch_has_times(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a");
    for _ in 0..2 {
        assert_eq!(changes(&mut a, 5, &users(0, 1_000), &[]).await, 1_000);
    }
    assert_eq!(since(&store, &users(0, 1_000)).await, vec![Some(5); 1_000]);
    assert_eq!(changes(&mut a, 5, &[], &users(0, 1_000)).await, 0);
    assert_eq!(since(&store, &users(0, 1_000)).await, vec![None; 1_000]);
}

async fn slices_of_a_live_and_of_the_platform_are_apart(store: Arc<dyn WholeStore>) {
    let mut of_live = Caller::new(&store, "a");
    changes(&mut of_live, 1, &users(0, 2), &[]).await;
    let online = users_slice(7);
    let streamers = streamers_slice(7);
    let mut of_users = Caller::new(&store, "a").in_slice(online.clone());
    of_users.registers(&users(0, 3)).await;
    Caller::new(&store, "a")
        .in_slice(streamers.clone())
        .registers(&users(0, 1))
        .await;
    for (slice, there) in [(slice(), 2), (online.clone(), 3), (streamers, 1)] {
        assert_eq!(fans(&store, &slice).await, users(0, there), "{}", slice.set);
        let are: Vec<bool> = (0..4).map(|n| n < there).collect();
        assert_eq!(
            store
                .are_members(&slice, Group::All, &users(0, 4))
                .await
                .unwrap(),
            are,
            "{}",
            slice.set
        );
    }
    assert!(
        store
            .are_members(&online, Group::All, &[])
            .await
            .unwrap()
            .is_empty()
    );
    store.close_slice(&slice(), Epoch(1)).await.unwrap();
    assert_eq!(of_users.moves_on().await.card, 3);
}

async fn a_live_has_the_slices_that_it_was_opened_with(store: Arc<dyn WholeStore>) {
    let record = opened_as(
        &store,
        &OpenLive {
            slices: 2,
            ..wish("42")
        },
    )
    .await;
    let named: Vec<(String, u32)> = record
        .all_slices()
        .map(|slice| (slice.set.to_string(), slice.index))
        .collect();
    assert_eq!(
        named,
        [1, 2].map(|index| ("viewers of 42".to_owned(), index))
    );
    // The fence of any slice lifts the next epoch.
    let last = SliceId::of_live(live("45"), 2, 2);
    store
        .close_slice(&last, Epoch(u64::from(u32::MAX) + 5))
        .await
        .unwrap();
    let above = opened_as(
        &store,
        &OpenLive {
            slices: 2,
            ..wish("45")
        },
    )
    .await;
    assert_eq!(above.epoch, Epoch(u64::from(u32::MAX) + 6));
}

on_each!(
    a_viewer_is_there_since_the_earliest_time_that_a_gateway_says,
    times_go_with_sweeps_and_closes,
    a_whole_batch_has_times,
    slices_of_a_live_and_of_the_platform_are_apart,
    a_live_has_the_slices_that_it_was_opened_with,
);
