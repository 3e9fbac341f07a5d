//! In which live each user is, as the gateways say.

use std::collections::{BTreeMap, BTreeSet};

use rollcall::base::ids::{GatewayId, LiveId, UserId};
use rollcall::store::{MAX_WHEREABOUTS, TellWhereabouts, ToldWhereabouts};

use super::{Platform, SLICES, on_each_platform};
use crate::conformance::{gateway, live, user};

on_each_platform!(
    every_gateway_has_its_own_word_and_the_latest_comes_last,
    a_call_that_comes_late_does_nothing,
    the_words_of_the_dead_are_dropped,
    so_many_words_are_kept_of_a_user,
    a_gateway_says_all_lives_of_a_user_at_once,
    words_may_come_before_the_user_is_online,
);

impl Platform {
    /// A gateway says where a user is.
    async fn tells(&self, name: &str, number: u64, user: &UserId, at: Option<&str>) -> ToldWhereabouts {
        let users = vec![(user.clone(), at.map(live).into_iter().collect())];
        let call = TellWhereabouts { slice: user.slice_index(SLICES), gateway: gateway(name), number, users };
        self.store.tell_whereabouts(&call).await.unwrap()
    }

    async fn words(&self, user: &UserId) -> Vec<(GatewayId, LiveId)> {
        self.store.whereabouts_of(std::slice::from_ref(user)).await.unwrap().remove(0)
    }
}

fn said(words: &[(&str, &str)]) -> Vec<(GatewayId, LiveId)> {
    words.iter().map(|(name, at)| (gateway(name), live(at))).collect()
}

const fn noted(before: u64) -> ToldWhereabouts {
    ToldWhereabouts::Noted { before }
}

async fn every_gateway_has_its_own_word_and_the_latest_comes_last(platform: Platform) {
    let user = user(1);
    platform.come(std::slice::from_ref(&user)).await;
    assert_eq!(platform.words(&user).await, []);
    assert_eq!(platform.tells("a", 1, &user, Some("1")).await, noted(0));
    assert_eq!(platform.tells("b", 7, &user, Some("2")).await, noted(0));
    assert_eq!(platform.words(&user).await, said(&[("a", "1"), ("b", "2")]));
    assert_eq!(platform.tells("a", 2, &user, Some("3")).await, noted(1));
    assert_eq!(platform.words(&user).await, said(&[("b", "2"), ("a", "3")]));
    assert_eq!(platform.tells("b", 9, &user, None).await, noted(7));
    assert_eq!(platform.words(&user).await, said(&[("a", "3")]));
    platform.tells("a", 3, &user, None).await;
    assert_eq!(platform.words(&user).await, []);
}

async fn a_call_that_comes_late_does_nothing(platform: Platform) {
    let user = user(1);
    platform.come(std::slice::from_ref(&user)).await;
    assert_eq!(platform.tells("a", 5, &user, None).await, noted(0));
    for number in [4, 5] {
        assert_eq!(platform.tells("a", number, &user, Some("1")).await, ToldWhereabouts::Old);
    }
    assert_eq!(platform.words(&user).await, []);
    // A question alone.
    let slice = user.slice_index(SLICES);
    let asks = TellWhereabouts { slice, gateway: gateway("a"), number: 6, users: Vec::new() };
    assert_eq!(platform.store.tell_whereabouts(&asks).await.unwrap(), noted(5));
}

async fn the_words_of_the_dead_are_dropped(platform: Platform) {
    let (one, slice) = (user(1), user(1).slice_index(SLICES));
    let other = (2..).map(user).find(|user| user.slice_index(SLICES) == slice).unwrap();
    platform.come(&[one.clone(), other.clone()]).await;
    platform.tells("a", 1, &one, Some("1")).await;
    platform.tells("b", 1, &one, Some("2")).await;
    platform.tells("b", 2, &other, Some("2")).await;
    let page = platform.store.whereabouts_page(slice, 0).await.unwrap();
    let gateways: BTreeSet<GatewayId> = ["a", "b"].map(gateway).into();
    assert_eq!((&page.gateways, page.next), (&gateways, None));
    let words = [(one.clone(), said(&[("a", "1"), ("b", "2")])), (other.clone(), said(&[("b", "2")]))];
    assert_eq!(BTreeMap::from_iter(page.said.clone()), BTreeMap::from(words));
    platform.store.forget_whereabouts(slice, &[gateway("b"), gateway("never")], &page.users()).await.unwrap();
    assert_eq!(platform.words(&one).await, said(&[("a", "1")]));
    assert_eq!(platform.words(&other).await, []);
    let page = platform.store.whereabouts_page(slice, 0).await.unwrap();
    assert_eq!((page.users(), page.gateways), (vec![one.clone()], [gateway("a")].into()));
    platform.store.forget_whereabouts(slice, &[], std::slice::from_ref(&one)).await.unwrap();
    assert_eq!(platform.words(&one).await, said(&[("a", "1")]));
}

async fn so_many_words_are_kept_of_a_user(platform: Platform) {
    let user = user(1);
    platform.come(std::slice::from_ref(&user)).await;
    for n in 0..=MAX_WHEREABOUTS {
        platform.tells(&format!("g{n}"), 1, &user, Some("1")).await;
    }
    let words = platform.words(&user).await;
    assert_eq!((words.len(), &words[0].0), (MAX_WHEREABOUTS, &gateway("g1")));
}

async fn a_gateway_says_all_lives_of_a_user_at_once(platform: Platform) {
    let user = user(1);
    let tells = async |number, lives: &[&str]| {
        let users = vec![(user.clone(), lives.iter().map(|at| live(at)).collect())];
        let call = TellWhereabouts { slice: user.slice_index(SLICES), gateway: gateway("a"), number, users };
        platform.store.tell_whereabouts(&call).await.unwrap()
    };
    platform.tells("b", 1, &user, Some("9")).await;
    tells(1, &["1", "2"]).await;
    assert_eq!(platform.words(&user).await, said(&[("b", "9"), ("a", "1"), ("a", "2")]));
    tells(2, &["2"]).await;
    assert_eq!(platform.words(&user).await, said(&[("b", "9"), ("a", "2")]));
    let many: Vec<String> = (0..MAX_WHEREABOUTS + 3).map(|n| n.to_string()).collect();
    tells(3, &many.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let words = platform.words(&user).await;
    assert_eq!((words.len(), words[0].1.as_str()), (MAX_WHEREABOUTS, "3"));
    tells(4, &[]).await;
    assert_eq!(platform.words(&user).await, []);
}

async fn words_may_come_before_the_user_is_online(platform: Platform) {
    let user = user(1);
    let shown = async || platform.store.presence_of(std::slice::from_ref(&user)).await.unwrap().remove(0).lives;
    platform.tells("a", 1, &user, Some("1")).await;
    assert_eq!((platform.words(&user).await, shown().await), (said(&[("a", "1")]), vec![]));
    platform.come(std::slice::from_ref(&user)).await;
    assert_eq!((platform.words(&user).await, shown().await), (said(&[("a", "1")]), said(&[("a", "1")])));
}
