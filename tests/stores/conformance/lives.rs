//! The records of lives: opening, closing, keeping, listing.

use rollcall::features::WholeStore;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rollcall::base::ids::{Epoch, SliceId};
use rollcall::store::{
    CloseLive, CloseReason, CloseReply, ListedLive, LiveRecord, LiveState, OpenLive, OpenReply,
    OpenedBy, Peaks, RecordEvents, RecordStanding,
};

use super::{
    Caller, LONG, OPEN, closing, end, fence, finish, finish_close, gateway, later, live, on_each,
    opened, opened_as, paged, peaks, slice, user, users, wish, wish_of,
};

on_each!(
    a_live_opens_once,
    many_records_are_loaded_for_each,
    another_streamer_does_not_get_an_open_live,
    a_live_closes_in_two_steps_and_opens_anew_with_a_higher_epoch,
    an_epoch_is_at_least_the_time_in_seconds,
    an_epoch_is_above_all_that_the_record_and_the_fences_have_seen,
    a_close_is_of_one_epoch,
    a_close_can_be_asked_for_twice,
    finishing_needs_the_epoch_and_a_close_under_way,
    a_live_that_is_kept_raises_its_peaks_and_never_lowers_them,
    a_live_that_is_over_is_not_kept,
    a_live_that_is_kept_has_its_lost_record_written_again,
    a_record_of_an_older_epoch_is_written_again,
    open_lives_are_paged_by_age_and_miss_none,
    a_live_is_on_the_list_once,
    delisting_spares_open_lives,
    one_gateway_has_the_sweepers_turn,
);

async fn closed(store: &Arc<dyn WholeStore>, record: &LiveRecord) -> LiveRecord {
    assert!(matches!(
        store.begin_close(&end(record)).await.unwrap(),
        CloseReply::Closing(_)
    ));
    let record = finish(store, record).await.expect("a record");
    assert_eq!(record.state, LiveState::Closed);
    record
}

async fn keep(store: &Arc<dyn WholeStore>, record: &LiveRecord) -> RecordStanding {
    store
        .keep_live(record, "it is written again")
        .await
        .unwrap()
}

async fn listed(store: &Arc<dyn WholeStore>) -> Vec<ListedLive> {
    store.lives_page(None, 1_000).await.unwrap()
}

async fn load(store: &Arc<dyn WholeStore>, name: &str) -> Option<LiveRecord> {
    store.load_live(&live(name)).await.unwrap()
}

fn seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs()
}

async fn many_records_are_loaded_for_each(store: Arc<dyn WholeStore>) {
    let mut opened = Vec::new();
    for n in 0..300 {
        opened.push(if n % 3 == 0 {
            Some(opened_as(&store, &wish(&format!("m{n}"))).await)
        } else {
            None
        });
    }
    let names: Vec<_> = (0..300).map(|n| live(&format!("m{n}"))).collect();
    let records: Vec<_> = store
        .load_lives(&names)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    assert_eq!(records, opened);
}

async fn a_live_opens_once(store: Arc<dyn WholeStore>) {
    assert_eq!(load(&store, "42").await, None);
    let streamers = OpenLive {
        slices: 2,
        by: OpenedBy::Streamer,
        ..wish("42")
    };
    let record = opened_as(&store, &streamers).await;
    assert_eq!(
        (record.slices, record.state, record.removals),
        (2, LiveState::Open, 0)
    );
    assert_eq!(
        (&record.streamer, record.opened_by, record.closure),
        (&user(9), OpenedBy::Streamer, None)
    );
    assert_eq!(record.peaks, Peaks::default());
    let again = OpenLive {
        slices: 8,
        ..wish("42")
    };
    assert_eq!(
        store.open_live(&again).await.unwrap(),
        OpenReply::AlreadyOpen(record.clone())
    );
    assert_eq!(load(&store, "42").await, Some(record.clone()));
    assert_eq!(
        listed(&store).await,
        [ListedLive {
            live: live("42"),
            opened_at: record.opened_at
        }]
    );
}

async fn another_streamer_does_not_get_an_open_live(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    let other = wish_of("42", user(2));
    assert_eq!(
        store.open_live(&other).await.unwrap(),
        OpenReply::Owned(record.clone())
    );
    store.begin_close(&end(&record)).await.unwrap();
    assert!(matches!(
        store.open_live(&other).await.unwrap(),
        OpenReply::Owned(_)
    ));
    assert!(matches!(
        store.open_live(&wish("42")).await.unwrap(),
        OpenReply::Closing(_)
    ));
    finish(&store, &record).await;
    let next = opened_as(&store, &other).await;
    assert!(
        next.epoch > record.epoch && next.streamer == user(2),
        "{next:?}"
    );
}

async fn a_live_closes_in_two_steps_and_opens_anew_with_a_higher_epoch(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    let peaks = peaks(9, 4);
    let wish = CloseLive {
        reason: CloseReason::Moderated,
        peaks,
        ..end(&record)
    };
    let CloseReply::Closing(closing) = store.begin_close(&wish).await.unwrap() else {
        panic!("not closing")
    };
    let closure = closing.closure.expect("a closure");
    assert_eq!(
        (closing.state, closing.peaks, closure.reason),
        (LiveState::Closing, peaks, CloseReason::Moderated)
    );
    assert_eq!(closing.duration_ms(), Some(closure.at - record.opened_at));
    assert_eq!(
        listed(&store).await.len(),
        1,
        "a live that is closing is still looked after"
    );
    let closed = finish(&store, &record).await.expect("a record");
    // Its events are in the stream by then.
    assert_eq!(
        closed,
        LiveRecord {
            state: LiveState::Closed,
            events: RecordEvents::default(),
            stream: None,
            ..closing
        }
    );
    assert!(listed(&store).await.is_empty());
    assert_eq!(load(&store, "42").await, Some(closed));
    let next = opened(&store, "42").await;
    assert!(next.epoch > record.epoch);
    assert_eq!((next.peaks, next.closure), (Peaks::default(), None));
    assert_eq!(
        listed(&store).await,
        [ListedLive {
            live: live("42"),
            opened_at: next.opened_at
        }]
    );
}

/// No epoch is used again, though all data be lost.
async fn an_epoch_is_at_least_the_time_in_seconds(store: Arc<dyn WholeStore>) {
    let before = seconds();
    let record = opened(&store, "42").await;
    // A machine's clocks may be a little apart.
    assert!(
        record.epoch.0 + 5 >= before && record.epoch.0 <= seconds() + 5,
        "{:?} at {before} s",
        record.epoch
    );
    assert!(record.epoch.0 >= record.opened_at / 1_000);
}

async fn an_epoch_is_above_all_that_the_record_and_the_fences_have_seen(
    store: Arc<dyn WholeStore>,
) {
    let of_two = OpenLive {
        slices: 2,
        ..wish("42")
    };
    let (first, second) = (
        SliceId::of_live(live("42"), 1, 2),
        SliceId::of_live(live("42"), 2, 2),
    );
    let far = Epoch(seconds() + 1_000_000);
    store.close_slice(&second, far).await.unwrap();
    let record = opened_as(&store, &of_two).await;
    assert_eq!(record.epoch, Epoch(far.0 + 1));
    // The record alone.
    closed(&store, &record).await;
    let of_one = opened(&store, "42").await;
    assert_eq!(of_one.epoch, Epoch(far.0 + 2));
    // An open fence counts as well as a closed one.
    closed(&store, &of_one).await;
    let mut a = Caller::new(&store, "a")
        .in_slice(first)
        .in_epoch(far.0 + 40);
    a.registers(&users(0, 1)).await;
    assert_eq!(opened_as(&store, &of_two).await.epoch, Epoch(far.0 + 41));
}

async fn a_close_is_of_one_epoch(store: Arc<dyn WholeStore>) {
    let first = opened(&store, "42").await;
    closed(&store, &first).await;
    let second = opened(&store, "42").await;
    assert_eq!(
        store.begin_close(&end(&first)).await.unwrap(),
        CloseReply::OtherEpoch(second.clone())
    );
    assert_eq!(finish(&store, &first).await, Some(second.clone()));
    assert_eq!(load(&store, "42").await, Some(second));
    let absent = CloseLive {
        live: live("43"),
        ..end(&first)
    };
    assert_eq!(
        store.begin_close(&absent).await.unwrap(),
        CloseReply::Absent
    );
}

async fn a_close_can_be_asked_for_twice(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    let first = closing(&store, &record).await;
    let peaks = peaks(3, 1);
    let again = CloseLive {
        reason: CloseReason::StreamerTimeout,
        peaks,
        ..end(&record)
    };
    let CloseReply::Closing(second) = store.begin_close(&again).await.unwrap() else {
        panic!("not closing")
    };
    assert_eq!(second, LiveRecord { peaks, ..first });
    let done = finish(&store, &record).await.expect("a record");
    assert_eq!(
        store.begin_close(&again).await.unwrap(),
        CloseReply::Closed(done.clone())
    );
    assert_eq!(finish(&store, &record).await, Some(done));
}

async fn finishing_needs_the_epoch_and_a_close_under_way(store: Arc<dyn WholeStore>) {
    assert_eq!(
        finish_close(&store, &live("42"), Epoch(1), LONG)
            .await
            .unwrap(),
        None
    );
    let record = opened(&store, "42").await;
    assert_eq!(finish(&store, &record).await, Some(record.clone()));
    store.begin_close(&end(&record)).await.unwrap();
    let other = Epoch(record.epoch.0 + 1);
    let other = finish_close(&store, &live("42"), other, LONG)
        .await
        .unwrap()
        .expect("a record");
    assert_eq!(other.state, LiveState::Closing);
    assert_eq!(listed(&store).await.len(), 1);
}

async fn a_live_that_is_kept_raises_its_peaks_and_never_lowers_them(store: Arc<dyn WholeStore>) {
    let mut record = opened(&store, "42").await;
    for (viewers, fans, expected) in [(5, 2, (5, 2)), (3, 4, (5, 4)), (0, 0, (5, 4))] {
        record.peaks = Peaks { viewers, fans };
        assert_eq!(keep(&store, &record).await, OPEN);
        let peaks = load(&store, "42").await.expect("a record").peaks;
        assert_eq!((peaks.viewers, peaks.fans), expected);
    }
}

async fn a_live_that_is_over_is_not_kept(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    let closing = closing(&store, &record).await;
    assert_eq!(keep(&store, &record).await, RecordStanding::Over(closing));
    let done = finish(&store, &record).await.expect("a record");
    assert_eq!(keep(&store, &record).await, RecordStanding::Over(done));
    assert!(listed(&store).await.is_empty());
    let next = opened(&store, "42").await;
    assert_eq!(keep(&store, &record).await, RecordStanding::Over(next));
}

async fn a_live_that_is_kept_has_its_lost_record_written_again(store: Arc<dyn WholeStore>) {
    let peaks = peaks(8, 2);
    let record = LiveRecord {
        live: live("42"),
        epoch: Epoch(7),
        peaks,
        ..opened(&store, "41").await
    };
    assert_eq!(keep(&store, &record).await, RecordStanding::Rewritten);
    assert_eq!(load(&store, "42").await, Some(record.clone()));
    assert!(listed(&store).await.contains(&ListedLive {
        live: live("42"),
        opened_at: record.opened_at
    }));
    assert_eq!(keep(&store, &record).await, OPEN);
    assert!(matches!(
        store.begin_close(&end(&record)).await.unwrap(),
        CloseReply::Closing(_)
    ));
}

/// The store fell back to the end of an earlier epoch, or into the middle of one; the gateway knows
/// of a later one.
async fn a_record_of_an_older_epoch_is_written_again(store: Arc<dyn WholeStore>) {
    let first = opened(&store, "42").await;
    let later = |n| later(&first, n);
    assert_eq!(
        keep(&store, &later(1)).await,
        RecordStanding::Rewritten,
        "over an open one"
    );
    store.begin_close(&end(&later(1))).await.unwrap();
    assert_eq!(
        keep(&store, &later(2)).await,
        RecordStanding::Rewritten,
        "over one that is closing"
    );
    closed(&store, &later(2)).await;
    assert_eq!(
        keep(&store, &later(3)).await,
        RecordStanding::Rewritten,
        "over a closed one"
    );
    assert_eq!(load(&store, "42").await, Some(later(3)));
    assert_eq!(keep(&store, &first).await, RecordStanding::Over(later(3)));
}

async fn open_lives_are_paged_by_age_and_miss_none(store: Arc<dyn WholeStore>) {
    let model = opened(&store, "model").await;
    // Ties on purpose: three lives a time.
    for n in 0..30_u64 {
        let record = LiveRecord {
            live: live(&format!("L{n}")),
            opened_at: 1_000 + n / 3,
            ..model.clone()
        };
        keep(&store, &record).await;
    }
    let whole = listed(&store).await;
    assert_eq!(whole.len(), 31);
    assert!(whole.is_sorted_by_key(|l| (l.opened_at, l.live.clone())));
    for size in [1, 2, 7] {
        let paged = paged(async |last| store.lives_page(last, size).await).await;
        assert_eq!(paged, whole, "in pages of {size}");
    }
    let gone = LiveRecord {
        live: whole[3].live.clone(),
        ..model
    };
    closed(&store, &gone).await;
    assert_eq!(
        store.lives_page(Some(&whole[3]), 1_000).await.unwrap(),
        whole[4..]
    );
}

async fn a_live_is_on_the_list_once(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    for opened_at in [5, 5, 3, record.opened_at] {
        store.list_live(&live("42"), opened_at).await.unwrap();
        assert_eq!(
            listed(&store).await,
            [ListedLive {
                live: live("42"),
                opened_at
            }]
        );
    }
    store.list_live(&live("42"), 7).await.unwrap();
    closed(&store, &record).await;
    assert_eq!(listed(&store).await, []);
}

async fn delisting_spares_open_lives(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    store.delist(&live("42")).await.unwrap();
    assert_eq!(listed(&store).await.len(), 1);
    store.begin_close(&end(&record)).await.unwrap();
    store.delist(&live("42")).await.unwrap();
    assert_eq!(listed(&store).await.len(), 1);
    closed(&store, &record).await;
    for name in ["42", "never"] {
        store.list_live(&live(name), 9).await.unwrap();
        store.delist(&live(name)).await.unwrap();
        store.delist(&live(name)).await.unwrap();
    }
    assert!(listed(&store).await.is_empty());
    assert_eq!(
        fence(&store, &slice()).await.unwrap(),
        None,
        "nobody made a slice"
    );
}

async fn one_gateway_has_the_sweepers_turn(store: Arc<dyn WholeStore>) {
    let (a, b) = (gateway("a"), gateway("b"));
    let long = Duration::from_secs(60);
    let nobody = HashSet::new();
    assert!(store.take_walk_turn(&a, long, &nobody).await.unwrap());
    assert!(!store.take_walk_turn(&b, long, &nobody).await.unwrap());
    assert!(
        store
            .take_walk_turn(&a, Duration::from_millis(30), &nobody)
            .await
            .unwrap()
    );
    let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
    while !store.take_walk_turn(&b, long, &nobody).await.unwrap() {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!store.take_walk_turn(&a, long, &nobody).await.unwrap());
    // The dead keep no turn, whoever else is dead.
    assert!(
        !store
            .take_walk_turn(&a, long, &[gateway("c")].into())
            .await
            .unwrap()
    );
    assert!(
        store
            .take_walk_turn(&a, long, &[gateway("c"), b].into())
            .await
            .unwrap()
    );
}
