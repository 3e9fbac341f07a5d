//! Lives that follow streams, on a gateway whose store fails at chosen moments. Time is paused.

use crate::edge::http::state::AppState;
use crate::features::media::room_streams::RoomStreams;
use crate::features::media::watched_streams::WatchedStreams;
use crate::sync::features::Feature;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::base::ids::{LiveId, UserId};
use crate::base::media_event::{StreamNews, StreamSession};
use crate::base::media_server::MediaServerName;
use crate::config::Config;
use crate::features::media::keeper::{EndedStream, LiveOf, StreamKeeper, TakenIn};
use crate::features::media::store::{Heard, StreamPublisher, StreamStore};
use crate::gateway::wiring::GatewayParts;
use crate::store::{CloseReason, LiveRecord, LiveState, LiveStore, OpenedBy, Terms};
use crate::sync::lives::{LiveError, OpenRequest};
use crate::testing::{FaultyStore, parts_on};

const GRACE: Duration = Duration::from_secs(20);
const SILENCE: Duration = Duration::from_secs(60);
const A_MOMENT: Duration = Duration::from_secs(2);

/// A gateway whose other tasks do not run.
struct Scene {
    parts: GatewayParts,
    store: Arc<FaultyStore>,
    streams: Arc<StreamKeeper>,
}

impl Scene {
    fn new() -> Self {
        let store = Arc::new(FaultyStore::new());
        let parts = parts_on(&Config::default(), store.clone());
        let streams = parts.app.of::<Arc<StreamKeeper>>().clone();
        tokio::spawn(streams.clone().run(CancellationToken::new()));
        Self {
            parts,
            store,
            streams,
        }
    }

    async fn record(&self) -> Option<LiveRecord> {
        self.store.load_live(&live()).await.unwrap()
    }

    async fn state(&self) -> LiveState {
        self.record().await.unwrap().state
    }

    async fn hear(&self, session: &str, news: StreamNews) -> Result<TakenIn, LiveError> {
        let publisher = publisher("s1");
        let heard = heard(session, news);
        self.streams.hear(&live(), &heard, Some(&publisher)).await
    }

    async fn begins(&self, session: &str) {
        let began = self.hear(session, StreamNews::Publish).await;
        assert_eq!(began, Ok(TakenIn::Began));
    }

    async fn ends(&self, session: &str) {
        let ended = self.hear(session, StreamNews::Done).await;
        assert_eq!(ended, Ok(TakenIn::Ended));
    }
}

fn live() -> LiveId {
    LiveId::parse("42").unwrap()
}

fn publisher(streamer: &str) -> StreamPublisher {
    StreamPublisher {
        streamer: UserId::parse(streamer).unwrap(),
        invisible: false,
    }
}

fn heard(session: &str, news: StreamNews) -> Heard {
    let server = MediaServerName::parse("main").unwrap();
    Heard::new(server, StreamSession::Unique(session.to_owned()), news)
}

async fn wait(time: Duration) {
    tokio::time::sleep(time).await;
}

#[tokio::test(start_paused = true)]
async fn a_live_closes_a_grace_after_its_stream() {
    let scene = Scene::new();
    scene.begins("a").await;
    wait(GRACE * 10).await;
    assert_eq!(
        scene.state().await,
        LiveState::Open,
        "silence means nothing"
    );
    scene.ends("a").await;
    wait(GRACE - A_MOMENT).await;
    assert_eq!(scene.state().await, LiveState::Open);
    wait(A_MOMENT * 2).await;
    let closed = scene.record().await.unwrap();
    assert_eq!(closed.state, LiveState::Closed);
    assert_eq!(closed.closure.unwrap().reason, CloseReason::StreamEnded);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_comes_back_keeps_the_live_and_the_grace_begins_anew() {
    let scene = Scene::new();
    scene.begins("a").await;
    let epoch = scene.record().await.unwrap().epoch;
    scene.ends("a").await;
    wait(GRACE - A_MOMENT).await;
    scene.begins("b").await;
    scene.ends("b").await;
    wait(GRACE - A_MOMENT).await;
    let record = scene.record().await.unwrap();
    assert_eq!((record.state, record.epoch), (LiveState::Open, epoch));
    wait(A_MOMENT * 2).await;
    assert_eq!(scene.state().await, LiveState::Closed);
    // A double of the first message does not open it again.
    let doubled = scene.hear("a", StreamNews::Publish).await;
    assert_eq!(doubled, Ok(TakenIn::Ignored));
    scene.begins("c").await;
    assert!(scene.record().await.unwrap().epoch > epoch);
}

#[tokio::test(start_paused = true)]
async fn an_end_that_the_store_did_not_take_is_written_when_it_is_back() {
    let scene = Scene::new();
    scene.begins("a").await;
    // The task looks after nothing any more, so that only the end wakes it.
    wait(GRACE * 2).await;
    scene.store.breaks();
    let ending = EndedStream {
        live: LiveOf::Id(live()),
        heard: heard("a", StreamNews::Done),
        heard_at: 0,
    };
    let ended = scene.streams.hear_end(ending).await;
    assert_eq!(ended, Ok(TakenIn::Kept));
    wait(GRACE * 2).await;
    scene.store.heals();
    wait(A_MOMENT).await;
    let status = scene.record().await.unwrap().stream.unwrap();
    assert!(!status.is_on);
    wait(GRACE + A_MOMENT).await;
    assert_eq!(scene.state().await, LiveState::Closed);
}

#[tokio::test(start_paused = true)]
async fn the_live_of_an_end_is_found_when_the_store_is_back() {
    let scene = Scene::new();
    let lifetime = Duration::from_secs(3_600);
    let store = &scene.store;
    store
        .note_publishing("digest", &live().into(), lifetime)
        .await
        .unwrap();
    scene.begins("a").await;
    wait(GRACE * 2).await;
    scene.store.breaks();
    let ending = EndedStream {
        live: LiveOf::Noted("digest".to_owned()),
        heard: heard("a", StreamNews::Done),
        heard_at: 0,
    };
    let ended = scene.streams.hear_end(ending).await;
    assert_eq!(ended, Ok(TakenIn::Kept));
    wait(GRACE * 2).await;
    scene.store.heals();
    wait(GRACE + A_MOMENT * 2).await;
    assert_eq!(scene.state().await, LiveState::Closed);
}

#[tokio::test(start_paused = true)]
async fn while_the_store_is_away_no_grace_passes() {
    let scene = Scene::new();
    scene.begins("a").await;
    scene.ends("a").await;
    wait(GRACE / 2).await;
    scene.store.breaks();
    wait(GRACE * 3).await;
    scene.store.heals();
    wait(A_MOMENT).await;
    assert_eq!(
        scene.state().await,
        LiveState::Open,
        "the streamer may come back"
    );
    wait(GRACE + A_MOMENT).await;
    assert_eq!(scene.state().await, LiveState::Closed);
}

#[tokio::test(start_paused = true)]
async fn heartbeats_that_stay_away_end_a_session_and_the_next_one_brings_it_back() {
    let scene = Scene::new();
    scene.begins("a").await;
    for _ in 0..5 {
        wait(SILENCE / 2).await;
        let beat = scene.hear("a", StreamNews::Alive).await;
        assert_eq!(beat, Ok(TakenIn::Alive));
    }
    wait(SILENCE + A_MOMENT).await;
    let status = scene.record().await.unwrap().stream.unwrap();
    assert!(!status.is_on, "{status:?}");
    let beat = heard("a", StreamNews::Alive);
    // Its token may have expired since it began, so nobody reads it again.
    let back = scene.streams.hear(&live(), &beat, None).await;
    assert_eq!(back, Ok(TakenIn::Alive));
    wait(SILENCE + GRACE + A_MOMENT * 2).await;
    assert_eq!(scene.state().await, LiveState::Closed);
    let late = scene.streams.hear(&live(), &beat, None).await;
    assert_eq!(late, Ok(TakenIn::NeedsPublisher));
}

#[tokio::test(start_paused = true)]
async fn a_live_whose_gateway_died_before_it_wrote_the_stream_closes() {
    let scene = Scene::new();
    scene.store.fails_once("write_streams", 0);
    let begun = scene.hear("a", StreamNews::Publish).await;
    assert!(begun.is_err());
    assert_eq!(scene.record().await.unwrap().stream, None);
    // The walk finds it.
    let record = scene.record().await.unwrap();
    let keeper = scene.parts.app.of::<Arc<StreamKeeper>>();
    keeper.watched.note(&record, 0, keeper.core.clock.now());
    wait(GRACE - A_MOMENT).await;
    assert_eq!(scene.state().await, LiveState::Open);
    wait(A_MOMENT * 2).await;
    assert_eq!(scene.state().await, LiveState::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_live_that_is_called_over_and_was_not_closed_is_closed_before_the_next() {
    let scene = Scene::new();
    scene.begins("a").await;
    let first = scene.record().await.unwrap().epoch;
    scene.ends("a").await;
    scene.store.fails_once("begin_close", 0);
    wait(GRACE + A_MOMENT / 2).await;
    let record = scene.record().await.unwrap();
    assert_eq!((record.state, record.stream), (LiveState::Open, None));
    scene.begins("b").await;
    let record = scene.record().await.unwrap();
    assert!(record.epoch > first);
    wait(GRACE * 3).await;
    assert_eq!(
        scene.state().await,
        LiveState::Open,
        "the second one is on air"
    );
}

#[tokio::test(start_paused = true)]
async fn the_stream_of_another_streamer_is_refused() {
    let scene = Scene::new();
    scene.begins("a").await;
    let publisher = publisher("s2");
    let heard = heard("b", StreamNews::Publish);
    let refused = scene.streams.hear(&live(), &heard, Some(&publisher)).await;
    assert_eq!(refused, Err(LiveError::Owned(live())));
}

#[tokio::test(start_paused = true)]
async fn a_live_of_a_back_end_outlives_its_stream() {
    let scene = Scene::new();
    let request = OpenRequest {
        live: live(),
        streamer: UserId::parse("s1").unwrap(),
        slices: None,
        by: OpenedBy::Service,
        terms: Terms::default(),
    };
    scene.parts.app.lives.open(request).await.unwrap();
    scene.begins("a").await;
    scene.ends("a").await;
    wait(GRACE * 3).await;
    let record = scene.record().await.unwrap();
    assert_eq!((record.state, record.stream), (LiveState::Open, None));
    scene.begins("b").await;
    assert!(scene.record().await.unwrap().stream.unwrap().is_on);
}

/// What a gateway does with its rooms if this is its store.
fn room_streams(app: &AppState, store: &Arc<FaultyStore>) -> RoomStreams {
    RoomStreams {
        core: app.core.clone(),
        store: store.clone(),
        store_for_clients: store.clone(),
        watched: Arc::new(WatchedStreams::new(Duration::ZERO, None)),
    }
}

#[tokio::test(start_paused = true)]
async fn the_state_is_written_again_after_the_store_lost_it() {
    let scene = Scene::new();
    scene.begins("a").await;
    let lives = &scene.parts.app.lives;
    lives.record_changed(&live()).await.unwrap();
    let room = scene.parts.app.core.rooms.get(&live()).unwrap();
    let before = scene.store.load_streams(&live()).await.unwrap();
    let restored = Arc::new(FaultyStore::new());
    restored.keep_live(&room.record, "").await.unwrap();
    room_streams(&scene.parts.app, &restored)
        .rewritten(&room)
        .await
        .unwrap();
    let known = restored.load_streams(&live()).await.unwrap();
    assert_eq!(known.streams, before.streams);
    let record = restored.load_live(&live()).await.unwrap().unwrap();
    assert!(record.stream.unwrap().is_on);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_remembers_more_than_the_store_writes_it_again_at_its_next_check() {
    let scene = Scene::new();
    scene.begins("a").await;
    let app = &scene.parts.app;
    app.lives.record_changed(&live()).await.unwrap();
    let room = app.core.rooms.get(&live()).unwrap();
    // Another gateway wrote the record again, and died before it wrote the streams.
    let elsewhere = Arc::new(FaultyStore::new());
    elsewhere.keep_live(&room.record, "").await.unwrap();
    assert_eq!(
        elsewhere.load_live(&live()).await.unwrap().unwrap().stream,
        None
    );
    room_streams(app, &elsewhere)
        .confirmed(&room)
        .await
        .unwrap();
    let record = elsewhere.load_live(&live()).await.unwrap().unwrap();
    assert!(record.stream.unwrap().is_on);
}
