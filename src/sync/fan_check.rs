//! The fan check: which users follow the streamer, asked in batches, never one by one.
//!
//! The flusher asks the store before it adds a user to the set. When the answers for a small slice
//! expire, upkeep asks again, for many such slices in one call; the flusher does so for large ones.
//! Unknown is not no: while the source is away, known answers are kept and unknown users wait as
//! viewers. With `--fan-source token` the seats ask the viewers' tokens instead, and no check is
//! ever due. A source elsewhere is asked by a feature.

use std::sync::Arc;

use crate::base::ids::UserId;
use crate::peers::core::Core;
use crate::presence::{ExpiredFans, SliceRef};
use crate::store::MAX_BATCH;
use crate::store::fans::{FanAnswers, FanError, FanLookup};

pub struct FanCheck {
    pub core: Arc<Core>,
    pub source: Arc<dyn FanLookup>,
}

/// The users of one slice whose fan check has expired.
pub struct Expired {
    pub slice: SliceRef,
    pub streamer: UserId,
    pub fans: ExpiredFans,
}

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
            let count = count_in_one_call(&expired);
            self.renew_some(expired.drain(..count).collect()).await;
        }
    }

    async fn renew_some(&self, expired: Vec<Expired>) {
        let asked: Vec<_> = expired
            .iter()
            .map(|expired| (expired.streamer.clone(), expired.fans.users.clone()))
            .collect();
        let answers = self.source.ask_each(&asked).await;
        let now = self.core.clock.now();
        for (Expired { slice, fans, .. }, answer) in expired.into_iter().zip(answers) {
            if let Ok(answers) = &answer {
                self.count(answers);
            }
            slice.renew_checks(&fans, answer.ok(), now);
            if slice.is_dirty() && !slice.has_ended() {
                self.core.rooms.flush(&slice);
            }
        }
    }

    fn count(&self, answers: &FanAnswers) {
        self.core
            .metrics
            .fans_checked(answers.iter().flatten().copied());
    }
}

/// How many of the first slices fit in one call: at least one.
fn count_in_one_call(expired: &[Expired]) -> usize {
    let mut users = 0;
    let mut count = 0;
    for slice in expired {
        users += slice.fans.users.len();
        if users > MAX_BATCH {
            break;
        }
        count += 1;
    }
    count.max(1)
}
