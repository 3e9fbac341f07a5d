//! Tries out, before a gateway serves, whether each master meets its requirements: the version, the
//! layout that the URL names, a master and no replica, every command and every kind of key that the
//! program uses, and a message that arrives. The start of a gateway and
//! `rollcall check-config --connect` run the trial. A requirement that is not met ends the start. A
//! master that is full or away does not, because a gateway lives with that.

use std::time::Duration;

use fred::error::Error;
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use fred::types::Value;
use futures_util::FutureExt;
use futures_util::future::{Either, join, join_all, select};
use tokio::time::timeout;

use super::args;
use super::client::{Connector, connect, custom};
use super::errors::{ConnectError, ServerError, judge, readable};
use super::keys::Keys;
use super::node::Node;
use super::reply::Reply;
use super::scripts;
use super::topology::Topology;
use crate::base::redis_address::{Address, Host, Layout};
use crate::store::StoreError;

/// The first version with sharded pub/sub.
const VERSION: (u64, u64) = (7, 0);
/// The deadline of the whole trial of a master.
const TRIAL_DEADLINE: Duration = Duration::from_secs(15);
/// The deadline of the connection for messages and of its handshake.
const CONNECT_DEADLINE: Duration = Duration::from_millis(2_500);
/// The deadline of a subscription, and of the arrival of a message.
const MESSAGE_DEADLINE: Duration = Duration::from_secs(5);
/// How long keys of a trial stay if they cannot be deleted, in seconds.
const LEFT_BEHIND: u64 = 60;
/// Maximum times to ask a question that gets no answer in time.
const ATTEMPTS: u32 = 3;

/// The findings of a trial that do not keep a gateway from starting.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct TriedOut {
    /// Settings that are allowed and probably not intended.
    pub warnings: Vec<String>,
    /// Calls that a master refuses now, and may take later.
    pub refusals: Vec<String>,
    /// Masters that do not answer now.
    pub away: Vec<String>,
    /// How many masters answered, though perhaps not each question.
    answered: usize,
}

impl TriedOut {
    fn add(&mut self, other: Self) {
        self.warnings.extend(other.warnings);
        self.refusals.extend(other.refusals);
        self.away.extend(other.away);
        self.answered += other.answered;
    }
}

/// The kind of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerMode {
    Single,
    Cluster,
    Sentinel,
}

/// A server's information on itself; `None` where the server does not say.
#[derive(Debug, Default, PartialEq, Eq)]
struct ServerInfo {
    version: Option<String>,
    mode: Option<ServerMode>,
    role: Option<String>,
    policy: Option<String>,
}

impl ServerInfo {
    fn read(text: &str) -> Self {
        let mut info = Self::default();
        for line in text.lines() {
            let Some((name, value)) = line.trim_end().split_once(':') else {
                continue;
            };
            match name {
                "redis_version" => info.version = Some(value.to_owned()),
                // The second is Valkey's name, unless it is set to speak as Redis does.
                "redis_mode" | "server_mode" => info.mode = ServerMode::of(value),
                "role" => info.role = Some(value.to_owned()),
                "maxmemory_policy" => info.policy = Some(value.to_owned()),
                _ => {}
            }
        }
        info
    }

    /// The major and the minor number. Valkey tells the numbers of the Redis that it stands for.
    fn numbers(&self) -> Option<(u64, u64)> {
        let mut numbers = self.version.as_ref()?.split('.').map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    }
}

impl ServerMode {
    fn of(word: &str) -> Option<Self> {
        match word {
            "standalone" => Some(Self::Single),
            "cluster" => Some(Self::Cluster),
            "sentinel" => Some(Self::Sentinel),
            _ => None,
        }
    }

    /// The kind of the masters with such a URL.
    fn of_masters(layout: &Layout) -> Self {
        match layout {
            Layout::Single | Layout::Sentinel(_) => Self::Single,
            Layout::Cluster => Self::Cluster,
        }
    }

    /// The kind of the hosts that such a URL names.
    fn of_hosts(layout: &Layout) -> Self {
        match layout {
            Layout::Single => Self::Single,
            Layout::Cluster => Self::Cluster,
            Layout::Sentinel(_) => Self::Sentinel,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Single => "a single server",
            Self::Cluster => "a cluster",
            Self::Sentinel => "a sentinel",
        }
    }

    fn scheme(self) -> &'static str {
        match self {
            Self::Single => "",
            Self::Cluster => "-cluster",
            Self::Sentinel => "-sentinel",
        }
    }
}

/// Why a server of another kind than the one expected does not fit the URL.
fn wrong_scheme(
    host: &Host,
    address: &Address,
    expected: ServerMode,
    found: Option<ServerMode>,
) -> Option<ConnectError> {
    let found = found?;
    if found == expected {
        return None;
    }
    let name = if address.tls { "rediss" } else { "redis" };
    let kind = found.name();
    let scheme = found.scheme();
    Some(ConnectError::WrongScheme(format!(
        "Redis at {host}: this is {kind}: use {name}{scheme}://"
    )))
}

/// Why no master was found or none could be used, if the hosts of the URL are of another kind than
/// its scheme says.
pub(crate) async fn explain(connector: &Connector, why: ConnectError) -> ConnectError {
    // A server that does not answer does not say what it is either.
    if !matches!(
        why,
        ConnectError::Unreachable(StoreError::Refused(_) | StoreError::Nonsense(_))
    ) {
        return why;
    }
    let address = connector.address();
    let expected = ServerMode::of_hosts(&address.layout);
    let infos = join_all(address.hosts.iter().map(|host| connector.ask_info(host))).await;
    for (host, info) in address.hosts.iter().zip(infos) {
        let Ok(info) = info else {
            continue;
        };
        let Some(text) = info.into_string() else {
            continue;
        };
        let mode = ServerInfo::read(&text).mode;
        if let Some(wrong) = wrong_scheme(host, address, expected, mode) {
            return wrong;
        }
    }
    why
}

/// Tries out every master. At least one of them must answer.
pub(crate) async fn try_out(topology: &Topology) -> Result<TriedOut, ConnectError> {
    let map = topology.map();
    let trials = map.nodes().iter().map(|node| async move {
        let trial = Trial {
            topology,
            node,
            found: TriedOut::default(),
            lacks: Vec::new(),
        };
        match timeout(TRIAL_DEADLINE, Box::pin(trial.run())).await {
            Ok(outcome) => outcome,
            Err(_) => Ok(TriedOut {
                away: vec![format!("{}: {}", node.host(), StoreError::Timeout)],
                ..TriedOut::default()
            }),
        }
    });
    let mut found = TriedOut::default();
    let mut wrong: Vec<ConnectError> = Vec::new();
    for outcome in join_all(trials).await {
        match outcome {
            Ok(of_one) => found.add(of_one),
            Err(why) => wrong.push(why),
        }
    }
    if let Some(wrong) = worst(wrong) {
        return Err(wrong);
    }
    if found.answered == 0 {
        return Err(ConnectError::Unreachable(StoreError::Lost(
            found.away.join("; "),
        )));
    }
    Ok(found)
}

/// Of the errors of several masters, the one that matters most. It tells at once all that the
/// masters lack.
fn worst(wrong: Vec<ConnectError>) -> Option<ConnectError> {
    if let Some(mistake) = wrong.iter().find(|why| why.is_mistake()) {
        return Some(mistake.clone());
    }
    let lacks: Vec<String> = wrong
        .iter()
        .filter(|why| matches!(why, ConnectError::Unfit(_)))
        .map(ToString::to_string)
        .collect();
    if lacks.is_empty() {
        wrong.into_iter().next()
    } else {
        Some(ConnectError::Unfit(lacks.join("\n")))
    }
}

/// The trial of one master.
struct Trial<'a> {
    topology: &'a Topology,
    node: &'a Node,
    found: TriedOut,
    /// The commands and keys that the server does not know or allow, with its own sentences.
    lacks: Vec<String>,
}

impl Trial<'_> {
    async fn run(mut self) -> Result<TriedOut, ConnectError> {
        let host = self.node.host().clone();
        let info = self.ask_info(&host).await;
        let is_up = self.node.is_up();
        match info {
            Ok(info) => self.read_info(&info.into_string().unwrap_or_default())?,
            Err(error) if is_up => self.note("INFO", &error),
            Err(_) => {}
        }
        if !is_up && self.found.away.is_empty() {
            self.found.away.push(format!("{host} does not answer"));
        }
        if !self.found.away.is_empty() {
            return Ok(self.found);
        }
        self.found.answered += 1;
        if let Some(canary) = self.canary() {
            let (commands, messages) = join(self.commands(&canary), self.messages(&canary)).await;
            let keys = self.keys().await;
            let mut failed = commands;
            failed.extend(messages);
            failed.extend(keys);
            for FailedTrial { what, said } in failed {
                self.note(&what, &said);
            }
        }
        if self.lacks.is_empty() {
            return Ok(self.found);
        }
        let lacks = self.lacks.join("; ");
        Err(ConnectError::Unfit(format!(
            "Redis at {host} refuses what a gateway needs: {lacks}"
        )))
    }

    fn read_info(&mut self, text: &str) -> Result<(), ConnectError> {
        let host = self.node.host();
        let address = self.topology.connector().address();
        let info = ServerInfo::read(text);
        let expected = ServerMode::of_masters(&address.layout);
        if let Some(wrong) = wrong_scheme(host, address, expected, info.mode) {
            return Err(wrong);
        }
        match (info.numbers(), &info.version) {
            (Some(numbers), Some(version)) if numbers < VERSION => {
                let (major, minor) = VERSION;
                let wanted = format!("a gateway needs {major}.{minor} or later");
                return Err(ConnectError::Unfit(format!(
                    "Redis at {host} has the version {version}: {wanted}"
                )));
            }
            (Some(_), _) => {}
            (None, _) => self
                .found
                .warnings
                .push(format!("Redis at {host} does not say which version it is")),
        }
        if info.role.as_deref() == Some("slave") {
            let why = format!("Redis at {host} is a read-only replica: a gateway needs a master");
            if address.layout != Layout::Cluster {
                return Err(ConnectError::Replica(why));
            }
            // The cluster has another master for its slots by now, or soon.
            self.found.away.push(why);
        }
        match info.policy.as_deref() {
            Some("noeviction") => {}
            Some(policy) => self.found.warnings.push(format!(
                "Redis at {host} has the maxmemory-policy {policy}, which may silently drop keys that gateways need: \
                 set noeviction"
            )),
            None => self.found.warnings.push(format!(
                "Redis at {host} does not say which maxmemory-policy it has, so it could not be checked: it must be \
                 noeviction"
            )),
        }
        Ok(())
    }

    /// Asks the server what it is. It gets a connection of its own, because the watchdog gives up the
    /// node's connection as soon as it finds a replica.
    async fn ask_info(&self, host: &Host) -> Result<Value, Error> {
        let connector = self.topology.connector();
        for _ in 1..ATTEMPTS {
            match connector.ask_once(host, "INFO", Vec::new()).await {
                Err(error) if judge(&error) == StoreError::Timeout => {}
                answered => return answered,
            }
        }
        connector.ask_once(host, "INFO", Vec::new()).await
    }

    /// Sends a command, and sends it again if the server does not answer in time: a busy server is
    /// not away. No command of a trial does harm if it is carried out twice.
    async fn ask(&self, command: &'static str, args: Vec<Value>) -> Result<Value, Error> {
        for _ in 1..ATTEMPTS {
            match self.node.ask(command, args.clone()).await {
                Err(error) if judge(&error) == StoreError::Timeout => {}
                answered => return answered,
            }
        }
        self.node.ask(command, args).await
    }

    /// A key of this master; the keys of the trial lie beside it. `None` if the master serves no
    /// slot.
    fn canary(&self) -> Option<String> {
        let keys = self.topology.keys();
        match self.topology.layout() {
            Layout::Cluster => self.topology.map().canary_at(self.node.host(), None, keys),
            Layout::Single | Layout::Sentinel(_) => Some(keys.canary()),
        }
    }

    /// Runs the script that calls every command, by its name and, the first time, by its text.
    async fn commands(&self, canary: &str) -> Vec<FailedTrial> {
        let keys = Keys::trial(canary);
        let channel = Keys::trial_channel(canary);
        let mut failed = Vec::new();
        // A write outside a script, where a full server refuses it. The script deletes the key.
        let write = args![keys[0], "1", "EX", LEFT_BEHIND];
        if let Err(said) = self.ask("SET", write).await {
            failed.push(FailedTrial::new("SET", said));
        }
        // A trial of EVAL of its own: if the server knows the trial's script already, that script
        // is not sent as text.
        if let Err(said) = self.ask("EVAL", args!["return 1", 1, keys[0]]).await {
            failed.push(FailedTrial::new("EVAL", said));
        }
        // Calls to a slot that is moving need it.
        if *self.topology.layout() == Layout::Cluster
            && let Err(said) = self.ask("ASKING", Vec::new()).await
        {
            failed.push(FailedTrial::new("ASKING", said));
        }
        let script = &scripts::TRY_COMMANDS;
        let mut command = "EVALSHA";
        let mut said = self
            .ask(command, trial_args(script.sha1(), &keys, &channel))
            .await;
        if let Err(error) = &said
            && ServerError::of(error) == Some(ServerError::UnknownScript)
        {
            command = "EVAL";
            said = self
                .ask(command, trial_args(script.text(), &keys, &channel))
                .await;
        }
        let mut read = match said {
            Ok(answer) => Reply::of_script(answer),
            Err(error) => {
                failed.push(FailedTrial::new(command, error));
                let _ = self.ask("DEL", args![keys[0]]).await;
                return failed;
            }
        };
        while let Ok(what) = read.text() {
            let Ok(sentence) = read.text() else {
                break;
            };
            let said = Error::new(fred::error::ErrorKind::Unknown, sentence);
            failed.push(FailedTrial { what, said });
        }
        failed
    }

    /// Finds the kinds of keys that this user may not use. The error for a key that another node
    /// serves does not count.
    async fn keys(&self) -> Vec<FailedTrial> {
        let keys = self.topology.keys().one_of_each();
        let answers = join_all(keys.iter().map(|key| self.ask("EXISTS", args![key]))).await;
        let mut failed = Vec::new();
        for (key, answer) in keys.into_iter().zip(answers) {
            if let Err(said) = answer {
                failed.push(FailedTrial::new(&format!("the key {key}"), said));
            }
        }
        failed
    }

    /// Subscribes to a channel, and publishes a message there, which must arrive.
    async fn messages(&self, canary: &str) -> Option<FailedTrial> {
        let channel = Keys::trial_channel(canary);
        let client = match self.topology.connector().subscriber(self.node.host()) {
            Ok(client) => client,
            Err(error) => return Some(FailedTrial::new("a connection for messages", error)),
        };
        let (_connection, connected) = connect(&client);
        match timeout(CONNECT_DEADLINE, connected).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Some(FailedTrial::new("a connection for messages", error)),
            Err(_) => {
                return Some(FailedTrial::new(
                    "a connection for messages",
                    late("no connection in time"),
                ));
            }
        }
        let mut messages = client.message_rx();
        match timeout(MESSAGE_DEADLINE, client.ssubscribe(channel.as_str())).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Some(FailedTrial::new("SSUBSCRIBE", error)),
            Err(_) => {
                return Some(FailedTrial::new(
                    "SSUBSCRIBE",
                    late("no answer to a subscription"),
                ));
            }
        }
        // Other gateways may try out the same server now.
        let text = format!("{:016x}", rand::random::<u64>());
        if let Err(error) = self.ask("SPUBLISH", args![channel, text]).await {
            return Some(FailedTrial::new("SPUBLISH", error));
        }
        let arrives = async {
            while let Ok(message) = messages.recv().await {
                if let Some(arrived) = message.value.as_str()
                    && *arrived == *text
                {
                    return true;
                }
            }
            false
        };
        if !timeout(MESSAGE_DEADLINE, arrives).await.unwrap_or(false) {
            return Some(FailedTrial::new(
                "messages",
                Error::new(fred::error::ErrorKind::Unknown, NOT_ARRIVED),
            ));
        }
        // The library waits for no answer to its own command, and drops the answer to this one
        // unless it is an error. So the answer to the next command ends the wait.
        let ended = client.custom::<Value, _>(custom("SUNSUBSCRIBE"), args![channel]);
        let next = client.ping::<Value>(None);
        match timeout(MESSAGE_DEADLINE, select(Box::pin(ended), Box::pin(next))).await {
            Ok(Either::Left((Err(error), _))) => Some(FailedTrial::new("SUNSUBSCRIBE", error)),
            Ok(Either::Left((Ok(_), _))) => None,
            // An error is there before the next answer, but perhaps since it was looked for.
            Ok(Either::Right((_, ended))) => match ended.now_or_never() {
                Some(Err(error)) => Some(FailedTrial::new("SUNSUBSCRIBE", error)),
                Some(Ok(_)) | None => None,
            },
            Err(_) => Some(FailedTrial::new(
                "SUNSUBSCRIBE",
                late("no answer to the end of a subscription"),
            )),
        }
    }

    /// Notes a failure by the server's sentence.
    fn note(&mut self, what: &str, error: &Error) {
        let host = self.node.host();
        match ServerError::of(error) {
            // The slot has moved meanwhile; the trial of its node covers it.
            Some(ServerError::Moved | ServerError::Ask | ServerError::ClusterDown) => {}
            Some(
                ServerError::Refused
                | ServerError::ReadOnly
                | ServerError::MasterDown
                | ServerError::Loading
                | ServerError::Stuck,
            ) => {
                let refusal = format!(
                    "Redis at {host} refuses calls now: {}",
                    readable(error.details())
                );
                if !self.found.refusals.contains(&refusal) {
                    self.found.refusals.push(refusal);
                }
            }
            None if error.details() != NOT_ARRIVED => {
                self.found.away.push(format!("{host}: {}", judge(error)))
            }
            _ => {
                let lack = format!("{what}: {}", readable(error.details()));
                if !self.lacks.contains(&lack) {
                    self.lacks.push(lack);
                }
            }
        }
    }
}

const NOT_ARRIVED: &str = "a message that was published did not arrive at its subscriber";

/// A part of a trial that failed, and the server's error.
struct FailedTrial {
    what: String,
    said: Error,
}

impl FailedTrial {
    fn new(what: &str, said: Error) -> Self {
        Self {
            what: what.to_owned(),
            said,
        }
    }
}

/// The arguments of the script that calls every command; `script` is its text or its name.
fn trial_args(script: &str, keys: &[String], channel: &str) -> Vec<Value> {
    let mut args = args![script, keys.len()];
    args.extend(keys.iter().map(|key| Value::from(key.as_str())));
    args.extend(args![channel, LEFT_BEHIND]);
    args
}

fn late(what: &'static str) -> Error {
    Error::new(fred::error::ErrorKind::Timeout, what)
}

#[cfg(test)]
mod tests;
