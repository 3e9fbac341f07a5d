//! Finds keys with SCAN, which may return a key twice: the keys of lives and the biggest of them,
//! and the keys that an inspection judges one by one.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;

use crate::base::ids::{LiveId, OnlineSet, SliceId};
use crate::features::audit::finding::AuditFinding;
use crate::store::redis::RedisStore;
use crate::store::redis::family::KeyType;
use crate::store::redis::keys::{BANS, REMOVALS, ReadKey};
use crate::store::{LiveStore, StoreError, StoreResult};

/// Maximum lives or keys that an audit reads concurrently.
pub(crate) const MAX_CONCURRENT_READS: usize = 8;

/// Maximum entries of `lives` that one call reads.
const PAGE: usize = 500;

/// The keys that an audit inspects. [`slice_id`] made the ids of slices.
#[derive(Debug, Default)]
pub(crate) struct FoundKeys {
    /// Every live that has a key or is in `lives`.
    pub lives: BTreeMap<LiveId, LiveKeys>,
    /// The slices of the sets of the platform.
    pub platform: HashSet<SliceId>,
}

impl FoundKeys {
    /// Every slice that has keys.
    pub(crate) fn slices(&self) -> impl Iterator<Item = &SliceId> {
        self.lives
            .values()
            .flat_map(|keys| &keys.slices)
            .chain(&self.platform)
    }
}

/// The keys that a live has.
#[derive(Debug, Clone, Default)]
pub(crate) struct LiveKeys {
    pub slices: HashSet<SliceId>,
    pub removals: bool,
}

#[derive(Debug, Serialize)]
pub(crate) struct ScanTotals {
    pub biggest_by_members: Vec<BigKey>,
    pub biggest_by_bytes: Vec<BigKey>,
    pub keys_scanned: u64,
    pub live_keys: u64,
    pub masters: usize,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct BigKey {
    pub key: String,
    pub members: u64,
    /// The server's estimate; null if it gives none.
    pub bytes: Option<u64>,
}

/// The slice that a key names by its number, or by `None` if it is the only slice of its live. The
/// key does not say how many slices the live has, and nothing in an audit depends on that.
pub(crate) fn slice_id(set: OnlineSet, number: Option<u32>) -> SliceId {
    match number {
        None => SliceId {
            set,
            index: 1,
            of: 1,
        },
        Some(index) => SliceId {
            set,
            index,
            of: u32::MAX,
        },
    }
}

/// The id under which the scan notes a slice.
pub(crate) fn scanned_id(slice: SliceId) -> SliceId {
    let number = if slice.of > 1 {
        Some(slice.index)
    } else {
        None
    };
    slice_id(slice.set, number)
}

/// Finds every key of lives, and the `top` biggest.
pub(crate) async fn find_keys(
    store: &RedisStore,
    top: usize,
) -> StoreResult<(FoundKeys, ScanTotals)> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    let scanned = store.each_live_key(|key| {
        if store.keys().read_key(key).is_some() {
            names.insert(key.to_owned());
        }
    });
    let (keys_scanned, masters) = scanned.await?;
    let mut found = FoundKeys::default();
    for name in &names {
        let Some(key) = store.keys().read_key(name) else {
            continue;
        };
        match key {
            ReadKey::Live(live, family) => {
                let of_live = found.lives.entry(live).or_default();
                of_live.removals |= *family == REMOVALS || *family == BANS;
            }
            ReadKey::Slice(set, number, _) => {
                let slices = match set.live().cloned() {
                    Some(live) => &mut found.lives.entry(live).or_default().slices,
                    None => &mut found.platform,
                };
                slices.insert(slice_id(set, number));
            }
        }
    }
    let mut page = store.lives_page(None, PAGE).await?;
    while let Some(last) = page.last().cloned() {
        for listed in page {
            found.lives.entry(listed.live).or_default();
        }
        page = store.lives_page(Some(&last), PAGE).await?;
    }
    let live_keys = names.len() as u64;
    let sizes = if top > 0 {
        measure(store, names).await?
    } else {
        Vec::new()
    };
    let totals = ScanTotals {
        biggest_by_members: biggest(&sizes, top, |key| key.members),
        biggest_by_bytes: biggest(&sizes, top, |key| key.bytes.unwrap_or(0)),
        keys_scanned,
        live_keys,
        masters,
    };
    Ok((found, totals))
}

/// The `top` biggest keys by a size, the biggest first.
fn biggest(sizes: &[BigKey], top: usize, size: fn(&BigKey) -> u64) -> Vec<BigKey> {
    let mut keys = sizes.to_vec();
    keys.sort_by(|a, b| size(b).cmp(&size(a)).then_with(|| a.key.cmp(&b.key)));
    keys.truncate(top);
    keys
}

/// Turns the error of unreadable content into a finding, so that the audit goes on without it.
pub(crate) fn or_unreadable(
    key: &str,
    seen: StoreResult<Option<AuditFinding>>,
) -> StoreResult<Option<AuditFinding>> {
    match seen {
        Err(StoreError::Nonsense(why)) => Ok(Some(AuditFinding::unreadable(key, &why))),
        seen => seen,
    }
}

/// Calls `look` for every key that matches. Returns the findings, sorted by key.
pub(crate) async fn each_key(
    store: &RedisStore,
    glob: &str,
    look: impl AsyncFn(&str) -> StoreResult<Option<AuditFinding>>,
) -> StoreResult<Vec<AuditFinding>> {
    let mut findings = Vec::new();
    store
        .each_page(glob, async |keys| {
            let looks = stream::iter(keys).map(async |key| or_unreadable(&key, look(&key).await));
            let found: Vec<_> = looks
                .buffer_unordered(MAX_CONCURRENT_READS)
                .try_collect()
                .await?;
            findings.extend(found.into_iter().flatten());
            Ok(())
        })
        .await?;
    findings.sort_by(|a: &AuditFinding, b| a.key.cmp(&b.key));
    // SCAN may return a key twice.
    findings.dedup_by(|a, b| a.key == b.key);
    Ok(findings)
}

/// The type of a key whose size an audit measures. `None` for a key that stays small.
fn measured_type(key: &ReadKey) -> Option<KeyType> {
    match key {
        ReadKey::Slice(.., family) if matches!(family.kind, KeyType::Set | KeyType::Hash) => {
            Some(family.kind)
        }
        ReadKey::Slice(..) | ReadKey::Live(..) => None,
    }
}

async fn measure(store: &RedisStore, names: BTreeSet<String>) -> StoreResult<Vec<BigKey>> {
    let mut sized = Vec::new();
    for name in names {
        if let Some(key) = store.keys().read_key(&name)
            && let Some(kind) = measured_type(&key)
        {
            sized.push((name, kind));
        }
    }
    let sizes = stream::iter(sized).map(|(key, kind)| async move {
        match store.key_size(&key, kind).await {
            Ok(size) => Ok(size.map(|size| BigKey {
                key,
                members: size.members,
                bytes: size.bytes,
            })),
            // The key has an unexpected type. The inspection of its live reports that.
            Err(StoreError::Nonsense(_)) => Ok(None),
            Err(why) => Err(why),
        }
    });
    sizes
        .buffer_unordered(MAX_CONCURRENT_READS)
        .try_filter_map(async |size| Ok(size))
        .try_collect()
        .await
}
