//! Does for the sessions without a socket what the task of a socket does: serves the signals of
//! each, and ends those whose client is silent, was sent away, or has gone on elsewhere. One task of
//! the gateway runs it.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::events::Event;
use super::sessions::SocketlessSessions;
use super::{End, SocketlessSession};
use crate::base::clock::{Millis, millis};
use crate::presence::conn::Signals;
use crate::session::close_codes::Close;
use crate::session::messages::ServerMessage;
use crate::session::{drain, is_silent};

/// How long ends of sessions are gathered before the other gateways are told of them.
const GATHERED: Duration = Duration::from_millis(100);

/// Maximum ends in one message to the other gateways: with 25 bytes each, it has 25 kB.
const MAX_ENDS: usize = 1_000;

/// How many sessions are served before other tasks have a turn.
const IN_A_ROW: usize = 256;

impl SocketlessSessions {
    /// Runs until told to stop.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let clock = self.context.clock;
        let mut tell_at: Option<Millis> = None;
        loop {
            let tell = clock.sleep_until(tell_at.unwrap_or(Millis::MAX));
            let moved_at = self.next_moved();
            let moved = clock.sleep_until(moved_at.unwrap_or(Millis::MAX));
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.signalled.wait() => self.serve_signalled().await,
                () = self.ended.heard.wait() => self.end_heard(),
                () = self.ended.to_tell.wait(), if tell_at.is_none() => {
                    tell_at = Some(clock.now() + millis(GATHERED));
                }
                () = tell, if tell_at.is_some() => {
                    tell_at = None;
                    for keys in self.ended.to_tell.take().chunks(MAX_ENDS) {
                        self.outbox.sessions_ended(keys);
                    }
                }
                () = moved, if moved_at.is_some() => self.end_moved(),
            }
        }
    }

    async fn serve_signalled(&self) {
        for sessions in self.signalled.take().chunks(IN_A_ROW) {
            for session in sessions {
                // Nobody reads the events: there is no stream.
                let _ = self.serve(session);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Ends the sessions that have ended on other gateways.
    fn end_heard(&self) {
        for key in self.ended.heard.take() {
            if let Some(session) = self.find(&key) {
                self.finish_here(&session, End::Left);
            }
        }
    }

    /// When the next session gives up its seat that was told to go on elsewhere.
    fn next_moved(&self) -> Option<Millis> {
        let moving = self.moving.lock();
        let (until, _) = moving.front()?;
        Some(*until)
    }

    fn end_moved(&self) {
        let now = self.context.clock.now();
        loop {
            let due = self.moving.lock().pop_front_if(|(until, _)| *until <= now);
            let Some((_, session)) = due else {
                return;
            };
            self.finish(&session, End::Moved);
        }
    }

    /// Serves the signals of a session. Returns what a stream of events is to send.
    pub(super) fn serve(&self, session: &Arc<SocketlessSession>) -> Vec<Event> {
        if !session.is_open() {
            return Vec::new();
        }
        let signals = session.take_signals();
        if let Some(why) = self.end_of(session, signals) {
            self.finish(session, End::Closed(why));
            return Vec::new();
        }
        let mut events = Vec::new();
        if signals.has(Signals::ENDED) {
            events.extend(self.take_closed(session));
        }
        if signals.has(Signals::COUNTS.and(Signals::FRIENDS)) && session.has_stream() {
            events.extend(session.news());
        }
        if signals.has(Signals::MOVE) {
            let after_ms = rand::random_range(0..=drain::RECONNECT_WITHIN);
            let message = ServerMessage::Reconnect { after_ms };
            events.push(Event::new("reconnect", message.text(None)));
            let until = self.hold_until();
            self.moving.lock().push_back((until, session.clone()));
            session.note_told_to_move();
        }
        events
    }

    /// Why a session must end, if it must.
    fn end_of(&self, session: &SocketlessSession, signals: Signals) -> Option<Close> {
        let conn = &session.conn;
        if signals.has(Signals::STOP) {
            return Some(Close::GoingAway);
        }
        if signals.has(Signals::REMOVED) {
            return Some(Close::Removed);
        }
        if signals.has(Signals::CROWDED_OUT) {
            return Some(Close::TooManySockets);
        }
        if signals.has(Signals::EXPIRED) && conn.expires_at() <= self.context.clock.now() {
            return Some(Close::Expired);
        }
        if signals.has(Signals::JUDGE) && is_silent(&self.context, conn) {
            return Some(Close::HeartbeatTimeout);
        }
        None
    }

    /// Gives up the lives that have ended. A session that is in none any more ends.
    fn take_closed(&self, session: &Arc<SocketlessSession>) -> Vec<Event> {
        let mut events = Vec::new();
        let is_over = {
            let mut memberships = session.memberships.lock();
            let Some(memberships) = memberships.as_mut() else {
                return events;
            };
            for record in memberships.take_closed() {
                let message = ServerMessage::closed(&record);
                events.push(Event::new("closed", message.text(None)));
            }
            memberships.is_in_no_live()
        };
        if is_over {
            self.finish(session, End::LiveClosed);
        }
        events
    }
}
