//! Under which key the embedded store keeps a slice.

use crate::base::ids::{OnlineSet, SliceId};

/// What Redis would name with one key: the slice of a set that has only one, or the k-th of
/// several.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) set: OnlineSet,
    index: Option<u32>,
}

impl From<&SliceId> for Place {
    fn from(slice: &SliceId) -> Self {
        Self {
            set: slice.set.clone(),
            index: (slice.of > 1).then_some(slice.index),
        }
    }
}
