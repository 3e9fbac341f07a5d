//! Structs whose fields declare what an operator may set: [`Config`](super::Config), and the tables
//! of the settings file. clap makes a flag of each field. What another source says becomes a flag,
//! too, so a text means the same wherever it stands.

use std::error::Error as _;

use clap::error::{ContextKind, ContextValue};
use clap::{Args, Command};

/// The flags that the fields stand for.
pub(super) fn command<T: Args>() -> Command {
    T::augment_args(Command::new("settings").no_binary_name(true))
}

/// Checks the value of one flag. The error says what would be right.
pub(super) fn check<T: Args>(flag: &[&str]) -> Result<(), String> {
    let command = command::<T>().mut_args(|arg| arg.required(false));
    match command.try_get_matches_from(flag) {
        Ok(_) => Ok(()),
        Err(why) => Err(match why.get(ContextKind::ValidValue) {
            Some(ContextValue::Strings(words)) => {
                format!("is not known; use {}", words.join(" or "))
            }
            _ => problem(&why),
        }),
    }
}

/// What a parser says of a wrong value.
pub(super) fn problem(why: &clap::Error) -> String {
    match why.source() {
        Some(source) => source.to_string(),
        None => why.kind().to_string(),
    }
}

/// The values that these flags give, over the defaults.
///
/// # Errors
/// If a flag is wrong, or a field that has no default is missing.
pub(super) fn read<T: Args>(flags: &[String]) -> Result<T, clap::Error> {
    T::from_arg_matches(&command::<T>().try_get_matches_from(flags)?)
}
