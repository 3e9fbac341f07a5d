//! The stream of events in the embedded store, its group and the events that were given up: plain
//! data that [`super::MemoryStore`] keeps under one lock.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::GatewayId;
use crate::store::{DeadEvent, EntryId, Event, ReadEvents, ReadFrom, SenderTurn, StreamEvent};

/// A capped stream.
#[derive(Debug, Clone)]
pub(super) struct Stream<T> {
    pub(super) entries: BTreeMap<EntryId, T>,
    last: EntryId,
}

impl<T> Default for Stream<T> {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            last: EntryId::default(),
        }
    }
}

impl<T: Clone> Stream<T> {
    pub(super) fn append(&mut self, entry: T, kept: u64, now: UnixMillis) {
        self.last = if now > self.last.0 {
            EntryId(now, 0)
        } else {
            EntryId(self.last.0, self.last.1 + 1)
        };
        self.entries.insert(self.last, entry);
        while self.entries.len() as u64 > kept {
            self.entries.pop_first();
        }
    }

    pub(super) fn after(&self, entry: EntryId, count: usize) -> Vec<(EntryId, T)> {
        let rest = self
            .entries
            .range((Bound::Excluded(entry), Bound::Unbounded));
        rest.take(count)
            .map(|(entry, found)| (*entry, found.clone()))
            .collect()
    }
}

/// How far the senders have read.
#[derive(Debug, Clone, Default)]
pub(super) struct Group {
    last: EntryId,
    pub(super) unacknowledged: BTreeSet<EntryId>,
    /// How many entries were trimmed before any sender read them, since the last look.
    lost: u64,
}

/// All that is known of events.
#[derive(Debug, Clone, Default)]
pub(super) struct EventLog {
    stream: Stream<Event>,
    pub(super) dead: Stream<DeadEvent>,
    pub(super) group: Option<Group>,
    pub(super) sender: Option<(GatewayId, UnixMillis)>,
}

impl EventLog {
    /// Every event, the oldest first.
    pub(super) fn events(&self) -> Vec<Event> {
        self.stream.entries.values().cloned().collect()
    }

    pub(super) fn append(&mut self, event: Event, kept: u64, now: UnixMillis) {
        let oldest = self
            .stream
            .entries
            .first_key_value()
            .map(|(entry, _)| *entry);
        self.stream.append(event, kept, now);
        if let Some(oldest) = oldest
            && let Some(group) = &mut self.group
        {
            let is_trimmed = !self.stream.entries.contains_key(&oldest);
            if is_trimmed && oldest > group.last {
                group.lost += 1;
            }
        }
    }

    pub(super) fn is_sender(&self, gateway: &GatewayId, now: UnixMillis) -> bool {
        match &self.sender {
            Some((holder, until)) => holder == gateway && *until > now,
            None => false,
        }
    }

    pub(super) fn read(&mut self, request: &ReadEvents, now: UnixMillis) -> SenderTurn {
        if let Some((holder, until)) = &self.sender
            && *holder != request.gateway
            && *until > now
        {
            return SenderTurn::Other;
        }
        self.sender = Some((request.gateway.clone(), now + millis(request.turn)));
        let group = self.group.get_or_insert_with(|| Group {
            last: EntryId(request.begin, 0),
            ..Group::default()
        });
        let unread = self
            .stream
            .entries
            .range((Bound::Excluded(group.last), Bound::Unbounded))
            .count();
        let waiting = (group.unacknowledged.len() + unread) as u64;
        let mut events = Vec::new();
        let mut lost = 0;
        match request.from {
            ReadFrom::Unacknowledged(after) => {
                let rest = group
                    .unacknowledged
                    .range((Bound::Excluded(after), Bound::Unbounded));
                for entry in rest.take(request.count) {
                    events.push(StreamEvent {
                        entry: *entry,
                        event: self.stream.entries.get(entry).cloned(),
                    });
                }
            }
            ReadFrom::New if request.count == 0 => {}
            ReadFrom::New => {
                for (entry, event) in self.stream.after(group.last, request.count) {
                    group.unacknowledged.insert(entry);
                    group.last = entry;
                    events.push(StreamEvent {
                        entry,
                        event: Some(event),
                    });
                }
                lost = std::mem::take(&mut group.lost);
            }
        }
        SenderTurn::Mine {
            events,
            waiting,
            lost,
        }
    }
}
