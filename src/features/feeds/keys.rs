//! The keys of timelines and announcements in Redis.

use crate::base::ids::UserId;
use crate::features::feeds::store::timelines::Timeline;
use crate::store::redis::keys::Keys;

impl Keys {
    /// ZSET: statuses, scored by when the live opened or the announcement was made, in Unix
    /// milliseconds. The status of a live leaves with the live's close. The newest
    /// [`crate::features::feeds::store::timelines::MAX_TIMELINE`] announcements stay. Never expires.
    pub fn timeline(&self, timeline: &Timeline) -> String {
        match timeline {
            Timeline::Home(user) => self.key(format_args!("statuses:home:{user}")),
            Timeline::Feed(user) => self.key(format_args!("statuses:feed:{user}")),
            Timeline::Profile(user) => self.key(format_args!("statuses:profile:{user}")),
            Timeline::OnAir(user) => self.key(format_args!("statuses:on-air:{user}")),
        }
    }

    /// A glob that every timeline matches.
    pub fn timeline_keys(&self) -> String {
        self.key("statuses:*")
    }

    /// Reads the key of a timeline back.
    pub fn read_timeline(&self, key: &str) -> Option<Timeline> {
        let (kind, user) = key
            .strip_prefix(self.prefix.as_str())?
            .strip_prefix("statuses:")?
            .split_once(':')?;
        let kind = match kind {
            "home" => Timeline::Home,
            "feed" => Timeline::Feed,
            "profile" => Timeline::Profile,
            "on-air" => Timeline::OnAir,
            _ => return None,
        };
        Some(kind(UserId::parse(user).ok()?))
    }

    /// HASH: an author's announcements → their texts. In the slot of the author's profile. Never
    /// expires.
    pub fn posts(&self, author: &UserId) -> String {
        self.beside(&self.timeline(&Timeline::Profile(author.clone())), "posts")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeline_is_read_back_and_shares_the_slot_of_its_announcements() {
        let slot = |key: &str| fred::util::redis_keyslot(key.as_bytes());
        let user = UserId::parse("mail@example.org:1").unwrap();
        for keys in crate::store::redis::keys::tests::installations() {
            for kind in [
                Timeline::Home,
                Timeline::Feed,
                Timeline::Profile,
                Timeline::OnAir,
            ] {
                let timeline = kind(user.clone());
                assert_eq!(
                    keys.read_timeline(&keys.timeline(&timeline)),
                    Some(timeline)
                );
            }
            assert_eq!(
                slot(&keys.posts(&user)),
                slot(&keys.timeline(&Timeline::Profile(user.clone())))
            );
            assert_eq!(slot(&keys.fanout()), slot(&keys.fanout_progress()));
            assert_eq!(keys.read_timeline(&keys.posts(&user)), None);
        }
    }
}
