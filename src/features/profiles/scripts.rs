//! The scripts of this feature, each one atomic step in Redis.

use crate::store::redis::scripts::scripts;

scripts! {
    CLAIM_LOGIN = "claim_login.lua",
    SET_VISIBILITY = "set_visibility.lua",
    WRITE_PROFILE = "write_profile.lua",
}
