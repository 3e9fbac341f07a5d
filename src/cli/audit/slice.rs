//! Inspects one slice: whether it should exist, which gateways have an entry in it, and whether its
//! members are the users whom gateways hold.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::{Stream, StreamExt, TryStreamExt};
use tokio::time::sleep;

use super::finding::{AuditFinding, FindingKind};
use super::inspection::{Holding, Inspection, Inspector, slices_of};
use crate::base::ids::{Epoch, GatewayId, Group, OnlineSet, PLATFORM_EPOCH, SliceId, UserId};
use crate::cli::common::{fence_name, seconds};
use crate::store::redis::inspect::{LeaseInside, SliceInside};
use crate::store::{Fence, LiveRecord, LiveState, MAX_BATCH, Slices, StoreResult, Strays};

/// The pause after each page of members, which leaves Redis time for gateways.
const PAUSE: Duration = Duration::from_millis(1);

/// Maximum example members per finding.
const EXAMPLES: usize = 3;

/// The source that says whether a slice should exist.
#[derive(Debug, Clone, Copy)]
pub(super) enum Expected<'a> {
    /// The record of its live, if there is one.
    Live(Option<&'a LiveRecord>),
    /// It is always open, in the one epoch of the platform.
    AlwaysOpen,
}

impl Inspector<'_> {
    /// Inspects a slice. `holders` are the gateways whose held sets the scan found.
    pub(super) async fn slice(
        &self,
        slice: &SliceId,
        expected: Expected<'_>,
        holders: &BTreeSet<GatewayId>,
    ) -> StoreResult<Inspection> {
        let inside = self.store.inspect_slice(slice).await?;
        let mut seen = Inspection::default();
        for (gateway, _) in &inside.entries {
            let members = self.store.held_card(slice, Group::All, gateway).await?;
            seen.gateways
                .insert(gateway.clone(), Holding { slices: 1, members });
        }
        let mut without_entry = Vec::new();
        for gateway in holders {
            if seen.gateways.contains_key(gateway) {
                continue;
            }
            let members = self.store.held_card(slice, Group::All, gateway).await?;
            if members > 0 {
                without_entry.push((gateway.clone(), members));
            }
        }
        let used = inside.card + inside.fans > 0
            || !inside.entries.is_empty()
            || !without_entry.is_empty();
        let (record, due) = match expected {
            Expected::Live(Some(record)) => (Some(record), due_epoch(record, slice)),
            Expected::Live(None) => (None, None),
            Expected::AlwaysOpen => (None, Some(PLATFORM_EPOCH)),
        };
        if let Some(epoch) = due {
            match slice.set {
                OnlineSet::Live(_) => {
                    seen.viewers = inside.card;
                    seen.fans = inside.fans;
                }
                OnlineSet::Users => seen.users_online = inside.card,
                OnlineSet::Streamers => {}
            }
            if inside.fence == Some(Fence::Open(epoch)) || used && inside.fence.is_none() {
                self.check_gateways(slice, &without_entry, &mut seen);
                self.check_members(slice, &inside, &mut seen).await?;
                if record.is_some_and(|record| record.terms.attendance)
                    && slice.set.live().is_some()
                {
                    self.check_sessions(slice, epoch, &mut seen).await?;
                }
            }
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

    /// Checks whether every gateway that holds members has an entry, and is alive or was buried
    /// only a moment ago. `without_entry` are the gateways without an entry, with the number of
    /// members that each holds.
    fn check_gateways(
        &self,
        slice: &SliceId,
        without_entry: &[(GatewayId, u64)],
        seen: &mut Inspection,
    ) {
        for (gateway, holding) in &seen.gateways {
            let members = holding.members;
            let finding = match self.leases.get(gateway) {
                None => {
                    let detail = format!("holds {members} members and has no lease");
                    AuditFinding::new(FindingKind::EntryWithoutLease, detail)
                }
                Some(LeaseInside::Dead { age, .. }) if age > self.overdue => {
                    let detail = format!(
                        "holds {members} members and was buried {} ago, and nobody has swept it",
                        seconds(age)
                    );
                    AuditFinding::new(FindingKind::UnsweptGateway, detail)
                }
                Some(_) => continue,
            };
            seen.findings.push(
                finding
                    .slice(slice, self.store.keys())
                    .gateway(gateway)
                    .members(members),
            );
        }
        for (gateway, members) in without_entry {
            let detail =
                format!("holds {members} members and has no entry, so nobody would sweep it");
            seen.findings.push(
                AuditFinding::new(FindingKind::HeldWithoutEntry, detail)
                    .slice(slice, self.store.keys())
                    .gateway(gateway)
                    .members(*members),
            );
        }
    }

    /// Compares the members of a slice with the users whom gateways hold. If the set changes
    /// meanwhile, a member may count twice.
    async fn check_members(
        &self,
        slice: &SliceId,
        inside: &SliceInside,
        seen: &mut Inspection,
    ) -> StoreResult<()> {
        for group in slice.set.groups() {
            let pages = self
                .store
                .stray_pages(slice, *group, self.leases.page(), Strays::Count);
            let (ghosts, names) = count(pages.map_ok(|page| (page.strays, page.names))).await?;
            if ghosts > 0 {
                let what = who(*group);
                let detail =
                    format!("{ghosts} {what} that no gateway with an entry holds, such as {names}");
                let finding = AuditFinding::new(FindingKind::GhostMembers, detail)
                    .slice(slice, self.store.keys());
                seen.findings.push(
                    finding
                        .key(self.store.keys().members(slice, *group))
                        .members(ghosts),
                );
            }
        }
        let what = if slice.set.live().is_some() {
            "since when they are there"
        } else {
            "in which lives they are"
        };
        if let Some(noted) = inside.noted
            && noted < inside.card
            && let Some(notes) = self.store.keys().notes(slice)
        {
            let unnoted = inside.card - noted;
            let detail = format!("{unnoted} members of whom it is not noted {what}");
            seen.findings.push(
                AuditFinding::new(FindingKind::MissingNotes, detail)
                    .slice(slice, self.store.keys())
                    .members(unnoted)
                    .key(notes),
            );
        }
        for (gateway, _) in &inside.entries {
            for group in slice.set.groups() {
                seen.findings
                    .extend(self.check_held(slice, *group, gateway).await?);
            }
        }
        Ok(())
    }

    /// Checks whether a slice has all users of a group whom a gateway holds.
    async fn check_held(
        &self,
        slice: &SliceId,
        group: Group,
        gateway: &GatewayId,
    ) -> StoreResult<Option<AuditFinding>> {
        let pages = self.store.held_pages(slice, group, gateway);
        let pages = pages
            .and_then(|page| self.missing(slice, group, page.missing))
            .boxed();
        let (missing, names) =
            count(pages.map_ok(|missing| (missing.len() as u64, missing))).await?;
        if missing == 0 {
            return Ok(None);
        }
        let detail = format!(
            "{missing} {} that it holds are not in the slice, such as {names}",
            who(group)
        );
        let finding =
            AuditFinding::new(FindingKind::MissingMembers, detail).slice(slice, self.store.keys());
        let finding = finding
            .key(self.store.keys().members(slice, group))
            .members(missing)
            .gateway(gateway);
        Ok(Some(finding))
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

/// The word for the users of a group in a finding.
fn who(group: Group) -> &'static str {
    match group {
        Group::All => "members",
        Group::Fans => "fans",
    }
}

impl Inspector<'_> {
    /// The users of `named` who are not in the slice. A page also names users for whom the slice
    /// only lacks the time.
    async fn missing(
        &self,
        slice: &SliceId,
        group: Group,
        named: Vec<UserId>,
    ) -> StoreResult<Vec<UserId>> {
        let mut missing = Vec::new();
        for users in named.chunks(MAX_BATCH) {
            let there = self.store.are_members(slice, group, users).await?;
            for (user, is_there) in users.iter().zip(there) {
                if !is_there {
                    missing.push(user.clone());
                }
            }
        }
        Ok(missing)
    }
}

/// Adds up the counts of all pages, and joins the first few names.
async fn count(
    mut pages: impl Stream<Item = StoreResult<(u64, Vec<UserId>)>> + Unpin,
) -> StoreResult<(u64, String)> {
    let mut sum = 0;
    let mut examples = Vec::new();
    while let Some((count, names)) = pages.try_next().await? {
        sum += count;
        examples.extend(
            names
                .iter()
                .take(EXAMPLES - examples.len())
                .map(ToString::to_string),
        );
        sleep(PAUSE).await;
    }
    Ok((sum, examples.join(", ")))
}
