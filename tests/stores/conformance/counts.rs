//! The counts that other services read: in the record, and the ranks by them.

use rollcall::features::WholeStore;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rollcall::base::ids::LiveId;
use rollcall::store::{
    Arrived, COUNT_EVERY, CountReply, Figures, LiveRecord, Peaks, Rank, RankedLive, RecordStanding,
};
use tokio::time::{Instant, sleep};

use super::{
    closing, counting, end, figures, finish, later, live, loaded, named, on_each, opened, paged,
    peaks,
};

on_each!(
    figures_are_written_on_change_and_not_more_often_than_allowed,
    figures_are_of_one_epoch_and_gone_with_the_close,
    whoever_closes_a_live_finds_the_peaks_of_those_who_counted,
    a_record_that_is_written_again_has_no_figures_yet,
    lives_are_ranked_while_they_are_on_the_list,
    the_largest_lives_are_paged_as_a_model_says,
);

async fn count(store: &Arc<dyn WholeStore>, record: &LiveRecord, figures: Figures) -> CountReply {
    count_after(store, record, peaks(figures.viewers, figures.fans), figures).await
}

/// Tells these figures, and that there were more before.
async fn count_after(
    store: &Arc<dyn WholeStore>,
    record: &LiveRecord,
    peaks: Peaks,
    figures: Figures,
) -> CountReply {
    let arrived = Arrived::default();
    let wish = counting(record, figures, peaks, arrived);
    store.count_live(&wish).await.unwrap()
}

async fn stored(store: &Arc<dyn WholeStore>, record: &LiveRecord) -> Option<Figures> {
    store
        .load_live(&record.live)
        .await
        .unwrap()?
        .counted
        .map(|counted| counted.figures)
}

async fn figures_are_written_on_change_and_not_more_often_than_allowed(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    assert_eq!(
        (record.counted, count(&store, &record, figures(0, 0)).await),
        (None, CountReply::Same)
    );
    assert_eq!(
        count(&store, &record, figures(3, 1)).await,
        CountReply::Counted
    );
    let counted = loaded(&store, "42").await.counted.unwrap();
    assert_eq!(counted.figures, figures(3, 1));
    assert!(
        counted.at >= record.opened_at && counted.at < record.opened_at + 60_000,
        "{counted:?}"
    );
    assert_eq!(
        count(&store, &record, figures(3, 1)).await,
        CountReply::Same
    );
    let early = Instant::now();
    let CountReply::Early(left) = count(&store, &record, figures(0, 0)).await else {
        panic!("not early")
    };
    assert!(left <= COUNT_EVERY && left > Duration::ZERO, "{left:?}");
    assert_eq!(stored(&store, &record).await, Some(figures(3, 1)));
    let later = loop {
        match count(&store, &record, figures(0, 0)).await {
            CountReply::Early(left) if early.elapsed() < COUNT_EVERY * 2 => {
                sleep(left.min(Duration::from_millis(20))).await
            }
            later => break later,
        }
    };
    assert_eq!(later, CountReply::Counted);
    // Redis rounds to whole milliseconds.
    assert!(
        early.elapsed() + Duration::from_millis(2) >= left,
        "{:?} instead of {left:?}",
        early.elapsed()
    );
    assert_eq!(stored(&store, &record).await, Some(figures(0, 0)));
}

async fn whoever_closes_a_live_finds_the_peaks_of_those_who_counted(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    let told = LiveRecord {
        peaks: peaks(1, 9),
        ..record.clone()
    };
    assert!(matches!(
        store.keep_live(&told, "").await.unwrap(),
        RecordStanding::Open { .. }
    ));
    let (lower, higher) = (peaks(3, 1), peaks(5, 1));
    assert_eq!(
        count_after(&store, &record, higher, figures(3, 1)).await,
        CountReply::Counted
    );
    assert_eq!(
        count_after(&store, &record, lower, figures(3, 1)).await,
        CountReply::Same
    );
    // A fan who came and left between two writes.
    let higher = peaks(5, 10);
    let again = count_after(&store, &record, higher, figures(3, 1)).await;
    assert!(matches!(again, CountReply::Early(_)), "{again:?}");
    let closing = closing(&store, &record).await;
    assert_eq!(closing.peaks, peaks(5, 9));
}

async fn figures_are_of_one_epoch_and_gone_with_the_close(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    let other = later(&record, 1);
    assert_eq!(
        count(&store, &other, figures(3, 1)).await,
        CountReply::NotOpen
    );
    let absent = named(&record, "43");
    assert_eq!(
        count(&store, &absent, figures(3, 1)).await,
        CountReply::NotOpen
    );
    assert_eq!(
        count(&store, &record, figures(3, 1)).await,
        CountReply::Counted
    );
    store.begin_close(&end(&record)).await.unwrap();
    assert_eq!(
        count(&store, &record, figures(4, 1)).await,
        CountReply::NotOpen
    );
    assert_eq!(stored(&store, &record).await, None);
    finish(&store, &record).await;
    assert_eq!(
        count(&store, &record, figures(4, 1)).await,
        CountReply::NotOpen
    );
    let next = opened(&store, "42").await;
    assert_eq!(
        (next.counted, count(&store, &record, figures(4, 1)).await),
        (None, CountReply::NotOpen)
    );
    assert_eq!(
        count(&store, &next, figures(5, 2)).await,
        CountReply::Counted,
        "the time is the epoch's own"
    );
}

async fn a_record_that_is_written_again_has_no_figures_yet(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "41").await;
    assert_eq!(
        count(&store, &record, figures(3, 1)).await,
        CountReply::Counted
    );
    let counted = loaded(&store, "41").await;
    let elsewhere = named(&counted, "42");
    assert_eq!(
        store.keep_live(&elsewhere, "").await.unwrap(),
        RecordStanding::Rewritten
    );
    assert_eq!(stored(&store, &elsewhere).await, None);
}

async fn top(store: &Arc<dyn WholeStore>, rank: Rank) -> Vec<(String, u64)> {
    let top = store.top_lives(rank, None, 1_000).await.unwrap();
    top.into_iter()
        .map(|ranked| (ranked.live.to_string(), ranked.figure))
        .collect()
}

async fn lives_are_ranked_while_they_are_on_the_list(store: Arc<dyn WholeStore>) {
    let (a, b) = (opened(&store, "a").await, opened(&store, "b").await);
    assert_eq!(
        top(&store, Rank::Viewers).await,
        [("b".to_owned(), 0), ("a".to_owned(), 0)]
    );
    let ranks = [
        (live("a"), figures(5, 1)),
        (live("b"), figures(3, 2)),
        (live("never"), figures(9, 9)),
    ];
    store.rank_lives(&ranks).await.unwrap();
    assert_eq!(
        top(&store, Rank::Viewers).await,
        [("a".to_owned(), 5), ("b".to_owned(), 3)]
    );
    assert_eq!(
        top(&store, Rank::Fans).await,
        [("b".to_owned(), 2), ("a".to_owned(), 1)]
    );
    let asked = [live("b"), live("never"), live("a")];
    let ranked = store.ranked_figures(&asked).await.unwrap();
    assert_eq!(ranked, [Some(figures(3, 2)), None, Some(figures(5, 1))]);
    // Listing a live again leaves its rank as it is.
    store.list_live(&live("a"), a.opened_at).await.unwrap();
    assert_eq!(top(&store, Rank::Viewers).await[0], ("a".to_owned(), 5));
    store.begin_close(&end(&a)).await.unwrap();
    finish(&store, &a).await;
    // A call that comes after the close brings nothing back.
    store.rank_lives(&ranks).await.unwrap();
    assert_eq!(top(&store, Rank::Viewers).await, [("b".to_owned(), 3)]);
    assert_eq!(store.ranked_figures(&[live("a")]).await.unwrap(), [None]);
    opened(&store, "a").await;
    assert_eq!(
        top(&store, Rank::Fans).await,
        [("b".to_owned(), 2), ("a".to_owned(), 0)],
        "a new epoch begins at zero"
    );
    store.begin_close(&end(&b)).await.unwrap();
    finish(&store, &b).await;
    assert_eq!(store.ranked_figures(&[]).await.unwrap(), []);
}

async fn the_largest_lives_are_paged_as_a_model_says(store: Arc<dyn WholeStore>) {
    let mut dice = StdRng::seed_from_u64(7);
    let mut model: BTreeMap<LiveId, Figures> = BTreeMap::new();
    let first = opened(&store, "L0").await;
    for n in 0..400 {
        let record = LiveRecord {
            live: live(&format!("L{n}")),
            ..first.clone()
        };
        store.keep_live(&record, "").await.unwrap();
        // Many equal figures.
        model.insert(
            record.live,
            figures(dice.random_range(0..20), dice.random_range(0..3)),
        );
    }
    let ranks: Vec<_> = model.clone().into_iter().collect();
    store.rank_lives(&ranks).await.unwrap();
    for rank in [Rank::Viewers, Rank::Fans] {
        let figure = |figures: &Figures| {
            if rank == Rank::Viewers {
                figures.viewers
            } else {
                figures.fans
            }
        };
        let mut expected: Vec<RankedLive> = model
            .iter()
            .map(|(live, all)| RankedLive {
                live: live.clone(),
                figure: figure(all),
            })
            .collect();
        expected.sort_by_key(|ranked| std::cmp::Reverse((ranked.figure, ranked.live.clone())));
        for size in [7, 399, 1_000] {
            let paged = paged(async |last| store.top_lives(rank, last, size).await).await;
            assert_eq!(paged, expected, "{rank:?} in pages of {size}");
        }
    }
}
