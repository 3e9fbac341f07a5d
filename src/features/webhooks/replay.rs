//! Has a webhook sent again what happened in a span of time, as far as the stream still has it.

use crate::base::clock::UnixMillis;
use crate::features::webhooks::endpoints::Endpoint;
use crate::store::{EntryId, Event, Events, StoreResult, one_append};

/// The most entries of the stream that one replay looks at.
const MOST_LOOKED_AT: usize = 10_000;

/// What a replay did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Replayed {
    /// How many events are sent again.
    pub(crate) events: u64,
    /// Where a further call goes on; `None` if everything was looked at.
    pub(crate) next_from: Option<UnixMillis>,
}

/// Adds the events that were appended from `from` to `until`, and that the webhook wants, to those that
/// it is sent again, in their order.
pub(crate) async fn replay(
    store: &(impl Events + ?Sized),
    endpoint: &Endpoint,
    from: UnixMillis,
    until: UnixMillis,
    kept: u64,
) -> StoreResult<Replayed> {
    let mut replayed = Replayed {
        events: 0,
        next_from: None,
    };
    let mut after = match from.checked_sub(1) {
        Some(before) => EntryId(before, u64::MAX),
        None => EntryId::default(),
    };
    let mut looked_at = 0;
    loop {
        let page = store.events_after(after, until).await?;
        let Some(last) = page.last() else {
            return Ok(replayed);
        };
        if looked_at >= MOST_LOOKED_AT {
            // The events of this millisecond are sent once more.
            replayed.next_from = Some(after.0);
            return Ok(replayed);
        }
        after = last.entry;
        looked_at += page.len();
        let mut wanted: Vec<Event> = Vec::new();
        for found in page {
            if let Some(event) = found.event
                && endpoint.kinds.contains(&event.kind)
            {
                wanted.push(event);
            }
        }
        replayed.events += wanted.len() as u64;
        let mut left = wanted.as_slice();
        while let Some((some, later)) = left.split_at_checked(one_append(left))
            && !some.is_empty()
        {
            store.replay_events(&endpoint.name, some, kept).await?;
            left = later;
        }
    }
}
