//! Reads Redis from outside the protocol, for the commands: which keys exist, their sizes and their
//! contents. No gateway calls it. Only [`RedisStore::drop_left_overs`] writes.
//!
//! Nothing here stalls a server: SCAN finds the keys, one page at a time with a pause after each,
//! and no call touches more than a page of members.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::family::KeyType;
use super::node::{Node, Share};
use super::reply::{self, Reply, next_answer, number, text};
use super::slices::look;
pub(crate) use super::slices::look::SliceInside;
use super::{RedisStore, args, scripts};
use crate::base::clock::UnixMillis;
use crate::base::ids::{GatewayId, LiveId, SliceId, UserId};
use crate::base::redis_address::Host;
use crate::config::FanKey;
use crate::store::{Edge, MAX_BATCH, StoreError, StoreResult};

/// The pause between two pages of keys, so that a scan takes only a fraction of a server's time.
const PAUSE: Duration = Duration::from_millis(2);

/// The number of members that Redis samples to estimate the memory of a key.
const SAMPLES: &str = "5";

/// The state of a lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseInside {
    /// The lease of a living gateway: the time since the last renewal by the node's clock, and the
    /// number of renewals.
    Living { age: Duration, count: u64 },
    /// The lease of a buried gateway: the time since the burial, and since the last renewal.
    Dead { age: Duration, silent: Duration },
}

/// The size of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeySize {
    /// The members of a set, or the fields of a hash.
    pub(crate) members: u64,
    /// Estimated bytes; `None` if the server gives no estimate or forbids the question.
    pub(crate) bytes: Option<u64>,
}

/// The memory of a master, as the master reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct MasterMemory {
    /// Bytes that count against the limit.
    pub(crate) used: u64,
    /// 0 means that there is no limit.
    pub(crate) limit: u64,
    /// The policy of the master for writes beyond the limit.
    pub(crate) policy: String,
}

impl MasterMemory {
    fn read(info: &str) -> Self {
        let used = info_number(info, "used_memory");
        // Buffers for replicas do not count.
        let not_counted = info_number(info, "mem_not_counted_for_evict");
        let policy = info_field(info, "maxmemory_policy").unwrap_or("unknown");
        Self {
            used: used.saturating_sub(not_counted),
            limit: info_number(info, "maxmemory"),
            policy: policy.to_owned(),
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.limit > 0 && self.used > self.limit
    }
}

/// A field of the answer to INFO.
fn info_field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines()
        .find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
}

/// A field as a number; 0 if there is none.
fn info_number(info: &str, name: &str) -> u64 {
    let Some(text) = info_field(info, name) else {
        return 0;
    };
    text.parse().unwrap_or(0)
}

impl RedisStore {
    /// Calls `each` with the name of every key on every master that may be a key of a live. Some
    /// names come twice. Answers the number of names and the number of masters.
    pub(crate) async fn each_live_key(
        &self,
        mut each: impl FnMut(&str),
    ) -> StoreResult<(u64, usize)> {
        self.each_page(&self.keys().live_keys(), async |keys| {
            for key in &keys {
                each(key);
            }
            Ok(())
        })
        .await
    }

    /// Calls `each` with the names of the keys that match, a page at a time, on every master. Some
    /// names come twice. Answers the number of names and the number of masters.
    pub(crate) async fn each_page(
        &self,
        glob: &str,
        mut each: impl AsyncFnMut(Vec<String>) -> StoreResult<()>,
    ) -> StoreResult<(u64, usize)> {
        let mut seen = 0;
        let mut done = HashSet::new();
        // Masters may change during the scan: a master that takes slots over is scanned as well.
        while let Some(node) = self.master_besides(&done) {
            let mut cursor = 0;
            loop {
                let args = args![cursor, "MATCH", glob, "COUNT", MAX_BATCH];
                let answer = node
                    .send(Share::Own, "SCAN", args)
                    .await
                    .map_err(StoreError::from)?;
                let mut reply = Reply::of(answer)?;
                cursor = reply.number()?;
                let keys: Vec<String> = reply.list()?.texts().collect();
                seen += keys.len() as u64;
                each(keys).await?;
                if cursor == 0 {
                    break;
                }
                sleep(PAUSE).await;
            }
            done.insert(node.host().clone());
        }
        Ok((seen, done.len()))
    }

    /// A master that is not one of these.
    fn master_besides(&self, done: &HashSet<Host>) -> Option<Arc<Node>> {
        let map = self.router.topology().map();
        let node = map
            .nodes()
            .iter()
            .find(|node| !done.contains(node.host()))?;
        Some(Arc::clone(node))
    }

    /// The memory of each master, by the master's name.
    pub(crate) async fn memory_of_masters(&self) -> StoreResult<Vec<(String, MasterMemory)>> {
        let mut all = Vec::new();
        for node in self.router.topology().map().nodes() {
            let info = node
                .send(Share::Own, "INFO", Vec::new())
                .await
                .map_err(StoreError::from)?;
            all.push((node.host().to_string(), MasterMemory::read(&text(info)?)));
        }
        Ok(all)
    }

    /// The size of a key; `None` if it is not there.
    pub(crate) async fn key_size(&self, key: &str, kind: KeyType) -> StoreResult<Option<KeySize>> {
        let count = match kind {
            KeyType::Set => "SCARD",
            KeyType::Hash => "HLEN",
            KeyType::Zset => "ZCARD",
            KeyType::Stream => "XLEN",
            KeyType::Text => "STRLEN",
        };
        let steps = async {
            let members = number(&self.router.command(count, args![key]).await?)?;
            if members == 0 {
                return Ok(None);
            }
            Ok(Some(KeySize {
                members,
                bytes: self.bytes_of(key).await?,
            }))
        };
        self.router.call("key_size", steps).await
    }

    /// The memory of a key, as the server estimates it from a few of its members; `None` if it
    /// gives no estimate.
    pub(crate) async fn key_bytes(&self, key: &str) -> StoreResult<Option<u64>> {
        self.router.call("key_bytes", self.bytes_of(key)).await
    }

    async fn bytes_of(&self, key: &str) -> StoreResult<Option<u64>> {
        let usage = args!["USAGE", key, "SAMPLES", SAMPLES];
        match self.router.command_at(1, "MEMORY", usage).await {
            Ok(bytes) => Ok(number(&bytes).ok()),
            // The ACL forbids the command, or the server does not have it.
            Err(StoreError::Refused(_) | StoreError::Nonsense(_)) => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// The type of each key, as the server names it, in the order of the keys. `none` means a key
    /// that is gone, `?` a key about which this user of the server may not ask.
    pub(crate) async fn key_types(&self, keys: &[String]) -> StoreResult<Vec<String>> {
        let types = self.router.read_each(
            "key_types",
            keys,
            |key| vec![("TYPE", args![key.as_str()])],
            |_, answers| match next_answer(answers) {
                Err(StoreError::Refused(_)) => Ok("?".to_owned()),
                answer => text(answer?),
            },
        );
        types.await.into_iter().collect()
    }

    /// The members of a set or of a sorted set, or the fields of a hash; none of a key that is not
    /// there. A key of another type is [`StoreError::Nonsense`].
    pub(crate) async fn members_of(&self, key: &str) -> StoreResult<HashSet<String>> {
        let keys = [key.to_owned()];
        let types = self.key_types(&keys).await?;
        let command = match types.first().map(String::as_str) {
            Some("set") => "SSCAN",
            Some("zset") => "ZSCAN",
            Some("hash") => "HSCAN",
            Some("none") | None => return Ok(HashSet::new()),
            Some("?") => return Err(StoreError::Refused(format!("{key} may not be read"))),
            Some(other) => return Err(StoreError::Nonsense(format!("{key} is a {other}"))),
        };
        let mut members = HashSet::new();
        let mut cursor = 0;
        loop {
            let args = args![key, cursor, "COUNT", MAX_BATCH];
            let page = self
                .router
                .call("members_of", self.router.command(command, args));
            let mut page = Reply::of(page.await?)?;
            cursor = page.number()?;
            let found = page.list()?;
            if command == "SSCAN" {
                members.extend(found.texts());
            } else {
                members.extend(found.pairs()?.into_iter().map(|(member, _)| member));
            }
            if cursor == 0 {
                return Ok(members);
            }
        }
    }

    /// A slice, its fence and its entries.
    pub(crate) async fn inspect_slice(&self, slice: &SliceId) -> StoreResult<SliceInside> {
        let on = self.keys().of_slice(slice);
        let steps = async {
            let reply = self
                .router
                .script(&scripts::INSPECT_SLICE, on, Vec::new())
                .await?;
            look::SliceAnswers::of_script(slice, reply).inspect()
        };
        self.router.call("inspect_slice", steps).await
    }

    /// Every lease; skips fields that a former version of this program wrote.
    pub(crate) async fn inspect_leases(&self) -> StoreResult<BTreeMap<GatewayId, LeaseInside>> {
        let steps = async {
            let now = self
                .router
                .script(&scripts::READ_CLOCK, vec![self.keys().leases()], Vec::new())
                .await?
                .number()?;
            let fields = Reply::of(
                self.router
                    .command("HGETALL", args![self.keys().leases()])
                    .await?,
            )?
            .pairs()?;
            let mut leases = BTreeMap::new();
            for (gateway, lease) in &fields {
                if let Ok(gateway) = GatewayId::parse(gateway)
                    && let Some(lease) = read_lease(lease, now)
                {
                    leases.insert(gateway, lease);
                }
            }
            Ok(leases)
        };
        self.router.call("inspect_leases", steps).await
    }

    /// The time since which a user follows a streamer, as the fan check reads it.
    pub(crate) async fn follows_since(
        &self,
        user: &UserId,
        streamer: &UserId,
        read: FanKey,
    ) -> StoreResult<Option<UnixMillis>> {
        let (of, end, member) = match read {
            FanKey::Followers => (streamer, Edge::Followers, user),
            FanKey::Following => (user, Edge::Following, streamer),
        };
        let key = self.keys().edge(of, end);
        self.router
            .call("follows_since", self.score(&key, member.as_str()))
            .await
    }

    /// The time at which a user's ban from an open live ends or ended.
    pub(crate) async fn banned_until(
        &self,
        live: &LiveId,
        user: &UserId,
    ) -> StoreResult<Option<UnixMillis>> {
        self.router
            .call(
                "banned_until",
                self.score(&self.keys().bans(live), user.as_str()),
            )
            .await
    }

    /// Whether the store has removals or bans of a live.
    pub(crate) async fn has_removals(&self, live: &LiveId) -> StoreResult<bool> {
        let args = args![self.keys().removals(live), self.keys().bans(live)];
        self.router
            .call("has_removals", async {
                Ok(number(&self.router.command("EXISTS", args).await?)? > 0)
            })
            .await
    }

    /// Deletes the removals and bans of a live if its record is closed or gone. True if it is.
    pub(crate) async fn drop_left_overs(&self, live: &LiveId) -> StoreResult<bool> {
        let steps = async {
            self.router
                .script(
                    &scripts::DROP_OLD_REMOVALS,
                    self.calls.record_keys(live),
                    Vec::new(),
                )
                .await?
                .flag()
        };
        self.router.call("drop_left_overs", steps).await
    }

    /// The time by the clock of the node that has a live's record.
    pub(crate) async fn node_time(&self, live: &LiveId) -> StoreResult<UnixMillis> {
        let on = vec![self.keys().live(live)];
        self.router
            .call("node_time", async {
                self.router
                    .script(&scripts::READ_CLOCK, on, Vec::new())
                    .await?
                    .number()
            })
            .await
    }

    /// The time since which `lives` lists a live.
    pub(crate) async fn listed_at(&self, live: &LiveId) -> StoreResult<Option<UnixMillis>> {
        self.router
            .call("listed_at", self.score(&self.keys().lives(), live.as_str()))
            .await
    }

    pub(crate) async fn score(&self, key: &str, member: &str) -> StoreResult<Option<UnixMillis>> {
        let score = self.router.command("ZSCORE", args![key, member]).await?;
        if score.is_null() {
            return Ok(None);
        }
        Ok(Some(reply::score(score)?.max(0.0) as UnixMillis))
    }
}

fn read_lease(value: &str, now: UnixMillis) -> Option<LeaseInside> {
    let words: Vec<&str> = value.split(':').collect();
    match words[..] {
        ["dead", at] => Some(LeaseInside::Dead {
            age: read_age(at, now)?,
            silent: read_age(at, now)?,
        }),
        ["dead", at, renewed] => Some(LeaseInside::Dead {
            age: read_age(at, now)?,
            silent: read_age(renewed, now)?,
        }),
        [_, renewed, count, _] => Some(LeaseInside::Living {
            age: read_age(renewed, now)?,
            count: count.parse().ok()?,
        }),
        _ => None,
    }
}

/// The time since `at`, which is in Unix milliseconds.
fn read_age(at: &str, now: UnixMillis) -> Option<Duration> {
    let at: UnixMillis = at.parse().ok()?;
    Some(Duration::from_millis(now.saturating_sub(at)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_is_full_without_the_buffers_that_do_not_count() {
        let memory = |limit: &str| {
            MasterMemory::read(&format!(
                "# Memory\r\nused_memory:1000\r\nused_memory_human:1K\r\nmaxmemory:{limit}\r\n\
                 maxmemory_policy:noeviction\r\nmem_not_counted_for_evict:200\r\n"
            ))
        };
        assert_eq!(
            memory("799"),
            MasterMemory {
                used: 800,
                limit: 799,
                policy: "noeviction".to_owned()
            }
        );
        assert!(memory("799").is_full());
        assert!(!memory("800").is_full() && !memory("0").is_full());
        assert!(!MasterMemory::read("").is_full());
    }
}
