//! Numbers that several nouns of the store have in common; bounds of one noun are declared beside it.

/// The most members that one call carries or touches.
pub const MAX_BATCH: usize = 1_000;

/// Over how many slices users are spread, those online and those seen: part of the Redis contract. A user's slice is
/// [`crate::base::ids::UserId::slice_index`] of this number.
pub const ONLINE_SLICES: u32 = 64;
