//! `--fix`: repairs each finding that the protocol can repair safely. Each step looks again in the moment in which it
//! acts, and only takes away, so nothing of a closed epoch comes back. A fix adds nobody to a slice: a gateway adds by
//! itself the members that the slice lacks.

use std::time::Duration;

use futures_util::TryStreamExt;
use serde::Serialize;

use super::finding::{Finding, Kind, Subject};
use super::leases::LeaseSnapshot;
use super::scan::KeysByLive;
use crate::base::ids::{Epoch, GatewayId, LiveId, SliceId};
use crate::store::Fence;
use crate::store::redis::RedisStore;
use crate::store::{LiveRecord, LiveState, LiveStore, Slices, StoreResult, Strays, Viewers};
use crate::sync::lives::finish_in_store;

/// A finding that was repaired.
#[derive(Debug, Serialize)]
pub(super) struct Fixed {
    pub kind: Kind,
    #[serde(flatten)]
    pub subject: Subject,
    /// What was done, in a sentence.
    pub done: String,
}

pub(super) struct Fixer<'a> {
    pub store: &'a RedisStore,
    pub leases: &'a LeaseSnapshot,
    pub keys: &'a KeysByLive,
    pub closed_ttl: Duration,
}

impl Fixer<'_> {
    /// Repairs a finding; `None` if an audit must not, or need not any more.
    pub(super) async fn fix(&self, finding: &Finding) -> StoreResult<Option<Fixed>> {
        let Subject { live_id: Some(live), slice, gateway_id } = &finding.subject else { return Ok(None) };
        let done = match (finding.kind, slice, gateway_id) {
            (Kind::UnsweptGateway | Kind::HeldWithoutEntry, Some(slice), Some(gateway)) => {
                self.sweep(slice, gateway).await?
            }
            (Kind::GhostMembers, Some(slice), _) => Some(self.drop_strays(slice).await?),
            (Kind::OrphanedSlice, Some(slice), _) => self.close_orphan(slice).await?,
            (Kind::OrphanedViewers | Kind::OrphanedBans, ..) => {
                self.store.drop_left_overs(live).await?.then(|| "viewers, bans and removals unlinked".to_owned())
            }
            (Kind::StaleViewers, _, Some(gateway)) if self.leases.is_dead(gateway) => {
                self.store.forget_viewers(live, std::slice::from_ref(gateway)).await?;
                Some("viewers forgotten".to_owned())
            }
            (Kind::UnfinishedClose, ..) => self.finish_close(live).await?,
            (Kind::ListedClosed | Kind::ListedWithoutRecord, ..) => {
                self.store.delist(live).await?;
                Some("taken off lives".to_owned())
            }
            (Kind::UnlistedLive, ..) => self.relist(live).await?,
            _ => None,
        };
        Ok(done.map(|done| Fixed { kind: finding.kind, subject: finding.subject.clone(), done }))
    }

    /// Takes out all that a gateway holds in a slice, if the gateway was buried.
    async fn sweep(&self, slice: &SliceId, gateway: &GatewayId) -> StoreResult<Option<String>> {
        if !self.leases.is_dead(gateway) {
            return Ok(None);
        }
        let calls = self.store.sweeps(slice, gateway, self.leases.page());
        let released = calls.try_fold(0, async |sum, swept| Ok(sum + swept.released)).await?;
        Ok(Some(format!("swept: {released} members released")))
    }

    async fn drop_strays(&self, slice: &SliceId) -> StoreResult<String> {
        let pages = self.store.stray_pages(slice, self.leases.page(), Strays::Drop);
        let dropped = pages.try_fold(0, async |sum, page| Ok(sum + page.strays)).await?;
        Ok(format!("{dropped} members taken out"))
    }

    /// Closes a slice for the epoch that is over. The fence of a newer one refuses.
    async fn close_orphan(&self, slice: &SliceId) -> StoreResult<Option<String>> {
        let record = self.store.load_live(&slice.live).await?;
        let inside = self.store.inspect_slice(slice).await?;
        let fenced = inside.fence.map_or(Epoch(0), Fence::epoch);
        let over = match &record {
            Some(LiveRecord { state: LiveState::Open, epoch, .. }) if fenced < *epoch => fenced,
            Some(LiveRecord { state: LiveState::Closed, epoch, .. }) => *epoch,
            // A gateway that lives, or may live, writes the record again.
            None if inside.entries.iter().all(|(gateway, _)| self.leases.is_dead(gateway)) => fenced,
            _ => return Ok(None),
        };
        self.store.close_slice(slice, over).await?;
        // A close takes the held sets of gateways with an entry; this sweeps the others.
        let holders = self.keys.get(&slice.live).and_then(|keys| keys.slices.get(slice));
        for gateway in holders.into_iter().flatten() {
            self.sweep(slice, gateway).await?;
        }
        Ok(Some(format!("closed for epoch {over}: {} members unlinked", inside.card)))
    }

    async fn finish_close(&self, live: &LiveId) -> StoreResult<Option<String>> {
        let Some(record) = self.record(live, LiveState::Closing).await? else { return Ok(None) };
        finish_in_store(self.store, &record, self.closed_ttl).await?;
        Ok(Some(format!("the close of epoch {} finished", record.epoch)))
    }

    /// Lists a live first and looks again afterwards: a live that closed meanwhile is taken off.
    async fn relist(&self, live: &LiveId) -> StoreResult<Option<String>> {
        let Some(record) = self.record(live, LiveState::Open).await? else { return Ok(None) };
        self.store.list_live(live, record.opened_at).await?;
        self.store.delist(live).await?;
        Ok(Some("put on lives".to_owned()))
    }

    async fn record(&self, live: &LiveId, state: LiveState) -> StoreResult<Option<LiveRecord>> {
        Ok(self.store.load_live(live).await?.filter(|record| record.state == state))
    }
}
