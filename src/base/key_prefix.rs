//! The prefix of every key and channel in Redis, so that several installations can share a server.
//!
//! Two installations are apart if no key of one can be a key of the other. With prefixes of the
//! same length that is plain. A prefix that goes on where another one ends must not go on like the
//! beginning of a key: with `live:`, the list of open lives would be `live:lives`, which without a
//! prefix is the record of a live called `lives`.

use std::fmt;
use std::sync::Arc;

/// The longest prefix, in bytes.
const MAX_LEN: usize = 64;

/// The beginnings of the keys that end in an id. [`tests/documents`] compares this list with
/// docs/redis.md.
const BEGINNINGS: [&str; 14] = [
    "online-fans:",
    "last-seen:",
    "live:",
    "following:",
    "followers:",
    "user:",
    "attendance:",
    "attended:",
    "list:",
    "past-lives:",
    "statuses:",
    "rollcall:stream-key:",
    "rollcall:changes:",
    "rollcall:answer:",
];

/// Empty by default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPrefix(Arc<str>);

/// Why a text is no prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPrefix {
    /// Too long.
    #[error("has more than 64 bytes")]
    Length,
    /// A byte outside the alphabet.
    #[error("may contain A-Z a-z 0-9 _ . : - only")]
    Alphabet,
    /// Another installation's keys could be the same.
    #[error(
        "must not contain {0}, which keys begin with; another installation could have the same keys"
    )]
    Beginning(&'static str),
}

impl KeyPrefix {
    /// Takes 0 to 64 bytes of `[A-Za-z0-9_.:-]` without a beginning of a key in them.
    ///
    /// # Errors
    /// If it is anything else.
    pub fn parse(text: &str) -> Result<Self, InvalidPrefix> {
        if text.len() > MAX_LEN {
            return Err(InvalidPrefix::Length);
        }
        if !text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b))
        {
            return Err(InvalidPrefix::Alphabet);
        }
        match BEGINNINGS
            .into_iter()
            .find(|beginning| text.contains(beginning))
        {
            Some(beginning) => Err(InvalidPrefix::Beginning(beginning)),
            None => Ok(Self(text.into())),
        }
    }

    /// The prefix as in keys.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for KeyPrefix {
    fn default() -> Self {
        Self("".into())
    }
}

impl fmt::Display for KeyPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_that_could_move_or_share_a_key_is_refused() {
        for good in [
            "",
            "app1:",
            "rollcall:",
            "a.b_c-D:9",
            "lives",
            &"x".repeat(64),
        ] {
            assert_eq!(KeyPrefix::parse(good).unwrap().as_str(), good);
        }
        for bad in [
            " ",
            "a{b}:",
            "a*",
            "a?",
            "a\n",
            "ä:",
            "a/b",
            "a@b:",
            &"x".repeat(65),
        ] {
            assert!(KeyPrefix::parse(bad).is_err(), "{bad:?}");
        }
        for beginning in BEGINNINGS {
            let longer = format!("app1:{beginning}x");
            assert_eq!(
                KeyPrefix::parse(&longer),
                Err(InvalidPrefix::Beginning(beginning))
            );
        }
    }
}
