//! Inspects the counts of a live that are there for other services: in its record, and its ranks. A
//! gateway writes them some seconds after a change, so counts that were written a moment ago are
//! not compared.

use std::time::Duration;

use super::finding::{AuditFinding, FindingKind};
use super::inspection::Inspector;
use crate::base::clock::millis;
use crate::store::{
    COUNT_EVERY, Counted, Counts, Figures, LiveRecord, LiveState, Rank, StoreResult,
};

/// How long a gateway may take to write what is due.
const GRACE: Duration = Duration::from_secs(2);

impl Inspector<'_> {
    /// `now` are the counts that the gateways hold.
    pub(super) async fn check_counts(
        &self,
        record: &LiveRecord,
        now: Figures,
    ) -> StoreResult<Vec<AuditFinding>> {
        let (Some(Counted { figures, at }), LiveState::Open) = (record.counted, record.state)
        else {
            return Ok(Vec::new());
        };
        let live = &record.live;
        let mut findings = Vec::new();
        if self.store.node_time(live).await? < at + millis(COUNT_EVERY + GRACE) {
            return Ok(findings);
        }
        let show =
            |figures: Figures| format!("{} viewers and {} fans", figures.viewers, figures.fans);
        if figures != now {
            let detail = format!(
                "its record says {}, but gateways have {}",
                show(figures),
                show(now)
            );
            findings.push(
                AuditFinding::new(FindingKind::WrongCounts, detail)
                    .live(live)
                    .key(self.store.keys().live(live)),
            );
        }
        let ranked = self
            .store
            .ranked_figures(std::slice::from_ref(live))
            .await?
            .pop()
            .flatten()
            .unwrap_or_default();
        if ranked != figures {
            let detail = format!(
                "it is ranked by {}, but its record says {}",
                show(ranked),
                show(figures)
            );
            findings.push(
                AuditFinding::new(FindingKind::WrongRank, detail)
                    .live(live)
                    .key(self.store.keys().top(Rank::Viewers)),
            );
        }
        Ok(findings)
    }
}
