//! The calls on timelines. Each timeline is a key in a slot of its own, so writes to many go out
//! together, node by node.

use crate::features::feeds::scripts;
use std::collections::HashSet;

use async_trait::async_trait;
use fred::types::Value;
use tokio::time::Instant;

use crate::base::clock::millis;
use crate::features::feeds::store::statuses::{StatusId, TimelineEntry};
use crate::features::feeds::store::timelines::{MAX_TIMELINE, Timeline, Timelines};
use crate::store::StoreResult;
use crate::store::redis::changes::in_time;
use crate::store::redis::node::Command;
use crate::store::redis::paging::Scored;
use crate::store::redis::reply::{Reply, next_answer, number};
use crate::store::redis::router::ScriptCall;
use crate::store::redis::{RedisCalls, args};

/// Entries that a reading takes beyond a page, because entries with the time at which the page
/// begins may be on the page before.
const TIES: usize = 8;

/// `None` for another program's member.
fn read_entry((status, at): Scored) -> Option<TimelineEntry> {
    Some(TimelineEntry {
        at,
        id: StatusId::parse(&status)?,
    })
}

/// The command for up to so many entries, from the time of the given one on.
fn page_command(key: &str, after: Option<&TimelineEntry>, most: usize) -> Command {
    let from = match after {
        Some(after) => after.at.to_string(),
        None => "+inf".to_owned(),
    };
    (
        "ZRANGE",
        args![
            key,
            from,
            "-inf",
            "BYSCORE",
            "REV",
            "LIMIT",
            0,
            most,
            "WITHSCORES"
        ],
    )
}

/// A wanted page: of the timeline with this key, the entries after the given one.
struct WantedPage {
    key: String,
    after: Option<TimelineEntry>,
}

/// A page as Redis has it.
struct RawPage {
    entries: Vec<TimelineEntry>,
    /// Whether the page reaches the end of the timeline.
    at_end: bool,
}

impl RawPage {
    /// Reads the answer to a command for up to `most` entries.
    fn read(answer: Value, after: Option<&TimelineEntry>, most: usize) -> StoreResult<Self> {
        let raw = Reply::of(answer)?.scored()?;
        let at_end = raw.len() < most;
        let mut entries = Vec::with_capacity(raw.len());
        for scored in raw {
            let Some(entry) = read_entry(scored) else {
                continue;
            };
            if after.is_none_or(|after| entry < *after) {
                entries.push(entry);
            }
        }
        Ok(Self { entries, at_end })
    }
}

impl RedisCalls {
    /// Reads pages of up to `most` raw entries.
    async fn raw_pages(&self, asked: &[WantedPage], most: usize) -> Vec<StoreResult<RawPage>> {
        self.router
            .read_each(
                "read_timelines",
                asked,
                |asked| vec![page_command(&asked.key, asked.after.as_ref(), most)],
                |asked, answers| RawPage::read(next_answer(answers)?, asked.after.as_ref(), most),
            )
            .await
    }

    fn timeline_key(&self, timeline: &Timeline) -> String {
        self.keys().timeline(timeline)
    }
}

#[async_trait]
impl Timelines for RedisCalls {
    async fn read_timelines(
        &self,
        asked: &[(Timeline, Option<TimelineEntry>)],
        limit: usize,
    ) -> Vec<StoreResult<Vec<TimelineEntry>>> {
        let limit = limit.min(MAX_TIMELINE);
        let asked: Vec<WantedPage> = asked
            .iter()
            .map(|(line, after)| WantedPage {
                key: self.timeline_key(line),
                after: after.clone(),
            })
            .collect();
        let extra = if asked.iter().any(|asked| asked.after.is_some()) {
            TIES
        } else {
            0
        };
        let found = self
            .raw_pages(&asked, (limit + extra).min(MAX_TIMELINE))
            .await;
        let mut pages = Vec::with_capacity(found.len());
        for (asked, found) in asked.into_iter().zip(found) {
            let mut page = found;
            if let Ok(found) = &page
                && !found.at_end
                && found.entries.len() < limit
            {
                // Many entries have the same time: the whole timeline has the rest of the page.
                if let Some(whole) = self.raw_pages(&[asked], MAX_TIMELINE).await.pop() {
                    page = whole;
                }
            }
            pages.push(page.map(|page| {
                let mut entries = page.entries;
                entries.truncate(limit);
                entries
            }));
        }
        pages
    }

    async fn timeline_len(&self, timeline: &Timeline) -> StoreResult<u64> {
        let key = args![self.timeline_key(timeline)];
        number(&self.router.command("ZCARD", key).await?)
    }

    async fn are_on_timelines(&self, asked: &[(Timeline, StatusId)]) -> Vec<StoreResult<bool>> {
        self.router
            .read_each(
                "are_on_timelines",
                asked,
                |(line, status)| vec![("ZSCORE", args![self.timeline_key(line), status])],
                |_, answers| Ok(!next_answer(answers)?.is_null()),
            )
            .await
    }

    async fn add_to_timelines(
        &self,
        entry: &TimelineEntry,
        to: &[Timeline],
        looked: Instant,
    ) -> StoreResult<()> {
        let mut keys = Vec::with_capacity(to.len());
        let mut calls = Vec::with_capacity(to.len());
        for timeline in to {
            let key = self.timeline_key(timeline);
            let not_after = self.router.not_after(&key).await?;
            // Read after the node's time: the process may have been stopped in between.
            let until = not_after.saturating_sub(millis(looked.elapsed()));
            calls.push(ScriptCall {
                keys: vec![key.clone()],
                args: args![until, timeline.most(), entry.at, entry.id],
            });
            keys.push(key);
        }
        let answers = self.router.script_each(&scripts::ADD_STATUSES, calls).await;
        for (key, answer) in keys.iter().zip(answers) {
            in_time(self, key, answer?)?;
        }
        Ok(())
    }

    async fn add_entries(&self, timeline: &Timeline, entries: &[TimelineEntry]) -> StoreResult<()> {
        let key = self.timeline_key(timeline);
        let mut args = args![self.router.not_after(&key).await?, timeline.most()];
        for entry in entries.iter().take(MAX_TIMELINE) {
            args.extend(args![entry.at, entry.id]);
        }
        let reply = self
            .router
            .script(&scripts::ADD_STATUSES, vec![key.clone()], args)
            .await?;
        in_time(self, &key, reply)?;
        Ok(())
    }

    async fn remove_from_timelines(&self, status: &StatusId, from: &[Timeline]) -> StoreResult<()> {
        let commands = from
            .iter()
            .map(|timeline| ("ZREM", args![self.timeline_key(timeline), status]))
            .collect();
        for answer in self.router.read_all(commands).await {
            answer?;
        }
        Ok(())
    }

    async fn remove_entries(&self, timeline: &Timeline, statuses: &[StatusId]) -> StoreResult<()> {
        let unique: HashSet<&str> = statuses.iter().map(StatusId::as_str).collect();
        if unique.is_empty() {
            return Ok(());
        }
        let mut args = args![self.timeline_key(timeline)];
        args.extend(unique.into_iter().map(Value::from));
        self.router.command("ZREM", args).await?;
        Ok(())
    }
}
