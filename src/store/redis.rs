//! Owns the Redis store: slices, lives and the follow graph in one Redis server that several gateways share.
//!
//! Every step that must be atomic is one script; all keys of one call share a hash slot. The client library is known to
//! [`door`] and, for what is heard, to the [`ear`]. A call ends within two seconds, whatever the server does, and is never repeated by itself: a call
//! whose outcome is unknown may still be carried out later, so every script is safe to run late or twice.

mod door;
mod ear;
mod errors;
mod follows;
pub mod keys;
mod lives;
mod paging;
mod reply;
mod scripts;
mod slices;
mod viewers;
mod watchdog;
mod wire;

use std::sync::Arc;

use tokio::sync::watch;

use self::door::Door;
use self::ear::Ear;
use super::{Health, Store, StoreError};
use crate::config::Secret;
use crate::metrics::Metrics;

/// Why there is no store to begin with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The URL cannot be read.
    #[error("the Redis URL is not valid: {0}")]
    Url(String),
    /// The URL asks for something that is not built in.
    #[error("the Redis URL's scheme is {0}, only redis:// is supported")]
    Scheme(String),
    /// The server cannot be had; trying again may help.
    #[error("Redis cannot be reached: {0}")]
    Unreachable(#[from] StoreError),
}

/// The Redis store. Its connections and watchdog end when it is dropped.
#[derive(Debug)]
pub struct RedisStore {
    door: Door,
    ear: Ear,
}

impl RedisStore {
    /// Connects, and from then on keeps the connection up by itself.
    ///
    /// # Errors
    /// If the URL is no `redis://[[user]:password@]host[:port][/db]`, or the server does not answer now.
    pub async fn connect(url: &Secret, metrics: Arc<Metrics>) -> Result<Self, ConnectError> {
        let door = Door::connect(url, metrics.clone()).await?;
        Ok(Self { door, ear: Ear::open(door::listening(url)?, metrics) })
    }
}

impl Store for RedisStore {
    fn health(&self) -> watch::Receiver<Health> {
        self.door.health()
    }

    fn kind(&self) -> &'static str {
        "redis"
    }
}
