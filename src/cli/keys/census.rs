//! The number of keys of each kind. The census counts every key once and asks for its type. It asks
//! for the memory of only some keys of each kind.

use std::collections::{BTreeMap, HashSet};
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use tokio::time::{Instant, sleep};
use xxhash_rust::xxh3::xxh3_64;

use crate::cli::tables::{bytes, count, table};
use crate::store::StoreResult;
use crate::store::redis::RedisStore;

/// Keys of each kind whose memory is measured. SCAN returns keys in the order of their hashes, so
/// the first ones are a fair sample.
const SAMPLE: u64 = 100;

/// Maximum kinds. Each key of another program may look like a kind of its own.
const MAX_KINDS: usize = 1_000;

/// The kind of the keys beyond these.
const OTHER: &str = "(others)";

/// Maximum keys that the census recognizes if SCAN returns them twice. Each takes 8 bytes.
const MAX_KNOWN: usize = 20_000_000;

/// Maximum keys that are measured concurrently.
const MAX_CONCURRENT_SIZES: usize = 8;

#[derive(Debug, Serialize)]
pub(super) struct Census {
    pattern: String,
    keys: u64,
    masters: usize,
    /// An estimate. Null if the server gives none.
    bytes: Option<u64>,
    kinds: Vec<KindRow>,
    listed: Vec<ListedKey>,
    /// Whether the census may have counted keys twice, because there are too many to remember.
    uncertain: bool,
    seconds: f64,
    #[serde(skip)]
    counting: KeyCounting,
}

#[derive(Debug, Default)]
struct KeyCounting {
    kinds: BTreeMap<String, KeyKind>,
    /// The hashes of the keys. Two keys with the same hash are rarer than keys that SCAN misses.
    known: HashSet<u64>,
    to_list: usize,
}

/// A key that is to be measured.
struct ToMeasure {
    key: String,
    r#type: String,
    kind: String,
    /// Whether the key is in the sample of its kind.
    in_sample: bool,
    /// Whether the census lists the key.
    is_listed: bool,
}

#[derive(Debug, Default)]
struct KeyKind {
    keys: u64,
    types: BTreeMap<String, u64>,
    sampled: u64,
    sampled_bytes: u64,
}

#[derive(Debug, Serialize)]
struct KindRow {
    kind: String,
    keys: u64,
    types: BTreeMap<String, u64>,
    /// An estimate from the sample. Null without a sample.
    bytes: Option<u64>,
    sampled: u64,
}

#[derive(Debug, Serialize)]
struct ListedKey {
    key: String,
    r#type: String,
    bytes: Option<u64>,
}

impl Census {
    /// Lists the first `to_list` keys one by one.
    pub(super) fn new(pattern: &str, to_list: usize) -> Self {
        Self {
            pattern: pattern.to_owned(),
            keys: 0,
            masters: 0,
            bytes: None,
            kinds: Vec::new(),
            listed: Vec::new(),
            uncertain: false,
            seconds: 0.0,
            counting: KeyCounting {
                to_list,
                ..KeyCounting::default()
            },
        }
    }

    /// Counts a page of keys, and pauses.
    pub(super) async fn add(
        &mut self,
        store: &RedisStore,
        mut keys: Vec<String>,
    ) -> StoreResult<()> {
        let started = Instant::now();
        keys.retain(|key| self.is_new(key));
        let types = store.key_types(&keys).await?;
        let mut to_measure = Vec::new();
        for (key, r#type) in keys.into_iter().zip(types) {
            // The key is gone since SCAN returned it.
            if r#type == "none" {
                continue;
            }
            self.keys += 1;
            let (name, kind) = self.counting.kind(store, &key);
            kind.keys += 1;
            *kind.types.entry(r#type.clone()).or_default() += 1;
            let in_sample = kind.keys <= SAMPLE;
            let is_listed = self.counting.to_list > 0;
            if is_listed {
                self.counting.to_list -= 1;
            }
            if in_sample || is_listed {
                to_measure.push(ToMeasure {
                    key,
                    r#type,
                    kind: name,
                    in_sample,
                    is_listed,
                });
            }
        }
        let measures = stream::iter(to_measure).map(async |measured| {
            let bytes = store.key_bytes(&measured.key).await?;
            StoreResult::Ok((measured, bytes))
        });
        let measures: Vec<(ToMeasure, Option<u64>)> = measures
            .buffered(MAX_CONCURRENT_SIZES)
            .try_collect()
            .await?;
        for (measured, bytes) in measures {
            if measured.in_sample
                && let Some(bytes) = bytes
                && let Some(kind) = self.counting.kinds.get_mut(&measured.kind)
            {
                kind.sampled += 1;
                kind.sampled_bytes += bytes;
            }
            if measured.is_listed {
                self.listed.push(ListedKey {
                    key: measured.key,
                    r#type: measured.r#type,
                    bytes,
                });
            }
        }
        sleep(started.elapsed()).await;
        Ok(())
    }

    fn is_new(&mut self, key: &str) -> bool {
        let hash = xxh3_64(key.as_bytes());
        let known = &mut self.counting.known;
        if known.len() < MAX_KNOWN {
            return known.insert(hash);
        }
        self.uncertain = true;
        !known.contains(&hash)
    }

    /// Makes the rows, and sorts them by memory, the largest first.
    pub(super) fn finish(&mut self, masters: usize, took: Duration) {
        let counting = std::mem::take(&mut self.counting);
        for (kind, found) in counting.kinds {
            self.kinds.push(KindRow {
                kind,
                keys: found.keys,
                bytes: found.estimated_bytes(),
                sampled: found.sampled,
                types: found.types,
            });
        }
        self.kinds
            .sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.kind.cmp(&b.kind)));
        self.listed.sort_by(|a, b| a.key.cmp(&b.key));
        self.bytes = self
            .kinds
            .iter()
            .filter_map(|row| row.bytes)
            .reduce(u64::saturating_add);
        self.masters = masters;
        self.seconds = took.as_secs_f64();
    }
}

impl KeyKind {
    /// The memory of all keys of the kind, estimated from the sample. `None` without a sample.
    fn estimated_bytes(&self) -> Option<u64> {
        if self.sampled == 0 {
            return None;
        }
        // The product of the bytes of a sample and the number of keys may exceed 64 bits.
        let product = u128::from(self.sampled_bytes) * u128::from(self.keys);
        Some(u64::try_from(product / u128::from(self.sampled)).unwrap_or(u64::MAX))
    }
}

impl KeyCounting {
    /// The kind of a key, by its name.
    fn kind(&mut self, store: &RedisStore, key: &str) -> (String, &mut KeyKind) {
        let mut name = store.keys().kind(key).unwrap_or_else(|| OTHER.to_owned());
        if self.kinds.len() >= MAX_KINDS && !self.kinds.contains_key(&name) {
            OTHER.clone_into(&mut name);
        }
        (name.clone(), self.kinds.entry(name).or_default())
    }
}

fn estimate(n: Option<u64>) -> String {
    match n {
        Some(n) => bytes(n),
        None => "?".to_owned(),
    }
}

/// The types of the keys of a kind. Each has its number of keys if there are several types.
fn types_in_words(types: &BTreeMap<String, u64>) -> String {
    let mut words = Vec::new();
    for (name, keys) in types {
        if types.len() == 1 {
            words.push(name.clone());
        } else {
            words.push(format!("{name} {keys}"));
        }
    }
    words.join(", ")
}

impl Display for Census {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} on {}, about {} in all; {:.1} s",
            count(self.keys as usize, "key"),
            count(self.masters, "master"),
            estimate(self.bytes),
            self.seconds
        )?;
        let rows = self.kinds.iter().map(|row| {
            [
                row.kind.clone(),
                row.keys.to_string(),
                types_in_words(&row.types),
                estimate(row.bytes),
                row.sampled.to_string(),
            ]
        });
        table(
            f,
            ["kind", "keys", "type", "memory", "measured"],
            &rows.collect::<Vec<_>>(),
        )?;
        let rows = self.listed.iter().map(|listed| {
            [
                listed.key.clone(),
                listed.r#type.clone(),
                estimate(listed.bytes),
            ]
        });
        table(f, ["key", "type", "memory"], &rows.collect::<Vec<_>>())?;
        if self.uncertain {
            write!(
                f,
                "\nbeyond {MAX_KNOWN} keys, those that SCAN returns twice count twice"
            )?;
        }
        write!(
            f,
            "\nmemory is estimated from up to {SAMPLE} keys of each kind"
        )
    }
}
