//! The texts that a process was given as settings, and where each came from. The flags, the environment and the file
//! each fill a [`GivenMap`]; [`load`](super::load) merges them.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// Where a setting was given.
#[derive(Debug)]
pub(super) enum Origin {
    Flag,
    Env,
    File(PathBuf),
    Default,
}

#[derive(Debug)]
pub(super) struct Given {
    /// The text, or why it cannot be read as one.
    pub text: Result<String, String>,
    pub origin: Origin,
}

/// What was given, by the name of the setting.
pub(super) type GivenMap = BTreeMap<&'static str, Given>;
