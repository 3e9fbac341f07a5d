//! The attendance of one epoch of a live, as the embedded store keeps it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;
use crate::features::attendance::store::Attended;
use crate::store::memory::states::{State, StateErasure};
use crate::store::{LiveEpoch, PersonalData};

/// The attendance of one epoch.
#[derive(Debug, Clone)]
pub(crate) struct KeptAttendance {
    pub(crate) attended: Option<Attended>,
    /// By part.
    pub(crate) fans: BTreeMap<u32, BTreeSet<UserId>>,
    pub(crate) due: UnixMillis,
}

/// The fans of each epoch with attendance.
pub(crate) type AttendanceOfLives = HashMap<LiveEpoch, KeptAttendance>;

impl State for AttendanceOfLives {
    fn erase(&mut self, erasure: &mut StateErasure<'_>) {
        let user = erasure.user;
        let mut attended = 0;
        self.retain(|of, kept| {
            kept.fans.retain(|_, fans| {
                attended += u64::from(fans.remove(user));
                !fans.is_empty()
            });
            match &kept.attended {
                Some(facts) if facts.streamer == *user => {
                    erasure.forgotten.push(of.clone());
                    false
                }
                _ => true,
            }
        });
        erasure.step.add(PersonalData::Attendance, attended);
        erasure.step.is_dirty |= !erasure.forgotten.is_empty();
    }
}
