//! The field `stream` of a record, in words.

use crate::store::StreamStatus;

/// The field `stream` of a record: `<on or lost> <since> <beats>`.
pub(crate) fn status_word(status: &StreamStatus) -> String {
    let state = if status.is_on { "on" } else { "lost" };
    format!("{state} {} {}", status.since, status.beats)
}

/// Reads the field `stream` of a record. `None` if another program wrote it.
pub(crate) fn read_status(word: &str) -> Option<StreamStatus> {
    let mut words = word.split(' ');
    let is_on = match words.next()? {
        "on" => true,
        "lost" => false,
        _ => return None,
    };
    let status = StreamStatus {
        is_on,
        since: words.next()?.parse().ok()?,
        beats: words.next()?.parse().ok()?,
    };
    match words.next() {
        None => Some(status),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_in_a_record_is_read_as_it_was_written() {
        for (is_on, since, beats) in [(true, 1_732_000_000_000, 0), (false, 0, 7)] {
            let status = StreamStatus {
                is_on,
                since,
                beats,
            };
            assert_eq!(read_status(&status_word(&status)), Some(status));
        }
        for word in [
            "",
            "on",
            "on 1",
            "off 1 2",
            "on x 2",
            "on 1 2 3",
            "lost 1 -2",
        ] {
            assert_eq!(read_status(word), None, "{word}");
        }
    }
}
