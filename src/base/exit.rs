//! The exit codes and the last message of the process. The process and the commands use it.

use std::fmt;
use std::io::{self, Write};

/// Stopped as asked; also after help and version.
pub const STOPPED: u8 = 0;
/// An audit found something that remains.
pub const FINDINGS: u8 = 1;
/// The command line or the settings are wrong.
pub const WRONG_SETTINGS: u8 = 64;
/// An address cannot be bound or, at start, the store does not answer.
pub const UNAVAILABLE: u8 = 69;
/// A panic, or a long-lived task that ended early.
pub const BUG: u8 = 70;
/// A second signal came before the stop had ended.
pub const STOPPED_TWICE: u8 = 130;

/// Writes to standard error, whatever the log level, why the process ends; answers the code.
pub fn say(code: u8, why: impl fmt::Display) -> u8 {
    // If standard error is closed, the code still says it.
    writeln!(io::stderr(), "rollcall: {why}").map_or(code, |()| code)
}
