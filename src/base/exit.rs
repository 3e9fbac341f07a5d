//! The exit codes of the process, its last message, and the output of its commands. The process and
//! the commands use it.

use std::fmt;
use std::io::{self, Write};

use super::telemetry;

/// Stopped as asked; also after help and version, and if the reader of the output goes away.
pub const STOPPED: u8 = 0;
/// An audit found something that remains.
pub const FINDINGS: u8 = 1;
/// The command line or the settings are wrong, or a file that they name, or the API key.
pub const WRONG_SETTINGS: u8 = 64;
/// An address cannot be bound; the store, at start, or a gateway does not answer a command; the
/// store lacks something.
pub const UNAVAILABLE: u8 = 69;
/// A panic, or a long-lived task that ended early.
pub const BUG: u8 = 70;
/// What a command found or made could not be written to standard output.
pub const UNWRITTEN: u8 = 74;
/// A second signal came before the stop had ended.
pub const STOPPED_TWICE: u8 = 130;

/// Every code with its meaning, for the help and the documents.
pub const CODES: &[(u8, &str)] = &[
    (STOPPED, "done, or stopped as asked"),
    (FINDINGS, "an audit found something that remains"),
    (
        WRONG_SETTINGS,
        "wrong usage or settings, or a file that they name is wrong; all mistakes are named at once",
    ),
    (
        UNAVAILABLE,
        "an address is taken, Redis or a gateway does not answer, or Redis refuses what a gateway needs",
    ),
    (BUG, "a bug: a panic, or a task that must not end has ended"),
    (
        UNWRITTEN,
        "the output of a command could not be written, because a disk is full or so",
    ),
    (
        STOPPED_TWICE,
        "a second signal came before the stop had ended",
    ),
];

/// Writes the output of a command to standard output. Returns the code, or that
/// of output that could not be written.
pub fn print(code: u8, output: impl fmt::Display) -> u8 {
    match write(output) {
        Ok(()) => code,
        Err(why) => unwritten(code, &why),
    }
}

/// Writes lines to standard output; the last one need not end with a line break.
pub(crate) fn write(output: impl fmt::Display) -> io::Result<()> {
    let mut text = output.to_string();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let mut stdout = io::stdout();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// The code for output that could not be written. A reader that went away, as in
/// `rollcall --help | head`, is no failure.
pub(crate) fn unwritten(code: u8, why: &io::Error) -> u8 {
    match why.kind() {
        io::ErrorKind::BrokenPipe => code,
        _ => say(
            UNWRITTEN,
            format_args!("the output could not be written: {why}"),
        ),
    }
}

/// Writes to standard error, whatever the log level, why the process ends. Returns the code.
pub fn say(code: u8, why: impl fmt::Display) -> u8 {
    telemetry::write(format!("rollcall: {why}\n").as_bytes());
    code
}
