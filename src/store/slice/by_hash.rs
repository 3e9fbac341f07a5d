//! Users in the order of a hash, so that a page can go on where the last one ended, whatever came
//! and went in between: a user who is there all along is in exactly one page.

use std::collections::BTreeMap;

use crate::base::ids::UserId;
use crate::store::slices::MemberPage;

/// Users, each with a value. Every key names a user. `None` only says where a page begins, because
/// it comes before every user of the same hash.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ByHash<V>(BTreeMap<(u64, Option<UserId>), V>);

/// A set of users.
pub(crate) type Members = ByHash<()>;

impl<V> Default for ByHash<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<V> ByHash<V> {
    fn key(user: &UserId) -> (u64, Option<UserId>) {
        (
            xxhash_rust::xxh3::xxh3_64(user.as_str().as_bytes()),
            Some(user.clone()),
        )
    }

    pub(crate) fn insert(&mut self, user: &UserId, value: V) -> Option<V> {
        self.0.insert(Self::key(user), value)
    }

    pub(crate) fn remove(&mut self, user: &UserId) -> Option<V> {
        self.0.remove(&Self::key(user))
    }

    pub(crate) fn get(&self, user: &UserId) -> Option<&V> {
        self.0.get(&Self::key(user))
    }

    pub(crate) fn contains(&self, user: &UserId) -> bool {
        self.get(user).is_some()
    }

    pub(crate) fn len(&self) -> u64 {
        self.0.len() as u64
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&UserId, &V)> {
        self.0
            .iter()
            .filter_map(|((_, user), value)| Some((user.as_ref()?, value)))
    }

    /// About `most` users. The cursor is the first hash that is not on an earlier page; users of
    /// one hash share a page.
    pub(crate) fn page(&self, cursor: u64, most: usize) -> MemberPage {
        let mut users = Vec::new();
        let mut last = cursor;
        for (hash, user) in self.0.range((cursor, None)..).map(|(key, _)| key) {
            if users.len() >= most && *hash != last {
                return MemberPage {
                    users,
                    next: Some(*hash),
                };
            }
            last = *hash;
            users.extend(user.clone());
        }
        MemberPage { users, next: None }
    }
}
