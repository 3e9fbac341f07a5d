//! The keys of the deliveries to webhooks.

use crate::base::webhook_name::WebhookName;
use crate::store::redis::family::{
    Family,
    KeyType::{Hash, Stream},
    families,
};
use crate::store::redis::keys::{Keys, webhook_suffix};

families! {
    /// The last attempts to send events to a webhook, each as JSON in the field `delivery`. Capped, and
    /// expires a month after the last one.
    DELIVERIES = Family::new(Stream, "{rollcall:events}:deliveries<:webhook>");

    /// When the last event arrived at a webhook, and when and why one did not. Expires a month after the
    /// last attempt.
    STATUS = Family::new(Hash, "{rollcall:events}:status<:webhook>");
}

impl Keys {
    /// A key of the family `DELIVERIES`.
    pub(crate) fn deliveries(&self, webhook: &WebhookName) -> String {
        self.make(&DELIVERIES, &[&webhook_suffix(webhook)])
    }

    /// A key of the family `STATUS`.
    pub(crate) fn webhook_status(&self, webhook: &WebhookName) -> String {
        self.make(&STATUS, &[&webhook_suffix(webhook)])
    }
}
