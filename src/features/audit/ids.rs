//! Finds the ids `.` and `..`. Rollcall accepted them once. No URL can carry them, so no client can
//! name such a user or live over HTTP.

use std::collections::HashSet;

use async_trait::async_trait;
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::base::ids::{Group, SliceId};
use crate::features::audit::finding::{AuditFinding, FindingKind};
use crate::features::audit::offered::Inspect;
use crate::features::audit::scan::{FoundKeys, MAX_CONCURRENT_READS};
use crate::store::redis::RedisStore;
use crate::store::{StoreError, StoreResult};

pub(crate) struct IdInspector<'a> {
    pub(crate) store: &'a RedisStore,
    pub(crate) keys: &'a FoundKeys,
}

#[async_trait(?Send)]
impl Inspect for IdInspector<'_> {
    async fn inspect(&mut self) -> StoreResult<Vec<AuditFinding>> {
        inspect(self.store, self.keys.slices()).await
    }

    async fn inspect_again(&mut self, before: &[AuditFinding]) -> StoreResult<Vec<AuditFinding>> {
        let before: Vec<&AuditFinding> = before
            .iter()
            .filter(|finding| finding.kind == FindingKind::UnusableId)
            .collect();
        if before.is_empty() {
            return Ok(Vec::new());
        }
        let slices: HashSet<&SliceId> = before
            .iter()
            .filter_map(|finding| finding.subject.slice.as_ref())
            .collect();
        inspect(self.store, slices).await
    }
}

/// Looks for such ids in the names of keys, in what lists lives and logins, and in these slices.
async fn inspect<'a>(
    store: &RedisStore,
    slices: impl IntoIterator<Item = &'a SliceId>,
) -> StoreResult<Vec<AuditFinding>> {
    let mut findings = Vec::new();
    for (key, id) in store.keys_of_dots().await? {
        let detail = format!("{id:?} is no id, because no URL can carry it; delete it by hand");
        findings.push(AuditFinding::new(FindingKind::UnusableId, detail).key(key));
    }
    let mut groups = Vec::new();
    for slice in slices {
        for group in slice.set.groups() {
            groups.push((slice, *group));
        }
    }
    let seen: Vec<Option<AuditFinding>> = stream::iter(groups)
        .map(|(slice, group)| look(store, slice, group))
        .buffer_unordered(MAX_CONCURRENT_READS)
        .try_collect()
        .await?;
    findings.extend(seen.into_iter().flatten());
    Ok(findings)
}

async fn look(
    store: &RedisStore,
    slice: &SliceId,
    group: Group,
) -> StoreResult<Option<AuditFinding>> {
    let members = match store.dots_in_slice(slice, group).await {
        // The inspection of the slices reports the unreadable key.
        Err(StoreError::Nonsense(_)) => return Ok(None),
        members => members?,
    };
    if members.is_empty() {
        return Ok(None);
    }
    let detail = format!(
        "has members that are no ids, because no URL can carry them: {}",
        members.join(", ")
    );
    let finding = AuditFinding::new(FindingKind::UnusableId, detail).slice(slice, store.keys());
    Ok(Some(
        finding
            .key(store.keys().members(slice, group))
            .members(members.len() as u64),
    ))
}
