//! The boundary for what people are told of webhooks: the last attempts to send an event to each, and
//! how each stands. The sender writes both, after the attempts; they decide nothing. So an attempt
//! whose gateway died before it wrote may be missing.

use crate::store::Store;
use crate::store::calls::calls;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::clock::UnixMillis;
use crate::base::webhook_name::WebhookName;
use crate::store::{EntryId, StoreResult};

/// How many attempts of a webhook are kept.
pub const DELIVERIES_KEPT: u64 = 1_000;

/// How long they are kept after the last one.
pub const DELIVERIES_TTL: Duration = Duration::from_secs(30 * 24 * 3_600);

/// Maximum attempts that one call notes.
pub const MAX_DELIVERIES: usize = 100;

/// An attempt to send an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// The event.
    pub event_id: String,
    /// The type of the event.
    pub event_type: String,
    /// When the attempt began, by the clock of the gateway that sent.
    pub at: UnixMillis,
    /// How often this sender had sent the event, with this attempt: 1 or more.
    pub attempt: u32,
    /// How long it took, in ms.
    pub latency_ms: u64,
    /// The status of the answer; `None` without one.
    pub status: Option<u16>,
    /// Why the event did not arrive, for people; `None` if it did.
    pub failure: Option<String>,
}

/// How a webhook stands.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebhookStatus {
    /// How many entries have not arrived yet, and were not given up: those of the stream, including
    /// the kinds of events that the webhook does not want, and those that it is sent again.
    pub waiting: u64,
    /// How many events were given up and are kept.
    pub dead: u64,
    /// When the last event that arrived was sent.
    pub delivered_at: Option<UnixMillis>,
    /// When the last event that did not arrive was sent, and why it did not.
    pub failed: Option<(UnixMillis, String)>,
}

calls! {
    /// Attempts to send events.
    pub trait Deliveries {
        /// Notes up to [`MAX_DELIVERIES`] attempts, oldest first. The newest [`DELIVERIES_KEPT`] stay.
        async fn note_deliveries(
            &self,
            webhook: &WebhookName,
            deliveries: &[Delivery],
        ) -> StoreResult<()>, writes;

        /// Up to `limit` attempts, newest first, before the given one. Skips entries that cannot be read.
        async fn deliveries(
            &self,
            webhook: &WebhookName,
            before: Option<EntryId>,
            limit: usize,
        ) -> StoreResult<Vec<(EntryId, Delivery)>>, reads;

        /// How a webhook stands.
        async fn webhook_status(&self, webhook: &WebhookName) -> StoreResult<WebhookStatus>, reads;
    }
}

/// The last of these attempts that arrived, and the last that did not.
pub(crate) fn latest(deliveries: &[Delivery]) -> WebhookStatus {
    let mut status = WebhookStatus::default();
    for delivery in deliveries {
        match &delivery.failure {
            None => status.delivered_at = Some(delivery.at),
            Some(why) => status.failed = Some((delivery.at, why.clone())),
        }
    }
    status
}

/// The calls of the core, and those about deliveries.
pub trait WebhookStore: Store + Deliveries {}

impl<T: Store + Deliveries + ?Sized> WebhookStore for T {}
