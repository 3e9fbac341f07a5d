//! The loop against a source that the test plays, and the batches by themselves.

use crate::base::clock::Clock;
use crate::peers::core::Core;
use std::collections::{BTreeSet, HashSet, VecDeque};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::base::gcra::Rate;
use crate::base::ids::{LiveId, UserId};
use crate::config::{Config, FanSource};
use crate::features::fan_sources::asker::*;
use crate::presence::Room;
use crate::presence::bans::KnownBans;
use crate::presence::conn::Conn;
use crate::store::memory::MemoryStore;
use crate::store::{LiveStore, MAX_BATCH, OpenLive, OpenReply, OpenedBy, StoreError, Terms};
use crate::testing;

/// Answers as the test says, after the test lets it. Everybody is a fan.
#[derive(Default)]
struct Played {
    asked: Mutex<Vec<(UserId, Vec<UserId>)>>,
    failures: Mutex<VecDeque<FanError>>,
    now: Mutex<usize>,
    most: Mutex<usize>,
}

struct Source {
    played: Arc<Played>,
    lets: Arc<Semaphore>,
}

#[async_trait]
impl FanLookup for Source {
    async fn ask(&self, streamer: &UserId, users: &[UserId]) -> Result<FanAnswers, FanError> {
        self.played
            .asked
            .lock()
            .push((streamer.clone(), users.to_vec()));
        let now = {
            let mut now = self.played.now.lock();
            *now += 1;
            *now
        };
        let most = (*self.played.most.lock()).max(now);
        *self.played.most.lock() = most;
        self.lets.acquire().await.unwrap().forget();
        *self.played.now.lock() -= 1;
        let failure = self.played.failures.lock().pop_front();
        failure.map_or_else(|| Ok(vec![Some(true); users.len()]), Err)
    }
}

/// Rooms whose fans are known elsewhere.
struct Scene {
    core: Arc<Core>,
    store: Arc<MemoryStore>,
    played: Arc<Played>,
    lets: Arc<Semaphore>,
}

impl Scene {
    fn new() -> Self {
        let config = Config {
            fan_source: FanSource::Http,
            flush: Duration::from_millis(250),
            ..Config::default()
        };
        let store = Arc::new(MemoryStore::new(Clock::start()));
        Self {
            core: Arc::new(Core::new(
                &config,
                store.clone(),
                store.clone(),
                &Arc::default(),
            )),
            store,
            played: Arc::default(),
            lets: Arc::new(Semaphore::new(0)),
        }
    }

    async fn room(&self, live: &str, streamer: &str, slices: u32) -> Arc<Room> {
        let wish = OpenLive {
            live: LiveId::parse(live).unwrap(),
            streamer: UserId::parse(streamer).unwrap(),
            slices,
            by: OpenedBy::Service,
            terms: Terms::default(),
            message: String::new(),
        };
        let (OpenReply::Opened(record) | OpenReply::AlreadyOpen(record)) =
            self.store.open_live(&wish).await.unwrap()
        else {
            panic!("the live is not open");
        };
        self.core.rooms.install(self.core.rooms.prepare(
            record.clone(),
            KnownBans::default(),
            self.core.clock.now(),
        ));
        self.core.rooms.of_epoch(&record).unwrap()
    }

    fn joins(&self, room: &Arc<Room>, user: &str) -> Arc<Conn> {
        let conn = testing::conn(user);
        assert!(
            room.join(&conn, Rate::per_second(0), self.core.clock.now(), 0)
                .is_ok()
        );
        self.core.rooms.user_changed(room, &conn.identity.user);
        conn
    }

    /// Starts the loop with so many calls at a time.
    fn asks(&self, calls: usize) -> CancellationToken {
        let stop = CancellationToken::new();
        let asker = FanAsker {
            core: self.core.clone(),
            source: Arc::new(Source {
                played: self.played.clone(),
                lets: self.lets.clone(),
            }),
            calls,
        };
        tokio::spawn(asker.run(stop.clone()));
        stop
    }

    async fn passes(&self, ms: u64) {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }

    fn asked(&self) -> usize {
        self.played.asked.lock().len()
    }

    fn is_fan(room: &Room, user: &str) -> bool {
        room.seats.view(&UserId::parse(user).unwrap()).unwrap().fan == crate::presence::Fan::Yes
    }
}

#[tokio::test(start_paused = true)]
async fn calls_are_bounded_in_number_and_in_size_and_go_over_slices_and_lives() {
    let scene = Scene::new();
    let rooms = [
        scene.room("1", "s1", 8).await,
        scene.room("2", "s1", 4).await,
        scene.room("3", "s2", 1).await,
    ];
    for room in &rooms {
        for n in 0..1_500 {
            scene.joins(room, &format!("u{n}"));
        }
    }
    scene.asks(2);
    scene.lets.add_permits(1_000);
    scene.passes(5_000).await;
    let asked = scene.played.asked.lock().clone();
    for (_, users) in &asked {
        assert!(users.len() <= MAX_BATCH);
        assert_eq!(
            users.iter().collect::<HashSet<_>>().len(),
            users.len(),
            "each user once"
        );
    }
    // Both lives of one streamer are asked about together, unless a call about the same user is
    // under way.
    assert!(
        asked.len() <= 8,
        "{:?}",
        asked
            .iter()
            .map(|(s, users)| (s, users.len()))
            .collect::<Vec<_>>()
    );
    assert!(*scene.played.most.lock() <= 2);
    assert_eq!(
        asked
            .iter()
            .map(|(streamer, _)| streamer.as_str())
            .collect::<BTreeSet<_>>()
            .len(),
        2
    );
    for room in &rooms {
        assert!((0..1_500).all(|n| Scene::is_fan(room, &format!("u{n}"))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_user_is_in_one_call_at_a_time_and_a_change_meanwhile_is_asked_about_afterwards() {
    let scene = Scene::new();
    let (one, other) = (
        scene.room("1", "s1", 1).await,
        scene.room("2", "s1", 1).await,
    );
    scene.asks(8);
    scene.joins(&one, "u1");
    scene.passes(1).await;
    assert_eq!(scene.asked(), 1);
    scene.joins(&other, "u1");
    scene.joins(&other, "u2");
    let (user, streamer) = (UserId::parse("u1").unwrap(), UserId::parse("s1").unwrap());
    for _ in 0..5 {
        scene.core.rooms.check_fan_again(&user, &streamer);
    }
    scene.passes(2_000).await;
    let asked: Vec<_> = scene
        .played
        .asked
        .lock()
        .iter()
        .map(|(_, users)| users.clone())
        .collect();
    assert_eq!(
        asked,
        [vec![user.clone()], vec![UserId::parse("u2").unwrap()]]
    );
    scene.lets.add_permits(1);
    scene.passes(1_000).await;
    assert_eq!(
        scene.asked(),
        3,
        "one more call, for all who asked meanwhile"
    );
    assert_eq!(scene.played.asked.lock()[2].1, [user]);
    scene.lets.add_permits(10);
    scene.passes(1_000).await;
    assert!(scene.asked() == 3 && Scene::is_fan(&other, "u1") && Scene::is_fan(&other, "u2"));
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_is_made_again_with_everybody_in_it() {
    let scene = Scene::new();
    let room = scene.room("1", "s1", 4).await;
    scene
        .played
        .failures
        .lock()
        .extend([FanError::Timeout, FanError::Status(503)]);
    scene.lets.add_permits(100);
    for n in 0..50 {
        scene.joins(&room, &format!("u{n}"));
    }
    scene.asks(4);
    scene.passes(5_000).await;
    assert!((0..50).all(|n| Scene::is_fan(&room, &format!("u{n}"))));
    assert!((3..=7).contains(&scene.asked()), "{}", scene.asked());
    assert_eq!(scene.core.metrics.fan_checks.get(), 50);
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_down_is_asked_seldom_and_found_when_it_is_back() {
    let scene = Scene::new();
    let room = scene.room("1", "s1", 16).await;
    scene.lets.add_permits(10_000);
    let down = FanError::Store(StoreError::Timeout);
    scene
        .played
        .failures
        .lock()
        .extend(std::iter::repeat_n(down, 5_000));
    scene.asks(8);
    for n in 0..200 {
        scene.joins(&room, &format!("u{n}"));
        scene.passes(300).await;
    }
    let asked = scene.asked();
    assert!((15..=45).contains(&asked), "{asked} calls in a minute");
    assert_eq!(scene.core.metrics.fan_breaker.get(), 2);
    assert!(!Scene::is_fan(&room, "u0"));
    scene.played.failures.lock().clear();
    scene.passes(BACKOFF.longest + 4_500).await;
    assert!((0..200).all(|n| Scene::is_fan(&room, &format!("u{n}"))));
    assert_eq!(scene.core.metrics.fan_breaker.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_about_who_has_left_or_whose_live_is_over() {
    let scene = Scene::new();
    let (room, ended) = (
        scene.room("1", "s1", 1).await,
        scene.room("2", "s2", 1).await,
    );
    let conn = scene.joins(&room, "u1");
    scene.joins(&ended, "u2");
    room.leave(&conn, scene.core.clock.now());
    ended.release(0);
    scene.asks(8);
    scene.passes(5_000).await;
    assert_eq!(scene.asked(), 0);
    scene.joins(&room, "u3");
    scene.passes(10).await;
    assert_eq!(scene.asked(), 1, "the loop goes on");
}
