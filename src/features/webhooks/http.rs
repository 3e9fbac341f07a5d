//! The routes about webhooks: list them and how they stand, list the last deliveries of one, send it a
//! test, have it sent again what happened. The settings make webhooks, and no route does: secrets stay
//! in files.

use crate::auth::permissions::Action;
use crate::edge::http::routes::Routes;
use crate::features::webhooks::endpoints::Endpoints;
use std::sync::Arc;
use utoipa_axum::routes;

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::base::clock::UnixMillis;
use crate::base::webhook_name::WebhookName;
use crate::edge::http::bounded::Whole;
use crate::edge::http::paging::{Listing, Page, Paging, ask_for, paging_query};
use crate::edge::http::problem::{Problem, ProblemKind, refusals};
use crate::edge::http::requests::{InPath, JsonObject, run_to_completion};
use crate::edge::http::state::AppState;
use crate::features::webhooks::replay::replay;
use crate::features::webhooks::store::WebhookStore;
use crate::features::webhooks::store::{Delivery, WebhookStatus};
use crate::features::webhooks::{endpoints::Endpoint, test_event::send_test};
use crate::store::EntryId;

/// A webhook of the settings.
#[derive(Serialize, ToSchema)]
#[schema(as = Webhook)]
pub(crate) struct WebhookEntry {
    /// Its name in the settings; `default` is the one of `webhook-url`.
    #[schema(example = "crm")]
    name: WebhookName,
    /// Where its URL leads: scheme, host and port. The path and the query may be secret.
    #[schema(example = "https://example.org")]
    origin: String,
    /// The types of the events that it is sent.
    #[schema(example = json!(["live.opened", "live.closed"]))]
    events: Vec<&'static str>,
    /// How many secrets sign each event: more than one during a change of the secret.
    #[schema(example = 1)]
    secrets: usize,
    /// Events that neither arrived nor were given up, counted with those of types that it is not sent.
    #[schema(example = 0)]
    waiting: u64,
    /// Events that were given up.
    #[schema(example = 0)]
    given_up: u64,
    /// When the last event that arrived was sent, in Unix milliseconds; null if none is known.
    #[schema(example = 1_732_000_000_000_u64)]
    last_delivered_at: Option<u64>,
    /// When the last event that did not arrive was sent, in Unix milliseconds; null if none is known.
    #[schema(example = 1_732_000_000_000_u64)]
    last_failed_at: Option<u64>,
    /// Why it did not arrive, for people.
    #[schema(example = "it answered 500")]
    last_failure: Option<String>,
}

impl WebhookEntry {
    fn of(endpoint: &Endpoint, status: WebhookStatus) -> Self {
        let mut last_failed_at = None;
        let mut last_failure = None;
        if let Some((at, why)) = status.failed {
            last_failed_at = Some(at);
            last_failure = Some(why);
        }
        Self {
            name: endpoint.name.clone(),
            origin: endpoint.origin.clone(),
            events: endpoint.kinds.iter().map(|kind| kind.as_str()).collect(),
            secrets: endpoint.secrets(),
            waiting: status.waiting,
            given_up: status.dead,
            last_delivered_at: status.delivered_at,
            last_failed_at,
            last_failure,
        }
    }
}

/// An attempt to send an event.
#[derive(Serialize, ToSchema)]
pub(crate) struct WebhookDelivery {
    /// The id of the event.
    #[schema(example = "42:1732000000:live.opened:1732000000000")]
    event_id: String,
    /// The type of the event.
    #[schema(example = "live.opened")]
    event_type: String,
    /// When the attempt began, in Unix milliseconds.
    #[schema(example = 1_732_000_000_000_u64)]
    sent_at: u64,
    /// Which attempt with this event it was: 1 is the first. Another gateway begins to count anew.
    #[schema(example = 1)]
    attempt: u32,
    /// How long it took, in milliseconds.
    #[schema(example = 12)]
    latency_ms: u64,
    /// Whether the event arrived.
    delivered: bool,
    /// The status of the answer; null without one.
    #[schema(example = 204)]
    status: Option<u16>,
    /// Why the event did not arrive, for people; null if it did.
    failure: Option<String>,
}

impl From<Delivery> for WebhookDelivery {
    fn from(delivery: Delivery) -> Self {
        Self {
            event_id: delivery.event_id,
            event_type: delivery.event_type,
            sent_at: delivery.at,
            attempt: delivery.attempt,
            latency_ms: delivery.latency_ms,
            delivered: delivery.failure.is_none(),
            status: delivery.status,
            failure: delivery.failure,
        }
    }
}

/// Which events are sent again.
#[derive(Deserialize, ToSchema)]
#[schema(example = json!({"from": 1_732_000_000_000_u64, "to": 1_732_003_600_000_u64}))]
pub(crate) struct ReplayEvents {
    /// From this time on, in Unix milliseconds.
    #[schema(inline)]
    from: Whole,
    /// Until this time; until now, if this is null or left out.
    #[schema(inline)]
    to: Option<Whole>,
}

/// What is sent again.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReplayedEvents {
    /// How many events are sent again.
    #[schema(example = 27)]
    replayed: u64,
    /// The `from` of a further call, if there was too much for one; null if nothing is left.
    #[schema(example = json!(null))]
    next_from: Option<u64>,
}

/// The webhook of this name.
fn find(state: &AppState, name: &WebhookName) -> Result<Arc<Endpoint>, Problem> {
    match state.of::<Arc<Endpoints>>().find(name) {
        Some(endpoint) => Ok(endpoint.clone()),
        None => Err(Problem::new(
            ProblemKind::WebhookNotFound,
            "the settings have no webhook of this name",
        )),
    }
}

refusals!(ListRefused = StoreUnavailable);

/// The webhooks of the settings, in their order, and how they stand
///
/// All of them are on one page.
#[utoipa::path(get, path = "/v1/webhooks", operation_id = "list_webhooks", tag = "webhooks",
    responses((status = 200, description = "All of them", body = Page<WebhookEntry>), ListRefused))]
pub(crate) async fn list(
    State(state): State<Arc<AppState>>,
) -> Result<Json<Page<WebhookEntry>>, Problem> {
    let mut items = Vec::new();
    for endpoint in state.of::<Arc<Endpoints>>().iter() {
        let status = state
            .of::<Arc<dyn WebhookStore>>()
            .webhook_status(&endpoint.name)
            .await?;
        items.push(WebhookEntry::of(endpoint, status));
    }
    Ok(Json(Page {
        items,
        cursor: None,
    }))
}

paging_query!(DeliveriesQuery = Deliveries);

/// The last attempts to send events to a webhook, newest first
///
/// The newest 1,000 are kept, until 30 days after the last. Attempts whose gateway died before it
/// noted them are missing.
#[utoipa::path(get, path = "/v1/webhooks/{webhook}/deliveries", operation_id = "list_webhook_deliveries",
    tag = "webhooks",
    params(("webhook" = WebhookName, Path, description = "Its name in the settings", example = "crm"), DeliveriesQuery),
    responses((status = 200, description = "A page", body = Page<WebhookDelivery>), Refused))]
pub(crate) async fn deliveries(
    State(state): State<Arc<AppState>>,
    InPath(name): InPath<WebhookName>,
    paging: Paging,
) -> Result<Json<Page<WebhookDelivery>>, Problem> {
    let before = paging.position(resume)?;
    let endpoint = find(&state, &name)?;
    let read = state
        .of::<Arc<dyn WebhookStore>>()
        .deliveries(&endpoint.name, before, ask_for(paging.limit))
        .await?;
    let page = Page::cut(read, paging.limit, |(entry, _)| {
        Listing::Deliveries.cursor(&[&entry.0, &entry.1])
    });
    Ok(Json(page.map(|(_, delivery)| delivery.into())))
}

fn resume(cursor: &str) -> Result<EntryId, Problem> {
    Listing::Deliveries.resume(cursor, |[at, number]| {
        Some(EntryId(at.parse().ok()?, number.parse().ok()?))
    })
}

refusals!(TestRefused = InvalidId, BadMessage, WebhookNotFound);

/// Send a test event to a webhook
///
/// This gateway sends an event of the type `webhook.test`, signed as all are, and waits for the answer
/// of the receiver. It tries once. No other consumer sees the event.
#[utoipa::path(post, path = "/v1/webhooks/{webhook}/test", operation_id = "test_webhook", tag = "webhooks",
    params(("webhook" = WebhookName, Path, description = "Its name in the settings", example = "crm")),
    responses((status = 200, description = "How it went", body = WebhookDelivery), TestRefused))]
pub(crate) async fn test(
    State(state): State<Arc<AppState>>,
    InPath(name): InPath<WebhookName>,
) -> Result<Json<WebhookDelivery>, Problem> {
    let endpoint = find(&state, &name)?;
    let delivery = run_to_completion(async move {
        let delivery = send_test(&endpoint, state.core.clock).await;
        let noted = state
            .of::<Arc<dyn WebhookStore>>()
            .note_deliveries(&endpoint.name, std::slice::from_ref(&delivery))
            .await;
        if let Err(why) = noted {
            tracing::debug!(error = %why, "a test of a webhook was not noted");
        }
        delivery
    })
    .await;
    Ok(Json(delivery.into()))
}

refusals!(Refused = InvalidId, WebhookNotFound, StoreUnavailable);

/// Send a webhook again what happened in a span of time
///
/// Events have their old ids, and come in their order, beside new events. One call looks at up to 10,000
/// events. Only what the stream of events still has can be sent again.
#[utoipa::path(post, path = "/v1/webhooks/{webhook}/replay", operation_id = "replay_webhook", tag = "webhooks",
    params(("webhook" = WebhookName, Path, description = "Its name in the settings", example = "crm")),
    request_body(content = ReplayEvents, content_type = "application/json"),
    responses((status = 200, description = "They are being sent", body = ReplayedEvents), Refused))]
pub(crate) async fn replay_span(
    State(state): State<Arc<AppState>>,
    InPath(name): InPath<WebhookName>,
    JsonObject(span): JsonObject<ReplayEvents>,
) -> Result<Json<ReplayedEvents>, Problem> {
    let endpoint = find(&state, &name)?;
    let until = span.to.map_or(UnixMillis::MAX, |to| to.0);
    let carry_out = async move {
        let store = state.of::<Arc<dyn WebhookStore>>().as_ref();
        replay(
            store,
            &endpoint,
            span.from.0,
            until,
            state.core.config.events_kept,
        )
        .await
    };
    let replayed = run_to_completion(carry_out).await?;
    Ok(Json(ReplayedEvents {
        replayed: replayed.events,
        next_from: replayed.next_from,
    }))
}

/// Adds the routes of this feature.
pub(crate) fn routes(routes: Routes) -> Routes {
    routes
        .only_for(Action::ReadWebhooks, routes!(list))
        .only_for(Action::ReadWebhooks, routes!(deliveries))
        .only_for(Action::SendToWebhook, routes!(test))
        .only_for(Action::SendToWebhook, routes!(replay_span))
}
