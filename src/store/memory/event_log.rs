//! The stream of events in the embedded store, and what it knows of each webhook: plain data that
//! [`super::MemoryStore`] keeps under one lock.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::GatewayId;
use crate::base::webhook_name::WebhookName;
use crate::store::{
    APPENDED_KNOWN, DeadEvent, EntryId, Event, QueueKind, ReadEvents, ReadFrom, SenderTurn,
    StreamEvent, UNDELIVERED_TTL, WebhookQueue,
};

/// A capped stream.
#[derive(Debug, Clone)]
pub(crate) struct CappedStream<T> {
    pub(crate) entries: BTreeMap<EntryId, T>,
    last: EntryId,
}

impl<T> Default for CappedStream<T> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            last: EntryId::default(),
        }
    }
}

impl<T: Clone> CappedStream<T> {
    pub(crate) fn append(&mut self, entry: T, kept: u64, now: UnixMillis) {
        self.append_and_trim(entry, kept, now);
    }

    /// Returns the entry that was trimmed, if one was.
    fn append_and_trim(&mut self, entry: T, kept: u64, now: UnixMillis) -> Option<EntryId> {
        self.last = if now > self.last.0 {
            EntryId(now, 0)
        } else {
            EntryId(self.last.0, self.last.1 + 1)
        };
        self.entries.insert(self.last, entry);
        if self.entries.len() as u64 <= kept {
            return None;
        }
        let (trimmed, _) = self.entries.pop_first()?;
        Some(trimmed)
    }

    pub(crate) fn after(&self, entry: EntryId, count: usize) -> Vec<(EntryId, T)> {
        let rest = self
            .entries
            .range((Bound::Excluded(entry), Bound::Unbounded));
        rest.take(count)
            .map(|(entry, found)| (*entry, found.clone()))
            .collect()
    }

    /// Removes what is older than this. Returns the entries that are gone.
    fn drop_old(&mut self, age: Duration, now: UnixMillis) -> BTreeMap<EntryId, T> {
        let oldest = now.saturating_sub(millis(age));
        let young = self.entries.split_off(&EntryId(oldest, 0));
        std::mem::replace(&mut self.entries, young)
    }

    /// The last entries before this one, the newest first.
    pub(crate) fn before(&self, entry: Option<EntryId>, count: usize) -> Vec<(EntryId, T)> {
        let end = match entry {
            Some(entry) => Bound::Excluded(entry),
            None => Bound::Unbounded,
        };
        let rest = self.entries.range((Bound::Unbounded, end)).rev();
        rest.take(count)
            .map(|(entry, found)| (*entry, found.clone()))
            .collect()
    }
}

/// How far the senders of a queue have read.
#[derive(Debug, Clone, Default)]
struct SenderGroup {
    last: EntryId,
    unacknowledged: BTreeSet<EntryId>,
    /// How many entries were trimmed before any sender read them, since the last look.
    lost: u64,
}

impl SenderGroup {
    fn beginning_at(begin: UnixMillis) -> Self {
        Self {
            last: EntryId(begin, 0),
            ..Self::default()
        }
    }

    fn waiting(&self, stream: &CappedStream<Event>) -> u64 {
        let unread = stream
            .entries
            .range((Bound::Excluded(self.last), Bound::Unbounded));
        (self.unacknowledged.len() + unread.count()) as u64
    }

    /// The entry was trimmed.
    fn note_trimmed(&mut self, entry: EntryId) {
        if entry > self.last {
            self.lost += 1;
        }
    }

    fn read(&mut self, stream: &CappedStream<Event>, request: &ReadEvents) -> SenderTurn {
        let waiting = self.waiting(stream);
        let mut events = Vec::new();
        let mut lost = 0;
        match request.from {
            ReadFrom::Unacknowledged(after) => {
                let rest = self
                    .unacknowledged
                    .range((Bound::Excluded(after), Bound::Unbounded));
                for entry in rest.take(request.count) {
                    events.push(StreamEvent {
                        entry: *entry,
                        event: stream.entries.get(entry).cloned(),
                    });
                }
            }
            ReadFrom::New if request.count == 0 => {}
            ReadFrom::New => {
                for (entry, event) in stream.after(self.last, request.count) {
                    self.unacknowledged.insert(entry);
                    self.last = entry;
                    events.push(StreamEvent {
                        entry,
                        event: Some(event),
                    });
                }
                lost = std::mem::take(&mut self.lost);
            }
        }
        SenderTurn::Mine {
            events,
            waiting,
            lost,
        }
    }
}

/// The senders of a queue.
#[derive(Debug, Clone, Default)]
struct Senders {
    group: Option<SenderGroup>,
    turn: Option<(GatewayId, UnixMillis)>,
}

impl Senders {
    fn is_sender(&self, gateway: &GatewayId, now: UnixMillis) -> bool {
        match &self.turn {
            Some((holder, until)) => holder == gateway && *until > now,
            None => false,
        }
    }
}

/// What is known of a webhook.
#[derive(Debug, Clone, Default)]
pub(crate) struct Webhook {
    replays: CappedStream<Event>,
    pub(crate) dead: CappedStream<DeadEvent>,
    senders: BTreeMap<QueueKind, Senders>,
}

/// All that is known of events.
#[derive(Debug, Clone, Default)]
pub(crate) struct EventLog {
    stream: CappedStream<Event>,
    /// The ids of the events that were appended within [`APPENDED_KNOWN`].
    appended: HashSet<String>,
    /// The same, oldest first, with the time.
    appended_at: VecDeque<(UnixMillis, String)>,
    webhooks: BTreeMap<WebhookName, Webhook>,
}

impl EventLog {
    /// Every event, the oldest first.
    pub(crate) fn events(&self) -> Vec<Event> {
        self.stream.entries.values().cloned().collect()
    }

    pub(crate) fn webhook(&mut self, name: &WebhookName) -> &mut Webhook {
        self.webhooks.entry(name.clone()).or_default()
    }

    /// Erases the events that webhooks did not accept or are sent again, and whose data is doomed.
    /// Returns how many.
    pub(crate) fn erase(&mut self, is_doomed: impl Fn(&str) -> bool) -> u64 {
        let mut gone = 0;
        for webhook in self.webhooks.values_mut() {
            let replays = &mut webhook.replays.entries;
            gone += replays
                .extract_if(.., |_, event| is_doomed(&event.data))
                .count();
            let dead = &mut webhook.dead.entries;
            gone += dead
                .extract_if(.., |_, dead| is_doomed(&dead.event.data))
                .count();
        }
        gone as u64
    }

    fn senders(&mut self, queue: &WebhookQueue) -> &mut Senders {
        let webhook = self.webhook(&queue.webhook);
        webhook.senders.entry(queue.kind).or_default()
    }

    pub(crate) fn append(&mut self, event: Event, kept: u64, now: UnixMillis) {
        while let Some((_, id)) = self
            .appended_at
            .pop_front_if(|(at, _)| *at + millis(APPENDED_KNOWN) <= now)
        {
            self.appended.remove(&id);
        }
        if !self.appended.insert(event.id.clone()) {
            return;
        }
        self.appended_at.push_back((now, event.id.clone()));
        if let Some(trimmed) = self.stream.append_and_trim(event, kept, now) {
            self.note_trimmed(trimmed);
        }
    }

    fn note_trimmed(&mut self, entry: EntryId) {
        for webhook in self.webhooks.values_mut() {
            webhook.note_trimmed(QueueKind::Stream, entry);
        }
    }

    pub(crate) fn drop_old(&mut self, age: Duration, now: UnixMillis) {
        for entry in self.stream.drop_old(age, now).into_keys() {
            self.note_trimmed(entry);
        }
    }

    pub(crate) fn after(&self, entry: EntryId, count: usize) -> Vec<(EntryId, Event)> {
        self.stream.after(entry, count)
    }

    pub(crate) fn read(&mut self, request: &ReadEvents, now: UnixMillis) -> SenderTurn {
        let queue = &request.queue;
        let webhook = self.webhooks.entry(queue.webhook.clone()).or_default();
        let senders = webhook.senders.entry(queue.kind).or_default();
        if let Some((holder, until)) = &senders.turn
            && *holder != request.gateway
            && *until > now
        {
            return SenderTurn::Other;
        }
        senders.turn = Some((request.gateway.clone(), now + millis(request.turn)));
        let stream = match queue.kind {
            QueueKind::Stream => &self.stream,
            QueueKind::Replay => &webhook.replays,
        };
        let group = senders
            .group
            .get_or_insert_with(|| SenderGroup::beginning_at(request.begin));
        group.read(stream, request)
    }

    pub(crate) fn acknowledge(&mut self, queue: &WebhookQueue, entries: &[EntryId]) {
        if let Some(group) = &mut self.senders(queue).group {
            for entry in entries {
                group.unacknowledged.remove(entry);
            }
        }
    }

    pub(crate) fn bury(
        &mut self,
        queue: &WebhookQueue,
        gateway: &GatewayId,
        entry: EntryId,
        now: UnixMillis,
    ) -> EventBurial {
        let senders = self.senders(queue);
        if !senders.is_sender(gateway, now) {
            return EventBurial::NotTheSender;
        }
        let waited = match &mut senders.group {
            Some(group) => group.unacknowledged.remove(&entry),
            None => false,
        };
        if !waited {
            return EventBurial::Before;
        }
        let is_due = match queue.kind {
            // Its entries are trimmed, and never erased.
            QueueKind::Stream => true,
            QueueKind::Replay => {
                let replays = &self.webhook(&queue.webhook).replays;
                replays.entries.contains_key(&entry)
            }
        };
        if is_due {
            EventBurial::Due
        } else {
            EventBurial::Gone
        }
    }

    pub(crate) fn end_sending(&mut self, queue: &WebhookQueue, gateway: &GatewayId) {
        self.senders(queue)
            .turn
            .take_if(|(holder, _)| holder == gateway);
    }

    /// How many entries wait for a webhook, and how many it was not given.
    pub(crate) fn undelivered(&mut self, name: &WebhookName) -> (u64, u64) {
        let webhook = self.webhooks.entry(name.clone()).or_default();
        let mut waiting = 0;
        for (kind, senders) in &webhook.senders {
            if let Some(group) = &senders.group {
                waiting += group.waiting(match kind {
                    QueueKind::Stream => &self.stream,
                    QueueKind::Replay => &webhook.replays,
                });
            }
        }
        (waiting, webhook.dead.entries.len() as u64)
    }
}

/// What became of the wish to give an event up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventBurial {
    /// It waited, and does no longer. The caller adds it to the events that were given up.
    Due,
    /// It did not wait any more.
    Before,
    /// It waited, and does no longer, but its entry is gone.
    Gone,
    NotTheSender,
}

impl Webhook {
    fn note_trimmed(&mut self, kind: QueueKind, entry: EntryId) {
        if let Some(senders) = self.senders.get_mut(&kind)
            && let Some(group) = &mut senders.group
        {
            group.note_trimmed(entry);
        }
    }

    pub(crate) fn append_replay(&mut self, event: Event, kept: u64, now: UnixMillis) {
        if let Some(trimmed) = self.replays.append_and_trim(event, kept, now) {
            self.note_trimmed(QueueKind::Replay, trimmed);
        }
        self.replays.drop_old(UNDELIVERED_TTL, now);
    }

    pub(crate) fn append_dead(&mut self, dead: DeadEvent, kept: u64, now: UnixMillis) {
        self.dead.append(dead, kept, now);
        self.dead.drop_old(UNDELIVERED_TTL, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::event_kind::EventKind;
    use crate::base::ids::LiveId;
    use crate::store::About;

    #[test]
    fn what_a_webhook_did_not_take_or_is_sent_again_goes_after_a_month() {
        let event = Event {
            id: "42:1:live.opened:1".to_owned(),
            kind: EventKind::LiveOpened,
            about: About::Live(LiveId::parse("42").unwrap()),
            data: "{}".to_owned(),
        };
        let dead = DeadEvent {
            event: event.clone(),
            why: "it answered 500".to_owned(),
            attempts: 3,
        };
        let month = millis(UNDELIVERED_TTL);
        let mut webhook = Webhook::default();
        for (now, kept) in [(1, 1), (month, 2), (month + 2, 2)] {
            webhook.append_replay(event.clone(), 100, now);
            webhook.append_dead(dead.clone(), 100, now);
            let left = (webhook.replays.entries.len(), webhook.dead.entries.len());
            assert_eq!(left, (kept, kept), "at {now}");
        }
    }
}
