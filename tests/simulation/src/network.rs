//! The network between gateways and the store, and the store at its other end: one [`MemoryStore`],
//! which is the truth, on one or several nodes. Every fault that a network and a Redis can have
//! happens here.
//!
//! What travels is a job with a time of arrival. One task carries the jobs out, in the order of
//! their times.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rollcall::base::clock::{Clock, UnixMillis};
use rollcall::store::memory::MemoryStore;
use rollcall::store::{
    Bus, BusEvent, BusEvents, CALL_DEADLINE, Channel, Doubt, Doubts, Health, Parts, StoreError,
    StoreResult,
};
use tokio::sync::{Notify, broadcast, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::trace::Trace;

/// As many events wait for a receiver as in the gateway's own bus.
const BACKLOG: usize = 4_096;

/// A subscription without an answer is made again after this.
const SUBSCRIBE_AGAIN: Duration = Duration::from_secs(1);

/// A call on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SentCall {
    pub(crate) name: &'static str,
    pub(crate) link: usize,
    pub(crate) node: usize,
    pub(crate) writes: bool,
}

/// How a gateway reaches a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinkWay {
    Well,
    /// Everything takes a few hundred ms more.
    Slow,
    /// Connections break, and new ones are refused.
    Cut,
    /// Nothing passes. Calls arrive at the end; messages too, unless the gateway has given the
    /// connection up.
    Stalled,
    /// Calls pass, answers do not.
    AnswersLost,
    /// Each second call arrives twice.
    Doubling,
    /// Some calls fail, and some answers are lost.
    Flaky,
}

/// Where the answer to a call goes.
struct CallReply<T> {
    to: oneshot::Sender<(StoreResult<T>, Instant)>,
    /// How long it takes; `None`: it is lost.
    after: Option<Duration>,
}

/// How a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeMode {
    Up,
    Down,
    /// It reads and answers nothing, until it goes on where it was.
    Hung,
    /// It refuses writes with these words.
    Refusing(&'static str),
}

type NetworkJob = Box<dyn FnOnce() + Send>;

/// One start of a gateway, as the network knows it.
struct LinkState {
    /// Which gateway it is.
    gateway: usize,
    is_alive: bool,
    /// When a renewal of the lease arrived that was sent before the process ended.
    last_renewal: Option<Instant>,
    ways: Vec<LinkWay>,
    /// Which nodes the gateway knows to be away.
    away: Vec<bool>,
    /// What waits for the end of a stall, by node.
    held: Vec<(usize, NetworkJob)>,
    /// The messages that wait for it, in order.
    held_messages: Vec<(usize, BusEvent)>,
    /// The subscriptions, and whether each works.
    wanted: HashMap<Channel, bool>,
    /// What this gateway publishes arrives nowhere.
    is_mute: bool,
    /// What others publish does not arrive here.
    is_deaf: bool,
    /// When the last message arrives: messages do not overtake each other.
    last_message: Instant,
    events: broadcast::Sender<BusEvent>,
    doubts: broadcast::Sender<Doubt>,
    health: watch::Sender<Health>,
    parts: watch::Sender<Arc<Parts>>,
    unheard: watch::Sender<Option<Doubt>>,
}

struct NetworkState {
    rng: StdRng,
    links: Vec<LinkState>,
    nodes: Vec<NodeMode>,
    queue: BTreeMap<(Instant, u64), NetworkJob>,
    jobs: u64,
}

/// What becomes of a call on its way to the store.
enum Travel {
    Fails(Duration, StoreError),
    /// It arrives when a stall ends.
    Held,
    Arrives {
        at: Instant,
        again: Option<Instant>,
        back: Option<Duration>,
    },
}

pub(crate) struct Network {
    pub(crate) truth: Arc<MemoryStore>,
    published: Mutex<BusEvents>,
    state: Mutex<NetworkState>,
    changed: Notify,
    trace: Arc<Trace>,
}

/// The answer of a call that waits for nothing, as those of the embedded store.
pub(crate) fn at_once<T>(call: impl Future<Output = T>) -> T {
    call.now_or_never()
        .unwrap_or_else(|| unreachable!("the embedded store answers at once"))
}

impl Network {
    pub(crate) fn new(seed: u64, nodes: usize, trace: Arc<Trace>) -> Self {
        let truth = Arc::new(MemoryStore::new(Clock::start()));
        let published = Mutex::new(truth.events());
        let state = NetworkState {
            rng: StdRng::seed_from_u64(seed),
            links: Vec::new(),
            nodes: vec![NodeMode::Up; nodes],
            queue: BTreeMap::new(),
            jobs: 0,
        };
        Self {
            truth,
            published,
            state: Mutex::new(state),
            changed: Notify::new(),
            trace,
        }
    }

    /// On which node lies what has this name.
    pub(crate) fn node_of(&self, name: impl Hash) -> usize {
        let nodes = self.nodes();
        if nodes == 1 {
            return 0;
        }
        let mut hasher = xxhash_rust::xxh3::Xxh3::new();
        name.hash(&mut hasher);
        (hasher.digest() % nodes as u64) as usize
    }

    pub(crate) fn nodes(&self) -> usize {
        self.state.lock().nodes.len()
    }

    pub(crate) fn store_time(&self) -> UnixMillis {
        self.truth.time()
    }

    /// A gateway starts. Returns the number of its link.
    pub(crate) fn connect(self: &Arc<Self>, gateway: usize) -> usize {
        let mut state = self.state.lock();
        let nodes = state.nodes.len();
        let link = state.links.len();
        // What is between a gateway and the store does not change because a new process begins.
        let before = state.links.iter().rfind(|link| link.gateway == gateway);
        let ways = before.map_or_else(|| vec![LinkWay::Well; nodes], |link| link.ways.clone());
        let (is_mute, is_deaf) = before.map_or((false, false), |link| (link.is_mute, link.is_deaf));
        state.links.push(LinkState {
            gateway,
            is_alive: true,
            last_renewal: None,
            ways,
            away: vec![false; nodes],
            held: Vec::new(),
            held_messages: Vec::new(),
            wanted: HashMap::from([(Channel::Gateways, false)]),
            is_mute,
            is_deaf,
            last_message: Instant::now(),
            events: broadcast::Sender::new(BACKLOG),
            doubts: broadcast::Sender::new(64),
            health: watch::Sender::new(Health::Up),
            parts: watch::Sender::new(Arc::new(parts_of(&vec![false; nodes]))),
            unheard: watch::Sender::new(None),
        });
        drop(state);
        for node in 0..nodes {
            self.look(link, node);
        }
        let this = self.clone();
        self.later(Duration::from_millis(20), move || {
            this.subscribed(link, &Channel::Gateways)
        });
        self.judge_hearing_later();
        link
    }

    /// The process at the end of a link is gone. What it sent may still arrive.
    pub(crate) fn hang_up(&self, link: usize) {
        self.state.lock().links[link].is_alive = false;
    }

    fn note_renewal(&self, link: usize) {
        let link = &mut self.state.lock().links[link];
        if !link.is_alive {
            link.last_renewal = Some(Instant::now());
        }
    }

    /// When a renewal arrived last that an ended process of each gateway had sent.
    pub(crate) fn last_renewals(&self, gateways: usize) -> Vec<Option<Instant>> {
        let state = self.state.lock();
        let of = |gateway: usize| {
            state
                .links
                .iter()
                .filter(move |link| link.gateway == gateway)
        };
        (0..gateways)
            .map(|gateway| of(gateway).filter_map(|link| link.last_renewal).max())
            .collect()
    }

    /// Carries out what arrives, for ever.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            let next = self
                .state
                .lock()
                .queue
                .first_key_value()
                .map(|((at, _), _)| *at);
            match next {
                Some(at) if at <= Instant::now() => {
                    let job = self.state.lock().queue.pop_first();
                    if let Some((_, job)) = job {
                        job();
                    }
                }
                Some(at) => tokio::select! {
                    biased;
                    () = self.changed.notified() => {}
                    () = sleep_until(at) => {}
                },
                None => self.changed.notified().await,
            }
        }
    }

    fn at(&self, at: Instant, job: impl FnOnce() + Send + 'static) {
        self.state.lock().push(at, Box::new(job));
        self.changed.notify_one();
    }

    /// Does something after so long.
    pub(crate) fn later(&self, wait: Duration, job: impl FnOnce() + Send + 'static) {
        self.at(Instant::now() + wait, job);
    }

    /// A call of a gateway, from its sending to its answer.
    pub(crate) async fn call<T: Send + 'static>(
        self: &Arc<Self>,
        call: SentCall,
        run: impl Fn(&MemoryStore) -> StoreResult<T> + Send + Sync + 'static,
    ) -> StoreResult<T> {
        let sent = Instant::now();
        let (answer, answered) = oneshot::channel();
        let run = Arc::new(run);
        let travel = self.state.lock().travel(call, sent);
        match travel {
            Travel::Fails(after, why) => {
                sleep(after).await;
                return Err(why);
            }
            Travel::Held => {
                let this = self.clone();
                let job = move || this.carry_out(call, &*run, None);
                self.state.lock().links[call.link]
                    .held
                    .push((call.node, Box::new(job)));
            }
            Travel::Arrives { at, again, back } => {
                let (this, first) = (self.clone(), run.clone());
                self.at(at, move || {
                    this.carry_out(
                        call,
                        &*first,
                        Some(CallReply {
                            to: answer,
                            after: back,
                        }),
                    )
                });
                if let Some(again) = again {
                    let this = self.clone();
                    self.at(again, move || {
                        this.carry_out(call, &*run, None);
                    });
                }
            }
        }
        let deadline = sent + CALL_DEADLINE;
        match timeout_at(deadline, answered).await {
            Ok(Ok((outcome, at))) if at < deadline => {
                sleep_until(at).await;
                outcome
            }
            _ => {
                sleep_until(deadline).await;
                Err(StoreError::Timeout)
            }
        }
    }

    /// A call has arrived.
    fn carry_out<T>(
        self: &Arc<Self>,
        call: SentCall,
        run: &impl Fn(&MemoryStore) -> StoreResult<T>,
        reply: Option<CallReply<T>>,
    ) {
        let (node, gateway, passes) = {
            let state = self.state.lock();
            let link = &state.links[call.link];
            (
                state.nodes[call.node],
                link.gateway,
                link.ways[call.node] != LinkWay::Cut,
            )
        };
        let outcome = match node {
            NodeMode::Down | NodeMode::Hung => {
                return self.trace.note(gateway, call.name, "found nobody");
            }
            NodeMode::Refusing(words) if call.writes => Err(StoreError::Refused(words.to_owned())),
            NodeMode::Up | NodeMode::Refusing(_) => run(&self.truth),
        };
        if call.name == "renew_lease" && outcome.is_ok() {
            self.note_renewal(call.link);
        }
        self.trace.note(
            gateway,
            call.name,
            if outcome.is_ok() { "done" } else { "refused" },
        );
        self.spread_published();
        if let Some(CallReply {
            to,
            after: Some(after),
        }) = reply.filter(|_| passes)
        {
            // The caller may have given up, or be gone.
            let _ = to.send((outcome, Instant::now() + after));
        }
    }

    /// Brings what the store published to who hears it.
    fn spread_published(self: &Arc<Self>) {
        loop {
            let next = self.published.lock().next().now_or_never().flatten();
            match next {
                Some(BusEvent::Message { channel, text }) => {
                    self.spread(None, &channel, &text);
                }
                Some(_) => {}
                None => return,
            }
        }
    }

    /// Brings a message to every link that hears its channel; to how many, as the publisher is
    /// told.
    pub(crate) fn spread(
        self: &Arc<Self>,
        from: Option<usize>,
        channel: &Channel,
        text: &str,
    ) -> u64 {
        let node = self.channel_node(channel);
        let now = Instant::now();
        let mut state = self.state.lock();
        let mut heard_by = 0;
        let is_mute = from.is_some_and(|from| state.links[from].is_mute);
        for link in 0..state.links.len() {
            let there = &state.links[link];
            let hears = there.is_alive
                && there.wanted.get(channel) == Some(&true)
                && there.ways[node] != LinkWay::Cut;
            if !hears {
                continue;
            }
            heard_by += 1;
            if is_mute || there.is_deaf {
                continue;
            }
            let event = BusEvent::Message {
                channel: channel.clone(),
                text: Arc::from(text),
            };
            if there.ways[node] == LinkWay::Stalled {
                state.links[link].held_messages.push((node, event));
                continue;
            }
            self.send(&mut state, (link, node), event, now);
        }
        drop(state);
        self.changed.notify_one();
        self.trace.note_message(text);
        heard_by
    }

    /// A message is on its way to a gateway.
    fn send(
        self: &Arc<Self>,
        state: &mut NetworkState,
        (link, node): (usize, usize),
        event: BusEvent,
        now: Instant,
    ) {
        let at = (now + state.latency(link, node)).max(state.links[link].last_message);
        state.links[link].last_message = at;
        let this = self.clone();
        state.push(at, Box::new(move || this.deliver(link, event)));
    }

    pub(crate) fn channel_node(&self, channel: &Channel) -> usize {
        match channel {
            Channel::Live(live) | Channel::Moves(live) => self.node_of(live.to_string()),
            Channel::Gateways | Channel::Echo(_) => 0,
        }
    }

    fn deliver(&self, link: usize, event: BusEvent) {
        let state = self.state.lock();
        if let BusEvent::Message { channel, .. } = &event
            && state.links[link].wanted.get(channel) != Some(&true)
        {
            return;
        }
        // Nobody listens before the gateway has started.
        let _ = state.links[link].events.send(event);
    }

    pub(crate) fn subscribe(self: &Arc<Self>, link: usize, channel: Channel) {
        match self.state.lock().links[link].wanted.entry(channel.clone()) {
            // A second call changes nothing.
            Entry::Occupied(_) => return,
            Entry::Vacant(new) => drop(new.insert(false)),
        }
        match &channel {
            Channel::Live(live) => self.truth.subscribe(live),
            Channel::Moves(live) => self.truth.hear_moves(live),
            Channel::Gateways | Channel::Echo(_) => {}
        }
        self.ask_ready(link, &channel);
    }

    pub(crate) fn unsubscribe(&self, link: usize, channel: &Channel) {
        self.state.lock().links[link].wanted.remove(channel);
    }

    pub(crate) fn ask_ready(self: &Arc<Self>, link: usize, channel: &Channel) {
        let node = self.channel_node(channel);
        let wait = self.state.lock().latency(link, node);
        let (this, channel) = (self.clone(), channel.clone());
        self.later(wait, move || this.subscribed(link, &channel));
    }

    /// Stores subscribe again until they are answered.
    fn subscribe_again(self: &Arc<Self>, link: usize, channel: &Channel) {
        if self.state.lock().links[link].is_alive {
            let (this, channel) = (self.clone(), channel.clone());
            self.later(SUBSCRIBE_AGAIN, move || this.subscribed(link, &channel));
        }
    }

    /// A subscription works from now on, if its node can be reached.
    fn subscribed(self: &Arc<Self>, link: usize, channel: &Channel) {
        let node = self.channel_node(channel);
        let mut state = self.state.lock();
        if !state.passes(link, node) {
            drop(state);
            self.subscribe_again(link, channel);
            return;
        }
        let link = &mut state.links[link];
        if let Some(works) = link.wanted.get_mut(channel) {
            *works = true;
            let _ = link.events.send(BusEvent::Ready(channel.clone()));
        }
    }

    pub(crate) fn events(&self, link: usize) -> BusEvents {
        BusEvents::from(self.state.lock().links[link].events.subscribe())
    }

    pub(crate) fn unheard(&self, link: usize) -> watch::Receiver<Option<Doubt>> {
        self.state.lock().links[link].unheard.subscribe()
    }

    pub(crate) fn health(&self, link: usize) -> watch::Receiver<Health> {
        self.state.lock().links[link].health.subscribe()
    }

    pub(crate) fn parts(&self, link: usize) -> watch::Receiver<Arc<Parts>> {
        self.state.lock().links[link].parts.subscribe()
    }

    pub(crate) fn doubts(&self, link: usize) -> Doubts {
        Doubts::from(self.state.lock().links[link].doubts.subscribe())
    }

    /// What a part of a batch meets on that node; `None` if it is answered.
    pub(crate) fn part(&self, link: usize, node: usize) -> Option<StoreError> {
        let state = self.state.lock();
        (!state.passes(link, node)).then(|| StoreError::Lost("a node is away".to_owned()))
    }

    /// The links of a gateway, one for each of its starts.
    fn links_of(&self, gateway: usize) -> Vec<usize> {
        let state = self.state.lock();
        (0..state.links.len())
            .filter(|link| state.links[*link].gateway == gateway)
            .collect()
    }

    /// Changes the way of a gateway to a node.
    pub(crate) fn set_way(self: &Arc<Self>, gateway: usize, node: usize, way: LinkWay) {
        for link in self.links_of(gateway) {
            let before = std::mem::replace(&mut self.state.lock().links[link].ways[node], way);
            if before == LinkWay::Stalled && way != LinkWay::Stalled {
                self.release(link, node);
            }
            self.look(link, node);
        }
    }

    /// Changes a node.
    pub(crate) fn set_node(self: &Arc<Self>, node: usize, to: NodeMode) {
        let before = std::mem::replace(&mut self.state.lock().nodes[node], to);
        let links = self.state.lock().links.len();
        for link in 0..links {
            if before == NodeMode::Hung {
                self.release(link, node);
            }
            self.look(link, node);
        }
    }

    /// What was held back arrives now, most of it.
    fn release(self: &Arc<Self>, link: usize, node: usize) {
        let now = Instant::now();
        let mut state = self.state.lock();
        let held = std::mem::take(&mut state.links[link].held);
        for (of, job) in held {
            if of != node {
                state.links[link].held.push((of, job));
            } else if state.rng.random_bool(0.8) {
                let at = now + Duration::from_millis(state.rng.random_range(1..2_000));
                state.push(at, job);
            }
        }
        let messages = std::mem::take(&mut state.links[link].held_messages);
        for (of, event) in messages {
            if of != node {
                state.links[link].held_messages.push((of, event));
            } else if !state.links[link].away[node] {
                self.send(&mut state, (link, node), event, now);
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// The gateway's watchdog looks at a node, and notices after a while how it is.
    fn look(self: &Arc<Self>, link: usize, node: usize) {
        let wait = {
            let mut state = self.state.lock();
            match (state.links[link].ways[node], state.passes(link, node)) {
                // A connection that breaks is noticed at once.
                (LinkWay::Cut, _) => state.rng.random_range(1..150),
                (_, true) => state.rng.random_range(200..1_500),
                (_, false) => state.rng.random_range(500..3_000),
            }
        };
        let this = self.clone();
        self.later(Duration::from_millis(wait), move || this.notice(link, node));
    }

    fn notice(self: &Arc<Self>, link: usize, node: usize) {
        let mut state = self.state.lock();
        let is_away = !state.passes(link, node);
        if !state.links[link].is_alive || state.links[link].away[node] == is_away {
            return;
        }
        state.links[link].away[node] = is_away;
        let there = &state.links[link];
        there.parts.send_replace(Arc::new(parts_of(&there.away)));
        let is_down = there.away.iter().all(|away| *away);
        let health = if is_down { Health::Down } else { Health::Up };
        there
            .health
            .send_if_modified(|present| std::mem::replace(present, health) != health);
        let gateway = there.gateway;
        drop(state);
        self.trace
            .note(gateway, if is_away { "node away" } else { "node back" }, "");
        if is_away {
            self.falls_silent(link, node);
            return;
        }
        self.doubt(link, node);
        let mut here = self.channels_on(link, node);
        here.sort_by_key(ToString::to_string);
        for channel in here {
            self.ask_ready(link, &channel);
        }
    }

    /// The channels of a gateway that lie on a node.
    fn channels_on(&self, link: usize, node: usize) -> Vec<Channel> {
        let wanted = self.state.lock().links[link].wanted.clone();
        let here = |channel: &Channel| self.channel_node(channel) == node;
        wanted.into_keys().filter(here).collect()
    }

    /// No messages come from a node.
    fn falls_silent(&self, link: usize, node: usize) {
        let silent = self.channels_on(link, node);
        let doubt = self.doubt_about(node);
        let mut state = self.state.lock();
        let link = &mut state.links[link];
        for channel in silent {
            link.wanted.insert(channel, false);
        }
        let _ = link.events.send(BusEvent::Deaf(doubt));
    }

    fn doubt_about(&self, node: usize) -> Doubt {
        match self.nodes() {
            1 => Doubt::All,
            _ => Doubt::Slots(Arc::from([node as u16..=node as u16])),
        }
    }

    /// The gateway has a reason to doubt what lies on a node.
    pub(crate) fn doubt(&self, link: usize, node: usize) {
        let doubt = self.doubt_about(node);
        let _ = self.state.lock().links[link].doubts.send(doubt);
    }

    /// Every gateway has a reason to doubt what lies on a node: they notice one after the other.
    pub(crate) fn all_doubt(self: &Arc<Self>, node: usize) {
        let links = self.state.lock().links.len();
        for link in 0..links {
            let wait = self.state.lock().rng.random_range(50..1_200);
            let this = self.clone();
            self.later(Duration::from_millis(wait), move || this.doubt(link, node));
        }
    }

    /// Messages of a gateway arrive nowhere, or arrive again.
    pub(crate) fn set_mute(self: &Arc<Self>, gateway: usize, is_mute: bool) {
        for link in self.links_of(gateway) {
            self.state.lock().links[link].is_mute = is_mute;
        }
        self.judge_hearing_later();
    }

    /// Messages of others do not arrive at a gateway, or arrive again.
    pub(crate) fn set_deaf(self: &Arc<Self>, gateway: usize, is_deaf: bool) {
        for link in self.links_of(gateway) {
            self.state.lock().links[link].is_deaf = is_deaf;
        }
        self.judge_hearing_later();
    }

    /// A gateway finds out within two renewals that its words do not come back, and the others read
    /// that with their next one.
    fn judge_hearing_later(self: &Arc<Self>) {
        let this = self.clone();
        self.later(Duration::from_secs(6), move || this.judge_hearing());
    }

    fn judge_hearing(&self) {
        let state = self.state.lock();
        let is_unheard = |link: &LinkState| link.is_alive && (link.is_mute || link.is_deaf);
        let unheard = state.links.iter().any(is_unheard).then_some(Doubt::All);
        for link in &state.links {
            link.unheard
                .send_if_modified(|present| std::mem::replace(present, unheard.clone()) != unheard);
        }
    }
}

impl NetworkState {
    fn push(&mut self, at: Instant, job: NetworkJob) {
        self.jobs += 1;
        self.queue.insert((at, self.jobs), job);
    }

    fn passes(&self, link: usize, node: usize) -> bool {
        let way = self.links[link].ways[node];
        !matches!(way, LinkWay::Cut | LinkWay::Stalled | LinkWay::AnswersLost)
            && !matches!(self.nodes[node], NodeMode::Down | NodeMode::Hung)
    }

    /// A way takes a millisecond or two; now and then much longer.
    fn latency(&mut self, link: usize, node: usize) -> Duration {
        let micros = match self.rng.random_range(0..100) {
            0 => self.rng.random_range(20_000..150_000),
            1..10 => self.rng.random_range(2_000..20_000),
            _ => self.rng.random_range(150..2_000),
        };
        let slow = match self.links[link].ways[node] {
            LinkWay::Slow => self.rng.random_range(100_000..400_000),
            _ => 0,
        };
        Duration::from_micros(micros + slow)
    }

    fn travel(&mut self, call: SentCall, sent: Instant) -> Travel {
        let SentCall { link, node, .. } = call;
        let lost = || StoreError::Lost(format!("node {node}"));
        if self.links[link].away[node]
            || self.links[link].ways[node] == LinkWay::Cut
            || self.nodes[node] == NodeMode::Down
        {
            return Travel::Fails(self.latency(link, node), lost());
        }
        if self.nodes[node] == NodeMode::Hung {
            return Travel::Held;
        }
        let (there, back) = (self.latency(link, node), self.latency(link, node));
        let at = sent + there;
        match self.links[link].ways[node] {
            LinkWay::Stalled => Travel::Held,
            LinkWay::Flaky if self.rng.random_bool(0.1) => Travel::Fails(there, lost()),
            LinkWay::Flaky if self.rng.random_bool(0.1) => Travel::Arrives {
                at,
                again: None,
                back: None,
            },
            LinkWay::AnswersLost => Travel::Arrives {
                at,
                again: None,
                back: None,
            },
            LinkWay::Doubling if self.rng.random_bool(0.5) => {
                let again = at + Duration::from_millis(self.rng.random_range(1..8_000));
                Travel::Arrives {
                    at,
                    again: Some(again),
                    back: Some(back),
                }
            }
            _ => Travel::Arrives {
                at,
                again: None,
                back: Some(back),
            },
        }
    }
}

fn parts_of(away: &[bool]) -> Parts {
    let up: Vec<bool> = away.iter().map(|away| !away).collect();
    match up.len() {
        1 => Parts::one(if up[0] { Health::Up } else { Health::Down }),
        nodes => Parts::of((0..nodes as u16).collect(), up),
    }
}
