//! The scripts of this feature, each one atomic step in Redis.

use crate::store::redis::scripts::scripts;

scripts! {
    WRITE_STREAMS = "write_streams.lua",
}
