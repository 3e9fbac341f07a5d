//! Events in the embedded store. They live only as long as the process.

use async_trait::async_trait;

use super::MemoryStore;
use super::counts::left_until_due;
use super::event_log::EventBurial;
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, GatewayId, LiveId};
use crate::base::webhook_name::WebhookName;
use crate::store::{
    BuryReply, COUNTS_EVENT_EVERY, Counted, DeadEvent, EntryId, Event, EventAges, Events, Happened,
    MAX_EVENTS, NO_CAP, NotedCounts, ReadEvents, SenderTurn, StoreResult, StreamEvent,
    WebhookQueue,
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

    async fn drop_old_events(&self, ages: &EventAges) -> StoreResult<()> {
        let now = self.now();
        self.events.lock().drop_old(ages.events, now);
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

    async fn acknowledge_events(
        &self,
        queue: &WebhookQueue,
        entries: &[EntryId],
    ) -> StoreResult<()> {
        self.events.lock().acknowledge(queue, entries);
        Ok(())
    }

    async fn bury_event(
        &self,
        queue: &WebhookQueue,
        gateway: &GatewayId,
        entry: EntryId,
        dead: &DeadEvent,
        kept: u64,
    ) -> StoreResult<BuryReply> {
        let now = self.now();
        let mut log = self.events.lock();
        match log.bury(queue, gateway, entry, now) {
            EventBurial::Due => {
                let webhook = log.webhook(&queue.webhook);
                webhook.append_dead(dead.clone(), kept, now);
                Ok(BuryReply::Buried)
            }
            EventBurial::Before => Ok(BuryReply::Buried),
            EventBurial::Gone => Ok(BuryReply::Gone),
            EventBurial::NotTheSender => Ok(BuryReply::NotTheSender),
        }
    }

    async fn end_sending(&self, queue: &WebhookQueue, gateway: &GatewayId) -> StoreResult<()> {
        self.events.lock().end_sending(queue, gateway);
        Ok(())
    }

    async fn dead_events(
        &self,
        webhook: &WebhookName,
        after: Option<EntryId>,
        limit: usize,
    ) -> StoreResult<Vec<(EntryId, DeadEvent)>> {
        let mut log = self.events.lock();
        let dead = &log.webhook(webhook).dead;
        Ok(dead.after(after.unwrap_or_default(), limit.min(MAX_EVENTS)))
    }

    async fn replay_dead(&self, webhook: &WebhookName, entry: EntryId) -> StoreResult<bool> {
        let now = self.now();
        let mut log = self.events.lock();
        let webhook = log.webhook(webhook);
        let Some(dead) = webhook.dead.entries.remove(&entry) else {
            return Ok(false);
        };
        webhook.append_replay(dead.event, NO_CAP, now);
        Ok(true)
    }

    async fn events_after(
        &self,
        after: EntryId,
        until: UnixMillis,
    ) -> StoreResult<Vec<StreamEvent>> {
        let mut events = Vec::new();
        for (entry, event) in self.events.lock().after(after, MAX_EVENTS) {
            if entry.0 <= until {
                let event = Some(event);
                events.push(StreamEvent { entry, event });
            }
        }
        Ok(events)
    }

    async fn replay_events(
        &self,
        webhook: &WebhookName,
        events: &[Event],
        kept: u64,
    ) -> StoreResult<()> {
        let now = self.now();
        let mut log = self.events.lock();
        for event in events {
            log.webhook(webhook).append_replay(event.clone(), kept, now);
        }
        Ok(())
    }
}
