//! The repairs of `--fix`, for findings that gateways do not repair by themselves, or not for sure.
//! Each step checks the state again at the moment in which it acts. A fix adds no member to a
//! slice, so nothing of a closed epoch comes back.

use std::time::Duration;

use futures_util::TryStreamExt;
use serde::Serialize;

use super::attendance::{self, AttendanceInspector};
use super::finding::{AuditFinding, FindingKind, Subject};
use super::platform::PlatformInspector;
use super::scan::FoundKeys;
use super::users::UserInspector;
use crate::base::ids::{Epoch, GatewayId, LiveId, SliceId};
use crate::cli::leases::LeaseSnapshot;
use crate::store::redis::RedisStore;
use crate::store::redis::inspect_attendance::StraySessions;
use crate::store::{
    Arrived, CountLive, Counts, Fence, Figures, LiveRecord, LiveState, LiveStore, NO_CAP, Peaks,
    Slices, StoreResult, Strays,
};
use crate::sync::lives::finish_in_store;

/// A finding that was repaired.
#[derive(Debug, Serialize)]
pub(super) struct Fixed {
    pub kind: FindingKind,
    #[serde(flatten)]
    pub subject: Subject,
    /// What the audit did, in a sentence.
    pub done: String,
}

pub(super) struct Fixer<'a> {
    pub store: &'a RedisStore,
    pub leases: &'a LeaseSnapshot,
    pub keys: &'a FoundKeys,
    pub closed_ttl: Duration,
}

impl Fixer<'_> {
    /// Repairs a finding. Returns `None` if an audit must not repair it, or if it is gone.
    pub(super) async fn fix(
        &self,
        finding: &AuditFinding,
        attendance: &AttendanceInspector<'_>,
        platform: &PlatformInspector<'_>,
    ) -> StoreResult<Option<Fixed>> {
        let Subject {
            live_id,
            slice,
            gateway_id,
            ..
        } = &finding.subject;
        let done = match (finding.kind, slice, gateway_id) {
            (
                FindingKind::UnsweptGateway | FindingKind::HeldWithoutEntry,
                Some(slice),
                Some(gateway),
            ) => self.sweep(slice, gateway).await?,
            (FindingKind::GhostMembers, Some(slice), _) => Some(self.drop_strays(slice).await?),
            (FindingKind::OrphanedSlice, Some(slice), _) => self.close_orphan(slice).await?,
            (FindingKind::GhostSessions, Some(slice), _) => self.end_ghost_sessions(slice).await?,
            (kind, ..) if attendance::KINDS.contains(&kind) => attendance.fix(finding).await?,
            _ => match live_id {
                Some(live) => self.fix_live(finding.kind, live).await?,
                None => match UserInspector::fix(self.store, finding).await? {
                    Some(done) => Some(done),
                    None => platform.fix(finding).await?,
                },
            },
        };
        Ok(done.map(|done| Fixed {
            kind: finding.kind,
            subject: finding.subject.clone(),
            done,
        }))
    }

    /// Repairs a finding about a live that is not about one of its slices.
    async fn fix_live(&self, kind: FindingKind, live: &LiveId) -> StoreResult<Option<String>> {
        match kind {
            FindingKind::OrphanedBans => {
                if !self.store.drop_left_overs(live).await? {
                    return Ok(None);
                }
                Ok(Some("bans and removals unlinked".to_owned()))
            }
            FindingKind::UnfinishedClose => self.finish_close(live).await,
            FindingKind::UnlistedLive => self.relist(live).await,
            FindingKind::WrongCounts => self.recount(live).await,
            _ => Ok(None),
        }
    }

    /// Removes everything that a buried gateway holds in a slice.
    async fn sweep(&self, slice: &SliceId, gateway: &GatewayId) -> StoreResult<Option<String>> {
        let Some(last_heard) = self.leases.last_heard(gateway) else {
            return Ok(None);
        };
        let calls = self
            .store
            .sweeps(slice, gateway, self.leases.page(), last_heard);
        let released = calls
            .try_fold(0, async |sum, swept| Ok(sum + swept.released))
            .await?;
        Ok(Some(format!("swept: {released} members released")))
    }

    async fn drop_strays(&self, slice: &SliceId) -> StoreResult<String> {
        let mut dropped = 0;
        for group in slice.set.groups() {
            let pages = self
                .store
                .stray_pages(slice, *group, self.leases.page(), Strays::Drop);
            dropped = pages
                .try_fold(dropped, async |sum, page| Ok(sum + page.strays))
                .await?;
        }
        Ok(format!("{dropped} members removed"))
    }

    /// Ends the sessions of users who are not in the slice of an open epoch.
    async fn end_ghost_sessions(&self, slice: &SliceId) -> StoreResult<Option<String>> {
        let Some(live) = slice.live() else {
            return Ok(None);
        };
        let Some(record) = self.record(live, LiveState::Open).await? else {
            return Ok(None);
        };
        let (ended, _) = self
            .store
            .stray_sessions(slice, record.epoch, StraySessions::EndGhosts)
            .await?;
        if ended == 0 {
            return Ok(None);
        }
        Ok(Some(format!("{ended} sessions ended")))
    }

    /// Closes a slice for the epoch that is over. The fence of a newer epoch refuses this.
    async fn close_orphan(&self, slice: &SliceId) -> StoreResult<Option<String>> {
        let Some(live) = slice.live() else {
            return Ok(None);
        };
        let record = self.store.load_live(live).await?;
        let inside = self.store.inspect_slice(slice).await?;
        let fenced = inside.fence.map_or(Epoch(0), Fence::epoch);
        let over = match &record {
            Some(LiveRecord {
                state: LiveState::Open,
                epoch,
                ..
            }) if fenced < *epoch => fenced,
            Some(LiveRecord {
                state: LiveState::Closed,
                epoch,
                ..
            }) => *epoch,
            // If a gateway with an entry may be alive, it restores the record.
            None if inside
                .entries
                .iter()
                .all(|(gateway, _)| self.leases.is_dead(gateway)) =>
            {
                fenced
            }
            _ => return Ok(None),
        };
        self.store.close_slice(slice, over).await?;
        // The close removes the held sets of gateways with an entry. The sweep removes the others.
        if let Some(keys) = self.keys.lives.get(live)
            && let Some(holders) = keys.slices.get(slice)
        {
            for gateway in holders {
                self.sweep(slice, gateway).await?;
            }
        }
        Ok(Some(format!(
            "closed for epoch {over}: {} members unlinked",
            inside.card
        )))
    }

    async fn finish_close(&self, live: &LiveId) -> StoreResult<Option<String>> {
        let Some(record) = self.record(live, LiveState::Closing).await? else {
            return Ok(None);
        };
        finish_in_store(self.store, &record, self.closed_ttl, NO_CAP).await?;
        Ok(Some(format!(
            "finished the close of epoch {}",
            record.epoch
        )))
    }

    /// Adds a live to `lives`, and removes it again if it closed meanwhile.
    async fn relist(&self, live: &LiveId) -> StoreResult<Option<String>> {
        let Some(record) = self.record(live, LiveState::Open).await? else {
            return Ok(None);
        };
        self.store.list_live(live, record.opened_at).await?;
        self.store.delist(live).await?;
        Ok(Some("added to lives".to_owned()))
    }

    /// Writes the counts of an open live as the gateways hold them now.
    async fn recount(&self, live: &LiveId) -> StoreResult<Option<String>> {
        let Some(record) = self.record(live, LiveState::Open).await? else {
            return Ok(None);
        };
        let mut figures = Figures::default();
        for slice in record.all_slices() {
            let inside = self.store.inspect_slice(&slice).await?;
            figures.viewers += inside.card;
            figures.fans += inside.fans;
        }
        let wish = CountLive {
            live: live.clone(),
            epoch: record.epoch,
            figures,
            peaks: Peaks::default(),
            arrived: Arrived::default(),
        };
        self.store.count_live(&wish).await?;
        self.store.rank_lives(&[(live.clone(), figures)]).await?;
        Ok(Some(format!(
            "counted: {} viewers and {} fans",
            figures.viewers, figures.fans
        )))
    }

    /// The record of a live, if the live is in this state.
    async fn record(&self, live: &LiveId, state: LiveState) -> StoreResult<Option<LiveRecord>> {
        let record = self.store.load_live(live).await?;
        Ok(record.filter(|record| record.state == state))
    }
}
