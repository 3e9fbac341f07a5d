//! Does for the sessions without a socket what the task of a socket does: serves the signals of
//! each, and ends those whose client is silent, was sent away, or has gone on elsewhere. One task of
//! the gateway runs it. An open stream of events serves the signals that bring its client news; it
//! may wait for a client that does not read, so it serves no others.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::sessions::SocketlessSessions;
use super::{SessionEnd, SocketlessSession};
use crate::base::clock::Moment;
use crate::base::session_key::SessionKey;
use crate::presence::conn::Signals;
use crate::session::close_codes::Close;
use crate::session::is_silent;
use crate::store::MAX_BATCH;

/// How long to wait after the store could not say which sessions are over.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// How many sessions are served before other tasks have a turn.
const IN_A_ROW: usize = 256;

/// The signals that end or move a session. Without a socket there is nothing to ping.
const URGENT: Signals = Signals::STOP
    .and(Signals::REMOVED)
    .and(Signals::CROWDED_OUT)
    .and(Signals::EXPIRED)
    .and(Signals::JUDGE)
    .and(Signals::MOVE)
    .and(Signals::PING);

/// The signals that bring a client news.
pub(super) const NEWS: Signals = Signals::ENDED
    .and(Signals::COUNTS)
    .and(Signals::FRIENDS)
    .and(Signals::YOU);

impl SocketlessSessions {
    /// Runs until told to stop.
    pub(crate) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let clock = self.context.core.clock;
        loop {
            let moved_at = self.next_moved();
            let moved = clock.sleep_until(moved_at.unwrap_or(Moment::NEVER));
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.signalled.wait() => self.serve_signalled().await,
                () = self.ended.heard.wait() => self.end_heard(),
                () = moved, if moved_at.is_some() => self.end_moved(),
            }
        }
        // A gateway that stops signals all sessions first. They leave in good order.
        self.serve_signalled().await;
    }

    /// Asks the store about every session here when other gateways may have told ends that did not
    /// arrive. Runs until told to stop.
    pub(crate) async fn ask_for_missed_ends(self: Arc<Self>, stop: CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.ended.missed.notified() => {}
            }
            let keys: Vec<SessionKey> = self.open.iter().map(|session| session.key).collect();
            for some in keys.chunks(MAX_BATCH) {
                match self.store.ended_sessions(some).await {
                    Ok(ended) => {
                        for ended in ended {
                            self.ended.hear(ended);
                        }
                    }
                    Err(why) => {
                        tracing::debug!(error = %why, "ends of sessions were not read, will try again");
                        tokio::time::sleep(AGAIN_AFTER).await;
                        self.ended.note_missed();
                        break;
                    }
                }
            }
        }
    }

    async fn serve_signalled(&self) {
        for sessions in self.signalled.take().chunks(IN_A_ROW) {
            for session in sessions {
                self.attend(session);
            }
            tokio::task::yield_now().await;
        }
    }

    /// Ends the sessions of which other gateways said that they are over.
    fn end_heard(&self) {
        for ended in self.ended.heard.take() {
            if let Some(session) = self.find(&ended.key)
                && session.number() < ended.below
            {
                self.finish_here(&session, SessionEnd::Moved);
            }
        }
    }

    /// When the next session gives up its seat that was told to go on elsewhere.
    fn next_moved(&self) -> Option<Moment> {
        let moving = self.moving.lock();
        let (until, _) = moving.front()?;
        Some(*until)
    }

    fn end_moved(&self) {
        let now = self.context.core.clock.now();
        loop {
            let due = self.moving.lock().pop_front_if(|(until, _)| *until <= now);
            let Some((_, session)) = due else {
                return;
            };
            self.finish(&session, SessionEnd::Moved);
        }
    }

    /// Serves the signals of a session, without those that its stream serves.
    fn attend(&self, session: &Arc<SocketlessSession>) {
        let signals = session.take_signals(URGENT);
        if let Some(why) = self.end_of(session, signals) {
            self.finish(session, SessionEnd::Closed(why));
            return;
        }
        if signals.has(Signals::MOVE) && session.note_told_to_move() {
            let until = self.hold_until();
            self.moving.lock().push_back((until, session.clone()));
            session.wake_stream();
        }
        if session.has_stream() {
            return;
        }
        let news = session.take_signals(NEWS);
        if news.has(Signals::YOU)
            && let Some(memberships) = session.memberships.lock().as_mut()
        {
            memberships.judge_streaming();
        }
        if news.has(Signals::ENDED) {
            // Nobody hears of it before the next beat.
            let _ = self.take_closed(session);
        }
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
        if signals.has(Signals::EXPIRED) && conn.expires_at() <= self.context.core.clock.now() {
            return Some(Close::Expired);
        }
        if signals.has(Signals::JUDGE) && is_silent(&self.context, conn) {
            return Some(Close::HeartbeatTimeout);
        }
        None
    }
}
