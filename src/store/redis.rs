//! Owns the Redis store: slices, lives and the follow graph in one Redis server that several gateways share.
//!
//! Every step that must be atomic is one script; all keys of one call share a hash slot. The client library is known to
//! [`door`] alone. A call ends within two seconds, whatever the server does, and is never repeated by itself: a call
//! whose outcome is unknown may still be carried out later, so every script is safe to run late or twice.

mod door;
mod errors;
mod follows;
pub mod keys;
mod lives;
mod paging;
mod reply;
mod scripts;
mod slices;
mod watchdog;

use std::sync::Arc;

use tokio::sync::watch;

use self::door::Door;
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

/// The Redis store. Its connection and watchdog end when it is dropped.
#[derive(Debug)]
pub struct RedisStore {
    door: Door,
}

impl RedisStore {
    /// Connects, and from then on keeps the connection up by itself.
    ///
    /// # Errors
    /// If the URL is no `redis://[[user]:password@]host[:port][/db]`, or the server does not answer now.
    pub async fn connect(url: &Secret, metrics: Arc<Metrics>) -> Result<Self, ConnectError> {
        Ok(Self { door: Door::connect(url, metrics).await? })
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
