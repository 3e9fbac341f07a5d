//! The boundary for events, which tell other services what happened, in the stream
//! `rollcall:events`.
//!
//! The stream and the record of a live are not one write in a cluster. So the step that changes a
//! record notes the event in the record itself, as a [`super::PendingEvent`]; the gateway appends
//! all pending events of the live to the stream, in their order, and then settles them. If a
//! gateway dies in between, the events stay pending until another gateway looks at the record, the
//! walk at the latest. So an event is never lost, and the first entries of a live's events are in
//! their order. Several gateways may append the same event: the stream knows the ids of the last
//! minutes, and takes each once. Only a repeat that comes later is in the stream twice.
//!
//! One gateway at a time sends the events of the stream to a webhook; each webhook has a group and a
//! turn of its own. The sender reads as the only consumer of the group, so the next sender first
//! reads again the entries that the last one had read and not acknowledged.
//!
//! What a webhook is sent again goes into a stream of its own, which other webhooks and other
//! consumers do not see. It is read in the same way, see [`WebhookQueue`].

use std::fmt;
use std::time::Duration;

use super::calls::{calls, plain_arguments};
use super::{LiveRecord, StoreResult};
use crate::base::clock::UnixMillis;
use crate::base::event_kind::EventKind;
use crate::base::ids::{Epoch, GatewayId, LiveId, UserId};
use crate::base::webhook_name::WebhookName;

/// Minimum time between two `live.counts` of a live.
pub const COUNTS_EVENT_EVERY: Duration = Duration::from_secs(10);

/// Maximum events that one call appends, reads or acknowledges.
pub const MAX_EVENTS: usize = 100;

/// Maximum bytes of events that one call appends, unless the first event alone has more: a thousand
/// users who join together are one event.
const MAX_EVENT_BYTES: usize = 256 * 1024;

/// How long an event is kept among those that a webhook did not take, and among those that it is sent
/// again: as long as the longest `webhook-patience`.
pub const UNDELIVERED_TTL: Duration = Duration::from_secs(30 * 24 * 3_600);

/// How long the stream knows which events it has: longer than an event waits in a record that a
/// gateway looks at.
pub const APPENDED_KNOWN: Duration = Duration::from_secs(120);

/// As the number of events that a stream keeps: no event is trimmed. Commands pass this, because
/// they do not know the number that the gateways keep.
pub const NO_CAP: u64 = i64::MAX as u64;

/// How old entries become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventAges {
    /// Those of the stream of events.
    pub events: Duration,
    /// Those of the audit trail.
    pub audit: Duration,
}

/// How many of these events one call appends.
pub fn one_append(events: &[Event]) -> usize {
    let mut bytes = 0;
    let mut fit = 0;
    for event in events.iter().take(MAX_EVENTS) {
        bytes += event.data.len();
        if bytes > MAX_EVENT_BYTES {
            break;
        }
        fit += 1;
    }
    fit.max(1).min(events.len())
}

/// What an event is about. Senders keep the order of the events that are about the same.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum About {
    /// The live in which it happened.
    Live(LiveId),
    /// The user who did it.
    User(UserId),
    /// The caller of the API who did it, as a text.
    Caller(String),
}

impl About {
    /// The name of its field in an entry of the stream, and the value.
    pub fn field(&self) -> (&'static str, &str) {
        match self {
            Self::Live(live) => ("live_id", live.as_str()),
            Self::User(user) => ("user_id", user.as_str()),
            Self::Caller(caller) => ("caller", caller),
        }
    }

    /// Reads it back. `None` if there is no such field, or its value cannot be read.
    pub fn read(name: &str, value: &str) -> Option<Self> {
        match name {
            "live_id" => Some(Self::Live(LiveId::parse(value).ok()?)),
            "user_id" => Some(Self::User(UserId::parse(value).ok()?)),
            "caller" => Some(Self::Caller(value.to_owned())),
            _ => None,
        }
    }
}

/// An event as it goes into the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Tells repeats from new events. Of an event of a live: `<live_id>:<epoch>:<kind>:<n>`.
    pub id: String,
    /// The kind of the event.
    pub kind: EventKind,
    /// Where it happened, or who did it.
    pub about: About,
    /// The event as a JSON object.
    pub data: String,
}

impl Event {
    /// The id of an event.
    pub fn id(live: &LiveId, epoch: Epoch, kind: EventKind, number: impl fmt::Display) -> String {
        format!("{live}:{epoch}:{kind}:{number}")
    }
}

/// The place of an entry in a stream: when it was appended by the store's clock, in Unix
/// milliseconds, and a number among those of the same millisecond.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryId(pub UnixMillis, pub u64);

plain_arguments!(EntryId);

impl EntryId {
    /// Reads an id as Redis writes it.
    pub fn parse(text: &str) -> Option<Self> {
        let (at, number) = text.split_once('-')?;
        Some(Self(at.parse().ok()?, number.parse().ok()?))
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

/// An entry of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEvent {
    /// The place of the entry.
    pub entry: EntryId,
    /// The event; `None` if the entry was trimmed, or if another program wrote it.
    pub event: Option<Event>,
}

/// The events that a sender sends to a webhook.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WebhookQueue {
    /// The webhook.
    pub webhook: WebhookName,
    /// Which of its queues.
    pub kind: QueueKind,
}

/// A queue of a webhook, by the stream that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueKind {
    /// The stream of all events.
    Stream,
    /// The stream of the events that this webhook is sent again.
    Replay,
}

impl QueueKind {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Stream, Self::Replay];

    /// Its name in the metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Replay => "replay",
        }
    }
}

/// Where a sender goes on reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadFrom {
    /// After this entry, among those that some sender read and none acknowledged.
    Unacknowledged(EntryId),
    /// Among the entries that no sender has read.
    New,
}

/// A sender's look at the stream.
#[derive(Debug, Clone)]
pub struct ReadEvents {
    /// What to read.
    pub queue: WebhookQueue,
    /// The gateway that wants to be the sender, or stay it.
    pub gateway: GatewayId,
    /// How long it is the sender then.
    pub turn: Duration,
    /// Where the group begins if the call creates it.
    pub begin: UnixMillis,
    /// Where to read.
    pub from: ReadFrom,
    /// Maximum entries; may be 0.
    pub count: usize,
}

/// The outcome of a [`ReadEvents`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SenderTurn {
    /// Another gateway is the sender.
    Other,
    /// This gateway is the sender.
    Mine {
        /// The entries that were read, in the order of the stream.
        events: Vec<StreamEvent>,
        /// How many entries no receiver has acknowledged yet, including the ones just read.
        waiting: u64,
        /// How many entries were trimmed before any sender read them, since the last look.
        lost: u64,
    },
}

/// An event that was given up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadEvent {
    /// The event.
    pub event: Event,
    /// Why it was given up, for people.
    pub why: String,
    /// How often the sender that gave it up had sent it.
    pub attempts: u64,
}

/// The outcome of [`Events::bury_event`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuryReply {
    /// The event waits no more.
    Buried,
    /// The event waits no more, and was not added: the stream has its entry no longer.
    Gone,
    /// Nothing was done, because this gateway is not the sender.
    NotTheSender,
}

calls! {
    /// The stream of events and, of each webhook, its group of senders, the events that it is sent again,
    /// and those that were given up.
    pub trait Events {
        /// Appends as many events as fit ([`one_append`]), in this order, without those whose ids were
        /// appended within [`APPENDED_KNOWN`]. The stream keeps about the newest `kept`. A store that other
        /// programs read has those of the audit trail in a stream of their own as well, which keeps as many.
        async fn append_events(&self, events: &[Event], kept: u64) -> StoreResult<()>, writes;

        /// Removes events, and entries of the audit trail, that are older than they may become.
        async fn drop_old_events(&self, ages: &EventAges) -> StoreResult<()>, writes;

        /// Notes `live.counts` in the record of an open epoch if its figures differ from the figures of
        /// the last `live.counts`, unless that was less than [`COUNTS_EVENT_EVERY`] ago.
        async fn note_counts(&self, live: &LiveId, epoch: Epoch) -> StoreResult<NotedCounts>,
            writes at Live(live);

        /// Takes or keeps the turn to send, and reads, see [`ReadEvents`].
        async fn read_events(&self, request: &ReadEvents) -> StoreResult<SenderTurn>, writes;

        /// Notes that entries, up to [`MAX_EVENTS`], have arrived, or need not be sent.
        async fn acknowledge_events(
            &self,
            queue: &WebhookQueue,
            entries: &[EntryId],
        ) -> StoreResult<()>, writes;

        /// Acknowledges the entry of an event, and adds the event to the events that were given up, of
        /// which about the newest `kept` stay, for [`UNDELIVERED_TTL`]. An event that was acknowledged
        /// before is not added.
        async fn bury_event(
            &self,
            queue: &WebhookQueue,
            gateway: &GatewayId,
            entry: EntryId,
            dead: &DeadEvent,
            kept: u64,
        ) -> StoreResult<BuryReply>, writes;

        /// Lets another gateway send at once.
        async fn end_sending(&self, queue: &WebhookQueue, gateway: &GatewayId) -> StoreResult<()>, writes;

        /// Up to `limit`, at most [`MAX_EVENTS`], events that were given up, oldest first, after the
        /// given one. Skips entries that cannot be read.
        async fn dead_events(
            &self,
            webhook: &WebhookName,
            after: Option<EntryId>,
            limit: usize,
        ) -> StoreResult<Vec<(EntryId, DeadEvent)>>, reads;

        /// Moves an event that was given up to the events that the webhook is sent again. This call
        /// trims nothing: only the gateways know how many events are kept. Returns false if there is no
        /// such event.
        async fn replay_dead(&self, webhook: &WebhookName, entry: EntryId) -> StoreResult<bool>, writes;

        /// Up to [`MAX_EVENTS`] entries of the stream after the given one, oldest first, that were
        /// appended no later than `until`.
        async fn events_after(
            &self,
            after: EntryId,
            until: UnixMillis,
        ) -> StoreResult<Vec<StreamEvent>>, reads;

        /// Adds events to those that a webhook is sent again, as many as fit ([`one_append`]), in this
        /// order. About the newest `kept` stay, for [`UNDELIVERED_TTL`].
        async fn replay_events(
            &self,
            webhook: &WebhookName,
            events: &[Event],
            kept: u64,
        ) -> StoreResult<()>, writes;

        in_parts:

        /// Takes events that were appended, by their numbers, out of the records of their lives. No
        /// number is used again, so this may run late.
        async fn settle_events(&self, appended: &[(LiveId, Vec<u64>)]) -> StoreResult<()>, writes;
    }
}

/// The outcome of [`Events::note_counts`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotedCounts {
    /// The event is noted in this record, among the events that wait for the stream.
    Noted(Box<LiveRecord>),
    /// The last event has the same figures.
    Same,
    /// It is too early, or the record has no place for another event. The caller tries again after
    /// this time.
    Early(Duration),
    /// The epoch is not open.
    Over,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn entries_are_ordered_as_the_stream_is() {
        let id = |text| EntryId::parse(text).unwrap();
        assert!(id("9-5") < id("10-0") && id("10-0") < id("10-1"));
        assert_eq!(id("1732-0").to_string(), "1732-0");
        for other in ["", "-", "1", "1-", "-1", "1-a", "99999999999999999999-0"] {
            assert_eq!(EntryId::parse(other), None, "{other}");
        }
    }

    #[test]
    fn a_call_appends_so_many_events_and_so_many_bytes() {
        let event = |bytes: usize| Event {
            id: String::new(),
            kind: EventKind::FanJoined,
            about: About::Live(LiveId::parse("42").unwrap()),
            data: "x".repeat(bytes),
        };
        for (bytes, count, appended) in [
            (10, 0, 0),
            (10, 1, 1),
            (10, 300, MAX_EVENTS),
            (60_000, 10, 4),
            (1_000_000, 3, 1),
        ] {
            let events: Vec<Event> = (0..count).map(|_| event(bytes)).collect();
            assert_eq!(one_append(&events), appended, "{count} of {bytes} bytes");
        }
    }

    #[test]
    fn what_an_event_is_about_is_read_back() {
        for about in [
            About::Live(LiveId::parse("42").unwrap()),
            About::User(UserId::parse("u1").unwrap()),
            About::Caller("key backend".to_owned()),
        ] {
            let (name, value) = about.field();
            assert_eq!(About::read(name, value), Some(about.clone()));
        }
        assert_eq!(About::read("live_id", "a b"), None);
        assert_eq!(About::read("id", "42"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,80}") {
            let _ = EntryId::parse(&text);
        }
    }
}
