//! What the gateway that walks does for attendance: it renews the lifetimes of what is kept of open lives, and forgets
//! what was kept of closed ones for its time. It deletes in the background: a large key that expires holds up Redis.

use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::{Clock, UnixMillis, millis};
use crate::config::AttendanceForm;
use crate::store::{ATTENDANCE_KEPT, ATTENDANCE_RENEWED, LiveEpoch, LiveState, Store, StoreResult};

/// Epochs of one round.
const A_ROUND: usize = 32;

/// When an epoch without a record is looked at again: a gateway that holds the live writes the record by then.
const WITHOUT_RECORD: Duration = Duration::from_secs(3_600);

pub struct AttendanceUpkeep {
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    pub form: AttendanceForm,
}

impl AttendanceUpkeep {
    /// One round. An error in one epoch keeps no other from its turn.
    pub async fn look_after(&self) {
        let now = self.clock.unix();
        // A store that lost its data is told again how attendance is kept.
        if let Ok(fixed) = self.store.fix_attendance_form(self.form).await
            && fixed != self.form
        {
            let (wanted, fixed) = (self.form.as_str(), fixed.as_str());
            tracing::error!(wanted, fixed, "another gateway fixed another form of attendance; stop one of them");
        }
        let due = match self.store.attendance_due(now, A_ROUND).await {
            Ok(due) => due,
            Err(why) => return tracing::debug!(error = %why, "could not read whose attendance is due"),
        };
        for of in due {
            if let Err(why) = self.look_after_one(&of, now).await {
                tracing::debug!(live_id = %of.live, epoch = %of.epoch, error = %why, "could not look after attendance");
            }
        }
    }

    async fn look_after_one(&self, of: &LiveEpoch, now: UnixMillis) -> StoreResult<()> {
        let Some(attended) = self.store.attended(of).await? else {
            return self.store.forget_attendance(of, None).await;
        };
        if let Some(closed_at) = attended.closed_at {
            let until = closed_at + millis(ATTENDANCE_KEPT);
            if until > now {
                return self.store.renew_attendance(of, &attended, until).await;
            }
            tracing::info!(live_id = %of.live, epoch = %of.epoch, "forgetting attendance");
            return self.store.forget_attendance(of, Some(&attended)).await;
        }
        match self.store.load_live(&of.live).await? {
            None => self.store.renew_attendance(of, &attended, now + millis(WITHOUT_RECORD)).await,
            Some(record) if record.epoch == of.epoch && record.state != LiveState::Closed => {
                self.store.renew_attendance(of, &attended, now + millis(ATTENDANCE_RENEWED)).await
            }
            // The end was lost with some data of the store.
            Some(record) => {
                let closure = record.closure.filter(|_| record.epoch == of.epoch);
                self.store.end_attendance(of, closure.map_or(now, |closure| closure.at)).await
            }
        }
    }
}
