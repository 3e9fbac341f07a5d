//! Inspects one slice: whether it should exist, which gateways have an entry in it, and whether its
//! members are those that gateways hold.

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

/// The pause after a page of members.
const PAUSE: Duration = Duration::from_millis(1);

/// How many members a finding names as examples.
const EXAMPLES: usize = 3;

/// What says whether a slice should exist.
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
        for gateway in holders
            .iter()
            .filter(|gateway| !seen.gateways.contains_key(*gateway))
        {
            let members = self.store.held_card(slice, Group::All, gateway).await?;
            if members > 0 {
                without_entry.push((gateway.clone(), members));
            }
        }
        let used = inside.card + inside.fans > 0
            || !inside.entries.is_empty()
            || !without_entry.is_empty();
        let (record, due) = match expected {
            Expected::Live(record) => {
                let open = record.filter(|record| record.state == LiveState::Open);
                (
                    record,
                    open.filter(|record| slices_of(record).any(|due| due == *slice))
                        .map(|record| record.epoch),
                )
            }
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
                    self.check_sessions((slice, epoch), &mut seen).await?;
                }
            }
        }
        seen.findings.extend(
            self.problem(&inside, record, due, used)
                .map(|(kind, detail)| {
                    let finding = AuditFinding::new(kind, detail)
                        .slice(slice, self.store.keys())
                        .members(inside.card);
                    if kind == FindingKind::FenceAhead {
                        finding.key(self.store.keys().fence(slice))
                    } else {
                        finding
                    }
                }),
        );
        Ok(seen)
    }

    /// What is wrong with a slice as a whole. `due` is the epoch that is open and should have this
    /// slice.
    fn problem(
        &self,
        inside: &SliceInside,
        record: Option<&LiveRecord>,
        due: Option<Epoch>,
        used: bool,
    ) -> Option<(FindingKind, String)> {
        let fence = inside
            .fence
            .map_or_else(|| "by nothing".to_owned(), fence_name);
        let ahead = |why: String| {
            Some((
                FindingKind::FenceAhead,
                format!("fenced {fence}, but {why}"),
            ))
        };
        let left_over = |why: String| {
            Some((
                FindingKind::OrphanedSlice,
                format!("left over, fenced {fence}; {why}"),
            ))
        };
        if let Some(epoch) = due {
            return match inside.fence {
                Some(there) if there.epoch() > epoch || there.is_closed_in(epoch) => {
                    let open = || "the set is always open, in epoch 1".to_owned();
                    ahead(record.map_or_else(open, |_| {
                        format!("its record says that epoch {epoch} is open")
                    }))
                }
                Some(Fence::Open(there)) if there == epoch => None,
                _ if !used => None,
                None => Some((
                    FindingKind::SliceWithoutFence,
                    "in use, but without a fence".to_owned(),
                )),
                Some(_) => left_over(format!("epoch {epoch} is open")),
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
                ahead(format!("its record knows no epoch above {}", record.epoch))
            }
            Some(record) if record.state == LiveState::Open => {
                left_over(format!("the live has {} slices now", record.slices))
            }
            Some(record) => left_over(format!("epoch {} is closed", record.epoch)),
            None if inside
                .entries
                .iter()
                .any(|(gateway, _)| self.leases.is_living(gateway)) =>
            {
                let detail = "living gateways have entries in it, but its live has no record";
                Some((FindingKind::NoRecord, detail.to_owned()))
            }
            None => left_over(
                "its live has no record, and no living gateway has an entry in it".to_owned(),
            ),
        }
    }

    /// Checks whether every gateway that holds members has an entry, and is alive or was buried
    /// only a moment ago.
    fn check_gateways(
        &self,
        slice: &SliceId,
        without_entry: &[(GatewayId, u64)],
        seen: &mut Inspection,
    ) {
        let mut find = |kind, gateway, members, problem: &str| {
            let finding = AuditFinding::new(kind, format!("holds {members} members and {problem}"));
            seen.findings.push(
                finding
                    .slice(slice, self.store.keys())
                    .gateway(gateway)
                    .members(members),
            );
        };
        for (gateway, &Holding { members, .. }) in &seen.gateways {
            match self.leases.get(gateway) {
                None => find(
                    FindingKind::EntryWithoutLease,
                    gateway,
                    members,
                    "has no lease",
                ),
                Some(LeaseInside::Dead { age, .. }) if age > self.overdue => {
                    let problem =
                        format!("was buried {} ago, and nobody has swept it", seconds(age));
                    find(FindingKind::UnsweptGateway, gateway, members, &problem);
                }
                Some(_) => {}
            }
        }
        for (gateway, members) in without_entry {
            find(
                FindingKind::HeldWithoutEntry,
                gateway,
                *members,
                "has no entry, so nobody would sweep it",
            );
        }
    }

    /// Compares the members of a slice with those that gateways hold. If the set changes meanwhile,
    /// a member may count twice.
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
        if let Some(unnoted) = inside
            .noted
            .map(|noted| inside.card.saturating_sub(noted))
            .filter(|n| *n > 0)
        {
            let detail = format!("{unnoted} members of whom it is not noted {what}");
            let finding = AuditFinding::new(FindingKind::MissingNotes, detail)
                .slice(slice, self.store.keys())
                .members(unnoted);
            seen.findings.extend(
                self.store
                    .keys()
                    .notes(slice)
                    .map(|notes| finding.key(notes)),
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

    /// Looks whether a slice has all those of a group whom a gateway holds.
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
        Ok((missing > 0).then_some(finding))
    }
}

/// What the users of a group are called in a finding.
fn who(group: Group) -> &'static str {
    match group {
        Group::All => "members",
        Group::Fans => "fans",
    }
}

impl Inspector<'_> {
    /// Those of these users who are not in the slice: a page names those, too, of whom the slice
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
            missing.extend(
                users
                    .iter()
                    .zip(there)
                    .filter(|(_, there)| !there)
                    .map(|(user, _)| user.clone()),
            );
        }
        Ok(missing)
    }
}

/// Adds up the counts of all pages, and joins the first few names.
async fn count(
    mut pages: impl Stream<Item = StoreResult<(u64, Vec<UserId>)>> + Unpin,
) -> StoreResult<(u64, String)> {
    let (mut sum, mut examples) = (0, Vec::new());
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
