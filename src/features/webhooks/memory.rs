//! The deliveries of webhooks in the embedded store.

use std::collections::HashMap;

use async_trait::async_trait;

use super::store::{DELIVERIES_KEPT, Deliveries, Delivery, WebhookStatus, latest};
use crate::base::webhook_name::WebhookName;
use crate::store::memory::MemoryStore;
use crate::store::memory::event_log::CappedStream;
use crate::store::memory::states::{State, StateErasure};
use crate::store::{EntryId, StoreResult};

#[derive(Debug, Clone, Default)]
struct KeptOfWebhook {
    deliveries: CappedStream<Delivery>,
    last: WebhookStatus,
}

type DeliveriesOfWebhooks = HashMap<WebhookName, KeptOfWebhook>;

impl State for DeliveriesOfWebhooks {
    /// An attempt to send an event does not name users.
    fn erase(&mut self, _: &mut StateErasure<'_>) {}
}

#[async_trait]
impl Deliveries for MemoryStore {
    async fn note_deliveries(
        &self,
        webhook: &WebhookName,
        deliveries: &[Delivery],
    ) -> StoreResult<()> {
        let now = self.now();
        let mut kept = self.states.lock::<DeliveriesOfWebhooks>();
        let webhook = kept.entry(webhook.clone()).or_default();
        for delivery in deliveries {
            webhook
                .deliveries
                .append(delivery.clone(), DELIVERIES_KEPT, now);
        }
        let latest = latest(deliveries);
        webhook.last.delivered_at = latest.delivered_at.or(webhook.last.delivered_at);
        if latest.failed.is_some() {
            webhook.last.failed = latest.failed;
        }
        Ok(())
    }

    async fn deliveries(
        &self,
        webhook: &WebhookName,
        before: Option<EntryId>,
        limit: usize,
    ) -> StoreResult<Vec<(EntryId, Delivery)>> {
        let mut kept = self.states.lock::<DeliveriesOfWebhooks>();
        let webhook = kept.entry(webhook.clone()).or_default();
        Ok(webhook.deliveries.before(before, limit))
    }

    async fn webhook_status(&self, webhook: &WebhookName) -> StoreResult<WebhookStatus> {
        let (waiting, dead) = self.events.lock().undelivered(webhook);
        let kept = self.states.lock::<DeliveriesOfWebhooks>();
        let last = kept.get(webhook).map(|kept| kept.last.clone());
        Ok(WebhookStatus {
            waiting,
            dead,
            ..last.unwrap_or_default()
        })
    }
}
