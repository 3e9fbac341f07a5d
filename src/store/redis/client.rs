//! Makes the clients of the client library and owns all its settings. Each client is for one
//! server. The store does not use the library's own cluster client, because that client fails as a
//! whole when one of several masters does.
//!
//! Each setting is spelled out because the library's defaults wait for ever, queue without bound,
//! and repeat a write after a reconnect.

use std::path::Path;
use std::time::Duration;

use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::interfaces::ClientLike;
use fred::types::config::{
    Config, ConnectionConfig, Options, PerformanceConfig, ReconnectPolicy, Server, ServerConfig,
    TcpConfig, TlsConfig, UnresponsiveConfig,
};
use fred::types::{Builder, ClusterHash, CustomCommand, RespVersion, Value};
use futures_util::FutureExt;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::errors::{ConnectError, ServerError};
use super::tls;
use crate::base::redis_address::{Address, Host, Layout};

/// Maximum time from sending a command to its answer.
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum time for a TCP connection, and again for the handshake on it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum time for a question over a connection of its own, from connecting to the answer.
const QUESTION_DEADLINE: Duration = Duration::from_millis(2_500);
/// The connection ends if the peer does not acknowledge bytes for this long. Without it a full send
/// buffer would block the library's only task for good.
const TCP_USER_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum commands that wait inside the library; more than the calls of a node send at once.
const MAX_QUEUED: usize = 4_096;
/// Maximum messages that wait between the library and the subscriber. Beyond that, the oldest are
/// lost.
const MAX_HEARD: usize = 8_192;
const RECONNECT_MIN_MS: u32 = 50;
const RECONNECT_MAX_MS: u32 = 1_000;
const RECONNECT_JITTER_MS: u32 = 100;

/// The login and the settings for connections to a server.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    address: Address,
    tls: Option<TlsConfig>,
    probes: AllowedProbes,
}

/// How a watchdog may probe a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AllowedProbes {
    /// It writes a canary and reads it back.
    Canary,
    /// It changes nothing, so it cannot tell a replica from a master.
    Ping,
}

impl Connector {
    pub(crate) fn of(
        address: Address,
        ca: Option<&Path>,
        probes: AllowedProbes,
    ) -> Result<Self, ConnectError> {
        let tls = if address.tls {
            Some(tls::trust(ca).map_err(ConnectError::Trust)?)
        } else {
            None
        };
        Ok(Self {
            address,
            tls,
            probes,
        })
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn probes(&self) -> AllowedProbes {
        self.probes
    }

    /// The same connector without user and password, for sentinels, which often have none.
    fn anonymous(&self) -> Self {
        let address = Address {
            user: None,
            password: None,
            ..self.address.clone()
        };
        Self {
            address,
            ..self.clone()
        }
    }

    /// A client for this server that only listens: without reconnection, and with room for a burst
    /// of messages.
    pub(crate) fn subscriber(&self, host: &Host) -> Result<Client, Error> {
        let mut builder = self.builder(host, RespVersion::RESP3);
        builder
            .with_performance_config(|performance| {
                performance.broadcast_channel_capacity = MAX_HEARD
            })
            .build()
    }

    /// The settings that all clients share. The caller decides whether the client reconnects.
    fn builder(&self, host: &Host, version: RespVersion) -> Builder {
        let Address {
            user,
            password,
            database,
            ..
        } = &self.address;
        let config = Config {
            server: ServerConfig::Centralized {
                server: Server::new(host.name.as_str(), host.port),
            },
            username: user.clone(),
            password: password
                .as_ref()
                .map(|password| password.reveal().to_owned()),
            database: *database,
            tls: self.tls.clone(),
            version,
            // Only the first connection fails at once; the caller decides what to do then.
            fail_fast: true,
            ..Config::default()
        };
        let mut builder = Builder::from_config(config);
        builder
            .with_connection_config(set_connection)
            .with_performance_config(set_performance);
        builder
    }

    /// A client for this server that is not connected yet. After its first connection it reconnects
    /// by itself.
    pub(crate) fn client(&self, host: &Host) -> Result<Client, Error> {
        let mut reconnect =
            ReconnectPolicy::new_exponential(0, RECONNECT_MIN_MS, RECONNECT_MAX_MS, 2);
        reconnect.set_jitter(RECONNECT_JITTER_MS);
        self.builder(host, RespVersion::RESP2)
            .set_policy(reconnect)
            .build()
    }

    /// Sends one command to a server that is not one of the nodes, over a connection of its own.
    pub(crate) async fn ask_once(
        &self,
        host: &Host,
        command: &'static str,
        args: Vec<Value>,
    ) -> Result<Value, Error> {
        let asking = async {
            let client = self.builder(host, RespVersion::RESP2).build()?;
            let (_connection, connected) = connect(&client);
            connected.await?;
            client.custom(custom(command), args).await
        };
        match timeout(QUESTION_DEADLINE, Box::pin(asking)).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::new(ErrorKind::Timeout, "no answer in time")),
        }
    }

    /// Asks a host of the URL what kind of server it is. It selects no database: a cluster has
    /// none.
    pub(crate) async fn ask_info(&self, host: &Host) -> Result<Value, Error> {
        let address = Address {
            database: None,
            ..self.address.clone()
        };
        let asker = Self {
            address,
            ..self.clone()
        };
        match self.address.layout {
            Layout::Sentinel(_) => asker.ask_sentinel(host, "INFO", Vec::new()).await,
            Layout::Single | Layout::Cluster => asker.ask_once(host, "INFO", Vec::new()).await,
        }
    }

    /// As [`Self::ask_once`], and once more without user and password if the sentinel answers with
    /// an error. A sentinel that has no password refuses every login, and Redis has no code of its
    /// own for that.
    pub(crate) async fn ask_sentinel(
        &self,
        host: &Host,
        command: &'static str,
        args: Vec<Value>,
    ) -> Result<Value, Error> {
        match self.ask_once(host, command, args.clone()).await {
            Err(error) if self.address.password.is_some() && is_answer(&error) => {
                self.anonymous().ask_once(host, command, args).await
            }
            answer => answer,
        }
    }
}

/// The task that keeps a connection up, until this is dropped.
pub(crate) type ConnectionTask = AbortOnDropHandle<Result<(), Error>>;

/// Begins to connect. The future is the outcome of the first attempt.
pub(crate) fn connect(
    client: &Client,
) -> (
    ConnectionTask,
    impl Future<Output = Result<(), Error>> + Send + use<>,
) {
    let waiting = client.clone();
    let mut connected = Box::pin(async move { waiting.wait_for_connect().await });
    // The library announces the outcome once, so the future must already wait for it before the
    // client begins to connect.
    let _ = (&mut connected).now_or_never();
    (AbortOnDropHandle::new(client.connect()), connected)
}

/// Every command has a deadline, is never repeated, and fails at once while there is no connection:
/// it must not wait and take effect after its caller gave up.
pub(crate) fn options() -> Options {
    Options {
        timeout: Some(COMMAND_TIMEOUT),
        max_attempts: Some(1),
        fail_fast: true,
        ..Options::default()
    }
}

/// A command for the one server of a client, which does not look at the slot.
pub(crate) fn custom(command: &'static str) -> CustomCommand {
    CustomCommand::new_static(command, ClusterHash::FirstKey, false)
}

/// Whether the server answered, if only with an error.
fn is_answer(error: &Error) -> bool {
    *error.kind() == ErrorKind::Auth || ServerError::of(error).is_some()
}

fn set_connection(connection: &mut ConnectionConfig) {
    connection.connection_timeout = CONNECT_TIMEOUT;
    connection.internal_command_timeout = CONNECT_TIMEOUT;
    connection.max_command_attempts = 1;
    connection.max_command_buffer_len = MAX_QUEUED;
    connection.max_redirections = 5;
    connection.auto_client_setname = false;
    connection.reconnect_on_auth_error = true;
    // The watchdog does this: the library's own check sees nothing as long as commands are being
    // written.
    connection.unresponsive = UnresponsiveConfig {
        max_timeout: None,
        interval: Duration::from_secs(1),
    };
    connection.tcp = TcpConfig {
        nodelay: Some(true),
        user_timeout: Some(TCP_USER_TIMEOUT),
        ..TcpConfig::default()
    };
}

fn set_performance(performance: &mut PerformanceConfig) {
    performance.default_command_timeout = COMMAND_TIMEOUT;
    performance.max_feed_count = 200;
    performance.broadcast_channel_capacity = 1_024;
}
