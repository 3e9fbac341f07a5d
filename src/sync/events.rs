//! Puts what happened into the stream of events. A record notes its events first, see
//! [`crate::store::Events`]; whoever looks at a record with pending events appends all of them, in
//! their order, and settles them.
//!
//! What could not be appended stays pending. The walk looks at each open or closing live once per
//! `check-every`, and a close is finished only when its events are in the stream, so an event is
//! never lost with its gateway.

pub mod count_events;
pub mod fan_events;

use serde_json::{Map, Value, json};

use crate::base::ids::LiveId;
use crate::store::{Event, Events, Happened, LiveRecord, PendingEvent, StoreResult, one_append};

/// Appends the pending events of these records, of each live in their order, and settles them.
pub(crate) async fn announce<'a>(
    store: &(impl Events + ?Sized),
    records: impl IntoIterator<Item = &'a LiveRecord>,
    kept: u64,
) -> StoreResult<()> {
    let noted: Vec<_> = records
        .into_iter()
        .filter(|record| !record.events.pending.is_empty())
        .collect();
    let events: Vec<Event> = noted
        .iter()
        .flat_map(|record| {
            record
                .events
                .pending
                .iter()
                .map(|pending| event_of(record, pending))
        })
        .collect();
    let mut left = events.as_slice();
    while let Some((some, later)) = left
        .split_at_checked(one_append(left))
        .filter(|(some, _)| !some.is_empty())
    {
        store.append_events(some, kept).await?;
        left = later;
    }
    let settled = noted.into_iter().map(|record| {
        let numbers = record.events.pending.iter().map(|event| event.number);
        (record.live.clone(), numbers.collect())
    });
    store.settle_events(&settled.collect::<Vec<_>>()).await
}

/// As [`announce`] for one record. What fails is left to the walk.
pub(crate) async fn announce_or_leave(
    store: &(impl Events + ?Sized),
    record: &LiveRecord,
    kept: u64,
) {
    if let Err(why) = announce(store, [record], kept).await {
        tracing::warn!(live_id = %record.live, error = %why, "events were not written; the walk will write them");
    }
}

/// An event with all that `docs/events.md` says of its kind.
fn event_of(record: &LiveRecord, pending: &PendingEvent) -> Event {
    let (kind, number) = (pending.what.kind(), pending.number);
    let id = Event::id(&record.live, record.epoch, kind, number);
    let mut data = head(&id, (kind.as_str(), &record.live), (record.epoch.0, number));
    data.insert("streamer_id".to_owned(), json!(record.streamer));
    let more = match &pending.what {
        Happened::Opened => {
            json!({"title": record.terms.title, "opened_by": record.opened_by.as_str(), "opened_at": record.opened_at})
        }
        Happened::Closed => json!(record.summary()),
        Happened::Counts(figures) => json!({"viewers": figures.viewers, "fans": figures.fans}),
        Happened::Removed(user) => json!({"user_id": user}),
        Happened::Banned(user, until) => json!({"user_id": user, "banned_until": until}),
    };
    if let Value::Object(more) = more {
        data.extend(more);
    }
    Event {
        id,
        kind,
        live: record.live.clone(),
        data: Value::Object(data).to_string(),
    }
}

/// What every event begins with.
fn head(id: &str, (kind, live): (&str, &LiveId), (epoch, at): (u64, u64)) -> Map<String, Value> {
    let pairs = [
        ("id", json!(id)),
        ("type", json!(kind)),
        ("live_id", json!(live)),
        ("epoch", json!(epoch)),
        ("at", json!(at)),
    ];
    pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
