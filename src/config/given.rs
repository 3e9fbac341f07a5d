//! The texts that a process was given as settings, and where each came from. The flags, the
//! environment and the file each fill a [`GivenMap`]; [`load`](super::load) merges them.

use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Given {
    /// The text, or why it cannot be read as one.
    pub text: Result<String, String>,
    /// Where the setting was given, such as `flag --heartbeat`.
    pub place: String,
}

/// What was given, by the name of the setting.
pub(super) type GivenMap = BTreeMap<&'static str, Given>;
