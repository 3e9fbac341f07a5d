//! The scripts of this feature, each one atomic step in Redis.

use crate::store::redis::scripts::scripts;

scripts! {
    CHANGE_RULES = "change_rules.lua",
    READ_RULES = "read_rules.lua",
}
