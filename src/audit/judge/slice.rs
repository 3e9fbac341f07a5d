//! Owns the judgement of one slice: whether it should be there, who holds it, and whether what is in it is what is held.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::TryStreamExt;
use tokio::time::sleep;

use super::{Holding, Judge, is_ahead, name};
use crate::audit::finding::{Finding, Kind};
use crate::audit::leases::seconds;
use crate::ids::{GatewayId, SliceId};
use crate::store::redis::inspect::{LeaseInside, SliceInside};
use crate::store::redis::keys;
use crate::store::slice::Fence;
use crate::store::{LiveRecord, LiveState, Slices, StoreResult, Strays};

/// Between two pages of members.
const PAUSE: Duration = Duration::from_millis(1);

/// What a look at one slice found.
#[derive(Debug, Default)]
pub(super) struct SliceLook {
    /// Fans in it, if it is a slice of an open live.
    pub fans: u64,
    pub findings: Vec<Finding>,
    pub gateways: BTreeMap<GatewayId, Holding>,
}

impl Judge<'_> {
    /// Looks at a slice. `held` names the gateways whose held sets were found.
    pub(super) async fn slice(
        &self,
        slice: &SliceId,
        record: Option<&LiveRecord>,
        held: &BTreeSet<GatewayId>,
    ) -> StoreResult<SliceLook> {
        let inside = self.store.inspect_slice(slice).await?;
        let mut look = SliceLook::default();
        for (gateway, _) in &inside.entries {
            let members = self.store.held_card(slice, gateway).await?;
            look.gateways.insert(gateway.clone(), Holding { slices: 1, members });
        }
        let mut loose = Vec::new();
        for gateway in held.iter().filter(|gateway| !look.gateways.contains_key(*gateway)) {
            let members = self.store.held_card(slice, gateway).await?;
            if members > 0 {
                loose.push((gateway.clone(), members));
            }
        }
        let used = inside.card > 0 || !inside.entries.is_empty() || !loose.is_empty();
        let about = |kind, detail: String| Finding::about(kind, &slice.live, detail).slice(slice).members(inside.card);
        match record {
            Some(record) if record.state == LiveState::Open && slice.of == record.slices && slice.index > 0 => {
                look.fans = inside.card;
                if is_ahead(inside.fence, record) {
                    let detail = format!(
                        "fenced {}, and its record says that epoch {} is open",
                        name(inside.fence),
                        record.epoch
                    );
                    look.findings.push(about(Kind::FenceAhead, detail).key(keys::fence(slice)));
                } else if inside.fence == Some(Fence::Open(record.epoch)) {
                    self.compare(slice, &inside, &loose, &mut look).await?;
                } else if used && inside.fence.is_none() {
                    look.findings.push(about(Kind::SliceWithoutFence, "in use, and without a fence".to_owned()));
                    self.compare(slice, &inside, &loose, &mut look).await?;
                } else if used {
                    let detail = format!("left over, fenced {}; epoch {} is open", name(inside.fence), record.epoch);
                    look.findings.push(about(Kind::OrphanedSlice, detail));
                }
            }
            // Its slices are about to go.
            Some(record) if record.state == LiveState::Closing => {}
            // A closed fence stays for a day, so that what comes late is refused.
            _ if !used && !matches!(inside.fence, Some(Fence::Open(_))) => {}
            Some(record) if inside.fence.is_some_and(|fence| fence.epoch() > record.epoch) => {
                let detail =
                    format!("fenced {}, and its record knows of no epoch above {}", name(inside.fence), record.epoch);
                look.findings.push(about(Kind::FenceAhead, detail).key(keys::fence(slice)));
            }
            Some(record) if record.state == LiveState::Open => {
                let detail =
                    format!("left over, fenced {}; the live has {} slices now", name(inside.fence), record.slices);
                look.findings.push(about(Kind::OrphanedSlice, detail));
            }
            Some(record) => {
                let detail = format!("left over, fenced {}; epoch {} is closed", name(inside.fence), record.epoch);
                look.findings.push(about(Kind::OrphanedSlice, detail));
            }
            None if inside.entries.iter().any(|(gateway, _)| self.leases.is_living(gateway)) => {
                let detail = "gateways that live have entries in it, and its live has no record".to_owned();
                look.findings.push(about(Kind::NoRecord, detail));
            }
            None => {
                let detail = format!(
                    "left over, fenced {}; its live has no record, and no gateway that lives has an entry in it",
                    name(inside.fence)
                );
                look.findings.push(about(Kind::OrphanedSlice, detail));
            }
        }
        Ok(look)
    }

    /// Compares what is in a slice with what is held of it, and looks whether those live who have an entry.
    async fn compare(
        &self,
        slice: &SliceId,
        inside: &SliceInside,
        loose: &[(GatewayId, u64)],
        look: &mut SliceLook,
    ) -> StoreResult<()> {
        let about = |kind, detail: String| Finding::about(kind, &slice.live, detail).slice(slice);
        for (gateway, Holding { members, .. }) in &look.gateways {
            let (kind, detail) = match self.leases.get(gateway) {
                None => (Kind::EntryWithoutLease, format!("holds {members} members and has no lease")),
                Some(LeaseInside::Dead { age }) if age > self.late => {
                    let detail =
                        format!("buried {} ago, holds {members} members, and nobody has swept it", seconds(age));
                    (Kind::UnsweptGateway, detail)
                }
                Some(_) => continue,
            };
            look.findings.push(about(kind, detail).gateway(gateway).members(*members));
        }
        for (gateway, members) in loose {
            let detail = format!("holds {members} members and has no entry: nobody would sweep it");
            look.findings.push(about(Kind::HeldWithoutEntry, detail).gateway(gateway).members(*members));
        }
        let (ghosts, names) = self.ghosts(slice).await?;
        if ghosts > 0 {
            let detail = format!("{ghosts} members that no gateway with an entry holds, such as {}", names.join(", "));
            look.findings.push(about(Kind::GhostMembers, detail).members(ghosts));
        }
        for (gateway, _) in &inside.entries {
            let (missing, names) = self.missing(slice, gateway).await?;
            if missing > 0 {
                let detail =
                    format!("{missing} members that it holds are not in the slice, such as {}", names.join(", "));
                look.findings.push(about(Kind::MissingMembers, detail).gateway(gateway).members(missing));
            }
        }
        Ok(())
    }

    /// Members whom nobody holds, and some of their names. A set that changes meanwhile may show one twice.
    async fn ghosts(&self, slice: &SliceId) -> StoreResult<(u64, Vec<String>)> {
        let (mut ghosts, mut names) = (0, Vec::new());
        let mut pages = self.store.stray_pages(slice, self.leases.page(), Strays::Count);
        while let Some(page) = pages.try_next().await? {
            ghosts += page.strays;
            names.extend(page.names.iter().take(3_usize.saturating_sub(names.len())).map(ToString::to_string));
            if page.next.is_some() {
                sleep(PAUSE).await;
            }
        }
        Ok((ghosts, names))
    }

    /// Whom a gateway holds and the slice lacks, and some of their names.
    async fn missing(&self, slice: &SliceId, gateway: &GatewayId) -> StoreResult<(u64, Vec<String>)> {
        let (mut missing, mut names) = (0, Vec::new());
        let mut pages = self.store.held_pages(slice, gateway);
        while let Some(page) = pages.try_next().await? {
            missing += page.missing.len() as u64;
            names.extend(page.missing.iter().take(3_usize.saturating_sub(names.len())).map(ToString::to_string));
            if page.next.is_some() {
                sleep(PAUSE).await;
            }
        }
        Ok((missing, names))
    }
}
