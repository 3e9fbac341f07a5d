//! A stream of events, as `text/event-stream` has it: what a socket would be pushed, for a client
//! without one. While it is open, it serves the signals of its session instead of the attendant.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::sessions::SocketlessSessions;
use super::{End, SocketlessSession, Way};
use crate::auth::claims::Claims;
use crate::base::clock::{Millis, millis};
use crate::session::memberships::Memberships;
use crate::session::messages::{InfoTold, ServerMessage};

/// How long a client waits before it opens a stream anew, in ms; the rest is chosen at random, so
/// that the clients of a gateway that stopped do not come at the same time.
const RETRY_FROM: u64 = 500;
const RETRY_TO: u64 = 2_500;

/// A time that does not come.
const NEVER: Millis = Millis::MAX;

/// One event for a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    name: &'static str,
    /// A message as on a socket.
    data: Utf8Bytes,
}

impl Event {
    pub(super) fn new(name: &'static str, data: Utf8Bytes) -> Self {
        Self { name, data }
    }

    /// The event as the stream has it.
    fn text(&self, id: u64) -> String {
        let Self { name, data } = self;
        format!("id: {id}\nevent: {name}\ndata: {data}\n\n")
    }
}

/// Whether an open stream keeps its session alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamBeats {
    Yes,
    /// The client sends beats by itself.
    No,
}

/// An open stream of a session. A session has one; a later one takes its place.
pub(crate) struct EventStream {
    sessions: Arc<SocketlessSessions>,
    session: Arc<SocketlessSession>,
    wakes: Arc<Notify>,
    beats: StreamBeats,
    /// A dashboard's session ends with its stream.
    watches: bool,
    /// When the token of a dashboard expires.
    expires_at: Millis,
    waiting: VecDeque<Event>,
    last_id: u64,
    begun: bool,
    beat_at: Millis,
}

impl EventStream {
    /// The stream of a viewer's session.
    pub(crate) fn of_viewer(
        sessions: Arc<SocketlessSessions>,
        session: Arc<SocketlessSession>,
        beats: StreamBeats,
    ) -> Self {
        let stream = Self::open(sessions, session, beats, false);
        stream.session.begin_pushes();
        stream
    }

    /// The stream of a dashboard.
    pub(crate) fn of_dashboard(
        sessions: Arc<SocketlessSessions>,
        session: Arc<SocketlessSession>,
        claims: Option<&Claims>,
    ) -> Self {
        let expires_at = match claims {
            Some(claims) => sessions.context.end_of(claims),
            None => NEVER,
        };
        let mut stream = Self::open(sessions, session, StreamBeats::Yes, true);
        stream.expires_at = expires_at;
        stream
    }

    fn open(
        sessions: Arc<SocketlessSessions>,
        session: Arc<SocketlessSession>,
        beats: StreamBeats,
        watches: bool,
    ) -> Self {
        let wakes = Arc::new(Notify::new());
        if let Some(former) = session.stream.swap(Some(wakes.clone())) {
            // It finds that it is not the session's stream any more, and ends.
            former.notify_one();
        }
        // Signals may have been set before: look at once.
        wakes.notify_one();
        sessions.context.metrics.event_streams.inc();
        Self {
            beat_at: sessions.context.clock.now(),
            sessions,
            session,
            wakes,
            beats,
            watches,
            expires_at: NEVER,
            waiting: VecDeque::new(),
            last_id: 0,
            begun: false,
        }
    }

    /// The next part of the stream; `None` when it has ended.
    pub(crate) async fn next(&mut self) -> Option<String> {
        if !self.begun {
            self.begun = true;
            self.waiting.extend(self.session.first_news());
            let retry = rand::random_range(RETRY_FROM..=RETRY_TO);
            return Some(format!("retry: {retry}\n\n"));
        }
        loop {
            if let Some(event) = self.waiting.pop_front() {
                self.last_id += 1;
                return Some(event.text(self.last_id));
            }
            if !self.session.is_open() || !self.is_current() || self.session.was_told_to_move() {
                return None;
            }
            let clock = self.sessions.context.clock;
            tokio::select! {
                () = self.wakes.notified() => {
                    let events = self.sessions.serve(&self.session);
                    self.waiting.extend(events);
                }
                () = clock.sleep_until(self.beat_at) => {
                    if clock.now() >= self.expires_at {
                        return None;
                    }
                    self.beat();
                    // A comment. It finds out whether the client is still there.
                    return Some(":\n\n".to_owned());
                }
            }
        }
    }

    fn beat(&mut self) {
        let context = &self.sessions.context;
        self.beat_at = context.clock.now() + millis(context.heartbeat) / 2;
        if self.beats == StreamBeats::Yes {
            self.sessions.beat(&self.session, Way::Stream);
        }
    }

    /// Whether no later stream has taken this one's place.
    fn is_current(&self) -> bool {
        match &*self.session.stream.load() {
            Some(stream) => Arc::ptr_eq(stream, &self.wakes),
            None => false,
        }
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.sessions.context.metrics.event_streams.dec();
        if self.watches {
            self.session.end(End::Left);
            return;
        }
        let was_current = self.is_current();
        let mine = Some(self.wakes.clone());
        self.session.stream.compare_and_swap(&mine, None);
        if !was_current {
            return;
        }
        if let Some(memberships) = self.session.memberships.lock().as_mut() {
            memberships.end_counts();
            memberships.end_friends();
        }
        // The attendant serves what this stream has not.
        self.sessions.signalled.push(self.session.clone());
    }
}

impl SocketlessSession {
    /// Has the counts, and the friends if the client asked for them, pushed to the stream.
    pub(super) fn begin_pushes(&self) {
        if let Some(memberships) = self.memberships.lock().as_mut() {
            memberships.begin_counts();
            if self.asks_friends() {
                memberships.begin_friends();
            }
        }
    }

    /// What a stream sends at first.
    fn first_news(&self) -> Vec<Event> {
        let mut memberships = self.memberships.lock();
        let Some(memberships) = memberships.as_mut() else {
            return Vec::new();
        };
        let mut events = Vec::new();
        events.extend(info(memberships));
        for text in memberships.counts_now() {
            events.push(Event::new("counts", text));
        }
        if let Some(text) = memberships.new_friends() {
            events.push(Event::new("friends", text));
        }
        events
    }

    /// What changed since the client was told.
    pub(super) fn news(&self) -> Vec<Event> {
        let mut memberships = self.memberships.lock();
        let Some(memberships) = memberships.as_mut() else {
            return Vec::new();
        };
        let mut events = Vec::new();
        events.extend(info(memberships));
        for text in memberships.new_counts() {
            events.push(Event::new("counts", text));
        }
        if let Some(text) = memberships.new_friends() {
            events.push(Event::new("friends", text));
        }
        events
    }
}

/// What the back end wrote about the live of a viewer, if the client does not have it.
fn info(memberships: &mut Memberships) -> Option<Event> {
    let room = memberships.seat()?.room.clone();
    let info = memberships.info_to_tell(&room)?;
    let message = ServerMessage::Info {
        live_id: &room.record.live,
        told: InfoTold::of(&info),
    };
    Some(Event::new("info", message.text(None)))
}
