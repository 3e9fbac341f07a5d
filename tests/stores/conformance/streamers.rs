//! How many lives a streamer may open.

use rollcall::features::WholeStore;
use std::sync::Arc;

use rollcall::store::{ClaimLimits, Claimed};

use super::{live, on_each, user};

on_each!(
    a_streamer_claims_so_many_lives_and_a_release_makes_room,
    a_streamer_opens_so_many_lives_a_day_whatever_becomes_of_them,
);

const MANY: u64 = 1 << 40;

async fn claims(
    store: &Arc<dyn WholeStore>,
    streamer: usize,
    name: &str,
    limits: ClaimLimits,
) -> Claimed {
    store
        .claim_live(&user(streamer), &live(name), limits)
        .await
        .unwrap()
}

async fn a_streamer_claims_so_many_lives_and_a_release_makes_room(store: Arc<dyn WholeStore>) {
    let two = ClaimLimits {
        open: 2,
        a_day: MANY,
    };
    for name in ["b", "a", "b"] {
        assert_eq!(claims(&store, 1, name, two).await, Claimed::Yes, "{name}");
    }
    let Claimed::Full(lives) = claims(&store, 1, "c", two).await else {
        panic!("a third live was claimed")
    };
    assert_eq!(lives.len(), 2);
    assert!(lives.contains(&live("a")) && lives.contains(&live("b")));
    assert_eq!(
        claims(&store, 2, "c", two).await,
        Claimed::Yes,
        "another streamer"
    );
    // A release of long ago is about an earlier claim.
    store
        .release_live(&user(1), &live("a"), 1_000)
        .await
        .unwrap();
    store
        .release_live(&user(1), &live("never"), u64::from(u32::MAX) * 1_000)
        .await
        .unwrap();
    assert!(matches!(
        claims(&store, 1, "c", two).await,
        Claimed::Full(_)
    ));
    store
        .release_live(&user(1), &live("a"), u64::from(u32::MAX) * 1_000)
        .await
        .unwrap();
    assert_eq!(claims(&store, 1, "c", two).await, Claimed::Yes);
    assert!(matches!(
        claims(&store, 1, "d", two).await,
        Claimed::Full(_)
    ));
}

async fn a_streamer_opens_so_many_lives_a_day_whatever_becomes_of_them(store: Arc<dyn WholeStore>) {
    let three = ClaimLimits {
        open: MANY,
        a_day: 3,
    };
    for name in ["a", "a", "b"] {
        assert_eq!(claims(&store, 1, name, three).await, Claimed::Yes);
        store
            .release_live(&user(1), &live(name), u64::from(u32::MAX) * 1_000)
            .await
            .unwrap();
    }
    let Claimed::TooFast(wait) = claims(&store, 1, "c", three).await else {
        panic!("a fourth live was claimed")
    };
    let hours = wait.as_secs_f64() / 3_600.0;
    assert!((7.9..=8.0).contains(&hours), "{hours} hours until the next");
    assert_eq!(
        claims(&store, 2, "c", three).await,
        Claimed::Yes,
        "another streamer"
    );
}
