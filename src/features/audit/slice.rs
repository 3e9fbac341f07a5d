//! Inspects one slice: whether it should exist, which gateways have an entry in it, and whether its
//! fence counts the users whom gateways hold.

use std::time::Duration;

use crate::base::ids::{Epoch, OnlineSet, PLATFORM_EPOCH, SliceId};
use crate::cli::common::{fence_name, seconds};
use crate::features::audit::claims::Claims;
use crate::features::audit::finding::{AuditFinding, FindingKind};
use crate::features::audit::inspection::{Holding, Inspection, Inspector, slices_of};
use crate::store::redis::inspect::{LeaseInside, SliceInside};
use crate::store::{Fence, LiveRecord, LiveState, SliceEntry, StoreResult};

/// The source that says whether a slice should exist.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Expected<'a> {
    /// The record of its live, if there is one.
    Live(Option<&'a LiveRecord>),
    /// It is always open, in the one epoch of the platform.
    AlwaysOpen,
}

impl Inspector<'_> {
    pub(crate) async fn slice(
        &self,
        slice: &SliceId,
        expected: Expected<'_>,
    ) -> StoreResult<Inspection> {
        let inside = self.store.inspect_slice(slice).await?;
        let used = inside.card + inside.fans + inside.claimed > 0 || !inside.entries.is_empty();
        let (record, due) = match expected {
            Expected::Live(Some(record)) => (Some(record), due_epoch(record, slice)),
            Expected::Live(None) => (None, None),
            Expected::AlwaysOpen => (None, Some(PLATFORM_EPOCH)),
        };
        let open = due.filter(|epoch| inside.fence == Some(Fence::Open(*epoch)));
        let mut seen = Inspection::default();
        // In a rebuild gateways have yet to say whom they hold.
        let claims = if open.is_some() && !inside.size.rebuild {
            let (claims, findings) = self.compare_members(slice).await?;
            seen.findings.extend(findings);
            seen.findings
                .extend(self.check_fence(slice, &inside, &claims).await?);
            claims
        } else if inside.claimed > 0 {
            Claims::read(self.store, slice).await?
        } else {
            Claims::default()
        };
        for (gateway, _) in &inside.entries {
            let holding = Holding {
                slices: vec![slice.clone()],
                members: claims.held_by(gateway).members,
            };
            seen.gateways.insert(gateway.clone(), holding);
        }
        seen.is_uncertain = due.is_some() && used && (open.is_none() || inside.size.rebuild);
        if open.is_some() {
            match slice.set {
                OnlineSet::Live(_) => {
                    seen.viewers = inside.size.card;
                    seen.fans = inside.size.fans;
                    seen.guests = inside.size.guests;
                }
                OnlineSet::Users => seen.users_online = inside.size.card,
                OnlineSet::Streamers => {}
            }
            seen.findings
                .extend(self.check_rebuild(slice, &inside).await?);
            if let Some(record) = record {
                for inspection in self.inspections {
                    seen.findings.extend(inspection.slice(slice, record).await?);
                }
            }
        }
        if open.is_some() || due.is_some() && inside.fence.is_none() {
            self.check_gateways(slice, &inside, &mut seen);
        }
        if let Some((kind, detail)) = self.problem(&inside, record, due, used) {
            let mut finding = AuditFinding::new(kind, detail)
                .slice(slice, self.store.keys())
                .members(inside.card);
            if kind == FindingKind::FenceAhead {
                finding = finding.key(self.store.keys().fence(slice));
            }
            seen.findings.push(finding);
        }
        Ok(seen)
    }

    /// The problem of a slice as a whole, if it has one. `due` is the epoch that is open and should
    /// have this slice.
    fn problem(
        &self,
        inside: &SliceInside,
        record: Option<&LiveRecord>,
        due: Option<Epoch>,
        used: bool,
    ) -> Option<(FindingKind, String)> {
        if let Some(epoch) = due {
            return match inside.fence {
                Some(there) if there.epoch() > epoch || there.is_closed_in(epoch) => {
                    let why = match record {
                        Some(_) => format!("its record says that epoch {epoch} is open"),
                        None => "the set is always open, in epoch 1".to_owned(),
                    };
                    Some(fence_ahead(inside, &why))
                }
                Some(Fence::Open(there)) if there == epoch => None,
                _ if !used => None,
                None => Some((
                    FindingKind::SliceWithoutFence,
                    "in use, but without a fence".to_owned(),
                )),
                Some(_) => Some(left_over(inside, &format!("epoch {epoch} is open"))),
            };
        }
        match record {
            // The close will remove its slices.
            Some(record) if record.state == LiveState::Closing => None,
            // A closed fence stays for a day, to refuse late calls.
            _ if !used && !matches!(inside.fence, Some(Fence::Open(_))) => None,
            Some(record)
                if inside
                    .fence
                    .is_some_and(|fence| fence.epoch() > record.epoch) =>
            {
                let why = format!("its record knows no epoch above {}", record.epoch);
                Some(fence_ahead(inside, &why))
            }
            Some(record) if record.state == LiveState::Open => {
                let why = format!("the live has {} slices now", record.slices);
                Some(left_over(inside, &why))
            }
            Some(record) => {
                let why = format!("epoch {} is closed", record.epoch);
                Some(left_over(inside, &why))
            }
            None if inside
                .entries
                .iter()
                .any(|(gateway, _)| self.leases.is_living(gateway)) =>
            {
                let detail = "living gateways have entries in it, but its live has no record";
                Some((FindingKind::NoRecord, detail.to_owned()))
            }
            None => Some(left_over(
                inside,
                "its live has no record, and no living gateway has an entry in it",
            )),
        }
    }

    /// Checks whether every gateway with an entry is alive, or was buried only a moment ago.
    fn check_gateways(&self, slice: &SliceId, inside: &SliceInside, seen: &mut Inspection) {
        for (gateway, entry) in &inside.entries {
            let members = match seen.gateways.get(gateway) {
                Some(holding) => holding.members,
                None => 0,
            };
            let finding = match (self.leases.get(gateway), entry) {
                (Some(LeaseInside::Dead { age, .. }), _) if age <= self.overdue => continue,
                (Some(LeaseInside::Dead { age, .. }), _) => {
                    let detail = format!(
                        "holds {members} members and was buried {} ago, and nobody has swept it",
                        seconds(age)
                    );
                    AuditFinding::new(FindingKind::UnsweptGateway, detail)
                }
                // The note on a burial lasts for a day.
                (None, SliceEntry::Dead) => {
                    let detail = format!(
                        "holds {members} members and was buried long ago, and nobody has swept it"
                    );
                    AuditFinding::new(FindingKind::UnsweptGateway, detail)
                }
                (None, SliceEntry::At { .. }) => {
                    let detail = format!("holds {members} members and has no lease");
                    AuditFinding::new(FindingKind::EntryWithoutLease, detail)
                }
                (Some(LeaseInside::Living { .. }), _) => continue,
            };
            seen.findings.push(
                finding
                    .slice(slice, self.store.keys())
                    .gateway(gateway)
                    .members(members),
            );
        }
    }

    /// Compares what the fence of a slice counts with the claims and the entries.
    async fn check_fence(
        &self,
        slice: &SliceId,
        inside: &SliceInside,
        claims: &Claims,
    ) -> StoreResult<Option<AuditFinding>> {
        let (size, claimed) = (inside.size, inside.claimed);
        let (fans, guests) = (claims.fans(), claims.guests());
        let detail = if size.card != claimed {
            format!(
                "its fence counts {} members, but gateways hold {claimed}",
                size.card
            )
        } else if !inside.is_intact {
            "its fence counts other entries, or more fans and guests, than there are".to_owned()
        } else if size.fans != fans && !self.has_changed_since(slice, inside).await? {
            format!(
                "its fence counts {} fans, but gateways hold {fans}",
                size.fans
            )
        } else if size.guests != guests && !self.has_changed_since(slice, inside).await? {
            format!(
                "its fence counts {} guests, but gateways hold {guests}",
                size.guests
            )
        } else {
            return Ok(None);
        };
        let finding = AuditFinding::new(FindingKind::MiscountedSlice, detail);
        Ok(Some(
            finding
                .slice(slice, self.store.keys())
                .key(self.store.keys().fence(slice))
                .members(size.card),
        ))
    }

    async fn has_changed_since(&self, slice: &SliceId, inside: &SliceInside) -> StoreResult<bool> {
        let now = self.store.inspect_slice(slice).await?;
        Ok(now.size.version != inside.size.version)
    }

    /// Checks whether a rebuild ends, and whether gateways go on saying whom they hold.
    async fn check_rebuild(
        &self,
        slice: &SliceId,
        inside: &SliceInside,
    ) -> StoreResult<Option<AuditFinding>> {
        let mut incomplete = Vec::new();
        for (gateway, entry) in &inside.entries {
            if let SliceEntry::At {
                is_complete: false, ..
            } = entry
            {
                incomplete.push(gateway.as_str());
            }
        }
        let since = if inside.size.rebuild {
            inside.size.incarnation
        } else if incomplete.is_empty() {
            return Ok(None);
        } else {
            inside.size.version
        };
        let now = match slice.live() {
            Some(live) => self.store.node_time(live).await?,
            None => self.store.users_time(slice.index).await?,
        };
        // A version is the time of the change, in microseconds.
        let age = Duration::from_millis(now).saturating_sub(Duration::from_micros(since));
        if age <= self.overdue {
            return Ok(None);
        }
        let mut detail = if inside.size.rebuild {
            format!("its rebuild began {} ago and does not end", seconds(age))
        } else {
            format!("nobody has changed it for {}", seconds(age))
        };
        if !incomplete.is_empty() {
            let gateways = incomplete.join(", ");
            detail += &format!(", and has yet to hear of all whom {gateways} hold");
        }
        let finding = AuditFinding::new(FindingKind::UnfinishedRebuild, detail);
        Ok(Some(
            finding
                .slice(slice, self.store.keys())
                .key(self.store.keys().fence(slice))
                .members(inside.card),
        ))
    }
}

/// The epoch of a live, if the live is open and should have this slice.
fn due_epoch(record: &LiveRecord, slice: &SliceId) -> Option<Epoch> {
    if record.state == LiveState::Open && slices_of(record).any(|due| due == *slice) {
        Some(record.epoch)
    } else {
        None
    }
}

fn fence_ahead(inside: &SliceInside, why: &str) -> (FindingKind, String) {
    let detail = format!("fenced {}, but {why}", name_of_fence(inside));
    (FindingKind::FenceAhead, detail)
}

fn left_over(inside: &SliceInside, why: &str) -> (FindingKind, String) {
    let detail = format!("left over, fenced {}; {why}", name_of_fence(inside));
    (FindingKind::OrphanedSlice, detail)
}

fn name_of_fence(inside: &SliceInside) -> String {
    match inside.fence {
        Some(fence) => fence_name(fence),
        None => "by nothing".to_owned(),
    }
}
