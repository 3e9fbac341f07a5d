//! What a back end wrote about a live, as this gateway knows it: the information for the sockets in
//! the room, and the terms of the live for whoever asks about it. The room counts the versions that
//! it received, and a socket remembers the last version that it sent: a heartbeat compares two
//! numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};

use super::acks::CachedAcks;
use crate::store::{Info, Terms};

/// One version of the information.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownInfo {
    /// The number of versions that this room has received, including this one; 0 if there was none.
    pub revision: u32,
    pub info: Info,
    /// The terms of the live since this version.
    pub terms: Terms,
}

#[derive(Debug)]
pub struct RoomInfo {
    newest: ArcSwap<KnownInfo>,
    /// The revision of `newest`, or of the version before it.
    revision: AtomicU32,
    /// The acknowledgements for sockets that have an older version.
    pub acks: ArcSwapOption<CachedAcks>,
}

impl RoomInfo {
    pub fn new(info: Info, terms: Terms) -> Self {
        let revision = u32::from(info.version > 0);
        let newest = ArcSwap::from_pointee(KnownInfo {
            revision,
            info,
            terms,
        });
        Self {
            newest,
            revision: AtomicU32::new(revision),
            acks: ArcSwapOption::empty(),
        }
    }

    /// The newest revision. Every heartbeat reads it.
    pub fn revision(&self) -> u32 {
        self.revision.load(Ordering::Acquire)
    }

    /// The newest version; 0 if there was none.
    pub(crate) fn version(&self) -> u64 {
        if self.revision() == 0 {
            return 0;
        }
        self.newest.load().info.version
    }

    pub fn newest(&self) -> Arc<KnownInfo> {
        self.newest.load_full()
    }

    /// Notes what the store has. False if the room knew a version as high before.
    pub fn note(&self, read: &Info, terms: &Terms) -> bool {
        let before = self.newest.rcu(|known| {
            if known.info.version >= read.version {
                return known.clone();
            }
            Arc::new(KnownInfo {
                revision: known.revision + 1,
                info: read.clone(),
                terms: terms.clone(),
            })
        });
        self.revision
            .fetch_max(self.newest.load().revision, Ordering::AcqRel);
        before.info.version < read.version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_version_wins_in_whichever_order_they_come() {
        let info = |version, json: &str| Info {
            version,
            json: Some(json.into()),
        };
        let room = RoomInfo::new(Info::default(), Terms::default());
        let titled = |title: &str| Terms {
            title: Some(title.to_owned()),
            ..Terms::default()
        };
        assert!(room.note(&info(5, "5"), &titled("five")));
        assert!(
            !room.note(&info(5, "again"), &titled("again"))
                && !room.note(&info(4, "4"), &titled("four"))
        );
        assert_eq!(room.newest().terms, titled("five"));
        assert_eq!((room.revision(), &room.newest().info), (1, &info(5, "5")));
        assert!(room.note(
            &Info {
                version: 6,
                json: None
            },
            &Terms::default()
        ));
        assert_eq!((room.revision(), &room.newest().info.json), (2, &None));
        assert_eq!(RoomInfo::new(info(9, "9"), Terms::default()).revision(), 1);
    }
}
