//! Decides which handshakes become sockets, and when: at a bounded rate, and no more sockets than
//! the process has descriptors for. Every WebSocket upgrade passes through it, and so does a client
//! that asks before it connects; the rest of the HTTP API does not. Connections that are not
//! sockets yet have their own bound, in [`crate::edge::listener`].
//!
//! After a network or a load balancer fails, every client reconnects at once. A handshake with a
//! join costs a thousand times what a heartbeat does, so a herd of them would delay the heartbeats
//! of the clients that stayed. Therefore:
//!
//! - **Sockets are admitted at `handshake_rate`**, in the order of their arrival. Below that rate
//!   no handshake waits.
//! - **A handshake waits up to [`queue::FIRST_WAIT`]** with its request held open: that is cheaper
//!   than a second connection.
//! - **A handshake that would wait longer is refused** with 503 and a `Retry-After` of up to
//!   [`queue::MAX_RETRY`] s. Each refusal reserves a place in the seconds to come, so the more
//!   clients are refused, the later they return. Whole seconds are rounded at random, so that
//!   clients do not return in step.
//! - **A refused user who returns in time goes before new arrivals**, and may wait up to
//!   [`queue::RETURN_WAIT`]. A user who returns too early is told the rest of the same wait, and
//!   delays nobody.
//! - **No place is kept empty**: if a refused client connects to another gateway, the next arrival
//!   takes its place here.
//! - **A client that asks before it connects books its place**; its handshake then takes it
//!   ([`Admission::reserve`]).
//! - **One address has a bounded number of sockets** ([`addresses`]).
//! - **A full gateway refuses too**, from the same queue, after a second in which lost sockets may
//!   be noticed ([`limits`]).

pub(crate) mod addresses;
pub(crate) mod limits;
pub(crate) mod queue;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

pub use self::limits::raise_open_files;
use crate::base::ids::UserId;
use crate::config::Config;
use addresses::Addresses;
use limits::AdmissionLimits;
use queue::{Decision, HandshakeQueue};

/// How long a handshake waits for a place on a full gateway. By then the gateway has closed the
/// sockets that a herd lost.
const PLACE_WAIT: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) limits: AdmissionLimits,
    /// `None` if the rate is unbounded.
    queue: Option<Mutex<HandshakeQueue>>,
    permits: Arc<Semaphore>,
    pub(crate) addresses: Addresses,
}

impl Admission {
    pub(crate) fn new(config: &Config) -> Self {
        let limits = AdmissionLimits::new(config, limits::open_files());
        let permits = Arc::new(Semaphore::new(limits.sockets.min(Semaphore::MAX_PERMITS)));
        let queue = if config.handshake_rate > 0 {
            Some(Mutex::new(HandshakeQueue::new(config.handshake_rate)))
        } else {
            None
        };
        Self {
            limits,
            queue,
            permits,
            addresses: Addresses::new(config.sockets_per_ip),
        }
    }

    /// Decides when a socket of `user` is admitted.
    pub(crate) fn decide(&self, user: &UserId) -> Decision {
        match &self.queue {
            Some(queue) => queue
                .lock()
                .decide(user.xxh3(), Instant::now(), rand::random()),
            None => Decision::Admit(Duration::ZERO),
        }
    }

    /// Decides as [`Self::decide`] does, for a client that asks before it connects. The queue keeps
    /// the place for a while, for the handshake of the same user.
    pub(crate) fn reserve(&self, user: &UserId) -> Decision {
        match &self.queue {
            Some(queue) => queue
                .lock()
                .reserve(user.xxh3(), Instant::now(), rand::random()),
            None => Decision::Admit(Duration::ZERO),
        }
    }

    /// Takes a place for a socket, if one is free now.
    pub(crate) fn place_now(&self) -> Option<OwnedSemaphorePermit> {
        self.permits.clone().try_acquire_owned().ok()
    }

    /// Waits a moment for a place. Waiting handshakes get places in the order of their arrival.
    ///
    /// # Errors
    /// After how many seconds `user` should try again.
    pub(crate) async fn place(&self, user: &UserId) -> Result<OwnedSemaphorePermit, u64> {
        let permits = self.permits.clone();
        if let Ok(Ok(place)) = tokio::time::timeout(PLACE_WAIT, permits.acquire_owned()).await {
            return Ok(place);
        }
        // Nobody knows when a socket will end; the delay only keeps a herd from returning in step.
        let retry_after = match &self.queue {
            Some(queue) => queue
                .lock()
                .refuse(user.xxh3(), Instant::now(), rand::random()),
            None => rand::random_range(1..=queue::MAX_RETRY / 6),
        };
        Err(retry_after)
    }
}
