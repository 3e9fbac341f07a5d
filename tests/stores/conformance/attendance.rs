//! Attendance: which fans came to which lives, in sets and in bitmaps, with equal answers.

use rollcall::features::WholeStore;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rollcall::base::clock::{UnixMillis, unix_now};
use rollcall::base::ids::{Epoch, SliceId, UserId};
use rollcall::config::AttendanceForm;
use rollcall::features::attendance::attendees::AttendanceQuestion;
use rollcall::features::attendance::attendees::find_attendees;
use rollcall::features::attendance::store::Attended;
use rollcall::features::attendance::store::Attending;
use rollcall::store::LiveEpoch;
use rollcall::store::Span;

use super::{Caller, live, on_each, user, users};

const ALL_KINDS: [Attending; 3] = [Attending::All, Attending::Any, Attending::Not];

fn of(name: &str) -> LiveEpoch {
    LiveEpoch {
        live: live(name),
        epoch: Epoch(7),
    }
}

fn attended(opened_at: UnixMillis) -> Attended {
    Attended {
        streamer: user(9),
        slices: 1,
        opened_at,
        closed_at: None,
    }
}

fn number(n: usize) -> UserId {
    UserId::parse(&n.to_string()).unwrap()
}

fn question(which: Attending, lives: &[LiveEpoch], within: Option<Span>) -> AttendanceQuestion {
    AttendanceQuestion {
        which,
        lives: lives.iter().map(|of| (of.clone(), attended(0))).collect(),
        within,
    }
}

/// All who are asked for, in pages of `limit`, each with the whole count.
async fn found(
    store: &Arc<dyn WholeStore>,
    question: &AttendanceQuestion,
    limit: usize,
) -> BTreeSet<UserId> {
    let (mut all, mut start) = (Vec::new(), None);
    loop {
        let page = find_attendees(store.as_ref(), question, start.as_ref(), limit)
            .await
            .unwrap();
        assert!(page.users.len() <= limit);
        assert!(
            page.next.is_none() || page.users.len() == limit,
            "a page that goes on is full"
        );
        all.extend(page.users);
        start = page.next;
        if start.is_none() {
            let distinct: BTreeSet<UserId> = all.iter().cloned().collect();
            assert_eq!(
                (page.count, all.len()),
                (distinct.len() as u64, distinct.len()),
                "each once, and counted"
            );
            return distinct;
        }
    }
}

async fn note(store: &Arc<dyn WholeStore>, of: &LiveEpoch, came: &[UserId]) {
    for some in came.chunks(1_000) {
        assert!(store.note_attendance(of, some).await.unwrap().is_empty());
    }
}

/// Lives at random, and every question beside a model.
async fn answers_as_a_model_does(store: &Arc<dyn WholeStore>, sizes: &[usize], limit: usize) {
    let seed = rand::random();
    eprintln!("seed {seed}");
    let mut rng = StdRng::seed_from_u64(seed);
    let lives: Vec<LiveEpoch> = (0..sizes.len()).map(|n| of(&format!("l{n}"))).collect();
    let mut model = Vec::new();
    for (of, size) in lives.iter().zip(sizes) {
        // Most of them the same users; numbers in two pieces.
        let came: BTreeSet<UserId> = (0..*size)
            .map(|_| number(65_000 + rng.random_range(0..*size * 2)))
            .collect();
        let came: Vec<UserId> = came.into_iter().collect();
        note(store, of, &came).await;
        note(store, of, &came[..came.len() / 2]).await;
        model.push(came.into_iter().collect::<BTreeSet<_>>());
    }
    let everybody: BTreeSet<UserId> = model.iter().flatten().cloned().collect();
    for which in ALL_KINDS {
        let takes = |user: &&UserId| {
            which.takes(
                &model
                    .iter()
                    .map(|came| came.contains(*user))
                    .collect::<Vec<_>>(),
            )
        };
        let expected: BTreeSet<UserId> = everybody.iter().filter(takes).cloned().collect();
        assert_eq!(
            found(store, &question(which, &lives, None), limit).await,
            expected,
            "{which:?}"
        );
    }
    let asked: Vec<UserId> = everybody
        .iter()
        .take(900)
        .cloned()
        .chain([user(1)])
        .collect();
    let have = store.have_attended(&lives[0], &asked).await.unwrap();
    assert_eq!(
        have,
        asked
            .iter()
            .map(|user| model[0].contains(user))
            .collect::<Vec<_>>()
    );
}

async fn sets_answer_as_a_model_does(store: Arc<dyn WholeStore>) {
    store
        .fix_attendance_form(AttendanceForm::Set)
        .await
        .unwrap();
    answers_as_a_model_does(&store, &[40, 30, 2_000], 7).await;
}

async fn bitmaps_answer_as_a_model_does(store: Arc<dyn WholeStore>) {
    store
        .fix_attendance_form(AttendanceForm::Bitmap)
        .await
        .unwrap();
    answers_as_a_model_does(&store, &[40, 30, 2_000], 7).await;
}

async fn one_live_and_lives_without_anybody(store: Arc<dyn WholeStore>) {
    note(&store, &of("a"), &users(0, 5)).await;
    let ask = |which, names: &[&str]| {
        question(
            which,
            &names.iter().map(|name| of(name)).collect::<Vec<_>>(),
            None,
        )
    };
    for which in ALL_KINDS {
        assert_eq!(
            found(&store, &ask(which, &["a"]), 2).await.len(),
            5,
            "{which:?}"
        );
        assert_eq!(
            found(&store, &ask(which, &["b"]), 2).await.len(),
            0,
            "{which:?}"
        );
        assert_eq!(
            found(&store, &ask(which, &[]), 2).await.len(),
            0,
            "{which:?}"
        );
    }
    let at_any_time = question(Attending::Not, &[], Some(Span::ALL));
    assert_eq!(
        found(&store, &at_any_time, 2).await.len(),
        0,
        "the first of no lives"
    );
    let counts = [
        (Attending::All, 0),
        (Attending::Any, 5),
        (Attending::Not, 5),
    ];
    for (which, count) in counts {
        assert_eq!(
            found(&store, &ask(which, &["a", "b"]), 2).await.len(),
            count,
            "{which:?}"
        );
    }
    assert_eq!(
        found(&store, &ask(Attending::Not, &["b", "a"]), 2)
            .await
            .len(),
        0
    );
}

/// More users of one part than one step looks at.
async fn a_part_of_thousands_is_read_page_by_page(store: Arc<dyn WholeStore>) {
    let part = user(0).slice_index(1_024);
    let mine: Vec<UserId> = (0..)
        .map(user)
        .filter(|user| user.slice_index(1_024) == part)
        .take(1_500)
        .collect();
    note(&store, &of("a"), &mine[..1_400]).await;
    note(&store, &of("b"), &mine[100..]).await;
    note(&store, &of("c"), &mine[..5]).await;
    let ask = |which, names: &[&str]| {
        question(
            which,
            &names.iter().map(|name| of(name)).collect::<Vec<_>>(),
            None,
        )
    };
    let cases = [
        (Attending::All, ["a", "b"], 1_300),
        (Attending::Any, ["a", "b"], 1_500),
        (Attending::Not, ["a", "b"], 100),
        (Attending::Not, ["a", "c"], 1_395),
        (Attending::All, ["a", "c"], 5),
    ];
    for (which, names, count) in cases {
        assert_eq!(
            found(&store, &ask(which, &names), 400).await.len(),
            count,
            "{which:?} {names:?}"
        );
    }
}

async fn only_those_who_were_there_in_that_time(store: Arc<dyn WholeStore>) {
    // Each of four fans is there for 100 ms of both lives, one after the other; a stranger all the
    // time.
    for (name, begin) in [("a", 1_000), ("b", 5_000)] {
        let slice = SliceId::of_live(live(name), 1, 1);
        let mut gateway = Caller::new(&store, "g").in_slice(slice).in_epoch(7);
        for n in 0..5 {
            let (one, at) = ([user(n)], begin + n as u64 * 100);
            gateway.changes_at(at, &one, &[]).await;
            gateway.changes_at(at + 99, &[], &one).await;
        }
        note(&store, &of(name), &users(0, 4)).await;
    }
    let ask = |which, (from, to)| question(which, &[of("a"), of("b")], Some(Span { from, to }));
    let cases = [
        (Attending::All, (0, 9_999), vec![0, 1, 2, 3]),
        (Attending::All, (1_150, 5_150), vec![1]),
        (Attending::Any, (1_150, 1_250), vec![1, 2]),
        (Attending::Any, (1_250, 5_050), vec![0, 2, 3]),
        (Attending::Not, (1_150, 5_050), vec![1, 2, 3]),
        (Attending::Any, (1_400, 4_999), vec![]),
    ];
    for (which, span, expected) in cases {
        let expected: BTreeSet<UserId> = expected.into_iter().map(user).collect();
        assert_eq!(
            found(&store, &ask(which, span), 2).await,
            expected,
            "{which:?} {span:?}"
        );
    }
}

async fn epochs_are_known_by_their_streamer_and_forgotten_in_time(store: Arc<dyn WholeStore>) {
    let now = unix_now();
    let day = 24 * 3_600 * 1_000;
    for (name, opened_at) in [("a", now - 2 * day), ("b", now - day), ("c", now)] {
        store
            .begin_attendance(&of(name), &attended(opened_at))
            .await
            .unwrap();
        store
            .begin_attendance(&of(name), &attended(opened_at))
            .await
            .unwrap();
        note(&store, &of(name), &users(0, 3)).await;
    }
    let lives = |from, limit| {
        let store = store.clone();
        async move {
            let lives = store.attended_lives(&user(9), from, limit).await.unwrap();
            lives.iter().map(ToString::to_string).collect::<Vec<_>>()
        }
    };
    assert_eq!(lives(0, 9).await, ["a@7", "b@7", "c@7"]);
    assert_eq!(lives(now - day, 1).await, ["b@7"]);
    store.end_attendance(&of("a"), now - day).await.unwrap();
    // A begin that arrives late does not open it again.
    store
        .begin_attendance(&of("a"), &attended(now - 2 * day))
        .await
        .unwrap();
    let known = store.attended(&of("a")).await.unwrap().unwrap();
    assert_eq!(
        known,
        Attended {
            closed_at: Some(now - day),
            ..attended(now - 2 * day)
        }
    );
    // Open ones are due each day, closed ones after eight days.
    let due = |at| {
        let store = store.clone();
        async move {
            let due = store.attendance_due(at, 9).await.unwrap();
            due.iter().map(ToString::to_string).collect::<BTreeSet<_>>()
        }
    };
    assert!(!due(now + day / 2).await.contains("a@7"));
    assert!(due(now + 2 * day).await.contains("b@7"));
    store
        .renew_attendance(&of("b"), &attended(now - day), now + 20 * day)
        .await
        .unwrap();
    assert!(!due(now + 9 * day).await.contains("b@7"));
    assert!(due(now + 7 * day + 1).await.contains("a@7"));
    store
        .forget_attendance(&of("a"), Some(&known))
        .await
        .unwrap();
    assert_eq!(store.attended(&of("a")).await.unwrap(), None);
    assert_eq!(lives(0, 9).await, ["b@7", "c@7"]);
    assert!(!due(now + 30 * day).await.contains("a@7"));
    let left: BTreeMap<&str, usize> = BTreeMap::from([("a", 0), ("b", 3)]);
    for (name, count) in left {
        assert_eq!(
            found(&store, &question(Attending::Any, &[of(name)], None), 9)
                .await
                .len(),
            count,
            "{name}"
        );
    }
}

on_each!(
    sets_answer_as_a_model_does,
    bitmaps_answer_as_a_model_does,
    one_live_and_lives_without_anybody,
    a_part_of_thousands_is_read_page_by_page,
    only_those_who_were_there_in_that_time,
    epochs_are_known_by_their_streamer_and_forgotten_in_time,
);
