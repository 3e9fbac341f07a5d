//! Finds the masters: asks a cluster's nodes for the slots, or sentinels for the address of the
//! master. Every question has a deadline; a server that does not answer is skipped.

use futures_util::future::join_all;

use fred::error::Error;
use fred::types::Value;

use super::args;
use super::client::Connector;
use super::errors::judge;
use super::reply::{Reply, nonsense};
use super::slots::{SlotMap, SlotRange, read_epoch, read_ranges};
use crate::base::redis_address::{Address, Host, Layout};
use crate::store::{StoreError, StoreResult};

/// The slots that each master serves now. `known` is the last map.
pub(super) async fn slot_ranges(
    connector: &Connector,
    known: Option<&SlotMap>,
) -> StoreResult<Vec<SlotRange>> {
    let Address { layout, hosts, .. } = connector.address();
    match layout {
        Layout::Single => Ok(vec![SlotRange::all(hosts[0].clone())]),
        Layout::Sentinel(service) => master(connector, hosts, service)
            .await
            .map(|host| vec![SlotRange::all(host)]),
        Layout::Cluster => match of_nodes(known).await {
            Some(ranges) => Ok(ranges),
            None => of_seeds(connector, hosts).await,
        },
    }
}

/// Of the nodes that answer, the one with the latest epoch is right: a node that is cut off from
/// the others still has the old map.
async fn of_nodes(known: Option<&SlotMap>) -> Option<Vec<SlotRange>> {
    let nodes = known
        .map(SlotMap::nodes)
        .unwrap_or_default()
        .iter()
        .filter(|node| node.is_up());
    let asking = nodes.map(|node| async move {
        let info = node.ask("CLUSTER", args!["INFO"]).await.ok()?;
        Some((read_epoch(&info)?, node))
    });
    let mut answers: Vec<_> = join_all(asking).await.into_iter().flatten().collect();
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

async fn of_seeds(connector: &Connector, seeds: &[Host]) -> StoreResult<Vec<SlotRange>> {
    let asking = seeds.iter().map(|host| async move {
        let info = connector.ask_once(host, ("CLUSTER", args!["INFO"])).await?;
        let slots = connector
            .ask_once(host, ("CLUSTER", args!["SLOTS"]))
            .await?;
        Ok::<_, Error>((read_epoch(&info), host, slots))
    });
    let mut best: StoreResult<(Option<u64>, Vec<SlotRange>)> =
        Err(StoreError::Lost("no node answers".to_owned()));
    for answer in join_all(asking).await {
        let read = answer
            .map_err(|error| judge(&error))
            .and_then(|(epoch, host, slots)| {
                let ranges = read_ranges(slots, host)?;
                if ranges.is_empty() {
                    Err(no_slots(host))
                } else {
                    Ok((epoch, ranges))
                }
            });
        match (&best, &read) {
            (Ok((old, _)), Ok((new, _))) if new > old => best = read,
            (Err(_), _) => best = read,
            _ => {}
        }
    }
    best.map(|(_, ranges)| ranges)
}

fn no_slots(host: &Host) -> StoreError {
    StoreError::Refused(format!("CLUSTERDOWN the cluster of {host} serves no slots"))
}

/// The master that most sentinels name: a sentinel that is cut off still names the old one.
async fn master(connector: &Connector, sentinels: &[Host], service: &str) -> StoreResult<Host> {
    let question = || args!["GET-MASTER-ADDR-BY-NAME", service];
    let asking = sentinels
        .iter()
        .map(|host| connector.ask_sentinel(host, ("SENTINEL", question())));
    let mut votes: Vec<(Host, usize)> = Vec::new();
    let mut trouble = StoreError::Lost("no sentinel answers".to_owned());
    for answer in join_all(asking).await {
        match answer
            .map_err(|error| judge(&error))
            .and_then(|answer| read_master(answer, service))
        {
            Ok(host) => match votes.iter_mut().find(|(known, _)| *known == host) {
                Some((_, votes)) => *votes += 1,
                None => votes.push((host, 1)),
            },
            Err(error) => trouble = error,
        }
    }
    // Among equals the first in the order of the URL.
    let most = votes.into_iter().rev().max_by_key(|(_, votes)| *votes);
    most.map(|(host, _)| host).ok_or(trouble)
}

fn read_master(answer: Value, service: &str) -> StoreResult<Host> {
    if answer.is_null() {
        return Err(StoreError::Refused(format!(
            "the sentinel knows no master of the name {service}"
        )));
    }
    let mut pieces = Reply::of(answer)?;
    let (name, port) = (pieces.text()?, pieces.number()?);
    let port = u16::try_from(port).map_err(|_| nonsense("a port"))?;
    Ok(Host::new(name, port))
}
