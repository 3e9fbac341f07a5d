//! The calls on events. The stream and all keys of webhooks share a hash slot. The records, which
//! note the events first, lie in other slots.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use fred::types::Value;

use super::lives::{EVENT_FIELD, record};
use super::node::Command;
use super::reply::{Reply, next_answer, nonsense};
use super::{RedisCalls, args, keys, scripts};
use crate::base::clock::{UnixMillis, millis};
use crate::base::event_kind::EventKind;
use crate::base::ids::{Epoch, GatewayId, LiveId};
use crate::base::webhook_name::WebhookName;
use crate::store::{
    APPENDED_KNOWN, About, BuryReply, COUNTS_EVENT_EVERY, DeadEvent, EntryId, Event, EventAges,
    Events, MAX_EVENTS, MAX_RECORD_FIELDS, NotedCounts, QueueKind, ReadEvents, ReadFrom,
    SenderTurn, StoreResult, StreamEvent, UNDELIVERED_TTL, WebhookQueue,
};

/// A stream that never expires.
const FOR_EVER: Duration = Duration::ZERO;

/// The consumer group of the senders of a webhook.
pub(crate) fn group(webhook: &WebhookName) -> String {
    format!("webhooks{}", keys::webhook_suffix(webhook))
}

/// Reads the fields of an entry as an event; `None` if another program wrote it.
fn event(fields: &HashMap<String, String>) -> Option<Event> {
    Some(Event {
        id: fields.get("id")?.clone(),
        kind: EventKind::from_name(fields.get("type")?)?,
        about: about(fields)?,
        data: fields.get("data")?.clone(),
    })
}

fn about(fields: &HashMap<String, String>) -> Option<About> {
    fields
        .iter()
        .find_map(|(name, value)| About::read(name, value))
}

pub(crate) fn entry_id(reply: &mut Reply) -> StoreResult<EntryId> {
    EntryId::parse(&reply.text()?).ok_or_else(|| nonsense("an entry without an id"))
}

fn dead_event(fields: &HashMap<String, String>) -> Option<DeadEvent> {
    let attempts = fields.get("attempts")?.parse().ok()?;
    Some(DeadEvent {
        event: event(fields)?,
        why: fields.get("why")?.clone(),
        attempts,
    })
}

fn event_args(event: &Event) -> [Value; 5] {
    let (field, about) = event.about.field();
    [
        event.id.as_str(),
        event.kind.as_str(),
        field,
        about,
        event.data.as_str(),
    ]
    .map(Value::from)
}

/// Reads an entry of a stream as its id and its fields. Another program may write bytes that are not
/// text; such an entry has no fields.
pub(crate) fn entry(piece: Value) -> StoreResult<(EntryId, HashMap<String, String>)> {
    let mut piece = Reply::of(piece)?;
    let entry = entry_id(&mut piece)?;
    let pairs = piece.list()?.pairs().unwrap_or_default();
    Ok((entry, pairs.into_iter().collect()))
}

impl RedisCalls {
    async fn append(
        &self,
        keys: Vec<String>,
        lifetime: Duration,
        events: &[Event],
        kept: u64,
    ) -> StoreResult<()> {
        let mut args = args![kept, lifetime.as_secs(), APPENDED_KNOWN.as_secs()];
        args.extend(events.iter().flat_map(event_args));
        self.router
            .script(&scripts::APPEND_EVENTS, keys, args)
            .await?;
        Ok(())
    }

    /// The command that deletes events from a record.
    fn settle(&self, live: &LiveId, numbers: &[u64]) -> Command {
        let mut args = args![self.keys().live(live)];
        for number in numbers {
            args.push(Value::from(format!("{EVENT_FIELD}{number}")));
        }
        ("HDEL", args)
    }
}

#[async_trait]
impl Events for RedisCalls {
    async fn append_events(&self, events: &[Event], kept: u64) -> StoreResult<()> {
        let keys = vec![
            self.keys().events(),
            self.keys().appended_events(),
            self.keys().audit_trail(),
        ];
        self.append(keys, FOR_EVER, events, kept).await
    }

    async fn drop_old_events(&self, ages: &EventAges) -> StoreResult<()> {
        let keys = vec![self.keys().events(), self.keys().audit_trail()];
        let args = args![ages.events.as_secs(), ages.audit.as_secs()];
        self.router
            .script(&scripts::DROP_OLD_EVENTS, keys, args)
            .await?;
        Ok(())
    }

    async fn settle_events(&self, appended: &[(LiveId, Vec<u64>)]) -> StoreResult<()> {
        let answers = self
            .router
            .read_each(
                "settle_events",
                appended,
                |(live, numbers)| vec![self.settle(live, numbers)],
                |_, answers| next_answer(answers),
            )
            .await;
        for answer in answers {
            answer?;
        }
        Ok(())
    }

    async fn note_counts(&self, live: &LiveId, epoch: Epoch) -> StoreResult<NotedCounts> {
        let args = args![epoch, millis(COUNTS_EVENT_EVERY), MAX_RECORD_FIELDS];
        let mut reply = self
            .router
            .script(&scripts::NOTE_COUNTS, vec![self.keys().live(live)], args)
            .await?;
        match reply.text()?.as_str() {
            "noted" => match record(live, reply)? {
                Some(record) => Ok(NotedCounts::Noted(Box::new(record))),
                None => Err(nonsense("a record without fields")),
            },
            "same" => Ok(NotedCounts::Same),
            "early" => Ok(NotedCounts::Early(Duration::from_millis(reply.number()?))),
            "over" => Ok(NotedCounts::Over),
            other => Err(nonsense(format!("the counts of an event answered {other}"))),
        }
    }

    async fn read_events(&self, request: &ReadEvents) -> StoreResult<SenderTurn> {
        let from = match request.from {
            ReadFrom::Unacknowledged(after) => after.to_string(),
            ReadFrom::New => ">".to_owned(),
        };
        let turn = millis(request.turn).max(1);
        let begin = EntryId(request.begin, 0);
        let queue = &request.queue;
        let group = group(&queue.webhook);
        let args = args![request.gateway, turn, group, begin, from, request.count];
        let keys = vec![self.keys().queue(queue), self.keys().event_sender(queue)];
        let mut reply = self
            .router
            .script(&scripts::READ_EVENTS, keys, args)
            .await?;
        match reply.text()?.as_str() {
            "other" => return Ok(SenderTurn::Other),
            "mine" => {}
            other => return Err(nonsense(format!("a sender's turn answered {other}"))),
        }
        let waiting = reply.number()?;
        let lost = reply.number()?;
        let mut events = Vec::new();
        while let Some(piece) = reply.piece() {
            let mut piece = Reply::of(piece)?;
            let entry = entry_id(&mut piece)?;
            // Another program may write bytes that are not text. Such an entry is no event.
            let fields = piece.pairs().unwrap_or_default().into_iter().collect();
            events.push(StreamEvent {
                entry,
                event: event(&fields),
            });
        }
        Ok(SenderTurn::Mine {
            events,
            waiting,
            lost,
        })
    }

    async fn acknowledge_events(
        &self,
        queue: &WebhookQueue,
        entries: &[EntryId],
    ) -> StoreResult<()> {
        if entries.is_empty() {
            return Ok(());
        }
        let mut args = args![self.keys().queue(queue), group(&queue.webhook)];
        args.extend(entries.iter().map(|entry| Value::from(entry.to_string())));
        self.router.command("XACK", args).await?;
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
        let lifetime = UNDELIVERED_TTL.as_secs();
        let mut args = args![gateway, group(&queue.webhook), entry, kept, lifetime];
        args.extend(event_args(&dead.event));
        let may_be_erased = queue.kind == QueueKind::Replay;
        args.extend(args![dead.why, dead.attempts, u8::from(may_be_erased)]);
        let keys = vec![
            self.keys().queue(queue),
            self.keys().event_sender(queue),
            self.keys().dead_events(&queue.webhook),
        ];
        let mut reply = self.router.script(&scripts::BURY_EVENT, keys, args).await?;
        match reply.text()?.as_str() {
            "buried" => Ok(BuryReply::Buried),
            "gone" => Ok(BuryReply::Gone),
            "other" => Ok(BuryReply::NotTheSender),
            other => Err(nonsense(format!("an event given up answered {other}"))),
        }
    }

    async fn end_sending(&self, queue: &WebhookQueue, gateway: &GatewayId) -> StoreResult<()> {
        let keys = vec![self.keys().event_sender(queue)];
        self.router
            .script(&scripts::END_SENDING, keys, args![gateway])
            .await?;
        Ok(())
    }

    async fn dead_events(
        &self,
        webhook: &WebhookName,
        after: Option<EntryId>,
        limit: usize,
    ) -> StoreResult<Vec<(EntryId, DeadEvent)>> {
        let mut found = Vec::new();
        let mut after = after;
        let limit = limit.min(MAX_EVENTS);
        while found.len() < limit {
            let from = match after {
                Some(after) => format!("({after}"),
                None => "-".to_owned(),
            };
            let args = args![self.keys().dead_events(webhook), from, "+", "COUNT", limit];
            let mut page = Reply::of(self.router.command("XRANGE", args).await?)?;
            let before = after;
            while let Some(piece) = page.piece() {
                let (entry, fields) = entry(piece)?;
                after = Some(entry);
                if let Some(dead) = dead_event(&fields) {
                    found.push((entry, dead));
                }
            }
            if after == before {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    async fn replay_dead(&self, webhook: &WebhookName, entry: EntryId) -> StoreResult<bool> {
        let keys = vec![
            self.keys().replays(webhook),
            self.keys().dead_events(webhook),
        ];
        let args = args![entry, UNDELIVERED_TTL.as_secs()];
        self.router
            .script(&scripts::REPLAY_DEAD, keys, args)
            .await?
            .flag()
    }

    async fn events_after(
        &self,
        after: EntryId,
        until: UnixMillis,
    ) -> StoreResult<Vec<StreamEvent>> {
        let from = format!("({after}");
        let args = args![self.keys().events(), from, until, "COUNT", MAX_EVENTS];
        let mut page = Reply::of(self.router.command("XRANGE", args).await?)?;
        let mut events = Vec::new();
        while let Some(piece) = page.piece() {
            let (entry, fields) = entry(piece)?;
            events.push(StreamEvent {
                entry,
                event: event(&fields),
            });
        }
        Ok(events)
    }

    async fn replay_events(
        &self,
        webhook: &WebhookName,
        events: &[Event],
        kept: u64,
    ) -> StoreResult<()> {
        let keys = vec![self.keys().replays(webhook)];
        self.append(keys, UNDELIVERED_TTL, events, kept).await
    }
}
