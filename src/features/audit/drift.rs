//! Compares what gateways say they hold with what Redis holds for them.
//!
//! Both change all the time. A gateway numbers its calls to a slice, and Redis keeps the number of
//! the last call in the gateway's entry. If both sides have the same number, before and after the
//! audit reads the claims, they must agree on the number of members and fans. Otherwise the audit
//! tries the slice again. A slice that never stays unchanged is restless.

use std::collections::HashSet;
use std::time::Duration;

use anyhow::Context;
use tokio::time::sleep;

use crate::base::clock::millis;
use crate::base::ids::{Epoch, GatewayId, SliceId};
use crate::cli::common::seconds;
use crate::cli::gateways::GatewayApi;
use crate::edge::http::gateway::SliceHeld;
use crate::features::audit::claims::{Claims, Held};
use crate::features::audit::finding::{AuditFinding, FindingKind};
use crate::features::audit::scan::scanned_id;
use crate::store::redis::RedisStore;
use crate::store::{Fence, LiveStore, SliceEntry, StoreResult};

/// How often the audit tries a slice that keeps changing.
const TRIES: u32 = 12;

/// The time between two tries: an odd number, so that the tries do not fall into step with flushes.
const BETWEEN: Duration = Duration::from_millis(37);

/// The wait after which a change is stuck, and no longer merely under way.
const STUCK: Duration = Duration::from_millis(1_500);

/// A gateway that answered what it holds.
#[derive(Debug)]
pub(crate) struct AskedGateway {
    api: GatewayApi,
    pub id: GatewayId,
    /// The slices in which it says it has an entry.
    slices: HashSet<SliceId>,
    unwritten: Unwritten,
    /// How many slices the audit compared.
    pub compared: u64,
    /// How many slices never stayed unchanged.
    pub restless: u64,
}

/// The changes that a gateway has to write and could not write yet.
#[derive(Debug, Default)]
struct Unwritten {
    changes: u64,
    slices: u64,
    oldest: Duration,
}

impl Unwritten {
    fn add(&mut self, held: &SliceHeld) {
        if held.unsettled > 0 {
            self.changes += held.unsettled;
            self.slices += 1;
            self.oldest = self
                .oldest
                .max(Duration::from_millis(held.unsettled_ms.unwrap_or(0)));
        }
    }
}

/// Asks every gateway what it holds. A gateway that does not answer is a finding.
pub(crate) async fn ask(gateways: Vec<GatewayApi>) -> (Vec<AskedGateway>, Vec<AuditFinding>) {
    let mut asked: Vec<AskedGateway> = Vec::new();
    let mut findings = Vec::new();
    for api in gateways {
        let url = api.url.clone();
        match ask_one(api).await {
            // A gateway that was given under two addresses counts once.
            Ok(gateway) if asked.iter().any(|other| other.id == gateway.id) => {}
            Ok(gateway) => asked.push(gateway),
            Err(why) => {
                let detail = format!("{url} cannot be asked: {}", why.root_cause());
                findings.push(AuditFinding::new(FindingKind::GatewayUnreachable, detail));
            }
        }
    }
    (asked, findings)
}

async fn ask_one(api: GatewayApi) -> anyhow::Result<AskedGateway> {
    let mut id = String::new();
    let mut slices = HashSet::new();
    let mut cursor = Some(String::new());
    let mut unwritten = Unwritten::default();
    while let Some(from) = cursor {
        let page = api.slices(&from).await?;
        for held in page.items {
            unwritten.add(&held);
            let slice = held.id().context("it names a slice of no live")?;
            // The audit cannot compare a slice whose changes wait for Redis. There may be many.
            let is_stuck =
                !held.settled && held.unsettled_ms.is_some_and(|waits| waits > millis(STUCK));
            if !is_stuck {
                slices.insert(scanned_id(slice));
            }
        }
        id = page.gateway_id;
        cursor = page.cursor;
    }
    Ok(AskedGateway {
        api,
        id: GatewayId::parse(&id)?,
        slices,
        unwritten,
        compared: 0,
        restless: 0,
    })
}

impl AskedGateway {
    /// The changes that the gateway could not write, if the oldest has waited for `at_least`. A
    /// shorter wait proves nothing, because some changes are always under way.
    pub(crate) fn unwritten(&self, at_least: Duration) -> Option<AuditFinding> {
        let Unwritten {
            changes,
            slices,
            oldest,
        } = &self.unwritten;
        if *changes == 0 || *oldest < at_least {
            return None;
        }
        let detail = format!(
            "{changes} changes in {slices} slices are not in Redis yet, the oldest for {}: Redis refuses them, or does \
             not answer the gateway",
            seconds(*oldest)
        );
        Some(
            AuditFinding::new(FindingKind::UnwrittenChanges, detail)
                .gateway(&self.id)
                .members(*changes),
        )
    }

    /// Asks the gateway again what it could not write. If it does not answer, its first answer
    /// stays.
    pub(crate) async fn look_again(&mut self) {
        if let Ok(now) = ask_one(self.api.clone()).await
            && now.id == self.id
        {
            self.unwritten = now.unwritten;
        }
    }

    /// Compares every slice that the gateway says it holds, and those in which Redis has an entry of
    /// the gateway.
    pub(crate) async fn compare_all(
        &mut self,
        store: &RedisStore,
        with_entry: &[SliceId],
    ) -> StoreResult<Vec<AuditFinding>> {
        let mut slices = self.slices.clone();
        slices.extend(with_entry.iter().cloned());
        let mut findings = Vec::new();
        for slice in slices {
            findings.extend(self.compare(store, &slice).await?);
        }
        Ok(findings)
    }

    /// Compares a slice, and returns how the two sides differ. A slice that neither side has any
    /// more, or whose epoch is over, does not count as compared.
    pub(crate) async fn compare(
        &mut self,
        store: &RedisStore,
        slice: &SliceId,
    ) -> StoreResult<Option<AuditFinding>> {
        for attempt in 0..TRIES {
            if attempt > 0 {
                sleep(BETWEEN).await;
            }
            let Some((number, _)) = entry(store, slice, &self.id).await? else {
                let Ok(said) = self.api.slice(&self.id, slice).await else {
                    continue;
                };
                let Some(said) = said else { return Ok(None) };
                // The gateway may be about to register; or its epoch is over, and it has not seen
                // the record yet.
                if !said.settled || attempt + 1 < TRIES {
                    continue;
                }
                if let Some(live) = slice.live() {
                    let record = store.load_live(live).await?;
                    if record.is_none_or(|record| record.epoch != Epoch(said.epoch)) {
                        return Ok(None);
                    }
                }
                self.compared += 1;
                let held = said.members.unwrap_or(0);
                let detail =
                    format!("it says that it holds {held} members, but Redis has no entry of it");
                return Ok(Some(self.drift(store, slice, detail, held)));
            };
            let Some(stored) = read(store, slice, &self.id, number).await? else {
                continue;
            };
            // The audit asks the gateway after it has read the claims. If the numbers match, no
            // call came in between.
            let Ok(said) = self.api.slice(&self.id, slice).await else {
                continue;
            };
            match said {
                Some(said) if said.settled && said.number == Some(stored.number) => {
                    self.compared += 1;
                    let Some((detail, members)) = difference(&said, &stored) else {
                        return Ok(None);
                    };
                    return Ok(Some(self.drift(store, slice, detail, members)));
                }
                // The gateway has let go of the slice, and will take its entry away.
                None if stored.held.members == 0 => return Ok(None),
                None if attempt + 1 == TRIES => {
                    self.compared += 1;
                    let members = stored.held.members;
                    let detail = format!(
                        "Redis has an entry of it with {members} members, but it says that it has none"
                    );
                    return Ok(Some(self.drift(store, slice, detail, members)));
                }
                _ => {}
            }
        }
        self.restless += 1;
        Ok(None)
    }

    /// A finding about a slice in which this gateway and Redis differ by `members` members.
    fn drift(
        &self,
        store: &RedisStore,
        slice: &SliceId,
        detail: String,
        members: u64,
    ) -> AuditFinding {
        AuditFinding::new(FindingKind::GatewayDrift, detail)
            .slice(slice, store.keys())
            .gateway(&self.id)
            .members(members)
    }
}

/// What Redis holds for a gateway in a slice.
#[derive(Debug)]
struct Stored {
    number: u64,
    epoch: Epoch,
    held: Held,
}

/// Describes how a gateway and Redis differ after the same call, and by how many members at least.
fn difference(said: &SliceHeld, stored: &Stored) -> Option<(String, u64)> {
    let members = said.members.unwrap_or(0);
    let fans = said.fans.unwrap_or(0);
    let held = stored.held;
    if members == held.members && fans == held.fans && said.epoch == stored.epoch.0 {
        return None;
    }
    let detail = format!(
        "after call {} it says that it holds {members} members of epoch {}, {fans} of them fans, but Redis has {} of \
         epoch {}, {} of them fans",
        stored.number, said.epoch, held.members, stored.epoch, held.fans
    );
    let differ = members.abs_diff(held.members) + fans.abs_diff(held.fans);
    Some((detail, differ.max(1)))
}

/// The number and the epoch of a gateway's entry.
async fn entry(
    store: &RedisStore,
    slice: &SliceId,
    gateway: &GatewayId,
) -> StoreResult<Option<(u64, Epoch)>> {
    let inside = store.inspect_slice(slice).await?;
    let epoch = inside.fence.map_or(Epoch(0), Fence::epoch);
    for (of, entry) in inside.entries {
        if of == *gateway
            && let SliceEntry::At { number, .. } = entry
        {
            return Ok(Some((number, epoch)));
        }
    }
    Ok(None)
}

/// How many users a gateway holds. `None` if a call changed that meanwhile.
async fn read(
    store: &RedisStore,
    slice: &SliceId,
    gateway: &GatewayId,
    number: u64,
) -> StoreResult<Option<Stored>> {
    let held = Claims::read(store, slice).await?.held_by(gateway);
    match entry(store, slice, gateway).await? {
        Some((after, epoch)) if after == number => Ok(Some(Stored {
            number,
            epoch,
            held,
        })),
        _ => Ok(None),
    }
}
