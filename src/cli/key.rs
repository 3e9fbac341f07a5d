//! `rollcall key` prints a new API key, and its line for the file of `--api-keys`.

use crate::auth::mint;
use crate::base::exit;
use crate::config::KeyArgs;

/// Writes the key and, below it, the line to standard output, and returns the exit code.
pub fn run(args: &KeyArgs) -> u8 {
    let (key, digest) = mint::api_key();
    let key = key.reveal();
    let scopes = args.scopes.join(",");
    exit::print(
        exit::STOPPED,
        format_args!("{key}\n{} {scopes} {digest}", args.name),
    )
}
