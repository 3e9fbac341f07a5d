//! Reads the text of a fence. The scripts write it, see `scripts/prelude/fences.lua`.

use fred::types::Value;

use crate::base::ids::Epoch;
use crate::store::redis::reply::{nonsense, text};
use crate::store::slice::counted::{Rebuild, SliceCounts};
use crate::store::{Arrived, Fence, StoreResult};

/// Reads the answer to a GET of a fence, without the counts.
pub(crate) fn read_fence(answer: Value) -> StoreResult<Option<Fence>> {
    let (fence, _) = read_counted(answer)?;
    Ok(fence)
}

/// Reads the answer to a GET of a fence.
pub(crate) fn read_counted(answer: Value) -> StoreResult<(Option<Fence>, SliceCounts)> {
    if answer.is_null() {
        return Ok((None, SliceCounts::default()));
    }
    let word = text(answer)?;
    let read = match word.split_once(':') {
        Some(("open", rest)) => read_open(rest),
        Some(("closed", rest)) => read_closed(rest),
        _ => None,
    };
    match read {
        Some((fence, counted)) => Ok((Some(fence), counted)),
        None => Err(nonsense("a fence that no script wrote")),
    }
}

/// Reads `<epoch>:<version>:<incarnation>:<joins>-<leaves>:<fans>:<entries>:<last token>`, with
/// `-<guests>` behind the fans if there are any, and `:<users with a claim>:<fans>:<guests>:<since>`
/// at the end in a rebuild.
fn read_open(text: &str) -> Option<(Fence, SliceCounts)> {
    let words: Vec<&str> = text.split(':').collect();
    let (counts, rebuild) = words.split_at_checked(7)?;
    let rebuild = match rebuild {
        [] => None,
        [users, fans, guests, since] => Some(Rebuild {
            users: match *users {
                "-1" => None,
                users => Some(users.parse().ok()?),
            },
            since: since.parse().ok()?,
            fans: fans.parse().ok()?,
            guests: guests.parse().ok()?,
        }),
        _ => return None,
    };
    let (joins, leaves) = counts[3].split_once('-')?;
    let (fans, guests) = counts[4].split_once('-').unwrap_or((counts[4], "0"));
    let counted = SliceCounts {
        version: counts[1].parse().ok()?,
        incarnation: counts[2].parse().ok()?,
        arrived: Arrived {
            joins: joins.parse().ok()?,
            leaves: leaves.parse().ok()?,
        },
        fans: fans.parse().ok()?,
        guests: guests.parse().ok()?,
        entries: counts[5].parse().ok()?,
        last_token: counts[6].parse().ok()?,
        rebuild,
    };
    Some((Fence::Open(Epoch(counts[0].parse().ok()?)), counted))
}

/// Reads `<epoch>:<totals>`. Only a close needs the totals.
fn read_closed(text: &str) -> Option<(Fence, SliceCounts)> {
    let epoch = text.split(':').next()?.parse().ok()?;
    Some((Fence::Closed(Epoch(epoch)), SliceCounts::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_read_as_scripts_write_it() {
        let read = |word: &str| read_counted(Value::from(word)).ok();
        let counted = SliceCounts {
            version: 17,
            incarnation: 12,
            arrived: Arrived {
                joins: 9,
                leaves: 4,
            },
            fans: 3,
            guests: 0,
            entries: 2,
            last_token: 8,
            rebuild: None,
        };
        let open = Some(Fence::Open(Epoch(5)));
        assert_eq!(read("open:5:17:12:9-4:3:2:8"), Some((open, counted)));
        assert!(counted.fits(5) && !counted.fits(4) && !counted.fits(2));
        let size = counted.size(false);
        assert_eq!((size.card, size.differs, size.rebuild), (5, false, false));

        let (_, again) = read("open:5:17:12:9-4:3:2:8:4:7:1:1700000000000").unwrap();
        assert!(again.fits(4) && !again.fits(5) && again.size(true).rebuild);
        let shown = again.size(true);
        assert_eq!((shown.card, shown.fans, shown.guests), (5, 7, 1));
        let (_, spoiled) = read("open:5:17:12:9-4:3:2:8:-1:7:0:1700000000000").unwrap();
        assert!(!spoiled.fits(5) && spoiled.size(false).rebuild);

        let with_guests = SliceCounts {
            fans: 1,
            guests: 2,
            ..counted
        };
        assert_eq!(read("open:5:17:12:9-4:1-2:2:8"), Some((open, with_guests)));
        assert_eq!(
            (with_guests.shown(5), with_guests.size(false).guests),
            (3, 2)
        );
        assert!(with_guests.fits(5));

        let closed = (Some(Fence::Closed(Epoch(5))), SliceCounts::default());
        assert_eq!(read("closed:5:9-9:4:2"), Some(closed));
        assert_eq!(
            read_counted(Value::Null).unwrap(),
            (None, SliceCounts::default())
        );
        for other in [
            "",
            "open",
            "what",
            // As a former version of this program wrote it.
            "open:5:17:9-4:3",
            "open:5:17:12:9-4:3:2:8:4",
            "open:5:17:12:9:3:2:8",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
