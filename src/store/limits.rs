//! Bounds that several nouns of the store have in common. A bound of one noun is declared in the
//! noun's own file.

/// Maximum members that one call carries or touches.
pub const MAX_BATCH: usize = 1_000;

/// Maximum bytes of a message on a channel. Longer messages are not passed on.
pub const MAX_MESSAGE: usize = 64 * 1024;
