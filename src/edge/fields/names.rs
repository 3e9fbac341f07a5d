//! Names of fields: how a message shows one that a client made up, and which known one the client
//! probably meant.

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
    let distances = known
        .into_iter()
        .map(|known| (strsim::osa_distance(&wanted, &folded(known)), known));
    // Of a short name, two letters are most of it.
    let is_like =
        |(distance, known): &(usize, &str)| *distance <= if known.len() <= 4 { 1 } else { 2 };
    distances
        .filter(is_like)
        .min_by_key(|(distance, _)| *distance)
}

fn folded(name: &str) -> String {
    let letters = name
        .chars()
        .take(LONGEST_SHOWN)
        .filter(|c| !matches!(c, '_' | '-'));
    letters.flat_map(char::to_lowercase).collect()
}
