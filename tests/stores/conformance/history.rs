//! How the figures of a live moved, and what is left of it when it is over.

use rollcall::features::WholeStore;
use rollcall::features::history::store::PastLive;
use std::sync::Arc;
use std::time::Duration;

use rollcall::base::ids::{Epoch, UserId};
use rollcall::store::{
    Arrived, COUNT_EVERY, CloseLive, CloseReply, CountReply, Figures, FinishClose, HISTORY_STEP,
    LiveRecord, Peaks, Summary, Uniques,
};
use tokio::time::{Instant, sleep};

use super::{
    LONG, arrived, closing, counting, end, figures, later, live, on_each, opened, paged, peaks,
};

on_each!(
    a_write_of_figures_is_a_point_and_a_bucket_has_one,
    totals_of_who_came_only_grow_whoever_writes_them,
    an_epoch_that_is_over_gets_no_points_and_counts_nobody,
    the_summary_says_what_the_slices_counted,
    past_lives_are_listed_newest_first,
);

/// Writes as soon as it may be.
async fn count(
    store: &Arc<dyn WholeStore>,
    record: &LiveRecord,
    figures: Figures,
    (joins, leaves): (u64, u64),
) -> CountReply {
    let (peaks, arrived) = (Peaks::default(), Arrived { joins, leaves });
    let wish = counting(record, figures, peaks, arrived);
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

async fn points(store: &Arc<dyn WholeStore>, record: &LiveRecord) -> Vec<Row> {
    let points = store
        .history(&record.live_epoch(), 0, u64::MAX)
        .await
        .unwrap();
    let step = HISTORY_STEP.as_millis() as u64;
    assert!(
        points.iter().all(|point| point.at % step == 0),
        "{points:?}"
    );
    assert!(
        points.is_sorted_by(|one, other| one.at < other.at),
        "{points:?}"
    );
    let row = |point: &rollcall::store::Point| {
        (
            point.figures.viewers,
            point.figures.fans,
            point.arrived.joins,
            point.arrived.leaves,
        )
    };
    points.iter().map(row).collect()
}

async fn loaded(store: &Arc<dyn WholeStore>, record: &LiveRecord) -> LiveRecord {
    store.load_live(&record.live).await.unwrap().unwrap()
}

async fn a_write_of_figures_is_a_point_and_a_bucket_has_one(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    assert_eq!(points(&store, &record).await, []);
    assert_eq!(
        count(&store, &record, figures(0, 0), (0, 0)).await,
        CountReply::Same
    );
    assert_eq!(points(&store, &record).await, [], "nothing changed");
    let (mut written, mut model) = (Vec::new(), std::collections::BTreeMap::new());
    for n in 1..=4 {
        assert_eq!(
            count(&store, &record, figures(n, 0), (n, 0)).await,
            CountReply::Counted
        );
        let at = loaded(&store, &record).await.counted.unwrap().at;
        written.push(at);
        model.insert(at / 10_000, (n, 0, n, 0));
    }
    // Two or three writes fall into one of the buckets.
    assert!(model.len() < written.len(), "{written:?}");
    assert_eq!(
        points(&store, &record).await,
        model.values().copied().collect::<Vec<_>>()
    );
    let (first, last) = (written[0] - written[0] % 10_000, written[3]);
    let between = async |from, to| {
        store
            .history(&record.live_epoch(), from, to)
            .await
            .unwrap()
            .len()
    };
    assert_eq!(between(first, last).await, model.len());
    assert_eq!(between(first + 1, last).await, model.len() - 1);
    assert_eq!(
        (
            between(first, first).await,
            between(last + 20_000, u64::MAX).await,
            between(9, 3).await
        ),
        (1, 0, 0)
    );
    let watched: u64 = (0..3)
        .map(|n| (written[n + 1] - written[n]) * (n as u64 + 1))
        .sum();
    assert_eq!(loaded(&store, &record).await.sums.watched_ms, watched);
}

async fn totals_of_who_came_only_grow_whoever_writes_them(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    assert_eq!(
        count(&store, &record, figures(3, 0), (6, 3)).await,
        CountReply::Counted
    );
    assert_eq!(
        count(&store, &record, figures(3, 0), (5, 3)).await,
        CountReply::Same
    );
    assert_eq!(
        count(&store, &record, figures(3, 0), (8, 2)).await,
        CountReply::Counted,
        "somebody came"
    );
    assert_eq!(loaded(&store, &record).await.sums.arrived, arrived(8, 3));
    assert_eq!(points(&store, &record).await.last(), Some(&(3, 0, 8, 3)));
}

async fn an_epoch_that_is_over_gets_no_points_and_counts_nobody(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    let other = later(&record, 1);
    assert_eq!(
        count(&store, &other, figures(1, 1), (1, 0)).await,
        CountReply::NotOpen
    );
    assert_eq!(
        count(&store, &record, figures(1, 1), (1, 0)).await,
        CountReply::Counted
    );
    store.begin_close(&end(&record)).await.unwrap();
    for state in ["closing", "closed", "open again"] {
        assert_eq!(
            count(&store, &record, figures(9, 9), (9, 9)).await,
            CountReply::NotOpen,
            "{state}"
        );
        match state {
            "closing" => {
                let arrived = arrived(2, 1);
                let (live, epoch, uniques) = (record.live.clone(), record.epoch, None);
                let finish = FinishClose {
                    live,
                    epoch,
                    arrived,
                    uniques,
                    keep: LONG,
                };
                let closed = store.finish_close(&finish).await.unwrap().unwrap();
                assert_eq!(closed.sums.arrived, arrived);
            }
            "closed" => drop(opened(&store, "42").await),
            _ => {}
        }
        assert_eq!(
            points(&store, &record).await,
            [(1, 1, 1, 0)],
            "the history outlasts the close: {state}"
        );
    }
    let next = loaded(&store, &record).await;
    assert_eq!(
        (points(&store, &next).await, next.sums.arrived),
        (Vec::new(), Arrived::default())
    );
}

async fn the_summary_says_what_the_slices_counted(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    assert_eq!(record.summary(), None);
    count(&store, &record, figures(4, 2), (6, 2)).await;
    let counted = loaded(&store, &record).await.counted.unwrap().at;
    let closing = CloseLive {
        peaks: peaks(5, 2),
        ..end(&record)
    };
    let CloseReply::Closing(closed) = store.begin_close(&closing).await.unwrap() else {
        panic!("not closing")
    };
    let at = closed.closure.unwrap().at;
    assert_eq!(closed.sums.watched_ms, 4 * (at - counted));
    store.begin_close(&end(&record)).await.unwrap();
    let (live, epoch, arrived) = (record.live.clone(), record.epoch, arrived(7, 2));
    let uniques = Some(Uniques {
        viewers: 6,
        fans: 3,
    });
    store
        .finish_close(&FinishClose {
            live,
            epoch,
            arrived,
            uniques,
            keep: LONG,
        })
        .await
        .unwrap();
    let summary = loaded(&store, &record).await.summary().unwrap();
    assert_eq!(
        (summary.joins, summary.peak_viewers, summary.duration_ms),
        (7, 5, at - record.opened_at)
    );
    assert_eq!(
        (summary.unique_viewers, summary.unique_fans),
        (Some(6), Some(3))
    );
    assert_eq!(summary.reason, "requested");
    let uncounted = opened(&store, "43").await;
    let closing = CloseLive {
        uniques: false,
        ..end(&uncounted)
    };
    let CloseReply::Closing(closed) = store.begin_close(&closing).await.unwrap() else {
        panic!("not closing")
    };
    assert_eq!(closed.summary().unwrap().unique_viewers, None);
}

async fn past_lives_are_listed_newest_first(store: Arc<dyn WholeStore>) {
    let streamer = UserId::parse("s1").unwrap();
    let record = opened(&store, "42").await;
    let closed = closing(&store, &record).await;
    let model = Summary {
        streamer_id: streamer.clone(),
        ..closed.summary().unwrap()
    };
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
    let paged = paged(async |last| {
        store
            .past_lives(&streamer, last.map(PastLive::of).as_ref(), 2)
            .await
    })
    .await;
    assert_eq!(paged, all);
    assert_eq!(
        store
            .past_live(&streamer, &PastLive::of(&past(2)).of)
            .await
            .unwrap(),
        Some(past(2))
    );
    assert_eq!(
        store
            .past_live(&closed.streamer, &PastLive::of(&past(2)).of)
            .await
            .unwrap(),
        None,
        "another streamer's"
    );
    assert_eq!(
        store.past_lives(&closed.streamer, None, 10).await.unwrap(),
        []
    );
    // What is too old goes with the next one.
    let old = Summary {
        closed_at: model.closed_at - 60_000,
        ..past(9)
    };
    store.add_past_live(&old, LONG).await.unwrap();
    assert_eq!(
        store.past_lives(&streamer, None, 10).await.unwrap().len(),
        6
    );
    store
        .add_past_live(&past(6), Duration::from_secs(50))
        .await
        .unwrap();
    let left = store.past_lives(&streamer, None, 10).await.unwrap();
    assert_eq!(
        (left.len(), left.first(), left.contains(&old)),
        (6, Some(&past(6)), false)
    );
}
