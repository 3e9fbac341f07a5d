//! Sessions: from when to when each user was in a live with attendance, over all gateways, in the
//! very steps that add users to the set of all viewers and remove them.

use rollcall::features::WholeStore;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rollcall::base::clock::UnixMillis;
use rollcall::base::ids::{Epoch, SliceId, UserId};
use rollcall::features::attendance::store::Attended;
use rollcall::store::ApplyReply;
use rollcall::store::AttendedSession;
use rollcall::store::LiveEpoch;
use rollcall::store::MANY_SESSIONS;
use rollcall::store::MOST_SESSIONS;
use rollcall::store::Pass;
use rollcall::store::SHORT_BREAK;
use rollcall::store::SessionPlace;
use rollcall::store::Span;
use rollcall::store::Stays;

use super::former::redis;
use super::{Caller, live, on_each, passes, sweep, user, users};

/// Over how many slices the viewers are spread.
const SLICES: u32 = 2;

fn viewers(index: u32) -> SliceId {
    SliceId::of_live(live("42"), index, SLICES)
}

fn of(epoch: u64) -> LiveEpoch {
    LiveEpoch {
        live: live("42"),
        epoch: Epoch(epoch),
    }
}

fn attended(closed_at: Option<UnixMillis>) -> Attended {
    Attended {
        streamer: user(9),
        slices: SLICES,
        opened_at: 0,
        closed_at,
    }
}

/// A gateway with its part of both slices.
struct Gateway {
    parts: Vec<Caller>,
}

impl Gateway {
    fn new(store: &Arc<dyn WholeStore>, name: &str, epoch: u64) -> Self {
        let part = |index| {
            Caller::new(store, name)
                .in_slice(viewers(index))
                .in_epoch(epoch)
        };
        Self {
            parts: (1..=SLICES).map(part).collect(),
        }
    }

    /// Users join and leave at this time.
    async fn changes(&mut self, at: UnixMillis, joins: &[UserId], leaves: &[UserId]) {
        for part in &mut self.parts {
            let here = |users: &[UserId]| -> Vec<UserId> {
                users
                    .iter()
                    .filter(|user| user.slice_index(SLICES) == part.slice.index)
                    .cloned()
                    .collect()
            };
            let (joins, leaves) = (here(joins), here(leaves));
            part.changes_at(at, &joins, &leaves).await;
        }
    }
}

/// Every session of an epoch that began within `span`, in pages.
async fn listed(
    store: &Arc<dyn WholeStore>,
    of: &LiveEpoch,
    span: Span,
    limit: usize,
) -> Vec<AttendedSession> {
    let mut all: Vec<AttendedSession> = Vec::new();
    loop {
        let after = all.last().map(|last| last.place.clone());
        let (page, more) = store
            .sessions_page(of, SLICES, span, after.as_ref(), limit)
            .await
            .unwrap();
        assert!(page.len() <= limit, "a page of {}", page.len());
        assert!(!more || !page.is_empty(), "a page of nobody goes on");
        all.extend(page);
        if !more {
            let places: Vec<_> = all.iter().map(|session| session.place.clone()).collect();
            assert!(places.is_sorted(), "{places:?}");
            assert_eq!(
                store.count_sessions(of, SLICES, span).await.unwrap(),
                all.len() as u64
            );
            return all;
        }
    }
}

/// Begin and end of each session, in their order.
async fn times(
    store: &Arc<dyn WholeStore>,
    epoch: u64,
) -> Vec<(UserId, UnixMillis, Option<UnixMillis>)> {
    let all = listed(store, &of(epoch), Span::ALL, 3).await;
    all.into_iter()
        .map(|it| (it.place.user, it.place.joined_at, it.left_at))
        .collect()
}

async fn a_session_is_from_the_first_join_to_the_last_leave_over_all_gateways(
    store: Arc<dyn WholeStore>,
) {
    let (mut a, mut b) = (Gateway::new(&store, "a", 7), Gateway::new(&store, "b", 7));
    a.changes(1_000, &users(0, 2), &[]).await;
    b.changes(2_000, &users(1, 3), &[]).await;
    a.changes(3_000, &[], &users(0, 2)).await;
    let (u0, u1, u2) = (user(0), user(1), user(2));
    let first = (u0.clone(), 1_000, Some(3_000));
    let expected = [
        first.clone(),
        (u1.clone(), 1_000, None),
        (u2.clone(), 2_000, None),
    ];
    assert_eq!(times(&store, 7).await, expected);
    b.changes(4_000, &users(0, 1), &users(1, 2)).await;
    let expected = [
        first,
        (u1.clone(), 1_000, Some(4_000)),
        (u2.clone(), 2_000, None),
        (u0.clone(), 4_000, None),
    ];
    assert_eq!(times(&store, 7).await, expected);
    // Who entered in that time.
    let some = listed(
        &store,
        &of(7),
        Span {
            from: 1_500,
            to: 4_000,
        },
        1,
    )
    .await;
    assert_eq!(
        some.iter()
            .map(|it| it.place.user.clone())
            .collect::<Vec<_>>(),
        [u2, u0.clone()]
    );
    // The user's own sum, whichever of the sessions is listed.
    let all = listed(&store, &of(7), Span::ALL, 10).await;
    let of_u0: Vec<&AttendedSession> = all.iter().filter(|it| it.place.user == u0).collect();
    assert_eq!(
        of_u0
            .iter()
            .map(|it| it.watched.until(4_500))
            .collect::<Vec<_>>(),
        [2_500; 2]
    );
    assert_ne!(of_u0[0].id, of_u0[1].id);
    let latest = store
        .latest_sessions(&of(7), SLICES, &[user(7), u0.clone(), u1])
        .await
        .unwrap();
    let known = |at: usize| latest[at].map(|stay| (stay.joined_at, stay.left_at));
    assert_eq!(
        [known(0), known(1), known(2)],
        [None, Some((4_000, None)), Some((1_000, Some(4_000)))]
    );
    assert_eq!(latest[1].map(|stay| stay.id), Some(of_u0[1].id));
    assert_eq!(
        of_u0[1].place,
        SessionPlace {
            joined_at: 4_000,
            user: u0,
            number: 2
        }
    );
}

async fn a_move_is_no_break_in_whichever_order_the_gateways_are_heard(store: Arc<dyn WholeStore>) {
    let (mut old, mut new) = (
        Gateway::new(&store, "old", 7),
        Gateway::new(&store, "new", 7),
    );
    old.changes(1_000, &users(0, 1), &[]).await;
    old.changes(5_000, &[], &users(0, 1)).await;
    // The user had been at the new gateway for a while when the old one let go.
    new.changes(4_900, &users(0, 1), &[]).await;
    assert_eq!(times(&store, 7).await, [(user(0), 1_000, None)]);
    new.changes(9_000, &[], &users(0, 1)).await;
    // A gateway that knows of an earlier time, in a user's first session only.
    old.changes(8_000, &users(0, 1), &[]).await;
    assert_eq!(times(&store, 7).await, [(user(0), 1_000, None)]);
    old.changes(500, &users(0, 1), &[]).await;
    assert_eq!(times(&store, 7).await, [(user(0), 500, None)]);
}

/// The gateway died at this time.
async fn is_swept(store: &Arc<dyn WholeStore>, name: &str, at: UnixMillis) {
    for index in 1..=SLICES {
        sweep(store, &viewers(index), 7, &[(name, at)]).await;
    }
}

async fn a_sweep_ends_sessions(store: Arc<dyn WholeStore>) {
    let (mut a, mut b) = (Gateway::new(&store, "a", 7), Gateway::new(&store, "b", 7));
    a.changes(1_000, &users(0, 3), &[]).await;
    b.changes(2_000, &users(2, 3), &[]).await;
    is_swept(&store, "a", 1_500).await;
    let ended: Vec<_> = times(&store, 7)
        .await
        .into_iter()
        .map(|(_, _, left_at)| left_at)
        .collect();
    assert_eq!(
        ended,
        [Some(1_500), Some(1_500), None],
        "the last is at the other gateway"
    );
    // A sweep that knows of an earlier sign of life than the join leaves no session of negative
    // length.
    is_swept(&store, "b", 10).await;
    assert_eq!(times(&store, 7).await[2].2, Some(1_000));
}

async fn a_sweep_of_several_gateways_ends_a_session_when_the_last_was_heard(
    store: Arc<dyn WholeStore>,
) {
    for name in ["a", "b"] {
        let mut gateway = Gateway::new(&store, name, 7);
        gateway.changes(1_000, &users(0, 1), &[]).await;
    }
    for index in 1..=SLICES {
        let dead = [("a", 3_000), ("b", 2_000)];
        sweep(&store, &viewers(index), 7, &dead).await;
    }
    assert_eq!(times(&store, 7).await, [(user(0), 1_000, Some(3_000))]);
}

/// Nobody leaves the set of viewers in a rebuild, so nobody's session ends there.
async fn a_rebuild_is_no_break(store: Arc<dyn WholeStore>) {
    let mut a = Gateway::new(&store, "a", 7);
    a.changes(1_000, &users(0, 6), &[]).await;
    for part in &mut a.parts {
        let forgets = Pass {
            wrong: Some(part.looks().await.size.incarnation),
            ..part.pass()
        };
        assert!(passes(&store, forgets).await.unwrap().size.rebuild);
        part.entry = None;
    }
    // One is not said again, another leaves.
    a.changes(2_000, &users(1, 6), &[]).await;
    a.changes(3_000, &[], &users(1, 2)).await;
    let all: Vec<_> = users(0, 6)
        .into_iter()
        .map(|user| (user, 1_000, None))
        .collect();
    assert_eq!(times(&store, 7).await, all);
}

async fn sessions_outlast_the_close_and_epochs_are_apart(store: Arc<dyn WholeStore>) {
    let mut a = Gateway::new(&store, "a", 7);
    a.changes(1_000, &users(0, 2), &[]).await;
    a.changes(2_000, &[], &users(0, 1)).await;
    for index in 1..=SLICES {
        store.close_slice(&viewers(index), Epoch(7)).await.unwrap();
    }
    let kept = [(user(0), 1_000, Some(2_000)), (user(1), 1_000, None)];
    assert_eq!(times(&store, 7).await, kept);
    // Whatever arrives late changes nothing.
    let entry = a.parts[0].entry;
    let late = a.parts[0].next(entry, &[], &[]);
    let late = rollcall::store::Apply {
        left: Some(Vec::new()),
        ..late
    };
    assert_eq!(store.apply(&late).await.unwrap(), ApplyReply::Over);
    let mut next = Gateway::new(&store, "a", 8);
    next.changes(9_000, &users(0, 1), &[]).await;
    assert_eq!(times(&store, 7).await, kept);
    assert_eq!(times(&store, 8).await, [(user(0), 9_000, None)]);
    let were = |from, to| {
        let store = store.clone();
        async move {
            store
                .were_there(
                    &of(7),
                    &attended(Some(3_000)),
                    &users(0, 3),
                    Span { from, to },
                )
                .await
                .unwrap()
        }
    };
    assert_eq!(were(0, 999).await, [false; 3]);
    assert_eq!(were(1_500, 1_600).await, [true, true, false]);
    assert_eq!(were(2_001, 9_999).await, [false, true, false]);
    assert_eq!(were(3_001, 9_999).await, [false; 3]);
    store
        .forget_attendance(&of(7), Some(&attended(Some(3_000))))
        .await
        .unwrap();
    assert_eq!(times(&store, 7).await, []);
    assert_eq!(times(&store, 8).await.len(), 1);
}

#[tokio::test]
async fn sessions_of_another_type_are_removed_so_that_users_can_join_again() {
    let (server, store) = redis().await;
    let mut a = Gateway::new(&store, "a", 7);
    a.changes(1_000, &users(0, 4), &[]).await;
    for part in &a.parts {
        for key in ["sessions", "stays"] {
            let slice = format!("{{online-fans:42_slice{}}}", part.slice.index);
            server.cli(&["SET", &format!("{slice}:{key}@7"), "text"]);
        }
    }
    a.changes(3_000, &users(5, 7), &[]).await;
    a.changes(4_000, &[], &users(0, 6)).await;
    assert_eq!(
        times(&store, 7).await,
        [(user(5), 3_000, Some(4_000)), (user(6), 3_000, None)]
    );
}

async fn a_whole_batch_has_sessions_and_a_user_may_have_many(store: Arc<dyn WholeStore>) {
    let mut a = Gateway::new(&store, "a", 7);
    let crowd = users(0, 1_400);
    for part in 0..2 {
        let some: Vec<UserId> = crowd.iter().skip(part * 700).take(700).cloned().collect();
        a.changes(5, &some, &[]).await;
    }
    a.changes(6, &[], &crowd[..900]).await;
    assert_eq!(listed(&store, &of(7), Span::ALL, 1_000).await.len(), 1_400);
    let one = users(0, 1);
    for n in 1..=30 {
        a.changes(n * 100, &one, &[]).await;
        a.changes(n * 100 + 10, &[], &one).await;
    }
    for (from, to, there) in [
        (50, 99, false),
        (105, 106, true),
        (111, 199, false),
        (1_500, 1_500, true),
        (3_011, 9_999, false),
    ] {
        let found = store
            .were_there(&of(7), &attended(None), &one, Span { from, to })
            .await
            .unwrap();
        assert_eq!(found, [there], "{from} to {to}");
    }
    let sessions = listed(
        &store,
        &of(7),
        Span {
            from: 100,
            to: 9_999,
        },
        7,
    )
    .await;
    assert_eq!(
        (sessions.len(), sessions[0].watched.until(9_999)),
        (30, 1 + 30 * 10)
    );
    assert_eq!(
        sessions
            .iter()
            .map(|it| it.id)
            .collect::<HashSet<_>>()
            .len(),
        30
    );
}

/// Who comes and goes all the time takes no more room than this.
async fn a_user_has_so_many_sessions_and_no_more(store: Arc<dyn WholeStore>) {
    let mut a = Gateway::new(&store, "a", 7);
    let (quick, slow) = (users(0, 1), users(1, 2));
    for n in 1..=MANY_SESSIONS + 30 {
        a.changes(n * 100, &quick, &[]).await;
        a.changes(n * 100 + 10, &[], &quick).await;
    }
    let sessions = listed(&store, &of(7), Span::ALL, 1_000).await;
    assert_eq!(
        sessions.len() as u64,
        MANY_SESSIONS,
        "short breaks are bridged"
    );
    let last = sessions.last().unwrap();
    assert_eq!(
        (last.place.joined_at, last.left_at),
        (MANY_SESSIONS * 100, Some((MANY_SESSIONS + 30) * 100 + 10))
    );
    for n in 1..=MOST_SESSIONS + 30 {
        let at = n * (SHORT_BREAK + 100);
        a.changes(at, &slow, &[]).await;
        a.changes(at + 10, &[], &slow).await;
    }
    let all = listed(&store, &of(7), Span::ALL, 1_000).await;
    assert_eq!(all.len() as u64, MANY_SESSIONS + MOST_SESSIONS);
}

/// Three gateways at random, beside a model that knows who holds whom.
async fn random_histories_agree_with_a_model(store: Arc<dyn WholeStore>) {
    const USERS: usize = 12;
    const NAMES: [&str; 3] = ["a", "b", "c"];
    let seed = rand::random();
    eprintln!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut gateways = NAMES.map(|name| Gateway::new(&store, name, 7));
    let mut held: [BTreeSet<UserId>; 3] = Default::default();
    let mut model: BTreeMap<u32, Stays> = BTreeMap::new();
    let mut at = 1_000;
    for _ in 0..120 {
        at += rng.random_range(1..50);
        let who = rng.random_range(0..NAMES.len());
        let before: BTreeSet<UserId> = held.iter().flatten().cloned().collect();
        let mut joined = Vec::new();
        if rng.random_bool(0.1) {
            is_swept(&store, NAMES[who], at).await;
            gateways[who] = Gateway::new(&store, NAMES[who], 7);
            gateways[who]
                .parts
                .iter_mut()
                .for_each(|part| part.number = at * 1_000);
            held[who].clear();
        } else {
            let some: Vec<UserId> = users(0, USERS)
                .into_iter()
                .filter(|_| rng.random_bool(0.3))
                .collect();
            let (leaves, joins): (Vec<_>, Vec<_>) =
                some.into_iter().partition(|user| held[who].contains(user));
            gateways[who].changes(at, &joins, &leaves).await;
            leaves.iter().for_each(|user| drop(held[who].take(user)));
            held[who].extend(joins.iter().cloned());
            joined = joins;
        }
        let after: BTreeSet<UserId> = held.iter().flatten().cloned().collect();
        for user in joined {
            model
                .entry(user.slice_index(SLICES))
                .or_default()
                .enter(&user, at, at);
        }
        for user in before.difference(&after) {
            model
                .entry(user.slice_index(SLICES))
                .or_default()
                .leave(user, at);
        }
    }
    let mut expected: Vec<_> = model
        .values()
        .flat_map(|stays| stays.page(0, None, usize::MAX))
        .collect();
    expected.sort_by(|a, b| a.place.cmp(&b.place));
    let found = listed(&store, &of(7), Span::ALL, 10).await;
    let shown = |it: &AttendedSession| (it.place.clone(), it.left_at, it.watched);
    assert_eq!(
        found.iter().map(shown).collect::<Vec<_>>(),
        expected.iter().map(shown).collect::<Vec<_>>()
    );
    for _ in 0..20 {
        let from = rng.random_range(900..at);
        let span = Span {
            from,
            to: from + rng.random_range(0..200),
        };
        let everybody = users(0, USERS);
        let were = store
            .were_there(&of(7), &attended(None), &everybody, span)
            .await
            .unwrap();
        let was = |user: &UserId| {
            model
                .get(&user.slice_index(SLICES))
                .is_some_and(|stays| stays.was_here(user, span, None))
        };
        assert_eq!(
            were,
            everybody.iter().map(was).collect::<Vec<_>>(),
            "{span:?}"
        );
    }
}

on_each!(
    a_session_is_from_the_first_join_to_the_last_leave_over_all_gateways,
    a_move_is_no_break_in_whichever_order_the_gateways_are_heard,
    a_sweep_ends_sessions,
    a_sweep_of_several_gateways_ends_a_session_when_the_last_was_heard,
    a_rebuild_is_no_break,
    sessions_outlast_the_close_and_epochs_are_apart,
    a_whole_batch_has_sessions_and_a_user_may_have_many,
    a_user_has_so_many_sessions_and_no_more,
    random_histories_agree_with_a_model,
);
