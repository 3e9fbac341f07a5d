//! Checks what Redis knows of users beside their presence: changes that a gateway left half done
//! and, with `--users`, every follow. The inspector keeps only the names of its findings in memory.

use std::time::Duration;

use async_trait::async_trait;

use crate::cli::common::seconds;
use crate::features::audit::finding::{AuditFinding, FindingKind, contains_kind, such_as};
use crate::features::audit::offered::Inspect;
use crate::features::audit::scan::{each_key, or_unreadable};
use crate::store::StoreResult;
use crate::store::redis::RedisStore;

pub(crate) struct UserInspector<'a> {
    pub(crate) store: &'a RedisStore,
    /// A change that nobody has finished for longer than this is a finding.
    pub(crate) overdue: Duration,
    pub(crate) every_user: bool,
}

impl UserInspector<'_> {
    async fn left_changes(&self) -> StoreResult<Vec<AuditFinding>> {
        let mut findings = Vec::new();
        for left in self.store.left_changes(self.overdue).await? {
            let detail = format!(
                "{} began {} ago, and nobody finishes it",
                left.change,
                seconds(left.age)
            );
            findings.push(AuditFinding::new(FindingKind::UnfinishedChange, detail).key(left.key));
        }
        Ok(findings)
    }

    async fn follows_at(&self, key: &str) -> StoreResult<Option<AuditFinding>> {
        let halves = self.store.half_follows(key).await?;
        let Some(first) = halves.first() else {
            return Ok(None);
        };
        let detail = format!(
            "{} follows that only {key} has, {}",
            halves.len(),
            such_as(&halves)
        );
        let finding = AuditFinding::new(FindingKind::HalfFollow, detail)
            .key(key)
            .members(halves.len() as u64);
        Ok(Some(finding.user(first.at_one_end())))
    }
}

#[async_trait(?Send)]
impl Inspect for UserInspector<'_> {
    async fn inspect(&mut self) -> StoreResult<Vec<AuditFinding>> {
        let mut findings = self.left_changes().await?;
        if self.every_user {
            let edges = self.store.keys().edge_keys();
            findings.extend(
                each_key(self.store, &edges, async |key| self.follows_at(key).await).await?,
            );
        }
        Ok(findings)
    }

    async fn inspect_again(&mut self, before: &[AuditFinding]) -> StoreResult<Vec<AuditFinding>> {
        let mut found = Vec::new();
        for finding in before {
            if let FindingKind::HalfFollow | FindingKind::UnreadableKey = finding.kind
                && let Some(key) = &finding.key
            {
                found.extend(or_unreadable(key, self.follows_at(key).await)?);
            }
        }
        if contains_kind(before, FindingKind::UnfinishedChange) {
            found.extend(self.left_changes().await?);
        }
        Ok(found)
    }

    async fn fix(&self, finding: &AuditFinding) -> StoreResult<Option<String>> {
        let (FindingKind::HalfFollow, Some(key)) = (finding.kind, &finding.key) else {
            return Ok(None);
        };
        let halves = self.store.half_follows(key).await?;
        for half in &halves {
            self.store.restore_follow(half).await?;
        }
        if halves.is_empty() {
            return Ok(None);
        }
        Ok(Some(format!(
            "{} follows added at the other end",
            halves.len()
        )))
    }
}
