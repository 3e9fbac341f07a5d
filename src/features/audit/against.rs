//! `rollcall audit --against KEY` compares the users of every open live with those in a key of
//! another program, for a team that runs Rollcall beside its own presence before it switches. It
//! changes nothing. Keys of the other program whose live Rollcall does not have open are searched
//! with SCAN.
//!
//! Both sides hear of what happens at different moments. So what differs is looked at a second time,
//! a moment later: only users who were on one side both times are reported, and only lives that
//! stayed open, or stayed away.

use std::collections::{BTreeSet, HashSet};
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use anyhow::anyhow;
use futures_util::{StreamExt, TryStreamExt, stream};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::base::exit;
use crate::base::ids::{Group, LiveId, OnlineSet, SliceId};
use crate::cli::common::{open, print};
use crate::cli::tables::{count, table};
use crate::config::{Config, KeyPattern};
use crate::features::audit::scan::MAX_CONCURRENT_READS;
use crate::store::redis::RedisStore;
use crate::store::{LiveRecord, LiveState, LiveStore, StoreError, StoreResult};

/// Maximum entries of `lives` that one call reads.
const PAGE: usize = 500;

/// The time between the two looks: a gateway has written every change that does not wait by then.
const BETWEEN: Duration = Duration::from_millis(1_500);

/// Maximum example users of each side of a live.
const EXAMPLES: usize = 3;

/// What is compared with what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Comparison<'a> {
    pub key: &'a KeyPattern,
    /// The users of Rollcall.
    pub group: Group,
}

/// `docs/audit.md` describes the fields.
#[derive(Debug, Serialize)]
struct ComparisonReport {
    lives: Vec<ComparedLive>,
    not_open: NotOpen,
    seconds: f64,
}

/// The lives of which the other program has a key, and which Rollcall does not have open.
#[derive(Debug, Serialize)]
struct NotOpen {
    lives: usize,
    examples: Vec<LiveId>,
}

#[derive(Debug, Serialize)]
struct ComparedLive {
    live_id: LiveId,
    /// The key of the other program.
    key: String,
    /// How many users both sides have.
    both: u64,
    only_key: OneSide,
    only_rollcall: OneSide,
    /// Why the key could not be read; null if it could be.
    unreadable: Option<String>,
}

/// The users whom only one side has.
#[derive(Debug, Default, Serialize)]
struct OneSide {
    users: u64,
    examples: Vec<String>,
}

impl OneSide {
    fn of(users: &HashSet<String>) -> Self {
        let mut examples: Vec<String> = users.iter().cloned().collect();
        examples.sort();
        examples.truncate(EXAMPLES);
        Self {
            users: users.len() as u64,
            examples,
        }
    }
}

/// The users of one live on both sides.
#[derive(Debug)]
struct Compared {
    both: u64,
    only_key: HashSet<String>,
    only_rollcall: HashSet<String>,
}

impl ComparisonReport {
    /// Whether both sides say the same of every live, and there is one. A comparison of nothing has
    /// a wrong name of a key or the wrong Redis, more likely than it has a platform without lives.
    fn is_agreement(&self) -> bool {
        !self.lives.is_empty()
            && self.not_open.lives == 0
            && !self.lives.iter().any(ComparedLive::differs)
    }
}

impl ComparedLive {
    fn differs(&self) -> bool {
        self.unreadable.is_some() || self.only_key.users + self.only_rollcall.users > 0
    }
}

/// Compares every open live, writes the report to standard output and returns the exit code.
pub(crate) async fn run(
    config: &Config,
    comparison: Comparison<'_>,
    json: bool,
) -> anyhow::Result<u8> {
    let store = open(config).await?;
    let report = compare(&store, comparison)
        .await
        .map_err(|why| anyhow!("the command cannot continue: {why}"))?;
    let code = if report.is_agreement() {
        exit::STOPPED
    } else {
        exit::FINDINGS
    };
    Ok(print(code, &report, json))
}

async fn compare(store: &RedisStore, comparison: Comparison<'_>) -> StoreResult<ComparisonReport> {
    let started = Instant::now();
    let mut lives = Vec::new();
    let mut page = store.lives_page(None, PAGE).await?;
    while let Some(last) = page.last().cloned() {
        let rows = stream::iter(page).map(|listed| compare_live(store, comparison, listed.live));
        let rows: Vec<Option<ComparedLive>> = rows
            .buffer_unordered(MAX_CONCURRENT_READS)
            .try_collect()
            .await?;
        lives.extend(rows.into_iter().flatten());
        page = store.lives_page(Some(&last), PAGE).await?;
    }
    lives.sort_by(|a: &ComparedLive, b| a.live_id.cmp(&b.live_id));
    Ok(ComparisonReport {
        lives,
        not_open: find_not_open(store, comparison.key).await?,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// Searches the keys of the other program for lives that are not open.
async fn find_not_open(store: &RedisStore, key: &KeyPattern) -> StoreResult<NotOpen> {
    let glob = key.glob();
    let mut lives = BTreeSet::new();
    let scanned = store.each_page(&glob, async |names| {
        lives.extend(names.iter().filter_map(|name| key.live_of(name)));
        Ok(())
    });
    scanned.await?;
    let mut lives = without_open(store, key, lives).await?;
    if !lives.is_empty() {
        sleep(BETWEEN).await;
        lives = without_open(store, key, lives).await?;
    }
    Ok(NotOpen {
        lives: lives.len(),
        examples: lives.into_iter().take(EXAMPLES).collect(),
    })
}

/// Those of the lives that have a key and are not open.
async fn without_open(
    store: &RedisStore,
    key: &KeyPattern,
    lives: BTreeSet<LiveId>,
) -> StoreResult<BTreeSet<LiveId>> {
    let left: Vec<Option<LiveId>> = stream::iter(lives)
        .map(|live| unless_open(store, key, live))
        .buffer_unordered(MAX_CONCURRENT_READS)
        .try_collect()
        .await?;
    Ok(left.into_iter().flatten().collect())
}

/// The live, if it has a key and is not open.
async fn unless_open(
    store: &RedisStore,
    key: &KeyPattern,
    live: LiveId,
) -> StoreResult<Option<LiveId>> {
    if open_record(store, &live).await?.is_some() {
        return Ok(None);
    }
    let types = store.key_types(&[key.of(&live)]).await?;
    // Other types have no users. The type of a key that may not be read is not known.
    let has_users = |kind: &String| matches!(kind.as_str(), "set" | "zset" | "hash" | "?");
    let is_there = types.iter().any(has_users);
    Ok(is_there.then_some(live))
}

/// The record of a live; `None` if the live is not open.
async fn open_record(store: &RedisStore, live: &LiveId) -> StoreResult<Option<LiveRecord>> {
    match store.load_live(live).await? {
        Some(record) if record.state == LiveState::Open => Ok(Some(record)),
        _ => Ok(None),
    }
}

/// Compares a live; `None` if it is not open, or did not stay open.
async fn compare_live(
    store: &RedisStore,
    comparison: Comparison<'_>,
    live: LiveId,
) -> StoreResult<Option<ComparedLive>> {
    let Some(record) = open_record(store, &live).await? else {
        return Ok(None);
    };
    let key = comparison.key.of(&live);
    let mut row = ComparedLive {
        live_id: live,
        key,
        both: 0,
        only_key: OneSide::default(),
        only_rollcall: OneSide::default(),
        unreadable: None,
    };
    match look_twice(store, comparison.group, &record, &row.key).await {
        Ok(compared) => {
            row.both = compared.both;
            row.only_key = OneSide::of(&compared.only_key);
            row.only_rollcall = OneSide::of(&compared.only_rollcall);
        }
        Err(StoreError::Nonsense(why) | StoreError::Refused(why)) => row.unreadable = Some(why),
        Err(why) => return Err(why),
    }
    if !row.differs() {
        return Ok(Some(row));
    }
    // A close deletes the sets of Rollcall, whoever is in the other key.
    let stayed_open = match open_record(store, &record.live).await? {
        Some(now) => now.epoch == record.epoch,
        None => false,
    };
    Ok(stayed_open.then_some(row))
}

async fn look_twice(
    store: &RedisStore,
    group: Group,
    record: &LiveRecord,
    key: &str,
) -> StoreResult<Compared> {
    let first = look(store, group, record, key).await?;
    if first.only_key.is_empty() && first.only_rollcall.is_empty() {
        return Ok(first);
    }
    sleep(BETWEEN).await;
    let mut second = look(store, group, record, key).await?;
    second.only_key.retain(|user| first.only_key.contains(user));
    second
        .only_rollcall
        .retain(|user| first.only_rollcall.contains(user));
    Ok(second)
}

async fn look(
    store: &RedisStore,
    group: Group,
    record: &LiveRecord,
    key: &str,
) -> StoreResult<Compared> {
    let mut only_key = store.members_of(key).await?;
    let mut only_rollcall = HashSet::new();
    let mut both = 0;
    for slice in SliceId::all(OnlineSet::Live(record.live.clone()), record.slices) {
        let members = store.keys().members(&slice, group);
        for user in store.members_of(&members).await? {
            if only_key.remove(&user) {
                both += 1;
            } else {
                only_rollcall.insert(user);
            }
        }
    }
    Ok(Compared {
        both,
        only_key,
        only_rollcall,
    })
}

impl Display for ComparisonReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} compared in {:.1} s",
            count(self.lives.len(), "open live"),
            self.seconds
        )?;
        writeln!(f)?;
        let rows = self.lives.iter().map(|live| {
            [
                live.live_id.to_string(),
                live.key.clone(),
                live.both.to_string(),
                cell(&live.only_key),
                live.unreadable
                    .clone()
                    .unwrap_or_else(|| cell(&live.only_rollcall)),
            ]
        });
        table(
            f,
            ["live", "key", "both", "only the key", "only Rollcall"],
            &rows.collect::<Vec<_>>(),
        )?;
        let differing = self.lives.iter().filter(|live| live.differs()).count();
        writeln!(f)?;
        if self.not_open.lives > 0 {
            let examples: Vec<&str> = self.not_open.examples.iter().map(LiveId::as_str).collect();
            let lives = count(self.not_open.lives, "live");
            let examples = examples.join(", ");
            writeln!(
                f,
                "{lives} with a key, but not open in Rollcall ({examples})"
            )?;
        }
        match differing {
            _ if self.lives.is_empty() => {
                write!(f, "nothing was compared: Rollcall has no live open here")
            }
            0 => write!(f, "both sides have the same users in every open live"),
            _ => write!(f, "{} where the sides differ", count(differing, "live")),
        }
    }
}

/// A number of users, with examples.
fn cell(side: &OneSide) -> String {
    match side.examples.as_slice() {
        [] => side.users.to_string(),
        examples => format!("{} ({})", side.users, examples.join(", ")),
    }
}
