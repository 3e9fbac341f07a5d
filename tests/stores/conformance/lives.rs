//! The records of lives: opening, closing, touching, listing.

use std::sync::Arc;
use std::time::Duration;

use rollcall::ids::{Epoch, SliceId};
use rollcall::store::{
    CloseLive, CloseReason, CloseReply, ListedLive, LiveRecord, LiveState, OpenLive, OpenReply, OpenedBy, Peaks,
    Standing, Store, TouchLive,
};

use super::{gateway, live, on_each, user};

on_each!(
    a_live_opens_once,
    another_streamer_does_not_get_an_open_live,
    a_live_closes_in_two_steps_and_opens_anew_with_the_next_epoch,
    a_close_is_of_one_epoch,
    a_record_that_came_back_from_a_backup_is_written_again,
    a_close_can_be_asked_for_twice,
    finishing_needs_the_epoch_and_a_close_under_way,
    a_touch_raises_peaks_and_never_lowers_them,
    a_touch_of_a_live_that_is_over_says_so,
    a_touch_writes_a_lost_record_again,
    the_streamers_silence_is_measured,
    a_fence_that_saw_more_than_the_record_is_heeded,
    open_lives_are_paged_by_age_and_miss_none,
    delisting_spares_open_lives,
    one_gateway_has_the_sweepers_turn,
);

fn wish(name: &str) -> OpenLive {
    OpenLive { live: live(name), streamer: user(1), slices: 2, by: OpenedBy::Streamer }
}

async fn opened(store: &Arc<dyn Store>, name: &str) -> LiveRecord {
    match store.open_live(&wish(name)).await.unwrap() {
        OpenReply::Opened(record) => record,
        other => panic!("{other:?}"),
    }
}

/// The end of a live's first epoch.
fn end(name: &str) -> CloseLive {
    CloseLive { live: live(name), epoch: Epoch(1), reason: CloseReason::Requested, peaks: Peaks::default() }
}

async fn closed(store: &Arc<dyn Store>, record: &LiveRecord) -> LiveRecord {
    let wish = CloseLive { epoch: record.epoch, ..end(record.live.as_str()) };
    assert!(matches!(store.begin_close(&wish).await.unwrap(), CloseReply::Closing(_)));
    let record = store.finish_close(&record.live, record.epoch).await.unwrap().expect("a record");
    assert_eq!(record.state, LiveState::Closed);
    record
}

fn touch(record: &LiveRecord) -> TouchLive {
    TouchLive { record: record.clone(), streamer_heard: false, relist: false }
}

async fn listed(store: &Arc<dyn Store>) -> Vec<ListedLive> {
    store.lives_page(None, 1_000).await.unwrap()
}

async fn a_live_opens_once(store: Arc<dyn Store>) {
    assert_eq!(store.load_live(&live("42")).await.unwrap(), None);
    let record = opened(&store, "42").await;
    assert_eq!((record.epoch, record.slices, record.state), (Epoch(1), 2, LiveState::Open));
    assert_eq!((&record.streamer, record.opened_by, record.closure), (&user(1), OpenedBy::Streamer, None));
    let again = OpenLive { slices: 8, by: OpenedBy::Service, ..wish("42") };
    assert_eq!(store.open_live(&again).await.unwrap(), OpenReply::AlreadyOpen(record.clone()));
    assert_eq!(store.load_live(&live("42")).await.unwrap(), Some(record.clone()));
    assert_eq!(listed(&store).await, [ListedLive { live: live("42"), opened_at: record.opened_at }]);
}

async fn another_streamer_does_not_get_an_open_live(store: Arc<dyn Store>) {
    let record = opened(&store, "42").await;
    let other = OpenLive { streamer: user(2), ..wish("42") };
    assert_eq!(store.open_live(&other).await.unwrap(), OpenReply::Owned(record.clone()));
    store.begin_close(&end("42")).await.unwrap();
    assert!(matches!(store.open_live(&other).await.unwrap(), OpenReply::Owned(_)));
    assert!(matches!(store.open_live(&wish("42")).await.unwrap(), OpenReply::Closing(_)));
    store.finish_close(&live("42"), record.epoch).await.unwrap();
    let OpenReply::Opened(next) = store.open_live(&other).await.unwrap() else { panic!("not opened") };
    assert_eq!((next.epoch, next.streamer), (Epoch(2), user(2)));
}

async fn a_live_closes_in_two_steps_and_opens_anew_with_the_next_epoch(store: Arc<dyn Store>) {
    let record = opened(&store, "42").await;
    let peaks = Peaks { viewers: 9, fans: 4 };
    let wish = CloseLive { reason: CloseReason::Moderated, peaks, ..end("42") };
    let CloseReply::Closing(closing) = store.begin_close(&wish).await.unwrap() else { panic!("not closing") };
    let closure = closing.closure.expect("a closure");
    assert_eq!((closing.state, closing.peaks, closure.reason), (LiveState::Closing, peaks, CloseReason::Moderated));
    assert_eq!(closing.duration_ms(), Some(closure.at - record.opened_at));
    assert_eq!(listed(&store).await.len(), 1, "a live that is closing is still looked after");
    let closed = store.finish_close(&live("42"), Epoch(1)).await.unwrap().expect("a record");
    assert_eq!(closed, LiveRecord { state: LiveState::Closed, ..closing });
    assert!(listed(&store).await.is_empty());
    assert_eq!(store.load_live(&live("42")).await.unwrap(), Some(closed));
    let next = opened(&store, "42").await;
    assert_eq!((next.epoch, next.peaks, next.closure), (Epoch(2), Peaks::default(), None));
    assert_eq!(listed(&store).await, [ListedLive { live: live("42"), opened_at: next.opened_at }]);
}

async fn a_close_is_of_one_epoch(store: Arc<dyn Store>) {
    let first = opened(&store, "42").await;
    closed(&store, &first).await;
    let second = opened(&store, "42").await;
    let late = CloseLive { epoch: first.epoch, ..end("42") };
    assert_eq!(store.begin_close(&late).await.unwrap(), CloseReply::OtherEpoch(second.clone()));
    assert_eq!(store.load_live(&live("42")).await.unwrap(), Some(second));
    assert_eq!(store.begin_close(&end("43")).await.unwrap(), CloseReply::Absent);
}

async fn a_record_that_came_back_from_a_backup_is_written_again(store: Arc<dyn Store>) {
    let first = opened(&store, "42").await;
    closed(&store, &first).await;
    // The store fell back to the end of the first epoch; the gateway knows of the third.
    let third = LiveRecord { epoch: Epoch(3), ..first.clone() };
    assert_eq!(store.touch_live(&touch(&third)).await.unwrap(), Standing::Rewritten);
    let kept = store.load_live(&live("42")).await.unwrap().expect("a record");
    assert_eq!((kept.epoch, kept.state), (Epoch(3), LiveState::Open));
    assert!(matches!(store.touch_live(&touch(&first)).await.unwrap(), Standing::Over(_)));
}

async fn a_close_can_be_asked_for_twice(store: Arc<dyn Store>) {
    let record = opened(&store, "42").await;
    let CloseReply::Closing(first) = store.begin_close(&end("42")).await.unwrap() else { panic!("not closing") };
    let peaks = Peaks { viewers: 3, fans: 1 };
    let again = CloseLive { reason: CloseReason::StreamerTimeout, peaks, ..end("42") };
    let CloseReply::Closing(second) = store.begin_close(&again).await.unwrap() else { panic!("not closing") };
    assert_eq!(second, LiveRecord { peaks, ..first });
    let done = store.finish_close(&live("42"), record.epoch).await.unwrap().expect("a record");
    assert_eq!(store.begin_close(&again).await.unwrap(), CloseReply::Closed(done));
}

async fn finishing_needs_the_epoch_and_a_close_under_way(store: Arc<dyn Store>) {
    assert_eq!(store.finish_close(&live("42"), Epoch(1)).await.unwrap(), None);
    let record = opened(&store, "42").await;
    assert_eq!(store.finish_close(&live("42"), Epoch(1)).await.unwrap(), Some(record.clone()));
    store.begin_close(&end("42")).await.unwrap();
    let other = store.finish_close(&live("42"), Epoch(2)).await.unwrap().expect("a record");
    assert_eq!(other.state, LiveState::Closing);
    assert_eq!(listed(&store).await.len(), 1);
}

async fn a_touch_raises_peaks_and_never_lowers_them(store: Arc<dyn Store>) {
    let mut record = opened(&store, "42").await;
    for (viewers, fans, expected) in [(5, 2, (5, 2)), (3, 4, (5, 4)), (0, 0, (5, 4))] {
        record.peaks = Peaks { viewers, fans };
        assert!(matches!(store.touch_live(&touch(&record)).await.unwrap(), Standing::Open { .. }));
        let peaks = store.load_live(&live("42")).await.unwrap().expect("a record").peaks;
        assert_eq!((peaks.viewers, peaks.fans), expected);
    }
}

async fn a_touch_of_a_live_that_is_over_says_so(store: Arc<dyn Store>) {
    let record = opened(&store, "42").await;
    let CloseReply::Closing(closing) = store.begin_close(&end("42")).await.unwrap() else { panic!("not closing") };
    let relist = TouchLive { relist: true, ..touch(&record) };
    assert_eq!(store.touch_live(&relist).await.unwrap(), Standing::Over(closing));
    let done = store.finish_close(&live("42"), record.epoch).await.unwrap().expect("a record");
    assert_eq!(store.touch_live(&relist).await.unwrap(), Standing::Over(done));
    assert!(listed(&store).await.is_empty());
    let next = opened(&store, "42").await;
    assert_eq!(store.touch_live(&relist).await.unwrap(), Standing::Over(next));
}

async fn a_touch_writes_a_lost_record_again(store: Arc<dyn Store>) {
    let record = LiveRecord { epoch: Epoch(7), peaks: Peaks { viewers: 8, fans: 2 }, ..opened(&store, "41").await };
    let record = LiveRecord { live: live("42"), ..record };
    assert_eq!(store.touch_live(&touch(&record)).await.unwrap(), Standing::Rewritten);
    assert_eq!(store.load_live(&live("42")).await.unwrap(), Some(record.clone()));
    assert!(listed(&store).await.iter().any(|l| l.live == live("42") && l.opened_at == record.opened_at));
    assert!(matches!(store.touch_live(&touch(&record)).await.unwrap(), Standing::Open { .. }));
    let end = CloseLive { epoch: record.epoch, ..end("42") };
    assert!(matches!(store.begin_close(&end).await.unwrap(), CloseReply::Closing(_)));
}

async fn the_streamers_silence_is_measured(store: Arc<dyn Store>) {
    assert_eq!(store.streamer_silent(&live("42")).await.unwrap(), None);
    let record = opened(&store, "42").await;
    // Waiting is the condition here: silence is a time that passes.
    let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
    while store.streamer_silent(&live("42")).await.unwrap().expect("open") < Duration::from_millis(50) {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let Standing::Open { streamer_silent, .. } = store.touch_live(&touch(&record)).await.unwrap() else {
        panic!("over")
    };
    assert!(streamer_silent >= Duration::from_millis(50));
    let heard = TouchLive { streamer_heard: true, ..touch(&record) };
    assert_eq!(
        store.touch_live(&heard).await.unwrap(),
        Standing::Open { streamer_silent: Duration::ZERO, removals: 0 }
    );
    closed(&store, &record).await;
    assert_eq!(store.streamer_silent(&live("42")).await.unwrap(), None);
}

async fn a_fence_that_saw_more_than_the_record_is_heeded(store: Arc<dyn Store>) {
    let second = SliceId { live: live("42"), index: 2, of: 2 };
    store.close_slice(&second, Epoch(6)).await.unwrap();
    let record = opened(&store, "42").await;
    assert_eq!(record.epoch, Epoch(7));
    closed(&store, &record).await;
    store.close_slice(&second, Epoch(11)).await.unwrap();
    assert_eq!(opened(&store, "42").await.epoch, Epoch(12));
}

async fn open_lives_are_paged_by_age_and_miss_none(store: Arc<dyn Store>) {
    let model = opened(&store, "model").await;
    // Ties on purpose: three lives a time.
    for n in 0..30_u64 {
        let record = LiveRecord { live: live(&format!("L{n}")), opened_at: 1_000 + n / 3, ..model.clone() };
        store.touch_live(&touch(&record)).await.unwrap();
    }
    let whole = listed(&store).await;
    assert_eq!(whole.len(), 31);
    assert!(whole.is_sorted_by_key(|l| (l.opened_at, l.live.clone())));
    for size in [1, 2, 7] {
        let mut paged: Vec<ListedLive> = Vec::new();
        loop {
            let page = store.lives_page(paged.last(), size).await.unwrap();
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        assert_eq!(paged, whole, "in pages of {size}");
    }
    let gone = LiveRecord { live: whole[3].live.clone(), ..model };
    closed(&store, &gone).await;
    assert_eq!(store.lives_page(Some(&whole[3]), 1_000).await.unwrap(), whole[4..]);
}

async fn delisting_spares_open_lives(store: Arc<dyn Store>) {
    let record = opened(&store, "42").await;
    store.delist(&live("42")).await.unwrap();
    assert_eq!(listed(&store).await.len(), 1);
    store.begin_close(&end("42")).await.unwrap();
    store.delist(&live("42")).await.unwrap();
    assert_eq!(listed(&store).await.len(), 1);
    closed(&store, &record).await;
    store.delist(&live("42")).await.unwrap();
    store.delist(&live("never")).await.unwrap();
    assert!(listed(&store).await.is_empty());
}

async fn one_gateway_has_the_sweepers_turn(store: Arc<dyn Store>) {
    let (a, b) = (gateway("a"), gateway("b"));
    let long = Duration::from_secs(60);
    assert!(store.take_sweeper_turn(&a, long).await.unwrap());
    assert!(!store.take_sweeper_turn(&b, long).await.unwrap());
    assert!(store.take_sweeper_turn(&a, Duration::from_millis(30)).await.unwrap());
    let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
    while !store.take_sweeper_turn(&b, long).await.unwrap() {
        assert!(tokio::time::Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert!(!store.take_sweeper_turn(&a, long).await.unwrap());
}
