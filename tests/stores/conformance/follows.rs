//! The follow graph.

use rollcall::features::WholeStore;
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use rollcall::store::{Edge, FinishedChanges, Followed};

use super::{on_each, paged, user, users};

on_each!(
    a_follow_is_new_once_and_seen_from_both_ends,
    an_unfollow_takes_the_edge_out_at_both_ends,
    a_fan_check_answers_in_the_order_of_the_question,
    a_fan_check_of_many_streamers_answers_for_each,
    a_fan_check_by_the_users_own_end_says_the_same,
    pages_go_from_the_newest_to_the_oldest_and_miss_nobody,
    the_newest_followed_are_those_of_the_pages,
    a_page_goes_on_although_its_last_entry_is_gone,
    follows_and_unfollows_at_a_time_leave_whole_edges,
);

async fn page(
    store: &Arc<dyn WholeStore>,
    n: usize,
    edge: Edge,
    last: Option<&Followed>,
    limit: usize,
) -> Vec<Followed> {
    let page = store.follow_page(&user(n), edge, last, limit).await;
    page.unwrap()
}

async fn a_follow_is_new_once_and_seen_from_both_ends(store: Arc<dyn WholeStore>) {
    assert!(store.follow(&user(1), &user(9)).await.unwrap());
    let first = page(&store, 1, Edge::Following, None, 10).await;
    assert!(!store.follow(&user(1), &user(9)).await.unwrap());
    assert_eq!(page(&store, 1, Edge::Following, None, 10).await, first);
    let back = page(&store, 9, Edge::Followers, None, 10).await;
    assert_eq!((first.len(), &first[0].user), (1, &user(9)));
    assert_eq!(
        back,
        [Followed {
            user: user(1),
            at: first[0].at
        }]
    );
    assert_eq!(store.follower_count(&user(9)).await.unwrap(), 1);
    assert_eq!(store.follower_count(&user(1)).await.unwrap(), 0);
    assert_eq!(
        store.follow_count(&user(1), Edge::Following).await.unwrap(),
        1
    );
    assert_eq!(
        store.follow_count(&user(9), Edge::Following).await.unwrap(),
        0
    );
}

async fn an_unfollow_takes_the_edge_out_at_both_ends(store: Arc<dyn WholeStore>) {
    assert!(!store.unfollow(&user(1), &user(9)).await.unwrap());
    store.follow(&user(1), &user(9)).await.unwrap();
    store.follow(&user(2), &user(9)).await.unwrap();
    assert!(store.unfollow(&user(1), &user(9)).await.unwrap());
    assert!(!store.unfollow(&user(1), &user(9)).await.unwrap());
    assert_eq!(
        store.follows(&user(9), &users(1, 3)).await.unwrap(),
        [false, true]
    );
    assert!(page(&store, 1, Edge::Following, None, 10).await.is_empty());
    assert_eq!(store.follower_count(&user(9)).await.unwrap(), 1);
}

async fn a_fan_check_answers_in_the_order_of_the_question(store: Arc<dyn WholeStore>) {
    assert!(store.follows(&user(9), &[]).await.unwrap().is_empty());
    assert_eq!(
        store.follows(&user(9), &users(0, 2)).await.unwrap(),
        [false, false]
    );
    for n in [3, 5] {
        store.follow(&user(n), &user(9)).await.unwrap();
    }
    let asked = [user(5), user(4), user(3), user(5)];
    assert_eq!(
        store.follows(&user(9), &asked).await.unwrap(),
        [true, false, true, true]
    );
    let many = store.follows(&user(9), &users(0, 1_000)).await.unwrap();
    assert_eq!(
        (many.len(), many.iter().filter(|fan| **fan).count()),
        (1_000, 2)
    );
}

async fn a_fan_check_of_many_streamers_answers_for_each(store: Arc<dyn WholeStore>) {
    assert!(store.follows_each(&[]).await.is_empty());
    for n in (0..600).step_by(3) {
        store.follow(&user(n), &user(1_000 + n)).await.unwrap();
    }
    let asked: Vec<_> = (0..600)
        .map(|n| (user(1_000 + n), vec![user(n + 1), user(n)]))
        .collect();
    let answers = store.follows_each(&asked).await;
    assert_eq!(answers.len(), asked.len());
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.unwrap(), [false, n % 3 == 0], "streamer {n}");
    }
}

async fn a_fan_check_by_the_users_own_end_says_the_same(store: Arc<dyn WholeStore>) {
    assert!(store.are_following(&[]).await.is_empty());
    for n in (0..1_000).step_by(3) {
        store.follow(&user(n), &user(2_000 + n % 7)).await.unwrap();
    }
    store.unfollow(&user(3), &user(2_003)).await.unwrap();
    let pairs: Vec<_> = (0..1_000).map(|n| (user(n), user(2_000 + n % 7))).collect();
    let answers = store.are_following(&pairs).await;
    assert_eq!(answers.len(), pairs.len());
    for (n, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.unwrap(), n % 3 == 0 && n != 3, "user {n}");
    }
    // The pair says whose end it is.
    assert_eq!(
        store
            .are_following(&[(user(2_000), user(0)), (user(0), user(2_000))])
            .await,
        [Ok(false), Ok(true)]
    );
}

/// Follows come within the same milliseconds, so there are ties.
async fn pages_go_from_the_newest_to_the_oldest_and_miss_nobody(store: Arc<dyn WholeStore>) {
    for fan in users(10, 60) {
        store.follow(&fan, &user(9)).await.unwrap();
    }
    let whole = page(&store, 9, Edge::Followers, None, 1_000).await;
    let order = |entry: &Followed| (entry.at, entry.user.clone());
    assert!(whole.is_sorted_by(|a, b| order(a) > order(b)));
    assert_eq!(whole.len(), 50);
    for size in [1, 7, 50] {
        let paged = paged(async |last| {
            let page = page(&store, 9, Edge::Followers, last, size).await;
            assert!(page.len() <= size);
            Ok(page)
        })
        .await;
        assert_eq!(paged, whole, "in pages of {size}");
    }
}

async fn the_newest_followed_are_those_of_the_pages(store: Arc<dyn WholeStore>) {
    assert!(store.newest_followed(&user(9), 5).await.unwrap().is_empty());
    let follows = users(10, 1_015).into_iter().map(|star| {
        let store = Arc::clone(&store);
        async move { store.follow(&user(9), &star).await }
    });
    assert_eq!(
        stream::iter(follows)
            .buffer_unordered(50)
            .try_collect::<Vec<_>>()
            .await
            .unwrap(),
        vec![true; 1_005]
    );
    let mut pages = page(&store, 9, Edge::Following, None, 1_000).await;
    pages.extend(page(&store, 9, Edge::Following, pages.last(), 1_000).await);
    let pages: Vec<_> = pages.into_iter().map(|followed| followed.user).collect();
    for most in [1, 999, 1_000, 1_001, 1_005, 5_001] {
        assert_eq!(
            store.newest_followed(&user(9), most).await.unwrap(),
            pages[..most.min(1_005)],
            "{most}"
        );
    }
}

async fn a_page_goes_on_although_its_last_entry_is_gone(store: Arc<dyn WholeStore>) {
    for fan in users(10, 30) {
        store.follow(&fan, &user(9)).await.unwrap();
    }
    let whole = page(&store, 9, Edge::Followers, None, 1_000).await;
    store.unfollow(&whole[4].user, &user(9)).await.unwrap();
    let rest = page(&store, 9, Edge::Followers, Some(&whole[4]), 1_000).await;
    assert_eq!(rest, whole[5..]);
}

/// Both ends of an edge say the same afterwards, whichever call came last.
async fn follows_and_unfollows_at_a_time_leave_whole_edges(store: Arc<dyn WholeStore>) {
    let calls = (0..60).map(|n| {
        let store = Arc::clone(&store);
        async move {
            let (fan, star) = (user(n % 3), user(9));
            if n % 2 == 0 {
                store.follow(&fan, &star).await
            } else {
                store.unfollow(&fan, &star).await
            }
        }
    });
    for done in futures_util::future::join_all(calls).await {
        done.unwrap();
    }
    let fans = page(&store, 9, Edge::Followers, None, 10).await;
    for n in 0..3 {
        let followed = page(&store, n, Edge::Following, None, 10).await;
        let back = fans.iter().find(|fan| fan.user == user(n));
        assert_eq!(
            followed.first().map(|edge| edge.at),
            back.map(|fan| fan.at),
            "user {n}"
        );
    }
    assert_eq!(
        store.finish_changes().await,
        Ok(FinishedChanges::default()),
        "nothing was left"
    );
}
