//! Finds the masters: asks a cluster's nodes for the slots, or sentinels for the address of the
//! master. Every question has a deadline. A server that does not answer is skipped.

use futures_util::future::join_all;

use fred::types::Value;

use super::args;
use super::client::Connector;
use super::errors::judge;
use super::node::Node;
use super::reply::{Reply, nonsense};
use super::slots::{SlotMap, SlotRange, read_epoch, read_ranges};
use crate::base::redis_address::{Address, Host, Layout};
use crate::store::{StoreError, StoreResult};

/// The slots of a cluster, as one of its nodes knows them.
struct SeedMap {
    epoch: Option<u64>,
    ranges: Vec<SlotRange>,
}

/// The slots that each master serves now. `known` is the last map.
pub(crate) async fn slot_ranges(
    connector: &Connector,
    known: Option<&SlotMap>,
) -> StoreResult<Vec<SlotRange>> {
    let Address { layout, hosts, .. } = connector.address();
    match layout {
        Layout::Single => Ok(vec![SlotRange::all(hosts[0].clone())]),
        Layout::Sentinel(service) => {
            let host = master(connector, hosts, service).await?;
            Ok(vec![SlotRange::all(host)])
        }
        Layout::Cluster => match of_nodes(known).await {
            Some(ranges) => Ok(ranges),
            None => of_seeds(connector, hosts).await,
        },
    }
}

/// Asks the known nodes. Among those that answer, the node with the latest epoch is right: a node
/// that is cut off from the others still has the old map.
async fn of_nodes(known: Option<&SlotMap>) -> Option<Vec<SlotRange>> {
    let mut asking = Vec::new();
    for node in known?.nodes() {
        if node.is_up() {
            asking.push(ask_epoch(node));
        }
    }
    let mut answers: Vec<(u64, &Node)> = join_all(asking).await.into_iter().flatten().collect();
    answers.sort_by_key(|(epoch, _)| std::cmp::Reverse(*epoch));
    for (_, node) in answers {
        let Ok(answer) = node.ask("CLUSTER", args!["SLOTS"]).await else {
            continue;
        };
        match read_ranges(answer, node.host()) {
            Ok(ranges) if !ranges.is_empty() => return Some(ranges),
            _ => {}
        }
    }
    None
}

/// A node with the epoch that it knows; `None` if it does not answer.
async fn ask_epoch(node: &Node) -> Option<(u64, &Node)> {
    let info = node.ask("CLUSTER", args!["INFO"]).await.ok()?;
    Some((read_epoch(&info)?, node))
}

/// Asks the hosts of the URL. The host with the latest epoch is right; if none knows the slots, the
/// last error counts.
async fn of_seeds(connector: &Connector, seeds: &[Host]) -> StoreResult<Vec<SlotRange>> {
    let mut asking = Vec::with_capacity(seeds.len());
    for host in seeds {
        asking.push(ask_seed(connector, host));
    }
    let mut best: StoreResult<SeedMap> = Err(StoreError::Lost("no node answers".to_owned()));
    for read in join_all(asking).await {
        let is_better = match (&best, &read) {
            (Ok(old), Ok(new)) => new.epoch > old.epoch,
            (Ok(_), Err(_)) => false,
            (Err(_), _) => true,
        };
        if is_better {
            best = read;
        }
    }
    Ok(best?.ranges)
}

async fn ask_seed(connector: &Connector, host: &Host) -> StoreResult<SeedMap> {
    let info = connector
        .ask_once(host, "CLUSTER", args!["INFO"])
        .await
        .map_err(|error| judge(&error))?;
    let slots = connector
        .ask_once(host, "CLUSTER", args!["SLOTS"])
        .await
        .map_err(|error| judge(&error))?;
    let ranges = read_ranges(slots, host)?;
    if ranges.is_empty() {
        return Err(no_slots(host));
    }
    Ok(SeedMap {
        epoch: read_epoch(&info),
        ranges,
    })
}

fn no_slots(host: &Host) -> StoreError {
    StoreError::Refused(format!("CLUSTERDOWN the cluster of {host} serves no slots"))
}

/// The master that most sentinels name. A sentinel that is cut off still names the old one.
async fn master(connector: &Connector, sentinels: &[Host], service: &str) -> StoreResult<Host> {
    let mut asking = Vec::with_capacity(sentinels.len());
    for host in sentinels {
        asking.push(ask_master(connector, host, service));
    }
    let mut votes: Vec<(Host, usize)> = Vec::new();
    let mut trouble = StoreError::Lost("no sentinel answers".to_owned());
    for answer in join_all(asking).await {
        match answer {
            Ok(host) => match votes.iter_mut().find(|(known, _)| *known == host) {
                Some((_, votes)) => *votes += 1,
                None => votes.push((host, 1)),
            },
            Err(error) => trouble = error,
        }
    }
    // `max_by_key` takes the last of several equals. In reverse, that is the first in the order of
    // the URL.
    let most = votes.into_iter().rev().max_by_key(|(_, votes)| *votes);
    match most {
        Some((host, _)) => Ok(host),
        None => Err(trouble),
    }
}

async fn ask_master(connector: &Connector, sentinel: &Host, service: &str) -> StoreResult<Host> {
    let args = args!["GET-MASTER-ADDR-BY-NAME", service];
    let answer = connector
        .ask_sentinel(sentinel, "SENTINEL", args)
        .await
        .map_err(|error| judge(&error))?;
    read_master(answer, service)
}

fn read_master(answer: Value, service: &str) -> StoreResult<Host> {
    if answer.is_null() {
        return Err(StoreError::Refused(format!(
            "the sentinel knows no master of the name {service}"
        )));
    }
    let mut pieces = Reply::of(answer)?;
    let name = pieces.text()?;
    let port = u16::try_from(pieces.number()?).map_err(|_| nonsense("a port"))?;
    Ok(Host::new(name, port))
}
