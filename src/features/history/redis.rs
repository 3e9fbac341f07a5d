//! The calls on histories and summaries. A history lies beside the record of its live. A streamer's
//! past lives are on a list of their own, with the summaries beside it.

use crate::features::history::scripts;
use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use fred::types::Value;

use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::UserId;
use crate::features::history::store::{History, MAX_PAST_LIVES, PastLive};
use crate::store::LiveEpoch;
use crate::store::Summary;
use crate::store::redis::lives::read_figures;
use crate::store::redis::paging::PageOrder;
use crate::store::redis::reply::{Reply, nonsense};
use crate::store::redis::{RedisCalls, args};
use crate::store::{Arrived, EntryId, Figures, MAX_BATCH, StoreResult};
use crate::store::{HISTORY_STEP, Point};

fn field<'a>(fields: &'a HashMap<String, String>, name: &str) -> Option<&'a str> {
    fields.get(name).map(String::as_str)
}

fn number(fields: &HashMap<String, String>, name: &str) -> Option<u64> {
    field(fields, name)?.parse().ok()
}

fn read_point(entry: EntryId, fields: &HashMap<String, String>) -> Option<Point> {
    Some(Point {
        at: entry.0,
        figures: Figures {
            viewers: number(fields, "viewers")?,
            fans: number(fields, "fans")?,
            guests: number(fields, "guests").unwrap_or(0),
        },
        arrived: Arrived {
            joins: number(fields, "joins")?,
            leaves: number(fields, "leaves")?,
        },
    })
}

fn read_summary(piece: Value) -> Option<Summary> {
    serde_json::from_str(&piece.into_string()?).ok()
}

/// The newest point, which is in the record. `None` if the figures there are those of another
/// epoch, or if a close has appended them to the history.
fn read_open_point(of: &LiveEpoch, record: Value) -> StoreResult<Option<Point>> {
    let fields: HashMap<_, _> = Reply::of(record)?.pairs()?.into_iter().collect();
    let Some(at) = number(&fields, "counted_at") else {
        return Ok(None);
    };
    if field(&fields, "epoch") != Some(&of.epoch.to_string()) {
        return Ok(None);
    }
    Ok(Some(Point {
        at: at - at % millis(HISTORY_STEP),
        figures: read_figures(
            field(&fields, "viewers"),
            field(&fields, "fans"),
            field(&fields, "guests"),
        ),
        arrived: Arrived {
            joins: number(&fields, "joins").unwrap_or(0),
            leaves: number(&fields, "leaves").unwrap_or(0),
        },
    }))
}

impl RedisCalls {
    async fn appended(
        &self,
        of: &LiveEpoch,
        from: UnixMillis,
        to: UnixMillis,
    ) -> StoreResult<Vec<Point>> {
        let key = self.keys().history(of);
        let mut from = from.to_string();
        let mut points = Vec::new();
        loop {
            let args = args![key, from, to, "COUNT", MAX_BATCH];
            let mut page = Reply::of(self.router.command("XRANGE", args).await?)?;
            let mut read = 0;
            let mut last = None;
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
                read += 1;
                last = Some(entry);
            }
            match last {
                Some(last) if read == MAX_BATCH => from = format!("({last}"),
                _ => return Ok(points),
            }
        }
    }
}

#[async_trait]
impl History for RedisCalls {
    /// Reads the record first: a point that is appended in the meantime is then found twice, and
    /// not missed.
    async fn history(
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
        if let Some(point) = open {
            let is_newest = points.last().is_none_or(|last| last.at < point.at);
            if is_newest && (from..=to).contains(&point.at) {
                points.push(point);
            }
        }
        Ok(points)
    }

    async fn add_past_live(&self, summary: &Summary, keep: Duration) -> StoreResult<()> {
        // A summary has only strings and numbers, so this does not fail.
        let told = serde_json::to_string(summary).unwrap_or_default();
        let args = args![
            PastLive::of(summary).of,
            summary.closed_at,
            told,
            millis(keep),
            MAX_PAST_LIVES
        ];
        let keys = self.keys().past_lives(&summary.streamer_id).to_vec();
        self.router
            .script(&scripts::ADD_PAST_LIVE, keys, args)
            .await?;
        Ok(())
    }

    async fn past_lives(
        &self,
        streamer: &UserId,
        after: Option<&PastLive>,
        limit: usize,
    ) -> StoreResult<Vec<Summary>> {
        let after = after.map(|last| (last.of.to_string(), last.closed_at));
        let [list, summaries] = self.keys().past_lives(streamer);
        let lives = self
            .page(&list, PageOrder::Down, after, limit, |(member, _)| {
                Some(member)
            })
            .await?;
        if lives.is_empty() {
            return Ok(Vec::new());
        }
        let mut args = args![summaries];
        args.extend(lives.into_iter().map(Value::from));
        let mut reply = Reply::of(self.router.command("HMGET", args).await?)?;
        let mut found = Vec::new();
        while let Some(piece) = reply.piece() {
            found.extend(read_summary(piece));
        }
        Ok(found)
    }

    async fn past_live(&self, streamer: &UserId, of: &LiveEpoch) -> StoreResult<Option<Summary>> {
        let [_, summaries] = self.keys().past_lives(streamer);
        let summary = self.router.command("HGET", args![summaries, of]).await?;
        Ok(read_summary(summary))
    }
}
