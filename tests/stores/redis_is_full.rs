//! A Redis that has reached `maxmemory` and evicts nothing. Calls that free memory or keep gateways
//! alive pass; joins are refused and leave nothing behind.

use rollcall::features::WholeStore;
use rollcall::features::attendance::store::Attended;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rollcall::base::event_kind::EventKind;
use rollcall::base::ids::{SliceId, UserId};
use rollcall::config::AttendanceForm;
use rollcall::features::feeds::store::fanout_jobs::FanoutJob;
use rollcall::features::feeds::store::fanout_jobs::FanoutTask;
use rollcall::features::feeds::store::statuses::StatusId;
use rollcall::features::feeds::store::statuses::TimelineEntry;
use rollcall::features::feeds::store::timelines::Timeline;
use rollcall::store::About;
use rollcall::store::Apply;
use rollcall::store::ApplyReply;
use rollcall::store::CountReply;
use rollcall::store::Event;
use rollcall::store::LeaseReply;
use rollcall::store::LiveRecord;
use rollcall::store::LiveState;
use rollcall::store::OpenLive;
use rollcall::store::OpenReply;
use rollcall::store::PersonalData;
use rollcall::store::StoreError;
use rollcall::store::StoreResult;
use rollcall::store::Terms;

use crate::conformance::{
    Caller, LONG, OPEN, arrived, closing, connect, counting, fans, figures, finish, gateway, live,
    named, opened, passes, peaks, renewal, renewed, slice, streamers_slice, sweep, user, users,
    wish,
};
use crate::redis_server::RedisServer;

async fn redis() -> (RedisServer, Arc<dyn WholeStore>) {
    let server = RedisServer::start_with(&["--maxmemory-policy", "noeviction"]).await;
    let store = Arc::new(connect(&server.url()).await);
    (server, store)
}

/// From now on, less than what is there already would be too much.
fn fill(server: &RedisServer) {
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(server.cli(&["SET", "one", "more"]).starts_with("OOM"));
}

fn is_refused<T: std::fmt::Debug>(why: &str, answer: StoreResult<T>) {
    match answer {
        Err(StoreError::Refused(said)) => assert!(said.starts_with(why), "{said}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn calls_that_free_memory_and_lease_renewals_pass() {
    let (server, store) = redis().await;
    let record = opened(&store, "42").await;
    let mut a = Caller::new(&store, "a").in_epoch(record.epoch.0);
    let mut b = Caller::new(&store, "b").in_epoch(record.epoch.0);
    a.registers(&users(0, 10)).await;
    b.registers(&users(5, 15)).await;
    let leases = renewed(&store, &renewal("a", None, 1)).await;
    server.cli(&["SADD", "online-fans:42", "stray"]);
    fill(&server);

    // A lease, its first renewal too, and its end.
    let next = renewed(&store, &renewal("a", Some(leases.own), 2)).await;
    assert_eq!(next.own.count, 2);
    let first = renewal("new", None, 1);
    assert!(matches!(
        store.renew_lease(&first).await.unwrap(),
        LeaseReply::Renewed(_)
    ));
    store.end_lease(&gateway("new")).await.unwrap();
    store.end_lease(&gateway("b")).await.unwrap();
    assert_eq!(store.renew_lease(&first).await.unwrap(), LeaseReply::Dead);

    // Leaves, a call that changes nothing but its number, and one that makes an entry of nobody.
    assert_eq!(a.leaves(&users(0, 3)).await.card, 12);
    assert_eq!(a.moves_on().await.card, 12);
    let mut c = Caller::new(&store, "c").in_epoch(record.epoch.0);
    c.registers(&[]).await;
    c.says_bye().await;

    let swept = sweep(&store, &slice(), record.epoch.0, &[("b", 0)]).await;
    assert_eq!((swept.released, swept.size.card), (10, 7));
    let passed = passes(&store, a.pass()).await.unwrap();
    assert_eq!((passed.drift.stray, passed.size.is_in_order()), (1, true));
    assert_eq!(fans(&store, &slice()).await, users(3, 10));

    // A live must not end because nobody could note that its streamer is there.
    let streamers = streamers_slice(7);
    let mut of_streamers = Caller::new(&store, "a").in_slice(streamers);
    of_streamers.registers(&users(1, 2)).await;
    assert_eq!(of_streamers.leaves(&users(1, 2)).await.card, 0);
    assert!(
        store
            .take_walk_turn(&gateway("a"), LONG, &HashSet::new())
            .await
            .unwrap()
    );
    assert!(
        store
            .take_walk_turn(&gateway("a"), Duration::from_secs(60), &HashSet::new())
            .await
            .unwrap()
    );

    // Events of the close: the stream is capped.
    let told = Event {
        id: "1".into(),
        kind: EventKind::LiveClosed,
        about: About::Live(live("42")),
        data: "{}".into(),
    };
    store.append_events(&[told], 100).await.unwrap();

    // Followers are told of the close, which frees memory.
    let status = StatusId::of_live(user(1), live("42"), record.epoch);
    let job = FanoutJob {
        task: FanoutTask::Remove,
        entry: TimelineEntry {
            at: record.opened_at,
            id: status,
        },
    };
    store.enqueue_fanout(&job).await.unwrap();
    let taken = store
        .take_fanouts(&gateway("a"), 9)
        .await
        .unwrap()
        .jobs
        .remove(0);
    assert!(store.keep_fanout(&gateway("a"), &taken).await.unwrap());
    store
        .remove_from_timelines(&job.entry.id, &[Timeline::Feed(user(2))])
        .await
        .unwrap();
    store.finish_fanout(&gateway("a"), &taken).await.unwrap();

    // Figures and the point of a history, which frees what is spare. Who came is not counted.
    let counted = counting(&record, figures(3, 0), peaks(3, 0), arrived(3, 0));
    assert_eq!(
        store.count_live(&counted).await.unwrap(),
        CountReply::Counted
    );
    assert_eq!(
        store
            .history(&record.live_epoch(), 0, u64::MAX)
            .await
            .unwrap()
            .len(),
        1
    );

    let higher = LiveRecord {
        peaks: peaks(9, 9),
        ..record.clone()
    };
    assert_eq!(store.keep_live(&higher, "").await.unwrap(), OPEN);

    closing(&store, &record).await;
    assert_eq!(
        store
            .history(&record.live_epoch(), 0, u64::MAX)
            .await
            .unwrap()
            .len(),
        1,
        "it is in the stream now"
    );
    store.close_slice(&slice(), record.epoch).await.unwrap();
    let closed = finish(&store, &record).await.expect("a record");
    assert_eq!(closed.state, LiveState::Closed);
    assert!(store.lives_page(None, 10).await.unwrap().is_empty());
    assert!(fans(&store, &slice()).await.is_empty());
    store.delist(&live("42")).await.unwrap();
    // A record that was lost is written again, though the list takes nothing: the next check finds
    // that.
    let lost = named(&record, "43");
    is_refused("OOM", store.keep_live(&lost, "").await);
    assert_eq!(
        store.load_live(&live("43")).await.unwrap(),
        Some(lost.clone())
    );
    assert_eq!(store.keep_live(&lost, "").await.unwrap(), OPEN);
}

/// Everything that is in the store.
fn dump(server: &RedisServer) -> Vec<String> {
    let mut keys: Vec<String> = server
        .cli(&["KEYS", "*"])
        .lines()
        .map(str::to_owned)
        .collect();
    keys.sort();
    keys.into_iter()
        .map(|key| format!("{key}: {}", server.cli(&["DUMP", &key])))
        .collect()
}

#[tokio::test]
async fn joins_are_refused_and_do_nothing() {
    let (server, store) = redis().await;
    let (mut a, mut old) = (Caller::new(&store, "a"), Caller::new(&store, "a"));
    a.registers(&users(0, 3)).await;
    old.slice = SliceId::of_live(live("43"), 1, 1);
    old.registers(&users(0, 3)).await;
    let mut lost = Caller::new(&store, "a");
    lost.slice = SliceId::of_live(live("44"), 1, 1);
    lost.registers(&users(0, 3)).await;
    server.cli(&["DEL", "online-fans:44", "{online-fans:44}:viewers"]);
    let refused: Vec<Apply> = vec![
        a.next(a.entry, &users(3, 5), &[]),
        Caller::new(&store, "b").next(None, &users(3, 5), &[]),
        // An epoch that would begin, over an older one and on empty ground; a slice of which the
        // set is gone.
        Caller {
            epoch: 2,
            number: 4,
            slice: old.slice.clone(),
            ..Caller::new(&store, "a")
        }
        .next(None, &users(3, 5), &[]),
        {
            let mut fresh = Caller::new(&store, "a");
            fresh.slice = SliceId::of_live(live("45"), 1, 1);
            fresh.next(None, &users(3, 5), &[])
        },
        Caller {
            number: 9,
            slice: lost.slice.clone(),
            ..Caller::new(&store, "b")
        }
        .next(None, &users(3, 5), &[]),
    ];
    fill(&server);
    let before = dump(&server);
    for call in &refused {
        is_refused("OOM", store.apply(call).await);
        assert_eq!(dump(&server), before, "{call:?}");
    }
    is_refused("OOM", store.open_live(&wish("46")).await);
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    for call in &refused {
        assert!(
            matches!(store.apply(call).await.unwrap(), ApplyReply::Done(_)),
            "{call:?}"
        );
    }
}

#[tokio::test]
async fn a_user_can_be_erased() {
    let server = RedisServer::start_with(&["--maxmemory-policy", "noeviction"]).await;
    let store: Arc<dyn WholeStore> = Arc::new(connect(&server.url()).await);
    let fixed = store.fix_attendance_form(AttendanceForm::Bitmap).await;
    assert_eq!(fixed.unwrap(), AttendanceForm::Bitmap);
    let wish = OpenLive {
        terms: Terms {
            attendance: true,
            ..Terms::default()
        },
        ..wish("42")
    };
    let OpenReply::Opened(record) = store.open_live(&wish).await.unwrap() else {
        panic!("not opened")
    };
    let of = record.live_epoch();
    store
        .begin_attendance(&of, &Attended::of(&record))
        .await
        .unwrap();
    let ann = UserId::parse("4029384756").unwrap();
    let both = [ann.clone(), UserId::parse("77").unwrap()];
    store.note_attendance(&of, &both).await.unwrap();
    fill(&server);

    let id = store.ask_erasure(&ann).await.unwrap();
    let worker = gateway("a");
    let mut taken = store.take_erasure(&worker).await.unwrap().unwrap();
    loop {
        assert!(store.keep_erasure(&worker, &taken).await.unwrap());
        let place = taken.progress.place.clone();
        let step = store.erase_some(&ann, &place).await.unwrap();
        assert_eq!(step.failed, None);
        taken.progress.add(&step);
        match step.next {
            Some(next) => taken.progress.place = next,
            None => break,
        }
    }
    assert_eq!(
        taken.progress.found.get(&PersonalData::Attendance),
        Some(&1)
    );
    store.finish_erasure(&worker, &taken).await.unwrap();
    assert!(store.erasure(&id).await.unwrap().unwrap().ended.is_some());
    let came = store.have_attended(&of, &both).await.unwrap();
    assert_eq!(came, [false, true]);
}
