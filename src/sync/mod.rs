//! The loops that bring this gateway's state to the store and the store's state back, and what the
//! loops share. Their state lies in `presence`; their messages to other gateways go through
//! `peers`.

pub mod catch_up;
pub mod changed_records;
pub mod check;
pub mod count;
pub mod events;
pub mod fan_check;
pub mod features;
pub mod flush;
pub mod follows;
pub mod keep;
pub mod lease;
pub mod live_changes;
pub mod lives;
pub mod pass;
pub mod removals;
pub mod resync_limit;
pub mod seen;
pub(crate) mod session_ends;
pub mod streamer_timeout;
pub mod upkeep;
pub mod user_upkeep;
pub mod walk;
