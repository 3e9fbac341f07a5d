//! The options of the commands that look: `lives` asks a gateway, `keys` searches Redis, `check-config` reads the
//! settings.

use std::time::Duration;

use clap::ArgMatches;

use super::shared::{GatewayArgs, OutputFormat, Refuse, format, gateways, number};
use crate::base::gateway_url::GatewayUrl;
use crate::config::flag_value::value;
use crate::config::review::SettingInForce;

/// The gateway that is asked if none is named: the one that runs here with the default settings.
const HERE: &str = "http://127.0.0.1:8080";

/// The default of `--count`.
const COUNT: usize = 10;

/// The longest pattern, in bytes. A key of two ids is shorter.
const LONGEST_PATTERN: usize = 1_024;

/// The names of the options of each command.
pub(super) const LIVES: &[&str] = &["gateway", "api-key-file", "gateway-ca", "sort", "once", "watch", "json"];
pub(super) const KEYS: &[&str] = &["count", "json"];
pub(super) const CHECK: &[&str] = &["connect", "json"];

/// By which figure lives are sorted, largest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LivesSort {
    /// By viewers.
    Viewers,
    /// By fans.
    Fans,
}

impl LivesSort {
    /// The word of the option, and of the query of the HTTP API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewers => "viewers",
            Self::Fans => "fans",
        }
    }
}

/// The options of `rollcall lives`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LivesArgs {
    /// At least one; the next one is asked when one does not answer.
    pub(crate) gateways: GatewayArgs,
    pub(crate) sort: LivesSort,
    /// How often the table is printed again; `None`: it is printed once.
    pub(crate) watch: Option<Duration>,
    pub(crate) format: OutputFormat,
}

/// The options of `rollcall keys`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeysArgs {
    /// A glob, without the prefix of the installation.
    pub(crate) pattern: String,
    /// How many keys to list one by one.
    pub(crate) count: usize,
    pub(crate) format: OutputFormat,
}

/// Whom `rollcall check-config` asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connect {
    /// Nobody: it reads files only.
    No,
    /// Redis, and the URL of `jwt-jwks`.
    Yes,
}

/// The options of `rollcall check-config`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckArgs {
    pub(crate) connect: Connect,
    pub(crate) format: OutputFormat,
    /// What is wrong with the settings.
    pub(crate) mistakes: Vec<String>,
    pub(crate) settings: Vec<SettingInForce>,
}

pub(super) fn lives(matches: &ArgMatches, refuse: Refuse<'_>) -> LivesArgs {
    let mut gateways = gateways(matches, refuse);
    if gateways.urls.is_empty() {
        gateways.urls.extend(GatewayUrl::parse(HERE));
    }
    let sort = match value(matches, "sort").transpose() {
        Ok(None) => LivesSort::Viewers,
        Ok(Some(word)) if word == LivesSort::Viewers.as_str() => LivesSort::Viewers,
        Ok(Some(word)) if word == LivesSort::Fans.as_str() => LivesSort::Fans,
        _ => {
            refuse("--sort (flag)", "must be viewers or fans, once");
            LivesSort::Viewers
        }
    };
    LivesArgs { gateways, sort, watch: watch(matches, refuse), format: format(matches) }
}

fn watch(matches: &ArgMatches, refuse: Refuse<'_>) -> Option<Duration> {
    let given = value(matches, "watch")?;
    if matches.get_flag("once") || matches.get_flag("json") {
        refuse("--watch (flag)", "goes with neither --once nor --json");
    }
    match given.as_deref().unwrap_or_default().parse() {
        Ok(seconds @ 1..=3_600) => Some(Duration::from_secs(seconds)),
        _ => {
            refuse("--watch (flag)", "must be a number of seconds from 1 to 3600, once");
            None
        }
    }
}

pub(super) fn keys(words: &[&str], matches: &ArgMatches, refuse: Refuse<'_>) -> Option<KeysArgs> {
    let count = number(matches, "count", COUNT, refuse);
    let [pattern] = words else {
        let usage = "needs one pattern, in quotes, or the shell replaces it with names of files: \
                     rollcall keys 'online-fans:*'";
        refuse("keys", usage);
        return None;
    };
    if let Err(problem) = check_pattern(pattern) {
        refuse("PATTERN, after keys", problem);
        return None;
    }
    Some(KeysArgs { pattern: (*pattern).to_owned(), count, format: format(matches) })
}

/// Redis takes any text for a pattern, and finds nothing with a broken one.
fn check_pattern(pattern: &str) -> Result<(), &'static str> {
    if pattern.is_empty() || pattern.len() > LONGEST_PATTERN {
        return Err("must have 1 to 1024 bytes; * finds every key");
    }
    let (mut escaped, mut in_class) = (false, false);
    for c in pattern.chars() {
        (escaped, in_class) = match c {
            _ if escaped => (false, in_class),
            '\\' => (true, in_class),
            '[' => (false, true),
            ']' => (false, false),
            _ => (false, in_class),
        };
    }
    if escaped {
        return Err("ends with a backslash; write two for one");
    }
    if in_class {
        return Err("has a [ without its ]; write \\[ for the character itself");
    }
    Ok(())
}

pub(super) fn check(matches: &ArgMatches) -> CheckArgs {
    let connect = if matches.get_flag("connect") { Connect::Yes } else { Connect::No };
    CheckArgs { connect, format: format(matches), mistakes: Vec::new(), settings: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::check_pattern;

    #[test]
    fn a_broken_pattern_is_told_from_one_that_finds_nothing() {
        for good in ["*", "online-fans:*", "{live:4[0-9]}:*", "a\\[b", "a]b", "h?llo", "[\\]]", "日本*"] {
            assert_eq!(check_pattern(good), Ok(()), "{good}");
        }
        for bad in ["", "live:[0-9", "live:\\", "[\\]", &"x".repeat(1_025)] {
            assert!(check_pattern(bad).is_err(), "{bad}");
        }
    }
}
