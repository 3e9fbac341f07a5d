//! What an audit inspects of feeds: every timeline, with `--users`. A finding is a status that stands
//! no longer, if no gateway is about to take it out.

use async_trait::async_trait;

use crate::features::audit::finding::{AuditFinding, FindingKind};
use crate::features::audit::offered::Inspect;
use crate::features::audit::scan::{each_key, or_unreadable};
use crate::features::feeds::store::feeds::{StatusState, states_of};
use crate::features::feeds::store::statuses::StatusId;
use crate::features::feeds::store::timelines::{MAX_TIMELINE, Timelines};
use crate::store::StoreResult;
use crate::store::redis::RedisStore;

pub(crate) struct TimelineInspector<'a> {
    store: &'a RedisStore,
    every_user: bool,
}

impl<'a> TimelineInspector<'a> {
    pub(crate) fn new(store: &'a RedisStore, every_user: bool) -> Self {
        Self { store, every_user }
    }

    async fn timeline_at(&self, key: &str) -> StoreResult<Option<AuditFinding>> {
        let stale = stale_statuses(self.store, key).await?;
        let Some(first) = stale.first() else {
            return Ok(None);
        };
        let detail = format!(
            "{} statuses in {key} stand no longer, such as {first}",
            stale.len()
        );
        Ok(Some(
            AuditFinding::new(FindingKind::StaleStatus, detail)
                .key(key)
                .members(stale.len() as u64),
        ))
    }
}

#[async_trait(?Send)]
impl Inspect for TimelineInspector<'_> {
    async fn inspect(&mut self) -> StoreResult<Vec<AuditFinding>> {
        if !self.every_user {
            return Ok(Vec::new());
        }
        let timelines = self.store.keys().timeline_keys();
        each_key(self.store, &timelines, async |key| {
            self.timeline_at(key).await
        })
        .await
    }

    async fn inspect_again(&mut self, before: &[AuditFinding]) -> StoreResult<Vec<AuditFinding>> {
        let mut found = Vec::new();
        for finding in before {
            if let FindingKind::StaleStatus | FindingKind::UnreadableKey = finding.kind
                && let Some(key) = &finding.key
            {
                found.extend(or_unreadable(key, self.timeline_at(key).await)?);
            }
        }
        Ok(found)
    }

    /// Takes stale statuses out of a timeline.
    async fn fix(&self, finding: &AuditFinding) -> StoreResult<Option<String>> {
        let (FindingKind::StaleStatus, Some(key)) = (finding.kind, &finding.key) else {
            return Ok(None);
        };
        let stale = stale_statuses(self.store, key).await?;
        let Some(timeline) = self.store.keys().read_timeline(key) else {
            return Ok(None);
        };
        if stale.is_empty() {
            return Ok(None);
        }
        self.store.remove_entries(&timeline, &stale).await?;
        Ok(Some(format!("{} statuses taken out", stale.len())))
    }
}

async fn stale_statuses(store: &RedisStore, key: &str) -> StoreResult<Vec<StatusId>> {
    let Some(timeline) = store.keys().read_timeline(key) else {
        return Ok(Vec::new());
    };
    let mut answers = store
        .read_timelines(&[(timeline, None)], MAX_TIMELINE)
        .await;
    let read = match answers.pop() {
        Some(answer) => answer?,
        None => Vec::new(),
    };
    let statuses: Vec<StatusId> = read.into_iter().map(|entry| entry.id).collect();
    let states = states_of(store, &statuses).await;
    let mut stale = Vec::new();
    for (status, state) in statuses.into_iter().zip(states) {
        if !matches!(state?, StatusState::Stands(_)) && !store.is_being_told(&status).await? {
            stale.push(status);
        }
    }
    Ok(stale)
}
