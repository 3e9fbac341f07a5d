//! Keeps the keys of a URL fresh. One task fetches the key set: every few minutes, on demand, and
//! when a token names an unknown key, because the issuer may have begun to use a new one. Old keys
//! stay until a new set has arrived.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use super::jwks::{self, KeysFrom};
use super::key::VerifyingKey;
use super::key_ring::{KeyRing, TokenDigest, digest};
use super::key_url::{DEADLINE, FetchError, KeySource};
use super::keys::JWKS;
use crate::base::metrics::Metrics;

/// The pause between two fetches; spread by a tenth either way, so that gateways do not ask in
/// step.
const EVERY: Duration = Duration::from_secs(300);

/// The pause after a failed fetch.
const RETRY_DELAY: Duration = Duration::from_secs(30);

/// The shortest pause between two fetches that tokens with unknown keys cause. Anybody can make up
/// such tokens.
const UNKNOWN_KEY_EVERY: Duration = Duration::from_secs(60);

/// How long a token with an unknown key waits for the fetch.
const PATIENCE: Duration = Duration::from_secs(4);

/// The most tokens that wait at the same time. Each holds a connection, and other requests need
/// connections while the URL hangs.
const MOST_WAITING: usize = 64;

/// At start: the pause between two attempts.
const START_PAUSE: Duration = Duration::from_millis(500);

/// The most orders in the queue; a further order is dropped. Tokens with unknown keys order one
/// fetch a minute, and operators order a few.
const MOST_ORDERS: usize = 4;

/// True once a fetch has brought a set. The fetcher drops it when the fetch has ended, and so wakes
/// the callers that wait for the fetch.
type FetchOrder = watch::Sender<bool>;

/// Orders fetches.
pub(super) struct FetchOrders {
    orders: mpsc::Sender<FetchOrder>,
    /// The last fetch that an unknown key caused: when it was ordered, and its end.
    for_unknown_key: Mutex<Option<(Instant, watch::Receiver<bool>)>>,
    waiting: Semaphore,
}

impl FetchOrders {
    /// Waits for the fetch that unknown keys of the last minute have caused, or causes one. The
    /// wait is short; a caller does not wait if too many others wait already.
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
        // The end of the fetch drops the sender, which is an error here.
        let _ = timeout(PATIENCE, done.changed()).await;
    }

    /// Orders a fetch and waits for it. Returns whether it brought a set.
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
    orders: mpsc::Receiver<FetchOrder>,
    /// The digest of the set in force. The same set changes nothing when it is fetched again.
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

    /// Fetches the first set, and retries for the duration `wait` if that fails. Returns the
    /// fetcher, ready to run.
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
            () = self.fetch_forever() => {}
        }
    }

    async fn fetch_forever(&mut self) {
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
                    RETRY_DELAY
                }
            };
            next = Instant::now() + spread(pause);
            drop(order);
        }
    }

    async fn fetch(&mut self) -> Result<(), FetchError> {
        let fetched = self.fetch_set().await;
        let label = match &fetched {
            Ok(_) => "ok",
            Err(why) => why.label(),
        };
        Metrics::count_result(&self.metrics.key_fetches, label);
        let (set, keys) = fetched?;
        if self.present != Some(set) {
            let keys: Arc<[VerifyingKey]> = keys.into();
            self.ring.rcu(|ring| ring.with_fetched(keys.clone()));
            self.present = Some(set);
            tracing::info!(setting = JWKS, keys = keys.len(), "new keys are in force");
        }
        Ok(())
    }

    /// Fetches the set once. Returns its digest and its keys.
    async fn fetch_set(&self) -> Result<(TokenDigest, Vec<VerifyingKey>), FetchError> {
        let set = self.source.fetch().await?;
        let keys = jwks::parse(&set, KeysFrom::Url)?;
        Ok((digest(&set), keys))
    }
}

/// The time, up to a tenth shorter or longer.
fn spread(time: Duration) -> Duration {
    time.mul_f64(rand::random_range(0.9..1.1))
}

#[cfg(test)]
mod tests;
