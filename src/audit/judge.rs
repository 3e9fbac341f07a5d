//! Owns the judgement of one live: what its record says, and whether everything else fits. Each look reads all of it
//! anew, but for the names of keys, so that a second look can tell what was only on its way.

mod slice;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::finding::{Finding, Kind};
use super::leases::{Leases, seconds};
use super::report::LiveRow;
use super::survey::{LiveKeys, place};
use crate::ids::{GatewayId, LiveId, SliceId};
use crate::store::redis::inspect::LeaseInside;
use crate::store::redis::{RedisStore, keys};
use crate::store::slice::Fence;
use crate::store::{GatewayViewers, LiveRecord, LiveState, LiveStore, StoreError, StoreResult};

/// How lives are judged.
#[derive(Debug)]
pub(super) struct Judge<'a> {
    pub store: &'a RedisStore,
    pub leases: &'a Leases,
    /// What somebody had to do for longer than this is overdue: to bury a gateway, to sweep it, to finish a close.
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
            let said = self.store.inspect_viewers(live).await;
            if let Some(said) = judged.readable(said, &keys::viewers(live))? {
                viewers =
                    said.iter().filter(|word| self.leases.is_living(&word.gateway)).map(|word| word.viewers).sum();
                self.judge_viewers(&mut judged, state, &said);
            }
        }
        if let Some(record) = record.as_ref().filter(|record| record.state == LiveState::Closing) {
            self.judge_close(&mut judged, record).await?;
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
                gateways: judged.gateways.values().filter(|holding| holding.members > 0).count() as u64,
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

    /// Looks at what gateways said of their viewers. Words of gateways that do not live count for nothing.
    fn judge_viewers(&self, judged: &mut Judged, state: Option<LiveState>, said: &[GatewayViewers]) {
        let (live, key) = (judged.live.clone(), keys::viewers(&judged.live));
        let about = |kind, detail: String| Finding::about(kind, &live, detail).key(key.as_str());
        match state {
            Some(LiveState::Open) => {
                for word in said.iter().filter(|word| word.viewers > 0) {
                    let why = match self.leases.get(&word.gateway) {
                        None => "which has no lease".to_owned(),
                        Some(LeaseInside::Dead { age }) if age > self.late => format!("buried {} ago", seconds(age)),
                        Some(_) => continue,
                    };
                    let detail = format!("{} viewers of a gateway {why}; they count for nothing", word.viewers);
                    let finding = about(Kind::StaleViewers, detail).members(word.viewers);
                    judged.find(finding.gateway(&word.gateway));
                }
            }
            Some(LiveState::Closing) => {}
            _ if said.is_empty() => {}
            Some(LiveState::Closed) => {
                judged.find(about(Kind::OrphanedViewers, "viewers of a live that is closed".to_owned()));
            }
            None if said.iter().any(|word| self.leases.is_living(&word.gateway)) => {
                let detail = "gateways speak of its viewers, and it has no record";
                judged.find(Finding::about(Kind::NoRecord, &live, detail).key(keys::live(&live)));
            }
            None => judged.find(about(Kind::OrphanedViewers, "viewers of a live that has no record".to_owned())),
        }
    }

    async fn judge_close(&self, judged: &mut Judged, record: &LiveRecord) -> StoreResult<()> {
        let begun = record.closure.map_or(0, |closure| closure.at);
        let since = Duration::from_millis(self.store.node_time(&record.live).await?.saturating_sub(begun));
        if since > self.late {
            let detail = format!("its close began {} ago and nobody finishes it", seconds(since));
            judged.find(Finding::about(Kind::UnfinishedClose, &record.live, detail).key(keys::live(&record.live)));
        }
        Ok(())
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
