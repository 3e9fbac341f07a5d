//! Writes the stream of events. A record notes its events first, see [`crate::store::Events`]. A
//! gateway that finds a record with pending events appends all of them, in their order, and settles
//! them.
//!
//! An event that could not be appended stays pending. The walk looks at each open or closing live
//! once per `check-every`, and a close is finished only when its events are in the stream. So no
//! event is lost when its gateway dies.

pub mod announcer;
pub mod api_events;
pub mod count_events;
pub mod fan_events;
pub mod queue;

use serde_json::{Map, Value, json};

use crate::base::event_kind::EventKind;
use crate::base::ids::{Epoch, LiveId};
use crate::store::{
    About, Event, Events, Happened, LiveRecord, PendingEvent, StoreResult, one_append,
};

/// Appends the pending events of these records, of each live in their order, and settles them.
pub(crate) async fn announce<'a>(
    store: &(impl Events + ?Sized),
    records: impl IntoIterator<Item = &'a LiveRecord>,
    kept: u64,
) -> StoreResult<()> {
    let noted: Vec<&LiveRecord> = records
        .into_iter()
        .filter(|record| !record.events.pending.is_empty())
        .collect();
    let mut events: Vec<Event> = Vec::new();
    for record in &noted {
        for pending in &record.events.pending {
            events.push(event_of(record, pending));
        }
    }
    let mut left = events.as_slice();
    while let Some((some, later)) = left.split_at_checked(one_append(left))
        && !some.is_empty()
    {
        store.append_events(some, kept).await?;
        left = later;
    }
    let mut settled = Vec::with_capacity(noted.len());
    for record in noted {
        let numbers = record.events.pending.iter().map(|event| event.number);
        settled.push((record.live.clone(), numbers.collect()));
    }
    store.settle_events(&settled).await
}

/// Does the same as [`announce`] for one record. After a failure the walk does it.
pub(crate) async fn announce_or_leave(
    store: &(impl Events + ?Sized),
    record: &LiveRecord,
    kept: u64,
) {
    if let Err(why) = announce(store, [record], kept).await {
        tracing::warn!(
            live_id = %record.live, error = %why,
            "events were not written; the walk will write them"
        );
    }
}

/// An event with all that `docs/events.md` says of its kind.
fn event_of(record: &LiveRecord, pending: &PendingEvent) -> Event {
    let kind = pending.what.kind();
    let number = pending.number;
    let id = Event::id(&record.live, record.epoch, kind, number);
    let mut data = head(&id, kind, &record.live, record.epoch, number);
    data.insert("streamer_id".to_owned(), json!(record.streamer));
    let more = match &pending.what {
        Happened::Opened => {
            json!({
                "title": record.terms.title,
                "opened_by": record.opened_by.as_str(),
                "opened_at": record.opened_at,
            })
        }
        Happened::Closed => json!(record.summary()),
        Happened::Counts(figures) => json!({
            "viewers": figures.viewers,
            "fans": figures.fans,
            "guests": figures.guests,
        }),
        Happened::Removed(user) | Happened::Unbanned(user) => {
            json!({"user_id": user, "by": pending.by})
        }
        Happened::Banned(user, until) => {
            json!({"user_id": user, "ban_ends_at": until, "by": pending.by})
        }
        Happened::Stream(_, server) => json!({"server": server}),
    };
    if let Value::Object(more) = more {
        data.extend(more);
    }
    Event {
        id,
        kind,
        about: About::Live(record.live.clone()),
        data: Value::Object(data).to_string(),
    }
}

/// The fields that every event begins with.
fn head(id: &str, kind: EventKind, live: &LiveId, epoch: Epoch, at: u64) -> Map<String, Value> {
    let mut head = Map::new();
    head.insert("id".to_owned(), json!(id));
    head.insert("type".to_owned(), json!(kind.as_str()));
    head.insert("live_id".to_owned(), json!(live));
    head.insert("epoch".to_owned(), json!(epoch.0));
    head.insert("at".to_owned(), json!(at));
    head
}
