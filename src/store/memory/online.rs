//! Where the embedded store keeps the users who are online.

use super::MemoryStore;
use crate::base::ids::{LiveId, SliceId};
use crate::store::ONLINE_SLICES;
use crate::store::slice::Slice;

impl MemoryStore {
    /// Reads a slice of the users who are online.
    pub(super) fn online_slice<T>(&self, index: u32, read: impl FnOnce(&Slice) -> T) -> T {
        match LiveId::parse("online-users") {
            Ok(live) => self.read(&SliceId { live, index, of: ONLINE_SLICES }, read),
            Err(_) => read(&Slice::default()),
        }
    }
}
