//! The scripts of this feature, each one atomic step in Redis.

use crate::store::redis::scripts::scripts;

scripts! {
    CLEAR_BIT = "clear_bit.lua",
    FIND_ATTENDEES = "find_attendees.lua",
    WRITE_ATTENDANCE = "write_attendance.lua",
    STRAY_SESSIONS = "stray_sessions.lua",
    LIST_ATTENDANCE = "list_attendance.lua",
}
