//! What media servers have said of the streams of one live: which sessions publish, and when the
//! live has no stream left. Pure: messages and the time come in, the next state or a request to the
//! caller comes out.
//!
//! A message is about a *session* of a server, never just about a stream: the end of a session ends
//! nothing that another session began. Messages may be lost, doubled, late and in any order. So the
//! state remembers the sessions that ended, too, also those whose beginning it never heard of.
//!
//! A session that has said `Alive` once has to go on saying it. The silence of other sessions means
//! nothing: most servers have no heartbeats.

use serde::{Deserialize, Serialize};

use crate::base::clock::UnixMillis;
use crate::base::event_kind::EventKind;
use crate::base::ids::Epoch;
use crate::base::media_event::{StreamNews, StreamSession};
use crate::base::media_server::MediaServerName;

/// Sessions that may publish to one live at the same time.
pub const MAX_PUBLISHERS: usize = 16;

/// Sessions that are remembered. Beyond it, the oldest that does not publish is forgotten.
const MAX_SESSIONS: usize = 64;

/// One message of a server about a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Which server said it.
    pub server: MediaServerName,
    /// About which session.
    pub session: StreamSession,
    /// What happened.
    pub news: StreamNews,
    /// When, by the clock of the server, in Unix milliseconds.
    pub at: Option<u64>,
}

/// The open epoch of a live, as its record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenEpoch {
    /// Which epoch.
    pub epoch: Epoch,
    /// Whether a stream opened it, so that the end of the stream closes it.
    pub by_stream: bool,
}

/// What has to be done about a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// Write this state.
    Write(Streams),
    /// A session begins: open the live, or find it open, and then write what [`Streams::begin`]
    /// makes of it.
    Begin,
    /// The live that a stream opened is being closed, because its stream is over. Close it, and
    /// then hear the message again.
    CloseFirst,
    /// As many sessions publish as may.
    Full,
}

/// Whether a live has lost its streams for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// A session publishes.
    OnAir,
    /// Write this state, which says that the stream is over. Then close a live that a stream opened.
    Write(Streams),
    /// The state says already that the stream is over: close a live that a stream opened.
    Over,
}

/// The state of the stream, for people and for other services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamStatus {
    /// Whether a session publishes. If not, the last one ended a moment ago.
    pub is_on: bool,
    /// Since when, by the clock of the gateway that heard of it.
    pub since: UnixMillis,
    /// How often the sessions that publish have said that they go on; 0 if they never did, so that
    /// their silence means nothing.
    pub beats: u64,
}

/// A change that an event tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamChange {
    /// A session publishes, and none did before.
    Started,
    /// No session publishes any more.
    Lost,
    /// None came back in time.
    Ended,
}

impl StreamChange {
    /// The kind of the event.
    pub fn kind(self) -> EventKind {
        match self {
            Self::Started => EventKind::StreamStarted,
            Self::Lost => EventKind::StreamLost,
            Self::Ended => EventKind::StreamEnded,
        }
    }
}

/// What is known of the streams of a live.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streams {
    /// The epoch of the live in which the sessions publish; 0 if none ever did.
    epoch: Epoch,
    /// When the stream of the epoch began or was lost, whichever was later.
    since: UnixMillis,
    /// Whether the stream of the epoch is over. A live that it opened is being closed.
    is_over: bool,
    /// The one that changed last is the last.
    sessions: Vec<Session>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Session {
    server: MediaServerName,
    id: String,
    /// Whether the server never gives the id to another session.
    is_unique: bool,
    phase: Phase,
    /// How often it has said that it goes on.
    beats: u64,
    /// The latest time of the server in a message about it.
    at: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    Publishes,
    /// It stopped saying that it goes on. It may only be cut off.
    Silent,
    Ended,
}

impl Session {
    fn new(heard: &Heard, phase: Phase) -> Self {
        Self {
            server: heard.server.clone(),
            id: heard.session.as_str().to_owned(),
            is_unique: heard.session.is_unique(),
            phase,
            beats: 0,
            at: heard.at,
        }
    }

    fn is_of(&self, heard: &Heard) -> bool {
        self.server == heard.server && self.id == heard.session.as_str()
    }

    /// Whether the server said something later about the session.
    fn has_heard_later(&self, heard: &Heard) -> bool {
        match (self.at, heard.at) {
            (Some(known), Some(at)) => known > at,
            _ => false,
        }
    }

    /// Whether the message is later than all others about the session.
    fn is_older_than(&self, heard: &Heard) -> bool {
        match (self.at, heard.at) {
            (Some(known), Some(at)) => known < at,
            (None, Some(_)) => true,
            _ => false,
        }
    }
}

impl Streams {
    /// Decides what a message means for a live whose open epoch is `open`, if it has one.
    pub fn hear(&self, heard: &Heard, open: Option<OpenEpoch>, now: UnixMillis) -> Step {
        match heard.news {
            StreamNews::Request => Step::Nothing,
            StreamNews::Publish => self.hear_publish(heard, open, now),
            StreamNews::Alive => self.hear_alive(heard, open, now),
            StreamNews::Done | StreamNews::Left => self.hear_end(heard, now),
        }
    }

    fn hear_publish(&self, heard: &Heard, open: Option<OpenEpoch>, now: UnixMillis) -> Step {
        let Some(known) = self.find(heard) else {
            return self.may_begin(open);
        };
        if known.has_heard_later(heard) {
            return Step::Nothing;
        }
        let is_current = self.is_current(open);
        match known.phase {
            Phase::Publishes if is_current && known.is_older_than(heard) => self.with(
                Session {
                    at: heard.at,
                    ..known.clone()
                },
                now,
            ),
            Phase::Publishes if is_current => Step::Nothing,
            // Somebody closed the live of the session, and the message is a double.
            Phase::Publishes if known.is_unique || known.at.is_some() && known.at == heard.at => {
                Step::Nothing
            }
            Phase::Ended if known.is_unique => Step::Nothing,
            Phase::Publishes | Phase::Silent | Phase::Ended => self.may_begin(open),
        }
    }

    fn hear_alive(&self, heard: &Heard, open: Option<OpenEpoch>, now: UnixMillis) -> Step {
        let Some(known) = self.find(heard) else {
            return self.may_begin(open);
        };
        match known.phase {
            Phase::Publishes if self.is_current(open) => self.with(
                Session {
                    beats: known.beats + 1,
                    at: known.at.max(heard.at),
                    ..known.clone()
                },
                now,
            ),
            Phase::Silent => self.may_begin(open),
            // The live of the session was closed, or the session ended and the message is late.
            Phase::Publishes | Phase::Ended => Step::Nothing,
        }
    }

    fn hear_end(&self, heard: &Heard, now: UnixMillis) -> Step {
        let Some(known) = self.find(heard) else {
            // Of an id that comes again, an end without a time says nothing about a later beginning.
            // A connection that left may have been one of many players.
            let is_remembered = heard.session.is_unique() || heard.at.is_some();
            if heard.news == StreamNews::Left || !is_remembered {
                return Step::Nothing;
            }
            return self.with(Session::new(heard, Phase::Ended), now);
        };
        // A later end of a session that ended keeps an earlier beginning from being heard.
        let is_old = known.phase == Phase::Ended && !known.is_older_than(heard);
        if is_old || known.has_heard_later(heard) {
            return Step::Nothing;
        }
        let ended = Session {
            phase: Phase::Ended,
            at: known.at.max(heard.at),
            ..known.clone()
        };
        self.with(ended, now)
    }

    fn may_begin(&self, open: Option<OpenEpoch>) -> Step {
        if self.is_over && self.is_current(open) && open.is_some_and(|open| open.by_stream) {
            return Step::CloseFirst;
        }
        if self.is_current(open) && self.publishers() >= MAX_PUBLISHERS {
            return Step::Full;
        }
        Step::Begin
    }

    /// The state after a session began in this epoch, which is open.
    pub fn begin(&self, heard: &Heard, epoch: Epoch, now: UnixMillis) -> Self {
        let mut session = Session::new(heard, Phase::Publishes);
        if let Some(known) = self.find(heard) {
            session.at = known.at.max(heard.at);
        }
        if heard.news == StreamNews::Alive {
            session.beats = 1;
        }
        let mut next = self.in_epoch(epoch, now);
        next.is_over = false;
        next.put(session);
        next.note_change_since(self, now);
        next
    }

    /// The state after the sessions of this epoch that have to say that they go on fell silent;
    /// `None` if there are none.
    pub fn silence(&self, epoch: Epoch, now: UnixMillis) -> Option<Self> {
        if self.epoch != epoch {
            return None;
        }
        let mut next = self.clone();
        let mut has_silent = false;
        for session in &mut next.sessions {
            if session.phase == Phase::Publishes && session.beats > 0 {
                session.phase = Phase::Silent;
                has_silent = true;
            }
        }
        if !has_silent {
            return None;
        }
        next.note_change_since(self, now);
        Some(next)
    }

    /// Decides whether the open epoch of a live has lost its stream. The caller asks when a grace
    /// has passed since it was lost.
    pub fn end(&self, open: Epoch, now: UnixMillis) -> End {
        // A gateway that opened the live and died before it wrote leaves another epoch here.
        let mut next = self.in_epoch(open, now);
        if next.publishers() > 0 {
            return End::OnAir;
        }
        if next.is_over {
            return End::Over;
        }
        next.is_over = true;
        next.note_change_since(self, now);
        End::Write(next)
    }

    /// The state of the stream in this epoch. `None` if no session published in it, or its stream is
    /// over.
    pub fn status(&self, epoch: Epoch) -> Option<StreamStatus> {
        if self.is_over || self.epoch != epoch || self.epoch == Epoch(0) {
            return None;
        }
        Some(StreamStatus {
            is_on: self.publishers() > 0,
            since: self.since,
            beats: self.beats(),
        })
    }

    /// What changed from `before` to this, in this epoch.
    pub fn change_since(&self, before: &Self, epoch: Epoch) -> Option<StreamChange> {
        let was_on = before.status(epoch).map(|status| status.is_on);
        let is_on = self.status(epoch).map(|status| status.is_on);
        match (was_on, is_on) {
            (None | Some(false), Some(true)) => Some(StreamChange::Started),
            (Some(true), Some(false)) => Some(StreamChange::Lost),
            (Some(_), None) => Some(StreamChange::Ended),
            _ => None,
        }
    }

    /// Whether sessions publish, or may come back to the live.
    pub fn is_awaited(&self) -> bool {
        self.epoch != Epoch(0) && !self.is_over
    }

    /// The epoch of the sessions that publish; 0 if none ever did.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The server of the session that changed last.
    pub fn last_server(&self) -> Option<&MediaServerName> {
        Some(&self.sessions.last()?.server)
    }

    fn is_current(&self, open: Option<OpenEpoch>) -> bool {
        open.is_some_and(|open| open.epoch == self.epoch)
    }

    fn find(&self, heard: &Heard) -> Option<&Session> {
        self.sessions.iter().find(|session| session.is_of(heard))
    }

    fn publishers(&self) -> usize {
        self.sessions
            .iter()
            .filter(|session| session.phase == Phase::Publishes)
            .count()
    }

    fn beats(&self) -> u64 {
        let mut beats = 0;
        for session in &self.sessions {
            if session.phase == Phase::Publishes {
                beats += session.beats;
            }
        }
        beats
    }

    /// The state as it begins in an epoch. The live of sessions of an earlier one is over, and they
    /// with it.
    fn in_epoch(&self, epoch: Epoch, now: UnixMillis) -> Self {
        let mut next = self.clone();
        if epoch == self.epoch {
            return next;
        }
        next.epoch = epoch;
        next.since = now;
        next.is_over = false;
        for session in &mut next.sessions {
            if session.phase == Phase::Publishes {
                session.phase = Phase::Ended;
            }
        }
        next
    }

    /// The state with this session in the place of what was known of it.
    fn with(&self, session: Session, now: UnixMillis) -> Step {
        let mut next = self.clone();
        next.put(session);
        next.note_change_since(self, now);
        Step::Write(next)
    }

    fn put(&mut self, session: Session) {
        self.sessions
            .retain(|known| known.server != session.server || known.id != session.id);
        self.sessions.push(session);
        while self.sessions.len() > MAX_SESSIONS {
            let oldest = self
                .sessions
                .iter()
                .position(|known| known.phase != Phase::Publishes);
            self.sessions.remove(oldest.unwrap_or(0));
        }
    }

    fn note_change_since(&mut self, before: &Self, now: UnixMillis) {
        if self.change_since(before, self.epoch).is_some() {
            self.since = now;
        }
    }
}
