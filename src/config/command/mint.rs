//! The options of `token` and `key`, which make credentials for development.

use std::path::PathBuf;
use std::time::Duration;

use clap::ArgMatches;

use super::shared::Refuse;
use crate::base::identity::Role;
use crate::base::ids::{LiveId, UserId};
use crate::config::flag_value::value;

/// The lifetimes that a token may have.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(366 * 24 * 3600);

/// The default of `--ttl`.
const TTL: Duration = Duration::from_secs(3600);

const SCOPES: &[&str] = &["read", "write", "moderate"];

/// The options of `rollcall token`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenArgs {
    pub(crate) sub: UserId,
    pub(crate) role: Role,
    pub(crate) ttl: Duration,
    pub(crate) lives: Option<Vec<LiveId>>,
    pub(crate) fan_of: Option<Vec<UserId>>,
    pub(crate) counted: bool,
    /// Signs instead of the HS256 secret of the settings.
    pub(crate) private_key: Option<PathBuf>,
}

/// The options of `rollcall key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyArgs {
    pub(crate) name: String,
    /// Each known, in the order of the table.
    pub(crate) scopes: Vec<&'static str>,
}

/// The names of the options of each command.
pub(super) const TOKEN: &[&str] = &["sub", "role", "ttl", "lives", "fan-of", "no-count", "jwt-private-key"];
pub(super) const KEY: &[&str] = &["name", "scopes"];

pub(super) fn token(matches: &ArgMatches, refuse: Refuse<'_>) -> Option<TokenArgs> {
    let user = |text: &str| UserId::parse(text).map_err(|why| why.to_string());
    let live = |text: &str| LiveId::parse(text).map_err(|why| why.to_string());
    let sub = read(matches, "sub", refuse, user);
    if sub.is_none() && !matches.contains_id("sub") {
        refuse("--sub (flag)", "is missing: the user whose token it is");
    }
    let role = read(matches, "role", refuse, |text| {
        Role::from_word(text).ok_or_else(|| "must be viewer, streamer or service".to_owned())
    });
    let ttl = read(matches, "ttl", refuse, |text| match humantime::parse_duration(text) {
        Ok(ttl) if (SHORTEST..=LONGEST).contains(&ttl) => Ok(ttl),
        _ => Err("must be a duration from 1s to 366d, such as 1h".to_owned()),
    });
    Some(TokenArgs {
        lives: read(matches, "lives", refuse, |text| list(text, live)),
        fan_of: read(matches, "fan-of", refuse, |text| list(text, user)),
        private_key: read(matches, "jwt-private-key", refuse, |text| Ok(PathBuf::from(text))),
        counted: !matches.get_flag("no-count"),
        role: role.unwrap_or(Role::Viewer),
        ttl: ttl.unwrap_or(TTL),
        sub: sub?,
    })
}

pub(super) fn key(matches: &ArgMatches, refuse: Refuse<'_>) -> Option<KeyArgs> {
    let name = read(matches, "name", refuse, |text| {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
        let right = (1..=64).contains(&text.len()) && text.bytes().all(fits);
        right.then(|| text.to_owned()).ok_or_else(|| "must be 1 to 64 of A-Z a-z 0-9 _ . -".to_owned())
    });
    let scopes = read(matches, "scopes", refuse, |text| {
        let wanted = list(text, |word| {
            let scope = SCOPES.iter().find(|scope| **scope == word);
            scope.copied().ok_or_else(|| "must be a comma-separated list of read, write and moderate".to_owned())
        })?;
        Ok(SCOPES.iter().copied().filter(|scope| wanted.contains(scope)).collect())
    });
    for (option, what) in [("name", "whose key it is"), ("scopes", "what it is good for")] {
        if !matches.contains_id(option) {
            refuse(&format!("--{option} (flag)"), &format!("is missing: {what}"));
        }
    }
    Some(KeyArgs { name: name?, scopes: scopes? })
}

/// The value of an option that may be given once.
fn read<T>(
    matches: &ArgMatches,
    option: &str,
    refuse: Refuse<'_>,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Option<T> {
    let parsed = value(matches, option)?.and_then(|text| parse(&text));
    parsed.map_err(|problem| refuse(&format!("--{option} (flag)"), &problem)).ok()
}

/// Reads a comma-separated list.
fn list<T>(text: &str, item: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, String> {
    text.split(',').map(|part| item(part.trim())).collect()
}
