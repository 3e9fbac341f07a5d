//! Owns the exit codes and the last words of the process. Called by `main`.

use std::fmt;
use std::io::{self, Write};

/// Stopped as asked, or nothing was to be done (help, version).
pub const STOPPED: u8 = 0;
/// An audit is done, and findings remain.
pub const FINDINGS: u8 = 1;
/// The command line or the settings are wrong.
pub const WRONG_SETTINGS: u8 = 64;
/// An address or, at start, the store cannot be had.
pub const UNAVAILABLE: u8 = 69;
/// A panic, or a long-lived task that ended early.
pub const BUG: u8 = 70;
/// A second signal came before the stop was done.
pub const STOPPED_TWICE: u8 = 130;

/// Says why the process ends, and gives the code back: plainly, for whoever started it reads this where logs are off too.
pub fn say(code: u8, why: impl fmt::Display) -> u8 {
    // With nobody to read standard error there is nobody to tell; the code still says it.
    writeln!(io::stderr(), "rollcall: {why}").map_or(code, |()| code)
}
