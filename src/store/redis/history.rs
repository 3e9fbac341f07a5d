//! The calls on histories and summaries. A history lies beside the record of its live; a streamer's
//! past lives are on a list of their own, with the summaries beside it.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use fred::types::Value;

use super::lives::read_figures;
use super::paging::{Order, Scored};
use super::reply::{Reply, nonsense, text};
use super::{RedisStore, args, scripts};
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::UserId;
use crate::store::{
    Arrived, EntryId, Figures, HISTORY_STEP, History, LiveEpoch, MAX_BATCH, MAX_PAST_LIVES,
    PastLive, Point, StoreResult, Summary,
};

fn read_point(entry: EntryId, fields: &HashMap<String, String>) -> Option<Point> {
    let number = |name: &str| fields.get(name)?.parse().ok();
    Some(Point {
        at: entry.0,
        figures: Figures {
            viewers: number("viewers")?,
            fans: number("fans")?,
        },
        arrived: Arrived {
            joins: number("joins")?,
            leaves: number("leaves")?,
        },
    })
}

/// The newest point, which is in the record, unless the figures are those of another epoch, or a
/// close has appended them to the history.
fn read_open_point(of: &LiveEpoch, record: Value) -> StoreResult<Option<Point>> {
    let fields: HashMap<_, _> = Reply::of(record)?.pairs()?.into_iter().collect();
    let word = |name: &str| fields.get(name).map(String::as_str);
    let number = |name: &str| {
        word(name)
            .and_then(|number| number.parse().ok())
            .unwrap_or(0)
    };
    let at: Option<UnixMillis> = word("counted_at").and_then(|at| at.parse().ok());
    Ok(at
        .filter(|_| word("epoch") == Some(&of.epoch.to_string()))
        .map(|at| Point {
            at: at - at % millis(HISTORY_STEP),
            figures: read_figures(word("viewers"), word("fans")),
            arrived: Arrived {
                joins: number("joins"),
                leaves: number("leaves"),
            },
        }))
}

impl RedisStore {
    /// The record is read first: a point that is appended meanwhile is then found twice, and not
    /// missed.
    async fn do_history(
        &self,
        of: &LiveEpoch,
        from: UnixMillis,
        to: UnixMillis,
    ) -> StoreResult<Vec<Point>> {
        let record = self
            .router
            .command("HGETALL", args![self.keys().live(&of.live)])
            .await?;
        let open = read_open_point(of, record)?;
        let mut points = self.appended(of, from, to).await?;
        let is_newest = |point: &Point| points.last().is_none_or(|last| last.at < point.at);
        points.extend(open.filter(|point| (from..=to).contains(&point.at) && is_newest(point)));
        Ok(points)
    }

    async fn appended(
        &self,
        of: &LiveEpoch,
        from: UnixMillis,
        to: UnixMillis,
    ) -> StoreResult<Vec<Point>> {
        let (key, mut from, mut points) = (self.keys().history(of), from.to_string(), Vec::new());
        loop {
            let args = args![key, from, to, "COUNT", MAX_BATCH];
            let mut page = Reply::of(self.router.command("XRANGE", args).await?)?;
            let (mut read, mut last) = (0, None);
            while let Some(piece) = page.piece() {
                let mut piece = Reply::of(piece)?;
                let entry = EntryId::parse(&piece.text()?)
                    .ok_or_else(|| nonsense("an entry without an id"))?;
                let fields = piece
                    .list()?
                    .pairs()
                    .unwrap_or_default()
                    .into_iter()
                    .collect();
                points.extend(read_point(entry, &fields));
                (read, last) = (read + 1, Some(entry));
            }
            match last {
                Some(last) if read == MAX_BATCH => from = format!("({last}"),
                _ => return Ok(points),
            }
        }
    }

    async fn do_past_lives(
        &self,
        streamer: &UserId,
        after: Option<&PastLive>,
        limit: usize,
    ) -> StoreResult<Vec<Summary>> {
        let after = after.map(|last| (last.of.to_string(), last.closed_at));
        let [list, summaries] = self.keys().past_lives(streamer);
        let read = |(member, _): Scored| Some(member);
        let lives = self.page(&list, Order::Down, after, limit, read).await?;
        if lives.is_empty() {
            return Ok(Vec::new());
        }
        let mut args = args![summaries];
        args.extend(lives.into_iter().map(Value::from));
        let mut reply = Reply::of(self.router.command("HMGET", args).await?)?;
        let mut found = Vec::new();
        while let Some(piece) = reply.piece() {
            found.extend(
                text(piece)
                    .ok()
                    .and_then(|summary| serde_json::from_str(&summary).ok()),
            );
        }
        Ok(found)
    }
}

#[async_trait]
impl History for RedisStore {
    async fn history(
        &self,
        of: &LiveEpoch,
        from: UnixMillis,
        to: UnixMillis,
    ) -> StoreResult<Vec<Point>> {
        self.router
            .call("history", self.do_history(of, from, to))
            .await
    }

    async fn add_past_live(&self, summary: &Summary, keep: Duration) -> StoreResult<()> {
        // Strings and numbers only: this does not fail.
        let told = serde_json::to_string(summary).unwrap_or_default();
        let args = args![
            summary.past().of,
            summary.closed_at,
            told,
            millis(keep),
            MAX_PAST_LIVES
        ];
        let keys = self.keys().past_lives(&summary.streamer_id).to_vec();
        let steps = async {
            self.router
                .script(&scripts::ADD_PAST_LIVE, keys, args)
                .await
                .map(drop)
        };
        self.router.call("add_past_live", steps).await
    }

    async fn past_lives(
        &self,
        streamer: &UserId,
        after: Option<&PastLive>,
        limit: usize,
    ) -> StoreResult<Vec<Summary>> {
        self.router
            .call("past_lives", self.do_past_lives(streamer, after, limit))
            .await
    }

    async fn past_live(&self, streamer: &UserId, of: &LiveEpoch) -> StoreResult<Option<Summary>> {
        let [_, summaries] = self.keys().past_lives(streamer);
        let steps = async {
            let summary = self.router.command("HGET", args![summaries, of]).await?;
            Ok(summary
                .into_string()
                .and_then(|summary| serde_json::from_str(&summary).ok()))
        };
        self.router.call("past_live", steps).await
    }
}
