//! The scripts of this feature, each one atomic step in Redis.

use crate::store::redis::scripts::scripts;

scripts! {
    NOTE_DELIVERIES = "note_deliveries.lua",
    READ_WEBHOOK = "read_webhook.lua",
}
