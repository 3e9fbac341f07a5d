//! Members of a slice who are in no list: for as long as they are in the slice, and together with it.

use std::sync::Arc;
use std::time::Duration;

use rollcall::base::ids::{Epoch, GatewayId, LiveId, OnlineSet, SliceId, USERS_SLICES, UserId};
use rollcall::store::{Apply, ApplyReply, OnlineCount, Span, Store, Strays, TellWhereabouts};

use super::{Caller, fans, on_each, slice, user, users};

on_each!(
    an_invisible_user_counts_and_is_in_no_list,
    a_user_stays_invisible_until_the_last_gateway_lets_go,
    a_user_who_is_there_becomes_invisible,
    a_sweep_and_a_close_forget_the_invisible,
    a_thousand_may_be_invisible,
    what_is_known_of_an_invisible_user_is_what_was_known_before,
    nobody_knows_where_an_invisible_user_is,
    an_invisible_user_who_is_seen_without_a_socket_is_remembered,
    very_many_invisible_users_count_once,
);

/// A call of a gateway in which all who join are invisible.
async fn hides(caller: &mut Caller, joins: &[UserId], leaves: &[UserId]) -> u64 {
    let call = Apply { invisible: joins.len(), ..caller.next(caller.entry, joins, leaves) };
    match caller.store.apply(&call).await.unwrap() {
        ApplyReply::Done(view) => {
            caller.entry = Some(caller.number);
            view.size.card
        }
        refused => panic!("{refused:?}"),
    }
}

async fn listed_in(store: &Arc<dyn Store>, slice: &SliceId) -> Vec<UserId> {
    let mut listed = store.listed(slice).await.unwrap();
    listed.sort();
    listed.dedup();
    listed
}

async fn listed(store: &Arc<dyn Store>) -> Vec<UserId> {
    listed_in(store, &slice()).await
}

async fn an_invisible_user_counts_and_is_in_no_list(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 2)).await;
    assert_eq!(listed(&store).await, users(0, 2));
    assert_eq!(hides(&mut a, &users(2, 4), &[]).await, 4);
    assert_eq!(fans(&store, &slice()).await, users(0, 4));
    assert_eq!(listed(&store).await, users(0, 2));
    let asked = [user(0), user(2), user(9), user(3), user(1)];
    assert_eq!(store.are_listed(&slice(), &asked).await.unwrap(), [true, false, false, false, true]);
    assert!(store.are_listed(&slice(), &[]).await.unwrap().is_empty());
    assert!(store.is_fan_online(&slice(), &user(2)).await.unwrap());
    // Some of a call are invisible.
    let call = Apply { invisible: 1, ..a.next(a.entry, &[user(6), user(5)], &[user(2)]) };
    assert!(matches!(store.apply(&call).await.unwrap(), ApplyReply::Done(_)));
    assert_eq!(listed(&store).await, [user(0), user(1), user(5)]);
}

async fn a_user_stays_invisible_until_the_last_gateway_lets_go(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    b.registers(&users(0, 1)).await;
    hides(&mut a, &users(0, 1), &[]).await;
    assert!(listed(&store).await.is_empty());
    a.leaves(&users(0, 1)).await;
    a.joins(&users(0, 1)).await;
    assert!(listed(&store).await.is_empty(), "the other gateway holds the user all the time");
    a.leaves(&users(0, 1)).await;
    b.leaves(&users(0, 1)).await;
    b.joins(&users(0, 1)).await;
    assert_eq!(listed(&store).await, users(0, 1));
}

async fn a_user_who_is_there_becomes_invisible(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 2)).await;
    assert_eq!(hides(&mut a, &users(0, 1), &[]).await, 2);
    assert_eq!(listed(&store).await, users(1, 2));
    // Calls that come late or twice change nothing.
    let call = a.next(a.entry.map(|entry| entry - 1), &users(0, 1), &[]);
    assert_eq!(store.apply(&call).await.unwrap(), ApplyReply::Old);
    assert_eq!(listed(&store).await, users(1, 2));
}

async fn a_sweep_and_a_close_forget_the_invisible(store: Arc<dyn Store>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    hides(&mut a, &users(0, 2), &[]).await;
    hides(&mut b, &users(1, 3), &[]).await;
    store.sweep(&slice(), &a.name, 1_000, 0).await.unwrap();
    assert_eq!((fans(&store, &slice()).await, listed(&store).await), (users(1, 3), Vec::new()));
    b.joins(&users(0, 1)).await;
    assert_eq!(listed(&store).await, users(0, 1));
    assert_eq!(store.strays(&slice(), 0, 1_000, Strays::Drop).await.unwrap().strays, 0);
    store.close_slice(&slice(), Epoch(1)).await.unwrap();
    let mut c = Caller { epoch: 2, ..Caller::new(&store, "c") };
    c.registers(&users(0, 3)).await;
    assert_eq!(listed(&store).await, users(0, 3));
}

async fn a_thousand_may_be_invisible(store: Arc<dyn Store>) {
    let mut a = Caller::new(&store, "a");
    hides(&mut a, &users(0, 1_000), &[]).await;
    a.joins(&users(1_000, 2_000)).await;
    assert_eq!(listed(&store).await, users(1_000, 2_000));
    let are = store.are_listed(&slice(), &users(500, 1_500)).await.unwrap();
    assert_eq!(are.iter().filter(|listed| **listed).count(), 500);
    assert_eq!(a.leaves(&users(0, 1_000)).await.size.card, 1_000);
    assert_eq!(listed(&store).await, users(1_000, 2_000));
}

/// The users online of whose slice a user is.
fn online_with(user: &UserId) -> SliceId {
    SliceId { set: OnlineSet::Users, index: user.slice_index(USERS_SLICES), of: USERS_SLICES }
}

async fn what_is_known_of_an_invisible_user_is_what_was_known_before(store: Arc<dyn Store>) {
    let one = user(1);
    let online = online_with(&one);
    store.note_seen(&[(one.clone(), 700)], Duration::ZERO).await.unwrap();
    let before = store.presence_of(std::slice::from_ref(&one)).await.unwrap();
    let mut a = Caller { slice: online.clone(), ..Caller::new(&store, "a") };
    hides(&mut a, std::slice::from_ref(&one), &[]).await;
    assert_eq!(store.presence_of(std::slice::from_ref(&one)).await.unwrap(), before);
    assert!(listed_in(&store, &online).await.is_empty());
    let count = async |from, to| store.count_online(Span { from, to }).await.unwrap();
    assert_eq!(count(0, u64::MAX).await, OnlineCount { online: 1, seen: 0 });
    assert_eq!(count(700, 700).await, OnlineCount { online: 1, seen: 0 });
    assert_eq!(count(701, 900).await, OnlineCount { online: 1, seen: 0 });
    a.leaves(std::slice::from_ref(&one)).await;
    assert_eq!(store.presence_of(std::slice::from_ref(&one)).await.unwrap(), before);
    assert_eq!(count(0, u64::MAX).await, OnlineCount { online: 0, seen: 1 });
}

async fn nobody_knows_where_an_invisible_user_is(store: Arc<dyn Store>) {
    let (one, two) = (user(1), user(2));
    for user in [&one, &two] {
        let users = vec![(user.clone(), vec![LiveId::parse("42").unwrap()])];
        let slice = user.slice_index(USERS_SLICES);
        let call = TellWhereabouts { slice, gateway: GatewayId::parse("a").unwrap(), number: 1, known: 0, users };
        store.tell_whereabouts(&call).await.unwrap();
    }
    let words = async || {
        let words = store.whereabouts_of(&[one.clone(), two.clone()]).await.unwrap();
        words.iter().map(Vec::len).collect::<Vec<_>>()
    };
    let mut a = Caller { slice: online_with(&one), ..Caller::new(&store, "a") };
    hides(&mut a, std::slice::from_ref(&one), &[]).await;
    assert_eq!(words().await, [0, 1]);
    a.leaves(std::slice::from_ref(&one)).await;
    assert_eq!(words().await, [1, 1]);
}

async fn an_invisible_user_who_is_seen_without_a_socket_is_remembered(store: Arc<dyn Store>) {
    let one = user(1);
    let seen = async || store.presence_of(std::slice::from_ref(&one)).await.unwrap().remove(0).last_seen;
    let mut a = Caller { slice: online_with(&one), ..Caller::new(&store, "a") };
    hides(&mut a, std::slice::from_ref(&one), &[]).await;
    for (at, known) in [(700, 700), (900, 900), (800, 900)] {
        store.note_seen(&[(one.clone(), at)], Duration::ZERO).await.unwrap();
        assert_eq!(seen().await, Some(known));
    }
    assert_eq!(store.count_online(Span::ALL).await.unwrap(), OnlineCount { online: 1, seen: 0 });
    a.leaves(std::slice::from_ref(&one)).await;
    assert_eq!(seen().await, Some(900));
    // Everybody may know of the next visit.
    a.joins(std::slice::from_ref(&one)).await;
    store.note_seen(&[(one.clone(), 950)], Duration::ZERO).await.unwrap();
    assert_eq!(store.count_online(Span::ALL).await.unwrap(), OnlineCount { online: 1, seen: 0 });
    assert_eq!(seen().await, None);
}

async fn very_many_invisible_users_count_once(store: Arc<dyn Store>) {
    let first = user(1);
    let online = online_with(&first);
    let mine: Vec<UserId> = (1..).map(user).filter(|user| online_with(user) == online).take(2_500).collect();
    let mut a = Caller { slice: online, ..Caller::new(&store, "a") };
    for some in mine.chunks(500) {
        let seen: Vec<(UserId, u64)> = some.iter().map(|user| (user.clone(), 700)).collect();
        store.note_seen(&seen, Duration::ZERO).await.unwrap();
    }
    hides(&mut a, &mine[..500], &[]).await;
    for some in mine[500..2_000].chunks(500) {
        hides(&mut a, some, &[]).await;
    }
    let count = async |from, to| store.count_online(Span { from, to }).await.unwrap();
    assert_eq!(count(0, u64::MAX).await, OnlineCount { online: 2_000, seen: 500 });
    assert_eq!(count(700, 700).await, OnlineCount { online: 2_000, seen: 500 });
    assert_eq!(count(701, 900).await, OnlineCount { online: 2_000, seen: 0 });
}
