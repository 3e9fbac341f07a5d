//! A stream of events, as `text/event-stream` has it: what a socket would be pushed, for a client
//! without one. While it is open, it serves the signals that bring its client news.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::json;
use tokio::sync::Notify;
use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::attendant::NEWS;
use super::sessions::SocketlessSessions;
use super::{SessionEnd, SocketlessSession, Way};
use crate::auth::api_keys::{ApiKey, ApiKeys};
use crate::auth::claims::TokenClaims;
use crate::base::clock::{Moment, millis};
use crate::presence::conn::Signals;
use crate::session::context::SessionContext;
use crate::session::drain;
use crate::session::memberships::Memberships;
use crate::session::messages::{InfoTold, ServerMessage};

/// How long a client waits before it opens a stream anew, in ms; the rest is chosen at random, so
/// that the clients of a gateway that stopped do not come at the same time.
const RETRY_FROM: u64 = 500;
const RETRY_TO: u64 = 2_500;

/// One event for a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerSentEvent {
    name: &'static str,
    /// A message as on a socket.
    data: Utf8Bytes,
}

impl ServerSentEvent {
    fn new(name: &'static str, data: Utf8Bytes) -> Self {
        Self { name, data }
    }

    /// The event as the stream has it. A message has more than one line if a back end wrote the
    /// information about its live so.
    fn text(&self, id: u64) -> String {
        let mut text = format!("id: {id}\nevent: {}\n", self.name);
        for line in self.data.split(['\r', '\n']) {
            text.push_str("data: ");
            text.push_str(line);
            text.push('\n');
        }
        text.push('\n');
        text
    }
}

/// Whether an open stream keeps its session alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamBeats {
    Yes,
    /// The client sends beats by itself.
    No,
}

/// What lets a client have a stream.
pub(crate) enum Credential {
    /// The session that the stream belongs to, or `--auth off`.
    None,
    /// A token, until it expires or is revoked.
    Token(Arc<SessionContext>, Arc<TokenClaims>, Moment),
    /// An API key, as long as it is in force.
    Key(Arc<ApiKeys>, ApiKey),
}

impl Credential {
    /// Why the stream must end.
    fn refusal(&self, session: &SocketlessSession, now: Moment) -> Option<&'static str> {
        match self {
            Self::Token(_, _, end) if now >= *end => Some("the token has expired"),
            Self::Token(context, claims, _) if context.is_revoked(claims) => {
                Some("the token was revoked")
            }
            Self::Token(_, claims, _) if !session.may_be_watched_by(claims) => {
                Some("the user does not host the live any more")
            }
            Self::Key(keys, key) if !keys.has(key) => Some("the API key is not in force any more"),
            _ => None,
        }
    }
}

/// An open stream of a session. A session has one; a later one takes its place.
pub(crate) struct EventStream {
    sessions: Arc<SocketlessSessions>,
    session: Arc<SocketlessSession>,
    wakes: Arc<Notify>,
    beats: StreamBeats,
    /// A dashboard's session ends with its stream.
    watches: bool,
    credential: Credential,
    waiting: VecDeque<ServerSentEvent>,
    last_id: u64,
    begun: bool,
    /// Whether the stream ends after the events that wait.
    ends: bool,
    beat_at: Moment,
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
        credential: Credential,
    ) -> Self {
        let mut stream = Self::open(sessions, session, StreamBeats::Yes, true);
        stream.credential = credential;
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
        // Signals may have been set before, and the client gets the counts of now: look at once.
        session.greets.store(true, Ordering::Release);
        wakes.notify_one();
        sessions.context.core.metrics.event_streams.inc();
        Self {
            beat_at: sessions.context.core.clock.now(),
            sessions,
            session,
            wakes,
            beats,
            watches,
            credential: Credential::None,
            waiting: VecDeque::new(),
            last_id: 0,
            begun: false,
            ends: false,
        }
    }

    /// The next part of the stream; `None` when it has ended.
    pub(crate) async fn next(&mut self) -> Option<String> {
        if !self.begun {
            self.begun = true;
            let retry = rand::random_range(RETRY_FROM..=RETRY_TO);
            return Some(format!("retry: {retry}\n\n"));
        }
        loop {
            if let Some(event) = self.waiting.pop_front() {
                self.last_id += 1;
                return Some(event.text(self.last_id));
            }
            if self.ends || !self.session.is_open() || !self.is_current() {
                return None;
            }
            if self.session.was_told_to_move() {
                self.ends = true;
                self.waiting.push_back(reconnect());
                continue;
            }
            let clock = self.sessions.context.core.clock;
            tokio::select! {
                () = self.wakes.notified() => {
                    if self.was_refused() {
                        continue;
                    }
                    let events = self.sessions.news(&self.session);
                    self.waiting.extend(events);
                }
                () = clock.sleep_until(self.beat_at) => {
                    if self.was_refused() {
                        continue;
                    }
                    self.beat();
                    // A comment. It finds out whether the client is still there.
                    return Some(":\n\n".to_owned());
                }
            }
        }
    }

    /// Whether the client may not have the stream any more. Then the stream says why, and ends.
    fn was_refused(&mut self) -> bool {
        let now = self.sessions.context.core.clock.now();
        let Some(why) = self.credential.refusal(&self.session, now) else {
            return false;
        };
        self.ends = true;
        self.waiting.push_back(unauthorized(why));
        true
    }

    fn beat(&mut self) {
        let context = &self.sessions.context;
        self.beat_at = context.core.clock.now() + millis(context.core.config.heartbeat) / 2;
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
        self.sessions.context.core.metrics.event_streams.dec();
        if self.watches {
            self.session.end(SessionEnd::Left);
            return;
        }
        let mine = Some(self.wakes.clone());
        self.session.stream.compare_and_swap(&mine, None);
        self.session.end_pushes();
        // The attendant serves what this stream has not.
        self.sessions.signalled.push(self.session.clone());
    }
}

impl SocketlessSession {
    /// Has the counts, and the friends if the client asked for them, pushed to the stream.
    pub(super) fn begin_pushes(&self) {
        if let Some(memberships) = self.memberships.lock().as_mut()
            && self.has_stream()
        {
            memberships.begin_counts();
            if self.asks_friends() {
                memberships.begin_friends();
            }
        }
        self.greets.store(true, Ordering::Release);
        self.wake_stream();
    }

    /// Whether the bearer of a token may watch what the dashboard of this session watches.
    fn may_be_watched_by(&self, claims: &TokenClaims) -> bool {
        match self.memberships.lock().as_ref() {
            Some(memberships) => memberships.may_all_be_watched_by(claims.role),
            None => true,
        }
    }

    /// Ends these pushes, unless a later stream gets them.
    fn end_pushes(&self) {
        if let Some(memberships) = self.memberships.lock().as_mut()
            && !self.has_stream()
        {
            memberships.end_counts();
            memberships.end_friends();
        }
    }

    /// What changed since the client was told; at first, what is true now.
    fn changes(&self) -> Vec<ServerSentEvent> {
        let mut memberships = self.memberships.lock();
        let Some(memberships) = memberships.as_mut() else {
            return Vec::new();
        };
        memberships.judge_streaming();
        let mut events = Vec::new();
        events.extend(info(memberships));
        let counts = if self.greets.swap(false, Ordering::AcqRel) {
            memberships.counts_now()
        } else {
            memberships.new_counts()
        };
        for text in counts {
            events.push(ServerSentEvent::new("counts", text));
        }
        if let Some(text) = memberships.new_you() {
            events.push(ServerSentEvent::new("you", text));
        }
        if let Some(text) = memberships.new_friends() {
            events.push(ServerSentEvent::new("friends", text));
        }
        events
    }
}

impl SocketlessSessions {
    /// Serves the signals that bring the client of a stream news; returns the news.
    fn news(&self, session: &Arc<SocketlessSession>) -> Vec<ServerSentEvent> {
        let signals = session.take_signals(NEWS);
        if signals.has(Signals::ENDED) {
            return self.take_closed(session);
        }
        session.changes()
    }

    /// Gives up the lives that have ended. A session that is in none any more ends.
    pub(super) fn take_closed(&self, session: &Arc<SocketlessSession>) -> Vec<ServerSentEvent> {
        let mut events = Vec::new();
        let is_over = {
            let mut memberships = session.memberships.lock();
            let Some(memberships) = memberships.as_mut() else {
                return events;
            };
            for record in memberships.take_closed() {
                let message = ServerMessage::closed(&record);
                events.push(ServerSentEvent::new("closed", message.text(None)));
            }
            memberships.is_in_no_live()
        };
        if is_over {
            self.finish(session, SessionEnd::LiveClosed);
        }
        events
    }
}

/// Tells a client to open another stream elsewhere.
fn reconnect() -> ServerSentEvent {
    let after_ms = rand::random_range(0..=drain::RECONNECT_WITHIN);
    let message = ServerMessage::Reconnect { after_ms };
    ServerSentEvent::new("reconnect", message.text(None))
}

/// Tells a client why its stream ends.
fn unauthorized(why: &str) -> ServerSentEvent {
    let message = json!({"type": "unauthorized", "message": why});
    ServerSentEvent::new("unauthorized", message.to_string().into())
}

/// What the back end wrote about the live of a viewer, if the client does not have it.
fn info(memberships: &mut Memberships) -> Option<ServerSentEvent> {
    let room = memberships.seat()?.room.clone();
    let info = memberships.info_to_tell(&room)?;
    let message = ServerMessage::Info {
        live_id: &room.record.live,
        told: InfoTold::of(&info),
    };
    Some(ServerSentEvent::new("info", message.text(None)))
}
