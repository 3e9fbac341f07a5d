//! Mistakes in the settings, as the operator reads them: which setting, where it was given, its
//! value (unless that may be a secret), and what would be right.

use super::given::Given;
use super::settings::{Setting, Shown};

/// All mistakes in the settings; printed one per line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", mistakes.join("\n"))]
pub struct ConfigError {
    /// At least one.
    pub mistakes: Vec<String>,
}

/// The subject of a mistake, such as `heartbeat (flag --heartbeat) is "5"`; `None` is a setting
/// that has its default.
pub(super) fn subject(setting: &Setting, given: Option<&Given>) -> String {
    let (place, value) = match given {
        Some(given) => (given.place.as_str(), given.text.as_deref().ok()),
        None => ("default", setting.default),
    };
    let subject = format!("{} ({place})", setting.name);
    match value {
        Some(value) if !value.is_empty() && may_be_shown(setting, value) => {
            format!("{subject} is {value:?}")
        }
        _ => subject,
    }
}

/// Any value may be a URL with a password, in the wrong place.
pub(super) fn may_be_shown(setting: &Setting, value: &str) -> bool {
    setting.shown == Shown::Plain && value.len() <= 120 && !value.contains('@')
}

/// `; did you mean heartbeat?`, or an empty text if none of the known names is similar.
pub(super) fn did_you_mean<'a>(
    name: &str,
    known: impl Iterator<Item = &'a str>,
    spell: impl Fn(&'a str) -> String,
) -> String {
    let name = name.to_ascii_lowercase().replace('_', "-");
    let wanted = match name.as_str() {
        "port" | "bind" | "host" | "addr" | "address" => "listen",
        _ => &name,
    };
    let distance = |known: &str| {
        let limit = if known.len() <= 4 { 1 } else { 2 };
        let part = |long: &str, short: &str| long.split('-').any(|word| word == short);
        // One swap is two changes of a letter, and the commonest slip.
        match strsim::osa_distance(wanted, known) {
            distance if distance <= limit => Some(distance),
            _ if part(wanted, known) || part(known, wanted) => Some(limit + 1),
            _ => None,
        }
    };
    let best = known
        .filter_map(|known| distance(known).map(|distance| (distance, known)))
        .min_by_key(|(d, _)| *d);
    best.map_or_else(String::new, |(_, known)| {
        format!("; did you mean {}?", spell(known))
    })
}
