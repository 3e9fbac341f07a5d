//! What media servers have said of the streams of one live: which sessions publish, and when the
//! live has no stream left. Pure: messages and the time come in, the next state or a request to the
//! caller comes out.
//!
//! A message is about a *session* of a server, never just about a stream: the end of a session ends
//! nothing that another session began. Messages may be lost, doubled, late and in any order. So the
//! state remembers the sessions that ended, too, also those whose beginning it never heard of.
//!
//! A session that has said `Alive` once has to go on saying it, as has one of a server that is asked
//! or that is known to send heartbeats. A session that fell silent may only be cut off, so it goes on
//! if it is heard of again before its live closes. The silence of all others means nothing. What the
//! end of the next session of the stream shows about them, [`Streams::hear`] concludes.

use crate::store::LiveRecord;
use crate::store::LiveState;
use crate::store::OpenedBy;
use crate::store::StreamChange;
use crate::store::StreamStatus;
use serde::{Deserialize, Serialize};

use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, StreamId};
use crate::base::media_event::{EndKnownBy, StreamNews, StreamSession};
use crate::base::media_server::{MediaServerName, SecondPublisher};

/// Sessions that may publish to one live at the same time. The next one silences the one that was
/// heard of longest ago: its server was killed or refused it, or so many would not be there.
pub const MAX_PUBLISHERS: usize = 16;

/// Sessions that are remembered. Beyond it, the oldest that ended is forgotten.
const MAX_SESSIONS: usize = 64;

/// A session that lasts this long, in ms, was let in by its server.
pub const LET_IN_AFTER: u64 = 10_000;

/// One message of a server about a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Which server said it.
    pub server: MediaServerName,
    /// Which one of several with this name; empty if they are not told apart.
    pub instance: String,
    /// About which session.
    pub session: StreamSession,
    /// What happened.
    pub news: StreamNews,
    /// When, by the clock of the server, in Unix milliseconds.
    pub at: Option<u64>,
    /// The publisher's address, if it is known.
    pub address: Option<String>,
    /// How it is known that a session of the server is over, from its beginning.
    pub end_known_by: EndKnownBy,
    /// What becomes of a second publisher at the server.
    pub second_publisher: SecondPublisher,
}

impl Heard {
    /// A message of a server of which no more is known.
    pub fn new(server: MediaServerName, session: StreamSession, news: StreamNews) -> Self {
        Self {
            server,
            instance: String::new(),
            session,
            news,
            at: None,
            address: None,
            end_known_by: EndKnownBy::NextSession,
            second_publisher: SecondPublisher::EndsAloud,
        }
    }
}

/// The open epoch of a live, as its record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenEpoch {
    /// Which epoch.
    pub epoch: Epoch,
    /// Whether a stream opened it, so that the end of the stream closes it.
    pub by_stream: bool,
}

impl OpenEpoch {
    /// The open epoch of a live; `None` if its record says that it is not open.
    pub fn of(record: &LiveRecord) -> Option<Self> {
        if record.state != LiveState::Open {
            return None;
        }
        Some(Self {
            epoch: record.epoch,
            by_stream: record.opened_by == OpenedBy::Media,
        })
    }
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
}

/// Whether a live has lost its streams for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamsEnd {
    /// A session publishes.
    OnAir,
    /// Write this state, which says that the stream is over. Then close a live that a stream opened.
    Write(Streams),
    /// The state says already that the stream is over: close a live that a stream opened.
    Over,
}

/// A session that holds a live, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldingSession {
    /// Names it in the API.
    pub stream: StreamId,
    /// Its server.
    pub server: MediaServerName,
    /// Which one of several with this name, if they are told apart.
    pub instance: Option<String>,
    /// As the server names it.
    pub id: String,
    /// The publisher's address.
    pub address: Option<String>,
    /// When a gateway heard of it first, by that gateway's clock.
    pub began: UnixMillis,
    /// When a gateway heard of it last, by that gateway's clock.
    pub heard: UnixMillis,
    /// How its end is known.
    pub end_known_by: EndKnownBy,
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
    /// How many signs sessions have given that they go on.
    #[serde(default)]
    beats: u64,
    /// The one that changed last is the last.
    sessions: Vec<PublishingSession>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct PublishingSession {
    server: MediaServerName,
    #[serde(default)]
    instance: String,
    id: String,
    /// Whether the server never gives the id to another session.
    is_unique: bool,
    phase: Phase,
    #[serde(default)]
    end_known_by: EndKnownBy,
    /// The number of its last sign that it goes on, among those of all sessions; 0 if it has to give
    /// none.
    #[serde(default)]
    beat: u64,
    /// The latest time of the server in a message about it.
    at: Option<u64>,
    /// When a gateway heard of it first and last, by the gateway's clock.
    #[serde(default)]
    began: UnixMillis,
    #[serde(default)]
    heard: UnixMillis,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    Publishes,
    /// It stopped saying that it goes on, or its server names it no longer. It may only be cut off.
    Silent,
    Ended,
}

impl PublishingSession {
    fn new(heard: &Heard, phase: Phase, now: UnixMillis) -> Self {
        Self {
            server: heard.server.clone(),
            instance: heard.instance.clone(),
            id: heard.session.as_str().to_owned(),
            is_unique: heard.session.is_unique(),
            phase,
            end_known_by: heard.end_known_by,
            beat: 0,
            at: heard.at,
            began: now,
            heard: now,
            address: heard.address.clone(),
        }
    }

    fn is_of(&self, heard: &Heard) -> bool {
        self.is_at(heard)
            && (heard.session == StreamSession::Any || self.id == heard.session.as_str())
    }

    /// Whether it is a session of the server that says something.
    fn is_at(&self, heard: &Heard) -> bool {
        self.server == heard.server && self.instance == heard.instance
    }

    fn stream_id(&self) -> StreamId {
        StreamId::of(self.server.as_str(), &self.instance, &self.id)
    }

    fn publishes(&self) -> bool {
        self.phase == Phase::Publishes
    }

    fn must_beat(&self) -> bool {
        self.publishes() && self.end_known_by != EndKnownBy::NextSession
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
            // Somebody closed the live of the session, which begins no other one.
            StreamNews::Unnamed if !self.is_current(open) => Step::Nothing,
            StreamNews::Unnamed => {
                self.leave(Phase::Silent, PublishingSession::publishes, heard, now)
            }
            StreamNews::Done | StreamNews::Left => self.hear_end(heard, now),
            StreamNews::AllDone => {
                let is_on = |session: &PublishingSession| session.phase != Phase::Ended;
                self.leave(Phase::Ended, is_on, heard, now)
            }
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
                PublishingSession {
                    at: heard.at,
                    heard: now,
                    ..known.clone()
                },
                now,
            ),
            Phase::Publishes if is_current => Step::Nothing,
            // Somebody closed the live of the session, or it ended, and the message is a double.
            Phase::Publishes | Phase::Ended
                if known.is_unique || known.at.is_some() && known.at == heard.at =>
            {
                Step::Nothing
            }
            Phase::Publishes | Phase::Silent | Phase::Ended => self.may_begin(open),
        }
    }

    fn hear_alive(&self, heard: &Heard, open: Option<OpenEpoch>, now: UnixMillis) -> Step {
        let Some(known) = self.find(heard) else {
            return self.may_begin(open);
        };
        match known.phase {
            // It was let in when it began, and only cut off since.
            Phase::Publishes | Phase::Silent if self.is_current(open) && !self.is_over => {
                Step::Write(self.beat(heard, known, now))
            }
            Phase::Silent => self.may_begin(open),
            // The live of the session was closed, or the session ended and the message is late.
            Phase::Publishes | Phase::Ended => Step::Nothing,
        }
    }

    /// The state after a session said that it goes on. All that publish do, if the server names no
    /// sessions. If it sends heartbeats, the other sessions of the server have to send some, too.
    fn beat(&self, heard: &Heard, known: &PublishingSession, now: UnixMillis) -> Self {
        let mut next = self.clone();
        next.put(PublishingSession {
            phase: Phase::Publishes,
            at: known.at.max(heard.at),
            heard: now,
            ..known.clone()
        });
        let by = match heard.end_known_by {
            EndKnownBy::Asking => EndKnownBy::Asking,
            _ => EndKnownBy::Heartbeats,
        };
        for session in &mut next.sessions {
            if !session.publishes() || !session.is_at(heard) {
                continue;
            }
            if session.is_of(heard) || session.end_known_by == EndKnownBy::NextSession {
                session.end_known_by = by;
                next.beats += 1;
                session.beat = next.beats;
            }
        }
        next.silence_beyond_most();
        next.changed_since(self, now)
    }

    /// What a message does that is about all the sessions that it may mean and that `are` so.
    fn leave(
        &self,
        phase: Phase,
        are: impl Fn(&PublishingSession) -> bool,
        heard: &Heard,
        now: UnixMillis,
    ) -> Step {
        let is_about_all = heard.news == StreamNews::AllDone;
        let mut next = self.clone();
        for session in &self.sessions {
            let is_meant = session.is_of(heard) || is_about_all && session.is_at(heard);
            if is_meant && are(session) && !session.has_heard_later(heard) {
                let session = session.clone();
                next.put(PublishingSession { phase, ..session });
            }
        }
        if next == *self {
            return Step::Nothing;
        }
        Step::Write(next.changed_since(self, now))
    }

    fn hear_end(&self, heard: &Heard, now: UnixMillis) -> Step {
        let Some(known) = self.find(heard) else {
            // Of an id that comes again, an end without a time says nothing about a later beginning.
            // A connection that left may have been one of many players.
            let is_remembered = heard.session.is_unique() || heard.at.is_some();
            if heard.news == StreamNews::Left || !is_remembered {
                return Step::Nothing;
            }
            return self.with(PublishingSession::new(heard, Phase::Ended, now), now);
        };
        // A later end of a session that ended keeps an earlier beginning from being heard.
        let is_old = known.phase == Phase::Ended && !known.is_older_than(heard);
        if is_old || known.has_heard_later(heard) {
            return Step::Nothing;
        }
        let ended = PublishingSession {
            phase: Phase::Ended,
            at: known.at.max(heard.at),
            heard: now,
            ..known.clone()
        };
        let mut next = self.clone();
        next.put(ended);
        if heard.news == StreamNews::Done && known.phase != Phase::Ended {
            next.conclude(known, heard.second_publisher, now);
        }
        Step::Write(next.changed_since(self, now))
    }

    /// Ends the sessions that were over before, as the end of another one shows. A server that has
    /// one publisher a stream had lost those that began earlier, if it let in the one that ended. It
    /// refused those that began while that one published.
    ///
    /// A session that has just begun may have begun after the end.
    fn conclude(&mut self, ended: &PublishingSession, second: SecondPublisher, now: UnixMillis) {
        let was_let_in = |session: &PublishingSession| session.began + LET_IN_AFTER <= now;
        for session in &mut self.sessions {
            let is_beside = session.server == ended.server && session.instance == ended.instance;
            if !is_beside || session.end_known_by != EndKnownBy::NextSession {
                continue;
            }
            let is_over = match second {
                SecondPublisher::Joins => false,
                _ if session.began < ended.began => was_let_in(ended),
                SecondPublisher::EndsAloud => false,
                SecondPublisher::EndsSilently => session.began > ended.began && was_let_in(session),
            };
            if is_over {
                session.phase = Phase::Ended;
            }
        }
    }

    fn may_begin(&self, open: Option<OpenEpoch>) -> Step {
        if self.is_over && self.is_current(open) && open.is_some_and(|open| open.by_stream) {
            return Step::CloseFirst;
        }
        Step::Begin
    }

    /// The state after a session began in this epoch, which is open.
    pub fn begin(&self, heard: &Heard, epoch: Epoch, now: UnixMillis) -> Self {
        let mut session = PublishingSession::new(heard, Phase::Publishes, now);
        if let Some(known) = self.find(heard) {
            session.at = known.at.max(heard.at);
        }
        let mut next = self.in_epoch(epoch, now);
        next.is_over = false;
        if heard.news == StreamNews::Alive {
            return next.beat(heard, &session, now).changed_since(self, now);
        }
        if session.end_known_by != EndKnownBy::NextSession {
            next.beats += 1;
            session.beat = next.beats;
        }
        next.put(session);
        next.silence_beyond_most();
        next.changed_since(self, now)
    }

    /// The state after those sessions of this epoch fell silent that have to say that they go on,
    /// and whose last sign was this one or an earlier one; `None` if there are none.
    pub fn silence(&self, epoch: Epoch, last: u64, now: UnixMillis) -> Option<Self> {
        if self.epoch != epoch {
            return None;
        }
        let mut next = self.clone();
        for session in &mut next.sessions {
            if session.must_beat() && session.beat <= last {
                session.phase = Phase::Silent;
            }
        }
        (next != *self).then(|| next.changed_since(self, now))
    }

    /// Decides whether the open epoch of a live has lost its stream. The caller asks when a grace
    /// has passed since it was lost.
    pub fn end(&self, open: Epoch, now: UnixMillis) -> StreamsEnd {
        // A gateway that opened the live and died before it wrote leaves another epoch here.
        let mut next = self.in_epoch(open, now);
        if next.publishers() > 0 {
            return StreamsEnd::OnAir;
        }
        if next.is_over {
            return StreamsEnd::Over;
        }
        next.is_over = true;
        next.note_change_since(self, now);
        StreamsEnd::Write(next)
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
            beats: self.oldest_sign(),
        })
    }

    /// How many signs sessions have given that they go on.
    pub fn signs(&self) -> u64 {
        self.beats
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

    /// The sessions that publish in this epoch.
    pub fn holding(&self, epoch: Epoch) -> Vec<HoldingSession> {
        let mut holding = Vec::new();
        for session in &self.sessions {
            if self.epoch == epoch && session.publishes() {
                holding.push(HoldingSession {
                    stream: session.stream_id(),
                    server: session.server.clone(),
                    instance: Some(session.instance.clone()).filter(|name| !name.is_empty()),
                    id: session.id.clone(),
                    address: session.address.clone(),
                    began: session.began,
                    heard: session.heard,
                    end_known_by: session.end_known_by,
                });
            }
        }
        holding
    }

    /// The state after somebody ended this session.
    pub fn dismiss(&self, stream: &StreamId, now: UnixMillis) -> Self {
        let mut next = self.clone();
        for session in &self.sessions {
            if session.publishes() && session.stream_id() == *stream {
                let session = session.clone();
                next.put(PublishingSession {
                    phase: Phase::Ended,
                    ..session
                });
            }
        }
        next.changed_since(self, now)
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

    fn find(&self, heard: &Heard) -> Option<&PublishingSession> {
        let mut known = self
            .sessions
            .iter()
            .rev()
            .filter(|known| known.is_of(heard));
        if heard.session != StreamSession::Any {
            return known.next();
        }
        let is_in = |phase| known.clone().find(|known| known.phase == phase);
        is_in(Phase::Publishes).or_else(|| is_in(Phase::Silent))
    }

    fn publishers(&self) -> usize {
        self.sessions
            .iter()
            .filter(|known| known.publishes())
            .count()
    }

    /// Of the last signs of the sessions that have to give some, the first one; 0 without any.
    fn oldest_sign(&self) -> u64 {
        let beating = self.sessions.iter().filter(|known| known.must_beat());
        beating.map(|known| known.beat).min().unwrap_or_default()
    }

    /// The state as it begins in an epoch. The live of sessions of an earlier one is over, and they
    /// with it. Those that were silent are forgotten: they may begin again, as sessions that nobody
    /// has let in.
    fn in_epoch(&self, epoch: Epoch, now: UnixMillis) -> Self {
        let mut next = self.clone();
        if epoch == self.epoch {
            return next;
        }
        next.epoch = epoch;
        next.since = now;
        next.is_over = false;
        next.sessions
            .retain(|session| session.phase != Phase::Silent);
        for session in &mut next.sessions {
            session.phase = Phase::Ended;
        }
        next
    }

    /// The state with this session in the place of what was known of it.
    fn with(&self, session: PublishingSession, now: UnixMillis) -> Step {
        let mut next = self.clone();
        next.put(session);
        Step::Write(next.changed_since(self, now))
    }

    fn put(&mut self, session: PublishingSession) {
        self.sessions.retain(|known| {
            known.server != session.server
                || known.instance != session.instance
                || known.id != session.id
        });
        self.sessions.push(session);
        while self.sessions.len() > MAX_SESSIONS {
            let phases = [Phase::Ended, Phase::Silent];
            let position = |phase| self.sessions.iter().position(|known| known.phase == phase);
            let oldest = phases.into_iter().find_map(position);
            self.sessions.remove(oldest.unwrap_or(0));
        }
    }

    /// Silences the sessions beyond the number that may publish, those first that were heard of
    /// longest ago.
    fn silence_beyond_most(&mut self) {
        let mut beyond = self.publishers().saturating_sub(MAX_PUBLISHERS);
        for session in &mut self.sessions {
            if beyond > 0 && session.publishes() {
                session.phase = Phase::Silent;
                beyond -= 1;
            }
        }
    }

    fn changed_since(mut self, before: &Self, now: UnixMillis) -> Self {
        self.note_change_since(before, now);
        self
    }

    fn note_change_since(&mut self, before: &Self, now: UnixMillis) {
        if self.change_since(before, self.epoch).is_some() {
            self.since = now;
        }
    }
}
