//! The texts of the settings of a process, and the origin of each. The flags, the environment and
//! the file each fill a [`GivenMap`]. [`load`](super::load) merges them.

use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Given {
    /// The text, or why it cannot be read as one.
    pub text: Result<String, String>,
    /// Where the setting was given, such as `flag --heartbeat`.
    pub place: String,
}

/// The given settings by name.
pub(super) type GivenMap = BTreeMap<&'static str, Given>;
