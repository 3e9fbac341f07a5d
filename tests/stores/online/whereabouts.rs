//! In which live each user is, as the gateways say: noted beside the users online, by the calls
//! that change them.

use rollcall::base::ids::{Epoch, GatewayId, LiveId, OnlineSet, SliceId, UserId};
use rollcall::store::{
    Apply, ApplyReply, MAX_BATCH, SliceSize, StoreError, StoreResult, Whereabouts,
};

use super::{Place, Platform, SLICES, on_each_platform, set_of};
use crate::conformance::{gateway, live, user};

on_each_platform!(
    every_gateway_has_its_own_word_and_the_latest_comes_last,
    a_gateway_says_all_lives_of_a_user_at_once,
    a_user_who_leaves_a_gateway_is_in_no_live_there,
    the_words_of_the_dead_go_with_their_users,
    a_gateway_reads_back_what_it_said,
);

fn slice_of(user: &UserId) -> SliceId {
    SliceId {
        set: OnlineSet::Users,
        index: user.slice_index(SLICES),
        of: SLICES,
    }
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
        assert!(matches!(
            self.try_call(name, user, change).await.unwrap(),
            ApplyReply::Done(_)
        ));
    }

    async fn try_call(
        &self,
        name: &str,
        user: &UserId,
        change: impl FnOnce(Apply) -> Apply,
    ) -> StoreResult<ApplyReply> {
        let (slice, gateway) = (slice_of(user), gateway(name));
        let entry = self.store.read_slice(&slice, &gateway).await.unwrap().entry;
        let call = Apply {
            slice,
            epoch: Epoch(1),
            gateway,
            number: entry.unwrap_or(0) + 1,
            follows: entry,
            known: SliceSize::default(),
            uniques: false,
            joins: Vec::new(),
            fans: Vec::new(),
            since: Vec::new(),
            lives: Vec::new(),
            leaves: Vec::new(),
            left: None,
        };
        self.store.apply(&change(call)).await
    }

    async fn words(&self, user: &UserId) -> Whereabouts {
        self.store
            .whereabouts_of(std::slice::from_ref(user))
            .await
            .unwrap()
            .remove(0)
    }

    async fn noted(&self, user: &UserId) -> Option<u64> {
        self.store
            .read_slice(&slice_of(user), &gateway("a"))
            .await
            .unwrap()
            .noted
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
    assert_eq!(
        (platform.words(&user).await, platform.noted(&user).await),
        (said(&[]), Some(1))
    );
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
    assert_eq!(
        (platform.words(&user).await, platform.noted(&user).await),
        (said(&[("a", "3")]), Some(1))
    );
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
    assert_eq!(
        (platform.words(&user).await, platform.noted(&user).await),
        (said(&[("b", "2")]), Some(1))
    );
    platform.loses("b", &user).await;
    assert_eq!(
        (platform.words(&user).await, platform.noted(&user).await),
        (said(&[]), Some(0))
    );
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
    let swept = platform
        .store
        .sweep(&slice_of(&one), &gateway("b"), MAX_BATCH, 7)
        .await
        .unwrap();
    assert_eq!((swept.released, swept.done), (2, true));
    assert_eq!(
        (platform.words(&one).await, platform.words(&other).await),
        (said(&[("a", "1")]), said(&[]))
    );
    assert_eq!(platform.noted(&one).await, Some(1));
}

async fn a_gateway_reads_back_what_it_said(platform: Platform) {
    let one = user(1);
    let mut others = (2..)
        .map(user)
        .filter(|user| slice_of(user) == slice_of(&one));
    let [nowhere, elsewhere] = [(); 2].map(|()| others.next().unwrap());
    platform.tells("a", &one, &["2", "1"]).await;
    platform.tells("b", &one, &["3"]).await;
    platform.tells("a", &nowhere, &[]).await;
    platform.tells("b", &elsewhere, &["4"]).await;
    let held = platform
        .store
        .held_members(&slice_of(&one), &gateway("a"))
        .await
        .unwrap();
    assert_eq!(held.users, [one.clone(), nowhere.clone()].into());
    assert_eq!(
        held.lives,
        [(one, vec![live("2"), live("1")]), (nowhere, vec![])].into()
    );
    assert!(held.missing.is_empty());
}

/// What a gateway says that does not hold the user is nobody's. It is found, and goes with the next
/// call.
#[tokio::test]
async fn words_of_nobody_are_found_and_go_with_the_next_call() {
    let platform = Platform::on_redis().await;
    let Place::Server(server) = &platform.place else {
        unreachable!()
    };
    let one = user(1);
    let other = (2..)
        .map(user)
        .find(|user| slice_of(user) == slice_of(&one))
        .unwrap();
    platform.tells("a", &one, &["1"]).await;
    platform.tells("b", &other, &["2"]).await;
    let key = format!("{{{}}}:lives", set_of(&one));
    for words in ["b 2,a 1", "a 1,c 3"] {
        server.cli(&["HSET", &key, one.as_str(), words]);
        let held = platform
            .store
            .held_members(&slice_of(&one), &gateway("a"))
            .await
            .unwrap();
        assert_eq!(
            (held.missing, &held.lives[&one]),
            (vec![one.clone()], &vec![live("1")]),
            "{words}"
        );
        platform.tells("a", &one, &["1"]).await;
        assert_eq!(platform.words(&one).await, said(&[("a", "1")]));
    }
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
    let refused = platform.try_call("a", &other, |call| Apply {
        joins: vec![other.clone()],
        lives: vec![vec![]],
        ..call
    });
    assert!(matches!(refused.await, Err(StoreError::Refused(_))));
}
