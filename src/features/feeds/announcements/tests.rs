//! Which lives are announced, and when none is, on a store that the test looks into.

use crate::features::feeds::announcements::Feeds;
use std::sync::Arc;

use crate::base::clock::Clock;
use crate::base::ids::{LiveId, UserId};
use crate::config::Config;
use crate::features::feeds::store::statuses::TimelineEntry;
use crate::features::feeds::store::timelines::{Timeline, Timelines};
use crate::store::memory::MemoryStore;
use crate::store::{CloseReason, LiveRecord, Terms};
use crate::testing::{app_on, open_live};

#[tokio::test]
async fn a_live_that_closed_meanwhile_is_not_announced_again() {
    let store = Arc::new(MemoryStore::new(Clock::start()));
    let app = app_on(&Config::default(), store.clone());
    let record = open_live(&app.sessions, "42").await.record.clone();
    let on_air = Timeline::OnAir(UserId::parse("s1").unwrap());
    assert_eq!(store.timeline_len(&on_air).await.unwrap(), 1);
    app.lives
        .close(&LiveId::parse("42").unwrap(), None, CloseReason::Requested)
        .await
        .unwrap();
    // As the walk does that read the record before the close.
    app.of::<Arc<Feeds>>()
        .announce_missing(std::slice::from_ref(&record))
        .await;
    assert_eq!(store.timeline_len(&on_air).await.unwrap(), 0);
}

#[tokio::test]
async fn the_next_live_of_a_streamer_withdraws_what_ended_unnoticed() {
    let store = Arc::new(MemoryStore::new(Clock::start()));
    let app = app_on(&Config::default(), store.clone());
    let record = open_live(&app.sessions, "42").await.record.clone();
    app.lives
        .close(&LiveId::parse("42").unwrap(), None, CloseReason::Requested)
        .await
        .unwrap();
    let on_air = Timeline::OnAir(UserId::parse("s1").unwrap());
    // A write of the opening that came late.
    store
        .add_entries(&on_air, &[TimelineEntry::of_live(&record)])
        .await
        .unwrap();
    let next = open_live(&app.sessions, "43").await.record.clone();
    let left = store
        .read_timelines(&[(on_air, None)], 10)
        .await
        .pop()
        .unwrap();
    assert_eq!(left, Ok(vec![TimelineEntry::of_live(&next)]));
}

#[tokio::test]
async fn the_walk_announces_no_invisible_live() {
    let store = Arc::new(MemoryStore::new(Clock::start()));
    let app = app_on(&Config::default(), store.clone());
    let record = open_live(&app.sessions, "42").await.record.clone();
    let on_air = Timeline::OnAir(UserId::parse("s1").unwrap());
    let status = TimelineEntry::of_live(&record).id;
    for (invisible, entries) in [(true, 0), (false, 1)] {
        store
            .remove_entries(&on_air, std::slice::from_ref(&status))
            .await
            .unwrap();
        let terms = Terms {
            invisible,
            ..Terms::default()
        };
        app.of::<Arc<Feeds>>()
            .announce_missing(&[LiveRecord {
                terms,
                ..record.clone()
            }])
            .await;
        assert_eq!(store.timeline_len(&on_air).await.unwrap(), entries);
    }
}
