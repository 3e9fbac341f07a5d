//! All mistakes in the settings, and the hints for names that are misspelt.

/// All mistakes in the settings. They are printed one per line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", mistakes.join("\n"))]
pub struct ConfigError {
    /// At least one.
    pub mistakes: Vec<String>,
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
    let mut best: Option<(usize, &'a str)> = None;
    for known in known {
        if let Some(distance) = distance(wanted, known)
            && best.is_none_or(|(least, _)| distance < least)
        {
            best = Some((distance, known));
        }
    }
    match best {
        Some((_, known)) => format!("; did you mean {}?", spell(known)),
        None => String::new(),
    }
}

/// The distance of two names. `None` if they are not similar.
fn distance(wanted: &str, known: &str) -> Option<usize> {
    let limit = if known.len() <= 4 { 1 } else { 2 };
    // A swap of two letters is the commonest slip. This distance counts it as one change.
    let distance = strsim::osa_distance(wanted, known);
    if distance <= limit {
        Some(distance)
    } else if has_word(wanted, known) || has_word(known, wanted) {
        Some(limit + 1)
    } else {
        None
    }
}

/// Whether a name with dashes has this word.
fn has_word(name: &str, wanted: &str) -> bool {
    name.split('-').any(|word| word == wanted)
}
