//! The scripts of this feature, each one atomic step in Redis.

use crate::store::redis::scripts::scripts;

scripts! {
    ASK_ERASURE = "ask_erasure.lua",
    READ_ERASURES = "read_erasures.lua",
    ERASE_HOST = "erase_host.lua",
    ERASE_LIVE = "erase_live.lua",
    FINISH_ERASURE = "finish_erasure.lua",
    ERASE_STAYS = "erase_stays.lua",
}
