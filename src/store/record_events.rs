//! The events that a record notes until they are in the stream, see [`super::Events`].

use super::{Counted, Figures};
use crate::base::actor::Actor;
use crate::base::clock::UnixMillis;
use crate::base::event_kind::EventKind;
use crate::base::ids::UserId;
use crate::base::media_server::MediaServerName;
use crate::store::StreamChange;

/// Maximum fields of a record that may take another pending event. This keeps a record small while
/// the stream cannot be written. Beyond it, the record notes only the close of the live: counts are
/// noted later, and removals cause no event.
pub const MAX_RECORD_FIELDS: usize = 256;

/// What happened, as a record notes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    /// The live opened.
    Opened,
    /// The live closed; the record has the summary.
    Closed,
    /// The counts changed.
    Counts(Figures),
    /// A user was removed.
    Removed(UserId),
    /// A user was removed, and may not come back until then.
    Banned(UserId, UnixMillis),
    /// A user's ban was lifted.
    Unbanned(UserId),
    /// The stream of the live began, was lost or ended, on this media server.
    Stream(StreamChange, MediaServerName),
}

impl Happened {
    /// The kind of the event.
    pub fn kind(&self) -> EventKind {
        match self {
            Self::Opened => EventKind::LiveOpened,
            Self::Closed => EventKind::LiveClosed,
            Self::Counts(_) => EventKind::LiveCounts,
            Self::Removed(_) => EventKind::UserRemoved,
            Self::Banned(..) => EventKind::UserBanned,
            Self::Unbanned(_) => EventKind::UserUnbanned,
            Self::Stream(change, _) => change.kind(),
        }
    }

    /// Reads the note of a script: the kind and its words, with spaces in between.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let kind = EventKind::from_name(words.next()?)?;
        let happened = match kind {
            EventKind::LiveOpened => Self::Opened,
            EventKind::LiveClosed => Self::Closed,
            EventKind::LiveCounts => Self::Counts(Figures {
                viewers: words.next()?.parse().ok()?,
                fans: words.next()?.parse().ok()?,
                guests: match words.next() {
                    Some(guests) => guests.parse().ok()?,
                    None => 0,
                },
            }),
            EventKind::UserRemoved => Self::Removed(UserId::parse(words.next()?).ok()?),
            EventKind::UserBanned => Self::Banned(
                UserId::parse(words.next()?).ok()?,
                words.next()?.parse().ok()?,
            ),
            EventKind::UserUnbanned => Self::Unbanned(UserId::parse(words.next()?).ok()?),
            EventKind::StreamStarted => read_stream(StreamChange::Started, words.next())?,
            EventKind::StreamLost => read_stream(StreamChange::Lost, words.next())?,
            EventKind::StreamEnded => read_stream(StreamChange::Ended, words.next())?,
            EventKind::FanJoined
            | EventKind::FanLeft
            | EventKind::UserFollowed
            | EventKind::UserUnfollowed
            | EventKind::RuleMade
            | EventKind::RuleLifted
            | EventKind::AuditRecorded => return None,
        };
        if words.next().is_some() {
            return None;
        }
        Some(happened)
    }
}

fn read_stream(change: StreamChange, server: Option<&str>) -> Option<Happened> {
    Some(Happened::Stream(
        change,
        MediaServerName::parse(server?).ok()?,
    ))
}

/// An event that a record notes until it is in the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingEvent {
    /// Grows from event to event of a live, and is at least the store's time of the event in Unix
    /// milliseconds, so that no number is used again, whatever the store loses.
    pub number: u64,
    /// What happened.
    pub what: Happened,
    /// Who asked for it over the API, of a removal, a ban and the end of one. `None` if that is not
    /// known.
    pub by: Option<Actor>,
}

/// What separates the actor from the rest of a note. No id has such a text.
const BY: &str = " by=";

/// What a script notes after the words of an event.
pub(super) fn by_note(by: Option<&Actor>) -> String {
    match by {
        Some(actor) => format!("{BY}{actor}"),
        None => String::new(),
    }
}

impl PendingEvent {
    /// Reads the note of a script.
    pub(super) fn parse(number: u64, text: &str) -> Option<Self> {
        let mut what = text;
        let mut by = None;
        if let Some((words, actor)) = text.split_once(BY) {
            what = words;
            by = Some(Actor::parse(actor)?);
        }
        Some(Self {
            number,
            what: Happened::parse(what)?,
            by,
        })
    }
}

/// The notes of a record on the events of its epoch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordEvents {
    /// In the order of their numbers.
    pub pending: Vec<PendingEvent>,
    /// The figures of the last `live.counts`, and when it was noted.
    pub told: Option<Counted>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_script_notes_is_read() {
        let user = UserId::parse("a:b@c").unwrap();
        for (text, right) in [
            ("live.opened", Some(Happened::Opened)),
            ("live.closed", Some(Happened::Closed)),
            (
                "live.counts 10 3",
                Some(Happened::Counts(Figures {
                    viewers: 10,
                    fans: 3,
                    guests: 0,
                })),
            ),
            (
                "live.counts 10 3 2",
                Some(Happened::Counts(Figures {
                    viewers: 10,
                    fans: 3,
                    guests: 2,
                })),
            ),
            ("live.counts 10 3 2 1", None),
            ("user.removed a:b@c", Some(Happened::Removed(user.clone()))),
            (
                "user.banned a:b@c 7",
                Some(Happened::Banned(user.clone(), 7)),
            ),
            ("user.unbanned a:b@c", Some(Happened::Unbanned(user))),
            ("user.unbanned", None),
            ("", None),
            ("live.opened 1", None),
            ("live.counts 10", None),
            ("live.counts -1 3", None),
            ("user.removed ", None),
            ("user.removed {u}", None),
            ("user.banned u1", None),
            ("fan.joined u1", None),
            (
                "stream.lost main",
                Some(Happened::Stream(
                    StreamChange::Lost,
                    MediaServerName::parse("main").unwrap(),
                )),
            ),
            ("stream.started", None),
            ("stream.ended Main", None),
        ] {
            assert_eq!(Happened::parse(text), right, "{text}");
        }
    }

    #[test]
    fn who_asked_for_it_is_read_back() {
        let user = UserId::parse("u1").unwrap();
        for by in [None, Some(Actor::Key("backend".into()))] {
            let text = format!("user.banned u1 7{}", by_note(by.as_ref()));
            let read = PendingEvent::parse(3, &text).unwrap();
            assert_eq!(read.what, Happened::Banned(user.clone(), 7));
            assert_eq!((read.number, read.by), (3, by));
        }
        assert_eq!(PendingEvent::parse(3, "user.banned u1 7 by=nobody"), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,80}") {
            let _ = PendingEvent::parse(1, &text);
        }
    }
}
