//! Inspects one live: what its record says, and whether everything else fits. Each inspection reads all of it anew,
//! except the names of keys, so that a second one can tell what was only on its way.

mod slice;

use std::collections::BTreeMap;
use std::time::Duration;

use super::finding::{Finding, Kind};
use super::leases::{LeaseSnapshot, seconds};
use super::report::LiveRow;
use super::scan::{LiveKeys, slice_id};
use crate::base::ids::{GatewayId, LiveId, SliceId};
use crate::store::redis::inspect::LeaseInside;
use crate::store::redis::{RedisStore, keys};
use crate::store::{GatewayViewers, LiveRecord, LiveState, LiveStore, StoreError, StoreResult};

#[derive(Debug)]
pub(super) struct Inspector<'a> {
    pub store: &'a RedisStore,
    pub leases: &'a LeaseSnapshot,
    /// A burial, a sweep or a close that took longer than this is a finding.
    pub overdue: Duration,
}

/// What was seen of a slice, of a live, or of all lives.
#[derive(Debug, Default)]
pub(super) struct Inspection {
    pub findings: Vec<Finding>,
    /// Lives that are open or closing.
    pub lives: Vec<LiveRow>,
    /// Fans in slices of open lives.
    pub fans: u64,
    pub gateways: BTreeMap<GatewayId, Holding>,
}

/// What a gateway holds: the members of its held sets, in the slices in which it has an entry.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Holding {
    pub slices: u64,
    pub members: u64,
}

impl Inspection {
    pub(super) fn add(&mut self, part: Self) {
        self.findings.extend(part.findings);
        self.lives.extend(part.lives);
        self.fans += part.fans;
        for (gateway, holding) in part.gateways {
            let sum = self.gateways.entry(gateway).or_default();
            sum.slices += holding.slices;
            sum.members += holding.members;
        }
    }

    /// An answer that makes no sense is a finding, and the inspection goes on without it.
    fn readable<T>(&mut self, live: &LiveId, key: &str, answer: StoreResult<T>) -> StoreResult<Option<T>> {
        match answer {
            Ok(read) => Ok(Some(read)),
            Err(StoreError::Nonsense(why)) => {
                let detail = format!("{key}, or a key beside it, cannot be read: {why}");
                self.findings.push(Finding::new(Kind::UnreadableKey, detail).live(live).key(key));
                Ok(None)
            }
            Err(why) => Err(why),
        }
    }
}

impl Inspector<'_> {
    pub(super) async fn live(&self, live: &LiveId, found: &LiveKeys) -> StoreResult<Inspection> {
        let mut seen = Inspection::default();
        let record = self.store.load_live(live).await;
        let Some(record) = seen.readable(live, &keys::live(live), record)? else { return Ok(seen) };
        let state = record.as_ref().map(|record| record.state);
        let listed = self.store.listed_at(live).await?.is_some();
        seen.findings.extend(check_listed(live, state, listed));
        let mut viewers = 0;
        if found.viewers || matches!(state, Some(LiveState::Open | LiveState::Closing)) {
            let said = self.store.inspect_viewers(live).await;
            if let Some(said) = seen.readable(live, &keys::viewers(live), said)? {
                let living = said.iter().filter(|said| self.leases.is_living(&said.gateway));
                viewers = living.map(|said| said.viewers).sum();
                seen.findings.extend(self.check_viewers(live, state, &said));
            }
        }
        if let Some(record) = record.as_ref().filter(|record| record.state == LiveState::Closing) {
            let begun = record.closure.map_or(0, |closure| closure.at);
            let since = Duration::from_millis(self.store.node_time(live).await?.saturating_sub(begun));
            if since > self.overdue {
                let detail = format!("its close began {} ago and nobody finishes it", seconds(since));
                seen.findings.push(Finding::new(Kind::UnfinishedClose, detail).live(live).key(keys::live(live)));
            }
        }
        // Where the record is lost, a gateway that writes it again gives the bans back.
        if state == Some(LiveState::Closed) && found.removals && self.store.has_removals(live).await? {
            let detail = "bans or removals of a live that is closed";
            seen.findings.push(Finding::new(Kind::OrphanedBans, detail).live(live).key(keys::bans(live)));
        }
        self.check_slices(live, record.as_ref(), found, &mut seen).await?;
        if let Some(record) = record.filter(|record| record.state != LiveState::Closed) {
            seen.lives.push(LiveRow {
                live_id: live.clone(),
                state: record.state.as_str(),
                streamer_id: record.streamer,
                epoch: record.epoch,
                slices: record.slices,
                opened_at: record.opened_at,
                fans: seen.fans,
                viewers,
                gateways: seen.gateways.values().filter(|holding| holding.members > 0).count() as u64,
                listed,
            });
        }
        Ok(seen)
    }

    /// Checks what gateways said of their viewers. Only what living gateways said counts.
    fn check_viewers(&self, live: &LiveId, state: Option<LiveState>, said: &[GatewayViewers]) -> Vec<Finding> {
        let about = |kind, detail: String| Finding::new(kind, detail).live(live).key(keys::viewers(live));
        let orphaned = |state| vec![about(Kind::OrphanedViewers, format!("viewers of a live that {state}"))];
        match state {
            Some(LiveState::Open) => {
                let stale = said.iter().filter(|said| said.viewers > 0).filter_map(|said| {
                    let why = match self.leases.get(&said.gateway) {
                        None => "which has no lease".to_owned(),
                        Some(LeaseInside::Dead { age }) if age > self.overdue => format!("buried {} ago", seconds(age)),
                        Some(_) => return None,
                    };
                    let detail = format!("{} viewers of a gateway {why}; they count for nothing", said.viewers);
                    Some(about(Kind::StaleViewers, detail).members(said.viewers).gateway(&said.gateway))
                });
                stale.collect()
            }
            Some(LiveState::Closing) => Vec::new(),
            _ if said.is_empty() => Vec::new(),
            Some(LiveState::Closed) => orphaned("is closed"),
            None if said.iter().any(|said| self.leases.is_living(&said.gateway)) => {
                let detail = "living gateways have viewers in it, and it has no record";
                vec![about(Kind::NoRecord, detail.to_owned()).key(keys::live(live))]
            }
            None => orphaned("has no record"),
        }
    }

    /// Inspects every slice that is there or should be.
    async fn check_slices(
        &self,
        live: &LiveId,
        record: Option<&LiveRecord>,
        found: &LiveKeys,
        seen: &mut Inspection,
    ) -> StoreResult<()> {
        let mut slices = found.slices.clone();
        for slice in record.into_iter().filter(|record| record.state == LiveState::Open).flat_map(slices_of) {
            slices.entry(slice).or_default();
        }
        for (slice, holders) in slices {
            let inspection = self.slice(&slice, record, &holders).await;
            if let Some(inspection) = seen.readable(live, &keys::slice(&slice), inspection)? {
                seen.add(inspection);
            }
        }
        Ok(())
    }
}

/// The slices that an open live has by its record.
fn slices_of(record: &LiveRecord) -> impl Iterator<Item = SliceId> {
    (1..=record.slices).map(|index| slice_id(&record.live, (record.slices > 1).then_some(index)))
}

fn check_listed(live: &LiveId, state: Option<LiveState>, listed: bool) -> Option<Finding> {
    let (kind, detail) = match state {
        None if listed => (Kind::ListedWithoutRecord, "lives lists it, and it has no record"),
        Some(LiveState::Closed) if listed => (Kind::ListedClosed, "lives lists it, and it is closed"),
        Some(LiveState::Open) if !listed => {
            (Kind::UnlistedLive, "it is open, and lives does not list it: nobody looks after it if its gateways die")
        }
        _ => return None,
    };
    Some(Finding::new(kind, detail).live(live).key(keys::LIVES))
}
