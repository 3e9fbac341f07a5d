//! Jobs for followers, on a store that the test looks into.

use crate::features::feeds::announcements::Feeds;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::base::clock::Clock;
use crate::base::ids::{GatewayId, LiveId, PostId, UserId};
use crate::config::Config;
use crate::features::feeds::fanout::Fanout;
use crate::features::feeds::store::fanout_jobs::{FanoutJob, FanoutJobs, FanoutTask};
use crate::features::feeds::store::statuses::{Post, StatusId, Statuses, TimelineEntry};
use crate::features::feeds::store::timelines::{Timeline, Timelines};
use crate::store::memory::MemoryStore;
use crate::store::{CloseReason, Follows};
use crate::testing::{app_on, open_live};

/// With many such jobs, the waiting ones would have all places, and nobody would take the jobs over
/// that they wait for.
#[tokio::test(start_paused = true)]
async fn a_removal_does_not_wait_for_ever_for_an_addition_of_a_gateway_that_is_gone() {
    let store = Arc::new(MemoryStore::new(Clock::start()));
    let app = app_on(&Config::default(), store.clone());
    let (user, streamer) = (UserId::parse("u1").unwrap(), UserId::parse("s1").unwrap());
    store.follow(&user, &streamer).await.unwrap();
    let room = open_live(&app.sessions, "42").await;
    let entry = TimelineEntry::of_live(&room.record);
    let feed = Timeline::Feed(user);
    let taken = store.take_fanouts(&GatewayId::random(), 10).await.unwrap();
    assert_eq!(
        taken.jobs.len(),
        1,
        "the gateway is gone in the middle of its job"
    );
    store
        .add_entries(&feed, std::slice::from_ref(&entry))
        .await
        .unwrap();
    app.lives
        .close(&LiveId::parse("42").unwrap(), None, CloseReason::Requested)
        .await
        .unwrap();
    assert!(store.is_being_added(&entry.id).await.unwrap());

    let stop = CancellationToken::new();
    let fanout = Fanout {
        core: app.core.clone(),
        store: store.clone(),
        feeds: app.of::<Arc<Feeds>>().clone(),
    };
    let worker = tokio::spawn(fanout.run(stop.clone()));
    let is_gone = async {
        while store.timeline_len(&feed).await.unwrap() > 0 {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(60), is_gone).await.unwrap();
    stop.cancel();
    worker.await.unwrap();
}

/// Two gateways may make the same announcement at the same moment; each notes a job with its own
/// time.
#[tokio::test(start_paused = true)]
async fn an_announcement_has_one_time_in_every_timeline() {
    let store = Arc::new(MemoryStore::new(Clock::start()));
    let app = app_on(&Config::default(), store.clone());
    let (user, author) = (UserId::parse("u1").unwrap(), UserId::parse("s1").unwrap());
    store.follow(&user, &author).await.unwrap();
    let id = StatusId::of_post(author, PostId::parse("p").unwrap());
    for at in [1_000, 1_005] {
        let post = Post {
            at,
            text: "soup".to_owned(),
            data: None,
        };
        store.put_post(&id, &post).await.unwrap();
    }
    let entry = TimelineEntry { at: 1_005, id };
    let job = FanoutJob {
        task: FanoutTask::Add,
        entry: entry.clone(),
    };
    store.enqueue_fanout(&job).await.unwrap();
    let stop = CancellationToken::new();
    let fanout = Fanout {
        core: app.core.clone(),
        store: store.clone(),
        feeds: app.of::<Arc<Feeds>>().clone(),
    };
    let worker = tokio::spawn(fanout.run(stop.clone()));
    let home = Timeline::Home(user);
    let entries = loop {
        sleep(Duration::from_millis(50)).await;
        let mut pages = store.read_timelines(&[(home.clone(), None)], 10).await;
        let page = pages.pop().unwrap().unwrap();
        if !page.is_empty() {
            break page;
        }
    };
    assert_eq!(entries, [TimelineEntry { at: 1_000, ..entry }]);
    stop.cancel();
    worker.await.unwrap();
}
