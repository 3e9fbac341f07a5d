//! The kinds of events that are written to the stream `rollcall:events`, by the names that
//! consumers know. `docs/events.md` describes each.

use std::fmt;

/// What an event tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum EventKind {
    /// A live opened.
    LiveOpened,
    /// A live closed; with its summary.
    LiveClosed,
    /// The counts of a live changed.
    LiveCounts,
    /// A user was removed from a live, and may come back.
    UserRemoved,
    /// A user was removed from a live, and may not come back for a time.
    UserBanned,
    /// A user's ban was lifted before its end.
    UserUnbanned,
    /// A user follows a streamer from now on.
    UserFollowed,
    /// A user follows a streamer no longer.
    UserUnfollowed,
    /// Fans came to a live.
    FanJoined,
    /// Fans left a live.
    FanLeft,
    /// A stream of a live began on a media server, or came back.
    StreamStarted,
    /// A live has no stream any more, and may get one back.
    StreamLost,
    /// A live had no stream for too long.
    StreamEnded,
    /// A ban of the platform or of a streamer, a moderator, or revoked tokens.
    RuleMade,
    /// Such a rule was ended.
    RuleLifted,
    /// Somebody changed something over the HTTP API.
    AuditRecorded,
}

impl EventKind {
    /// Every kind.
    pub const ALL: [Self; 16] = [
        Self::LiveOpened,
        Self::LiveClosed,
        Self::LiveCounts,
        Self::UserRemoved,
        Self::UserBanned,
        Self::UserUnbanned,
        Self::UserFollowed,
        Self::UserUnfollowed,
        Self::FanJoined,
        Self::FanLeft,
        Self::StreamStarted,
        Self::StreamLost,
        Self::StreamEnded,
        Self::RuleMade,
        Self::RuleLifted,
        Self::AuditRecorded,
    ];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::LiveOpened => "live.opened",
            Self::LiveClosed => "live.closed",
            Self::LiveCounts => "live.counts",
            Self::UserRemoved => "user.removed",
            Self::UserBanned => "user.banned",
            Self::UserUnbanned => "user.unbanned",
            Self::UserFollowed => "user.followed",
            Self::UserUnfollowed => "user.unfollowed",
            Self::FanJoined => "fan.joined",
            Self::FanLeft => "fan.left",
            Self::StreamStarted => "stream.started",
            Self::StreamLost => "stream.lost",
            Self::StreamEnded => "stream.ended",
            Self::RuleMade => "rule.made",
            Self::RuleLifted => "rule.lifted",
            Self::AuditRecorded => "audit.recorded",
        }
    }

    /// Reads the name back.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_back_by_its_name() {
        for kind in EventKind::ALL {
            assert_eq!(EventKind::from_name(kind.as_str()), Some(kind));
        }
        assert_eq!(EventKind::from_name("live.open"), None);
    }
}
