//! The calls on the counts that other services read: the figures in the records, and the ranks
//! beside the list of open lives.

use std::time::Duration;

use async_trait::async_trait;
use fred::types::Value;

use super::paging::{PageOrder, Scored};
use super::reply::{Reply, nonsense, score};
use super::{RedisCalls, args, keys, scripts};
use crate::base::clock::millis;
use crate::base::ids::LiveId;
use crate::store::LiveEpoch;
use crate::store::{
    Arrived, COUNT_EVERY, CountLive, CountReply, Counts, Figures, MAX_BATCH, Peaks, Rank,
    RankedLive, StoreResult,
};
use crate::store::{HISTORY_STEP, MAX_POINTS};

/// Maximum lives per call that ranks. Each is a member of three sets.
const MAX_RANKED: usize = MAX_BATCH / 3;

/// The arguments of a script that appends a point to a history.
pub(crate) fn point_args() -> Vec<Value> {
    args![
        millis(HISTORY_STEP),
        MAX_POINTS,
        keys::HISTORY_TTL.as_secs()
    ]
}

fn read_ranked((live, figure): Scored) -> Option<RankedLive> {
    Some(RankedLive {
        live: LiveId::parse(&live).ok()?,
        figure,
    })
}

impl RedisCalls {
    /// The scores of up to [`MAX_BATCH`] lives in a set of ranks.
    async fn scores(&self, rank: Rank, lives: &[LiveId]) -> StoreResult<Vec<Option<u64>>> {
        let mut args = args![self.keys().top(rank)];
        args.extend(lives.iter().map(|live| Value::from(live.as_str())));
        let mut reply = Reply::of(self.router.command("ZMSCORE", args).await?)?;
        let mut scores = Vec::with_capacity(lives.len());
        while let Some(piece) = reply.piece() {
            scores.push(if piece.is_null() {
                None
            } else {
                Some(score(piece)?.max(0.0) as u64)
            });
        }
        if scores.len() == lives.len() {
            Ok(scores)
        } else {
            Err(nonsense("too few scores"))
        }
    }
}

#[async_trait]
impl Counts for RedisCalls {
    async fn count_live(&self, request: &CountLive) -> StoreResult<CountReply> {
        let Figures {
            viewers,
            fans,
            guests,
        } = request.figures;
        let of = LiveEpoch {
            live: request.live.clone(),
            epoch: request.epoch,
        };
        let Arrived { joins, leaves } = request.arrived;
        let Peaks {
            viewers: most_viewers,
            fans: most_fans,
        } = request.peaks;
        let mut args = args![
            request.epoch,
            viewers,
            fans,
            joins,
            leaves,
            most_viewers,
            most_fans,
            millis(COUNT_EVERY)
        ];
        args.extend(point_args());
        args.extend(args![guests]);
        let keys = vec![self.keys().live(&request.live), self.keys().history(&of)];
        let mut reply = self
            .router
            .script(&scripts::WRITE_COUNTS, keys, args)
            .await?;
        match reply.text()?.as_str() {
            "counted" => Ok(CountReply::Counted),
            "same" => Ok(CountReply::Same),
            "early" => Ok(CountReply::Early(Duration::from_millis(reply.number()?))),
            "not_open" => Ok(CountReply::NotOpen),
            other => Err(nonsense(format!("counts answered {other}"))),
        }
    }

    async fn rank_lives(&self, figures: &[(LiveId, Figures)]) -> StoreResult<()> {
        for some in figures.chunks(MAX_RANKED) {
            let mut args = Vec::new();
            for (live, figures) in some {
                args.extend(args![live, figures.viewers, figures.fans]);
            }
            self.router
                .script(&scripts::RANK_LIVES, self.keys().list(), args)
                .await?;
        }
        Ok(())
    }

    async fn ranked_figures(&self, lives: &[LiveId]) -> StoreResult<Vec<Option<Figures>>> {
        let mut ranked = Vec::with_capacity(lives.len());
        for some in lives.chunks(MAX_BATCH) {
            let (viewers, fans) = tokio::try_join!(
                self.scores(Rank::Viewers, some),
                self.scores(Rank::Fans, some)
            )?;
            for scores in viewers.into_iter().zip(fans) {
                ranked.push(match scores {
                    (Some(viewers), Some(fans)) => Some(Figures {
                        viewers,
                        fans,
                        guests: 0,
                    }),
                    _ => None,
                });
            }
        }
        Ok(ranked)
    }

    async fn top_lives(
        &self,
        rank: Rank,
        after: Option<&RankedLive>,
        limit: usize,
    ) -> StoreResult<Vec<RankedLive>> {
        let after = after.map(|last| (last.live.as_str().to_owned(), last.figure));
        let key = self.keys().top(rank);
        self.page(&key, PageOrder::Down, after, limit, read_ranked)
            .await
    }
}
