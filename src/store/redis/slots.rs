//! Owns the map from hash slots to masters: pure, read from what a cluster says of itself.

use std::sync::Arc;

use fred::types::Value;

use super::address::Host;
use super::node::Node;
use super::reply::{Reply, nonsense, number};
use crate::store::StoreResult;

/// Slots of a cluster.
const SLOTS: u16 = 16_384;
/// Nobody's slot.
const NOBODY: u16 = u16::MAX;

/// Slots in a row that one master serves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Share {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) host: Host,
}

impl Share {
    /// Every slot.
    pub(super) fn all(host: Host) -> Self {
        Self { first: 0, last: SLOTS - 1, host }
    }
}

/// Which master serves which slot. Never changed: a new one takes its place.
#[derive(Debug)]
pub(super) struct SlotMap {
    shares: Vec<Share>,
    nodes: Vec<Arc<Node>>,
    owners: Vec<u16>,
}

impl SlotMap {
    /// The shares, which name no host that is not among the nodes.
    pub(super) fn new(shares: Vec<Share>, nodes: Vec<Arc<Node>>) -> Self {
        let mut owners = vec![NOBODY; usize::from(SLOTS)];
        for share in &shares {
            let place = nodes.iter().position(|node| *node.host() == share.host);
            let place = place.and_then(|place| u16::try_from(place).ok()).unwrap_or(NOBODY);
            for owner in owners.iter_mut().take(usize::from(share.last) + 1).skip(usize::from(share.first)) {
                *owner = place;
            }
        }
        Self { shares, nodes, owners }
    }

    pub(super) fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        self.owners.get(usize::from(slot)).and_then(|place| self.nodes.get(usize::from(*place)))
    }

    pub(super) fn at(&self, host: &Host) -> Option<&Arc<Node>> {
        self.nodes.iter().find(|node| node.host() == host)
    }

    pub(super) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    pub(super) fn shares(&self) -> &[Share] {
        &self.shares
    }
}

/// The slot of a key: of the part in braces if there is one.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    fred::util::redis_keyslot(key)
}

/// Reads what CLUSTER SLOTS says. A node that does not know its own name means the host that was asked.
pub(super) fn read_shares(answer: Value, asked: &Host) -> StoreResult<Vec<Share>> {
    let mut rows = Reply::of(answer)?;
    let mut shares = Vec::new();
    while let Some(row) = rows.piece() {
        let mut row = Reply::of(row)?;
        let (first, last) = (slot_number(row.number()?)?, slot_number(row.number()?)?);
        let mut master = Reply::of(row.piece().ok_or_else(|| nonsense("slots without a master"))?)?;
        let name = master.piece().and_then(|name| name.as_string());
        let name = name.filter(|name| !name.is_empty() && name != "?").unwrap_or_else(|| asked.name.clone());
        let port = master.piece().ok_or_else(|| nonsense("a master without a port"))?;
        let port = u16::try_from(number(&port)?).map_err(|_| nonsense("a port"))?;
        shares.push(Share { first, last, host: Host::new(name, port) });
    }
    shares.sort();
    Ok(shares)
}

/// Reads the epoch out of CLUSTER INFO: of two answers, the one of the later epoch is to be believed.
pub(super) fn read_epoch(answer: &Value) -> Option<u64> {
    let text = answer.as_str()?;
    text.lines().find_map(|line| line.strip_prefix("cluster_current_epoch:")?.trim().parse().ok())
}

fn slot_number(n: u64) -> StoreResult<u16> {
    u16::try_from(n).ok().filter(|slot| *slot < SLOTS).ok_or_else(|| nonsense("a slot's number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(pieces: impl IntoIterator<Item = Value>) -> Value {
        Value::Array(pieces.into_iter().collect())
    }

    #[test]
    fn a_clusters_answer_is_read() {
        let master = |name: Value, port: i64| list([name, Value::from(port), Value::from("id"), list([])]);
        let answer = list([
            list([Value::from(5461), Value::from(16383), master(Value::from("10.0.0.2"), 7001)]),
            list([Value::from(0), Value::from(5460), master(Value::Null, 7000), master(Value::from("r"), 1)]),
        ]);
        let shares = read_shares(answer, &Host::new("asked", 1)).unwrap();
        let expected = [
            Share { first: 0, last: 5460, host: Host::new("asked", 7000) },
            Share { first: 5461, last: 16383, host: Host::new("10.0.0.2", 7001) },
        ];
        assert_eq!(shares, expected);
        let wrong = list([list([Value::from(0), Value::from(16384), master(Value::Null, 7000)])]);
        assert!(read_shares(wrong, &Host::new("asked", 1)).is_err());
    }

    #[test]
    fn the_epoch_is_read() {
        let info = Value::from("cluster_state:ok\r\ncluster_current_epoch:6\r\ncluster_my_epoch:2\r\n");
        assert_eq!(read_epoch(&info), Some(6));
        assert_eq!(read_epoch(&Value::Null), None);
    }
}
