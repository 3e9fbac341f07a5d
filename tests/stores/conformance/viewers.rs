//! Viewers per gateway: absolute, numbered, only while the epoch is open.

use std::sync::Arc;

use rollcall::base::ids::Epoch;
use rollcall::store::{AnnounceReply, AnnounceViewers, GatewayViewers, LiveRecord, Standing, Store};

use super::{LONG, end, gateway, live, on_each, opened};

on_each!(
    what_a_gateway_says_is_read_by_all,
    a_number_that_is_not_above_the_last_changes_nothing,
    what_dead_gateways_said_is_forgotten,
    nothing_is_said_of_an_epoch_that_is_not_open,
    a_close_takes_what_was_said,
    a_record_that_is_written_again_begins_with_nothing,
);

fn say(record: &LiveRecord, name: &str, viewers: u64, number: u64) -> AnnounceViewers {
    let (live, gateway) = (record.live.clone(), gateway(name));
    let message = format!("{name}: {viewers}");
    AnnounceViewers {
        live,
        epoch: record.epoch,
        gateway,
        viewers,
        away: viewers / 2,
        moving: viewers.min(2),
        number,
        message,
    }
}

async fn said(store: &Arc<dyn Store>, record: &LiveRecord, name: &str, viewers: u64, number: u64) {
    let reply = store.announce_viewers(&say(record, name, viewers, number)).await.unwrap();
    assert_eq!(reply, AnnounceReply::Announced);
}

async fn view(store: &Arc<dyn Store>, record: &LiveRecord) -> Option<Vec<(String, u64, u64)>> {
    let read = |said: Vec<GatewayViewers>| {
        assert!(said.iter().all(|g| (g.away, g.moving) == (g.viewers / 2, g.viewers.min(2))), "{said:?}");
        let mut said: Vec<_> = said.iter().map(|g| (g.gateway.to_string(), g.viewers, g.number)).collect();
        said.sort();
        said
    };
    let said = read(store.view_viewers(&record.live, record.epoch).await.unwrap()?);
    let found = store.survey_viewers(&[live("none"), record.live.clone()]).await;
    let found: Vec<_> = found.into_iter().map(|found| read(found.unwrap())).collect();
    assert_eq!(found, [Vec::new(), said.clone()]);
    Some(said)
}

fn words(all: &[(&str, u64, u64)]) -> Option<Vec<(String, u64, u64)>> {
    Some(all.iter().map(|(name, viewers, number)| ((*name).to_owned(), *viewers, *number)).collect())
}

async fn what_a_gateway_says_is_read_by_all(store: Arc<dyn Store>) {
    let record = opened(&store, "42").await;
    assert_eq!(view(&store, &record).await, words(&[]));
    said(&store, &record, "a", 3, 1).await;
    said(&store, &record, "b", 0, 1).await;
    assert_eq!(view(&store, &record).await, words(&[("a", 3, 1), ("b", 0, 1)]));
    let other = opened(&store, "43").await;
    assert_eq!(view(&store, &other).await, words(&[]));
}

async fn a_number_that_is_not_above_the_last_changes_nothing(store: Arc<dyn Store>) {
    let record = opened(&store, "42").await;
    said(&store, &record, "a", 3, 7).await;
    for number in [7, 6, 0] {
        said(&store, &record, "a", 9, number).await;
        assert_eq!(view(&store, &record).await, words(&[("a", 3, 7)]));
    }
    said(&store, &record, "a", 9, 8).await;
    said(&store, &record, "a", 0, 10).await;
    assert_eq!(view(&store, &record).await, words(&[("a", 0, 10)]));
}

async fn what_dead_gateways_said_is_forgotten(store: Arc<dyn Store>) {
    let record = opened(&store, "42").await;
    for name in ["a", "b", "c"] {
        said(&store, &record, name, 3, 5).await;
    }
    store.forget_viewers(&live("42"), &[]).await.unwrap();
    store.forget_viewers(&live("42"), &[gateway("a"), gateway("never"), gateway("c")]).await.unwrap();
    store.forget_viewers(&live("43"), &[gateway("b")]).await.unwrap();
    assert_eq!(view(&store, &record).await, words(&[("b", 3, 5)]));
}

async fn nothing_is_said_of_an_epoch_that_is_not_open(store: Arc<dyn Store>) {
    let record = opened(&store, "42").await;
    let elsewhere = LiveRecord { live: live("43"), ..record.clone() };
    let older = LiveRecord { epoch: Epoch(record.epoch.0 - 1), ..record.clone() };
    let newer = LiveRecord { epoch: Epoch(record.epoch.0 + 1), ..record.clone() };
    for other in [elsewhere, older, newer] {
        assert_eq!(store.announce_viewers(&say(&other, "a", 3, 1)).await.unwrap(), AnnounceReply::NotOpen);
        assert_eq!(view(&store, &other).await, None);
    }
    assert_eq!(view(&store, &record).await, words(&[]));
}

async fn a_close_takes_what_was_said(store: Arc<dyn Store>) {
    let record = opened(&store, "42").await;
    said(&store, &record, "a", 3, 5).await;
    store.begin_close(&end(&record)).await.unwrap();
    for _ in 0..2 {
        assert_eq!(store.announce_viewers(&say(&record, "a", 4, 6)).await.unwrap(), AnnounceReply::NotOpen);
        assert_eq!(view(&store, &record).await, None);
        store.finish_close(&record.live, record.epoch, LONG).await.unwrap();
    }
    let next = opened(&store, "42").await;
    assert_eq!(view(&store, &next).await, words(&[]));
    assert_eq!(view(&store, &record).await, None);
    // Numbers begin anew with the epoch.
    said(&store, &next, "a", 1, 1).await;
    assert_eq!(view(&store, &next).await, words(&[("a", 1, 1)]));
}

async fn a_record_that_is_written_again_begins_with_nothing(store: Arc<dyn Store>) {
    let record = opened(&store, "42").await;
    said(&store, &record, "a", 3, 5).await;
    let later = LiveRecord { epoch: Epoch(record.epoch.0 + 1), ..record.clone() };
    assert_eq!(store.keep_live(&later, "").await.unwrap(), Standing::Rewritten);
    assert_eq!(view(&store, &later).await, words(&[]));
    assert_eq!(store.announce_viewers(&say(&record, "a", 4, 6)).await.unwrap(), AnnounceReply::NotOpen);
}
