//! Owns the judgement of one live: what its record says, and whether everything else fits. Each look reads all of it
//! anew, but for the names of keys, so that a second look can tell what was only on its way.

mod slice;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::finding::{Finding, Kind};
use super::report::LiveRow;
use super::survey::{LiveKeys, place};
use crate::gossip;
use crate::ids::{GatewayId, LiveId, SliceId};
use crate::store::redis::inspect::ViewersInside;
use crate::store::redis::{RedisStore, keys};
use crate::store::slice::Fence;
use crate::store::{LiveRecord, LiveState, Lives, StoreError, StoreResult};

/// How lives are judged.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    pub store: &'a RedisStore,
    /// The gateways' lease.
    pub lease: Duration,
    /// Whoever is silent for longer should have been swept.
    pub late: Duration,
}

/// What a look at one live found.
#[derive(Debug)]
pub(super) struct Judged {
    pub live: LiveId,
    /// What is told of it, if it is open or closing.
    pub row: Option<LiveRow>,
    pub findings: Vec<Finding>,
    /// What each gateway holds of it.
    pub gateways: BTreeMap<GatewayId, Holding>,
}

/// What a gateway holds.
#[derive(Debug, Clone, Default)]
pub(super) struct Holding {
    pub slices: u64,
    pub members: u64,
    /// The oldest of its leases.
    pub age: Duration,
}

impl Judged {
    fn nothing(live: &LiveId) -> Self {
        Self { live: live.clone(), row: None, findings: Vec::new(), gateways: BTreeMap::new() }
    }

    fn find(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// An answer that makes no sense is a finding; the look goes on without it.
    fn readable<T>(&mut self, answer: StoreResult<T>, key: &str) -> StoreResult<Option<T>> {
        match answer {
            Ok(read) => Ok(Some(read)),
            Err(StoreError::Nonsense(why)) => {
                let detail = format!("{key}, or a key beside it, cannot be read: {why}");
                self.find(Finding::about(Kind::UnreadableKey, &self.live, detail).key(key));
                Ok(None)
            }
            Err(why) => Err(why),
        }
    }
}

impl Judge<'_> {
    /// Looks at a live.
    pub(super) async fn live(&self, live: &LiveId, found: &LiveKeys) -> StoreResult<Judged> {
        let mut judged = Judged::nothing(live);
        let Some(record) = judged.readable(self.store.load_live(live).await, &keys::live(live))? else {
            return Ok(judged);
        };
        let listed = self.store.listed_at(live).await?.is_some();
        self.judge_list(&mut judged, record.as_ref(), listed);
        let state = record.as_ref().map(|record| record.state);
        let mut viewers = 0;
        if found.viewers || matches!(state, Some(LiveState::Open | LiveState::Closing)) {
            let inside = self.store.inspect_viewers(live, self.lease).await;
            if let Some(inside) = judged.readable(inside, &keys::live_viewers(live))? {
                viewers = gossip::fresh_viewers(&inside.said, self.lease);
                self.judge_viewers(&mut judged, record.as_ref(), &inside);
            }
        }
        // Where the record is lost, a gateway that writes it again gives the bans back.
        if state == Some(LiveState::Closed) && found.removals && self.store.has_removals(live).await? {
            let detail = "bans or removals of a live that is closed";
            judged.find(Finding::about(Kind::OrphanedBans, live, detail).key(keys::bans(live)));
        }
        let fans = self.judge_slices(&mut judged, record.as_ref(), found).await?;
        if let Some(record) = record.filter(|record| record.state != LiveState::Closed) {
            judged.row = Some(LiveRow {
                live_id: live.clone(),
                state: record.state.as_str(),
                streamer_id: record.streamer,
                epoch: record.epoch,
                slices: record.slices,
                opened_at: record.opened_at,
                fans,
                viewers,
                gateways: judged.gateways.len() as u64,
                listed,
            });
        }
        Ok(judged)
    }

    fn judge_list(&self, judged: &mut Judged, record: Option<&LiveRecord>, listed: bool) {
        let live = judged.live.clone();
        let finding = match record.map(|record| record.state) {
            None if listed => (Kind::ListedWithoutRecord, "lives lists it, and it has no record"),
            Some(LiveState::Closed) if listed => (Kind::ListedClosed, "lives lists it, and it is closed"),
            Some(LiveState::Open) if !listed => (
                Kind::UnlistedLive,
                "it is open, and lives does not list it: nobody looks after it if its gateways die",
            ),
            _ => return,
        };
        judged.find(Finding::about(finding.0, &live, finding.1).key(keys::LIVES));
    }

    fn judge_viewers(&self, judged: &mut Judged, record: Option<&LiveRecord>, inside: &ViewersInside) {
        let live = judged.live.clone();
        let key = keys::live_viewers(&live);
        let orphaned = |detail: &str| Finding::about(Kind::OrphanedViewers, &live, detail).key(key.as_str());
        match record {
            Some(record) if record.state == LiveState::Open => {
                if is_ahead(inside.fence, record) {
                    let detail = format!(
                        "its viewers are fenced {}, its record says epoch {}",
                        name(inside.fence),
                        record.epoch
                    );
                    judged.find(Finding::about(Kind::FenceAhead, &live, detail).key(keys::live_viewers_fence(&live)));
                    return;
                }
                // What is older is dropped by whoever speaks next.
                let kept = gossip::keep(self.lease) + (self.late - self.lease);
                for said in inside.said.iter().filter(|said| said.viewers > 0 && said.age > kept) {
                    let ago = humantime::format_duration(Duration::from_secs(said.age.as_secs()));
                    let detail = format!("{} viewers, last said {ago} ago; they count for nothing", said.viewers);
                    let finding = Finding::about(Kind::StaleViewers, &live, detail).members(said.viewers);
                    judged.find(finding.gateway(&said.gateway).key(key.as_str()));
                }
            }
            Some(record) if record.state == LiveState::Closing => {
                let since = inside.at.saturating_sub(record.closure.map_or(0, |closure| closure.at));
                if Duration::from_millis(since) > self.late {
                    let ago = humantime::format_duration(Duration::from_secs(since / 1_000));
                    let detail = format!("its close began {ago} ago and nobody finishes it");
                    judged.find(Finding::about(Kind::UnfinishedClose, &live, detail).key(keys::live(&live)));
                }
            }
            _ if inside.said.is_empty() => {}
            Some(_) => judged.find(orphaned("viewers of a live that is closed")),
            None if inside.said.iter().any(|said| said.age < self.late) => {
                let detail = "gateways speak of its viewers, and it has no record";
                judged.find(Finding::about(Kind::NoRecord, &live, detail).key(keys::live(&live)));
            }
            None => judged.find(orphaned("viewers of a live that has no record")),
        }
    }

    /// Looks at every slice that should be there or is. Answers how many fans are in those that should.
    async fn judge_slices(
        &self,
        judged: &mut Judged,
        record: Option<&LiveRecord>,
        found: &LiveKeys,
    ) -> StoreResult<u64> {
        let live = judged.live.clone();
        let open = record.filter(|record| record.state == LiveState::Open);
        let mut slices: BTreeMap<String, (SliceId, BTreeSet<GatewayId>)> = BTreeMap::new();
        let named = found.slices.iter().map(|(index, held)| (place(&live, *index), held.clone()));
        let wanted = open.into_iter().flat_map(|record| SliceId::all(&live, record.slices));
        for (slice, held) in named.chain(wanted.map(|slice| (slice, BTreeSet::new()))) {
            let there = slices.entry(keys::slice(&slice)).or_insert_with(|| (slice.clone(), BTreeSet::new()));
            there.0 = slice;
            there.1.extend(held);
        }
        let mut fans = 0;
        for (key, (slice, held)) in slices {
            let look = self.slice(&slice, record, &held).await;
            let Some(look) = judged.readable(look, &key)? else { continue };
            fans += look.fans;
            judged.findings.extend(look.findings);
            for (gateway, holding) in look.gateways {
                let sum = judged.gateways.entry(gateway).or_default();
                sum.slices += 1;
                sum.members += holding.members;
                sum.age = sum.age.max(holding.age);
            }
        }
        Ok(fans)
    }
}

/// Whether a fence says that an open live's epoch is over.
fn is_ahead(fence: Option<Fence>, record: &LiveRecord) -> bool {
    fence.is_some_and(|fence| fence.epoch() > record.epoch || fence == Fence::Closed(record.epoch))
}

fn name(fence: Option<Fence>) -> String {
    match fence {
        None => "by nothing".to_owned(),
        Some(Fence::Open(epoch)) => format!("open:{epoch}"),
        Some(Fence::Closed(epoch)) => format!("closed:{epoch}"),
    }
}
