//! The attendance of one epoch of a live, as the embedded store keeps it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;
use crate::features::attendance::store::Attended;
use crate::store::LiveEpoch;

/// The attendance of one epoch.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) attended: Option<Attended>,
    /// By part.
    pub(crate) fans: BTreeMap<u32, BTreeSet<UserId>>,
    pub(crate) due: UnixMillis,
}

/// The fans of each epoch with attendance.
pub(crate) type AttendanceOfLives = HashMap<LiveEpoch, Kept>;
