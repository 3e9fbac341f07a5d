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
    who_is_not_online_is_nowhere,
);

impl Platform {
    /// A gateway says where a user is.
    async fn tells(&self, name: &str, number: u64, user: &UserId, at: Option<&str>) -> ToldWhereabouts {
        let users = vec![(user.clone(), at.map(live))];
        let call = TellWhereabouts { slice: user.slice_index(SLICES), gateway: gateway(name), number, users };
        self.store.tell_whereabouts(&call).await.unwrap()
    }

    async fn words(&self, user: &UserId) -> Vec<(GatewayId, LiveId)> {
        self.store.presence_of(std::slice::from_ref(user)).await.unwrap().remove(0).lives
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

async fn who_is_not_online_is_nowhere(platform: Platform) {
    let (here, away) = (user(1), user(2));
    platform.tells("a", 1, &here, Some("1")).await;
    platform.tells("a", 2, &away, Some("1")).await;
    platform.come(std::slice::from_ref(&here)).await;
    assert_eq!((platform.words(&here).await, platform.words(&away).await), (said(&[("a", "1")]), vec![]));
}
