//! Owns what a client hears: messages of a type waited for, others kept for later, refusals, the
//! end of the connection, and the transcript that a failure shows.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;

use super::socket::Heard;
use super::viewer::Viewer;
use super::wait::PATIENCE;

/// How much of what was said and heard a failure shows.
const TRANSCRIPT: usize = 24;

impl Viewer {
    /// The next message of this type. Others are kept for later; an error is a failure.
    pub async fn expect(&mut self, kind: &str) -> Value {
        self.expect_timed(kind).await.1
    }

    /// As [`Self::expect`], with the time at which it was read.
    pub async fn expect_timed(&mut self, kind: &str) -> (Instant, Value) {
        let deadline = Instant::now() + PATIENCE;
        let found = self.hear_kind(kind, deadline).await;
        found.unwrap_or_else(|| panic!("{} heard no {kind:?}; {}", self.user, self.transcript()))
    }

    /// The next message of this type if it comes before the deadline.
    pub async fn hear_kind(&mut self, kind: &str, deadline: Instant) -> Option<(Instant, Value)> {
        if let Some(at) = self
            .skipped
            .iter()
            .position(|(_, message)| message["type"] == kind)
        {
            return self.skipped.remove(at);
        }
        while let Some(heard) = self.hear_until(deadline).await {
            let Heard::Text(text) = heard else { continue };
            let message: Value =
                serde_json::from_str(&text).unwrap_or_else(|e| panic!("not JSON: {e}: {text}"));
            if message["type"] == kind {
                return Some((Instant::now(), message));
            }
            assert_ne!(
                message["type"],
                "error",
                "{} waits for {kind:?}; {}",
                self.user,
                self.transcript()
            );
            self.skipped.push_back((Instant::now(), message));
        }
        None
    }

    /// The error with this code, which must be the next error.
    pub async fn expect_error(&mut self, code: &str) -> Value {
        let error = self.expect("error").await;
        assert_eq!(error["code"], code, "{error}; {}", self.transcript());
        assert!(
            error["message"].as_str().is_some_and(|m| !m.is_empty()),
            "an error says what is wrong: {error}"
        );
        error
    }

    /// Says a message that is refused with this code, on a socket that stays open.
    pub async fn is_refused(&mut self, message: Value, code: &str) -> Value {
        self.say(message).await;
        self.expect_error(code).await
    }

    /// The gateway closes the socket with this code.
    pub async fn expect_closed(&mut self, code: u16) {
        let end = self.end().await;
        assert_eq!(
            end,
            Some(code),
            "the close code of {}; {}",
            self.user,
            self.transcript()
        );
    }

    /// Listens for a while, in which no message of this type may come and the socket may not end.
    pub async fn hears_no(&mut self, kind: &str, span: Duration) {
        if let Some((_, message)) = self.hear_kind(kind, Instant::now() + span).await {
            panic!("{} heard {message}; {}", self.user, self.transcript());
        }
        assert_eq!(
            self.end,
            None,
            "the socket of {} ended; {}",
            self.user,
            self.transcript()
        );
    }

    /// Whether the connection has not ended yet, as far as was heard.
    pub async fn is_connected(&mut self) -> bool {
        self.say_frame(Message::Ping(b"there?".as_slice().into()))
            .await;
        let deadline = Instant::now() + PATIENCE;
        while let Some(heard) = self.hear_until(deadline).await {
            match heard {
                Heard::Pong => return true,
                Heard::Text(text) => self
                    .skipped
                    .push_back((Instant::now(), serde_json::from_str(&text).unwrap())),
                Heard::Closed(_) => return false,
            }
        }
        false
    }

    /// As [`Self::is_connected`], after requests of which many were refused; forgets all that was
    /// answered.
    pub async fn survives_errors(&mut self) -> bool {
        let connected = self.is_connected().await;
        self.skipped.clear();
        connected
    }

    /// Whether the end of the connection was heard.
    pub fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Waits for the end of the connection; the close code, if a close frame came.
    pub async fn end(&mut self) -> Option<u16> {
        let deadline = Instant::now() + PATIENCE;
        while self.end.is_none() && self.hear_until(deadline).await.is_some() {}
        self.end.unwrap_or_else(|| {
            panic!(
                "the socket of {} did not end; {}",
                self.user,
                self.transcript()
            )
        })
    }

    pub(super) async fn hear_until(&mut self, deadline: Instant) -> Option<Heard> {
        let heard = tokio::time::timeout_at(deadline, self.socket.next())
            .await
            .ok()??;
        match &heard {
            Heard::Closed(code) => self.end = Some(*code),
            Heard::Text(text) => self.follow_seat(text),
            Heard::Pong => {}
        }
        self.note("heard", &format!("{heard:?}"));
        Some(heard)
    }

    fn follow_seat(&mut self, text: &str) {
        let Ok(message) = serde_json::from_str::<Value>(text) else {
            return;
        };
        let live = message["live_id"].as_str().map(str::to_owned);
        match message["type"].as_str() {
            Some("joined") => self.seat = live,
            Some("left") => self.seat = None,
            Some("closed") if self.seat == live => self.seat = None,
            _ => {}
        }
    }

    pub(super) fn note(&mut self, verb: &str, what: &str) {
        if self.transcript.len() == TRANSCRIPT {
            self.transcript.pop_front();
        }
        let short: String = what.chars().take(300).collect();
        self.transcript.push_back(format!("{verb} {short}"));
    }

    /// What was said and heard last.
    pub fn transcript(&self) -> String {
        let lines: Vec<_> = self
            .transcript
            .iter()
            .map(|line| format!("\n    {line}"))
            .collect();
        format!("transcript of {}:{}", self.user, lines.concat())
    }
}
