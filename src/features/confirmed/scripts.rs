//! The scripts of this feature, each one atomic step in Redis.

use crate::store::redis::scripts::scripts;

scripts! {
    CONFIRM_VIEWERS = "confirm_viewers.lua",
}
