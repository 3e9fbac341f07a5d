//! Bounds that several nouns of the store have in common. A bound of one noun is declared in the
//! noun's own file.

use std::time::Duration;
/// Maximum members that one call carries or touches.
pub const MAX_BATCH: usize = 1_000;

/// Maximum bytes of a message on a channel. Longer messages are not passed on.
pub const MAX_MESSAGE: usize = 64 * 1024;

/// How long it is known who was erased: a gateway that is cut off for longer may bring a user back.
pub const ERASED_KEPT: Duration = Duration::from_secs(24 * 3_600);
