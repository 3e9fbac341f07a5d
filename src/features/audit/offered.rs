//! What an audit inspects beside lives and gateways. Each inspection is one of the audit's own, or
//! one that a feature offers for what it keeps. The audit knows no feature.

use async_trait::async_trait;

use crate::base::ids::SliceId;
use crate::features::audit::finding::AuditFinding;
use crate::store::{LiveRecord, StoreResult};
use crate::sync::features::Features;

/// An inspection of one subject.
#[async_trait(?Send)]
pub(crate) trait Inspect {
    async fn inspect(&mut self) -> StoreResult<Vec<AuditFinding>>;

    /// Inspects again what `before` is about, which other inspections may have found. It may find
    /// more; the audit leaves that out.
    async fn inspect_again(&mut self, before: &[AuditFinding]) -> StoreResult<Vec<AuditFinding>>;

    /// Inspects a slice of an open live. The slice is open in the epoch of the record.
    async fn slice(&self, _: &SliceId, _: &LiveRecord) -> StoreResult<Vec<AuditFinding>> {
        Ok(Vec::new())
    }

    /// Repairs a finding; says in a sentence what it did. `None` if the finding is another
    /// inspection's, if an audit must not repair it, or if it is gone.
    async fn fix(&self, _: &AuditFinding) -> StoreResult<Option<String>> {
        Ok(None)
    }
}

/// What the features offer to an audit.
pub(crate) struct Offered<'a> {
    /// They have a part in a close, which an audit may finish.
    pub(crate) features: Features,
    pub(crate) inspections: Vec<Box<dyn Inspect + 'a>>,
}
