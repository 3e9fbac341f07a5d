//! Sends calls to Redis: it sets the deadline of every call, chooses the node that serves a key,
//! and follows the redirections of a cluster. The rest of the store names the command and reads the
//! answer.
//!
//! A node that redirects a call did nothing, so the router may send the call to the node that it
//! names. The router leaves every other failure to the caller.

use std::pin::{Pin, pin};
use std::sync::Arc;

use fred::types::Value;
use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tokio_util::sync::DropGuard;
use tracing::Instrument;

use super::errors::NotDone;
use super::node::{Command, Node, Share};
use super::reply::Reply;
use super::scripts::{self, Script};
use super::slots::slot_of;
use super::topology::Topology;
use crate::base::clock::{UnixMillis, millis};
use crate::base::metrics::Metrics;
use crate::base::redis_address::Layout;
use crate::store::{CALL_DEADLINE, Health, LATEST_ENTRY, StoreError, StoreResult};

/// Maximum nodes to which the router sends one command: the slot's last known owner, its new owner,
/// and the node where the slot is moving next.
const MAX_HOPS: usize = 3;

/// Maximum commands per call of [`Router::read_each`], unless one item has more.
const MAX_COMMANDS_PER_CALL: usize = 250;
/// Maximum concurrent calls of one [`Router::read_each`].
const MAX_CONCURRENT_CALLS: usize = 4;

/// The keys and arguments of one run of a script.
#[derive(Debug, Clone)]
pub(crate) struct ScriptCall {
    pub(crate) keys: Vec<String>,
    pub(crate) args: Vec<Value>,
}

impl ScriptCall {
    /// The command that runs a script by its name.
    fn command(&self, script: &Script) -> Command {
        let mut all = vec![
            Value::from(script.sha1()),
            Value::from(self.keys.len() as i64),
        ];
        all.extend(self.keys.iter().map(|key| Value::from(key.as_str())));
        all.extend(self.args.iter().cloned());
        ("EVALSHA", all)
    }
}

/// The commands for one node, by their places among all commands.
struct NodeCommands {
    node: Arc<Node>,
    places: Vec<usize>,
}

/// Consecutive items, and the commands for all of them.
struct CommandBatch<'a, T> {
    items: &'a [T],
    commands: Vec<Command>,
}

/// Sends calls to all nodes; their connections end when the last clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Router {
    topology: Arc<Topology>,
    health: watch::Receiver<Health>,
    metrics: Arc<Metrics>,
    share: Share,
    _tasks: Arc<DropGuard>,
}

impl Router {
    pub(crate) fn new(topology: Arc<Topology>, tasks: DropGuard, metrics: Arc<Metrics>) -> Self {
        let health = topology.monitor().any();
        Self {
            topology,
            health,
            metrics,
            share: Share::Own,
            _tasks: Arc::new(tasks),
        }
    }

    /// A router for calls of this share.
    pub(crate) fn with_share(&self, share: Share) -> Self {
        Self {
            share,
            ..self.clone()
        }
    }

    pub(crate) fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Whether the keys of one call must be in one slot, and nodes redirect calls.
    pub(crate) fn is_cluster(&self) -> bool {
        *self.topology.layout() == Layout::Cluster
    }

    /// The latest time, by the clock of the server that has the key, at which a call that is sent
    /// now may make an entry there. Asks the server for its time where that is not known: just
    /// after a new connection.
    pub(crate) async fn not_after(&self, key: &str) -> StoreResult<UnixMillis> {
        if let Some(now) = self
            .topology
            .owner(slot_of(key.as_bytes()))?
            .state()
            .time_now()
        {
            return Ok(now + millis(LATEST_ENTRY));
        }
        let now = self
            .script(&scripts::READ_CLOCK, vec![key.to_owned()], Vec::new())
            .await?
            .number()?;
        Ok(self.note_time(key, now))
    }

    /// Notes the time that the server with the key tells; returns the same as [`Self::not_after`].
    pub(crate) fn note_time(&self, key: &str, now: UnixMillis) -> UnixMillis {
        if let Ok(node) = self.topology.owner(slot_of(key.as_bytes())) {
            node.state().hear_time(now);
        }
        now + millis(LATEST_ENTRY)
    }

    /// Runs one call of the store with a deadline, and counts its failure under `name`. Refuses the
    /// call at once while no node answers.
    pub(crate) async fn call<T: Send>(
        &self,
        name: &'static str,
        steps: impl Future<Output = StoreResult<T>> + Send,
    ) -> StoreResult<T> {
        let mut result = Err(StoreError::Timeout);
        if *self.health.borrow() == Health::Down {
            result = Err(StoreError::Lost("it is down".to_owned()));
        } else {
            let steps = pin!(async { result = steps.await });
            until_deadline(name, steps).await;
        }
        if let Err(error) = &result {
            self.count_error(name, error);
        }
        result
    }

    /// Counts an error of a call under `name`.
    pub(crate) fn count_error(&self, name: &'static str, error: &StoreError) {
        self.metrics.store_error(name, error.label());
    }

    /// Sends one command whose first argument is its key.
    pub(crate) async fn command(
        &self,
        command: &'static str,
        args: Vec<Value>,
    ) -> StoreResult<Value> {
        Ok(self.send(command, args, 0).await?)
    }

    /// Sends one command whose key is the argument at this place.
    pub(crate) async fn command_at(
        &self,
        key: usize,
        command: &'static str,
        args: Vec<Value>,
    ) -> StoreResult<Value> {
        Ok(self.send(command, args, key).await?)
    }

    /// Sends many commands to the nodes that serve them: one call a node. The commands only read,
    /// or may be carried out late and twice; the first argument of each is its key. The router
    /// sends a command that a node redirects once more, by itself.
    pub(crate) async fn read_all(&self, commands: Vec<Command>) -> Vec<StoreResult<Value>> {
        let answers = self.send_all(&commands, 0).await;
        let mut found = Vec::with_capacity(commands.len());
        for ((command, args), answer) in commands.into_iter().zip(answers) {
            found.push(match answer {
                Err(NotDone::Moved(_) | NotDone::Ask(_)) => self.command(command, args).await,
                answer => answer.map_err(StoreError::from),
            });
        }
        found
    }

    /// Runs a script many times, each time with keys of one slot; otherwise as [`Self::read_all`].
    pub(crate) async fn script_each(
        &self,
        script: &'static Script,
        calls: Vec<ScriptCall>,
    ) -> Vec<StoreResult<Reply>> {
        let commands: Vec<Command> = calls.iter().map(|call| call.command(script)).collect();
        let answers = self.send_all(&commands, 2).await;
        let mut found = Vec::with_capacity(calls.len());
        for (call, answer) in calls.into_iter().zip(answers) {
            found.push(match answer {
                Err(NotDone::Moved(_) | NotDone::Ask(_) | NotDone::UnknownScript) => {
                    self.script(script, call.keys, call.args).await
                }
                answer => answer.map(Reply::of_script).map_err(StoreError::from),
            });
        }
        found
    }

    /// Sends many commands, each with its key at this place, to the nodes that serve them: one call
    /// a node.
    async fn send_all(&self, commands: &[Command], key: usize) -> Vec<Result<Value, NotDone>> {
        let mut answers: Vec<Result<Value, NotDone>> = Vec::with_capacity(commands.len());
        let mut by_node: Vec<NodeCommands> = Vec::new();
        for (place, (_, args)) in commands.iter().enumerate() {
            answers.push(Err(NotDone::Other(StoreError::Lost(
                "no answer".to_owned(),
            ))));
            let node = match self.topology.owner(slot_of_arg(args, key)) {
                Ok(node) => node,
                Err(error) => {
                    answers[place] = Err(NotDone::Other(error));
                    continue;
                }
            };
            let known = by_node
                .iter_mut()
                .find(|known| Arc::ptr_eq(&known.node, &node));
            match known {
                Some(known) => known.places.push(place),
                None => by_node.push(NodeCommands {
                    node,
                    places: vec![place],
                }),
            }
        }
        let calls = by_node.into_iter().map(|commands_of_node| {
            self.metrics.store_calls.inc();
            let NodeCommands { node, places } = commands_of_node;
            let commands = places
                .iter()
                .map(|place| commands[*place].clone())
                .collect();
            async move {
                let said = self.timed(node.read_all(self.share, commands)).await;
                (places, said)
            }
        });
        for (places, said) in join_all(calls).await {
            match said {
                Ok(said) => {
                    for (place, said) in places.into_iter().zip(said) {
                        answers[place] = said;
                    }
                }
                Err(failure) => {
                    let error = StoreError::from(failure);
                    for place in places {
                        answers[place] = Err(NotDone::Other(error.clone()));
                    }
                }
            }
        }
        answers
    }

    /// Reads many items with some commands each: many items in one call, a few calls at a time.
    /// `read` takes the answers to the commands of its item from the iterator, all of them. Each
    /// call has a deadline of its own; the router counts its failure under `name`.
    pub(crate) async fn read_each<T: Sync, R>(
        &self,
        name: &'static str,
        items: &[T],
        commands: impl Fn(&T) -> Vec<Command>,
        read: impl Fn(&T, &mut dyn Iterator<Item = StoreResult<Value>>) -> StoreResult<R>,
    ) -> Vec<StoreResult<R>> {
        let calls: Vec<_> = batches(items, commands)
            .into_iter()
            .map(|batch| async move {
                let steps = async { Ok(self.read_all(batch.commands).await) };
                (batch.items, self.call(name, steps).await)
            })
            .collect();
        let mut calls = stream::iter(calls).buffered(MAX_CONCURRENT_CALLS);
        let mut found = Vec::with_capacity(items.len());
        while let Some((items, answers)) = calls.next().await {
            match answers {
                Ok(answers) => {
                    let mut answers = answers.into_iter();
                    for item in items {
                        found.push(read(item, &mut answers));
                    }
                }
                Err(why) => {
                    for _ in items {
                        found.push(Err(why.clone()));
                    }
                }
            }
        }
        found
    }

    /// Runs a script. Sends its text with its first run on a connection, and again if the server
    /// does not know the script; the server did nothing then.
    pub(crate) async fn script(
        &self,
        script: &'static Script,
        keys: Vec<String>,
        args: Vec<Value>,
    ) -> StoreResult<Reply> {
        let slot = keys.first().map_or(0, |key| slot_of(key.as_bytes()));
        let (command, name) = self.topology.owner(slot)?.how_to_run(script);
        let mut all = Vec::with_capacity(2 + keys.len() + args.len());
        all.push(Value::from(name));
        all.push(Value::from(keys.len() as i64));
        all.extend(keys.into_iter().map(Value::from));
        all.extend(args);
        let answer = match self.send(command, all.clone(), 2).await {
            Err(NotDone::UnknownScript) => {
                all[0] = Value::from(script.text());
                self.send("EVAL", all, 2).await?
            }
            answer => answer?,
        };
        Ok(Reply::of_script(answer))
    }

    /// Waits for a node, and notes how long its answer took.
    async fn timed<T>(&self, answer: impl Future<Output = T>) -> T {
        let asked = Instant::now();
        let answer = answer.await;
        self.metrics
            .store_call_seconds
            .observe(asked.elapsed().as_secs_f64());
        answer
    }

    /// Sends a command to the node that serves its key, the argument at this place, and follows
    /// redirections.
    async fn send(
        &self,
        command: &'static str,
        args: Vec<Value>,
        key: usize,
    ) -> Result<Value, NotDone> {
        let slot = slot_of_arg(&args, key);
        let mut node = self.topology.owner(slot).map_err(NotDone::Other)?;
        let mut asking = false;
        for _ in 0..MAX_HOPS {
            self.metrics.store_calls.inc();
            let said = if asking {
                self.timed(node.send_asking(self.share, command, args.clone()))
                    .await
            } else {
                self.timed(node.send(self.share, command, args.clone()))
                    .await
            };
            let to = match said {
                Err(NotDone::Moved(to)) if self.is_cluster() => {
                    self.topology.monitor().suspect_map();
                    asking = false;
                    to
                }
                Err(NotDone::Ask(to)) if self.is_cluster() => {
                    asking = true;
                    to
                }
                Err(NotDone::Replica(error)) => {
                    self.topology.monitor().suspect_map();
                    return Err(NotDone::Replica(error));
                }
                said => return said,
            };
            node = self.topology.sent_to(&to).await.map_err(NotDone::Other)?;
        }
        Err(NotDone::Other(StoreError::Refused(format!(
            "TRYAGAIN slot {slot} moves from node to node"
        ))))
    }
}

/// Takes the steps of one call until they end, or until its deadline. It is not generic, since a
/// hundred calls come here.
async fn until_deadline(name: &'static str, steps: Pin<&mut (dyn Future<Output = ()> + Send)>) {
    let span = tracing::debug_span!("redis", call = name);
    // At the deadline the caller's result is the one that it began with.
    let _ = timeout(CALL_DEADLINE, steps.instrument(span)).await;
}

/// The slot of the key that is the argument at this place; 0 for a command without it.
fn slot_of_arg(args: &[Value], key: usize) -> u16 {
    match args.get(key).and_then(Value::as_bytes) {
        Some(key) => slot_of(key),
        None => 0,
    }
}

/// The batches that all items take: as many commands in each as one call may have.
fn batches<T>(items: &[T], commands: impl Fn(&T) -> Vec<Command>) -> Vec<CommandBatch<'_, T>> {
    let mut batches = Vec::new();
    let mut batch: Vec<Command> = Vec::new();
    let mut start = 0;
    for (place, item) in items.iter().enumerate() {
        let more = commands(item);
        if !batch.is_empty() && batch.len() + more.len() > MAX_COMMANDS_PER_CALL {
            batches.push(CommandBatch {
                items: &items[start..place],
                commands: std::mem::take(&mut batch),
            });
            start = place;
        }
        batch.extend(more);
    }
    if start < items.len() {
        batches.push(CommandBatch {
            items: &items[start..],
            commands: batch,
        });
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of the batches of items that have so many commands.
    fn sizes(items: &[usize]) -> Vec<(usize, usize)> {
        let batches = batches(items, |count| vec![("GET", Vec::new()); *count]);
        assert_eq!(
            batches
                .iter()
                .flat_map(|batch| batch.items)
                .copied()
                .collect::<Vec<_>>(),
            items
        );
        batches
            .iter()
            .map(|batch| (batch.items.len(), batch.commands.len()))
            .collect()
    }

    #[test]
    fn a_call_has_a_bounded_number_of_commands_however_they_are_spread() {
        assert_eq!(sizes(&[]), []);
        assert_eq!(sizes(&[4; 125]), [(62, 248), (62, 248), (1, 4)]);
        // One small item first, as in a list of lives of which one has few slices and the others
        // many.
        assert_eq!(sizes(&[1, 100, 100, 100, 100]), [(3, 201), (2, 200)]);
        assert_eq!(
            sizes(&[1, 771, 771, 2, 248]),
            [(1, 1), (1, 771), (1, 771), (2, 250)]
        );
    }
}
