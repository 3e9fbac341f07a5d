//! Keeps the keys of a URL fresh. One task fetches: every few minutes, on demand, and when a token
//! names a key that is not known, which is how a new key announces itself. Old keys stay until a
//! new set has arrived.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::jwks::{self, Origin};
use super::key::Key;
use super::key_ring::{KeyRing, TokenDigest, digest};
use super::key_url::{DEADLINE, FetchError, KeySource};
use super::keys::JWKS;
use crate::base::metrics::Metrics;

/// How often the set is fetched; spread by a tenth either way, so that gateways do not ask in step.
const EVERY: Duration = Duration::from_secs(300);

/// After a failed fetch the next one comes sooner.
const AFTER_FAILURE: Duration = Duration::from_secs(30);

/// How often tokens with unknown keys may cause a fetch. Anybody can make up such tokens.
const UNKNOWN_KEY_EVERY: Duration = Duration::from_secs(60);

/// How long a token with an unknown key waits for the fetch.
const PATIENCE: Duration = Duration::from_secs(4);

/// How many tokens wait at a time. Each holds a connection, of which others need some while the URL
/// hangs.
const MOST_WAITING: usize = 64;

/// At start: the pause between two attempts.
const START_PAUSE: Duration = Duration::from_millis(500);

/// Tokens with unknown keys order a fetch a minute, and operators order some; beyond that, an order
/// is dropped.
const MOST_ORDERS: usize = 4;

/// True once a fetch has brought a set. Dropped when the fetch has ended, which wakes everybody who
/// waits for it.
type Order = watch::Sender<bool>;

/// Orders fetches.
pub(super) struct FetchOrders {
    orders: mpsc::Sender<Order>,
    /// The last fetch that an unknown key caused: when it was ordered, and its end.
    for_unknown_key: Mutex<Option<(Instant, watch::Receiver<bool>)>>,
    waiting: Semaphore,
}

impl FetchOrders {
    /// Waits for the fetch that unknown keys of the last minute have caused, or causes one. The
    /// wait is short, and there is none if too many wait already.
    pub(super) async fn for_unknown_key(&self) {
        let mut done = {
            let mut last = self.for_unknown_key.lock();
            match &*last {
                Some((at, done)) if at.elapsed() < UNKNOWN_KEY_EVERY => done.clone(),
                _ => {
                    let done = self.order();
                    *last = Some((Instant::now(), done.clone()));
                    done
                }
            }
        };
        let Ok(_waiting) = self.waiting.try_acquire() else {
            return;
        };
        // An error is what the end of the fetch looks like.
        let _ = timeout(PATIENCE, done.changed()).await;
    }

    /// Fetches now, whatever was fetched before; answers whether that brought a set.
    pub(super) async fn now(&self) -> bool {
        let mut done = self.order();
        // Another fetch may be under way.
        matches!(
            timeout(DEADLINE * 2, done.wait_for(|fetched| *fetched)).await,
            Ok(Ok(_))
        )
    }

    fn order(&self) -> watch::Receiver<bool> {
        let (order, done) = watch::channel(false);
        let _ = self.orders.try_send(order);
        done
    }
}

/// The task that fetches.
pub(crate) struct KeyFetcher {
    source: Box<dyn KeySource>,
    ring: Arc<ArcSwap<KeyRing>>,
    orders: mpsc::Receiver<Order>,
    /// Stands for the set in force: fetched again, it changes nothing.
    present: Option<TokenDigest>,
    metrics: Arc<Metrics>,
}

impl KeyFetcher {
    pub(super) fn new(
        source: Box<dyn KeySource>,
        ring: Arc<ArcSwap<KeyRing>>,
        metrics: Arc<Metrics>,
    ) -> (Self, FetchOrders) {
        let (sender, orders) = mpsc::channel(MOST_ORDERS);
        let fetcher = Self {
            source,
            ring,
            orders,
            present: None,
            metrics,
        };
        (
            fetcher,
            FetchOrders {
                orders: sender,
                for_unknown_key: Mutex::new(None),
                waiting: Semaphore::new(MOST_WAITING),
            },
        )
    }

    /// Fetches the first set, and tries again for so long if that fails. Returns the fetcher, ready
    /// to run.
    ///
    /// # Errors
    /// Why the last attempt failed.
    pub(crate) async fn first(mut self, wait: Duration) -> Result<Self, FetchError> {
        let deadline = Instant::now() + wait;
        loop {
            match self.fetch().await {
                Ok(()) => return Ok(self),
                Err(why) if Instant::now() < deadline => {
                    tracing::info!(setting = JWKS, error = %why, "the keys cannot be fetched yet; waiting");
                }
                Err(why) => return Err(why),
            }
            sleep(START_PAUSE).await;
        }
    }

    pub(crate) async fn run(mut self, stop: CancellationToken) {
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.fetch_again_and_again() => {}
        }
    }

    async fn fetch_again_and_again(&mut self) {
        let mut next = Instant::now() + spread(EVERY);
        loop {
            let order = tokio::select! {
                Some(order) = self.orders.recv() => Some(order),
                () = sleep_until(next) => None,
            };
            let pause = match self.fetch().await {
                Ok(()) => {
                    if let Some(order) = &order {
                        order.send_replace(true);
                    }
                    EVERY
                }
                Err(why) => {
                    tracing::error!(setting = JWKS, error = %why, "the keys could not be fetched; the old ones stay");
                    AFTER_FAILURE
                }
            };
            next = Instant::now() + spread(pause);
            drop(order);
        }
    }

    async fn fetch(&mut self) -> Result<(), FetchError> {
        let fetched = self
            .source
            .fetch()
            .await
            .and_then(|set| Ok((digest(&set), jwks::parse(&set, Origin::Url)?)));
        Metrics::count_result(
            &self.metrics.key_fetches,
            fetched.as_ref().map_or_else(FetchError::label, |_| "ok"),
        );
        let (set, keys) = fetched?;
        if self.present != Some(set) {
            let keys: Arc<[Key]> = keys.into();
            self.ring.rcu(|ring| ring.with_fetched(keys.clone()));
            self.present = Some(set);
            tracing::info!(setting = JWKS, keys = keys.len(), "new keys are in force");
        }
        Ok(())
    }
}

fn spread(time: Duration) -> Duration {
    time.mul_f64(rand::random_range(0.9..1.1))
}

#[cfg(test)]
mod tests;
