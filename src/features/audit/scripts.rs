//! The scripts of this feature, each one atomic step in Redis.

use crate::store::redis::scripts::scripts;

scripts! {
    INSPECT_USERS = "inspect_users.lua",
}
