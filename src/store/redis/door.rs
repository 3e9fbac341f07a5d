//! Owns the connection to Redis: every setting of the client library, every deadline, and the bound on calls under way.
//! The one place that talks through the library; the rest of the store says which command and reads the answer.
//!
//! Why each setting is spelled out: the library's defaults wait for ever, queue without bound, and send a write again
//! after a reconnect.

use std::sync::Arc;
use std::time::Duration;

use fred::clients::WithOptions;
use fred::interfaces::ClientLike;
use fred::types::config::{
    Config, ConnectionConfig, Options, PerformanceConfig, ReconnectPolicy, TcpConfig, UnresponsiveConfig,
};
use fred::types::{Builder, ClusterHash, CustomCommand, RespVersion, Value};
use fred::{clients::Client, error::Error};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::scripts::Script;
use super::{ConnectError, errors, watchdog};
use crate::config::Secret;
use crate::metrics::Metrics;
use crate::store::{Health, StoreError, StoreResult};

/// One command's way there and back.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);
/// A whole call, of however many commands.
const CALL_DEADLINE: Duration = Duration::from_millis(1_800);
/// A TCP connection and the handshake on it, each.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The first connection, all in all.
const START_DEADLINE: Duration = Duration::from_secs(5);
/// Bytes that the peer does not acknowledge for so long end the connection; without it a full send buffer blocks the
/// library's only task for good.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(3);
/// Calls under way at once; the next one is refused.
const MAX_CALLS: usize = 1_024;
/// Commands that wait inside the library; above what `MAX_CALLS` calls send at once, save an opening of many slices.
const MAX_QUEUED: usize = 4_096;
/// Messages that wait between the library and the ear; beyond that the oldest are lost.
const MAX_HEARD: usize = 8_192;
const RECONNECT_MIN_MS: u32 = 50;
const RECONNECT_MAX_MS: u32 = 1_000;
const RECONNECT_JITTER_MS: u32 = 100;

/// The connection; it and its watchdog end when this is dropped.
#[derive(Debug)]
pub(super) struct Door {
    client: WithOptions<Client>,
    calls: Semaphore,
    health: watch::Receiver<Health>,
    metrics: Arc<Metrics>,
    _watchdog: DropGuard,
}

impl Door {
    pub(super) async fn connect(url: &Secret, metrics: Arc<Metrics>) -> Result<Self, ConnectError> {
        let client = build(url.reveal())?;
        let connecting = timeout(START_DEADLINE, client.init()).await;
        let connection = match connecting {
            Ok(Ok(connection)) => connection,
            Ok(Err(error)) => return Err(errors::judge(&error).into()),
            Err(_) => return Err(StoreError::Timeout.into()),
        };
        let stop = CancellationToken::new();
        let health = watchdog::spawn(client.clone(), connection, Arc::clone(&metrics), stop.clone());
        let options = Options {
            timeout: Some(COMMAND_TIMEOUT),
            max_attempts: Some(1),
            // With no connection a command fails at once, rather than wait in line and land after its caller gave up.
            fail_fast: true,
            ..Options::default()
        };
        Ok(Self {
            client: client.with_options(&options),
            calls: Semaphore::new(MAX_CALLS),
            health,
            metrics,
            _watchdog: stop.drop_guard(),
        })
    }

    pub(super) fn health(&self) -> watch::Receiver<Health> {
        self.health.clone()
    }

    /// Runs one call of the store: bounded, with a deadline, its failure counted under `name`. Refused at once while the
    /// store is down.
    pub(super) async fn call<T>(
        &self,
        name: &'static str,
        steps: impl Future<Output = StoreResult<T>>,
    ) -> StoreResult<T> {
        let result = self.bounded(steps).await;
        if let Err(error) = &result {
            self.metrics.store_error(name, error.label());
        }
        result
    }

    async fn bounded<T>(&self, steps: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        if *self.health.borrow() == Health::Down {
            return Err(StoreError::Lost("it is down".to_owned()));
        }
        let Ok(_under_way) = self.calls.try_acquire() else {
            return Err(StoreError::Backpressure);
        };
        timeout(CALL_DEADLINE, steps).await.unwrap_or(Err(StoreError::Timeout))
    }

    /// Sends one command whose first argument is its key.
    pub(super) async fn command(&self, command: &'static str, args: Vec<Value>) -> StoreResult<Value> {
        self.send(command, ClusterHash::FirstKey, args).await.map_err(|error| errors::judge(&error))
    }

    /// Runs a script, handing the server its text if it does not know it: a call that was refused so did nothing.
    pub(super) async fn script(&self, script: &Script, keys: Vec<String>, args: Vec<Value>) -> StoreResult<Value> {
        let mut all = Vec::with_capacity(2 + keys.len() + args.len());
        all.push(Value::from(script.sha1()));
        all.push(Value::from(keys.len() as i64));
        all.extend(keys.into_iter().map(Value::from));
        all.extend(args);
        let key = ClusterHash::Offset(2);
        match self.send("EVALSHA", key.clone(), all.clone()).await {
            Err(error) if errors::is_unknown_script(&error) => {
                all[0] = Value::from(script.text());
                self.send("EVAL", key, all).await
            }
            result => result,
        }
        .map_err(|error| errors::judge(&error))
    }

    async fn send(&self, command: &'static str, key: ClusterHash, args: Vec<Value>) -> Result<Value, Error> {
        self.metrics.store_calls.inc();
        // Sent as a custom command: the library's own EVALSHA ignores the options and cannot be pipelined.
        // Boxed: its future is 4 KiB, and every layer above would carry a copy.
        Box::pin(self.client.custom(CustomCommand::new_static(command, key, false), args)).await
    }
}

/// How to connect for listening only: no reconnection, and room for a burst of messages.
pub(super) fn listening(url: &Secret) -> Result<Builder, ConnectError> {
    let mut builder = builder(url.reveal(), RespVersion::RESP3)?;
    builder.with_performance_config(|performance| performance.broadcast_channel_capacity = MAX_HEARD);
    Ok(builder)
}

fn build(url: &str) -> Result<Client, ConnectError> {
    let mut reconnect = ReconnectPolicy::new_exponential(0, RECONNECT_MIN_MS, RECONNECT_MAX_MS, 2);
    reconnect.set_jitter(RECONNECT_JITTER_MS);
    builder(url, RespVersion::RESP2)?.set_policy(reconnect).build().map_err(|error| invalid(&error))
}

fn invalid(error: &Error) -> ConnectError {
    ConnectError::Url(error.details().to_owned())
}

fn builder(url: &str, version: RespVersion) -> Result<Builder, ConnectError> {
    let scheme = url.split_once("://").map_or("missing", |(scheme, _)| scheme);
    if scheme != "redis" {
        return Err(ConnectError::Scheme(scheme.to_owned()));
    }
    let mut config = Config::from_url_centralized(url).map_err(|error| invalid(&error))?;
    config.version = version;
    // Only about the first connection: it fails at once, and whoever starts the gateway decides whether to try again.
    config.fail_fast = true;
    let mut builder = Builder::from_config(config);
    builder.with_connection_config(set_connection).with_performance_config(set_performance);
    Ok(builder)
}

fn set_connection(connection: &mut ConnectionConfig) {
    connection.connection_timeout = CONNECT_TIMEOUT;
    connection.internal_command_timeout = CONNECT_TIMEOUT;
    connection.max_command_attempts = 1;
    connection.max_command_buffer_len = MAX_QUEUED;
    connection.max_redirections = 5;
    connection.auto_client_setname = false;
    connection.reconnect_on_auth_error = true;
    // The watchdog judges instead: the library's own check sees nothing as long as commands are being written.
    connection.unresponsive = UnresponsiveConfig { max_timeout: None, interval: Duration::from_secs(1) };
    connection.tcp = TcpConfig { nodelay: Some(true), user_timeout: Some(TCP_USER_TIMEOUT), ..TcpConfig::default() };
}

fn set_performance(performance: &mut PerformanceConfig) {
    performance.default_command_timeout = COMMAND_TIMEOUT;
    performance.max_feed_count = 200;
    performance.broadcast_channel_capacity = 1_024;
}
