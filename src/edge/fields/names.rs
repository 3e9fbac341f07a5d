//! Names of fields: how a message shows a name that a client made up, and which known name the
//! client probably meant.

/// How many characters of a name a message shows.
const LONGEST_SHOWN: usize = 64;

/// A name as a message shows it, whatever a client put into it.
pub(crate) fn shown(name: &str) -> String {
    name.chars()
        .take(LONGEST_SHOWN)
        .flat_map(char::escape_debug)
        .collect()
}

/// The known name that is most like this one, and how many letters differ. Case, dashes and
/// underscores do not count, because `userId` means `user_id`.
pub(crate) fn nearest<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<(usize, &'a str)> {
    let wanted = folded(name);
    let mut nearest: Option<(usize, &str)> = None;
    for known in known {
        let distance = strsim::osa_distance(&wanted, &folded(known));
        // Two letters are most of a short name.
        let farthest = if known.len() <= 4 { 1 } else { 2 };
        if distance > farthest {
            continue;
        }
        match nearest {
            Some((least, _)) if least <= distance => {}
            _ => nearest = Some((distance, known)),
        }
    }
    nearest
}

fn folded(name: &str) -> String {
    name.chars()
        .take(LONGEST_SHOWN)
        .filter(|c| !matches!(c, '_' | '-'))
        .flat_map(char::to_lowercase)
        .collect()
}
