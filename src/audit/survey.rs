//! Owns the finding of keys: which lives there are any keys of, and which; and the biggest of them. Names come from SCAN,
//! which repeats itself, so they are kept in sets.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, TryStreamExt, stream};

use super::AT_A_TIME;
use super::report::BigKey;
use crate::ids::{GatewayId, LiveId, SliceId};
use crate::store::redis::RedisStore;
use crate::store::redis::inspect::Sized;
use crate::store::redis::keys::{self, LiveKey, SliceKey};
use crate::store::{LiveStore, StoreError, StoreResult};

/// How many lives are read from the list at a time.
const PAGE: usize = 500;

/// What there is of one live.
#[derive(Debug, Clone, Default)]
pub(super) struct LiveKeys {
    /// Its slices, by number; `None` is that of a live of one.
    pub slices: BTreeMap<Option<u32>, BTreeSet<GatewayId>>,
    /// Whether anything was said of its viewers.
    pub viewers: bool,
    /// Whether there is anything of who was sent out.
    pub removals: bool,
}

/// Every live of which there is any key.
#[derive(Debug, Default)]
pub(super) struct Survey {
    pub lives: BTreeMap<LiveId, LiveKeys>,
    /// Names of keys that came, of gateways' and others'.
    pub keys_scanned: u64,
    /// Keys of lives, each once.
    pub live_keys: u64,
    pub masters: usize,
    pub by_members: Vec<BigKey>,
    pub by_bytes: Vec<BigKey>,
}

/// The slice of a live by its number; `None` is that of a live of one.
pub(super) fn place(live: &LiveId, index: Option<u32>) -> SliceId {
    match index {
        None => SliceId { live: live.clone(), index: 1, of: 1 },
        // Its key says which one it is, not of how many: any number above one will do.
        Some(index) => SliceId { live: live.clone(), index, of: index.max(2) },
    }
}

impl Survey {
    /// Finds every key of lives, and the `top` biggest.
    pub(super) async fn take(store: &RedisStore, top: usize) -> StoreResult<Self> {
        let mut found: BTreeSet<String> = BTreeSet::new();
        let scanned = store.each_live_key(|key| {
            if keys::read_key(key).is_some() {
                found.insert(key.to_owned());
            }
        });
        let (keys_scanned, masters) = scanned.await?;
        let mut survey = Self { keys_scanned, masters, live_keys: found.len() as u64, ..Self::default() };
        for (live, key) in found.iter().filter_map(|key| keys::read_key(key)) {
            let there = survey.lives.entry(live).or_default();
            match key {
                LiveKey::Record => {}
                LiveKey::Slice(index, key) => {
                    let held = there.slices.entry(index).or_default();
                    if let SliceKey::Held(gateway) = key {
                        held.insert(gateway);
                    }
                }
                LiveKey::Viewers => there.viewers = true,
                LiveKey::Removals => there.removals = true,
            }
        }
        survey.add_listed(store).await?;
        if top > 0 {
            survey.measure(store, found, top).await?;
        }
        Ok(survey)
    }

    /// Adds what is listed and has no key at all.
    async fn add_listed(&mut self, store: &RedisStore) -> StoreResult<()> {
        let mut after = None;
        loop {
            let page = store.lives_page(after.as_ref(), PAGE).await?;
            let Some(last) = page.last().cloned() else { return Ok(()) };
            for listed in page {
                self.lives.entry(listed.live).or_default();
            }
            after = Some(last);
        }
    }

    async fn measure(&mut self, store: &RedisStore, found: BTreeSet<String>, top: usize) -> StoreResult<()> {
        let sized = found.into_iter().filter_map(|key| {
            let kind = match keys::read_key(&key)?.1 {
                LiveKey::Slice(_, SliceKey::Members | SliceKey::Held(_)) => Sized::Set,
                LiveKey::Slice(_, SliceKey::Gateways) | LiveKey::Viewers => Sized::Hash,
                // Small, all of them, or bounded.
                LiveKey::Record | LiveKey::Removals => return None,
                LiveKey::Slice(_, SliceKey::Fence) => return None,
            };
            Some((key, kind))
        });
        let big: Vec<Option<BigKey>> = stream::iter(sized)
            .map(|(key, kind)| async move {
                match store.key_size(&key, kind).await {
                    Ok(size) => Ok(size.map(|size| BigKey { key, members: size.members, bytes: size.bytes })),
                    // Of another type: whoever looks at its live says so.
                    Err(StoreError::Nonsense(_)) => Ok(None),
                    Err(why) => Err(why),
                }
            })
            .buffer_unordered(AT_A_TIME)
            .try_collect()
            .await?;
        let big: Vec<BigKey> = big.into_iter().flatten().collect();
        let first = |by: fn(&BigKey) -> u64| {
            let mut keys = big.clone();
            keys.sort_by(|a, b| by(b).cmp(&by(a)).then_with(|| a.key.cmp(&b.key)));
            keys.truncate(top);
            keys
        };
        self.by_members = first(|key| key.members);
        self.by_bytes = first(|key| key.bytes.unwrap_or(0));
        Ok(())
    }
}
