//! How many keys of each kind there are. Every key is counted once and asked for its type; only
//! some of each kind are asked for their memory.

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

/// Keys of each kind that are asked for their memory. SCAN answers keys in the order of their
/// hashes, so that the first ones are a fair sample.
const SAMPLE: u64 = 100;

/// Kinds that are told apart. Another program's keys may each look like a kind of its own.
const MOST_KINDS: usize = 1_000;

/// The kind of the keys beyond these.
const OTHER: &str = "(others)";

/// Keys that are known again if SCAN returns them twice: 8 bytes for each.
const MOST_KNOWN: usize = 20_000_000;

/// Keys that are measured concurrently.
const AT_A_TIME: usize = 8;

#[derive(Debug, Serialize)]
pub(super) struct Census {
    pattern: String,
    keys: u64,
    masters: usize,
    /// An estimate; null if the server gives none.
    bytes: Option<u64>,
    kinds: Vec<KindRow>,
    listed: Vec<ListedKey>,
    /// Whether keys may have been counted twice, because there are too many to remember.
    uncertain: bool,
    seconds: f64,
    #[serde(skip)]
    counting: Counting,
}

#[derive(Debug, Default)]
struct Counting {
    kinds: BTreeMap<String, Kind>,
    /// The hashes of the keys: two keys with the same one are rarer than what SCAN misses.
    known: HashSet<u64>,
    to_list: usize,
}

#[derive(Debug, Default)]
struct Kind {
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
    /// An estimate from the sample; null without one.
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
            counting: Counting {
                to_list,
                ..Counting::default()
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
        let mut measured = Vec::new();
        for (key, r#type) in keys
            .into_iter()
            .zip(types)
            .filter(|(_, r#type)| r#type != "none")
        {
            self.keys += 1;
            let (name, kind) = self.counting.kind(store, &key);
            kind.keys += 1;
            *kind.types.entry(r#type.clone()).or_default() += 1;
            let in_sample = kind.keys <= SAMPLE;
            let is_listed = self.counting.to_list > 0;
            self.counting.to_list -= usize::from(is_listed);
            if in_sample || is_listed {
                measured.push((name, in_sample, is_listed, (key, r#type)));
            }
        }
        let sizes =
            stream::iter(measured).map(async |(kind, in_sample, is_listed, (key, r#type))| {
                let bytes = store.key_bytes(&key).await?;
                StoreResult::Ok((
                    kind,
                    in_sample,
                    is_listed.then_some(ListedKey { key, r#type, bytes }),
                    bytes,
                ))
            });
        let sizes: Vec<_> = sizes.buffered(AT_A_TIME).try_collect().await?;
        for (kind, in_sample, listed, bytes) in sizes {
            self.listed.extend(listed);
            if let (true, Some(bytes), Some(kind)) =
                (in_sample, bytes, self.counting.kinds.get_mut(&kind))
            {
                kind.sampled += 1;
                kind.sampled_bytes += bytes;
            }
        }
        sleep(started.elapsed()).await;
        Ok(())
    }

    fn is_new(&mut self, key: &str) -> bool {
        let (known, hash) = (&mut self.counting.known, xxh3_64(key.as_bytes()));
        if known.len() < MOST_KNOWN {
            return known.insert(hash);
        }
        self.uncertain = true;
        !known.contains(&hash)
    }

    /// Makes the rows, those with most memory first.
    pub(super) fn finish(&mut self, masters: usize, took: Duration) {
        let rows = std::mem::take(&mut self.counting)
            .kinds
            .into_iter()
            .map(|(kind, found)| {
                let Kind {
                    keys,
                    types,
                    sampled,
                    sampled_bytes,
                } = found;
                // Through 128 bits: a sample of large keys times many of them.
                let bytes =
                    (u128::from(sampled_bytes) * u128::from(keys)).checked_div(u128::from(sampled));
                let bytes = bytes.map(|bytes| u64::try_from(bytes).unwrap_or(u64::MAX));
                KindRow {
                    kind,
                    keys,
                    types,
                    bytes,
                    sampled,
                }
            });
        self.kinds = rows.collect();
        self.kinds
            .sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.kind.cmp(&b.kind)));
        self.listed.sort_by(|a, b| a.key.cmp(&b.key));
        let known = self
            .kinds
            .iter()
            .filter_map(|row| row.bytes)
            .reduce(u64::saturating_add);
        (self.bytes, self.masters, self.seconds) = (known, masters, took.as_secs_f64());
    }
}

impl Counting {
    /// The kind of a key, by its name.
    fn kind(&mut self, store: &RedisStore, key: &str) -> (String, &mut Kind) {
        let mut name = store.keys().kind(key).unwrap_or_else(|| OTHER.to_owned());
        if self.kinds.len() >= MOST_KINDS && !self.kinds.contains_key(&name) {
            OTHER.clone_into(&mut name);
        }
        (name.clone(), self.kinds.entry(name).or_default())
    }
}

fn estimate(n: Option<u64>) -> String {
    n.map_or_else(|| "?".to_owned(), bytes)
}

impl Display for Census {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (keys, masters) = (
            count(self.keys as usize, "key"),
            count(self.masters, "master"),
        );
        writeln!(
            f,
            "{keys} on {masters}, about {} in all; {:.1} s",
            estimate(self.bytes),
            self.seconds
        )?;
        let types = |types: &BTreeMap<String, u64>| {
            let said = types.iter().map(|(name, keys)| {
                if types.len() == 1 {
                    name.clone()
                } else {
                    format!("{name} {keys}")
                }
            });
            said.collect::<Vec<_>>().join(", ")
        };
        let rows = self.kinds.iter().map(|row| {
            [
                row.kind.clone(),
                row.keys.to_string(),
                types(&row.types),
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
                "\nbeyond {MOST_KNOWN} keys, those that SCAN returns twice count twice"
            )?;
        }
        write!(
            f,
            "\nmemory is estimated from up to {SAMPLE} keys of each kind"
        )
    }
}
