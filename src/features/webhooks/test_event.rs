//! Sends a made-up event to a webhook, for somebody who sets its receiver up. It goes from the gateway
//! that was asked straight to the receiver, once, and into no stream.

use serde_json::json;

use crate::base::clock::Clock;
use crate::features::webhooks::deliveries::deliver;
use crate::features::webhooks::endpoints::Endpoint;
use crate::features::webhooks::store::Delivery;

/// The type of the event. No other event has it, and no setting names it.
const TYPE: &str = "webhook.test";

/// Sends the event; how it went.
pub(crate) async fn send_test(endpoint: &Endpoint, clock: Clock) -> Delivery {
    let at = clock.unix();
    let number: u64 = rand::random();
    let id = format!("{TYPE}:{number:016x}");
    let body = json!({
        "id": id,
        "type": TYPE,
        "at": at,
        "webhook": endpoint.name,
    });
    let (delivery, _) = deliver(endpoint, clock, &id, TYPE, &body.to_string()).await;
    delivery
}
