//! Where the embedded store keeps the users who are online.

use super::MemoryStore;
use crate::base::ids::{OnlineSet, SliceId, USERS_SLICES};
use crate::store::slice::StoredSlice;

impl MemoryStore {
    /// Reads a slice of the users who are online.
    pub(crate) fn online_slice<T>(&self, index: u32, read: impl FnOnce(&StoredSlice) -> T) -> T {
        self.read(
            &SliceId {
                set: OnlineSet::Users,
                index,
                of: USERS_SLICES,
            },
            read,
        )
    }
}
