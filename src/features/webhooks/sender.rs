//! Sends events to a webhook: those of the stream, and those that it is sent again, with a sender for
//! each. One gateway at a time is the sender, by a turn in the store; it reads as the only consumer
//! of a group, and acknowledges what arrived. Webhooks know nothing of each other.
//!
//! **Every event is sent until it arrives or is given up**: the next sender reads again what the
//! last one had read and not acknowledged, before it reads anything new. An event may arrive more
//! than once, with the same id.
//!
//! **The events of a live arrive in the order of the stream**: a sender sends an event only after
//! the one before it, of the same live, arrived or was given up. Events that are about no live keep
//! the order of their user, or of their caller. That holds for each sender alone,
//! so a sender that lost its turn without knowing, such as a paused process, can only repeat: the
//! first arrivals are in order. Only the sender whose turn it is gives events up.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::base::backoff::RETRY_DELAY_MS;
use crate::base::clock::{Clock, Millis, Moment, UnixMillis, millis};
use crate::base::ids::GatewayId;
use crate::base::metrics::{OfWebhook, WebhookResult};
use crate::features::webhooks::backlog::{Backlog, HeldBack};
use crate::features::webhooks::deliveries::{Unnoted, deliver};
use crate::features::webhooks::endpoints::Endpoint;
use crate::features::webhooks::receiver::DeliveryFailure;
use crate::features::webhooks::store::Delivery;
use crate::features::webhooks::store::WebhookStore;
use crate::peers::core::Core;
use crate::store::{
    BuryReply, DeadEvent, EntryId, Event, MAX_EVENTS, QueueKind, ReadEvents, ReadFrom, SenderTurn,
    StreamEvent, WebhookQueue,
};

/// How long a gateway is the sender after its last look. When it dies, another takes over after
/// this time.
const TURN: Duration = Duration::from_secs(6);

/// How often the sender looks for new events, in ms.
const LOOK_EVERY: Millis = 200;

/// How often the sender looks for events that are sent again, in ms: there are few, and seldom.
const LOOK_FOR_REPLAYS_EVERY: Millis = 1_000;

/// How often the other gateways look whether there is a sender, in ms.
const TAKE_EVERY: Millis = 2_000;

/// Maximum events that are sent at the same time, each of another live.
const MAX_CONCURRENT_ATTEMPTS: usize = 32;

/// The minimum number of attempts before an old event is given up.
const MIN_ATTEMPTS: u32 = 3;

/// While this many entries wait to be acknowledged, the sender reads no further ones.
const MAX_UNACKNOWLEDGED: usize = 4_000;

/// A receiver that took an event within this time, in ms, is there. Then a live that holds back too
/// many events has to make room.
const RECENTLY: Millis = 60_000;

/// A new group begins with the events of the last minute before this gateway's start, since clocks
/// differ.
const BEFORE_START: UnixMillis = 60_000;

pub struct WebhookSender {
    pub core: Arc<Core>,
    pub store: Arc<dyn WebhookStore>,
    pub endpoint: Arc<Endpoint>,
    /// Which of its queues is sent.
    pub kind: QueueKind,
}

/// An attempt to send an event, and how it ended.
struct Attempt {
    entry: EntryId,
    event: Event,
    delivery: Delivery,
    outcome: Result<u16, DeliveryFailure>,
}

/// The state of a sender.
struct Sending {
    backlog: Backlog,
    from: ReadFrom,
    /// Until when it surely is the sender.
    until: Moment,
    next_look: Moment,
    /// Entries that arrived or need not be sent, and are not acknowledged yet.
    arrived: Vec<EntryId>,
    last_arrival: Option<Moment>,
    attempts: JoinSet<Attempt>,
    unnoted: Unnoted,
}

impl Sending {
    fn new() -> Self {
        Self {
            backlog: Backlog::default(),
            from: ReadFrom::Unacknowledged(EntryId::default()),
            until: Moment::START,
            next_look: Moment::START,
            arrived: Vec::new(),
            last_arrival: None,
            attempts: JoinSet::new(),
            unnoted: Unnoted::default(),
        }
    }

    /// Forgets the entries that were read, because another gateway may have sent meanwhile.
    fn start_over(&mut self) {
        // The outcomes of these attempts say nothing about entries that are read from now on.
        self.attempts = JoinSet::new();
        self.backlog = Backlog::default();
        self.from = ReadFrom::Unacknowledged(EntryId::default());
    }
}

impl WebhookSender {
    fn queue(&self) -> WebhookQueue {
        WebhookQueue {
            webhook: self.endpoint.name.clone(),
            kind: self.kind,
        }
    }

    /// The labels of the gauges of this sender.
    fn labels(&self) -> OfWebhook {
        OfWebhook {
            webhook: self.endpoint.name.to_string(),
            queue: self.kind.as_str(),
        }
    }

    /// Where a new group begins. Nothing is sent again unless somebody asked for it, however long
    /// ago.
    fn begin(&self) -> UnixMillis {
        match self.kind {
            QueueKind::Stream => self.core.clock.unix().saturating_sub(BEFORE_START),
            QueueKind::Replay => 0,
        }
    }

    /// How often it looks for new events, in ms.
    fn look_every(&self) -> Millis {
        match self.kind {
            QueueKind::Stream => LOOK_EVERY,
            QueueKind::Replay => LOOK_FOR_REPLAYS_EVERY,
        }
    }

    pub async fn run(self, stop: CancellationToken) {
        let begin = self.begin();
        // An alert sees only what changes, so the counters begin at zero.
        let labels = self.labels();
        self.core
            .metrics
            .webhook_dead
            .get_or_create(&labels)
            .inc_by(0);
        if self.kind == QueueKind::Stream {
            self.core
                .metrics
                .events_trimmed
                .get_or_create(&labels)
                .inc_by(0);
        }
        let mut state = Sending::new();
        loop {
            if state.next_look <= self.core.clock.now() {
                self.look(&mut state, begin).await;
            }
            self.send_what_is_due(&mut state);
            let wake = match state.backlog.next_at() {
                Some(at) if state.attempts.len() < MAX_CONCURRENT_ATTEMPTS => {
                    let at = at.max(self.endpoint.paused_until());
                    at.max(self.core.clock.now() + 1).min(state.next_look)
                }
                _ => state.next_look,
            };
            tokio::select! {
                () = stop.cancelled() => break,
                Some(ended) = state.attempts.join_next(), if !state.attempts.is_empty() => {
                    let mut next = Some(ended);
                    // One that panicked is a bug, and the wiring stops the process.
                    while let Some(ended) = next {
                        let Ok(attempt) = ended else { return };
                        self.ended(&mut state, attempt).await;
                        next = state.attempts.try_join_next();
                    }
                }
                () = self.core.clock.sleep_until(wake) => {}
            }
            self.acknowledge(&mut state).await;
            let store = self.store.as_ref();
            let webhook = &self.endpoint.name;
            state.unnoted.note(store, webhook, self.core.clock).await;
        }
        state.attempts.abort_all();
        let ended = self
            .store
            .end_sending(&self.queue(), &self.core.gateways.id())
            .await;
        if let Err(why) = ended {
            tracing::debug!(error = %why, "the turn to send events runs out by itself");
        }
    }

    /// Takes or keeps the turn, and reads as many events as the backlog has room for.
    async fn look(&self, state: &mut Sending, begin: UnixMillis) {
        let asked = self.core.clock.now();
        if asked >= state.until {
            state.start_over();
        }
        let count = if state.arrived.len() < MAX_UNACKNOWLEDGED {
            state.backlog.room()
        } else {
            0
        };
        let request = ReadEvents {
            queue: self.queue(),
            gateway: self.core.gateways.id(),
            turn: TURN,
            begin,
            from: state.from,
            count,
        };
        let answer = self.store.read_events(&request).await;
        let lapsed = asked < state.until && state.until <= self.core.clock.now();
        match answer {
            // Another gateway may have sent in between. Its unacknowledged entries are read first.
            Ok(SenderTurn::Mine { lost, .. }) if lapsed => {
                self.note_lost(lost);
                state.until = Moment::START;
                state.next_look = asked;
            }
            Ok(SenderTurn::Other) => {
                state.start_over();
                state.until = Moment::START;
                state.next_look = asked + TAKE_EVERY;
                self.show(0, 0);
            }
            Ok(SenderTurn::Mine {
                events,
                waiting,
                lost,
            }) => {
                state.until = asked + millis(TURN);
                let is_full = count > 0 && events.len() == count;
                state.next_look = if is_full {
                    asked
                } else {
                    asked + self.look_every()
                };
                if count > 0 {
                    self.read(state, events, is_full);
                }
                self.note_lost(lost);
                self.show(waiting, self.oldest_age(state));
                if state.backlog.room() == 0 {
                    self.give_up_if_crowded(state).await;
                }
            }
            Err(why) => {
                tracing::debug!(
                    error = %why,
                    "events for the webhook were not read, will try again"
                );
                state.next_look = asked + RETRY_DELAY_MS;
            }
        }
    }

    /// Takes in the events that were read.
    fn read(&self, state: &mut Sending, events: Vec<StreamEvent>, is_full: bool) {
        let again = matches!(state.from, ReadFrom::Unacknowledged(_));
        if again && let Some(last) = events.last() {
            state.from = ReadFrom::Unacknowledged(last.entry);
        }
        if again && !is_full {
            state.from = ReadFrom::New;
            state.next_look = Moment::START;
        }
        for StreamEvent { entry, event } in events {
            match event {
                Some(event) if self.endpoint.kinds.contains(&event.kind) => {
                    state.backlog.push(entry, event);
                }
                Some(_) => state.arrived.push(entry),
                None => {
                    self.note_lost(u64::from(again));
                    state.arrived.push(entry);
                }
            }
        }
    }

    /// Notes events that the stream lost before the webhook had them.
    fn note_lost(&self, lost: u64) {
        // What is gone from a replay was erased, or is past its lifetime.
        if lost > 0 && self.kind == QueueKind::Stream {
            self.core
                .metrics
                .events_trimmed
                .get_or_create(&self.labels())
                .inc_by(lost);
            tracing::warn!(
                webhook = %self.endpoint.name,
                lost,
                "the stream was trimmed before the webhook had these events; see events-kept"
            );
        }
    }

    /// The age of the oldest event that is held, in ms.
    fn oldest_age(&self, state: &Sending) -> Millis {
        match state.backlog.oldest() {
            Some(entry) => self.core.clock.unix().saturating_sub(entry.0),
            None => 0,
        }
    }

    /// Sets the gauges: how many entries wait, and the age of the oldest, in ms.
    fn show(&self, waiting: u64, oldest: Millis) {
        let labels = self.labels();
        self.core
            .metrics
            .webhook_waiting
            .get_or_create(&labels)
            .set(waiting as i64);
        self.core
            .metrics
            .webhook_oldest_seconds
            .get_or_create(&labels)
            .set((oldest / 1_000) as i64);
    }

    fn send_what_is_due(&self, state: &mut Sending) {
        let now = self.core.clock.now();
        if now < self.endpoint.paused_until() {
            return;
        }
        while now < state.until
            && state.attempts.len() < MAX_CONCURRENT_ATTEMPTS
            && let Some((entry, event)) = state.backlog.next(now)
        {
            state.attempts.spawn(attempt(
                self.endpoint.clone(),
                self.core.clock,
                entry,
                event,
            ));
        }
    }

    async fn ended(&self, state: &mut Sending, attempt: Attempt) {
        let now = self.core.clock.now();
        let Attempt {
            entry,
            event,
            mut delivery,
            outcome,
        } = attempt;
        delivery.attempt += state.backlog.failures(&event.about);
        state.unnoted.push(delivery);
        self.count(&outcome);
        let Err(why) = outcome else {
            if self.endpoint.note_arrival() {
                tracing::info!(
                    webhook = %self.endpoint.name, origin = self.endpoint.origin,
                    "the webhook takes events again"
                );
            }
            state.last_arrival = Some(now);
            let lag = self.core.clock.unix().saturating_sub(entry.0);
            self.core
                .metrics
                .webhook_lag_seconds
                .observe(lag as f64 / 1_000.0);
            state.arrived.push(entry);
            state.backlog.arrived(&event.about, entry);
            return;
        };
        let failures = state.backlog.failed(&event.about, now, rand::random());
        if let Some(wait) = why.retry_after() {
            if why.is_about_all() {
                self.endpoint.pause(now, millis(wait));
            } else {
                state.backlog.leave_alone(&event.about, now, millis(wait));
            }
        }
        if self.endpoint.note_failure(now) {
            tracing::warn!(
                webhook = %self.endpoint.name, origin = self.endpoint.origin,
                status = why.status(), event_id = event.id, error = %why,
                "the webhook did not take an event; it is sent again until it arrives"
            );
        } else {
            tracing::debug!(
                webhook = %self.endpoint.name, event_id = event.id, failures, error = %why,
                "the webhook did not take an event"
            );
        }
        let is_old = self.core.clock.unix().saturating_sub(entry.0)
            >= millis(self.core.config.webhook_patience);
        if is_old && failures >= MIN_ATTEMPTS {
            self.give_up(
                state,
                entry,
                DeadEvent {
                    event,
                    why: why.to_string(),
                    attempts: u64::from(failures),
                },
            )
            .await;
        }
    }

    fn count(&self, outcome: &Result<u16, DeliveryFailure>) {
        let result = match outcome {
            Ok(_) => "delivered",
            Err(why) => why.label(),
        };
        let labels = WebhookResult {
            webhook: self.endpoint.name.to_string(),
            result,
        };
        self.core.metrics.webhooks.get_or_create(&labels).inc();
    }

    /// Gives an event up if the backlog is full of lives whose events do not arrive, although the
    /// receiver takes the events of other lives. While the receiver takes no events at all, or is
    /// merely slow, reading waits.
    async fn give_up_if_crowded(&self, state: &mut Sending) {
        let now = self.core.clock.now();
        let took_one_recently = state
            .last_arrival
            .is_some_and(|at| now.since(at) <= RECENTLY);
        if !took_one_recently {
            return;
        }
        if let Some(held_back) = state.backlog.most_held_back(now) {
            let HeldBack {
                entry,
                event,
                failures,
            } = held_back;
            let why = "its live held back too many events".to_owned();
            self.give_up(
                state,
                entry,
                DeadEvent {
                    event,
                    why,
                    attempts: u64::from(failures),
                },
            )
            .await;
            if state.backlog.room() > 0 {
                state.next_look = now;
            }
        }
    }

    async fn give_up(&self, state: &mut Sending, entry: EntryId, dead: DeadEvent) {
        let gateway: GatewayId = self.core.gateways.id();
        let buried = self
            .store
            .bury_event(
                &self.queue(),
                &gateway,
                entry,
                &dead,
                self.core.config.events_kept,
            )
            .await;
        match buried {
            Ok(BuryReply::Buried) => {
                tracing::warn!(
                    webhook = %self.endpoint.name,
                    event_id = dead.event.id,
                    why = dead.why,
                    attempts = dead.attempts,
                    "gave an event up; see rollcall events list"
                );
                self.core
                    .metrics
                    .webhook_dead
                    .get_or_create(&self.labels())
                    .inc();
                state.backlog.gave_up(&dead.event.about, entry);
            }
            Ok(BuryReply::Gone) => {
                self.note_lost(1);
                state.backlog.gave_up(&dead.event.about, entry);
            }
            Ok(BuryReply::NotTheSender) => {
                state.until = Moment::START;
                state.next_look = Moment::START;
            }
            Err(why) => tracing::debug!(error = %why, "an event was not given up, will try again"),
        }
    }

    async fn acknowledge(&self, state: &mut Sending) {
        while !state.arrived.is_empty() {
            let some = &state.arrived[..state.arrived.len().min(MAX_EVENTS)];
            let acknowledged = self.store.acknowledge_events(&self.queue(), some).await;
            if let Err(why) = acknowledged {
                tracing::debug!(
                    error = %why,
                    "arrived events were not acknowledged, will try again"
                );
                // Nothing is read until then, so that few wait.
                state.next_look = self.core.clock.now() + RETRY_DELAY_MS;
                return;
            }
            let done = some.len();
            state.arrived.drain(..done);
        }
    }
}

async fn attempt(endpoint: Arc<Endpoint>, clock: Clock, entry: EntryId, event: Event) -> Attempt {
    let kind = event.kind.as_str();
    let (delivery, outcome) = deliver(&endpoint, clock, &event.id, kind, &event.data).await;
    Attempt {
        entry,
        event,
        delivery,
        outcome,
    }
}

#[cfg(test)]
mod tests;
