//! Compares what gateways say they hold with what Redis holds for them.
//!
//! Both change all the time. A gateway numbers its calls to a slice, and Redis keeps the number of the last call in the
//! gateway's entry. If both sides have the same number, before and after the audit reads the held set, they must agree
//! to the last member. Otherwise the audit tries the slice again. A slice that never stays unchanged is restless.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::TryStreamExt;
use tokio::time::sleep;

use super::finding::{AuditFinding, FindingKind};
use super::paging::each_page;
use super::scan::{KeysByLive, slice_id};
use crate::base::ids::{Epoch, GatewayId, LiveId, SliceId, UserId};
use crate::cli::gateways::GatewayApi;
use crate::edge::http::gateway::SliceHeld;
use crate::store::Fence;
use crate::store::redis::RedisStore;
use crate::store::{LiveStore, Slices, StoreResult};

/// How often the audit tries a slice that keeps changing.
const TRIES: u32 = 12;

/// The time between two tries: an odd number, so that the tries do not fall into step with flushes.
const BETWEEN: Duration = Duration::from_millis(37);

/// A gateway that answered what it holds.
#[derive(Debug)]
pub(super) struct AskedGateway {
    api: GatewayApi,
    pub id: GatewayId,
    /// The slices in which it says it has an entry.
    slices: HashSet<SliceId>,
    /// How many slices the audit compared.
    pub compared: u64,
    /// How many slices never stayed unchanged.
    pub restless: u64,
}

/// Asks every gateway what it holds. A gateway that does not answer is a finding.
pub(super) async fn ask(gateways: Vec<GatewayApi>) -> (Vec<AskedGateway>, Vec<AuditFinding>) {
    let (mut asked, mut findings): (Vec<AskedGateway>, Vec<AuditFinding>) = (Vec::new(), Vec::new());
    for api in gateways {
        let url = api.url.clone();
        match ask_one(api).await {
            // A gateway that was given under two addresses counts once.
            Ok(gateway) if asked.iter().any(|other| other.id == gateway.id) => {}
            Ok(gateway) => asked.push(gateway),
            Err(why) => {
                findings.push(AuditFinding::new(
                    FindingKind::GatewayUnreachable,
                    format!("{url} cannot be asked: {why:#}"),
                ));
            }
        }
    }
    (asked, findings)
}

async fn ask_one(api: GatewayApi) -> anyhow::Result<AskedGateway> {
    let (mut id, mut slices) = (String::new(), HashSet::new());
    each_page(String::new(), async |cursor| {
        let page = api.slices(&cursor).await?;
        for held in page.items {
            slices.insert(slice_id(&LiveId::parse(&held.live_id)?, (held.slices > 1).then_some(held.slice)));
        }
        id = page.gateway_id;
        anyhow::Ok(page.cursor)
    })
    .await?;
    Ok(AskedGateway { api, id: GatewayId::parse(&id)?, slices, compared: 0, restless: 0 })
}

/// Compares every slice that a gateway says it holds, or in which Redis has a held set of the gateway.
pub(super) async fn compare(
    store: &RedisStore,
    asked: &mut [AskedGateway],
    keys: &KeysByLive,
) -> StoreResult<Vec<AuditFinding>> {
    let mut findings = Vec::new();
    for gateway in asked {
        let mut slices = gateway.slices.clone();
        let stored = keys.values().flat_map(|keys| &keys.slices);
        slices.extend(stored.filter(|(_, held)| held.contains(&gateway.id)).map(|(slice, _)| slice.clone()));
        for slice in slices {
            match compare_slice(store, gateway, &slice).await? {
                Comparison::Same => gateway.compared += 1,
                Comparison::Restless => gateway.restless += 1,
                Comparison::Gone => {}
                Comparison::Differs(finding) => {
                    gateway.compared += 1;
                    findings.push(finding);
                }
            }
        }
    }
    Ok(findings)
}

/// Compares the slices of earlier findings again, and answers those that still differ.
pub(super) async fn confirm(
    store: &RedisStore,
    asked: &[AskedGateway],
    before: &[AuditFinding],
) -> StoreResult<Vec<AuditFinding>> {
    let mut findings = Vec::new();
    for AuditFinding { subject, .. } in before.iter().filter(|finding| finding.kind == FindingKind::GatewayDrift) {
        let gateway = asked.iter().find(|gateway| subject.gateway_id.as_ref() == Some(&gateway.id));
        let (Some(gateway), Some(slice)) = (gateway, &subject.slice) else { continue };
        if let Comparison::Differs(finding) = compare_slice(store, gateway, slice).await? {
            findings.push(finding);
        }
    }
    Ok(findings)
}

/// The outcome for one slice of one gateway.
enum Comparison {
    Same,
    /// It never stayed unchanged.
    Restless,
    /// Neither side has it any more, or its epoch is over.
    Gone,
    Differs(AuditFinding),
}

/// What Redis holds for a gateway in a slice.
#[derive(Debug)]
struct Stored {
    number: u64,
    epoch: Epoch,
    members: u64,
    digest: u64,
}

async fn compare_slice(store: &RedisStore, gateway: &AskedGateway, slice: &SliceId) -> StoreResult<Comparison> {
    let differs = |detail: String, members: u64| {
        let finding = AuditFinding::new(FindingKind::GatewayDrift, detail).slice(slice).gateway(&gateway.id);
        Comparison::Differs(finding.members(members))
    };
    for attempt in 0..TRIES {
        if attempt > 0 {
            sleep(BETWEEN).await;
        }
        let Some((number, _)) = entry(store, slice, &gateway.id).await? else {
            let Ok(said) = gateway.api.slice(&gateway.id, slice).await else { continue };
            let Some(said) = said else { return Ok(Comparison::Gone) };
            // The gateway may be about to register; or its epoch is over, and it has not seen the record yet.
            if !said.settled || attempt + 1 < TRIES {
                continue;
            }
            let open = store.load_live(&slice.live).await?.is_some_and(|record| record.epoch == Epoch(said.epoch));
            let held = said.members.unwrap_or(0);
            let detail = format!("it says that it holds {held} members, but Redis has no entry of it");
            return Ok(if open { differs(detail, held) } else { Comparison::Gone });
        };
        let Some(stored) = read(store, slice, &gateway.id, number).await? else { continue };
        // The gateway is asked after the held set was read. If the numbers match, no call came in between.
        let Ok(said) = gateway.api.slice(&gateway.id, slice).await else { continue };
        match said {
            Some(said) if said.settled && said.number == Some(stored.number) => {
                return Ok(difference(&said, &stored).map_or(Comparison::Same, |(detail, by)| differs(detail, by)));
            }
            // A gateway that let go of a slice leaves its entry there.
            None if stored.members == 0 => return Ok(Comparison::Gone),
            None if attempt + 1 == TRIES => {
                let detail =
                    format!("Redis has an entry of it with {} members, but it says that it has none", stored.members);
                return Ok(differs(detail, stored.members));
            }
            _ => {}
        }
    }
    Ok(Comparison::Restless)
}

/// How a gateway and Redis differ after the same call, and by how many members at least.
fn difference(said: &SliceHeld, stored: &Stored) -> Option<(String, u64)> {
    let members = said.members.unwrap_or(0);
    let digest = format!("{:016x}", stored.digest);
    if members == stored.members && said.digest.as_ref() == Some(&digest) && said.epoch == stored.epoch.0 {
        return None;
    }
    let detail = format!(
        "after call {} it says that it holds {members} members of epoch {}, but Redis has {} of epoch {}{}",
        stored.number,
        said.epoch,
        stored.members,
        stored.epoch,
        if members == stored.members { ", others" } else { "" }
    );
    Some((detail, members.abs_diff(stored.members).max(1)))
}

/// The number and the epoch of a gateway's entry.
async fn entry(store: &RedisStore, slice: &SliceId, gateway: &GatewayId) -> StoreResult<Option<(u64, Epoch)>> {
    let inside = store.inspect_slice(slice).await?;
    let epoch = inside.fence.map_or(Epoch(0), Fence::epoch);
    Ok(inside.entries.iter().find(|(name, _)| name == gateway).map(|(_, number)| (*number, epoch)))
}

/// The held set of a gateway; `None` if a call changed it meanwhile.
async fn read(store: &RedisStore, slice: &SliceId, gateway: &GatewayId, number: u64) -> StoreResult<Option<Stored>> {
    // A scan may show a user twice. Hashes need less memory than the names of a big set.
    let mut hashes = HashSet::new();
    let mut pages = store.held_pages(slice, gateway);
    while let Some(page) = pages.try_next().await? {
        hashes.extend(page.users.iter().map(UserId::xxh3));
    }
    let digest = hashes.iter().fold(0_u64, |sum, hash| sum.wrapping_add(*hash));
    let after = entry(store, slice, gateway).await?.filter(|(after, _)| *after == number);
    Ok(after.map(|(number, epoch)| Stored { number, epoch, members: hashes.len() as u64, digest }))
}
