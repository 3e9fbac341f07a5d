//! How the figures of a live moved, and what is left of it when it is over.

use std::sync::Arc;
use std::time::Duration;

use rollcall::base::ids::{Epoch, UserId};
use rollcall::store::{
    Arrivals, Arrived, COUNT_EVERY, CloseLive, CloseReply, CountLive, CountReply, CountUniques, Figures, HISTORY_STEP,
    LiveRecord, MAX_ORIGINS, Peaks, Store, Summary, Uniques,
};
use tokio::time::{Instant, sleep};

use super::{LONG, end, gateway, live, on_each, opened};

on_each!(
    a_write_of_figures_is_a_point_and_a_bucket_has_one,
    totals_of_who_came_only_grow_whoever_writes_them,
    totals_of_gateways_that_are_gone_are_folded_once,
    totals_are_kept_alike_however_many_gateways_have_some,
    an_epoch_that_is_over_gets_no_points_and_counts_nobody,
    the_summary_is_made_once_when_the_close_begins,
    unique_users_are_counted_once_each,
    past_lives_are_listed_newest_first,
);

fn figures(viewers: u64, fans: u64) -> Figures {
    Figures { viewers, fans }
}

/// Writes as soon as it may be.
async fn count(store: &Arc<dyn Store>, record: &LiveRecord, figures: Figures, arrivals: &str) -> CountReply {
    let (peaks, arrivals) = (Peaks::default(), Arrivals::parse(arrivals));
    let wish = CountLive { live: record.live.clone(), epoch: record.epoch, figures, peaks, arrivals };
    let since = Instant::now();
    loop {
        match store.count_live(&wish).await.unwrap() {
            CountReply::Early(left) if since.elapsed() < COUNT_EVERY * 2 => {
                sleep(left.min(Duration::from_millis(50))).await
            }
            done => return done,
        }
    }
}

type Row = (u64, u64, u64, u64);

async fn points(store: &Arc<dyn Store>, record: &LiveRecord) -> Vec<Row> {
    let points = store.history(&record.live_epoch(), 0, u64::MAX).await.unwrap();
    let step = HISTORY_STEP.as_millis() as u64;
    assert!(points.iter().all(|point| point.at % step == 0), "{points:?}");
    assert!(points.is_sorted_by(|one, other| one.at < other.at), "{points:?}");
    let row = |point: &rollcall::store::Point| {
        (point.figures.viewers, point.figures.fans, point.arrived.joins, point.arrived.leaves)
    };
    points.iter().map(row).collect()
}

async fn loaded(store: &Arc<dyn Store>, record: &LiveRecord) -> LiveRecord {
    store.load_live(&record.live).await.unwrap().unwrap()
}

async fn a_write_of_figures_is_a_point_and_a_bucket_has_one(store: Arc<dyn Store>) {
    let record = opened(&store, "42").await;
    assert_eq!(points(&store, &record).await, []);
    assert_eq!(count(&store, &record, figures(0, 0), "").await, CountReply::Same);
    assert_eq!(points(&store, &record).await, [], "nothing changed");
    let (mut written, mut model) = (Vec::new(), std::collections::BTreeMap::new());
    for n in 1..=4 {
        assert_eq!(count(&store, &record, figures(n, 0), &format!("a:{n}:0")).await, CountReply::Counted);
        let at = loaded(&store, &record).await.counted.unwrap().at;
        written.push(at);
        model.insert(at / 10_000, (n, 0, n, 0));
    }
    // Two or three writes fall into one of the buckets.
    assert!(model.len() < written.len(), "{written:?}");
    assert_eq!(points(&store, &record).await, model.values().copied().collect::<Vec<_>>());
    let (first, last) = (written[0] - written[0] % 10_000, written[3]);
    let between = async |from, to| store.history(&record.live_epoch(), from, to).await.unwrap().len();
    assert_eq!(between(first, last).await, model.len());
    assert_eq!(between(first + 1, last).await, model.len() - 1);
    assert_eq!((between(first, first).await, between(last + 20_000, u64::MAX).await, between(9, 3).await), (1, 0, 0));
    let watched: u64 = (0..3).map(|n| (written[n + 1] - written[n]) * (n as u64 + 1)).sum();
    assert_eq!(loaded(&store, &record).await.sums.watched_ms, watched);
}

async fn totals_of_who_came_only_grow_whoever_writes_them(store: Arc<dyn Store>) {
    let record = opened(&store, "42").await;
    assert_eq!(count(&store, &record, figures(3, 0), "a:5:2 b:1:1").await, CountReply::Counted);
    assert_eq!(count(&store, &record, figures(3, 0), "b:1:0 a:4:2").await, CountReply::Same);
    assert_eq!(count(&store, &record, figures(3, 0), "a:4:3 c:2:0").await, CountReply::Counted, "somebody came");
    let arrivals = loaded(&store, &record).await.sums.arrivals;
    assert_eq!(
        (arrivals.sum(), arrivals.of(&gateway("a"))),
        (Arrived { joins: 8, leaves: 4 }, Arrived { joins: 5, leaves: 3 })
    );
    assert_eq!(points(&store, &record).await.last(), Some(&(3, 0, 8, 4)));
    let many: Vec<String> = (0..MAX_ORIGINS + 3).map(|n| format!("p{n}:1:0")).collect();
    let closing = CloseLive { arrivals: Arrivals::parse(&many.join(" ")), ..end(&record) };
    let CloseReply::Closing(closed) = store.begin_close(&closing).await.unwrap() else { panic!("not closing") };
    assert_eq!(closed.sums.arrivals.sum().joins, 8 + MAX_ORIGINS as u64 - 3);
}

async fn totals_of_gateways_that_are_gone_are_folded_once(store: Arc<dyn Store>) {
    let record = opened(&store, "42").await;
    let fold = async |epoch: Epoch, gone: &[&str]| {
        let gone: Vec<_> = gone.iter().map(|name| gateway(name)).collect();
        store.fold_arrivals(&record.live, epoch, &gone).await.unwrap()
    };
    let known = async || loaded(&store, &record).await.sums.arrivals;
    let sums = async || (known().await.sum().joins, known().await.sum().leaves);
    assert!(!fold(record.epoch, &["a"]).await, "nobody counted anything");
    assert_eq!(count(&store, &record, figures(3, 0), "a:5:2 b:3:0").await, CountReply::Counted);
    assert!(!fold(Epoch(record.epoch.0 + 1), &["a"]).await && !fold(record.epoch, &["x"]).await);
    assert!(fold(record.epoch, &["a", "x"]).await && !fold(record.epoch, &["a", "x"]).await);
    assert_eq!((sums().await, known().await.of(&gateway("a"))), ((8, 2), Arrived::default()));
    let folded = known().await;
    // Who has not heard of it tells nothing of those who are gone, and of others only if they are named.
    assert_eq!(count(&store, &record, figures(3, 0), "b:3:0 a:9:9 c:1:0").await, CountReply::Same);
    assert_eq!(count(&store, &record, figures(3, 0), "a:9:9 b:4:0 c:1:0").await, CountReply::Counted);
    assert_eq!(sums().await, (9, 2));
    assert_eq!(count(&store, &record, figures(3, 0), &format!("{folded} c:1:0")).await, CountReply::Counted);
    assert_eq!(sums().await, (10, 2));
    assert!(fold(record.epoch, &["b"]).await);
    // One that knows of the first fold only is late, too.
    let closing = CloseLive { arrivals: Arrivals::parse(&format!("{folded} b:9:9 c:2:0 d:1:0")), ..end(&record) };
    let CloseReply::Closing(closed) = store.begin_close(&closing).await.unwrap() else { panic!("not closing") };
    assert_eq!(closed.sums.arrivals.sum(), Arrived { joins: 11, leaves: 2 });
    assert!(!fold(record.epoch, &["c"]).await, "it is closing");
    // A store that lost the sums is told them.
    let lost = opened(&store, "43").await;
    assert_eq!(count(&store, &lost, figures(1, 0), &folded.to_string()).await, CountReply::Counted);
    assert_eq!(loaded(&store, &lost).await.sums.arrivals, folded);
}

async fn totals_are_kept_alike_however_many_gateways_have_some(store: Arc<dyn Store>) {
    let totals = |gateways: std::ops::Range<u64>| {
        let words: Vec<String> = gateways.map(|n| format!("gw-{n:016}:{}:{n}", n + 1)).collect();
        Arrivals::parse(&words.join(" "))
    };
    // Two fill 46 bytes, and each further one 24 or 26.
    for (name, first, all) in [("42", 2, 3), ("43", 3, 9), ("44", 12, 400), ("45", 60, 61)] {
        let record = opened(&store, name).await;
        assert_eq!(count(&store, &record, figures(1, 0), &totals(0..first).to_string()).await, CountReply::Counted);
        assert_eq!(loaded(&store, &record).await.sums.arrivals, totals(0..first), "{first} gateways");
        assert_eq!(points(&store, &record).await, [(1, 0, first * (first + 1) / 2, first * (first - 1) / 2)]);
        let gone: Vec<_> = totals(1..first).origins().cloned().collect();
        assert!(store.fold_arrivals(&record.live, record.epoch, &gone).await.unwrap());
        let folded = loaded(&store, &record).await.sums.arrivals;
        assert_eq!((folded.origins().count(), folded.sum()), (1, totals(0..first).sum()));
        let told = Arrivals::parse(&format!("{folded} {}", totals(first..all)));
        let closing = CloseLive { arrivals: told.clone(), ..end(&record) };
        let CloseReply::Closing(closed) = store.begin_close(&closing).await.unwrap() else { panic!("not closing") };
        assert_eq!((closed.sums.arrivals.sum(), closed.sums.arrivals.covers(&told)), (totals(0..all).sum(), true));
        assert_eq!(loaded(&store, &record).await.sums.arrivals, closed.sums.arrivals);
    }
}

async fn an_epoch_that_is_over_gets_no_points_and_counts_nobody(store: Arc<dyn Store>) {
    let record = opened(&store, "42").await;
    let other = LiveRecord { epoch: Epoch(record.epoch.0 + 1), ..record.clone() };
    let came = |record: &LiveRecord| {
        [CountUniques { live: record.live.clone(), epoch: record.epoch, viewers: vec![7], fans: vec![7] }]
    };
    assert_eq!(count(&store, &other, figures(1, 1), "a:1:0").await, CountReply::NotOpen);
    store.count_uniques(&came(&other)).await.remove(0).unwrap();
    assert_eq!(count(&store, &record, figures(1, 1), "a:1:0").await, CountReply::Counted);
    store.begin_close(&end(&record)).await.unwrap();
    for state in ["closing", "closed", "open again"] {
        assert_eq!(count(&store, &record, figures(9, 9), "a:9:9").await, CountReply::NotOpen, "{state}");
        store.count_uniques(&came(&record)).await.remove(0).unwrap();
        match state {
            "closing" => drop(store.finish_close(&record.live, record.epoch, LONG).await.unwrap()),
            "closed" => {
                let closed = loaded(&store, &record).await;
                assert_eq!(closed.sums.uniques, Some(Uniques { viewers: 0, fans: 0 }));
                assert_eq!(closed.sums.arrivals.sum().joins, 1);
                opened(&store, "42").await;
            }
            _ => {}
        }
        assert_eq!(points(&store, &record).await, [(1, 1, 1, 0)], "the history outlasts the close: {state}");
    }
    let next = loaded(&store, &record).await;
    assert_eq!((points(&store, &next).await, next.sums.arrivals.sum().joins), (Vec::new(), 0));
    store.begin_close(&end(&next)).await.unwrap();
    assert_eq!(loaded(&store, &next).await.sums.uniques, Some(Uniques { viewers: 0, fans: 0 }), "nobody was late");
}

async fn the_summary_is_made_once_when_the_close_begins(store: Arc<dyn Store>) {
    let record = opened(&store, "42").await;
    assert_eq!(record.summary(), None);
    count(&store, &record, figures(4, 2), "a:6:2").await;
    let counted = loaded(&store, &record).await.counted.unwrap().at;
    let closing =
        CloseLive { arrivals: Arrivals::parse("a:5:2 b:1:0"), peaks: Peaks { viewers: 5, fans: 2 }, ..end(&record) };
    let CloseReply::Closing(closed) = store.begin_close(&closing).await.unwrap() else { panic!("not closing") };
    let at = closed.closure.unwrap().at;
    assert_eq!(closed.sums.watched_ms, 4 * (at - counted));
    let summary = closed.summary().unwrap();
    assert_eq!((summary.joins, summary.peak_viewers, summary.duration_ms), (7, 5, at - record.opened_at));
    assert_eq!((summary.unique_viewers, summary.reason.as_str()), (Some(0), "requested"));
    let again = CloseLive { arrivals: Arrivals::parse("a:9:9"), ..end(&record) };
    store.begin_close(&again).await.unwrap();
    store.finish_close(&record.live, record.epoch, LONG).await.unwrap();
    assert_eq!(loaded(&store, &record).await.summary(), Some(summary));
    let uncounted = opened(&store, "43").await;
    let closing = CloseLive { uniques: false, ..end(&uncounted) };
    let CloseReply::Closing(closed) = store.begin_close(&closing).await.unwrap() else { panic!("not closing") };
    assert_eq!(closed.summary().unwrap().unique_viewers, None);
}

async fn unique_users_are_counted_once_each(store: Arc<dyn Store>) {
    let record = opened(&store, "42").await;
    let (live, epoch) = (record.live.clone(), record.epoch);
    let spread = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for from in [0, 400, 800, 0] {
        let viewers: Vec<u64> = (from..from + 800).map(spread).collect();
        let fans = viewers[..200].to_vec();
        let call = CountUniques { live: live.clone(), epoch, viewers, fans };
        let unknown = CountUniques { live: super::live("never"), ..call.clone() };
        let answers = store.count_uniques(&[unknown, call]).await;
        assert!(answers.len() == 2 && answers.iter().all(Result::is_ok), "{answers:?}");
    }
    store.begin_close(&end(&record)).await.unwrap();
    let Uniques { viewers, fans } = loaded(&store, &record).await.sums.uniques.unwrap();
    assert!(viewers.abs_diff(1_600) < 80 && fans.abs_diff(600) < 30, "{viewers} viewers, {fans} fans");
}

async fn past_lives_are_listed_newest_first(store: Arc<dyn Store>) {
    let streamer = UserId::parse("s1").unwrap();
    let closing = opened(&store, "42").await;
    let CloseReply::Closing(closed) = store.begin_close(&end(&closing)).await.unwrap() else { panic!("not closing") };
    let model = Summary { streamer_id: streamer.clone(), ..closed.summary().unwrap() };
    let past = |n: u64| Summary {
        live_id: live(&format!("L{}", n % 3)),
        epoch: Epoch(n),
        closed_at: model.closed_at + n * 1_000,
        ..model.clone()
    };
    for n in [3, 1, 2, 5, 4, 2] {
        store.add_past_live(&past(n), LONG).await.unwrap();
    }
    let all: Vec<Summary> = (1..=5).rev().map(past).collect();
    assert_eq!(store.past_lives(&streamer, None, 1_000).await.unwrap(), all);
    let mut paged: Vec<Summary> = Vec::new();
    loop {
        let page = store.past_lives(&streamer, paged.last().map(Summary::past).as_ref(), 2).await.unwrap();
        if page.is_empty() {
            break;
        }
        paged.extend(page);
    }
    assert_eq!(paged, all);
    assert_eq!(store.past_live(&streamer, &past(2).past().of).await.unwrap(), Some(past(2)));
    assert_eq!(store.past_live(&closed.streamer, &past(2).past().of).await.unwrap(), None, "another streamer's");
    assert_eq!(store.past_lives(&closed.streamer, None, 10).await.unwrap(), []);
    // What is too old goes with the next one.
    let old = Summary { closed_at: model.closed_at - 60_000, ..past(9) };
    store.add_past_live(&old, LONG).await.unwrap();
    assert_eq!(store.past_lives(&streamer, None, 10).await.unwrap().len(), 6);
    store.add_past_live(&past(6), Duration::from_secs(50)).await.unwrap();
    let left = store.past_lives(&streamer, None, 10).await.unwrap();
    assert_eq!((left.len(), left.first(), left.contains(&old)), (6, Some(&past(6)), false));
}
