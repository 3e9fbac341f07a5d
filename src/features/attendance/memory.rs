//! The calls on attendance and sessions of the embedded store. Sessions lie in the slices of lives.

use crate::features::attendance::attended::AttendanceOfLives;
use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;

use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{OnlineSet, SliceId, UserId};
use crate::config::AttendanceForm;
use crate::features::attendance::attended::KeptAttendance;
use crate::features::attendance::store::Sessions;
use crate::features::attendance::store::{
    ATTENDANCE_PARTS, ATTENDANCE_RENEWED, Attendance, Attended, Attendees, Attending,
};
use crate::store::ATTENDANCE_KEPT;
use crate::store::LiveEpoch;
use crate::store::memory::MemoryStore;
use crate::store::memory::place::SlicePlace;
use crate::store::{AttendedSession, SessionPlace};
use crate::store::{Span, StoreResult};

fn part_of(user: &UserId) -> u32 {
    user.slice_index(ATTENDANCE_PARTS) - 1
}

impl MemoryStore {
    /// Changes what is kept of an epoch, under the lock.
    fn kept<T>(&self, of: &LiveEpoch, change: impl FnOnce(&mut KeptAttendance) -> T) -> T {
        let due = self.now() + millis(ATTENDANCE_RENEWED);
        let mut all = self.states.lock::<AttendanceOfLives>();
        let kept = all.entry(of.clone()).or_insert_with(|| KeptAttendance {
            attended: None,
            fans: BTreeMap::new(),
            due,
        });
        change(kept)
    }

    fn viewers(of: &LiveEpoch, slices: u32) -> impl Iterator<Item = SliceId> {
        SliceId::all(OnlineSet::Live(of.live.clone()), slices)
    }
}

#[async_trait]
impl Attendance for MemoryStore {
    async fn fix_attendance_form(&self, form: AttendanceForm) -> StoreResult<AttendanceForm> {
        Ok(form)
    }

    async fn begin_attendance(&self, of: &LiveEpoch, attended: &Attended) -> StoreResult<()> {
        self.kept(of, |kept| {
            kept.attended.get_or_insert_with(|| attended.clone());
        });
        Ok(())
    }

    async fn note_attendance(&self, of: &LiveEpoch, users: &[UserId]) -> StoreResult<Vec<UserId>> {
        self.kept(of, |kept| {
            for user in users {
                kept.fans
                    .entry(part_of(user))
                    .or_default()
                    .insert(user.clone());
            }
        });
        Ok(Vec::new())
    }

    async fn end_attendance(&self, of: &LiveEpoch, closed_at: UnixMillis) -> StoreResult<()> {
        self.kept(of, |kept| {
            if let Some(attended) = &mut kept.attended {
                attended.closed_at = Some(closed_at);
            }
            kept.due = closed_at + millis(ATTENDANCE_KEPT);
        });
        Ok(())
    }

    async fn attended(&self, of: &LiveEpoch) -> StoreResult<Option<Attended>> {
        match self.states.lock::<AttendanceOfLives>().get(of) {
            Some(kept) => Ok(kept.attended.clone()),
            None => Ok(None),
        }
    }

    async fn attended_lives(
        &self,
        streamer: &UserId,
        from: UnixMillis,
        limit: usize,
    ) -> StoreResult<Vec<LiveEpoch>> {
        let all = self.states.lock::<AttendanceOfLives>();
        let mut by_time = BTreeSet::new();
        for (of, kept) in all.iter() {
            if let Some(attended) = &kept.attended
                && attended.streamer == *streamer
                && attended.opened_at >= from
            {
                by_time.insert((attended.opened_at, of.clone()));
            }
        }
        Ok(by_time.into_iter().take(limit).map(|(_, of)| of).collect())
    }

    async fn attendance_parts(&self, lives: &[LiveEpoch]) -> StoreResult<Vec<u32>> {
        let all = self.states.lock::<AttendanceOfLives>();
        let mut parts: BTreeSet<u32> = BTreeSet::new();
        for of in lives {
            if let Some(kept) = all.get(of) {
                parts.extend(kept.fans.keys());
            }
        }
        Ok(parts.into_iter().collect())
    }

    async fn attendees(
        &self,
        which: Attending,
        lives: &[LiveEpoch],
        part: u32,
    ) -> StoreResult<Attendees> {
        let all = self.states.lock::<AttendanceOfLives>();
        let none = BTreeSet::new();
        let mut sets: Vec<&BTreeSet<UserId>> = Vec::with_capacity(lives.len());
        for of in lives {
            let fans = match all.get(of) {
                Some(kept) => kept.fans.get(&part),
                None => None,
            };
            sets.push(fans.unwrap_or(&none));
        }
        let users: BTreeSet<&UserId> = sets.iter().copied().flatten().collect();
        let mut taken = Vec::new();
        for user in users {
            let came: Vec<bool> = sets.iter().map(|set| set.contains(user)).collect();
            if which.takes(&came) {
                taken.push(user.clone());
            }
        }
        Ok(Attendees::Users(taken))
    }

    async fn have_attended(&self, of: &LiveEpoch, users: &[UserId]) -> StoreResult<Vec<bool>> {
        let all = self.states.lock::<AttendanceOfLives>();
        let Some(kept) = all.get(of) else {
            return Ok(vec![false; users.len()]);
        };
        let mut answers = Vec::with_capacity(users.len());
        for user in users {
            let fans = kept.fans.get(&part_of(user));
            answers.push(fans.is_some_and(|fans| fans.contains(user)));
        }
        Ok(answers)
    }

    async fn attendance_due(&self, now: UnixMillis, limit: usize) -> StoreResult<Vec<LiveEpoch>> {
        let all = self.states.lock::<AttendanceOfLives>();
        Ok(all
            .iter()
            .filter(|(_, kept)| kept.due <= now)
            .take(limit)
            .map(|(of, _)| of.clone())
            .collect())
    }

    async fn renew_attendance(
        &self,
        of: &LiveEpoch,
        _: &Attended,
        next: UnixMillis,
    ) -> StoreResult<()> {
        if let Some(kept) = self.states.lock::<AttendanceOfLives>().get_mut(of) {
            kept.due = next;
        }
        Ok(())
    }

    async fn forget_attendance(
        &self,
        of: &LiveEpoch,
        attended: Option<&Attended>,
    ) -> StoreResult<()> {
        self.states.lock::<AttendanceOfLives>().remove(of);
        let slices = match attended {
            Some(attended) => attended.slices,
            None => 0,
        };
        for slice in Self::viewers(of, slices) {
            let place = SlicePlace::from(&slice);
            if let Some(mut slice) = self.slices.get_mut(&place) {
                slice.forget_stays(of.epoch);
            }
            // Its fence was due to be forgotten long before.
            self.drop_if_over(&place, of.epoch);
        }
        Ok(())
    }
}

#[async_trait]
impl Sessions for MemoryStore {
    async fn count_sessions(&self, of: &LiveEpoch, slices: u32, span: Span) -> StoreResult<u64> {
        let mut count = 0;
        for slice in Self::viewers(of, slices) {
            count += self.read(&slice, |slice| match slice.stays(of.epoch) {
                Some(stays) => stays.count(span),
                None => 0,
            });
        }
        Ok(count)
    }

    async fn sessions_in_slice(
        &self,
        of: &LiveEpoch,
        slice: &SliceId,
        from: UnixMillis,
        after: Option<&SessionPlace>,
        limit: usize,
    ) -> StoreResult<Vec<AttendedSession>> {
        Ok(self.read(slice, |slice| match slice.stays(of.epoch) {
            Some(stays) => stays.page(from, after, limit),
            None => Vec::new(),
        }))
    }

    async fn were_there(
        &self,
        of: &LiveEpoch,
        attended: &Attended,
        users: &[UserId],
        span: Span,
    ) -> StoreResult<Vec<bool>> {
        let mut answers = Vec::with_capacity(users.len());
        for user in users {
            let slice = SliceId::of_user(OnlineSet::Live(of.live.clone()), user, attended.slices);
            answers.push(self.read(&slice, |slice| match slice.stays(of.epoch) {
                Some(stays) => stays.was_here(user, span, attended.closed_at),
                None => false,
            }));
        }
        Ok(answers)
    }
}
