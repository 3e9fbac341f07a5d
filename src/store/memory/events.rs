//! Events in the embedded store. They live only as long as the process.

use async_trait::async_trait;

use super::MemoryStore;
use super::counts::left_until_due;
use crate::base::ids::{Epoch, GatewayId, LiveId};
use crate::store::{
    COUNTS_EVENT_EVERY, Counted, DeadEvent, EntryId, Event, Events, Happened, MAX_EVENTS, NO_CAP,
    NotedCounts, ReadEvents, SenderTurn, StoreResult,
};

#[async_trait]
impl Events for MemoryStore {
    async fn append_events(&self, events: &[Event], kept: u64) -> StoreResult<()> {
        let now = self.now();
        let mut log = self.events.lock();
        for event in events {
            log.append(event.clone(), kept, now);
        }
        Ok(())
    }

    async fn settle_events(&self, appended: &[(LiveId, Vec<u64>)]) -> StoreResult<()> {
        let mut lives = self.lives.lock();
        for (live, numbers) in appended {
            if let Some(kept) = lives.kept.get_mut(live) {
                kept.record
                    .events
                    .pending
                    .retain(|event| !numbers.contains(&event.number));
            }
        }
        Ok(())
    }

    async fn note_counts(&self, live: &LiveId, epoch: Epoch) -> StoreResult<NotedCounts> {
        let now = self.now();
        let mut lives = self.lives.lock();
        let Some(kept) = lives.kept.get_mut(live) else {
            return Ok(NotedCounts::Over);
        };
        if !kept.record.is_open_in(epoch) {
            return Ok(NotedCounts::Over);
        }
        let figures = kept.record.figures();
        let told = kept.record.events.told;
        if told.map(|told| told.figures).unwrap_or_default() == figures {
            return Ok(NotedCounts::Same);
        }
        if let Some(left) = left_until_due(told, COUNTS_EVENT_EVERY, now) {
            return Ok(NotedCounts::Early(left));
        }
        if !kept.note(Happened::Counts(figures), now) {
            return Ok(NotedCounts::Early(COUNTS_EVENT_EVERY));
        }
        kept.record.events.told = Some(Counted { figures, at: now });
        Ok(NotedCounts::Noted(Box::new(kept.record.clone())))
    }

    async fn read_events(&self, request: &ReadEvents) -> StoreResult<SenderTurn> {
        let now = self.now();
        Ok(self.events.lock().read(request, now))
    }

    async fn acknowledge_events(&self, entries: &[EntryId]) -> StoreResult<()> {
        if let Some(group) = &mut self.events.lock().group {
            group
                .unacknowledged
                .retain(|entry| !entries.contains(entry));
        }
        Ok(())
    }

    async fn bury_event(
        &self,
        gateway: &GatewayId,
        entry: EntryId,
        dead: &DeadEvent,
        kept: u64,
    ) -> StoreResult<bool> {
        let now = self.now();
        let mut log = self.events.lock();
        if !log.is_sender(gateway, now) {
            return Ok(false);
        }
        if let Some(group) = &mut log.group
            && group.unacknowledged.remove(&entry)
        {
            log.dead.append(dead.clone(), kept, now);
        }
        Ok(true)
    }

    async fn end_sending(&self, gateway: &GatewayId) -> StoreResult<()> {
        self.events
            .lock()
            .sender
            .take_if(|(holder, _)| holder == gateway);
        Ok(())
    }

    async fn dead_events(
        &self,
        after: Option<EntryId>,
        limit: usize,
    ) -> StoreResult<Vec<(EntryId, DeadEvent)>> {
        Ok(self
            .events
            .lock()
            .dead
            .after(after.unwrap_or_default(), limit.min(MAX_EVENTS)))
    }

    async fn replay_event(&self, entry: EntryId) -> StoreResult<bool> {
        let now = self.now();
        let mut log = self.events.lock();
        let Some(dead) = log.dead.entries.remove(&entry) else {
            return Ok(false);
        };
        log.append(dead.event, NO_CAP, now);
        Ok(true)
    }
}
