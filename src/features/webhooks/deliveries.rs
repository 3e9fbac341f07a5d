//! Sends an event once, and notes for people how that went.

use std::collections::VecDeque;

use crate::base::backoff::RETRY_DELAY_MS;
use crate::base::clock::{Clock, Moment};
use crate::base::webhook_name::WebhookName;
use crate::features::webhooks::endpoints::Endpoint;
use crate::features::webhooks::receiver::DeliveryFailure;
use crate::features::webhooks::store::{DELIVERIES_KEPT, Deliveries, Delivery, MAX_DELIVERIES};

/// The most attempts that wait to be noted: those that the store keeps.
const MOST_UNNOTED: usize = DELIVERIES_KEPT as usize;

/// Sends an event; what is to be noted of this first attempt, and how it ended.
pub(crate) async fn deliver(
    endpoint: &Endpoint,
    clock: Clock,
    id: &str,
    event_type: &str,
    body: &str,
) -> (Delivery, Result<u16, DeliveryFailure>) {
    let at = clock.unix();
    let began = clock.now();
    let outcome = endpoint.receiver().send(id, body).await;
    let status = match &outcome {
        Ok(status) => Some(*status),
        Err(why) => why.status(),
    };
    let failure = match &outcome {
        Ok(_) => None,
        Err(why) => Some(why.to_string()),
    };
    let delivery = Delivery {
        event_id: id.to_owned(),
        event_type: event_type.to_owned(),
        at,
        attempt: 1,
        latency_ms: clock.now().since(began),
        status,
        failure,
    };
    (delivery, outcome)
}

/// Attempts that ended and are not noted yet.
#[derive(Default)]
pub(crate) struct Unnoted {
    deliveries: VecDeque<Delivery>,
    /// Not before this time are they noted.
    next: Moment,
}

impl Unnoted {
    /// Adds an attempt. Only the newest are kept.
    pub(crate) fn push(&mut self, delivery: Delivery) {
        if self.deliveries.len() == MOST_UNNOTED {
            self.deliveries.pop_front();
        }
        self.deliveries.push_back(delivery);
    }

    /// Notes some, by one call: a slow store must not cost the sender its turn.
    pub(crate) async fn note(
        &mut self,
        store: &(impl Deliveries + ?Sized),
        webhook: &WebhookName,
        clock: Clock,
    ) {
        if self.deliveries.is_empty() || clock.now() < self.next {
            return;
        }
        let count = self.deliveries.len().min(MAX_DELIVERIES);
        let some = &self.deliveries.make_contiguous()[..count];
        match store.note_deliveries(webhook, some).await {
            Ok(()) => drop(self.deliveries.drain(..count)),
            Err(why) => {
                tracing::debug!(error = %why, "attempts to send were not noted, will try again");
                self.next = clock.now() + RETRY_DELAY_MS;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FaultyStore;

    fn delivery(attempt: u32) -> Delivery {
        Delivery {
            event_id: "42:1:live.opened:7".to_owned(),
            event_type: "live.opened".to_owned(),
            at: 1,
            attempt,
            latency_ms: 5,
            status: Some(204),
            failure: None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_is_away_is_asked_once_in_a_while_and_only_the_newest_are_kept() {
        let store = FaultyStore::new();
        let webhook = WebhookName::default();
        let clock = Clock::start();
        let mut unnoted = Unnoted::default();
        store.breaks();
        let all = MOST_UNNOTED as u32 + 5;
        for attempt in 0..all {
            unnoted.push(delivery(attempt));
            unnoted.note(&store, &webhook, clock).await;
        }
        store.heals();
        unnoted.note(&store, &webhook, clock).await;
        let noted = store.deliveries(&webhook, None, 10).await.unwrap();
        assert_eq!(noted, [], "it is not asked again at once");
        clock.sleep_until(clock.now() + RETRY_DELAY_MS).await;
        let calls = MOST_UNNOTED.div_ceil(MAX_DELIVERIES);
        for call in 1..=calls {
            unnoted.note(&store, &webhook, clock).await;
            let kept = store
                .deliveries(&webhook, None, all as usize)
                .await
                .unwrap();
            assert_eq!(kept.len(), call * MAX_DELIVERIES, "one call at a time");
            let newest = 4 + (call * MAX_DELIVERIES) as u32;
            assert_eq!(kept[0].1.attempt, newest);
        }
    }
}
