//! Inspects one live: its record, and whether its bans, its entry in `lives` and its slices agree
//! with the record.

use std::collections::HashSet;
use std::time::Duration;

use crate::base::ids::{LiveId, SliceId};
use crate::cli::common::seconds;
use crate::features::audit::finding::{AuditFinding, FindingKind};
use crate::features::audit::inspection::{Inspection, Inspector, LiveRow, slices_of};
use crate::features::audit::scan::LiveKeys;
use crate::features::audit::slice::Expected;
use crate::store::{Figures, LiveRecord, LiveState, LiveStore, StoreResult};

impl Inspector<'_> {
    pub(crate) async fn live(&self, live: &LiveId, found: &LiveKeys) -> StoreResult<Inspection> {
        let mut seen = Inspection::default();
        let record = self.store.load_live(live).await;
        let Some(record) = seen.readable(Some(live), &self.store.keys().live(live), record)? else {
            return Ok(seen);
        };
        let state = record.as_ref().map(|record| record.state);
        let listed = self.store.listed_at(live).await?.is_some();
        seen.findings.extend(self.check_listed(live, state, listed));
        if let Some(record) = &record
            && record.state == LiveState::Closing
        {
            let begun = record.closure.map_or(0, |closure| closure.at);
            let since =
                Duration::from_millis(self.store.node_time(live).await?.saturating_sub(begun));
            if since > self.overdue {
                let detail = format!(
                    "its close began {} ago, and nobody finishes it",
                    seconds(since)
                );
                seen.findings.push(
                    AuditFinding::new(FindingKind::UnfinishedClose, detail)
                        .live(live)
                        .key(self.store.keys().live(live)),
                );
            }
        }
        // If the record is lost, nothing is wrong with the bans: a gateway that restores the record
        // restores them too.
        if state == Some(LiveState::Closed)
            && found.removals
            && self.store.has_removals(live).await?
        {
            let detail = "bans or removals of a closed live";
            seen.findings.push(
                AuditFinding::new(FindingKind::OrphanedBans, detail)
                    .live(live)
                    .key(self.store.keys().bans(live)),
            );
        }
        self.check_slices(live, record.as_ref(), found, &mut seen)
            .await?;
        if let Some(record) = &record
            && !seen.is_uncertain
        {
            let now = Figures {
                viewers: seen.viewers,
                fans: seen.fans,
                guests: seen.guests,
            };
            let findings = self.check_counts(record, now).await?;
            seen.findings.extend(findings);
        }
        if let Some(record) = record
            && record.state != LiveState::Closed
        {
            seen.lives.push(LiveRow {
                live_id: live.clone(),
                state: record.state.as_str(),
                streamer_id: record.streamer,
                epoch: record.epoch,
                slices: record.slices,
                opened_at: record.opened_at,
                fans: seen.fans,
                viewers: seen.viewers,
                guests: seen.guests,
                gateways: seen
                    .gateways
                    .values()
                    .filter(|holding| holding.members > 0)
                    .count() as u64,
                listed,
            });
        }
        Ok(seen)
    }

    /// Inspects every slice that has keys, or should have.
    async fn check_slices(
        &self,
        live: &LiveId,
        record: Option<&LiveRecord>,
        found: &LiveKeys,
        seen: &mut Inspection,
    ) -> StoreResult<()> {
        let mut slices = found.slices.clone();
        if let Some(record) = record
            && record.state == LiveState::Open
        {
            slices.extend(slices_of(record));
        }
        for slice in slices {
            let inspection = self.slice(&slice, Expected::Live(record)).await;
            if let Some(inspection) =
                seen.readable(Some(live), &self.store.keys().slice(&slice), inspection)?
            {
                seen.add(inspection);
            }
        }
        Ok(())
    }

    /// Inspects the slices of the sets of the platform.
    pub(crate) async fn platform(&self, slices: &HashSet<SliceId>) -> StoreResult<Inspection> {
        let mut seen = Inspection::default();
        for slice in slices {
            let inspection = self.slice(slice, Expected::AlwaysOpen).await;
            if let Some(inspection) =
                seen.readable(None, &self.store.keys().slice(slice), inspection)?
            {
                seen.add(inspection);
            }
        }
        Ok(seen)
    }

    /// Checks whether `lives` lists the live if, and only if, it is open.
    fn check_listed(
        &self,
        live: &LiveId,
        state: Option<LiveState>,
        listed: bool,
    ) -> Option<AuditFinding> {
        let (kind, detail) = match state {
            None if listed => (
                FindingKind::ListedWithoutRecord,
                "lives lists it, but it has no record",
            ),
            Some(LiveState::Closed) if listed => (
                FindingKind::ListedClosed,
                "lives lists it, but it is closed",
            ),
            Some(LiveState::Open) if !listed => (
                FindingKind::UnlistedLive,
                "it is open, but lives does not list it: if its gateways die, nobody cleans up after them",
            ),
            _ => return None,
        };
        Some(
            AuditFinding::new(kind, detail)
                .live(live)
                .key(self.store.keys().lives()),
        )
    }
}
