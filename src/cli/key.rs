//! `rollcall key` prints a new API key, and its line for the file of `--api-keys`.

use std::io::Write;

use crate::auth::mint;
use crate::base::exit;
use crate::config::KeyArgs;

/// Writes the key and, below it, the line to standard output, and returns the exit code.
pub fn run(args: &KeyArgs) -> u8 {
    let (key, digest) = mint::api_key();
    let line = format!("{} {} {digest}", args.name, args.scopes.join(","));
    // A reader that went away is no failure.
    let _ = writeln!(std::io::stdout(), "{}\n{line}", key.reveal());
    exit::STOPPED
}
