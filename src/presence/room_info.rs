//! What a back end changed of a live, as this gateway knows it: the information for the sockets in
//! the room, and the terms of the live for whoever asks about it. The room counts the versions of
//! the information that it received, and a socket remembers the last one that it sent: a heartbeat
//! compares two numbers. A change of the terms is nothing to the sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};

use super::acks::CachedAcks;
use crate::base::ids::UserId;
use crate::store::{Info, LiveRecord, Terms};

/// What [`RoomInfo::note`] found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct NotedRecord {
    /// Whether the information is another one now.
    pub has_news: bool,
    /// The users who host the live from now on, or no longer.
    pub hosts: Vec<UserId>,
}

/// What the room knows, of one version of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownInfo {
    /// See [`LiveRecord::version`].
    pub version: u64,
    /// How many versions of the information this room has received, with this one; 0 if there was
    /// none.
    pub revision: u32,
    pub info: Info,
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
    pub fn new(record: &LiveRecord) -> Self {
        let revision = u32::from(record.info.version > 0);
        let newest = ArcSwap::from_pointee(KnownInfo {
            version: record.version,
            revision,
            info: record.info.clone(),
            terms: record.terms.clone(),
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

    /// The newest version of the information; 0 if there was none.
    pub(crate) fn version(&self) -> u64 {
        if self.revision() == 0 {
            return 0;
        }
        self.newest.load().info.version
    }

    pub fn newest(&self) -> Arc<KnownInfo> {
        self.newest.load_full()
    }

    /// Whether the live names the user as a host.
    pub fn names_host(&self, user: &UserId) -> bool {
        self.newest.load().terms.hosts.contains(user)
    }

    /// Notes what the store has, unless the room knew a version as high before.
    pub fn note(&self, read: &LiveRecord) -> NotedRecord {
        let before = self.newest.rcu(|known| {
            if known.version >= read.version {
                return known.clone();
            }
            let is_told = known.info.version == read.info.version;
            Arc::new(KnownInfo {
                version: read.version,
                revision: known.revision + u32::from(!is_told),
                info: read.info.clone(),
                terms: read.terms.clone(),
            })
        });
        self.revision
            .fetch_max(self.newest.load().revision, Ordering::AcqRel);
        if before.version >= read.version {
            return NotedRecord::default();
        }
        let (former, present) = (&before.terms.hosts, &read.terms.hosts);
        let dismissed = former.iter().filter(|user| !present.contains(user));
        let appointed = present.iter().filter(|user| !former.contains(user));
        NotedRecord {
            has_news: before.info.version != read.info.version,
            hosts: dismissed.chain(appointed).cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::open_record;

    fn written(version: u64, json: Option<&str>, title: &str) -> LiveRecord {
        LiveRecord {
            version,
            info: Info {
                version,
                json: json.map(Into::into),
            },
            terms: Terms {
                title: Some(title.to_owned()),
                ..Terms::default()
            },
            ..open_record()
        }
    }

    #[test]
    fn the_highest_version_wins_in_whichever_order_they_come() {
        let room = RoomInfo::new(&open_record());
        let five = written(5, Some("5"), "five");
        assert!(room.note(&five).has_news);
        assert!(!room.note(&written(5, Some("again"), "again")).has_news);
        assert!(!room.note(&written(4, Some("4"), "four")).has_news);
        let newest = room.newest();
        assert_eq!((&newest.terms, &newest.info), (&five.terms, &five.info));
        assert_eq!((newest.revision, room.revision()), (1, 1));
        assert!(room.note(&written(6, None, "six")).has_news);
        assert_eq!((room.revision(), &room.newest().info.json), (2, &None));
        assert_eq!(RoomInfo::new(&five).revision(), 1);
    }

    #[test]
    fn a_change_of_the_terms_is_no_new_information() {
        let first = written(5, Some("5"), "five");
        let room = RoomInfo::new(&first);
        let renamed = LiveRecord {
            info: first.info.clone(),
            ..written(6, None, "six")
        };
        assert!(!room.note(&renamed).has_news);
        let newest = room.newest();
        assert_eq!((newest.version, &newest.terms), (6, &renamed.terms));
        assert_eq!((room.revision(), room.version()), (1, 5));
        let untold = RoomInfo::new(&open_record());
        let renamed = LiveRecord {
            info: Info::default(),
            ..renamed
        };
        assert!(!untold.note(&renamed).has_news);
        assert_eq!((untold.revision(), untold.version()), (0, 0));
    }

    #[test]
    fn it_is_known_who_became_a_host_and_who_is_one_no_longer() {
        let user = |id: &str| UserId::parse(id).unwrap();
        let hosted = |version, hosts: &[&str]| LiveRecord {
            version,
            terms: Terms {
                hosts: hosts.iter().map(|id| user(id)).collect(),
                ..Terms::default()
            },
            ..open_record()
        };
        let room = RoomInfo::new(&open_record());
        let noted = room.note(&hosted(5, &["h1", "h2"]));
        assert_eq!(noted.hosts, [user("h1"), user("h2")]);
        assert!(room.names_host(&user("h1")) && !room.names_host(&user("h")));
        let noted = room.note(&hosted(6, &["h2", "h3"]));
        assert_eq!(noted.hosts, [user("h1"), user("h3")]);
        assert_eq!(room.note(&hosted(5, &["h1"])), NotedRecord::default());
        assert!(
            !room.names_host(&user("h1")),
            "an older version says nothing"
        );
    }
}
