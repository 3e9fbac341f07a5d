//! The information that a back end wrote about a live, as this gateway knows it, for the sockets in
//! the room. The room counts the versions that it received, and a socket remembers the last version
//! that it sent: a heartbeat compares two numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};

use super::acks::CachedAcks;
use crate::store::Info;

/// One version of the information.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownInfo {
    /// The number of versions that this room has received, including this one; 0 if there was none.
    pub revision: u32,
    pub info: Info,
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
    pub fn new(info: Info) -> Self {
        let revision = u32::from(info.version > 0);
        let newest = ArcSwap::from_pointee(KnownInfo { revision, info });
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

    /// Notes the version in the store. False if the room knew a version as high before.
    pub fn note(&self, read: &Info) -> bool {
        let before = self.newest.rcu(|known| {
            if known.info.version >= read.version {
                return known.clone();
            }
            Arc::new(KnownInfo {
                revision: known.revision + 1,
                info: read.clone(),
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
        let room = RoomInfo::new(Info::default());
        assert!(room.note(&info(5, "5")));
        assert!(!room.note(&info(5, "again")) && !room.note(&info(4, "4")));
        assert_eq!((room.revision(), &room.newest().info), (1, &info(5, "5")));
        assert!(room.note(&Info {
            version: 6,
            json: None
        }));
        assert_eq!((room.revision(), &room.newest().info.json), (2, &None));
        assert_eq!(RoomInfo::new(info(9, "9")).revision(), 1);
    }
}
