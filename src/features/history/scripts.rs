//! The scripts of this feature, each one atomic step in Redis.

use crate::store::redis::scripts::scripts;

scripts! {
    ADD_PAST_LIVE = "add_past_live.lua",
}
