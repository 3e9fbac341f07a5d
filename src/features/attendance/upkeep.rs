//! Upkeep of attendance, by the gateway that walks. It renews the lifetimes of the attendance of
//! open lives, notes what other gateways failed to note, and forgets the attendance of lives that
//! closed long ago. It deletes in the background, because a large key that expires holds up Redis.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};

use crate::base::clock::{Clock, UnixMillis, millis};
use crate::base::ids::UserId;
use crate::config::AttendanceForm;
use crate::features::attendance::store::ATTENDANCE_RENEWED;
use crate::features::attendance::store::AttendanceStore;
use crate::features::attendance::store::Attended;
use crate::presence::Room;
use crate::store::ATTENDANCE_KEPT;
use crate::store::LiveEpoch;
use crate::store::{LiveRecord, LiveState, StoreResult};
use crate::sync::features::{Feature, HowOpened};

/// Epochs that one round reads.
const EPOCHS_PER_ROUND: usize = 32;

/// Epochs of a round that are worked on at the same time.
const MAX_CONCURRENT_EPOCHS: usize = 4;

/// Rounds of one turn. The remaining epochs wait for the next walk.
const MAX_ROUNDS: usize = 32;

/// Begins and ends attendance as lives open and close, and looks after what is kept.
pub struct AttendanceKeeper {
    pub store: Arc<dyn AttendanceStore>,
    /// The same store, for what clients ask for.
    pub store_for_clients: Arc<dyn AttendanceStore>,
    pub clock: Clock,
    pub form: AttendanceForm,
}

impl AttendanceKeeper {
    /// Takes one turn. An error in one epoch does not stop the others of its round.
    async fn take_turn(&self) {
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
            (None, Some(record)) => Attended::of(record),
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
    async fn begin_missing(&self, open: &[LiveRecord]) {
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
        begin(self.store.as_ref(), record).await
    }
}

async fn begin(store: &dyn AttendanceStore, record: &LiveRecord) -> StoreResult<()> {
    store
        .begin_attendance(&record.live_epoch(), &Attended::of(record))
        .await
}

#[async_trait]
impl Feature for AttendanceKeeper {
    async fn opened(&self, record: &LiveRecord, _: HowOpened) -> StoreResult<()> {
        if !record.terms.attendance {
            return Ok(());
        }
        begin(self.store_for_clients.as_ref(), record).await
    }

    async fn closing(&self, record: &LiveRecord) -> StoreResult<()> {
        let Some(closure) = record.closure.filter(|_| record.terms.attendance) else {
            return Ok(());
        };
        // The begin may be lost. Without it, no gateway would ever forget the attendance.
        let store = self.store_for_clients.as_ref();
        begin(store, record).await?;
        store.end_attendance(&record.live_epoch(), closure.at).await
    }

    async fn walked(&self, open: &[LiveRecord]) {
        self.begin_missing(open).await;
    }

    async fn walk_ended(&self) {
        self.take_turn().await;
    }

    async fn rewritten(&self, room: &Arc<Room>) -> StoreResult<()> {
        if !room.record.terms.attendance {
            return Ok(());
        }
        self.begin(&room.record).await
    }

    async fn fans_come(&self, of: &LiveEpoch, fans: &[UserId]) -> Vec<UserId> {
        match self.store.note_attendance(of, fans).await {
            Ok(missed) => missed,
            Err(_) => fans.to_vec(),
        }
    }
}
