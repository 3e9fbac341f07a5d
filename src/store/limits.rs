//! Numbers that several nouns of the store have in common; bounds of one noun are declared beside
//! it.

/// The most members that one call carries or touches.
pub const MAX_BATCH: usize = 1_000;

/// The longest message on a channel, in bytes. Longer ones are not passed on.
pub const MAX_MESSAGE: usize = 64 * 1024;
