//! The repairs of `--fix`, for findings that gateways do not repair by themselves, or not for sure,
//! and for members of slices, which an audit repairs as gateways would.
//! Each step checks the state again at the moment in which it acts, and changes nothing in a slice
//! of another epoch, so nothing of a closed epoch comes back.

use crate::sync::features::Features;
use std::time::Duration;

use serde::Serialize;

use crate::base::clock::unix_now;
use crate::base::ids::{Epoch, LiveId, PLATFORM_EPOCH, SliceId};
use crate::cli::leases::LeaseSnapshot;
use crate::features::audit::finding::{AuditFinding, FindingKind, Subject};
use crate::features::audit::offered::Inspect;
use crate::store::redis::RedisStore;
use crate::store::{
    Arrived, CountLive, Counts, Fence, Figures, LiveRecord, LiveState, LiveStore, NO_CAP, Pass,
    Peaks, SliceEntry, SliceSize, Slices, StoreResult,
};
use crate::sync::lives::finish_in_store;
use crate::sync::pass::tell_of_rebuild;

/// A finding that was repaired.
#[derive(Debug, Serialize)]
pub(crate) struct Fixed {
    pub kind: FindingKind,
    #[serde(flatten)]
    pub subject: Subject,
    /// What the audit did, in a sentence.
    pub done: String,
}

pub(crate) struct Fixer<'a> {
    pub store: &'a RedisStore,
    pub leases: &'a LeaseSnapshot,
    /// They have a part in a close.
    pub features: &'a Features,
    pub closed_ttl: Duration,
    /// They repair what they found.
    pub inspections: &'a [Box<dyn Inspect + 'a>],
}

impl Fixer<'_> {
    /// Repairs a finding. Returns `None` if an audit must not repair it, or if it is gone.
    pub(crate) async fn fix(&self, finding: &AuditFinding) -> StoreResult<Option<Fixed>> {
        let Subject { live_id, slice, .. } = &finding.subject;
        let mut done = match (finding.kind, slice, live_id) {
            (
                FindingKind::UnsweptGateway
                | FindingKind::GhostMembers
                | FindingKind::MissingMembers
                | FindingKind::MiscountedSlice,
                Some(slice),
                _,
            ) => self.pass(slice).await?,
            (FindingKind::OrphanedSlice, Some(slice), _) => self.close_orphan(slice).await?,
            (kind, _, Some(live)) => self.fix_live(kind, live).await?,
            _ => None,
        };
        for inspection in self.inspections {
            if done.is_none() {
                done = inspection.fix(finding).await?;
            }
        }
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

    /// Passes through a slice, as gateways do: takes out the claims of buried gateways, and brings
    /// the sets in line with the claims.
    async fn pass(&self, slice: &SliceId) -> StoreResult<Option<String>> {
        let epoch = match slice.live() {
            Some(live) => match self.record(live, LiveState::Open).await? {
                Some(record) => record.epoch,
                None => return Ok(None),
            },
            None => PLATFORM_EPOCH,
        };
        let mut dead = Vec::new();
        for (gateway, entry) in self.store.inspect_slice(slice).await?.entries {
            match self.leases.last_heard(&gateway) {
                Some(last_heard) => dead.push((gateway, last_heard)),
                // Its burial is forgotten.
                None if entry == SliceEntry::Dead => dead.push((gateway, unix_now())),
                None => {}
            }
        }
        let mut pass = Pass {
            slice: slice.clone(),
            epoch,
            known: SliceSize::default(),
            wrong: None,
            dead,
            from: None,
            only_claims: false,
        };
        let (mut released, mut taken_out, mut put_in) = (0, 0, 0);
        while let Some(passed) = self.store.pass(&pass).await? {
            released += passed.released;
            taken_out += passed.drift.stray;
            put_in += passed.drift.missing;
            pass.from = passed.next;
            if passed.next.is_some() {
                continue;
            }
            let mut done = format!(
                "{released} members of buried gateways released, {taken_out} removed from the sets, {put_in} put in"
            );
            if passed.size.rebuild {
                tell_of_rebuild(self.store, slice).await?;
                done += "; the gateways say again whom they hold";
            }
            return Ok(Some(done));
        }
        Ok(None)
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
        Ok(Some(format!(
            "closed for epoch {over}: {} members unlinked",
            inside.card
        )))
    }

    async fn finish_close(&self, live: &LiveId) -> StoreResult<Option<String>> {
        let Some(record) = self.record(live, LiveState::Closing).await? else {
            return Ok(None);
        };
        finish_in_store(self.store, self.features, &record, self.closed_ttl, NO_CAP).await?;
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
            figures.viewers += inside.size.card;
            figures.fans += inside.size.fans;
            figures.guests += inside.size.guests;
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
