//! Owns who may become a socket, and when: at a bounded rate, and no more than there is room for. Called by the upgrade;
//! the listener's own bound, on connections that are no socket yet, is in [`crate::listener`].
//!
//! After a network or a balancer failed, everybody comes back at once. A handshake and a join cost a thousand times what a
//! heartbeat does, so all of them at once would hold up the heartbeats of those who stayed. So:
//!
//! - **Sockets are let in at `handshake_rate`**, first come, first in. Below the rate nobody waits.
//! - **A short wait is better than a refusal**: it costs the client no second connection and keeps its place in the line. Who
//!   comes first waits in place up to [`book::FIRST_WAIT`], with the request held open.
//! - **Who would wait longer is refused** with 503 and a `Retry-After` that spreads the refused over the seconds to come:
//!   each refusal takes a place of its own in that line, so it is longer the more were refused, at most
//!   [`book::MAX_RETRY`] s. It is in whole seconds, rounded up or down by chance, so that not all of a second come in step.
//! - **Who was refused and comes back in time goes before newcomers**: they wait in place up to [`book::RETURN_WAIT`],
//!   where newcomers are already refused. Known by user; who comes too early is told the rest of the same wait, and
//!   moves nobody back.
//! - **Nobody's place is kept empty**: whoever was refused here and was let in by another gateway leaves room that the
//!   next to come takes.
//! - **A full gateway refuses** with 503 too, from the same line and after a second's wait (sockets that a herd lost are
//!   closed by then), before the process runs out of descriptors ([`limits`]).
//!
//! The rate limits upgrades only, never the HTTP API and the probes.

pub mod book;
pub mod limits;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use xxhash_rust::xxh3::xxh3_64;

use crate::config::Config;
use crate::ids::UserId;
use book::{Answer, Book};
use limits::Limits;

/// Room for one socket, for as long as it is kept.
#[derive(Debug)]
pub struct Room(#[allow(dead_code, reason = "held, and given back when dropped")] OwnedSemaphorePermit);

/// How long a handshake waits for room: the sockets that a herd lost are closed within that, once it is noticed.
const ROOM_WAIT: Duration = Duration::from_secs(1);

/// The door of one gateway.
#[derive(Debug)]
pub struct Door {
    /// What the process has room for.
    pub limits: Limits,
    book: Option<Mutex<Book>>,
    rooms: Arc<Semaphore>,
}

impl Door {
    /// A door for these settings, with the descriptors that this process may open.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let limits = Limits::new(config, limits::open_files());
        let rooms = Arc::new(Semaphore::new(limits.sockets.min(Semaphore::MAX_PERMITS)));
        let book = (config.handshake_rate > 0).then(|| Mutex::new(Book::new(config.handshake_rate)));
        Self { limits, book, rooms }
    }

    /// Asks when a socket of `user` may come in: after a wait, or it is to come back later.
    pub fn ask(&self, user: &UserId) -> Answer {
        let Some(book) = &self.book else { return Answer::In(Duration::ZERO) };
        book.lock().ask(xxh3_64(user.as_str().as_bytes()), Instant::now(), rand::random())
    }

    /// Room for a socket, if there is some at once.
    pub fn room_now(&self) -> Option<Room> {
        self.rooms.clone().try_acquire_owned().ok().map(Room)
    }

    /// Room for a socket, if there is some soon; first come, first served.
    ///
    /// # Errors
    /// After how many seconds `user` is to come back.
    pub async fn room(&self, user: &UserId) -> Result<Room, u64> {
        match tokio::time::timeout(ROOM_WAIT, self.rooms.clone().acquire_owned()).await {
            Ok(Ok(room)) => Ok(Room(room)),
            // Sockets end when they end: nothing is known but that a herd must not come back in step.
            _ => Err(match &self.book {
                Some(book) => book.lock().refuse(xxh3_64(user.as_str().as_bytes()), Instant::now(), rand::random()),
                None => rand::random_range(1..=book::MAX_RETRY / 6),
            }),
        }
    }
}
