//! Counts beside the flusher, on a clock that the test moves.

use crate::features::WholeStore;
use tokio::time::advance;

use super::*;
use crate::base::clock::{Clock, Millis};
use crate::base::gcra::Rate;
use crate::base::ids::LiveId;
use crate::config::Config;
use crate::edge::http::state::AppState;
use crate::gateway::wiring::{self, FromOutside};
use crate::presence::conn::{Conn, Signals};
use crate::presence::figures::Quality;
use crate::presence::room::Interest;
use crate::presence::throttle::GAP;
use crate::store::memory::MemoryStore;
use crate::testing;

const FLUSH: Millis = 250;

/// One gateway on a memory store, with its flusher and its counts.
struct Scene {
    app: Arc<AppState>,
    dashboard: Arc<Conn>,
    stop: CancellationToken,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Scene {
    /// With a live `42` that a dashboard watches, and a live `other`.
    async fn new() -> Self {
        let store: Arc<dyn WholeStore> = Arc::new(MemoryStore::new(Clock::start()));
        let config = Config {
            flush: std::time::Duration::from_millis(FLUSH),
            ..Config::default()
        };
        let parts = wiring::wire(
            &config,
            FromOutside::default(),
            &store,
            &Arc::default(),
            &tokio_util::task::TaskTracker::new(),
        )
        .unwrap();
        let app = parts.app;
        testing::open_live(&app.sessions, "42").await;
        testing::open_live(&app.sessions, "other").await;
        let stop = CancellationToken::new();
        // Without a lease the flusher makes no entries.
        let tasks = vec![
            tokio::spawn(parts.lease.run(stop.clone())),
            tokio::spawn(parts.flusher.run(stop.clone())),
            tokio::spawn(parts.counts.run(stop.clone())),
        ];
        let scene = Self {
            app,
            dashboard: testing::conn("d1"),
            stop,
            tasks,
        };
        scene
            .room("42")
            .listen(&scene.dashboard, Interest::Counts)
            .unwrap();
        scene
    }

    fn room(&self, live: &str) -> Arc<Room> {
        self.app
            .core
            .rooms
            .get(&LiveId::parse(live).unwrap())
            .unwrap()
    }

    async fn fan_joins(&self, live: &str, user: &str) {
        let (room, fan) = (self.room(live), testing::conn(user));
        self.app
            .core
            .store
            .follow(&fan.identity.user, &room.record.streamer)
            .await
            .unwrap();
        room.join(&fan, Rate::per_second(0), self.app.core.clock.now(), 0)
            .unwrap();
        self.app.core.rooms.user_changed(&room, &fan.identity.user);
    }

    /// Lets a millisecond pass; the fans that the dashboard was told, if it was.
    async fn tick(&self) -> Option<u64> {
        advance(std::time::Duration::from_millis(1)).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        let told = !self.dashboard.take(Signals::COUNTS).is_empty();
        told.then(|| {
            self.room("42")
                .schedule
                .throttle
                .lock()
                .shown()
                .unwrap()
                .figures
                .fans
        })
    }

    async fn end(self) {
        self.stop.cancel();
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

/// Fans who keep joining, and a flusher whose turns come so much before the counts; answers how
/// long the join took to the dashboard that took longest, in ms.
async fn joins_beside_a_flusher(ahead: Millis) -> Millis {
    const EVERY: usize = 5;
    let scene = Scene::new().await;
    scene.fan_joins("42", "first").await;
    for _ in 0..2_000 {
        scene.tick().await;
    }
    // What happens in the other live takes the turn.
    scene.fan_joins("other", "u0").await;
    for _ in 0..ahead {
        scene.tick().await;
    }
    let clock = scene.app.core.clock;
    let (mut joined, mut shown, mut told) = (Vec::new(), Vec::new(), Vec::new());
    let began = clock.now();
    for now in 0..4_000 {
        if now % EVERY == 0 && now < 3_000 {
            joined.push(clock.now());
            scene.fan_joins("42", &format!("u{now}")).await;
        }
        if let Some(fans) = scene.tick().await {
            told.push(clock.now());
            shown.resize(fans as usize - 1, clock.now());
        }
    }
    let apart: Vec<Millis> = told.windows(2).map(|two| two[1].since(two[0])).collect();
    assert!(
        apart
            .iter()
            .all(|apart| (GAP..=GAP + FLUSH).contains(apart)),
        "told {apart:?} ms apart"
    );
    assert!(
        told[0] <= began + FLUSH + 2,
        "the first change goes out with the first turn"
    );
    assert_eq!(shown.len(), joined.len());
    scene.end().await;
    shown
        .iter()
        .zip(&joined)
        .map(|(shown, joined)| shown.since(*joined))
        .max()
        .unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_join_is_shown_within_a_flush_and_the_gap_between_two_counts() {
    const SLACK: Millis = 10;
    for ahead in [0, 1, 60, 120, 130, 190, 240, 249] {
        let worst = joins_beside_a_flusher(ahead).await;
        assert!(
            worst <= GAP + FLUSH + SLACK,
            "{worst} ms with a turn {ahead} ms before the counts"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn figures_are_not_exact_while_the_store_does_not_take_a_join_here() {
    let scene = Scene::new().await;
    scene.fan_joins("42", "u1").await;
    for _ in 0..1_000 {
        scene.tick().await;
    }
    let quality = || scene.app.sessions.trust.quality(&scene.room("42"));
    assert_eq!(quality(), Quality::Exact);
    scene.tasks[1].abort();
    scene.fan_joins("42", "u2").await;
    for _ in 0..1_000 {
        scene.tick().await;
    }
    assert_eq!(quality(), Quality::Partial);
}
