//! Reads a log filter as an operator writes it. It accepts a part of what `RUST_LOG` allows, so
//! that it refuses a slip that would silence the log.

use tracing_subscriber::EnvFilter;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Reads a filter: levels (`info`), and levels of one target (`rollcall::store=debug`), of one span
/// (`[socket{user_id=u1}]=debug`) or of both, separated by commas. The error says what would be
/// right.
pub(crate) fn filter(text: &str) -> Result<EnvFilter, String> {
    const USAGE: &str =
        "use a level (off, error, warn, info, debug, trace) or target=level, separated by commas";
    parse(text).ok_or_else(|| format!("is no filter; {USAGE}"))
}

/// `None` if the text is no filter.
fn parse(text: &str) -> Option<EnvFilter> {
    let mut directives = Vec::new();
    for part in text.split(',') {
        directives.push(directive(part.trim_matches(' '))?);
    }
    EnvFilter::try_new(directives.join(",")).ok()
}

/// The regular expression of what [`filter`] accepts.
pub(crate) fn filter_pattern() -> String {
    let level = [LEVELS.join("|"), LEVELS.join("|").to_uppercase()].join("|");
    let span = r"\[[A-Za-z0-9_]+(\{[A-Za-z0-9_]+=[A-Za-z0-9_.:@-]+\})?\]";
    let directive = format!("(({level})|([A-Za-z0-9_:]+({span})?|{span})=({level}))");
    format!("^ *{directive}( *, *{directive})* *$")
}

/// A part of a filter, in the syntax of the library; `None` if it is wrong.
fn directive(part: &str) -> Option<String> {
    if is_level(part) {
        return Some(part.to_owned());
    }
    let (place, level) = part.rsplit_once('=').filter(|(_, level)| is_level(level))?;
    let (target, span) = match place.split_once('[') {
        Some((target, rest)) => (target, Some(rest.strip_suffix(']')?)),
        None => (place, None),
    };
    if !consists_of(target, "_:") || target.is_empty() && span.is_none() {
        return None;
    }
    let span = match span {
        Some(span) => format!("[{}]", span_of(span)?),
        None => String::new(),
    };
    Some(format!("{target}{span}={level}"))
}

/// A span's name, and perhaps a field. The library takes a value as a pattern, in which a dot is
/// any character, and which may match the end of a longer text. It compares a value that looks like
/// a number with numbers alone.
fn span_of(span: &str) -> Option<String> {
    let Some((name, field)) = span.split_once('{') else {
        if !is_name(span) {
            return None;
        }
        return Some(span.to_owned());
    };
    let (field, value) = field.strip_suffix('}')?.split_once('=')?;
    if !is_name(name) || !is_name(field) || value.is_empty() || !consists_of(value, "_.:@-") {
        return None;
    }
    let pattern = value.replace('.', r"\.");
    Some(format!("{name}{{{field}=^{pattern}}}"))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && consists_of(text, "_")
}

fn is_level(text: &str) -> bool {
    LEVELS
        .iter()
        .any(|level| text == *level || text == level.to_uppercase())
}

fn consists_of(text: &str, also: &str) -> bool {
    text.chars()
        .all(|c| c.is_ascii_alphanumeric() || also.contains(c))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_filter_is_levels_and_targets() {
        for good in [
            "info",
            "WARN",
            "off",
            "rollcall=debug, warn",
            "rollcall::store=trace",
            "info,[socket{user_id=u.1}]=debug,rollcall[request]=off",
        ] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "inof",
            "0",
            "rollcall=loud",
            "rollcall=3",
            "info,debg",
            "info,",
            "=info",
            "rollcall=debug=info",
            "[socket]",
            "[]=info",
            "[socket=info",
            "[{user_id=u1}]=info",
            "[socket{user_id}]=info",
            "[socket{user_id=}]=debug",
            "[socket{user_id=(a|b)*}]=debug",
            "\u{241e4}=info",
        ] {
            assert!(filter(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn whatever_fits_the_pattern_is_a_filter(text in filter_pattern().trim_matches(['^', '$'])) {
            prop_assert!(filter(&text).is_ok());
        }
    }
}
