//! The scripts of this feature, each one atomic step in Redis.

use crate::store::redis::scripts::scripts;

scripts! {
    ADD_STATUSES = "add_statuses.lua",
    PUT_POST = "put_post.lua",
    DROP_POST = "drop_post.lua",
    PUT_IN_LIST = "put_in_list.lua",
    ERASE_STATUSES = "erase_statuses.lua",
    ENQUEUE_FANOUT = "enqueue_fanout.lua",
}
