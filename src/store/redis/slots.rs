//! The map from hash slots to masters: pure, read from what a cluster says of itself.

use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

use fred::types::Value;

use super::keys::Keys;
use super::node::Node;
use super::reply::{Reply, nonsense};
use crate::base::redis_address::Host;
use crate::store::{Channel, StoreResult};

/// Slots of a cluster.
const SLOTS: u16 = 16_384;
/// How many names are tried to find a key on a server; enough for a server of a single slot.
const MAX_CANARIES: u32 = 1_000_000;

/// Slots in a row that one master serves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SlotRange {
    pub(super) first: u16,
    pub(super) last: u16,
    pub(super) host: Host,
}

impl SlotRange {
    /// Every slot.
    pub(super) fn all(host: Host) -> Self {
        Self {
            first: 0,
            last: SLOTS - 1,
            host,
        }
    }
}

/// Which master serves which slot. Never changed: a new one takes its place.
#[derive(Debug)]
pub(super) struct SlotMap {
    ranges: Vec<SlotRange>,
    nodes: Vec<Arc<Node>>,
    /// The place of each slot's node; the place after the last where nobody serves it.
    owners: Arc<[u16]>,
    /// The number of each node's channel of beats, by the node's place.
    beats: OnceLock<Vec<Option<u32>>>,
}

impl SlotMap {
    /// The ranges, which name no host that is not among the nodes.
    pub(super) fn new(ranges: Vec<SlotRange>, nodes: Vec<Arc<Node>>) -> Self {
        let number = |place: usize| u16::try_from(place).unwrap_or(u16::MAX);
        let nobody = number(nodes.len());
        let mut owners = vec![nobody; usize::from(SLOTS)];
        for range in &ranges {
            let place = nodes
                .iter()
                .position(|node| *node.host() == range.host)
                .map_or(nobody, number);
            for owner in owners
                .iter_mut()
                .take(usize::from(range.last) + 1)
                .skip(usize::from(range.first))
            {
                *owner = place;
            }
        }
        Self {
            ranges,
            nodes,
            owners: owners.into(),
            beats: OnceLock::new(),
        }
    }

    pub(super) fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        self.owners
            .get(usize::from(slot))
            .and_then(|place| self.nodes.get(usize::from(*place)))
    }

    pub(super) fn at(&self, host: &Host) -> Option<&Arc<Node>> {
        self.nodes.iter().find(|node| node.host() == host)
    }

    pub(super) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    pub(super) fn ranges(&self) -> &[SlotRange] {
        &self.ranges
    }

    pub(super) fn owners(&self) -> Arc<[u16]> {
        Arc::clone(&self.owners)
    }

    /// The slots that a server has.
    pub(super) fn slots_at(&self, host: &Host) -> Vec<RangeInclusive<u16>> {
        let here = self.ranges.iter().filter(|range| range.host == *host);
        here.map(|range| range.first..=range.last).collect()
    }

    /// The slots that a server has; none while it is down.
    pub(super) fn slots_if_up(&self, host: &Host) -> Vec<RangeInclusive<u16>> {
        if self.at(host).is_some_and(|node| node.is_up()) {
            self.slots_at(host)
        } else {
            Vec::new()
        }
    }

    /// The slots that had another owner before, or none, or have none now.
    pub(super) fn moved_since(&self, before: &Self) -> Vec<RangeInclusive<u16>> {
        let moved = (0..SLOTS).filter(|slot| self.host_of(*slot) != before.host_of(*slot));
        let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
        for slot in moved {
            match ranges.last_mut() {
                Some(last) if *last.end() + 1 == slot => *last = *last.start()..=slot,
                _ => ranges.push(slot..=slot),
            }
        }
        ranges
    }

    fn host_of(&self, slot: u16) -> Option<&Host> {
        self.owner(slot).map(|node| node.host())
    }

    /// The number of a server's channel of beats. All gateways with the same map find the same one.
    pub(super) fn beats_at(&self, host: &Host, keys: &Keys) -> Option<u32> {
        let place = self.nodes.iter().position(|node| node.host() == host)?;
        let find = |node: &Arc<Node>| {
            let is_here = |n: &u32| {
                let name = keys.channel(&Channel::Beats(*n));
                self.host_of(slot_of(name.as_bytes())) == Some(node.host())
            };
            (0..MAX_CANARIES).find(is_here)
        };
        self.beats
            .get_or_init(|| self.nodes.iter().map(find).collect())
            .get(place)
            .copied()
            .flatten()
    }

    /// The canary of a cluster's server: its last one while the server still serves it, or else the
    /// first name that it serves.
    pub(super) fn canary_at(
        &self,
        host: &Host,
        last: Option<String>,
        keys: &Keys,
    ) -> Option<String> {
        let is_here = |key: &String| self.host_of(slot_of(key.as_bytes())) == Some(host);
        last.filter(is_here).or_else(|| {
            (0..MAX_CANARIES)
                .map(|n| keys.canary_of_master(n))
                .find(is_here)
        })
    }
}

/// The slot of a key: of the part in braces if there is one.
pub(super) fn slot_of(key: &[u8]) -> u16 {
    fred::util::redis_keyslot(key)
}

/// Reads what CLUSTER SLOTS says. A node that does not know its own name means the host that was
/// asked.
pub(super) fn read_ranges(answer: Value, asked: &Host) -> StoreResult<Vec<SlotRange>> {
    let mut rows = Reply::of(answer)?;
    let mut ranges = Vec::new();
    while let Some(row) = rows.piece() {
        let mut row = Reply::of(row)?;
        let (first, last) = (slot_number(row.number()?)?, slot_number(row.number()?)?);
        let mut master = row.list()?;
        let name = master.piece().and_then(|name| name.as_string());
        let name = name
            .filter(|name| !name.is_empty() && name != "?")
            .unwrap_or_else(|| asked.name.clone());
        let port = u16::try_from(master.number()?).map_err(|_| nonsense("a port"))?;
        ranges.push(SlotRange {
            first,
            last,
            host: Host::new(name, port),
        });
    }
    ranges.sort();
    Ok(ranges)
}

/// Reads the epoch out of CLUSTER INFO: of two answers, the one of the later epoch is to be
/// believed.
pub(super) fn read_epoch(answer: &Value) -> Option<u64> {
    let text = answer.as_str()?;
    text.lines().find_map(|line| {
        line.strip_prefix("cluster_current_epoch:")?
            .trim()
            .parse()
            .ok()
    })
}

fn slot_number(n: u64) -> StoreResult<u16> {
    u16::try_from(n)
        .ok()
        .filter(|slot| *slot < SLOTS)
        .ok_or_else(|| nonsense("a slot's number"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(pieces: impl IntoIterator<Item = Value>) -> Value {
        Value::Array(pieces.into_iter().collect())
    }

    #[test]
    fn a_clusters_answer_is_read() {
        let master =
            |name: Value, port: i64| list([name, Value::from(port), Value::from("id"), list([])]);
        let answer = list([
            list([
                Value::from(5461),
                Value::from(16383),
                master(Value::from("10.0.0.2"), 7001),
            ]),
            list([
                Value::from(0),
                Value::from(5460),
                master(Value::Null, 7000),
                master(Value::from("r"), 1),
            ]),
        ]);
        let ranges = read_ranges(answer, &Host::new("asked", 1)).unwrap();
        let expected = [
            SlotRange {
                first: 0,
                last: 5460,
                host: Host::new("asked", 7000),
            },
            SlotRange {
                first: 5461,
                last: 16383,
                host: Host::new("10.0.0.2", 7001),
            },
        ];
        assert_eq!(ranges, expected);
        let wrong = list([list([
            Value::from(0),
            Value::from(16384),
            master(Value::Null, 7000),
        ])]);
        assert!(read_ranges(wrong, &Host::new("asked", 1)).is_err());
    }

    #[test]
    fn the_epoch_is_read() {
        let info =
            Value::from("cluster_state:ok\r\ncluster_current_epoch:6\r\ncluster_my_epoch:2\r\n");
        assert_eq!(read_epoch(&info), Some(6));
        assert_eq!(read_epoch(&Value::Null), None);
    }
}
