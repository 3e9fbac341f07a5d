//! Mistakes in the settings, as the operator reads them: which setting, where it was given, its value (unless that may
//! be a secret), and what would be right.

use std::fmt;

use super::given::Origin;
use super::settings::{SETTINGS, Setting, Shown};

/// One mistake in the settings or the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The setting, where it was given, and its value.
    pub subject: String,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.subject, self.problem)
    }
}

/// All mistakes in the settings; printed one per line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    /// At least one.
    pub mistakes: Vec<Mistake>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, mistake) in self.mistakes.iter().enumerate() {
            write!(f, "{}{mistake}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

/// The subject of a mistake, such as `heartbeat (flag --heartbeat) is "5"`.
pub(super) fn subject(setting: &Setting, origin: &Origin, value: Option<&str>) -> String {
    let place = match origin {
        Origin::Flag => format!("flag --{}", setting.name),
        Origin::Env => format!("env {}", setting.env_name()),
        Origin::File(path) => format!("file {}", path.display()),
        Origin::Default => "default".to_owned(),
    };
    let name = setting.name;
    match (value, setting.shown) {
        (Some(""), _) | (None, _) => format!("{name} ({place})"),
        (Some(_), Shown::Never) => format!("{name} ({place}), not shown here"),
        (Some(value), Shown::Plain) => match harmless(value) {
            Some(value) => format!("{name} ({place}) is {value:?}"),
            None => format!("{name} ({place}), not shown here"),
        },
    }
}

/// The value, unless it may be a URL with a password or is longer than a line.
fn harmless(value: &str) -> Option<&str> {
    (value.len() <= 120 && !value.contains('@')).then_some(value)
}

/// `; did you mean heartbeat?`, or an empty text if no setting has a similar name.
pub(super) fn did_you_mean(name: &str, spell: impl Fn(&Setting) -> String) -> String {
    let name = name.to_ascii_lowercase().replace('_', "-");
    let wanted = match name.as_str() {
        "port" | "bind" | "host" | "addr" | "address" => "listen",
        _ => &name,
    };
    let near = |setting: &&Setting| {
        let limit = if setting.name.len() <= 4 { 1 } else { 2 };
        let part = |long: &str, short: &str| long.split('-').any(|word| word == short);
        match edits(wanted, setting.name) {
            distance if distance <= limit => Some(distance),
            _ if part(wanted, setting.name) || part(setting.name, wanted) => Some(limit + 1),
            _ => None,
        }
    };
    let best = SETTINGS.iter().filter_map(|s| near(&s).map(|distance| (distance, s))).min_by_key(|(d, _)| *d);
    best.map_or_else(String::new, |(_, setting)| format!("; did you mean {}?", spell(setting)))
}

/// The Levenshtein distance of two words.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
