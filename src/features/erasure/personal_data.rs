//! Which keys may name a user, and how: the families of keys that an erasure looks into. A new kind
//! of key that names users belongs here, and in the story that dumps all of Redis after an erasure.

use crate::base::ids::{LiveId, UserId};
use crate::features::erasure::store::PersonalData;
use crate::store::LiveEpoch;
use crate::store::redis::keys::{Keys, read_slice};

/// How a key may name a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NamesUsers {
    /// The key is the user's own. `size` is the command that counts what the report tells of it;
    /// `None` if another key tells the same.
    Own(Option<Size>),
    /// The profile of the user.
    Profile,
    /// A sorted set with users as members.
    Ranked(Option<PersonalData>),
    /// The removals from a live: users, some with `+` before them.
    Removals,
    /// A timeline of another user, which may have statuses of the user.
    Timeline,
    /// The fans of one part who attended.
    AttendanceSet,
    /// The same as bits.
    AttendanceBits,
    /// The facts about an epoch with attendance.
    Attended(LiveEpoch),
    /// The stays of a slice, with the key of its sessions.
    Stays(String),
    /// When users were seen last.
    LastSeen,
    /// The record of a live.
    Record(LiveId),
    /// An answer to a request that may be repeated.
    Answer,
    /// Where a session of a media server publishes.
    StreamKey,
    /// A set of users who are online.
    OnlineSet,
    /// A hash with such users as fields.
    OnlineHash,
    /// A hash of jobs or changes that end by themselves, with users somewhere in their names.
    Unfinished,
    /// A stream of events, which the report tells of as this.
    Events(PersonalData),
}

/// How to count the contents of a key, and as what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) kind: PersonalData,
    pub(crate) command: &'static str,
}

const fn own(kind: PersonalData, command: &'static str) -> NamesUsers {
    NamesUsers::Own(Some(Size { kind, command }))
}

impl Keys {
    /// How a key may name this user; `None` for a key that does not, and for a key of another
    /// installation. Attendance is asked for one part of a set or of bits, the user's.
    pub(crate) fn names_users(
        &self,
        key: &str,
        user: &UserId,
        [set_part, bits_part]: [Option<u32>; 2],
    ) -> Option<NamesUsers> {
        let name = key.strip_prefix(self.prefix.as_str())?;
        if name.starts_with("last-seen:{") {
            return Some(NamesUsers::LastSeen);
        }
        if let Some((beside, companion)) = self.split_beside(name) {
            return self.companion_names(key, beside, companion, user);
        }
        if read_slice(name).is_some() {
            return Some(NamesUsers::OnlineSet);
        }
        if let Some(attendance) = name.strip_prefix("attendance:") {
            let Some((of, part)) = attendance.split_once(':') else {
                return Some(NamesUsers::Attended(LiveEpoch::parse(attendance)?));
            };
            LiveEpoch::parse(of)?;
            if set_part.is_some_and(|mine| part == format!("{{p{mine}}}")) {
                return Some(NamesUsers::AttendanceSet);
            }
            if bits_part.is_some_and(|mine| part == format!("{{b{mine}}}")) {
                return Some(NamesUsers::AttendanceBits);
            }
            return None;
        }
        let (family, rest) = name.split_once(':')?;
        match family {
            "rollcall" => rollcall_names(rest),
            "live" => Some(NamesUsers::Record(LiveId::parse(rest).ok()?)),
            _ => named_after(family, rest, user.as_str()),
        }
    }

    fn companion_names(
        &self,
        key: &str,
        beside: &str,
        companion: &str,
        user: &UserId,
    ) -> Option<NamesUsers> {
        if read_slice(beside).is_some() {
            return match companion {
                "viewers" => Some(NamesUsers::OnlineSet),
                "who" => Some(NamesUsers::OnlineHash),
                stays if stays.starts_with("stays@") => {
                    let sessions = key.replacen("}:stays@", "}:sessions@", 1);
                    Some(NamesUsers::Stays(sessions))
                }
                _ => None,
            };
        }
        if beside.starts_with("live:") {
            return match companion {
                "removals" => Some(NamesUsers::Removals),
                "bans" => Some(NamesUsers::Ranked(Some(PersonalData::Bans))),
                _ => None,
            };
        }
        if beside == "rollcall:events" {
            // Those of a webhook with a name have it as a suffix.
            return match companion.split(':').next()? {
                "dead" | "replay" => Some(NamesUsers::Events(PersonalData::WebhookEvents)),
                "audit" => Some(NamesUsers::Events(PersonalData::AuditEntries)),
                _ => None,
            };
        }
        if beside == "rollcall:fanout" {
            return Some(NamesUsers::Unfinished);
        }
        let whose = beside
            .strip_prefix("statuses:profile:")
            .or(beside.strip_prefix("past-lives:"))?;
        if whose != user.as_str() {
            return None;
        }
        match companion {
            "posts" => Some(own(PersonalData::Announcements, "HLEN")),
            "summaries" => Some(own(PersonalData::PastLives, "HLEN")),
            "open" => Some(NamesUsers::Own(None)),
            _ => None,
        }
    }
}

/// How a key of a family whose keys are named after users may name this one.
fn named_after(family: &str, rest: &str, user: &str) -> Option<NamesUsers> {
    let (kind, whose) = match family {
        "list" | "statuses" => rest.split_once(':')?,
        _ => ("", rest),
    };
    let is_own = whose == user;
    match (family, kind) {
        ("user", _) if is_own => Some(NamesUsers::Profile),
        ("attended" | "past-lives", _) if is_own => Some(NamesUsers::Own(None)),
        ("following", _) if is_own => Some(own(PersonalData::Following, "ZCARD")),
        ("followers", _) if is_own => Some(own(PersonalData::Followers, "ZCARD")),
        // The user's own end tells how many there are.
        ("following" | "followers", _) => Some(NamesUsers::Ranked(None)),
        ("list", _) if is_own => Some(own(PersonalData::Lists, "EXISTS")),
        ("list", _) => Some(NamesUsers::Ranked(Some(PersonalData::ListPlaces))),
        ("statuses", _) if is_own => Some(own(PersonalData::TimelineEntries, "ZCARD")),
        ("statuses", "home" | "feed") => Some(NamesUsers::Timeline),
        _ => None,
    }
}

fn rollcall_names(name: &str) -> Option<NamesUsers> {
    if name == "pulled" {
        return Some(NamesUsers::Ranked(None));
    }
    match name.split_once(':')?.0 {
        "answer" => Some(NamesUsers::Answer),
        "stream-key" => Some(NamesUsers::StreamKey),
        "changes" => Some(NamesUsers::Unfinished),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{Epoch, ListName, OnlineSet, SliceId, USERS_SLICES};
    use crate::base::key_prefix::KeyPrefix;
    use crate::features::feeds::store::timelines::Timeline;
    use crate::store::Edge;

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    #[test]
    fn keys_that_may_name_a_user_are_known_with_and_without_a_prefix() {
        for prefix in ["", "app1:"] {
            let keys = Keys::new(KeyPrefix::parse(prefix).unwrap(), 0);
            let (mine, other) = (user("u:1"), user("u2"));
            let names = |key: &str| keys.names_users(key, &mine, [Some(7), None]);
            let live = LiveId::parse("42").unwrap();
            let list = ListName::parse("cooks").unwrap();
            let of = LiveEpoch {
                live: live.clone(),
                epoch: Epoch(3),
            };
            for (key, how) in [
                (keys.user(&mine), Some(NamesUsers::Profile)),
                (keys.user(&other), None),
                (
                    keys.edge(&mine, Edge::Following),
                    Some(own(PersonalData::Following, "ZCARD")),
                ),
                (
                    keys.edge(&other, Edge::Followers),
                    Some(NamesUsers::Ranked(None)),
                ),
                (
                    keys.list_of(&mine, &list),
                    Some(own(PersonalData::Lists, "EXISTS")),
                ),
                (
                    keys.list_of(&other, &list),
                    Some(NamesUsers::Ranked(Some(PersonalData::ListPlaces))),
                ),
                (
                    keys.timeline(&Timeline::Home(other.clone())),
                    Some(NamesUsers::Timeline),
                ),
                (keys.timeline(&Timeline::Profile(other.clone())), None),
                (
                    keys.posts(&mine),
                    Some(own(PersonalData::Announcements, "HLEN")),
                ),
                (keys.posts(&other), None),
                (keys.attendance_set(&of, 7), Some(NamesUsers::AttendanceSet)),
                (keys.attendance_set(&of, 8), None),
                (keys.attendance_bits(&of, 7), None),
                (keys.attended(&of), Some(NamesUsers::Attended(of.clone()))),
                (keys.live(&live), Some(NamesUsers::Record(live.clone()))),
                (keys.removals(&live), Some(NamesUsers::Removals)),
                (keys.last_seen(5), Some(NamesUsers::LastSeen)),
                (keys.pulled(), Some(NamesUsers::Ranked(None))),
                (keys.changes(9), Some(NamesUsers::Unfinished)),
                (keys.fanout_progress(), Some(NamesUsers::Unfinished)),
                (keys.events(), None),
                (
                    keys.audit_trail(),
                    Some(NamesUsers::Events(PersonalData::AuditEntries)),
                ),
                (keys.users(), None),
                (keys.erasures_progress(), None),
            ] {
                assert_eq!(names(&key), how, "{key}");
            }
            let slice = SliceId::all(OnlineSet::Live(live), 1).next().unwrap();
            assert_eq!(
                names(&keys.stays(&slice, Epoch(3))),
                Some(NamesUsers::Stays(keys.sessions(&slice, Epoch(3))))
            );
            let online = keys.online_users(USERS_SLICES);
            assert_eq!(names(&online), Some(NamesUsers::OnlineSet));
            let [who, gateways] = keys.whereabouts(1);
            assert_eq!(names(&who), Some(NamesUsers::OnlineHash), "{prefix}");
            assert_eq!(names(&gateways), None);
        }
    }
}
