//! Makes rules and lifts them, tells the gateways and the stream of events, and waits until this
//! gateway has carried the change out.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, json};

use super::store::{EndReply, LiftRule, ModerationStore, PutReply, PutRule};
use crate::base::actor::Actor;
use crate::base::event_kind::EventKind;
use crate::base::metrics::Metrics;
use crate::peers::core::Core;
use crate::presence::rules::{RuleName, RuleTerms};
use crate::store::{About, StoreResult};
use crate::sync::events::api_events::ApiEvents;

/// How long a change waits until this gateway has carried it out. The change is made by then.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

pub(crate) struct RuleChanges {
    pub(crate) core: Arc<Core>,
    pub(crate) store: Arc<dyn ModerationStore>,
    pub(crate) events: Arc<ApiEvents>,
}

impl RuleChanges {
    pub(crate) async fn put(&self, wish: &PutRule) -> StoreResult<PutReply> {
        let reply = self.store.put_rule(wish).await?;
        if let PutReply::Done { terms, .. } = &reply {
            self.tell(
                EventKind::RuleMade,
                &wish.name,
                Some(terms),
                wish.by.as_ref(),
            );
            self.carry_out().await;
        }
        Ok(reply)
    }

    pub(crate) async fn lift(&self, wish: &LiftRule, by: Option<&Actor>) -> StoreResult<EndReply> {
        let reply = self.store.lift_rule(wish).await?;
        if reply == EndReply::Done(true) {
            self.tell(EventKind::RuleLifted, &wish.name, None, by);
            self.carry_out().await;
        }
        Ok(reply)
    }

    async fn carry_out(&self) {
        self.core.to_peers.rules_changed();
        let now = self.core.clock.now();
        // The look that is under way may have begun before the change.
        self.core.rules.look_after(now, 2, LONGEST_WAIT).await;
    }

    fn tell(
        &self,
        event: EventKind,
        name: &RuleName,
        terms: Option<&RuleTerms>,
        by: Option<&Actor>,
    ) {
        let label = match event {
            EventKind::RuleLifted => "rule_lifted",
            _ => name.kind(),
        };
        Metrics::count(&self.core.metrics.removals, label);
        tracing::info!(
            rule = name.kind(), user_id = %name.user(), what = event.as_str(),
            "a rule of moderation changed"
        );
        let mut fields = Map::new();
        fields.insert("rule".to_owned(), json!(name.kind()));
        fields.insert("user_id".to_owned(), json!(name.user()));
        fields.insert("streamer_id".to_owned(), json!(name.streamer()));
        if let Some(terms) = terms {
            fields.insert("ends_at".to_owned(), json!(terms.until));
            fields.insert("reason".to_owned(), json!(terms.reason));
        }
        fields.insert("by".to_owned(), json!(by));
        let about = About::User(name.user().clone());
        self.events.add(event, about, fields);
    }
}
