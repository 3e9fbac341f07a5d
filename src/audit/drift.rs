//! Owns the comparison of what gateways say they hold with what the store holds for them.
//!
//! Both change all the time. A gateway's calls to a slice are numbered, and the store's entry keeps the number of the
//! last one: with the same number on both sides, before and after what is held was read, the two must agree to the last
//! member. A slice that changes too fast for that is tried again, and counted as not compared if it never holds still.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::TryStreamExt;
use tokio::time::sleep;

use super::finding::{Finding, Kind};
use super::gateways::GatewayUrl;
use super::survey::place;
use crate::api::gateway::SliceHeld;
use crate::ids::{Epoch, GatewayId, LiveId, SliceId};
use crate::store::redis::RedisStore;
use crate::store::slice::Fence;
use crate::store::{LiveStore, Slices, StoreResult};

/// How often a slice that does not hold still is tried.
const TRIES: u32 = 12;

/// Between two tries; apart from the tries themselves, so that they do not fall into step with flushes.
const BETWEEN: Duration = Duration::from_millis(37);

/// A gateway that was asked.
#[derive(Debug)]
pub(super) struct Asked {
    pub url: GatewayUrl,
    pub id: GatewayId,
    /// Slices in which it says that it has an entry.
    pub slices: BTreeSet<(LiveId, u32, u32)>,
}

/// What a comparison came to.
#[derive(Debug, Default)]
pub(super) struct Compared {
    /// Per gateway: slices that were compared, and slices that never held still.
    pub counts: BTreeMap<GatewayId, (u64, u64)>,
    pub findings: Vec<Finding>,
}

/// Asks every gateway what it holds. Who cannot be asked is a finding.
pub(super) async fn ask(urls: &[GatewayUrl]) -> (Vec<Asked>, Vec<Finding>) {
    let (mut asked, mut findings): (Vec<Asked>, Vec<Finding>) = (Vec::new(), Vec::new());
    for url in urls {
        match ask_one(url).await {
            // The same one under two names is asked once.
            Ok(one) if asked.iter().any(|other| other.id == one.id) => {}
            Ok(one) => asked.push(one),
            Err(why) => {
                findings.push(Finding::nowhere(Kind::GatewayUnreachable, format!("{url} cannot be asked: {why:#}")))
            }
        }
    }
    (asked, findings)
}

async fn ask_one(url: &GatewayUrl) -> anyhow::Result<Asked> {
    let mut slices = BTreeSet::new();
    let mut cursor: Option<String> = None;
    loop {
        let page = url.slices(cursor.as_deref()).await?;
        for held in page.items {
            slices.insert((LiveId::parse(&held.live_id)?, held.slices, held.slice));
        }
        cursor = page.cursor;
        if cursor.is_none() {
            return Ok(Asked { url: url.clone(), id: GatewayId::parse(&page.gateway_id)?, slices });
        }
    }
}

/// Compares every slice that a gateway says it holds, and every one in which the store has something of it.
pub(super) async fn compare(
    store: &RedisStore,
    asked: &[Asked],
    stored: &BTreeMap<LiveId, super::survey::LiveKeys>,
) -> StoreResult<Compared> {
    let mut compared = Compared::default();
    for gateway in asked {
        let mut slices = gateway.slices.clone();
        for (live, keys) in stored {
            let held = keys.slices.iter().filter(|(_, held)| held.contains(&gateway.id));
            let named = held.map(|(index, _)| place(live, *index));
            // Of how many slices it is one says the record; the key, and so the comparison, is the same.
            let known = |slice: &SliceId| {
                gateway.slices.iter().any(|(l, of, i)| l == live && *i == slice.index && (*of > 1) == (slice.of > 1))
            };
            let unknown: Vec<SliceId> = named.filter(|slice| !known(slice)).collect();
            slices.extend(unknown.into_iter().map(|slice| (slice.live, slice.of, slice.index)));
        }
        for (live, of, index) in slices {
            let slice = SliceId { live, index, of };
            let outcome = settle(store, gateway, &slice).await?;
            let counts = compared.counts.entry(gateway.id.clone()).or_default();
            match outcome {
                Outcome::Same => counts.0 += 1,
                Outcome::Restless => counts.1 += 1,
                Outcome::Gone => {}
                Outcome::Differs(detail, members) => {
                    counts.0 += 1;
                    let finding = Finding::about(Kind::GatewayDrift, &slice.live, detail).slice(&slice);
                    compared.findings.push(finding.gateway(&gateway.id).members(members));
                }
            }
        }
    }
    Ok(compared)
}

/// Compares once more what was found to differ. What is the same by now is no finding.
pub(super) async fn again(store: &RedisStore, asked: &[Asked], before: Vec<Finding>) -> StoreResult<Vec<Finding>> {
    let mut still = Vec::new();
    for finding in before {
        let gateway = asked.iter().find(|one| finding.gateway_id.as_ref() == Some(&one.id));
        let (Some(gateway), Some(slice)) = (gateway, &finding.place) else { continue };
        if let Outcome::Differs(detail, members) = settle(store, gateway, slice).await? {
            still.push(Finding { detail, members: Some(members), ..finding });
        }
    }
    Ok(still)
}

/// How one slice of one gateway compares.
enum Outcome {
    Same,
    /// It never held still.
    Restless,
    /// Neither has it any more, or the epoch is over.
    Gone,
    /// In what, and by how many members at least.
    Differs(String, u64),
}

/// What the store holds for a gateway in a slice.
#[derive(Debug, PartialEq, Eq)]
struct Stored {
    number: u64,
    epoch: Epoch,
    members: u64,
    digest: u64,
}

async fn settle(store: &RedisStore, gateway: &Asked, slice: &SliceId) -> StoreResult<Outcome> {
    for attempt in 0..TRIES {
        if attempt > 0 {
            sleep(BETWEEN).await;
        }
        let Some((number, _)) = entry(store, slice, &gateway.id).await? else {
            let Ok(said) = gateway.url.slice(&gateway.id, slice).await else { continue };
            let Some(said) = said else { return Ok(Outcome::Gone) };
            // It may be about to register; a dead epoch is let go of with the next look at the record.
            if !said.settled || attempt + 1 < TRIES {
                continue;
            }
            let open = store.load_live(&slice.live).await?.is_some_and(|record| record.epoch == Epoch(said.epoch));
            let held = said.members.unwrap_or(0);
            let detail = format!("it says that it holds {held} members, and the store has no entry of it");
            return Ok(if open { Outcome::Differs(detail, held) } else { Outcome::Gone });
        };
        let Some(stored) = read(store, slice, &gateway.id, number).await? else { continue };
        // Asked again after the reading: what it says now is of the same call if nothing came between.
        let Ok(said) = gateway.url.slice(&gateway.id, slice).await else { continue };
        match said {
            Some(said) if said.settled && said.number == Some(stored.number) => return Ok(judge(&said, &stored)),
            // A gateway that has let go of a slice leaves its entry there.
            None if stored.members == 0 => return Ok(Outcome::Gone),
            None if attempt + 1 == TRIES => {
                let detail =
                    format!("the store has an entry of it with {} members, and it knows of none", stored.members);
                return Ok(Outcome::Differs(detail, stored.members));
            }
            _ => {}
        }
    }
    Ok(Outcome::Restless)
}

fn judge(said: &SliceHeld, stored: &Stored) -> Outcome {
    let members = said.members.unwrap_or(0);
    let digest = format!("{:016x}", stored.digest);
    if members == stored.members && said.digest.as_ref() == Some(&digest) && said.epoch == stored.epoch.0 {
        return Outcome::Same;
    }
    let detail = format!(
        "after call {} it says that it holds {members} members of epoch {}, and the store has {} of epoch {}{}",
        stored.number,
        said.epoch,
        stored.members,
        stored.epoch,
        if members == stored.members { ", others" } else { "" }
    );
    Outcome::Differs(detail, members.abs_diff(stored.members).max(1))
}

/// The number and the epoch of a gateway's entry.
async fn entry(store: &RedisStore, slice: &SliceId, gateway: &GatewayId) -> StoreResult<Option<(u64, Epoch)>> {
    let inside = store.inspect_slice(slice).await?;
    let epoch = inside.fence.map_or(Epoch(0), Fence::epoch);
    Ok(inside.entries.iter().find(|(name, _)| name == gateway).map(|(_, number)| (*number, epoch)))
}

/// What is held, if no call came between.
async fn read(store: &RedisStore, slice: &SliceId, gateway: &GatewayId, number: u64) -> StoreResult<Option<Stored>> {
    let (mut members, mut digest) = (BTreeSet::new(), 0_u64);
    let mut pages = store.held_pages(slice, gateway);
    while let Some(page) = pages.try_next().await? {
        for user in page.users {
            let hash = user.xxh3();
            // A scan may show a user twice. Hashes instead of names: a set that is too big for memory has none of these.
            if members.insert(hash) {
                digest = digest.wrapping_add(hash);
            }
        }
    }
    let after = entry(store, slice, gateway).await?;
    let same = after.filter(|(after, _)| *after == number);
    Ok(same.map(|(number, epoch)| Stored { number, epoch, members: members.len() as u64, digest }))
}
