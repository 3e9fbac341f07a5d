//! Reads what is to be logged, as an operator writes it.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Reads a filter as in `RUST_LOG`; the error says what would be right.
pub(crate) fn filter(text: &str) -> Result<EnvFilter, String> {
    const USAGE: &str = "use a level (off, error, warn, info, debug, trace) or target=level, separated by commas";
    // A lone word that is no level would be taken for a target and silence all the rest: `--log inof`.
    let lone_target = |part: &str| {
        let word = !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_:".contains(&b));
        word && part.parse::<LevelFilter>().is_err()
    };
    if text.split(',').any(|part| lone_target(part.trim())) {
        return Err(format!("has a word that is no level; {USAGE}"));
    }
    if is_costly(text) {
        return Err(format!("has a pattern that is more than an id; {USAGE}"));
    }
    EnvFilter::try_new(text).map_err(|_| format!("is no filter; {USAGE}"))
}

/// A value of a field is a pattern. It becomes an automaton whose size doubles with each choice in it, and each dot of
/// an id is a choice.
fn is_costly(text: &str) -> bool {
    const MOST_DOTS: usize = 8;
    let values = || text.split('{').skip(1).map(|rest| rest.split('}').next().unwrap_or(rest));
    values().any(|value| value.contains(['*', '+', '?', '|', '\\', '[']))
        || values().map(|value| value.matches('.').count()).sum::<usize>() > MOST_DOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_levels_and_targets() {
        for good in
            ["info", "WARN", "off", "rollcall=debug,warn", "rollcall::store=trace", "[socket{user_id=u1}]=debug"]
        {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in [
            "inof",
            "rollcall=loud",
            "info,debg",
            "rollcall=debug=info",
            "[socket{user_id=a.........}]=debug",
            "[socket{user_id=(a|b)*}]=debug",
        ] {
            assert!(filter(bad).is_err(), "{bad}");
        }
    }
}
