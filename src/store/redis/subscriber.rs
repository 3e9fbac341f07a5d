//! The connections on which messages of other gateways arrive: sharded pub/sub, one channel a live,
//! one connection to each master for the channels in its slots. They begin when the store connects
//! and end when it is dropped.
//!
//! The client library loses subscriptions in several ways and reports none: an error answer shifts
//! later answers, its own resubscription gives up half way, a slot that moves falls silent, a
//! server that hangs is not noticed. So the subscriber relies on none of it. A connection is a
//! *session*: it carries subscriptions only, one channel a call. Each subscription is confirmed
//! again from time to time, which repairs a silent one, and a pulse notices a dead connection.
//! Whatever goes wrong, the session ends and a new one subscribes to everything again; each channel
//! is then [`BusEvent::Ready`] anew. A channel whose slot goes to another master is subscribed to
//! there as soon as the map of slots says so.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::{EventInterface, PubsubInterface};
use fred::types::Message;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use super::client::connect;
use super::echo::Echo;
use super::errors::ServerError;
use super::slots::{SlotMap, slot_of};
use super::topology::Topology;
use crate::base::backoff::Backoff;
use crate::base::metrics::Metrics;
use crate::base::redis_address::{Host, Layout};
use crate::store::bus::Subscriptions;
use crate::store::{BusEvent, Channel, Doubt, MAX_MESSAGE};

/// The deadline of a connection and its handshake.
const CONNECT_DEADLINE: Duration = Duration::from_secs(3);
/// The deadline of a subscription, from sending it to its answer.
const SUBSCRIBE_DEADLINE: Duration = Duration::from_secs(1);
/// How often a session confirms a live's subscription.
const CONFIRM: Duration = Duration::from_secs(600);
/// The same in a cluster, where a slot that moves falls silent.
const CONFIRM_IN_CLUSTER: Duration = Duration::from_secs(30);
/// How often a session confirms one subscription at least, as the pulse of the connection. At the
/// server of the gateways' channel this is that channel.
const PULSE: Duration = Duration::from_secs(2);
/// How often a session looks for due confirmations.
const TICK: Duration = Duration::from_secs(1);
/// The waits between sessions.
const BACKOFF: Backoff = Backoff {
    first: 50,
    longest: 2_000,
};

/// The listening side of the bus; its tasks end when this is dropped.
#[derive(Debug)]
pub(crate) struct BusSubscriber {
    subscriptions: Arc<Subscriptions>,
    echo: Arc<Echo>,
    _task: DropGuard,
}

impl BusSubscriber {
    /// Starts to listen at every master.
    pub(crate) fn open(topology: Arc<Topology>, metrics: Arc<Metrics>) -> Self {
        let subscriptions = Arc::new(Subscriptions::default());
        let stop = CancellationToken::new();
        let echo = Arc::new(Echo::new(Arc::clone(&topology), Arc::clone(&metrics)));
        let listening = listen(
            topology,
            Arc::clone(&subscriptions),
            Arc::clone(&echo),
            metrics,
        );
        let stopped = stop.clone();
        tokio::spawn(async move { stopped.run_until_cancelled(listening).await });
        Self {
            subscriptions,
            echo,
            _task: stop.drop_guard(),
        }
    }

    pub(crate) fn echo(&self) -> &Arc<Echo> {
        &self.echo
    }

    pub(super) fn subscriptions(&self) -> &Subscriptions {
        &self.subscriptions
    }
}

/// Keeps one task for each master.
async fn listen(
    topology: Arc<Topology>,
    subscriptions: Arc<Subscriptions>,
    echo: Arc<Echo>,
    metrics: Arc<Metrics>,
) {
    let mut tasks: HashMap<Host, AbortOnDropHandle<()>> = HashMap::new();
    let mut maps = topology.maps();
    let mut at_start = true;
    loop {
        let map = Arc::clone(&maps.borrow_and_update());
        tasks.retain(|host, _| map.at(host).is_some());
        for host in map.nodes().iter().map(|node| node.host()) {
            tasks.entry(host.clone()).or_insert_with(|| {
                let task = SubscriberTask {
                    host: host.clone(),
                    topology: Arc::clone(&topology),
                    subscriptions: Arc::clone(&subscriptions),
                    echo: Arc::clone(&echo),
                    metrics: Arc::clone(&metrics),
                    at_start,
                };
                // Boxed: the library's futures are large.
                AbortOnDropHandle::new(tokio::spawn(Box::pin(task.run())))
            });
        }
        drop(map);
        at_start = false;
        if maps.changed().await.is_err() {
            return;
        }
    }
}

struct SubscriberTask {
    host: Host,
    topology: Arc<Topology>,
    subscriptions: Arc<Subscriptions>,
    echo: Arc<Echo>,
    metrics: Arc<Metrics>,
    /// This is the first session, so no message can have been missed.
    at_start: bool,
}

/// The confirmed subscriptions.
#[derive(Default)]
struct Confirmed {
    /// By its channel, the time of each confirmation and the ticket of its request.
    channels: HashMap<Channel, (Instant, u64)>,
    /// The time of the latest confirmation.
    latest: Option<Instant>,
}

impl Confirmed {
    fn ticket(&self, channel: &Channel) -> Option<u64> {
        self.channels.get(channel).map(|(_, ticket)| *ticket)
    }
}

/// The channels to confirm in one pass. Channels without a confirmation come first, also channels
/// that become wanted during the pass: a live that somebody joined hears nothing until then.
struct ConfirmingPass {
    /// Channels without a confirmation.
    new: VecDeque<Channel>,
    /// Channels whose last confirmation is old.
    due: VecDeque<Channel>,
    /// The newest ticket that the pass has looked at.
    seen: u64,
}

impl ConfirmingPass {
    /// `every` is the time between two confirmations of a channel; `echo` is the number of the
    /// server's own echo channel.
    fn begin(
        subscriptions: &Subscriptions,
        confirmed: &Confirmed,
        echo: Option<u32>,
        every: impl Fn(&Channel) -> Duration,
    ) -> Self {
        let mut wanted = vec![(Channel::Gateways, 0)];
        if let Some(number) = echo {
            wanted.push((Channel::Echo(number), 0));
        }
        let mut seen = 0;
        wanted.extend(subscriptions.wanted_after(&mut seen));
        let mut new = VecDeque::new();
        let mut due = Vec::new();
        for (channel, ticket) in wanted {
            match confirmed.channels.get(&channel) {
                Some((at, known)) if *known == ticket => {
                    if at.elapsed() >= every(&channel) {
                        due.push((*at, channel));
                    }
                }
                _ => new.push_back(channel),
            }
        }
        due.sort_by_key(|(at, _)| *at);
        Self {
            new,
            due: due.into_iter().map(|(_, due)| due).collect(),
            seen,
        }
    }

    /// The next channel, and the ticket that it has by now.
    fn next(
        &mut self,
        subscriptions: &Subscriptions,
        confirmed: &Confirmed,
    ) -> Option<(Channel, u64)> {
        loop {
            if self.new.is_empty() {
                let newer = subscriptions.wanted_after(&mut self.seen);
                self.new
                    .extend(newer.into_iter().map(|(channel, _)| channel));
            }
            let new = self.new.pop_front();
            let is_due = new.is_none();
            let channel = match new {
                Some(channel) => channel,
                None => self.due.pop_front()?,
            };
            let Some(ticket) = subscriptions.ticket(&channel) else {
                continue;
            };
            // A new channel may have got this ticket during the pass, which then may have confirmed
            // the channel with it already.
            if is_due || confirmed.ticket(&channel) != Some(ticket) {
                return Some((channel, ticket));
            }
        }
    }
}

impl SubscriberTask {
    async fn run(mut self) {
        let mut short_sessions = 0;
        let mut told = false;
        loop {
            let began = Instant::now();
            let why = self.session().await;
            self.at_start = false;
            let slots = self.topology.map().slots_at(&self.host);
            self.subscriptions
                .send(BusEvent::Deaf(Doubt::Slots(slots.into())));
            if began.elapsed() > Duration::from_millis(BACKOFF.longest) {
                short_sessions = 0;
            }
            let waits_long = BACKOFF.wait(short_sessions) == BACKOFF.longest;
            self.metrics.resubscriptions.inc();
            if waits_long && !told {
                tracing::warn!(%why, "cannot receive messages of other gateways, so their counts come late");
            } else {
                tracing::debug!(%why, "subscribing again to messages of other gateways");
            }
            told = waits_long;
            let wait = BACKOFF.jittered(short_sessions, rand::random());
            sleep(Duration::from_millis(wait)).await;
            short_sessions += 1;
        }
    }

    /// Listens until this connection ends or the node's connection for calls is made again: the
    /// name may lead to another server by then, and this server be a replica. Returns why the
    /// session ended.
    async fn session(&self) -> String {
        let connections = self
            .topology
            .map()
            .at(&self.host)
            .map(|node| node.state().connections());
        let client = match self.topology.connector().subscriber(&self.host) {
            Ok(client) => client,
            Err(why) => return why.to_string(),
        };
        // The connection ends with the session, even if the task is stopped in the middle of
        // something.
        let (mut connection, connected) = connect(&client);
        match timeout(CONNECT_DEADLINE, connected).await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return why.to_string(),
            Err(_) => return "no connection in time".to_owned(),
        }
        let messages = client.message_rx();
        tokio::select! {
            why = self.keep_subscribed(&client) => why,
            why = self.pass_on(messages) => why,
            () = changed(connections) => "the connection for calls was made again".to_owned(),
            _ = &mut connection => "the connection ended".to_owned(),
        }
    }

    /// Subscribes to the channels that are wanted here, and keeps the subscriptions up to date.
    async fn keep_subscribed(&self, client: &Client) -> String {
        let mut confirmed = Confirmed::default();
        let mut wanted = self.subscriptions.changes();
        let mut map = self.topology.maps();
        let mut in_doubt = !self.at_start;
        loop {
            wanted.mark_unchanged();
            map.mark_unchanged();
            match self.subscribe(client, &mut confirmed, &map).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(why) => return why.to_string(),
            }
            // The session missed earlier messages, so the store must be read for what they
            // announced.
            if std::mem::take(&mut in_doubt) {
                self.topology.monitor().doubts().of_node(&self.host);
            }
            tokio::select! {
                _ = wanted.changed() => {}
                _ = map.changed() => {}
                () = sleep(TICK) => {}
            }
        }
    }

    /// Whether the channel's slot is served here.
    fn is_mine(&self, channel: &Channel) -> bool {
        let slot = slot_of(self.topology.keys().channel(channel).as_bytes());
        self.topology
            .map()
            .owner(slot)
            .is_some_and(|node| *node.host() == self.host)
    }

    /// Ends subscriptions that are not wanted here, and confirms new and due ones. False if the map
    /// of slots changed meanwhile: the caller begins again at once, because a channel that came
    /// here with its slot must not wait for the rest.
    async fn subscribe(
        &self,
        client: &Client,
        confirmed: &mut Confirmed,
        map: &watch::Receiver<Arc<SlotMap>>,
    ) -> Result<bool, Error> {
        let known: Vec<Channel> = confirmed.channels.keys().cloned().collect();
        for channel in known {
            let mine = self.is_mine(&channel);
            if mine && self.subscriptions.wants(&channel) {
                continue;
            }
            confirmed.channels.remove(&channel);
            // A node ends the subscriptions of a slot that leaves it, and refuses to end them
            // again.
            if mine {
                within(client.sunsubscribe(self.topology.keys().channel(&channel))).await?;
            }
        }
        let confirm_every = if *self.topology.layout() == Layout::Cluster {
            CONFIRM_IN_CLUSTER
        } else {
            CONFIRM
        };
        let echo = self
            .topology
            .map()
            .echo_at(&self.host, self.topology.keys());
        let mut pass =
            ConfirmingPass::begin(
                &self.subscriptions,
                confirmed,
                echo,
                |channel| match channel {
                    Channel::Gateways => PULSE,
                    _ => confirm_every,
                },
            );
        while let Some((channel, ticket)) = pass.next(&self.subscriptions, confirmed) {
            if map.has_changed().unwrap_or(false) {
                return Ok(false);
            }
            if self.is_mine(&channel) {
                self.confirm(client, confirmed, channel, ticket).await?;
            }
        }
        // If nothing was due, the oldest confirmation gives the pulse. A connection without a
        // subscription has nothing to hear, nor to miss.
        if confirmed.latest.is_some_and(|at| at.elapsed() >= PULSE)
            && let Some((channel, (_, ticket))) =
                confirmed.channels.iter().min_by_key(|(_, (at, _))| *at)
        {
            let channel = channel.clone();
            let ticket = *ticket;
            self.confirm(client, confirmed, channel, ticket).await?;
        }
        Ok(true)
    }

    /// Subscribes, or confirms a subscription. One channel a call: the library takes each answer
    /// for the answer to a whole call.
    async fn confirm(
        &self,
        client: &Client,
        confirmed: &mut Confirmed,
        channel: Channel,
        ticket: u64,
    ) -> Result<(), Error> {
        let subscribed = within(client.ssubscribe(self.topology.keys().channel(&channel))).await;
        if let Err(error) = subscribed {
            // Only this channel is elsewhere. The next round tries again, at its new node once the
            // map has it.
            let why = ServerError::of(&error);
            if !matches!(
                why,
                Some(ServerError::Moved | ServerError::Ask | ServerError::ClusterDown)
            ) {
                return Err(error);
            }
            confirmed.channels.remove(&channel);
            self.topology.monitor().suspect_map();
            return Ok(());
        }
        let now = Instant::now();
        confirmed.latest = Some(now);
        let known = confirmed.ticket(&channel);
        confirmed.channels.insert(channel.clone(), (now, ticket));
        let has_changed = known != Some(ticket);
        if has_changed {
            match channel {
                Channel::Echo(number) => self.echo.subscribed(number),
                _ => self.subscriptions.send(BusEvent::Ready(channel)),
            }
        }
        Ok(())
    }

    async fn pass_on(&self, mut messages: Receiver<Message>) -> String {
        loop {
            match messages.recv().await {
                Ok(message) => {
                    if !self.take(&message) {
                        Metrics::count(&self.metrics.peer_messages_ignored, "malformed");
                    }
                }
                Err(RecvError::Lagged(_)) => {
                    self.subscriptions.send(BusEvent::Lost);
                    self.topology.monitor().doubts().of_all();
                }
                Err(RecvError::Closed) => return "the library stopped listening".to_owned(),
            }
        }
    }

    /// Passes one message on. False if it is malformed.
    fn take(&self, message: &Message) -> bool {
        let Some(channel) = self.topology.keys().read_channel(&message.channel) else {
            return false;
        };
        let Some(text) = message.value.as_str() else {
            return false;
        };
        if text.len() > MAX_MESSAGE {
            return false;
        }
        // An empty message only tests whether Redis takes messages; see `echo`.
        if text.is_empty() {
            return true;
        }
        if let Channel::Echo(number) = channel {
            self.echo.heard(number, &text);
            return true;
        }
        self.subscriptions.send(BusEvent::Message {
            channel,
            text: Arc::from(&*text),
        });
        true
    }
}

/// Waits for a change; waits for ever if nothing can change.
async fn changed(seen: Option<watch::Receiver<u64>>) {
    if let Some(mut seen) = seen
        && seen.changed().await.is_ok()
    {
        return;
    }
    std::future::pending().await
}

async fn within(call: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    match timeout(SUBSCRIBE_DEADLINE, call).await {
        Ok(done) => done,
        Err(_) => Err(Error::new(
            fred::error::ErrorKind::Timeout,
            "no answer to a subscription",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::LiveId;

    fn live(name: &str) -> Channel {
        Channel::Live(LiveId::parse(name).unwrap())
    }

    #[test]
    fn channels_without_a_confirmation_come_first_also_in_the_middle_of_a_pass() {
        let (subscriptions, mut confirmed) = (Subscriptions::default(), Confirmed::default());
        let now = Instant::now();
        confirmed.channels.insert(Channel::Gateways, (now, 0));
        for (place, name) in ["old", "older"].into_iter().enumerate() {
            subscriptions.add(live(name));
            let at = now - Duration::from_secs(60 + place as u64);
            confirmed
                .channels
                .insert(live(name), (at, place as u64 + 1));
        }
        subscriptions.add(live("new"));
        let mut pass = ConfirmingPass::begin(&subscriptions, &confirmed, None, |_| {
            Duration::from_secs(30)
        });
        assert_eq!(
            pass.next(&subscriptions, &confirmed),
            Some((live("new"), 3))
        );
        assert_eq!(
            pass.next(&subscriptions, &confirmed),
            Some((live("older"), 2))
        );
        subscriptions.add(live("newer"));
        subscriptions.add(live("short-lived"));
        subscriptions.remove(&live("short-lived"));
        assert_eq!(
            pass.next(&subscriptions, &confirmed),
            Some((live("newer"), 4))
        );
        assert_eq!(
            pass.next(&subscriptions, &confirmed),
            Some((live("old"), 1))
        );
        assert_eq!(pass.next(&subscriptions, &confirmed), None);
    }

    #[test]
    fn a_channel_that_is_asked_for_is_ready_once_more() {
        let (subscriptions, mut confirmed) = (Subscriptions::default(), Confirmed::default());
        let now = Instant::now();
        confirmed.channels.insert(Channel::Gateways, (now, 0));
        let confirm = |confirmed: &mut Confirmed, pass: &mut ConfirmingPass| {
            let (channel, ticket) = pass.next(&subscriptions, confirmed)?;
            confirmed.channels.insert(channel, (now, ticket));
            Some(ticket)
        };
        subscriptions.add(live("42"));
        let begin = |confirmed: &Confirmed| {
            ConfirmingPass::begin(&subscriptions, confirmed, None, |_| Duration::from_secs(30))
        };
        let mut pass = begin(&confirmed);
        assert!(subscriptions.renew(&live("42")) && !subscriptions.renew(&live("43")));
        assert_eq!(
            confirm(&mut confirmed, &mut pass),
            Some(2),
            "it is subscribed to with the newer ticket at once"
        );
        assert_eq!(confirm(&mut confirmed, &mut pass), None);
        assert!(subscriptions.renew(&live("42")));
        assert_eq!(
            confirm(&mut confirmed, &mut pass),
            Some(3),
            "in the same pass"
        );
        assert!(subscriptions.renew(&live("42")));
        pass = begin(&confirmed);
        assert_eq!(
            confirm(&mut confirmed, &mut pass),
            Some(4),
            "in the next one"
        );
        assert_eq!(confirm(&mut confirmed, &mut pass), None);
    }
}
