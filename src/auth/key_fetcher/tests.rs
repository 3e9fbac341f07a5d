//! When the set is fetched, by paused time: the source is a list of answers.

use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use jsonwebtoken::{Algorithm, Header};

use super::super::test_keys::{ED25519, P256, set};
use super::*;

/// Answers with what it holds at the moment, after so long.
#[derive(Clone)]
struct Source {
    answer: Arc<Mutex<Result<Vec<u8>, FetchError>>>,
    takes: Duration,
    fetches: Arc<AtomicUsize>,
}

#[async_trait]
impl KeySource for Source {
    async fn fetch(&self) -> Result<Vec<u8>, FetchError> {
        self.fetches.fetch_add(1, Ordering::Relaxed);
        sleep(self.takes).await;
        self.answer.lock().clone()
    }
}

struct World {
    source: Source,
    ring: Arc<ArcSwap<KeyRing>>,
    orders: FetchOrders,
    stop: CancellationToken,
    began: Instant,
}

impl World {
    /// A fetcher that has fetched the key `old` and runs.
    async fn new(takes: Duration) -> Self {
        let answer = Arc::new(Mutex::new(Ok(set(&[P256.jwk(Algorithm::ES256, "old")]))));
        let source = Source {
            answer,
            takes,
            fetches: Arc::default(),
        };
        let ring = Arc::new(ArcSwap::from_pointee(KeyRing::new(
            Arc::default(),
            Arc::default(),
        )));
        let (fetcher, orders) =
            KeyFetcher::new(Box::new(source.clone()), ring.clone(), Arc::default());
        let fetcher = fetcher.first(Duration::ZERO).await.unwrap();
        let stop = CancellationToken::new();
        tokio::spawn(fetcher.run(stop.clone()));
        Self {
            source,
            ring,
            orders,
            stop,
            began: Instant::now(),
        }
    }

    fn rotate(&self) {
        *self.source.answer.lock() = Ok(set(&[ED25519.jwk(Algorithm::EdDSA, "new")]));
    }

    fn fetches(&self) -> usize {
        self.source.fetches.load(Ordering::Relaxed)
    }

    fn has(&self, id: &str) -> bool {
        self.ring.load().has(id)
    }

    async fn passes(&self, time: Duration) {
        sleep(time).await;
        // The fetcher woke at the same moment, perhaps later.
        sleep(Duration::from_millis(1)).await;
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn the_set_is_fetched_every_five_minutes_or_so() {
    let world = World::new(Duration::ZERO).await;
    world.rotate();
    world.passes(EVERY.mul_f64(0.85)).await;
    assert_eq!((world.fetches(), world.has("old")), (1, true));
    world.passes(EVERY.mul_f64(0.3)).await;
    assert_eq!(
        (world.fetches(), world.has("old"), world.has("new")),
        (2, false, true)
    );
    world.passes(EVERY * 10).await;
    assert!((10..=14).contains(&world.fetches()), "{}", world.fetches());
}

#[tokio::test(start_paused = true)]
async fn old_keys_stay_when_a_fetch_fails_and_the_next_comes_sooner() {
    let world = World::new(Duration::ZERO).await;
    for failure in [
        Err(FetchError::Status(500)),
        Ok(b"<html>".to_vec()),
        Ok(set(&[])),
    ] {
        *world.source.answer.lock() = failure;
        let before = world.fetches();
        world.passes(EVERY * 2).await;
        assert!(world.fetches() > before + 5 && world.has("old"));
    }
    world.rotate();
    world.passes(RETRY_DELAY * 2).await;
    assert!(world.has("new"));
}

#[tokio::test(start_paused = true)]
async fn unknown_keys_cause_one_fetch_a_minute_and_wait_for_it() {
    let world = World::new(SECOND).await;
    world.rotate();
    let crowd = futures_util::future::join_all((0..1_000).map(|_| world.orders.for_unknown_key()));
    crowd.await;
    assert_eq!((world.fetches(), world.began.elapsed().as_secs()), (2, 1));
    assert!(world.has("new"));
    // For the rest of the minute nobody waits.
    for _ in 0..59 {
        let began = Instant::now();
        world.orders.for_unknown_key().await;
        assert!(began.elapsed() < SECOND / 10);
        world.passes(SECOND).await;
    }
    assert_eq!(world.fetches(), 2);
    world.passes(SECOND).await;
    world.orders.for_unknown_key().await;
    assert_eq!(world.fetches(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_token_waits_a_few_seconds_only_and_the_fetch_goes_on_without_it() {
    let world = World::new(PATIENCE * 2).await;
    world.rotate();
    let began = Instant::now();
    world.orders.for_unknown_key().await;
    assert_eq!(began.elapsed().as_secs(), PATIENCE.as_secs());
    assert!(!world.has("new"));
    world.passes(PATIENCE + SECOND).await;
    assert_eq!((world.fetches(), world.has("new")), (2, true));
}

#[tokio::test(start_paused = true)]
async fn only_so_many_tokens_wait_while_the_url_hangs() {
    let world = World::new(PATIENCE * 2).await;
    let waited = |_| async {
        let began = Instant::now();
        world.orders.for_unknown_key().await;
        usize::from(began.elapsed() >= PATIENCE)
    };
    let crowd = futures_util::future::join_all((0..1_000).map(waited)).await;
    assert_eq!(crowd.iter().sum::<usize>(), MOST_WAITING);
    assert_eq!(waited(0).await, 1, "the places are free again");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_hangs_up_does_not_end_the_fetch() {
    let world = World::new(SECOND).await;
    world.rotate();
    assert!(
        timeout(SECOND / 2, world.orders.for_unknown_key())
            .await
            .is_err()
    );
    world.orders.for_unknown_key().await;
    assert_eq!((world.fetches(), world.has("new")), (2, true));
}

#[tokio::test(start_paused = true)]
async fn an_order_of_the_operator_ignores_the_minute() {
    let world = World::new(SECOND).await;
    world.orders.for_unknown_key().await;
    world.rotate();
    world.orders.now().await;
    assert_eq!((world.fetches(), world.has("new")), (3, true));
}

#[tokio::test(start_paused = true)]
async fn the_same_set_again_forgets_no_token() {
    let world = World::new(Duration::ZERO).await;
    let before = Arc::as_ptr(&world.ring.load());
    world.orders.now().await;
    assert_eq!(
        (world.fetches(), Arc::as_ptr(&world.ring.load())),
        (2, before)
    );
    let header = Header {
        kid: Some("old".to_owned()),
        ..Header::new(Algorithm::ES256)
    };
    assert_eq!(world.ring.load().candidates(&header).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_first_fetch_is_tried_again_for_as_long_as_told() {
    let failing = Source {
        answer: Arc::new(Mutex::new(Err(FetchError::Status(404)))),
        takes: Duration::ZERO,
        fetches: Arc::default(),
    };
    let ring = Arc::new(ArcSwap::from_pointee(KeyRing::new(
        Arc::default(),
        Arc::default(),
    )));
    for (wait, fetches) in [(Duration::ZERO, 1), (SECOND * 3, 7)] {
        failing.fetches.store(0, Ordering::Relaxed);
        let (fetcher, _) = KeyFetcher::new(Box::new(failing.clone()), ring.clone(), Arc::default());
        assert_eq!(
            fetcher.first(wait).await.err(),
            Some(FetchError::Status(404))
        );
        assert_eq!(failing.fetches.load(Ordering::Relaxed), fetches);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_fetcher_in_the_middle_of_a_fetch() {
    let World {
        stop,
        orders,
        source,
        ..
    } = World::new(SECOND * 9).await;
    let asking = tokio::spawn(async move { orders.now().await });
    while source.fetches.load(Ordering::Relaxed) < 2 {
        sleep(SECOND / 10).await;
    }
    let began = Instant::now();
    stop.cancel();
    asking.await.unwrap();
    assert!(began.elapsed() < SECOND);
}
