//! Reads the text of a fence. The scripts write it, see `scripts/prelude/fences.lua`.

use fred::types::Value;

use crate::base::ids::Epoch;
use crate::store::redis::reply::{nonsense, text};
use crate::store::{Arrived, Fence, SliceSize, StoreResult};

/// What the scripts have counted of an open slice; zeros for another one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    version: u64,
    incarnation: u64,
    arrived: Arrived,
    fans: u64,
    /// Gateways with an entry.
    pub(crate) entries: u64,
    /// `Some` in a rebuild.
    rebuild: Option<Rebuild>,
}

/// A rebuild of the claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Rebuild {
    /// Users with a claim; `None` if another program wrote in the rebuild.
    claimed: Option<u64>,
}

impl Counted {
    fn card(&self) -> u64 {
        self.arrived.joins.saturating_sub(self.arrived.leaves)
    }

    /// Whether so many users with claims can be there.
    pub(crate) fn fits(&self, claimed: u64) -> bool {
        let counted = match self.rebuild {
            Some(rebuild) => rebuild.claimed,
            None => Some(self.card()),
        };
        counted == Some(claimed) && self.fans <= claimed
    }

    /// The size of a slice with so many members and fans in its public sets, and so many users with
    /// claims.
    pub(crate) fn size(&self, members: u64, fans: u64, claimed: u64) -> SliceSize {
        SliceSize {
            card: self.card(),
            fans: self.fans,
            leaves: self.arrived.leaves,
            version: self.version,
            incarnation: self.incarnation,
            rebuild: self.rebuild.is_some(),
            differs: members != claimed || fans != self.fans,
        }
    }
}

/// Reads the answer to a GET of a fence, without the counts.
pub(crate) fn read_fence(answer: Value) -> StoreResult<Option<Fence>> {
    let (fence, _) = read_counted(answer)?;
    Ok(fence)
}

/// Reads the answer to a GET of a fence.
pub(crate) fn read_counted(answer: Value) -> StoreResult<(Option<Fence>, Counted)> {
    if answer.is_null() {
        return Ok((None, Counted::default()));
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
/// `:<users with a claim>:<since>` behind it in a rebuild.
fn read_open(text: &str) -> Option<(Fence, Counted)> {
    let words: Vec<&str> = text.split(':').collect();
    let (counts, rebuild) = words.split_at_checked(7)?;
    let rebuild = match rebuild {
        [] => None,
        ["-1", _] => Some(Rebuild { claimed: None }),
        [claimed, _] => Some(Rebuild {
            claimed: Some(claimed.parse().ok()?),
        }),
        _ => return None,
    };
    let (joins, leaves) = counts[3].split_once('-')?;
    let counted = Counted {
        version: counts[1].parse().ok()?,
        incarnation: counts[2].parse().ok()?,
        arrived: Arrived {
            joins: joins.parse().ok()?,
            leaves: leaves.parse().ok()?,
        },
        fans: counts[4].parse().ok()?,
        entries: counts[5].parse().ok()?,
        rebuild,
    };
    Some((Fence::Open(Epoch(counts[0].parse().ok()?)), counted))
}

/// Reads `<epoch>:<totals>`. Only a close needs the totals.
fn read_closed(text: &str) -> Option<(Fence, Counted)> {
    let epoch = text.split(':').next()?.parse().ok()?;
    Some((Fence::Closed(Epoch(epoch)), Counted::default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_is_read_as_scripts_write_it() {
        let read = |word: &str| read_counted(Value::from(word)).ok();
        let counted = Counted {
            version: 17,
            incarnation: 12,
            arrived: Arrived {
                joins: 9,
                leaves: 4,
            },
            fans: 3,
            entries: 2,
            rebuild: None,
        };
        let open = Some(Fence::Open(Epoch(5)));
        assert_eq!(read("open:5:17:12:9-4:3:2:8"), Some((open, counted)));
        assert!(counted.fits(5) && !counted.fits(4) && !counted.fits(2));
        let size = counted.size(5, 3, 5);
        assert_eq!((size.card, size.differs, size.rebuild), (5, false, false));
        assert!(counted.size(6, 3, 5).differs && counted.size(5, 2, 5).differs);

        let (_, again) = read("open:5:17:12:9-4:3:2:8:4:1700000000000").unwrap();
        assert!(again.fits(4) && !again.fits(5) && again.size(5, 3, 4).rebuild);
        let (_, spoiled) = read("open:5:17:12:9-4:3:2:8:-1:1700000000000").unwrap();
        assert!(!spoiled.fits(5) && spoiled.size(5, 3, 5).rebuild);

        let closed = (Some(Fence::Closed(Epoch(5))), Counted::default());
        assert_eq!(read("closed:5:9-9:4:2"), Some(closed));
        assert_eq!(
            read_counted(Value::Null).unwrap(),
            (None, Counted::default())
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
