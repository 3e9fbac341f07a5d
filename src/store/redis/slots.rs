//! The map from hash slots to masters: pure, read from the answers of a cluster.

use std::collections::BTreeSet;
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
/// Maximum names to try for a key on a server; enough for a server of a single slot.
const MAX_CANARIES: u32 = 1_000_000;

/// Slots in a row that one master serves.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SlotRange {
    pub(crate) first: u16,
    pub(crate) last: u16,
    pub(crate) host: Host,
}

impl SlotRange {
    /// Every slot.
    pub(crate) fn all(host: Host) -> Self {
        Self {
            first: 0,
            last: SLOTS - 1,
            host,
        }
    }
}

/// The master of each slot. A map never changes: a new one takes its place.
#[derive(Debug)]
pub(crate) struct SlotMap {
    ranges: Vec<SlotRange>,
    nodes: Vec<Arc<Node>>,
    /// The place of each slot's node; the place after the last where nobody serves it.
    owners: Arc<[u16]>,
    /// The number of each node's echo channel, by the node's place.
    echoes: OnceLock<Vec<Option<u32>>>,
}

impl SlotMap {
    /// The ranges, which name no host that is not among the nodes.
    pub(crate) fn new(ranges: Vec<SlotRange>, nodes: Vec<Arc<Node>>) -> Self {
        let nobody = place_number(nodes.len());
        let mut owners = vec![nobody; usize::from(SLOTS)];
        for range in &ranges {
            let place = nodes.iter().position(|node| *node.host() == range.host);
            let owner_place = match place {
                Some(place) => place_number(place),
                None => nobody,
            };
            for owner in owners
                .iter_mut()
                .take(usize::from(range.last) + 1)
                .skip(usize::from(range.first))
            {
                *owner = owner_place;
            }
        }
        Self {
            ranges,
            nodes,
            owners: owners.into(),
            echoes: OnceLock::new(),
        }
    }

    pub(crate) fn owner(&self, slot: u16) -> Option<&Arc<Node>> {
        let place = *self.owners.get(usize::from(slot))?;
        self.nodes.get(usize::from(place))
    }

    pub(crate) fn at(&self, host: &Host) -> Option<&Arc<Node>> {
        self.nodes.iter().find(|node| node.host() == host)
    }

    pub(crate) fn nodes(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    pub(crate) fn ranges(&self) -> &[SlotRange] {
        &self.ranges
    }

    pub(crate) fn owners(&self) -> Arc<[u16]> {
        Arc::clone(&self.owners)
    }

    /// The slots that a server has.
    pub(crate) fn slots_at(&self, host: &Host) -> Vec<RangeInclusive<u16>> {
        let here = self.ranges.iter().filter(|range| range.host == *host);
        here.map(|range| range.first..=range.last).collect()
    }

    /// The slots that a server has; none while it is down.
    pub(crate) fn slots_if_up(&self, host: &Host) -> Vec<RangeInclusive<u16>> {
        match self.at(host) {
            Some(node) if node.is_up() => self.slots_at(host),
            _ => Vec::new(),
        }
    }

    /// The slots that had another owner before, or none, or have none now.
    pub(crate) fn moved_since(&self, before: &Self) -> Vec<RangeInclusive<u16>> {
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

    /// The number of a server's echo channel. All gateways with the same map find the same one.
    pub(crate) fn echo_at(&self, host: &Host, keys: &Keys) -> Option<u32> {
        let place = self.nodes.iter().position(|node| node.host() == host)?;
        *self.echoes(keys).get(place)?
    }

    /// The numbers of the echo channels of all servers.
    pub(crate) fn echo_channels(&self, keys: &Keys) -> BTreeSet<u32> {
        self.echoes(keys).iter().flatten().copied().collect()
    }

    fn echoes(&self, keys: &Keys) -> &[Option<u32>] {
        self.echoes.get_or_init(|| {
            self.nodes
                .iter()
                .map(|node| self.find_echo(node.host(), keys))
                .collect()
        })
    }

    /// The first number whose echo channel this server serves.
    fn find_echo(&self, host: &Host, keys: &Keys) -> Option<u32> {
        (0..MAX_CANARIES).find(|n| self.serves(host, &keys.channel(&Channel::Echo(*n))))
    }

    /// Whether this server serves the key, or the channel of this name.
    fn serves(&self, host: &Host, key: &str) -> bool {
        self.host_of(slot_of(key.as_bytes())) == Some(host)
    }

    /// The canary of a cluster's server: its last one while the server still serves it, or else the
    /// first name that it serves.
    pub(crate) fn canary_at(
        &self,
        host: &Host,
        last: Option<String>,
        keys: &Keys,
    ) -> Option<String> {
        if let Some(last) = last
            && self.serves(host, &last)
        {
            return Some(last);
        }
        (0..MAX_CANARIES)
            .map(|n| keys.canary_of_master(n))
            .find(|key| self.serves(host, key))
    }
}

/// The place of a node as an element of the map's owners.
fn place_number(place: usize) -> u16 {
    u16::try_from(place).unwrap_or(u16::MAX)
}

/// The slot of a key; only the part in braces counts if there is one.
pub(crate) fn slot_of(key: &[u8]) -> u16 {
    fred::util::redis_keyslot(key)
}

/// Reads the answer to CLUSTER SLOTS. A node that does not know its own name is the asked host.
pub(crate) fn read_ranges(answer: Value, asked: &Host) -> StoreResult<Vec<SlotRange>> {
    let mut rows = Reply::of(answer)?;
    let mut ranges = Vec::new();
    while let Some(row) = rows.piece() {
        let mut row = Reply::of(row)?;
        let first = slot_number(row.number()?)?;
        let last = slot_number(row.number()?)?;
        let mut master = row.list()?;
        let name = match master.piece().and_then(|name| name.as_string()) {
            Some(name) if !name.is_empty() && name != "?" => name,
            _ => asked.name.clone(),
        };
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

/// Reads the epoch out of CLUSTER INFO. Of two answers, the one with the later epoch is right.
pub(crate) fn read_epoch(answer: &Value) -> Option<u64> {
    let text = answer.as_str()?;
    text.lines().find_map(|line| {
        line.strip_prefix("cluster_current_epoch:")?
            .trim()
            .parse()
            .ok()
    })
}

fn slot_number(n: u64) -> StoreResult<u16> {
    match u16::try_from(n) {
        Ok(slot) if slot < SLOTS => Ok(slot),
        _ => Err(nonsense("a slot's number")),
    }
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
