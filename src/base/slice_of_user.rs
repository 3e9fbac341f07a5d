//! Which slice a user falls into: a hash of the id, modulo the number of slices.

use super::ids::UserId;

impl UserId {
    /// The slice, 1 to `slices`, that this user falls into: `1 + xxh3_64(user_id) mod n`, seed 0.
    ///
    /// Part of the Redis contract: any language finds a user's slice by it.
    pub fn slice_index(&self, slices: u32) -> u32 {
        1 + (self.xxh3() % u64::from(slices.max(1))) as u32
    }

    /// `xxh3_64` of the id, seed 0.
    pub fn xxh3(&self) -> u64 {
        xxhash_rust::xxh3::xxh3_64(self.as_str().as_bytes())
    }
}
