//! The key under which the embedded store keeps a slice.

use crate::base::ids::{OnlineSet, SliceId};

/// Names a slice as a key of Redis does: by its set if the set has only one slice, otherwise by the
/// set and the index.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SlicePlace {
    pub(crate) set: OnlineSet,
    index: Option<u32>,
}

impl From<&SliceId> for SlicePlace {
    fn from(slice: &SliceId) -> Self {
        let index = if slice.of > 1 {
            Some(slice.index)
        } else {
            None
        };
        Self {
            set: slice.set.clone(),
            index,
        }
    }
}
