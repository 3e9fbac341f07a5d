//! Checks, with `--users`, every timeline: whether a status is left in it that stands no longer, and that nobody is
//! about to take out.

use futures_util::{StreamExt, TryStreamExt, stream};

use super::finding::{AuditFinding, FindingKind};
use super::scan::AT_A_TIME;
use super::users::UserInspector;
use crate::store::redis::RedisStore;
use crate::store::{MAX_TIMELINE, StatusId, StatusState, StoreResult, Timelines, states_of};

impl UserInspector<'_> {
    pub(super) async fn every_timeline(&self) -> StoreResult<Vec<AuditFinding>> {
        let mut findings = Vec::new();
        let glob = self.store.keys().timeline_keys();
        self.store
            .each_page(&glob, async |keys| {
                let looks = stream::iter(keys).map(|key| async move { self.timeline_at(&key).await });
                let found: Vec<_> = looks.buffer_unordered(AT_A_TIME).try_collect().await?;
                findings.extend(found.into_iter().flatten());
                Ok(())
            })
            .await?;
        findings.sort_by(|a: &AuditFinding, b| a.key.cmp(&b.key));
        // SCAN may return a key twice.
        findings.dedup_by(|a, b| a.key == b.key);
        Ok(findings)
    }

    pub(super) async fn timeline_at(&self, key: &str) -> StoreResult<Option<AuditFinding>> {
        let stale = stale_statuses(self.store, key).await?;
        let Some(first) = stale.first() else { return Ok(None) };
        let detail = format!("{} statuses in {key} stand no longer, such as {first}", stale.len());
        Ok(Some(AuditFinding::new(FindingKind::StaleStatus, detail).key(key).members(stale.len() as u64)))
    }

    /// Takes stale statuses out of a timeline. Answers how many.
    pub(super) async fn drop_stale(store: &RedisStore, key: &str) -> StoreResult<usize> {
        let stale = stale_statuses(store, key).await?;
        if let Some(timeline) = store.keys().read_timeline(key) {
            store.remove_entries(&timeline, &stale).await?;
        }
        Ok(stale.len())
    }
}

async fn stale_statuses(store: &RedisStore, key: &str) -> StoreResult<Vec<StatusId>> {
    let Some(timeline) = store.keys().read_timeline(key) else { return Ok(Vec::new()) };
    let read = store.read_timelines(&[(timeline, None)], MAX_TIMELINE).await.pop().unwrap_or_else(|| Ok(Vec::new()))?;
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
