//! One server: its connection, its watchdog, its health, and the bound on calls that wait for it. A
//! slow or dead server fills its own bound and no other.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use fred::clients::{Client, Pipeline, WithOptions};
use fred::error::Error;
use fred::interfaces::{
    ClientLike, HashesInterface, KeysInterface, SetsInterface, SortedSetsInterface,
};
use fred::types::{Key, Value};
use futures_util::future::join;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::client::{AllowedProbes, Connector, connect, custom, options};
use super::errors::{NotDone, judge, refusal};
use super::monitor::Monitor;
use super::scripts::Script;
use super::watchdog::{self, NodeState};
use crate::base::redis_address::Host;
use crate::store::{Health, StoreError, StoreResult};

/// The deadline of the first connection and its handshake.
const CONNECT_DEADLINE: Duration = Duration::from_millis(2_500);

/// A command's name and its arguments, its key first.
pub(crate) type Command = (&'static str, Vec<Value>);

/// Maximum concurrent commands for the gateway itself; the node refuses the next one. More than the
/// most jobs of the flusher and of the publisher together, so that other calls find a place beside
/// them.
const MAX_OWN: usize = 2_048;
/// The same for renewals of the gateway's lease. One at a time is usual; the other places are for
/// renewals that hang.
const MAX_LEASE: usize = 8;
/// The same for clients' requests.
const MAX_CLIENTS: usize = 256;

/// On whose behalf a command is sent. Each share has a bound of its own, so neither clients'
/// requests nor flushes to a node that hangs, however many, keep a gateway from renewing its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// The gateway itself: flushes, sweeps, checks.
    Own,
    /// The gateway's lease.
    Lease,
    /// Clients that wait for an answer.
    Clients,
}

/// A server; its connection and watchdog end when this is dropped.
#[derive(Debug)]
pub(crate) struct Node {
    host: Host,
    client: WithOptions<Client>,
    own_places: Semaphore,
    lease_places: Semaphore,
    clients_places: Semaphore,
    state: Arc<NodeState>,
    known_scripts: Mutex<KnownScripts>,
    /// False for the program's commands that only look at Redis: they must not fill the log with
    /// what their user may not see.
    logs_refusals: bool,
    _watchdog: DropGuard,
}

/// The scripts whose text was sent over the present connection.
#[derive(Debug, Default)]
struct KnownScripts {
    /// How often the connection had been made again.
    connection: u64,
    sha1s: HashSet<&'static str>,
}

impl Node {
    /// Connects, and keeps the connection up from then on. A server that does not answer becomes a
    /// node that is down; the inner result says why.
    pub(crate) async fn open(
        connector: &Connector,
        host: &Host,
        monitor: &Arc<Monitor>,
    ) -> StoreResult<(Arc<Self>, StoreResult<()>)> {
        let client = connector.client(host).map_err(|error| judge(&error))?;
        let (connection, connected) = connect(&client);
        let outcome = match timeout(CONNECT_DEADLINE, connected).await {
            Ok(connected) => connected.map_err(|error| judge(&error)),
            Err(_) => Err(StoreError::Timeout),
        };
        let now = if outcome.is_ok() {
            Health::Up
        } else {
            Health::Down
        };
        let stop = CancellationToken::new();
        let state = watchdog::spawn(
            host,
            client.clone(),
            connection,
            now,
            Arc::clone(monitor),
            stop.clone(),
        );
        let node = Self {
            host: host.clone(),
            client: client.with_options(&options()),
            own_places: Semaphore::new(MAX_OWN),
            lease_places: Semaphore::new(MAX_LEASE),
            clients_places: Semaphore::new(MAX_CLIENTS),
            state,
            known_scripts: Mutex::default(),
            logs_refusals: connector.probes() == AllowedProbes::Canary,
            _watchdog: stop.drop_guard(),
        };
        Ok((Arc::new(node), outcome))
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) fn state(&self) -> &NodeState {
        &self.state
    }

    pub(crate) fn is_up(&self) -> bool {
        self.state.is_up()
    }

    /// How to run a script: by its name, or by its text if this is its first run on the connection.
    /// The answer that a server does not know the script would cost another round trip. Later calls
    /// come behind the first one.
    pub(crate) fn how_to_run(&self, script: &'static Script) -> (&'static str, &'static str) {
        let connection = *self.state.connections().borrow();
        let mut known = self.known_scripts.lock();
        if known.connection != connection {
            *known = KnownScripts {
                connection,
                sha1s: HashSet::new(),
            };
        }
        let is_first = known.sha1s.insert(script.sha1());
        if is_first {
            ("EVAL", script.text())
        } else {
            ("EVALSHA", script.sha1())
        }
    }

    /// Sends one command. Refused at once while the node is down, or while the share has no place
    /// left.
    pub(crate) async fn send(
        &self,
        share: Share,
        command: &'static str,
        args: Vec<Value>,
    ) -> Result<Value, NotDone> {
        let _place = self.place(share)?;
        self.ask(command, args)
            .await
            .map_err(|error| self.failure(&error))
    }

    /// Sends many commands that only read, as one call. Refused at once as in [`Self::send`].
    pub(crate) async fn read_all(
        &self,
        share: Share,
        mut commands: Vec<Command>,
    ) -> Result<Vec<Result<Value, NotDone>>, NotDone> {
        let _place = self.place(share)?;
        // The library holds commands back, to write many at a time, only while another waits behind
        // them in its queue.
        let Some((last, last_args)) = commands.pop() else {
            return Ok(Vec::new());
        };
        let others = commands.len();
        // The pipeline is full before any of it is sent, so that the last command cannot overtake
        // the others.
        let pipeline = self.filled(commands).await?;
        let (mut answers, last) = join(self.sent(&pipeline), self.ask(last, last_args)).await;
        // A pipeline that failed as a whole has one answer.
        if answers.len() == others {
            answers.push(last.map_err(|error| self.failure(&error)));
        }
        Ok(answers)
    }

    /// Sends one command for keys of a slot that is moving to this node. The permission holds for
    /// the next command on the connection only, so both go out together.
    pub(crate) async fn send_asking(
        &self,
        share: Share,
        command: &'static str,
        args: Vec<Value>,
    ) -> Result<Value, NotDone> {
        let _place = self.place(share)?;
        let pipeline = self
            .filled(vec![("ASKING", Vec::new()), (command, args)])
            .await?;
        let mut answers = self.sent(&pipeline).await;
        // The permission has an answer, too.
        match answers.pop() {
            Some(Ok(value)) if answers.len() == 1 => Ok(value),
            Some(Err(failure)) => Err(failure),
            _ => Err(NotDone::Other(StoreError::Lost(
                "the answer to a redirected call".to_owned(),
            ))),
        }
    }

    /// A pipeline with these commands, which sends nothing yet.
    async fn filled(
        &self,
        commands: Vec<Command>,
    ) -> Result<WithOptions<Pipeline<Client>>, NotDone> {
        let pipeline = self.client.pipeline().with_options(&options());
        for (command, args) in commands {
            Box::pin(queue(&pipeline, command, args))
                .await
                .map_err(|error| self.failure(&error))?;
        }
        Ok(pipeline)
    }

    /// Sends the commands one after another without waiting for the answers in between.
    async fn sent(&self, pipeline: &WithOptions<Pipeline<Client>>) -> Vec<Result<Value, NotDone>> {
        let answers = Box::pin(pipeline.try_all::<Value>()).await;
        answers
            .into_iter()
            .map(|answer| answer.map_err(|error| self.failure(&error)))
            .collect()
    }

    /// Sends a command of the store's own, without a bound: there are few of these.
    pub(crate) async fn ask(
        &self,
        command: &'static str,
        args: Vec<Value>,
    ) -> Result<Value, Error> {
        // Sent as a custom command: the library's own EVALSHA ignores the options and cannot be
        // pipelined. Boxed: its future is 4 KiB, and every layer above would carry a copy.
        Box::pin(self.client.custom(custom(command), args)).await
    }

    /// Reads the meaning of an error, and logs a refusal. If the error means that the server is a
    /// replica, makes the watchdog probe it at once.
    fn failure(&self, error: &Error) -> NotDone {
        let failure = NotDone::of(error, &self.host);
        if self.logs_refusals
            && let Some(said) = refusal(error)
            && let Some(calls) = self.state.refusals().note(said, Instant::now())
        {
            tracing::warn!(node = %self.host, error = said, calls, "redis refuses calls");
        }
        if matches!(failure, NotDone::Replica(_)) {
            self.state.see_replica();
        }
        failure
    }

    fn place(&self, share: Share) -> Result<SemaphorePermit<'_>, NotDone> {
        if !self.is_up() {
            return Err(NotDone::Other(StoreError::Lost(format!(
                "{} is down",
                self.host
            ))));
        }
        let places = match share {
            Share::Own => &self.own_places,
            Share::Lease => &self.lease_places,
            Share::Clients => &self.clients_places,
        };
        places
            .try_acquire()
            .map_err(|_| NotDone::Other(StoreError::Backpressure))
    }
}

/// Puts a command into a pipeline. The library writes its own commands together. It writes a custom
/// command at once, in a packet of its own, which costs the server more than the command.
async fn queue(
    pipeline: &WithOptions<Pipeline<Client>>,
    command: &'static str,
    args: Vec<Value>,
) -> Result<Value, Error> {
    let mut rest = args.into_iter();
    match command {
        "GET" => pipeline.get(next_key(&mut rest)?).await,
        "SCARD" => pipeline.scard(next_key(&mut rest)?).await,
        "HLEN" => pipeline.hlen(next_key(&mut rest)?).await,
        "HGETALL" => pipeline.hgetall(next_key(&mut rest)?).await,
        "HGET" => {
            let key = next_key(&mut rest)?;
            let field = next_key(&mut rest)?;
            pipeline.hget(key, field).await
        }
        "HMGET" => {
            let key = next_key(&mut rest)?;
            pipeline.hmget(key, keys(rest)?).await
        }
        "SMISMEMBER" => {
            let key = next_key(&mut rest)?;
            pipeline.smismember(key, rest.collect::<Vec<_>>()).await
        }
        "ZSCORE" => {
            let key = next_key(&mut rest)?;
            pipeline.zscore(key, next_value(&mut rest)).await
        }
        "ZMSCORE" => {
            let key = next_key(&mut rest)?;
            pipeline.zmscore(key, rest.collect::<Vec<_>>()).await
        }
        _ => {
            pipeline
                .custom(custom(command), rest.collect::<Vec<_>>())
                .await
        }
    }
}

fn next_value(values: &mut impl Iterator<Item = Value>) -> Value {
    values.next().unwrap_or(Value::Null)
}

fn next_key(values: &mut impl Iterator<Item = Value>) -> Result<Key, Error> {
    Key::try_from(next_value(values))
}

fn keys(values: impl Iterator<Item = Value>) -> Result<Vec<Key>, Error> {
    values.map(Key::try_from).collect()
}
