//! Upkeep of attendance, by the gateway that walks. It renews the lifetimes of the attendance of
//! open lives, notes what other gateways failed to note, and forgets the attendance of lives that
//! closed long ago. It deletes in the background, because a large key that expires holds up Redis.

use std::sync::Arc;

use futures_util::{StreamExt, stream};

use crate::base::clock::{Clock, UnixMillis, millis};
use crate::config::AttendanceForm;
use crate::store::{
    ATTENDANCE_KEPT, ATTENDANCE_RENEWED, LiveEpoch, LiveRecord, LiveState, Store, StoreResult,
};

/// Epochs that one round reads.
const EPOCHS_PER_ROUND: usize = 32;

/// Epochs of a round that are worked on at the same time.
const MAX_CONCURRENT_EPOCHS: usize = 4;

/// Rounds of one turn. The remaining epochs wait for the next walk.
const MAX_ROUNDS: usize = 32;

pub struct AttendanceUpkeep {
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    pub form: AttendanceForm,
}

impl AttendanceUpkeep {
    /// Takes one turn. An error in one epoch does not stop the others of its round.
    pub async fn take_turn(&self) {
        // A store that lost its data is told again how attendance is kept.
        if let Ok(fixed) = self.store.fix_attendance_form(self.form).await
            && fixed != self.form
        {
            tracing::error!(
                wanted = self.form.as_str(),
                fixed = fixed.as_str(),
                "another gateway fixed another form of attendance; stop one of them"
            );
        }
        for _ in 0..MAX_ROUNDS {
            match self.settle_due().await {
                Ok(true) => {}
                Ok(false) => return,
                Err(why) => {
                    return tracing::debug!(error = %why, "could not read whose attendance is due");
                }
            }
        }
    }

    /// Settles the epochs that have been due for the longest time. True if more may be due.
    async fn settle_due(&self) -> StoreResult<bool> {
        let now = self.clock.unix();
        let due = self.store.attendance_due(now, EPOCHS_PER_ROUND).await?;
        let settlements = due
            .iter()
            .map(|of| async move { (of, self.settle_epoch(of, now).await) });
        let settlements: Vec<_> = stream::iter(settlements.collect::<Vec<_>>())
            .buffer_unordered(MAX_CONCURRENT_EPOCHS)
            .collect()
            .await;
        let mut done = 0;
        for (of, settled) in settlements {
            match settled {
                Ok(()) => done += 1,
                Err(why) => tracing::debug!(
                    live_id = %of.live, epoch = %of.epoch, error = %why,
                    "could not look after attendance"
                ),
            }
        }
        Ok(done > 0 && due.len() == EPOCHS_PER_ROUND)
    }

    /// Renews, ends or forgets the attendance of one epoch.
    ///
    /// The record says whether the epoch is over. An epoch without a record is over: a gateway that
    /// holds the live would have written the record again, or notes the end once more when the live
    /// closes.
    async fn settle_epoch(&self, of: &LiveEpoch, now: UnixMillis) -> StoreResult<()> {
        let record = self.store.load_live(&of.live).await?;
        let record = record.filter(|record| record.epoch == of.epoch && record.terms.attendance);
        let noted = self.store.attended(of).await?;
        let attended = match (&noted, &record) {
            (Some(noted), _) => noted.clone(),
            (None, Some(record)) => record.attended(),
            (None, None) => return self.store.forget_attendance(of, None).await,
        };
        if let Some(record) = &record
            && record.state != LiveState::Closed
        {
            self.begin(record).await?;
            return self
                .store
                .renew_attendance(of, &attended, now + millis(ATTENDANCE_RENEWED))
                .await;
        }
        let closure = record.and_then(|record| record.closure);
        let recorded_close = closure.map(|closure| closure.at);
        let closed_at = attended.closed_at.or(recorded_close).unwrap_or(now);
        let until = closed_at + millis(ATTENDANCE_KEPT);
        if until <= now {
            tracing::info!(live_id = %of.live, epoch = %of.epoch, "forgetting attendance");
            return self.store.forget_attendance(of, Some(&attended)).await;
        }
        let is_end_noted = noted.is_some_and(|noted| noted.closed_at.is_some());
        if !is_end_noted {
            self.store.begin_attendance(of, &attended).await?;
            self.store.end_attendance(of, closed_at).await?;
        }
        self.store.renew_attendance(of, &attended, until).await
    }

    /// Begins the attendance of open lives that have none: the gateway that opened the live died, or
    /// the store lost the attendance.
    pub async fn begin_missing(&self, open: &[LiveRecord]) {
        let recorded = open.iter().filter(|record| record.terms.attendance);
        let begun = recorded.map(|record| async move {
            if self.store.attended(&record.live_epoch()).await?.is_none() {
                self.begin(record).await?;
            }
            StoreResult::Ok(())
        });
        let begun: Vec<_> = stream::iter(begun.collect::<Vec<_>>())
            .buffer_unordered(MAX_CONCURRENT_EPOCHS)
            .collect()
            .await;
        if let Some(why) = begun.iter().find_map(|begun| begun.as_ref().err()) {
            tracing::debug!(error = %why, "attendance was not noted, will try again");
        }
    }

    async fn begin(&self, record: &LiveRecord) -> StoreResult<()> {
        self.store
            .begin_attendance(&record.live_epoch(), &record.attended())
            .await
    }
}
