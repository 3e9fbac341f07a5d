//! When users of the platform were seen last: the call that takes users out of the set of those
//! online notes it, and the call that puts them in forgets it, so that everybody is in one of the
//! two at every moment.

use rollcall::features::WholeStore;
use std::sync::Arc;

use rollcall::base::clock::{UnixMillis, unix_now};
use rollcall::base::ids::{SliceId, USERS_SLICES, UserId};
use rollcall::store::{Apply, ApplyReply, OnlineCount, Span};

use super::{Caller, is_refused, is_seen, on_each, sweep, user, users_slice};

on_each!(
    a_call_forgets_who_comes_and_notes_who_goes,
    the_last_gateway_that_lets_go_notes_it,
    a_refused_call_notes_nothing,
    a_sweep_notes_whom_nobody_else_holds,
);

/// So many users of one slice.
fn mates(count: usize) -> Vec<UserId> {
    let slice = online(&user(0));
    (0..)
        .map(user)
        .filter(|user| online(user) == slice)
        .take(count)
        .collect()
}

/// The slice of the users online in which a user is.
fn online(user: &UserId) -> SliceId {
    users_slice(user.slice_index(USERS_SLICES))
}

fn gateway(store: &Arc<dyn WholeStore>, name: &str) -> Caller {
    Caller::new(store, name).in_slice(online(&user(0)))
}

/// A call with the times when those who leave were here last.
async fn changes(
    caller: &mut Caller,
    joins: &[UserId],
    leaves: &[(&UserId, UnixMillis)],
) -> ApplyReply {
    let gone: Vec<UserId> = leaves.iter().map(|(user, _)| (*user).clone()).collect();
    let left = Some(leaves.iter().map(|(_, at)| *at).collect());
    let call = Apply {
        left,
        ..caller.next(caller.entry, joins, &gone)
    };
    let reply = caller.store.apply(&call).await.unwrap();
    if matches!(reply, ApplyReply::Done(_)) {
        caller.entry = Some(call.number);
    }
    reply
}

async fn comes(caller: &mut Caller, users: &[UserId]) {
    assert!(matches!(
        changes(caller, users, &[]).await,
        ApplyReply::Done(_)
    ));
}

async fn goes(caller: &mut Caller, leaves: &[(&UserId, UnixMillis)]) {
    assert!(matches!(
        changes(caller, &[], leaves).await,
        ApplyReply::Done(_)
    ));
}

/// For each user: whether the user is online, and when the user was seen last.
async fn known(store: &Arc<dyn WholeStore>, users: &[UserId]) -> Vec<(bool, Option<UnixMillis>)> {
    let known = store.presence_of(users).await.unwrap();
    known
        .into_iter()
        .map(|presence| (presence.online, presence.last_seen))
        .collect()
}

async fn count(store: &Arc<dyn WholeStore>) -> OnlineCount {
    store.count_online(Span::ALL).await.unwrap()
}

async fn a_call_forgets_who_comes_and_notes_who_goes(store: Arc<dyn WholeStore>) {
    let (mut a, users) = (gateway(&store, "a"), mates(3));
    is_seen(&store, &users[0], 5).await;
    comes(&mut a, &users).await;
    assert_eq!(known(&store, &users).await, [(true, None); 3]);
    assert_eq!(count(&store).await, OnlineCount { online: 3, seen: 0 });
    goes(&mut a, &[(&users[0], 70), (&users[1], 80)]).await;
    assert_eq!(
        known(&store, &users).await,
        [(false, Some(70)), (false, Some(80)), (true, None)]
    );
    assert_eq!(count(&store).await, OnlineCount { online: 1, seen: 2 });
    // One comes back while another goes.
    let reply = changes(&mut a, &users[..1], &[(&users[2], 90)]).await;
    assert!(matches!(reply, ApplyReply::Done(_)));
    assert_eq!(
        known(&store, &users).await,
        [(true, None), (false, Some(80)), (false, Some(90))]
    );
    // Whoever was seen later, without a socket, stays so.
    is_seen(&store, &users[0], 500).await;
    goes(&mut a, &[(&users[0], 400)]).await;
    is_seen(&store, &users[0], 500).await;
    assert_eq!(known(&store, &users[..1]).await, [(false, Some(500))]);
    // A gateway that does not know when somebody left means now.
    comes(&mut a, &users[..1]).await;
    let before = unix_now();
    a.leaves(&users[..1]).await;
    let seen = known(&store, &users[..1]).await[0].1.unwrap();
    assert!(
        (before.saturating_sub(5_000)..=unix_now() + 5_000).contains(&seen),
        "{seen} is not about {before}"
    );
}

async fn the_last_gateway_that_lets_go_notes_it(store: Arc<dyn WholeStore>) {
    let (mut a, mut b, users) = (gateway(&store, "a"), gateway(&store, "b"), mates(1));
    comes(&mut a, &users).await;
    comes(&mut b, &users).await;
    goes(&mut a, &[(&users[0], 70)]).await;
    assert_eq!(known(&store, &users).await, [(true, None)]);
    goes(&mut b, &[(&users[0], 60)]).await;
    assert_eq!(known(&store, &users).await, [(false, Some(60))]);
}

async fn a_refused_call_notes_nothing(store: Arc<dyn WholeStore>) {
    let (mut a, users) = (gateway(&store, "a"), mates(2));
    is_seen(&store, &users[1], 5).await;
    comes(&mut a, &users[..1]).await;
    let entry = a.entry;
    a.entry = Some(7_000);
    let refused = changes(&mut a, &users[1..], &[(&users[0], 70)]).await;
    assert!(is_refused(&refused, entry));
    let mut other = gateway(&store, "other");
    other.entry = Some(1);
    let refused = changes(&mut other, &users[1..], &[(&users[0], 70)]).await;
    assert!(is_refused(&refused, None));
    assert_eq!(
        known(&store, &users).await,
        [(true, None), (false, Some(5))]
    );
    a.entry = entry;
    goes(&mut a, &[(&users[0], 80)]).await;
    assert_eq!(
        known(&store, &users).await,
        [(false, Some(80)), (false, Some(5))]
    );
}

async fn a_sweep_notes_whom_nobody_else_holds(store: Arc<dyn WholeStore>) {
    let (mut a, mut b, users) = (gateway(&store, "a"), gateway(&store, "b"), mates(3));
    comes(&mut a, &users[..2]).await;
    comes(&mut b, &users[1..3]).await;
    sweep(&store, &a.slice, 1, &[("a", 70)]).await;
    assert_eq!(
        known(&store, &users).await,
        [(false, Some(70)), (true, None), (true, None)]
    );
    assert_eq!(count(&store).await, OnlineCount { online: 2, seen: 1 });
}
