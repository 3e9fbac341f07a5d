//! The names of slices: the keys of their sets, without the prefix of the installation.

use std::fmt;
use std::str::FromStr;

use crate::base::ids::{LiveId, OnlineSet, STREAMERS_SLICES, SliceId, USERS_SLICES};

const FANS: &str = "online-fans:";

/// The sets of the platform: the beginning of their keys, and their numbers of slices.
const PLATFORM_SETS: [(&str, OnlineSet, u32); 2] = [
    ("online-users", OnlineSet::Users, USERS_SLICES),
    ("online-streamers", OnlineSet::Streamers, STREAMERS_SLICES),
];

/// The name of a slice. It ends in the slice's number, unless the slice is the only one.
impl fmt::Display for SliceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.set {
            OnlineSet::Live(live) => write!(f, "{FANS}{live}")?,
            OnlineSet::Users => f.write_str("online-users")?,
            OnlineSet::Streamers => f.write_str("online-streamers")?,
        }
        if self.of > 1 {
            write!(f, "_slice{}", self.index)?;
        }
        Ok(())
    }
}

/// Reads the name of a slice back: its set, and its number; `None` if the set has only one.
pub(crate) fn read_slice(name: &str) -> Option<(OnlineSet, Option<u32>)> {
    for (begin, set, of) in PLATFORM_SETS {
        if let Some(suffix) = name.strip_prefix(begin) {
            let index = read_number(suffix.strip_prefix("_slice")?)?;
            if (1..=of).contains(&index) {
                return Some((set, Some(index)));
            }
            return None;
        }
    }
    let name = name.strip_prefix(FANS)?;
    if let Ok(live) = LiveId::parse(name) {
        return Some((OnlineSet::Live(live), None));
    }
    let (live, index) = name.rsplit_once("_slice")?;
    let live = LiveId::parse(live).ok()?;
    Some((OnlineSet::Live(live), Some(read_number(index)?)))
}

/// Reads a number. Each key has one name: no gateway writes `_slice007`.
pub(crate) fn read_number<T: FromStr + ToString>(text: &str) -> Option<T> {
    let number: T = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}
