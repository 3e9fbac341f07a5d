//! The calls on events. The stream, the turn to send and the events that the sender gave up share a
//! hash slot. The records, which note the events first, lie in other slots.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use fred::types::Value;

use super::lives::{EVENT_FIELD, record};
use super::node::Command;
use super::reply::{Reply, next_answer, nonsense};
use super::{RedisStore, args, scripts};
use crate::base::clock::millis;
use crate::base::event_kind::EventKind;
use crate::base::ids::{Epoch, GatewayId, LiveId};
use crate::store::{
    COUNTS_EVENT_EVERY, DeadEvent, EntryId, Event, Events, MAX_EVENTS, MAX_RECORD_FIELDS,
    NotedCounts, ReadEvents, ReadFrom, SenderTurn, StoreResult, StreamEvent,
};

/// The consumer group of the webhook senders.
const GROUP: &str = "webhooks";

/// Reads the fields of an entry as an event; `None` if another program wrote it.
fn event(fields: &HashMap<String, String>) -> Option<Event> {
    Some(Event {
        id: fields.get("id")?.clone(),
        kind: EventKind::from_name(fields.get("type")?)?,
        live: LiveId::parse(fields.get("live_id")?).ok()?,
        data: fields.get("data")?.clone(),
    })
}

fn entry_id(reply: &mut Reply) -> StoreResult<EntryId> {
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

fn event_args(event: &Event) -> [Value; 4] {
    [
        event.id.as_str(),
        event.kind.as_str(),
        event.live.as_str(),
        event.data.as_str(),
    ]
    .map(Value::from)
}

impl RedisStore {
    async fn do_append(&self, events: &[Event], kept: u64) -> StoreResult<()> {
        let mut args = args![kept];
        args.extend(events.iter().flat_map(event_args));
        self.router
            .script(&scripts::APPEND_EVENTS, vec![self.keys().events()], args)
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

    async fn do_note_counts(&self, live: &LiveId, epoch: Epoch) -> StoreResult<NotedCounts> {
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

    async fn do_read(&self, request: &ReadEvents) -> StoreResult<SenderTurn> {
        let from = match request.from {
            ReadFrom::Unacknowledged(after) => after.to_string(),
            ReadFrom::New => ">".to_owned(),
        };
        let turn = millis(request.turn).max(1);
        let begin = EntryId(request.begin, 0);
        let args = args![request.gateway, turn, GROUP, begin, from, request.count];
        let keys = vec![self.keys().events(), self.keys().event_sender()];
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

    async fn do_acknowledge(&self, entries: &[EntryId]) -> StoreResult<()> {
        let mut args = args![self.keys().events(), GROUP];
        args.extend(entries.iter().map(|entry| Value::from(entry.to_string())));
        self.router.command("XACK", args).await?;
        Ok(())
    }

    async fn do_bury(
        &self,
        gateway: &GatewayId,
        entry: EntryId,
        dead: &DeadEvent,
        kept: u64,
    ) -> StoreResult<bool> {
        let mut args = args![gateway, GROUP, entry, kept];
        args.extend(event_args(&dead.event));
        args.extend(args![dead.why, dead.attempts]);
        let keys = vec![
            self.keys().events(),
            self.keys().event_sender(),
            self.keys().dead_events(),
        ];
        self.router
            .script(&scripts::BURY_EVENT, keys, args)
            .await?
            .flag()
    }

    pub(super) async fn do_dead(
        &self,
        after: Option<EntryId>,
        limit: usize,
    ) -> StoreResult<Vec<(EntryId, DeadEvent)>> {
        let mut found = Vec::new();
        let mut after = after;
        while found.len() < limit {
            let from = match after {
                Some(after) => format!("({after}"),
                None => "-".to_owned(),
            };
            let args = args![self.keys().dead_events(), from, "+", "COUNT", limit];
            let mut page = Reply::of(self.router.command("XRANGE", args).await?)?;
            let before = after;
            while let Some(piece) = page.piece() {
                let mut piece = Reply::of(piece)?;
                let entry = entry_id(&mut piece)?;
                after = Some(entry);
                let fields = piece
                    .list()?
                    .pairs()
                    .unwrap_or_default()
                    .into_iter()
                    .collect();
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
}

#[async_trait]
impl Events for RedisStore {
    async fn append_events(&self, events: &[Event], kept: u64) -> StoreResult<()> {
        self.router
            .call("append_events", self.do_append(events, kept))
            .await
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
        self.router
            .call("note_counts", self.do_note_counts(live, epoch))
            .await
    }

    async fn read_events(&self, request: &ReadEvents) -> StoreResult<SenderTurn> {
        self.router.call("read_events", self.do_read(request)).await
    }

    async fn acknowledge_events(&self, entries: &[EntryId]) -> StoreResult<()> {
        if entries.is_empty() {
            return Ok(());
        }
        self.router
            .call("acknowledge_events", self.do_acknowledge(entries))
            .await
    }

    async fn bury_event(
        &self,
        gateway: &GatewayId,
        entry: EntryId,
        dead: &DeadEvent,
        kept: u64,
    ) -> StoreResult<bool> {
        self.router
            .call("bury_event", self.do_bury(gateway, entry, dead, kept))
            .await
    }

    async fn end_sending(&self, gateway: &GatewayId) -> StoreResult<()> {
        let keys = vec![self.keys().event_sender()];
        let steps = async {
            self.router
                .script(&scripts::END_SENDING, keys, args![gateway])
                .await?;
            Ok(())
        };
        self.router.call("end_sending", steps).await
    }

    async fn dead_events(
        &self,
        after: Option<EntryId>,
        limit: usize,
    ) -> StoreResult<Vec<(EntryId, DeadEvent)>> {
        self.router
            .call("dead_events", self.do_dead(after, limit.min(MAX_EVENTS)))
            .await
    }

    async fn replay_event(&self, entry: EntryId) -> StoreResult<bool> {
        let keys = vec![self.keys().events(), self.keys().dead_events()];
        let steps = async {
            self.router
                .script(&scripts::REPLAY_EVENT, keys, args![entry])
                .await?
                .flag()
        };
        self.router.call("replay_event", steps).await
    }
}
