//! The calls on timelines. Each timeline is a key in a slot of its own, so writes to many go out
//! together, node by node.

use std::collections::HashSet;

use async_trait::async_trait;
use fred::types::Value;
use tokio::time::Instant;

use crate::base::clock::millis;
use crate::store::redis::changes::in_time;
use crate::store::redis::paging::Scored;
use crate::store::redis::reply::{Reply, next_answer, number};
use crate::store::redis::{RedisStore, args, scripts};
use crate::store::{Entry, MAX_TIMELINE, StatusId, StoreResult, Timeline, Timelines};

/// Entries that are read beyond a page, because those of the time where the page begins may be on
/// the page before.
const TIES: usize = 8;

/// `None` for another program's member.
fn read_entry((status, at): Scored) -> Option<Entry> {
    Some(Entry {
        at,
        id: StatusId::parse(&status)?,
    })
}

/// The command for up to so many entries, from the time of the given one on.
fn page(key: &str, after: Option<&Entry>, most: usize) -> (&'static str, Vec<Value>) {
    let from = after.map_or("+inf".to_owned(), |after| after.at.to_string());
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

/// What was asked: the timeline's key, and after which entry.
type Asked = (String, Option<Entry>);

impl RedisStore {
    /// Reads pages of up to `most` raw entries; each with whether it reaches the end of the
    /// timeline.
    async fn raw_pages(
        &self,
        asked: &[Asked],
        most: usize,
    ) -> Vec<StoreResult<(Vec<Entry>, bool)>> {
        let command = |(key, after): &Asked| vec![page(key, after.as_ref(), most)];
        let read = |(_, after): &Asked, answers: &mut dyn Iterator<Item = _>| {
            let raw = Reply::of(next_answer(answers)?)?.scored()?;
            let at_end = raw.len() < most;
            let mut found: Vec<Entry> = raw.into_iter().filter_map(read_entry).collect();
            found.retain(|entry| after.as_ref().is_none_or(|after| entry < after));
            Ok((found, at_end))
        };
        self.router
            .read_each("read_timelines", asked, command, read)
            .await
    }

    fn timeline_key(&self, timeline: &Timeline) -> String {
        self.keys().timeline(timeline)
    }
}

#[async_trait]
impl Timelines for RedisStore {
    async fn read_timelines(
        &self,
        asked: &[(Timeline, Option<Entry>)],
        limit: usize,
    ) -> Vec<StoreResult<Vec<Entry>>> {
        let limit = limit.min(MAX_TIMELINE);
        let asked: Vec<Asked> = asked
            .iter()
            .map(|(line, after)| (self.timeline_key(line), after.clone()))
            .collect();
        let extra = if asked.iter().any(|(_, after)| after.is_some()) {
            TIES
        } else {
            0
        };
        let found = self
            .raw_pages(&asked, (limit + extra).min(MAX_TIMELINE))
            .await;
        let mut pages = Vec::with_capacity(found.len());
        for (asked, found) in asked.into_iter().zip(found) {
            let found = match found {
                // Many have the same time: the whole timeline has the rest of the page.
                Ok((found, false)) if found.len() < limit => self
                    .raw_pages(&[asked], MAX_TIMELINE)
                    .await
                    .pop()
                    .unwrap_or(Ok((found, true))),
                found => found,
            };
            pages.push(found.map(|(mut entries, _)| {
                entries.truncate(limit);
                entries
            }));
        }
        pages
    }

    async fn timeline_len(&self, timeline: &Timeline) -> StoreResult<u64> {
        let key = args![self.timeline_key(timeline)];
        let steps = async { number(&self.router.command("ZCARD", key).await?) };
        self.router.call("timeline_len", steps).await
    }

    async fn are_on_timelines(&self, asked: &[(Timeline, StatusId)]) -> Vec<StoreResult<bool>> {
        let command = |(line, status): &(Timeline, StatusId)| {
            vec![("ZSCORE", args![self.timeline_key(line), status])]
        };
        let read = |_: &(Timeline, StatusId), answers: &mut dyn Iterator<Item = _>| {
            next_answer(answers).map(|score: Value| !score.is_null())
        };
        self.router
            .read_each("are_on_timelines", asked, command, read)
            .await
    }

    async fn add_to_timelines(
        &self,
        entry: &Entry,
        to: &[Timeline],
        looked: Instant,
    ) -> StoreResult<()> {
        let steps = async {
            let (mut keys, mut calls) =
                (Vec::with_capacity(to.len()), Vec::with_capacity(to.len()));
            for timeline in to {
                let key = self.timeline_key(timeline);
                let not_after = self.router.not_after(&key).await?;
                // Read after the node's time: the process may have been stopped in between.
                let until = not_after.saturating_sub(millis(looked.elapsed()));
                calls.push((
                    vec![key.clone()],
                    args![until, timeline.most(), entry.at, entry.id],
                ));
                keys.push(key);
            }
            let answers = self.router.script_each(&scripts::ADD_STATUSES, calls).await;
            for (key, answer) in keys.iter().zip(answers) {
                in_time(self, key, answer?)?;
            }
            Ok(())
        };
        self.router.call("add_to_timelines", steps).await
    }

    async fn add_entries(&self, timeline: &Timeline, entries: &[Entry]) -> StoreResult<()> {
        let key = self.timeline_key(timeline);
        let steps = async {
            let mut args = args![self.router.not_after(&key).await?, timeline.most()];
            for entry in entries.iter().take(MAX_TIMELINE) {
                args.extend(args![entry.at, entry.id]);
            }
            let reply = self
                .router
                .script(&scripts::ADD_STATUSES, vec![key.clone()], args)
                .await?;
            in_time(self, &key, reply).map(drop)
        };
        self.router.call("add_entries", steps).await
    }

    async fn remove_from_timelines(&self, status: &StatusId, from: &[Timeline]) -> StoreResult<()> {
        let commands = from
            .iter()
            .map(|timeline| ("ZREM", args![self.timeline_key(timeline), status]))
            .collect();
        let steps = async {
            self.router
                .read_all(commands)
                .await
                .into_iter()
                .collect::<StoreResult<Vec<Value>>>()
                .map(drop)
        };
        self.router.call("remove_from_timelines", steps).await
    }

    async fn remove_entries(&self, timeline: &Timeline, statuses: &[StatusId]) -> StoreResult<()> {
        let unique: HashSet<&str> = statuses.iter().map(StatusId::as_str).collect();
        if unique.is_empty() {
            return Ok(());
        }
        let mut args = args![self.timeline_key(timeline)];
        args.extend(unique.into_iter().map(Value::from));
        let steps = async { self.router.command("ZREM", args).await.map(drop) };
        self.router.call("remove_entries", steps).await
    }
}
