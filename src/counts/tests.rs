//! The pace by itself, and beside the flusher on a clock that the test moves.

use tokio::time::advance;

use super::*;
use crate::clock::Clock;
use crate::config::Config;
use crate::conn::{Conn, Signals};
use crate::flush;
use crate::ids::LiveId;
use crate::lease;
use crate::rooms::room::Interest;
use crate::store::memory::MemoryStore;
use crate::testing;

const FLUSH: Millis = 250;

fn figures(viewers: u64, fans: u64) -> Figures {
    Figures { viewers, fans }
}

/// A step while the store has confirmed everything.
fn step(pace: &mut Pace, now: Millis, figures: Figures) -> Step {
    pace.step(now, figures, Quality::Exact, || None)
}

/// A step while something is unconfirmed since then.
fn step_with(pace: &mut Pace, now: Millis, figures: Figures, since: Millis) -> Step {
    pace.step(now, figures, Quality::Exact, || Some(Underway { since, flush: FLUSH }))
}

#[test]
fn the_first_change_goes_out_at_once_and_the_rest_are_throttled() {
    let mut pace = Pace::default();
    assert_eq!(step(&mut pace, 0, figures(1, 1)), Step::Send);
    assert_eq!(step(&mut pace, 1_000, figures(2, 1)), Step::Send);
    assert_eq!(step(&mut pace, 1_010, figures(3, 1)), Step::At(1_500));
    assert_eq!(step(&mut pace, 1_400, figures(9, 1)), Step::At(1_500));
    assert_eq!(step(&mut pace, 1_500, figures(9, 1)), Step::Send);
    assert_eq!(step(&mut pace, 1_501, figures(9, 1)), Step::Nothing);
}

#[test]
fn who_begins_to_watch_is_not_left_with_what_it_was_told_first() {
    let mut pace = Pace::default();
    assert!(!pace.told(1_000, figures(1, 0), Quality::Exact));
    assert_eq!(step(&mut pace, 1_001, figures(2, 0)), Step::Send, "the first change goes out at once");
    assert!(pace.told(1_100, figures(3, 0), Quality::Exact));
    assert_eq!(step(&mut pace, 1_200, figures(2, 0)), Step::At(1_501));
    assert_eq!(step(&mut pace, 1_501, figures(2, 0)), Step::Send, "it was told 3");
    assert_eq!(step(&mut pace, 2_100, figures(2, 0)), Step::Nothing);
}

#[test]
fn people_who_keep_joining_do_not_starve_it() {
    let mut pace = Pace::default();
    let sent = (0..10_000).filter(|now| step(&mut pace, *now, figures(1 + now, 1)) == Step::Send).count();
    assert_eq!(sent, 20);
}

#[test]
fn zero_goes_out_at_once_but_flapping_is_bounded() {
    let mut pace = Pace::default();
    step(&mut pace, 0, figures(1, 1));
    assert_eq!(step_with(&mut pace, 60, figures(1, 0), 0), Step::Send, "a flush is not waited for");
    assert_eq!(step(&mut pace, 70, figures(0, 0)), Step::At(110));
    let flaps = (200..1_200).filter(|n| step(&mut pace, *n, figures(n % 2, 0)) == Step::Send).count();
    assert!(flaps <= 21, "{flaps}");
}

#[test]
fn counts_that_are_due_wait_for_a_flush_that_is_about_to_be_over() {
    let mut pace = Pace::default();
    step(&mut pace, 1_000, figures(1, 1));
    assert_eq!(step_with(&mut pace, 1_400, figures(5, 1), 1_260), Step::At(1_500), "not due");
    assert_eq!(step_with(&mut pace, 1_500, figures(6, 1), 1_260), Step::At(1_750));
    assert_eq!(step_with(&mut pace, 1_505, figures(7, 1), 1_260), Step::At(1_750));
    assert_eq!(step_with(&mut pace, 1_520, figures(7, 6), 1_511), Step::Send, "what is left is as new as can be");
    // Beside changes that are new it does not wait, and not for a quality either.
    assert_eq!(step_with(&mut pace, 2_020, figures(8, 6), 1_900), Step::Send);
    let changes = Underway { since: 1_900, flush: FLUSH };
    assert_eq!(pace.step(2_100, figures(8, 6), Quality::Stale, || Some(changes)), Step::Send);
}

#[test]
fn a_flush_that_takes_too_long_is_not_waited_for() {
    let mut pace = Pace::default();
    step(&mut pace, 1_000, figures(1, 1));
    assert_eq!(step_with(&mut pace, 1_500, figures(2, 1), 1_260), Step::At(1_750));
    assert_eq!(step_with(&mut pace, 1_750, figures(2, 1), 1_260), Step::Send, "a flush interval is enough");
    assert_eq!(step_with(&mut pace, 2_250, figures(3, 1), 1_260), Step::Send, "the store does not answer");
    // Turns that are further apart than counts: what is known does not wait for what is far.
    let rare = |since| move || Some(Underway { since, flush: 4 * GAP });
    assert_eq!(pace.step(2_750, figures(4, 1), Quality::Exact, rare(1_700)), Step::Send);
    assert_eq!(pace.step(3_250, figures(5, 1), Quality::Exact, rare(1_300)), Step::At(3_500));
}

/// One gateway on a memory store, with its flusher and its counts.
struct Scene {
    core: Arc<Core>,
    dashboard: Arc<Conn>,
    stop: CancellationToken,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Scene {
    /// With a live `42` that a dashboard watches, and a live `other`.
    async fn new() -> Self {
        let store = Arc::new(MemoryStore::new(Clock::start()));
        let config = Config { flush: std::time::Duration::from_millis(FLUSH), ..Config::default() };
        let core = testing::core_on(config, store);
        testing::open_live(&core, "42").await;
        testing::open_live(&core, "other").await;
        let stop = CancellationToken::new();
        // Without a lease the flusher makes no entries.
        let tasks = vec![
            tokio::spawn(lease::run(core.clone(), stop.clone())),
            tokio::spawn(flush::run(core.clone(), stop.clone())),
            tokio::spawn(run(core.clone(), stop.clone())),
        ];
        let scene = Self { core, dashboard: testing::conn("d1"), stop, tasks };
        scene.room("42").listen(&scene.dashboard, Interest::Counts).unwrap();
        scene
    }

    fn room(&self, live: &str) -> Arc<Room> {
        self.core.rooms.get(&LiveId::parse(live).unwrap()).unwrap()
    }

    async fn fan_joins(&self, live: &str, user: &str) {
        let (room, fan) = (self.room(live), testing::conn(user));
        self.core.store.follow(&fan.identity.user, &room.record.streamer).await.unwrap();
        room.join(&fan, self.core.clock.now()).unwrap();
        self.core.flush.mark(&room, 0);
        self.core.changed.mark(&room);
    }

    /// Lets a millisecond pass; the fans that the dashboard was told, if it was.
    async fn tick(&self) -> Option<u64> {
        advance(std::time::Duration::from_millis(1)).await;
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        let told = !self.dashboard.take(Signals::COUNTS).is_empty();
        told.then(|| self.room("42").pace.lock().shown().unwrap().figures.fans)
    }

    async fn end(self) {
        self.stop.cancel();
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

/// Fans who keep joining, and a flusher whose turns come so much before the counts; answers how long each join took to
/// the dashboard, in ms, in order.
async fn joins_beside_a_flusher(ahead: Millis) -> Vec<Millis> {
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
    let clock = scene.core.clock;
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
    let apart: Vec<Millis> = told.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(apart.iter().all(|apart| (GAP..=GAP + FLUSH).contains(apart)), "told {apart:?} ms apart");
    assert!(told[0] <= began + 2, "the first change goes out at once");
    assert_eq!(shown.len(), joined.len());
    scene.end().await;
    shown.iter().zip(&joined).map(|(shown, joined)| shown - joined).collect()
}

#[tokio::test(start_paused = true)]
async fn counts_and_flusher_fall_into_step() {
    const SLACK: Millis = 10;
    for ahead in [0, 1, 60, 120, 130, 190, 240, 249] {
        let took = joins_beside_a_flusher(ahead).await;
        let worst = took.iter().max().copied().unwrap();
        assert!(worst <= GAP + FLUSH / 2 + SLACK, "{worst} ms with a turn {ahead} ms before the counts");
        // From the second counts on, the turn is over just before them, unless it was not long before anyway.
        let settled = took[took.len() / 3..].iter().max().copied().unwrap();
        let longest = if ahead < FLUSH / 2 { GAP + ahead } else { GAP };
        assert!(settled <= longest + SLACK, "{settled} ms with a turn {ahead} ms before the counts");
    }
}
