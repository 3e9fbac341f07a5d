//! What the gateway that walks does for attendance: it renews the lifetimes of what is kept of open
//! lives, notes what other gateways failed to note, and forgets what was kept of closed lives for
//! its time. It deletes in the background: a large key that expires holds up Redis.

use std::sync::Arc;

use futures_util::{StreamExt, stream};

use crate::base::clock::{Clock, UnixMillis, millis};
use crate::config::AttendanceForm;
use crate::store::{
    ATTENDANCE_KEPT, ATTENDANCE_RENEWED, LiveEpoch, LiveRecord, LiveState, Store, StoreResult,
};

/// Epochs that are read at once, and of those, worked on at a time.
const A_ROUND: usize = 32;
const AT_A_TIME: usize = 4;

/// Rounds of one turn; what is left waits for the next walk.
const MAX_ROUNDS: usize = 32;

pub struct AttendanceUpkeep {
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    pub form: AttendanceForm,
}

impl AttendanceUpkeep {
    /// One turn. An error in one epoch keeps no other of its round from its turn.
    pub async fn look_after(&self) {
        // A store that lost its data is told again how attendance is kept.
        if let Ok(fixed) = self.store.fix_attendance_form(self.form).await
            && fixed != self.form
        {
            let (wanted, fixed) = (self.form.as_str(), fixed.as_str());
            tracing::error!(
                wanted,
                fixed,
                "another gateway fixed another form of attendance; stop one of them"
            );
        }
        for _ in 0..MAX_ROUNDS {
            match self.look_after_due().await {
                Ok(true) => {}
                Ok(false) => return,
                Err(why) => {
                    return tracing::debug!(error = %why, "could not read whose attendance is due");
                }
            }
        }
    }

    /// Looks after the epochs that are due longest. True if more may be due.
    async fn look_after_due(&self) -> StoreResult<bool> {
        let now = self.clock.unix();
        let due = self.store.attendance_due(now, A_ROUND).await?;
        let looks = due
            .iter()
            .map(|of| async move { (of, self.look_after_one(of, now).await) });
        let looks: Vec<_> = stream::iter(looks.collect::<Vec<_>>())
            .buffer_unordered(AT_A_TIME)
            .collect()
            .await;
        let mut done = 0;
        for (of, looked) in looks {
            match looked {
                Ok(()) => done += 1,
                Err(why) => {
                    let LiveEpoch { live, epoch } = of;
                    tracing::debug!(live_id = %live, epoch = %epoch, error = %why, "could not look after attendance");
                }
            }
        }
        Ok(done > 0 && due.len() == A_ROUND)
    }

    /// The record says whether the epoch is over. Without a record of the epoch it is: a gateway
    /// that holds the live has written the record again, or notes the end once more when the live
    /// closes.
    async fn look_after_one(&self, of: &LiveEpoch, now: UnixMillis) -> StoreResult<()> {
        let record = self.store.load_live(&of.live).await?;
        let record = record.filter(|record| record.epoch == of.epoch && record.terms.attendance);
        let noted = self.store.attended(of).await?;
        let Some(attended) = noted.clone().or(record.as_ref().map(LiveRecord::attended)) else {
            return self.store.forget_attendance(of, None).await;
        };
        if let Some(record) = record
            .as_ref()
            .filter(|record| record.state != LiveState::Closed)
        {
            self.begin(record).await?;
            return self
                .store
                .renew_attendance(of, &attended, now + millis(ATTENDANCE_RENEWED))
                .await;
        }
        let closure = record
            .and_then(|record| record.closure)
            .map(|closure| closure.at);
        let closed_at = attended.closed_at.or(closure).unwrap_or(now);
        let until = closed_at + millis(ATTENDANCE_KEPT);
        if until <= now {
            tracing::info!(live_id = %of.live, epoch = %of.epoch, "forgetting attendance");
            return self.store.forget_attendance(of, Some(&attended)).await;
        }
        if noted.is_none_or(|noted| noted.closed_at.is_none()) {
            self.store.begin_attendance(of, &attended).await?;
            self.store.end_attendance(of, closed_at).await?;
        }
        self.store.renew_attendance(of, &attended, until).await
    }

    /// Notes the attendance of open lives of which nobody did: the gateway that opened one died, or
    /// the store lost it.
    pub async fn begin_missing(&self, open: &[LiveRecord]) {
        let recorded = open.iter().filter(|record| record.terms.attendance);
        let begun = recorded.map(|record| async move {
            if self.store.attended(&record.live_epoch()).await?.is_none() {
                self.begin(record).await?;
            }
            StoreResult::Ok(())
        });
        let begun: Vec<_> = stream::iter(begun.collect::<Vec<_>>())
            .buffer_unordered(AT_A_TIME)
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
