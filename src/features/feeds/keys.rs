//! The keys of timelines, announcements and lists, and of the jobs for followers.

use crate::base::ids::{ListName, UserId};
use crate::features::feeds::scripts;
use crate::features::feeds::store::timelines::Timeline;
use crate::store::PersonalData;
use crate::store::redis::args;
use crate::store::redis::erasing::{ErasesKeys, Erasing, FamilyEraser, Look, Suspect};
use crate::store::redis::family::{
    Family,
    KeyType::{Hash, Stream, Zset},
    Names, Own, families,
};
use crate::store::redis::keys::Keys;
use crate::store::redis::router::ScriptCall;

/// What the report of an erasure tells of a timeline.
const ENTRIES: Own = Own::Told(PersonalData::TimelineEntries, "ZCARD");

families! {
    /// Announcements of those whom the user follows, scored by when they were made, in Unix milliseconds.
    /// The newest [`crate::features::feeds::store::timelines::MAX_TIMELINE`] stay. Never expires, as no
    /// timeline does.
    HOME = Family::new(Zset, "statuses:home:<user_id>").own(ENTRIES).names(Names::Otherwise);

    /// Lives of those whom the user follows, scored by when the live opened. The status of a live leaves
    /// with the live's close.
    FEED = Family::new(Zset, "statuses:feed:<user_id>").own(ENTRIES).names(Names::Otherwise);

    /// The user's own announcements, as in [`HOME`].
    PROFILE = Family::new(Zset, "statuses:profile:<user_id>").own(ENTRIES);

    /// The user's own lives, as in [`FEED`].
    ON_AIR = Family::new(Zset, "statuses:on-air:<user_id>").own(ENTRIES);

    /// An author's announcements → their texts. Never expires.
    POSTS, fn posts(author: &UserId) = Family::new(Hash, "{statuses:profile:<user_id>}:posts")
        .own(Own::Told(PersonalData::Announcements, "HLEN"));

    /// The members of a user's list, scored by when each was added. Never expires.
    LIST = Family::new(Zset, "list:<list_name>:<user_id>")
        .own(Own::Told(PersonalData::Lists, "EXISTS"))
        .names(Names::Members(Some(PersonalData::ListPlaces)));

    /// Jobs that bring a status to the followers of its author, or take it from them. Gateways share
    /// them. Empty at rest. Never expires.
    FANOUT, fn fanout() = Family::new(Stream, "rollcall:fanout");

    /// Job → `<worker> <how far it got>`. Empty at rest.
    FANOUT_PROGRESS, fn fanout_progress() =
        Family::new(Hash, "{rollcall:fanout}:progress").names(Names::Unfinished);

    /// The authors whose statuses have no such jobs, scored by the time since which they have none. Never
    /// expires.
    PULLED, fn pulled() = Family::new(Zset, "rollcall:pulled").names(Names::Members(None));
}

pub(crate) static ERASERS: &[FamilyEraser] = &[(&HOME, &Timelines), (&FEED, &Timelines)];

impl Keys {
    /// The key of a timeline.
    pub(crate) fn timeline(&self, timeline: &Timeline) -> String {
        match timeline {
            Timeline::Home(user) => self.make(&HOME, &[user]),
            Timeline::Feed(user) => self.make(&FEED, &[user]),
            Timeline::Profile(user) => self.make(&PROFILE, &[user]),
            Timeline::OnAir(user) => self.make(&ON_AIR, &[user]),
        }
    }

    /// A glob that every timeline matches.
    pub(crate) fn timeline_keys(&self) -> String {
        self.matching("statuses:*")
    }

    /// Reads the key of a timeline back.
    pub(crate) fn read_timeline(&self, key: &str) -> Option<Timeline> {
        type OfUser = fn(UserId) -> Timeline;
        let kinds: [(&Family, OfUser); 4] = [
            (&HOME, Timeline::Home),
            (&FEED, Timeline::Feed),
            (&PROFILE, Timeline::Profile),
            (&ON_AIR, Timeline::OnAir),
        ];
        for (family, timeline) in kinds {
            if let Some(ids) = self.read(family, key) {
                return Some(timeline(UserId::parse(ids[0]).ok()?));
            }
        }
        None
    }

    /// A key of the family `LIST`.
    pub(crate) fn list_of(&self, owner: &UserId, list: &ListName) -> String {
        self.make(&LIST, &[list, owner])
    }
}

/// Takes the user's statuses out of the timelines of others.
struct Timelines;

impl ErasesKeys for Timelines {
    fn look(&self, key: &Suspect, of: &Erasing<'_>) -> Option<Look> {
        let call = ScriptCall {
            keys: vec![key.key.clone()],
            args: args![format_args!("{}~", of.user)],
        };
        Some(Look::Run(
            PersonalData::TimelineEntries,
            &scripts::ERASE_STATUSES,
            call,
        ))
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
