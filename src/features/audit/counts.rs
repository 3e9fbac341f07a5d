//! Inspects the counts of a live that other services read: those in its record, and its ranks. A
//! gateway writes them some seconds after a change, so the audit does not compare counts that were
//! written a moment ago.

use std::time::Duration;

use crate::base::clock::millis;
use crate::features::audit::finding::{AuditFinding, FindingKind};
use crate::features::audit::inspection::Inspector;
use crate::store::{
    COUNT_EVERY, Counted, Counts, Figures, LiveRecord, LiveState, Rank, StoreResult,
};

/// How long a gateway may take to write counts that are due.
const GRACE: Duration = Duration::from_secs(2);

impl Inspector<'_> {
    /// Compares the counts in a record, and the ranks, with `now`, the counts that gateways hold.
    pub(crate) async fn check_counts(
        &self,
        record: &LiveRecord,
        now: Figures,
    ) -> StoreResult<Vec<AuditFinding>> {
        if record.state != LiveState::Open {
            return Ok(Vec::new());
        }
        let Some(Counted { figures, at }) = record.counted else {
            return Ok(Vec::new());
        };
        let live = &record.live;
        let mut findings = Vec::new();
        if self.store.node_time(live).await? < at + millis(COUNT_EVERY + GRACE) {
            return Ok(findings);
        }
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
        if ranked != figures.ranked() {
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

fn show(figures: Figures) -> String {
    let Figures {
        viewers,
        fans,
        guests,
    } = figures;
    if guests == 0 {
        format!("{viewers} viewers and {fans} fans")
    } else {
        format!("{viewers} viewers, {guests} of them guests, and {fans} fans")
    }
}
