//! In which live each user is: the claims of the gateways say it.

use rollcall::base::ids::{GatewayId, LiveId, SliceId, UserId};
use rollcall::store::{Apply, Claim, ClaimedUser, StoreError, Whereabouts};

use super::{Place, Platform, SLICES, on_each_platform};
use crate::conformance::{claims, gateway, live, sweep, user, users_slice};

on_each_platform!(
    every_gateway_has_its_own_word_and_the_latest_comes_last,
    a_gateway_says_all_lives_of_a_user_at_once,
    a_user_who_leaves_a_gateway_is_in_no_live_there,
    the_words_of_the_dead_go_with_their_users,
    a_claim_says_all_lives_of_a_user_on_its_gateway,
);

fn slice_of(user: &UserId) -> SliceId {
    users_slice(user.slice_index(SLICES))
}

impl Platform {
    /// A gateway says that a user is online, and in which lives.
    pub async fn tells(&self, name: &str, user: &UserId, lives: &[&str]) {
        let lives = vec![lives.iter().map(|at| live(at)).collect()];
        let joins = vec![user.clone()];
        self.calls(name, user, |call| Apply {
            joins,
            lives,
            ..call
        })
        .await;
    }

    /// A gateway says that a user is there no longer.
    async fn loses(&self, name: &str, user: &UserId) {
        let leaves = vec![user.clone()];
        self.calls(name, user, |call| Apply {
            leaves,
            left: Some(vec![5]),
            ..call
        })
        .await;
    }

    async fn calls(&self, name: &str, user: &UserId, change: impl FnOnce(Apply) -> Apply) {
        let mut gateway = self.gateway(name, slice_of(user)).await;
        let call = change(gateway.next(gateway.entry, &[], &[]));
        gateway.makes(&call).await;
    }

    async fn words(&self, user: &UserId) -> Whereabouts {
        self.store
            .whereabouts_of(std::slice::from_ref(user))
            .await
            .unwrap()
            .remove(0)
    }
}

fn said(words: &[(&str, &str)]) -> Vec<(GatewayId, LiveId)> {
    words
        .iter()
        .map(|(name, at)| (gateway(name), live(at)))
        .collect()
}

async fn every_gateway_has_its_own_word_and_the_latest_comes_last(platform: Platform) {
    let user = user(1);
    platform.tells("a", &user, &[]).await;
    assert_eq!(platform.words(&user).await, said(&[]));
    platform.tells("a", &user, &["1"]).await;
    platform.tells("b", &user, &["2"]).await;
    assert_eq!(platform.words(&user).await, said(&[("a", "1"), ("b", "2")]));
    platform.tells("a", &user, &["3"]).await;
    assert_eq!(platform.words(&user).await, said(&[("b", "2"), ("a", "3")]));
    let shown = platform
        .store
        .presence_of(std::slice::from_ref(&user))
        .await
        .unwrap()
        .remove(0);
    assert_eq!(
        (shown.online, shown.lives),
        (true, said(&[("b", "2"), ("a", "3")]))
    );
    platform.tells("b", &user, &[]).await;
    assert_eq!(platform.words(&user).await, said(&[("a", "3")]));
}

async fn a_gateway_says_all_lives_of_a_user_at_once(platform: Platform) {
    let user = user(1);
    platform.tells("b", &user, &["9"]).await;
    platform.tells("a", &user, &["1", "2"]).await;
    assert_eq!(
        platform.words(&user).await,
        said(&[("b", "9"), ("a", "1"), ("a", "2")])
    );
    platform.tells("a", &user, &["2"]).await;
    assert_eq!(platform.words(&user).await, said(&[("b", "9"), ("a", "2")]));
    platform.tells("a", &user, &[]).await;
    assert_eq!(platform.words(&user).await, said(&[("b", "9")]));
}

async fn a_user_who_leaves_a_gateway_is_in_no_live_there(platform: Platform) {
    let user = user(1);
    platform.tells("a", &user, &["1"]).await;
    platform.tells("b", &user, &["2"]).await;
    platform.loses("a", &user).await;
    assert_eq!(platform.words(&user).await, said(&[("b", "2")]));
    platform.loses("b", &user).await;
    assert_eq!(platform.words(&user).await, said(&[]));
}

async fn the_words_of_the_dead_go_with_their_users(platform: Platform) {
    let one = user(1);
    let other = (2..)
        .map(user)
        .find(|user| slice_of(user) == slice_of(&one))
        .unwrap();
    platform.tells("a", &one, &["1"]).await;
    platform.tells("b", &one, &["2"]).await;
    platform.tells("b", &other, &["2"]).await;
    let slice = slice_of(&one);
    let swept = sweep(&platform.store, &slice, 1, &[("b", 7)]).await;
    assert_eq!((swept.released, swept.size.card), (2, 1));
    assert_eq!(
        (platform.words(&one).await, platform.words(&other).await),
        (said(&[("a", "1")]), said(&[]))
    );
}

async fn a_claim_says_all_lives_of_a_user_on_its_gateway(platform: Platform) {
    let one = user(1);
    let elsewhere = (2..)
        .map(user)
        .find(|user| slice_of(user) == slice_of(&one))
        .unwrap();
    platform.tells("a", &one, &["2", "1"]).await;
    platform.tells("b", &one, &[]).await;
    platform.tells("b", &elsewhere, &["4"]).await;
    let of = |user, by: &[(&str, &[&str])]| ClaimedUser {
        user,
        since: None,
        by: by
            .iter()
            .map(|(name, lives)| {
                let lives = lives.iter().map(|at| live(at)).collect();
                (Some(gateway(name)), Claim::In(lives))
            })
            .collect(),
    };
    let mut expected = [
        of(one.clone(), &[("a", &["2", "1"]), ("b", &[])]),
        of(elsewhere, &[("b", &["4"])]),
    ];
    expected.sort_by(|one, other| one.user.cmp(&other.user));
    assert_eq!(claims(&platform.store, &slice_of(&one)).await, expected);
}

/// Another program says that somebody was here whom nobody ever saw.
#[tokio::test]
async fn a_leave_of_a_user_who_was_not_there_notes_no_time() {
    let platform = Platform::on_redis().await;
    platform.tells("a", &user(1), &[]).await;
    let stranger = (2..)
        .map(user)
        .find(|user| slice_of(user) == slice_of(&self::user(1)))
        .unwrap();
    platform.loses("a", &stranger).await;
    let known = platform
        .store
        .presence_of(std::slice::from_ref(&stranger))
        .await
        .unwrap()
        .remove(0);
    assert_eq!((known.online, known.last_seen), (false, None));
}

/// A full Redis takes who moves from one live to another, and nobody who comes.
#[tokio::test]
async fn a_full_redis_takes_who_moves() {
    let platform = Platform::on_redis().await;
    let Place::Server(server) = &platform.place else {
        unreachable!()
    };
    let one = user(1);
    platform.tells("a", &one, &["1"]).await;
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    platform.tells("a", &one, &["2"]).await;
    assert_eq!(platform.words(&one).await, said(&[("a", "2")]));
    let other = (2..)
        .map(user)
        .find(|user| slice_of(user) == slice_of(&one))
        .unwrap();
    let mut gateway = platform.gateway("a", slice_of(&one)).await;
    let comes = gateway.next(gateway.entry, &[other], &[]);
    let refused = platform.store.apply(&comes).await;
    assert!(
        matches!(refused, Err(StoreError::Refused(_))),
        "{refused:?}"
    );
}
