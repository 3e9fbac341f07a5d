//! Owns one server: its connection, its watchdog, its health, and the bound on what waits for it. A server that is slow
//! or gone fills its own bound and nobody else's.

use std::sync::Arc;
use std::time::Duration;

use fred::clients::{Client, Pipeline, WithOptions};
use fred::error::Error;
use fred::interfaces::ClientLike;
use fred::types::{ClusterHash, CustomCommand, Value};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::address::Host;
use super::board::Board;
use super::client::{Manner, options};
use super::errors::{Failure, judge};
use super::watchdog;
use crate::store::{Health, StoreError, StoreResult};

/// The first connection, all in all.
const CONNECT_DEADLINE: Duration = Duration::from_millis(2_500);
/// Commands under way at once; the next one is refused.
const MAX_COMMANDS: usize = 1_024;

/// A server; its connection and watchdog end when this is dropped.
#[derive(Debug)]
pub(super) struct Node {
    host: Host,
    client: WithOptions<Client>,
    places: Semaphore,
    health: watch::Receiver<Health>,
    _watchdog: DropGuard,
}

impl Node {
    /// Connects, and keeps the connection up from then on. A server that does not answer now is a node all the same, one
    /// that is down; why it did not is told beside it.
    pub(super) async fn open(
        manner: &Manner,
        host: &Host,
        board: &Arc<Board>,
    ) -> StoreResult<(Arc<Self>, StoreResult<()>)> {
        let client = manner.client(host).map_err(|error| judge(&error))?;
        let (connection, outcome) = match timeout(CONNECT_DEADLINE, client.init()).await {
            Ok(Ok(connection)) => (Some(connection), Ok(())),
            Ok(Err(error)) => (None, Err(judge(&error))),
            Err(_) => (None, Err(StoreError::Timeout)),
        };
        let stop = CancellationToken::new();
        let health = watchdog::spawn((host, client.clone()), connection, Arc::clone(board), stop.clone());
        let node = Self {
            host: host.clone(),
            client: client.with_options(&options()),
            places: Semaphore::new(MAX_COMMANDS),
            health,
            _watchdog: stop.drop_guard(),
        };
        Ok((Arc::new(node), outcome))
    }

    pub(super) fn host(&self) -> &Host {
        &self.host
    }

    pub(super) fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    pub(super) fn is_up(&self) -> bool {
        *self.health.borrow() == Health::Up
    }

    /// Sends one command. Refused at once while the node is down.
    pub(super) async fn send(&self, command: &'static str, args: Vec<Value>) -> Result<Value, Failure> {
        let _place = self.place()?;
        self.ask(command, args).await.map_err(|error| Failure::of(&error, &self.host))
    }

    /// Sends one command for keys of a slot that is on its way to this node. The permission holds for the next command on
    /// the connection only, so both go out together.
    pub(super) async fn send_asking(&self, command: &'static str, args: Vec<Value>) -> Result<Value, Failure> {
        let _place = self.place()?;
        let pair: Pipeline<Client> = self.client.pipeline();
        let pair = pair.with_options(&options());
        let both = async {
            let _: Value = pair.custom(custom("ASKING"), Vec::<Value>::new()).await?;
            let _: Value = pair.custom(custom(command), args).await?;
            Ok::<_, Error>(pair.try_all::<Value>().await)
        };
        let mut answers = Box::pin(both).await.map_err(|error| Failure::of(&error, &self.host))?;
        match answers.pop() {
            Some(Ok(value)) if answers.len() == 1 => Ok(value),
            Some(Err(error)) => Err(Failure::of(&error, &self.host)),
            _ => Err(Failure::Other(StoreError::Lost("the answer to a redirected call".to_owned()))),
        }
    }

    /// Asks something for the store's own ends: not bounded, for few ask so.
    pub(super) async fn ask(&self, command: &'static str, args: Vec<Value>) -> Result<Value, Error> {
        // Sent as a custom command: the library's own EVALSHA ignores the options and cannot be pipelined.
        // Boxed: its future is 4 KiB, and every layer above would carry a copy.
        Box::pin(self.client.custom(custom(command), args)).await
    }

    fn place(&self) -> Result<tokio::sync::SemaphorePermit<'_>, Failure> {
        if !self.is_up() {
            return Err(Failure::Other(StoreError::Lost(format!("{} is down", self.host))));
        }
        self.places.try_acquire().map_err(|_| Failure::Other(StoreError::Backpressure))
    }
}

fn custom(command: &'static str) -> CustomCommand {
    // Where to send it is decided before; a client for one server does not look at the slot.
    CustomCommand::new_static(command, ClusterHash::FirstKey, false)
}
