//! Events in the embedded store: the stream, its group and the events that were given up, under one lock. Lives only as
//! long as the process.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;

use async_trait::async_trait;

use super::MemoryStore;
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{Epoch, GatewayId, LiveId};
use crate::store::{
    COUNTS_EVENT_EVERY, Counted, DeadEvent, EntryId, Event, Events, Happened, LiveRecord, LiveState, MAX_EVENTS,
    NotedCounts, ReadEvents, ReadFrom, SenderTurn, StoreResult, StreamEvent,
};

/// A capped stream.
#[derive(Debug)]
struct Stream<T> {
    entries: BTreeMap<EntryId, T>,
    last: EntryId,
}

impl<T> Default for Stream<T> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), last: EntryId::default() }
    }
}

impl<T: Clone> Stream<T> {
    fn append(&mut self, entry: T, kept: u64, now: UnixMillis) {
        self.last = if now > self.last.0 { EntryId(now, 0) } else { EntryId(self.last.0, self.last.1 + 1) };
        self.entries.insert(self.last, entry);
        while self.entries.len() as u64 > kept {
            self.entries.pop_first();
        }
    }

    fn after(&self, entry: EntryId, count: usize) -> Vec<(EntryId, T)> {
        let rest = self.entries.range((Bound::Excluded(entry), Bound::Unbounded));
        rest.take(count).map(|(entry, found)| (*entry, found.clone())).collect()
    }
}

/// What the senders have read.
#[derive(Debug, Default)]
struct Group {
    last: EntryId,
    unacknowledged: BTreeSet<EntryId>,
    /// How many entries were trimmed before any sender read them, since the last look.
    lost: u64,
}

/// All that is known of events.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    stream: Stream<Event>,
    dead: Stream<DeadEvent>,
    group: Option<Group>,
    sender: Option<(GatewayId, UnixMillis)>,
}

impl EventLog {
    fn append(&mut self, event: Event, kept: u64, now: UnixMillis) {
        let oldest = self.stream.entries.first_key_value().map(|(entry, _)| *entry);
        self.stream.append(event, kept, now);
        let trimmed = oldest.filter(|entry| !self.stream.entries.contains_key(entry));
        if let (Some(group), Some(trimmed)) = (&mut self.group, trimmed) {
            group.lost += u64::from(trimmed > group.last);
        }
    }

    fn is_sender(&self, gateway: &GatewayId, now: UnixMillis) -> bool {
        self.sender.as_ref().is_some_and(|(holder, until)| holder == gateway && *until > now)
    }

    fn read(&mut self, request: &ReadEvents, now: UnixMillis) -> SenderTurn {
        let others = |(holder, until): &(GatewayId, UnixMillis)| *holder != request.gateway && *until > now;
        if self.sender.as_ref().is_some_and(others) {
            return SenderTurn::Other;
        }
        self.sender = Some((request.gateway.clone(), now + millis(request.turn)));
        let begin = || Group { last: EntryId(request.begin, 0), ..Group::default() };
        let group = self.group.get_or_insert_with(begin);
        let unread = self.stream.entries.range((Bound::Excluded(group.last), Bound::Unbounded)).count();
        let waiting = (group.unacknowledged.len() + unread) as u64;
        let (events, lost) = match request.from {
            ReadFrom::Unacknowledged(after) => {
                let rest = group.unacknowledged.range((Bound::Excluded(after), Bound::Unbounded));
                let rest = rest.take(request.count);
                let read = |entry: &EntryId| (*entry, self.stream.entries.get(entry).cloned());
                (rest.map(read).map(|(entry, event)| StreamEvent { entry, event }).collect(), 0)
            }
            ReadFrom::New if request.count == 0 => (Vec::new(), 0),
            ReadFrom::New => {
                let read = self.stream.after(group.last, request.count);
                group.unacknowledged.extend(read.iter().map(|(entry, _)| *entry));
                group.last = read.last().map_or(group.last, |(entry, _)| *entry);
                let events = read.into_iter().map(|(entry, event)| StreamEvent { entry, event: Some(event) });
                (events.collect(), std::mem::take(&mut group.lost))
            }
        };
        SenderTurn::Mine { events, waiting, lost }
    }
}

#[async_trait]
impl Events for MemoryStore {
    async fn append_events(&self, events: &[Event], kept: u64) -> StoreResult<()> {
        let now = self.now();
        let mut log = self.events.lock();
        events.iter().for_each(|event| log.append(event.clone(), kept, now));
        Ok(())
    }

    async fn settle_events(&self, appended: &[(LiveId, Vec<u64>)]) -> StoreResult<()> {
        let mut lives = self.lives.lock();
        for (live, numbers) in appended {
            if let Some(kept) = lives.kept.get_mut(live) {
                kept.record.events.pending.retain(|event| !numbers.contains(&event.number));
            }
        }
        Ok(())
    }

    async fn note_counts(&self, live: &LiveId, epoch: Epoch) -> StoreResult<NotedCounts> {
        let now = self.now();
        let mut lives = self.lives.lock();
        let is_open = |record: &LiveRecord| record.state == LiveState::Open && record.epoch == epoch;
        let Some(kept) = lives.kept.get_mut(live).filter(|kept| is_open(&kept.record)) else {
            return Ok(NotedCounts::Over);
        };
        let figures = kept.record.counted.map(|counted| counted.figures).unwrap_or_default();
        let told = kept.record.events.told;
        if told.map(|told| told.figures).unwrap_or_default() == figures {
            return Ok(NotedCounts::Same);
        }
        let due = told.map_or(0, |told| told.at + millis(COUNTS_EVENT_EVERY));
        if now < due {
            return Ok(NotedCounts::Early(Duration::from_millis(due - now)));
        }
        kept.record.events.told = Some(Counted { figures, at: now });
        kept.note(Happened::Counts(figures), now);
        Ok(NotedCounts::Noted(Box::new(kept.record.clone())))
    }

    async fn read_events(&self, request: &ReadEvents) -> StoreResult<SenderTurn> {
        let now = self.now();
        Ok(self.events.lock().read(request, now))
    }

    async fn acknowledge_events(&self, entries: &[EntryId]) -> StoreResult<()> {
        if let Some(group) = &mut self.events.lock().group {
            group.unacknowledged.retain(|entry| !entries.contains(entry));
        }
        Ok(())
    }

    async fn bury_event(
        &self,
        (gateway, entry): (&GatewayId, EntryId),
        dead: &DeadEvent,
        kept: u64,
    ) -> StoreResult<bool> {
        let now = self.now();
        let mut log = self.events.lock();
        if !log.is_sender(gateway, now) {
            return Ok(false);
        }
        log.dead.append(dead.clone(), kept, now);
        if let Some(group) = &mut log.group {
            group.unacknowledged.remove(&entry);
        }
        Ok(true)
    }

    async fn end_sending(&self, gateway: &GatewayId) -> StoreResult<()> {
        self.events.lock().sender.take_if(|(holder, _)| holder == gateway);
        Ok(())
    }

    async fn dead_events(&self, after: Option<EntryId>, limit: usize) -> StoreResult<Vec<(EntryId, DeadEvent)>> {
        Ok(self.events.lock().dead.after(after.unwrap_or_default(), limit.min(MAX_EVENTS)))
    }

    async fn replay_event(&self, entry: EntryId, kept: u64) -> StoreResult<bool> {
        let now = self.now();
        let mut log = self.events.lock();
        let Some(dead) = log.dead.entries.remove(&entry) else { return Ok(false) };
        log.append(dead.event, kept, now);
        Ok(true)
    }
}
