//! The calls on what people are told of webhooks: a stream with the last attempts to send events, and
//! a hash with how each webhook stands, beside the stream of events.

use crate::features::webhooks::scripts;
use async_trait::async_trait;
use fred::types::Value;

use crate::base::webhook_name::WebhookName;
use crate::features::webhooks::store::latest;
use crate::features::webhooks::store::{
    DELIVERIES_KEPT, DELIVERIES_TTL, Deliveries, Delivery, WebhookStatus,
};
use crate::store::redis::events::{entry, group};
use crate::store::redis::reply::{Reply, nonsense};
use crate::store::redis::{RedisCalls, args};
use crate::store::{EntryId, StoreResult};

const DELIVERED_AT: &str = "delivered_at";
const FAILED_AT: &str = "failed_at";
const FAILURE: &str = "failure";

#[async_trait]
impl Deliveries for RedisCalls {
    async fn note_deliveries(
        &self,
        webhook: &WebhookName,
        deliveries: &[Delivery],
    ) -> StoreResult<()> {
        if deliveries.is_empty() {
            return Ok(());
        }
        let latest = latest(deliveries);
        let mut status: Vec<Value> = Vec::new();
        if let Some(at) = latest.delivered_at {
            status.extend(args![DELIVERED_AT, at]);
        }
        if let Some((at, why)) = latest.failed {
            status.extend(args![FAILED_AT, at, FAILURE, why]);
        }
        let lifetime = DELIVERIES_TTL.as_secs();
        let mut args = args![DELIVERIES_KEPT, lifetime, status.len()];
        args.extend(status);
        for delivery in deliveries {
            let text = serde_json::to_string(delivery).map_err(|why| nonsense(why.to_string()))?;
            args.push(Value::from(text));
        }
        let keys = vec![
            self.keys().deliveries(webhook),
            self.keys().webhook_status(webhook),
        ];
        self.router
            .script(&scripts::NOTE_DELIVERIES, keys, args)
            .await?;
        Ok(())
    }

    async fn deliveries(
        &self,
        webhook: &WebhookName,
        before: Option<EntryId>,
        limit: usize,
    ) -> StoreResult<Vec<(EntryId, Delivery)>> {
        let from = match before {
            Some(before) => format!("({before}"),
            None => "+".to_owned(),
        };
        let key = self.keys().deliveries(webhook);
        let args = args![key, from, "-", "COUNT", limit];
        let mut page = Reply::of(self.router.command("XREVRANGE", args).await?)?;
        let mut found = Vec::new();
        while let Some(piece) = page.piece() {
            let (entry, fields) = entry(piece)?;
            if let Some(text) = fields.get("delivery")
                && let Ok(delivery) = serde_json::from_str(text)
            {
                found.push((entry, delivery));
            }
        }
        Ok(found)
    }

    async fn webhook_status(&self, webhook: &WebhookName) -> StoreResult<WebhookStatus> {
        let keys = vec![
            self.keys().events(),
            self.keys().replays(webhook),
            self.keys().dead_events(webhook),
            self.keys().webhook_status(webhook),
        ];
        let mut reply = self
            .router
            .script(&scripts::READ_WEBHOOK, keys, args![group(webhook)])
            .await?;
        let mut status = WebhookStatus {
            waiting: reply.number()?,
            dead: reply.number()?,
            ..WebhookStatus::default()
        };
        let mut failed_at = None;
        let mut failure = None;
        for (name, value) in reply.pairs()? {
            match name.as_str() {
                DELIVERED_AT => status.delivered_at = value.parse().ok(),
                FAILED_AT => failed_at = value.parse().ok(),
                FAILURE => failure = Some(value),
                _ => {}
            }
        }
        if let Some(at) = failed_at
            && let Some(why) = failure
        {
            status.failed = Some((at, why));
        }
        Ok(status)
    }
}
