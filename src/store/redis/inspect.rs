//! Owns what is read of Redis from outside the protocol: which keys there are, how big they are, what is in them. For
//! audits; no gateway calls it. Reads only, save [`RedisStore::relist`] and [`RedisStore::drop_removals`].
//!
//! Nothing here stalls a server: keys are found by SCAN, a page at a time with a pause after each, and no call touches
//! more than a page of members.

use std::collections::HashSet;
use std::time::Duration;

use fred::types::Value;
use tokio::time::sleep;

use super::lives::keys_of;
use super::node::Share;
use super::reply::{Reply, flag, nonsense, number, text};
use super::slices::read_fence_word;
use super::{RedisStore, keys, scripts};
use crate::clock::{UnixMillis, millis};
use crate::ids::{GatewayId, LiveId, SliceId, UserId};
use crate::store::slice::Fence;
use crate::store::{Edge, GatewayViewers, MAX_BATCH, StoreError, StoreResult};

/// Between two pages of keys: a server gives such a scan no more than a fraction of its time.
const PAUSE: Duration = Duration::from_millis(2);

/// Members that Redis looks at to guess the memory of a set.
const SAMPLES: &str = "5";

/// A slice as it stands in one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceInside {
    /// Fans in it.
    pub card: u64,
    /// To which epoch it belongs.
    pub fence: Option<Fence>,
    /// The entries of gateways.
    pub entries: Vec<GatewayEntry>,
    /// The node's clock.
    pub at: UnixMillis,
}

/// A gateway's entry in a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayEntry {
    /// Which gateway.
    pub gateway: GatewayId,
    /// How long ago it refreshed its lease, or its own lease under which the entry stands, by the node's clock.
    pub age: Duration,
    /// The number of its last call.
    pub number: u64,
}

/// The viewers of a live as they stand in one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewersInside {
    /// To which epoch they belong.
    pub fence: Option<Fence>,
    /// What each gateway last said.
    pub said: Vec<GatewayViewers>,
    /// The node's clock.
    pub at: UnixMillis,
}

/// The size of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeySize {
    /// Members of a set, fields of a hash.
    pub members: u64,
    /// Bytes, estimated; `None` where the server does not say or does not allow to ask.
    pub bytes: Option<u64>,
}

/// What kind of key is asked about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sized {
    /// A set.
    Set,
    /// A hash.
    Hash,
}

impl RedisStore {
    /// Calls `each` with the name of every key that may be one of a live, on every master; with some of them twice.
    /// Answers how many names came and from how many masters.
    ///
    /// # Errors
    /// The store's, of any master: half a look would be misleading.
    pub async fn each_live_key(&self, mut each: impl FnMut(&str)) -> StoreResult<(u64, usize)> {
        let mut seen = 0;
        let mut done = HashSet::new();
        // Masters may change meanwhile: one that takes slots over is looked through as well.
        while let Some(node) = self.door.masters().into_iter().find(|node| !done.contains(node.host())) {
            let mut cursor = 0;
            loop {
                let args = [&cursor.to_string(), "MATCH", keys::LIVE_KEYS, "COUNT", &MAX_BATCH.to_string()];
                let answer =
                    node.send(Share::Own, "SCAN", args.map(Value::from).into()).await.map_err(StoreError::from)?;
                let mut reply = Reply::of(answer)?;
                cursor = reply.number()?;
                let page = Reply::of(reply.piece().ok_or_else(|| nonsense("a page without keys"))?)?;
                for key in page.texts() {
                    seen += 1;
                    each(&key);
                }
                if cursor == 0 {
                    break;
                }
                sleep(PAUSE).await;
            }
            done.insert(node.host().clone());
        }
        Ok((seen, done.len()))
    }

    /// The size of a key; `None` if it is not there.
    ///
    /// # Errors
    /// The store's; nonsense if the key is of another kind.
    pub async fn key_size(&self, key: &str, kind: Sized) -> StoreResult<Option<KeySize>> {
        let count = match kind {
            Sized::Set => "SCARD",
            Sized::Hash => "HLEN",
        };
        let steps = async {
            let members = number(&self.door.command(count, vec![Value::from(key)]).await?)?;
            if members == 0 {
                return Ok(None);
            }
            let usage = ["USAGE", key, "SAMPLES", SAMPLES].map(Value::from);
            let bytes = match self.door.command_at(1, "MEMORY", usage.into()).await {
                Ok(bytes) => number(&bytes).ok(),
                // An ACL without it, or a server that has no such command.
                Err(StoreError::Refused(_) | StoreError::Nonsense(_)) => None,
                Err(why) => return Err(why),
            };
            Ok(Some(KeySize { members, bytes }))
        };
        self.door.call("key_size", steps).await
    }

    /// A slice, its fence and its entries, whose gateways have leases of that length.
    ///
    /// # Errors
    /// The store's; nonsense if one of the keys is of another kind or garbled.
    pub async fn inspect_slice(&self, slice: &SliceId, lease: Duration) -> StoreResult<SliceInside> {
        let on = vec![keys::gateways(slice), keys::fence(slice), keys::slice(slice)];
        let steps = async {
            let mut reply = self.inspect(on, lease).await?;
            let (at, fence, card) = (reply.number()?, read_fence_word(&reply.text()?)?, reply.number()?);
            let mut entries = Vec::new();
            while let Some(name) = reply.piece() {
                let (gateway, [_, number]) = (read_gateway(name)?, read_numbers(&reply.text()?)?);
                entries.push(GatewayEntry { gateway, age: Duration::from_millis(reply.number()?), number });
            }
            Ok(SliceInside { card, fence, entries, at })
        };
        self.door.call("inspect_slice", steps).await
    }

    /// What the gateways said of their viewers, however long ago.
    ///
    /// # Errors
    /// As for [`Self::inspect_slice`].
    pub async fn inspect_viewers(&self, live: &LiveId, lease: Duration) -> StoreResult<ViewersInside> {
        let on = vec![keys::live_viewers(live), keys::live_viewers_fence(live)];
        let steps = async {
            let mut reply = self.inspect(on, lease).await?;
            let (at, fence, _) = (reply.number()?, read_fence_word(&reply.text()?)?, reply.number()?);
            let mut said = Vec::new();
            while let Some(name) = reply.piece() {
                let (gateway, [viewers, _, number]) = (read_gateway(name)?, read_numbers(&reply.text()?)?);
                said.push(GatewayViewers { gateway, viewers, number, age: Duration::from_millis(reply.number()?) });
            }
            Ok(ViewersInside { fence, said, at })
        };
        self.door.call("inspect_viewers", steps).await
    }

    async fn inspect(&self, on: Vec<String>, lease: Duration) -> StoreResult<Reply> {
        let args = vec![Value::from(keys::LEASES), Value::from(millis(lease).to_string())];
        Reply::of(self.script_beside_leases(&scripts::INSPECT, on, args).await?)
    }

    /// How many a gateway holds in a slice.
    ///
    /// # Errors
    /// The store's.
    pub async fn held_card(&self, slice: &SliceId, gateway: &GatewayId) -> StoreResult<u64> {
        let args = vec![Value::from(keys::held(slice, gateway))];
        self.door.call("held_card", async { number(&self.door.command("SCARD", args).await?) }).await
    }

    /// Whether a gateway holds a user in a slice.
    ///
    /// # Errors
    /// The store's.
    pub async fn holds(&self, slice: &SliceId, gateway: &GatewayId, user: &UserId) -> StoreResult<bool> {
        let args = vec![Value::from(keys::held(slice, gateway)), Value::from(user.as_str())];
        self.door.call("holds", async { flag(&self.door.command("SISMEMBER", args).await?) }).await
    }

    /// Since when a user follows a streamer, as the fan check reads it.
    ///
    /// # Errors
    /// The store's.
    pub async fn follows_since(&self, user: &UserId, streamer: &UserId) -> StoreResult<Option<UnixMillis>> {
        let key = keys::edge(streamer, Edge::Followers);
        self.door.call("follows_since", self.score(&key, user.as_str())).await
    }

    /// When a user's ban from an open live ends, or ended.
    ///
    /// # Errors
    /// The store's.
    pub async fn banned_until(&self, live: &LiveId, user: &UserId) -> StoreResult<Option<UnixMillis>> {
        self.door.call("banned_until", self.score(&keys::bans(live), user.as_str())).await
    }

    /// Whether there is anything of who was sent out of a live.
    ///
    /// # Errors
    /// The store's.
    pub async fn has_removals(&self, live: &LiveId) -> StoreResult<bool> {
        let args = [keys::removals(live), keys::bans(live)].map(Value::from).into();
        self.door.call("has_removals", async { Ok(number(&self.door.command("EXISTS", args).await?)? > 0) }).await
    }

    /// Forgets who was sent out of a live, if it is closed. True if it is.
    ///
    /// # Errors
    /// The store's.
    pub async fn drop_removals(&self, live: &LiveId) -> StoreResult<bool> {
        let steps = async { flag(&self.door.script(&scripts::DROP_REMOVALS, keys_of(live), Vec::new()).await?) };
        self.door.call("drop_removals", steps).await
    }

    /// Since when `lives` lists a live.
    ///
    /// # Errors
    /// The store's.
    pub async fn listed_at(&self, live: &LiveId) -> StoreResult<Option<UnixMillis>> {
        self.door.call("listed_at", self.score(keys::LIVES, live.as_str())).await
    }

    async fn score(&self, key: &str, member: &str) -> StoreResult<Option<UnixMillis>> {
        let score = self.door.command("ZSCORE", [key, member].map(Value::from).into()).await?;
        if score.is_null() {
            return Ok(None);
        }
        let score: f64 = text(score)?.parse().map_err(|_| nonsense("a score that is no number"))?;
        Ok(Some(score.max(0.0) as UnixMillis))
    }

    /// Puts an open live on the list. The list is a hint, so this opens nothing; whoever lists a live looks at its record
    /// once more and takes it off again if it is open no longer.
    ///
    /// # Errors
    /// The store's.
    pub async fn relist(&self, live: &LiveId, opened_at: UnixMillis) -> StoreResult<()> {
        self.door.call("relist", self.list(live, opened_at)).await
    }
}

fn read_gateway(name: Value) -> StoreResult<GatewayId> {
    GatewayId::parse(&text(name)?).map_err(|_| nonsense("a gateway's name"))
}

/// Reads numbers with colons between them, and perhaps a `+` behind the last.
fn read_numbers<const N: usize>(field: &str) -> StoreResult<[u64; N]> {
    let numbers: Result<Vec<u64>, _> = field.strip_suffix('+').unwrap_or(field).split(':').map(str::parse).collect();
    numbers.ok().and_then(|numbers| numbers.try_into().ok()).ok_or_else(|| nonsense("a field of a gateway's"))
}
