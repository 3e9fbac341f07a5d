//! The attendance of one epoch of a live, as the embedded store keeps it.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;
use crate::store::Attended;

/// The attendance of one epoch.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) attended: Option<Attended>,
    /// By part.
    pub(super) fans: BTreeMap<u32, BTreeSet<UserId>>,
    pub(super) due: UnixMillis,
}
