//! The fan check: which users follow the streamer, asked in batches, never one by one.
//!
//! The flusher asks the store before it adds a user to the set. When the answers for a small slice
//! expire, upkeep asks again, for many such slices in one call; the flusher does so for large ones.
//! Unknown is not no: while the source is away, known answers are kept and unknown users wait as
//! viewers. With `--fan-source token` the seats ask the viewers' tokens instead, and no check is
//! ever due. A source elsewhere is asked by [`super::fan_asker`].

use std::sync::Arc;

use crate::base::clock::Clock;
use crate::base::ids::UserId;
use crate::base::metrics::Metrics;
use crate::presence::{ExpiredFans, Room, Rooms};
use crate::store::MAX_BATCH;
use crate::store::fans::{FanAnswers, FanError, FanLookup};

pub struct FanCheck {
    pub rooms: Arc<Rooms>,
    pub source: Arc<dyn FanLookup>,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
}

/// Expired users of the slice at that place in a room.
pub type Expired = (Arc<Room>, usize, ExpiredFans);

impl FanCheck {
    /// For each of up to [`MAX_BATCH`] users, whether they follow the streamer, in the same order.
    ///
    /// # Errors
    /// The source is away: known answers stay valid.
    pub async fn ask(&self, streamer: &UserId, users: &[UserId]) -> Result<FanAnswers, FanError> {
        let answers = self.source.ask(streamer, users).await?;
        self.count(&answers);
        Ok(answers)
    }

    /// Asks again about all these users, up to [`MAX_BATCH`] in one call.
    pub async fn renew(&self, mut expired: Vec<Expired>) {
        while !expired.is_empty() {
            let mut users = 0;
            let fits = |(_, _, expired): &&Expired| {
                users += expired.users.len();
                users <= MAX_BATCH
            };
            let count = expired.iter().take_while(fits).count().max(1);
            self.renew_some(expired.drain(..count).collect()).await;
        }
    }

    async fn renew_some(&self, expired: Vec<Expired>) {
        let asked: Vec<_> = expired
            .iter()
            .map(|(room, _, fans)| (room.record.streamer.clone(), fans.users.clone()))
            .collect();
        let answers = self.source.ask_each(&asked).await;
        let now = self.clock.now();
        for ((room, place, fans), answer) in expired.into_iter().zip(answers) {
            answer.iter().for_each(|answers| self.count(answers));
            room.renew_checks(place, &fans, answer.ok(), now);
            if room.is_dirty(place) && room.end().is_none() {
                self.rooms.flush(&room, place);
            }
        }
    }

    fn count(&self, answers: &FanAnswers) {
        self.metrics.fans_checked(answers.iter().flatten().copied());
    }
}
