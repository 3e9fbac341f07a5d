//! The calls on attendance and sessions of the embedded store. Sessions lie in the slices of lives.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;

use super::MemoryStore;
use super::attended::Kept;
use super::place::Place;
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::{OnlineSet, SliceId, UserId};
use crate::config::AttendanceForm;
use crate::store::slice::Slice;
use crate::store::{
    ATTENDANCE_KEPT, ATTENDANCE_PARTS, ATTENDANCE_RENEWED, Attendance, Attended, Attendees,
    Attending, Fence, LiveEpoch, Session, SessionPlace, Sessions, Span, Stay, StoreResult,
};

fn part_of(user: &UserId) -> u32 {
    user.slice_index(ATTENDANCE_PARTS) - 1
}

impl MemoryStore {
    fn kept<T>(&self, of: &LiveEpoch, change: impl FnOnce(&mut Kept) -> T) -> T {
        let due = self.now() + millis(ATTENDANCE_RENEWED);
        let new = || Kept {
            attended: None,
            fans: BTreeMap::new(),
            due,
        };
        change(self.attendance.lock().entry(of.clone()).or_insert_with(new))
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
            kept.attended
                .iter_mut()
                .for_each(|attended| attended.closed_at = Some(closed_at));
            kept.due = closed_at + millis(ATTENDANCE_KEPT);
        });
        Ok(())
    }

    async fn attended(&self, of: &LiveEpoch) -> StoreResult<Option<Attended>> {
        Ok(self
            .attendance
            .lock()
            .get(of)
            .and_then(|kept| kept.attended.clone()))
    }

    async fn attended_lives(
        &self,
        streamer: &UserId,
        from: UnixMillis,
        limit: usize,
    ) -> StoreResult<Vec<LiveEpoch>> {
        let all = self.attendance.lock();
        let of_streamer = all.iter().filter_map(|(of, kept)| {
            let attended = kept.attended.as_ref()?;
            (attended.streamer == *streamer && attended.opened_at >= from)
                .then(|| (attended.opened_at, of.clone()))
        });
        let by_time: BTreeSet<_> = of_streamer.collect();
        Ok(by_time.into_iter().take(limit).map(|(_, of)| of).collect())
    }

    async fn attendance_parts(&self, lives: &[LiveEpoch]) -> StoreResult<Vec<u32>> {
        let all = self.attendance.lock();
        let parts: BTreeSet<u32> = lives
            .iter()
            .filter_map(|of| all.get(of))
            .flat_map(|it| it.fans.keys())
            .copied()
            .collect();
        Ok(parts.into_iter().collect())
    }

    async fn attendees(
        &self,
        which: Attending,
        lives: &[LiveEpoch],
        part: u32,
    ) -> StoreResult<Attendees> {
        let all = self.attendance.lock();
        let none = BTreeSet::new();
        let sets: Vec<&BTreeSet<UserId>> = lives
            .iter()
            .map(|of| {
                all.get(of)
                    .and_then(|kept| kept.fans.get(&part))
                    .unwrap_or(&none)
            })
            .collect();
        let users: BTreeSet<&UserId> = sets.iter().copied().flatten().collect();
        let taken = users.into_iter().filter(|user| {
            let came: Vec<bool> = sets.iter().map(|set| set.contains(*user)).collect();
            which.takes(&came)
        });
        Ok(Attendees::Users(taken.cloned().collect()))
    }

    async fn have_attended(&self, of: &LiveEpoch, users: &[UserId]) -> StoreResult<Vec<bool>> {
        let all = self.attendance.lock();
        let kept = all.get(of);
        let has = |user: &UserId| {
            kept.is_some_and(|it| {
                it.fans
                    .get(&part_of(user))
                    .is_some_and(|fans| fans.contains(user))
            })
        };
        Ok(users.iter().map(has).collect())
    }

    async fn attendance_due(&self, now: UnixMillis, limit: usize) -> StoreResult<Vec<LiveEpoch>> {
        let all = self.attendance.lock();
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
        self.attendance
            .lock()
            .get_mut(of)
            .into_iter()
            .for_each(|kept| kept.due = next);
        Ok(())
    }

    async fn forget_attendance(
        &self,
        of: &LiveEpoch,
        attended: Option<&Attended>,
    ) -> StoreResult<()> {
        self.attendance.lock().remove(of);
        for slice in Self::viewers(of, attended.map_or(0, |attended| attended.slices)) {
            let place = Place::from(&slice);
            self.slices
                .get_mut(&place)
                .into_iter()
                .for_each(|mut slice| slice.forget_stays(of.epoch));
            // Its fence was due to be forgotten long before.
            let is_over = |slice: &Slice| {
                slice.fence() == Some(Fence::Closed(of.epoch)) && !slice.has_stays()
            };
            self.slices.remove_if(&place, |_, slice| is_over(slice));
        }
        Ok(())
    }
}

#[async_trait]
impl Sessions for MemoryStore {
    async fn count_sessions(&self, of: &LiveEpoch, slices: u32, span: Span) -> StoreResult<u64> {
        let count = |slice: &Slice| slice.stays(of.epoch).map_or(0, |stays| stays.count(span));
        Ok(Self::viewers(of, slices)
            .map(|slice| self.read(&slice, count))
            .sum())
    }

    async fn sessions_in_slice(
        &self,
        (of, slice): (&LiveEpoch, &SliceId),
        from: UnixMillis,
        after: Option<&SessionPlace>,
        limit: usize,
    ) -> StoreResult<Vec<Session>> {
        let page = |slice: &Slice| {
            slice
                .stays(of.epoch)
                .map(|stays| stays.page(from, after, limit))
        };
        Ok(self.read(slice, page).unwrap_or_default())
    }

    async fn latest_sessions(
        &self,
        of: &LiveEpoch,
        slices: u32,
        users: &[UserId],
    ) -> StoreResult<Vec<Option<Stay>>> {
        let latest = |user: &UserId| {
            let slice = SliceId::of_user(OnlineSet::Live(of.live.clone()), user, slices);
            self.read(&slice, |it| {
                it.stays(of.epoch).and_then(|stays| stays.latest(user))
            })
        };
        Ok(users.iter().map(latest).collect())
    }

    async fn were_there(
        &self,
        of: &LiveEpoch,
        attended: &Attended,
        users: &[UserId],
        span: Span,
    ) -> StoreResult<Vec<bool>> {
        let was_there = |user: &UserId| {
            let slice = SliceId::of_user(OnlineSet::Live(of.live.clone()), user, attended.slices);
            let closed_at = attended.closed_at;
            self.read(&slice, |it| {
                it.stays(of.epoch)
                    .is_some_and(|stays| stays.was_here(user, span, closed_at))
            })
        };
        Ok(users.iter().map(was_there).collect())
    }
}
