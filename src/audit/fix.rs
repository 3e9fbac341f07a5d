//! Owns what `--fix` does: each finding that the protocol can put right is put right by a step of the protocol, which
//! looks again in the moment in which it acts. Nobody is ever added to a slice: a gateway that misses somebody adds them
//! by itself. Nothing of a closed epoch comes back, for every step only takes away.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::TryStreamExt;
use serde::Serialize;

use super::finding::{Finding, Kind};
use super::leases::Leases;
use super::survey::LiveKeys;
use crate::ids::{Epoch, GatewayId, LiveId, SliceId};
use crate::store::redis::RedisStore;
use crate::store::slice::Fence;
use crate::store::{LiveRecord, LiveState, LiveStore, Slices, StoreResult, Strays, Viewers};

/// Something that was put right.
#[derive(Debug, Serialize)]
pub struct Fixed {
    /// What was wrong.
    pub kind: Kind,
    /// In which live.
    pub live_id: Option<LiveId>,
    /// In which of its slices.
    pub slice: Option<u32>,
    /// Which gateway's.
    pub gateway_id: Option<GatewayId>,
    /// What was done, in a sentence.
    pub done: String,
}

/// Puts right what can be put right safely.
pub(super) struct Fixer<'a> {
    pub store: &'a RedisStore,
    pub leases: &'a Leases,
    pub keys: &'a BTreeMap<LiveId, LiveKeys>,
    /// How long the record of a live stays whose close is finished.
    pub closed_ttl: Duration,
}

impl Fixer<'_> {
    /// Puts a finding right; `None` if that is not for an audit to do, or needs nothing any more.
    pub(super) async fn fix(&self, finding: &Finding) -> StoreResult<Option<Fixed>> {
        let Some(live) = &finding.live_id else { return Ok(None) };
        let done = match (finding.kind, &finding.place, &finding.gateway_id) {
            (Kind::UnsweptGateway | Kind::HeldWithoutEntry, Some(slice), Some(gateway)) => {
                self.sweep(slice, gateway).await?
            }
            (Kind::GhostMembers, Some(slice), _) => {
                let dropped = self.drop_strays(slice).await?;
                Some(format!("{dropped} members taken out"))
            }
            (Kind::OrphanedSlice, Some(slice), _) => self.close_orphan(slice).await?,
            (Kind::OrphanedViewers | Kind::OrphanedBans, ..) => {
                self.store.drop_left_overs(live).await?.then(|| "viewers, bans and removals unlinked".to_owned())
            }
            (Kind::StaleViewers, _, Some(gateway)) if self.leases.is_dead(gateway) => {
                self.store.forget_viewers(live, std::slice::from_ref(gateway)).await?;
                Some("viewers forgotten".to_owned())
            }
            (Kind::UnfinishedClose, ..) => self.finish(live).await?,
            (Kind::ListedClosed | Kind::ListedWithoutRecord, ..) => {
                self.store.delist(live).await?;
                Some("taken off lives".to_owned())
            }
            (Kind::UnlistedLive, ..) => self.relist(live).await?,
            _ => None,
        };
        Ok(done.map(|done| Fixed {
            kind: finding.kind,
            live_id: finding.live_id.clone(),
            slice: finding.slice,
            gateway_id: finding.gateway_id.clone(),
            done,
        }))
    }

    /// Takes out all that a gateway holds in a slice, if the gateway was buried. One that lives, or may live, keeps it.
    async fn sweep(&self, slice: &SliceId, gateway: &GatewayId) -> StoreResult<Option<String>> {
        if !self.leases.is_dead(gateway) {
            return Ok(None);
        }
        let calls = self.store.sweeps(slice, gateway, self.leases.page());
        let released = calls.try_fold(0, async |sum, swept| Ok(sum + swept.released)).await?;
        Ok(Some(format!("swept: {released} members released")))
    }

    async fn drop_strays(&self, slice: &SliceId) -> StoreResult<u64> {
        let pages = self.store.stray_pages(slice, self.leases.page(), Strays::Drop);
        pages.try_fold(0, async |sum, page| Ok(sum + page.strays)).await
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
        // Closing forgets what the entries name; held sets without one are left.
        let index = (slice.of > 1).then_some(slice.index);
        let held = self.keys.get(&slice.live).and_then(|keys| keys.slices.get(&index));
        for gateway in held.into_iter().flatten() {
            self.sweep(slice, gateway).await?;
        }
        Ok(Some(format!("closed for epoch {over}: {} members unlinked", inside.card)))
    }

    /// In the order in which every close is done: slices, then the record.
    async fn finish(&self, live: &LiveId) -> StoreResult<Option<String>> {
        let Some(record) = self.store.load_live(live).await? else { return Ok(None) };
        if record.state != LiveState::Closing {
            return Ok(None);
        }
        for slice in SliceId::all(live, record.slices) {
            self.store.close_slice(&slice, record.epoch).await?;
        }
        self.store.finish_close(live, record.epoch, self.closed_ttl).await?;
        Ok(Some(format!("the close of epoch {} finished", record.epoch)))
    }

    /// Listed first and looked at again afterwards: what closed meanwhile is taken off.
    async fn relist(&self, live: &LiveId) -> StoreResult<Option<String>> {
        let Some(record) = self.store.load_live(live).await? else { return Ok(None) };
        if record.state != LiveState::Open {
            return Ok(None);
        }
        self.store.list_live(live, record.opened_at).await?;
        self.store.delist(live).await?;
        Ok(Some("put on lives".to_owned()))
    }
}
