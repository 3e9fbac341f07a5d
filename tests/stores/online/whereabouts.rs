//! In which live each user is, as the gateways say.

use std::collections::{BTreeMap, BTreeSet};

use rollcall::base::ids::{GatewayId, LiveId, UserId};
use rollcall::store::{Chain, MAX_WHEREABOUTS, TellWhereabouts, ToldWhereabouts};

use super::{Place, Platform, SLICES, on_each_platform, set_of};
use crate::conformance::{gateway, live, user};

on_each_platform!(
    every_gateway_has_its_own_word_and_the_latest_comes_last,
    a_call_that_comes_late_does_nothing,
    calls_without_an_answer_do_not_break_the_chain,
    a_loss_breaks_the_chain_until_a_call_is_answered,
    the_words_of_the_dead_are_dropped,
    so_many_words_are_kept_of_a_user,
    a_gateway_says_all_lives_of_a_user_at_once,
    words_may_come_before_the_user_is_online,
);

impl Platform {
    /// A gateway says where a user is. It knows of no answer.
    async fn tells(&self, name: &str, number: u64, user: &UserId, at: Option<&str>) -> ToldWhereabouts {
        let users = vec![(user.clone(), at.map(live).into_iter().collect())];
        let (slice, gateway) = (user.slice_index(SLICES), gateway(name));
        self.store.tell_whereabouts(&TellWhereabouts { slice, gateway, number, known: 0, users }).await.unwrap()
    }

    /// Gateway `a` makes a call of this number about the slice of `user(1)`, and knows of the answer to that one.
    async fn asks(&self, number: u64, known: u64) -> ToldWhereabouts {
        let (slice, gateway) = (user(1).slice_index(SLICES), gateway("a"));
        let call = TellWhereabouts { slice, gateway, number, known, users: Vec::new() };
        self.store.tell_whereabouts(&call).await.unwrap()
    }

    async fn loses_the_mark(&self) {
        self.store.forget_whereabouts(user(1).slice_index(SLICES), &[gateway("a")], &[]).await.unwrap();
    }

    async fn words(&self, user: &UserId) -> Vec<(GatewayId, LiveId)> {
        self.store.whereabouts_of(std::slice::from_ref(user)).await.unwrap().remove(0)
    }
}

fn said(words: &[(&str, &str)]) -> Vec<(GatewayId, LiveId)> {
    words.iter().map(|(name, at)| (gateway(name), live(at))).collect()
}

const UNBROKEN: ToldWhereabouts = ToldWhereabouts::Noted(Chain::Unbroken);
const BROKEN: ToldWhereabouts = ToldWhereabouts::Noted(Chain::Broken);

async fn every_gateway_has_its_own_word_and_the_latest_comes_last(platform: Platform) {
    let user = user(1);
    platform.come(std::slice::from_ref(&user)).await;
    assert_eq!(platform.words(&user).await, []);
    assert_eq!(platform.tells("a", 1, &user, Some("1")).await, UNBROKEN);
    assert_eq!(platform.tells("b", 7, &user, Some("2")).await, UNBROKEN);
    assert_eq!(platform.words(&user).await, said(&[("a", "1"), ("b", "2")]));
    assert_eq!(platform.tells("a", 2, &user, Some("3")).await, UNBROKEN);
    assert_eq!(platform.words(&user).await, said(&[("b", "2"), ("a", "3")]));
    assert_eq!(platform.tells("b", 9, &user, None).await, UNBROKEN);
    assert_eq!(platform.words(&user).await, said(&[("a", "3")]));
    platform.tells("a", 3, &user, None).await;
    assert_eq!(platform.words(&user).await, []);
}

async fn a_call_that_comes_late_does_nothing(platform: Platform) {
    let user = user(1);
    platform.come(std::slice::from_ref(&user)).await;
    assert_eq!(platform.tells("a", 5, &user, None).await, UNBROKEN);
    for number in [4, 5] {
        assert_eq!(platform.tells("a", number, &user, Some("1")).await, ToldWhereabouts::Old);
    }
    assert_eq!(platform.words(&user).await, []);
    // A question alone.
    assert_eq!([platform.asks(6, 5).await, platform.asks(5, 5).await], [UNBROKEN, ToldWhereabouts::Old]);
}

async fn calls_without_an_answer_do_not_break_the_chain(platform: Platform) {
    for (number, known) in [(1, 0), (2, 0), (5, 2), (6, 2), (9, 2), (10, 9), (11, 10), (12, 10)] {
        assert_eq!(platform.asks(number, known).await, UNBROKEN, "{number} after {known}");
    }
}

async fn a_loss_breaks_the_chain_until_a_call_is_answered(platform: Platform) {
    assert_eq!(platform.asks(1, 0).await, UNBROKEN);
    assert_eq!(platform.asks(2, 1).await, UNBROKEN);
    platform.loses_the_mark().await;
    for number in 3..6 {
        assert_eq!(platform.asks(number, 2).await, BROKEN, "{number}");
    }
    assert_eq!(platform.asks(6, 5).await, UNBROKEN);
    // Between calls without an answer.
    platform.loses_the_mark().await;
    assert_eq!([platform.asks(7, 5).await, platform.asks(8, 5).await], [BROKEN; 2]);
    // What the store has is older.
    assert_eq!(platform.asks(20, 19).await, BROKEN);
    // A gateway that knows of no answer has nothing to lose.
    assert_eq!(platform.asks(21, 0).await, UNBROKEN);
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
        let (slice, gateway) = (user.slice_index(SLICES), gateway("a"));
        let call = TellWhereabouts { slice, gateway, number, known: number - 1, users };
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

/// A former version of this program kept the number alone.
#[tokio::test]
async fn a_mark_without_a_base_is_its_own_base() {
    let platform = Platform::on_redis().await;
    let Place::Server(server) = &platform.place else { unreachable!() };
    let key = format!("{{{}}}:lives", set_of(&user(1)));
    server.cli(&["HSET", &key, "#a", "7"]);
    assert_eq!([platform.asks(7, 6).await, platform.asks(8, 7).await], [ToldWhereabouts::Old, UNBROKEN]);
    server.cli(&["HSET", &key, "#a", "9"]);
    assert_eq!(platform.asks(10, 8).await, BROKEN);
}
