//! Checks every timeline, with `--users`. A finding is a status that stands no longer, if no gateway
//! is about to take it out.

use crate::features::audit::finding::{AuditFinding, FindingKind};
use crate::features::audit::users::UserInspector;
use crate::features::feeds::store::feeds::{StatusState, states_of};
use crate::features::feeds::store::statuses::StatusId;
use crate::features::feeds::store::timelines::{MAX_TIMELINE, Timelines};
use crate::store::StoreResult;
use crate::store::redis::RedisStore;

impl UserInspector<'_> {
    pub(crate) async fn timeline_at(&self, key: &str) -> StoreResult<Option<AuditFinding>> {
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

    /// Takes stale statuses out of a timeline. Returns how many.
    pub(crate) async fn drop_stale(store: &RedisStore, key: &str) -> StoreResult<usize> {
        let stale = stale_statuses(store, key).await?;
        if let Some(timeline) = store.keys().read_timeline(key) {
            store.remove_entries(&timeline, &stale).await?;
        }
        Ok(stale.len())
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
