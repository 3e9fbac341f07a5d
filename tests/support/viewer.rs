//! Owns the verbs of a person (or service) at a WebSocket: join, heartbeat, leave, open, close, vanish, and what is
//! expected back. [`super::dashboard`] adds those of somebody who watches.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::socket::{Heard, Socket};
use super::wait::PATIENCE;

/// How much of what was said and heard a failure shows.
const TRANSCRIPT: usize = 24;

/// The answer to a heartbeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ack {
    /// Whether the user is counted as a fan; `None` before the first check has answered.
    pub fan: Option<bool>,
    /// Viewers of the live.
    pub viewers: u64,
    /// Fans online.
    pub fans: u64,
}

/// A client with one socket.
#[derive(Debug)]
pub struct Viewer {
    /// Who it is.
    pub user: String,
    /// The `welcome` it got.
    pub welcome: Value,
    socket: Socket,
    skipped: VecDeque<(Instant, Value)>,
    transcript: VecDeque<String>,
    end: Option<Option<u16>>,
    asked: u64,
    /// The live in which it sits, as far as it was told.
    pub seat: Option<String>,
}

impl Viewer {
    /// Takes over a socket, and waits for its `welcome`.
    pub async fn greeted(user: &str, socket: Socket) -> Self {
        let mut viewer = Self {
            user: user.to_owned(),
            welcome: Value::Null,
            socket,
            skipped: VecDeque::new(),
            transcript: VecDeque::new(),
            end: None,
            asked: 0,
            seat: None,
        };
        viewer.welcome = viewer.expect("welcome").await;
        viewer
    }

    // ------------------------------------------------------------------------------------------------- saying

    /// Sends a JSON message.
    pub async fn say(&mut self, message: Value) {
        self.say_frame(Message::text(message.to_string())).await;
    }

    /// Sends any frame.
    pub async fn say_frame(&mut self, frame: Message) {
        self.note("said", &format!("{frame:?}"));
        self.socket.send(frame).await;
    }

    /// Sends a request with an id of its own; its answer, whatever that is.
    pub async fn ask(&mut self, mut request: Value) -> Value {
        self.asked += 1;
        let id = json!(self.asked);
        request["id"] = id.clone();
        self.say(request).await;
        let deadline = Instant::now() + PATIENCE;
        while let Some(heard) = self.hear_until(deadline).await {
            let Heard::Text(text) = heard else { continue };
            let message: Value = serde_json::from_str(&text).unwrap();
            if message.get("id") == Some(&id) {
                return message;
            }
            self.skipped.push_back((Instant::now(), message));
        }
        panic!("{} got no answer to request {id}; {}", self.user, self.transcript());
    }

    /// Joins a live; the `joined` answer.
    pub async fn join(&mut self, live: &str) -> Value {
        self.say(json!({"type": "join", "live_id": live})).await;
        let joined = self.expect("joined").await;
        assert_eq!(joined["live_id"], live, "{joined}");
        joined
    }

    /// Says a heartbeat; the numbers of its answer.
    pub async fn heartbeat(&mut self) -> Ack {
        let ack = self.heartbeat_json().await;
        Ack {
            fan: ack["fan"].as_bool(),
            viewers: ack["viewers"].as_u64().unwrap_or_else(|| panic!("no viewers in {ack}")),
            fans: ack["fans"].as_u64().unwrap_or_else(|| panic!("no fans in {ack}")),
        }
    }

    /// Says a heartbeat; its answer as it came.
    pub async fn heartbeat_json(&mut self) -> Value {
        self.say(json!({"type": "heartbeat"})).await;
        self.expect("heartbeat_ack").await
    }

    /// Leaves the live, and keeps the socket.
    pub async fn leave(&mut self) -> Value {
        self.say(json!({"type": "leave"})).await;
        self.expect("left").await
    }

    /// Opens a live as its streamer; the `opened` answer.
    pub async fn open(&mut self, live: &str) -> Value {
        self.say(json!({"type": "open", "live_id": live})).await;
        self.expect("opened").await
    }

    /// Closes a live; the `closed` answer.
    pub async fn close_live(&mut self, live: &str) -> Value {
        self.say(json!({"type": "close", "live_id": live})).await;
        self.expect("closed").await
    }

    /// Pings the gateway and waits for the Pong.
    pub async fn ping(&mut self) {
        self.say_frame(Message::Ping(b"story".as_slice().into())).await;
        let deadline = Instant::now() + PATIENCE;
        while !matches!(self.hear_until(deadline).await, Some(Heard::Pong)) {
            assert!(self.end.is_none() && Instant::now() < deadline, "no Pong; {}", self.transcript());
        }
    }

    // ------------------------------------------------------------------------------------------------- ending

    /// Closes cleanly, and waits for the gateway to do the same.
    pub async fn close(mut self) {
        let frame = CloseFrame { code: 1_000.into(), reason: "".into() };
        self.say_frame(Message::Close(Some(frame))).await;
        self.end().await;
    }

    /// Cuts the TCP connection with no close frame.
    pub fn vanish(self) {
        drop(self.socket);
    }

    /// Ends the TCP connection with a reset.
    pub async fn reset(self) {
        self.socket.reset().await;
    }

    /// Keeps the connection open, but says nothing any more, not even a Pong.
    pub fn go_silent(&self) {
        self.socket.mute();
    }

    /// Answers no more Pings of the gateway; only what the story says is heard.
    pub fn answer_no_pings(&self) {
        self.socket.swallow_pongs();
    }

    /// Stops (or goes on) reading.
    pub async fn read(&self, on: bool) {
        self.socket.read(on).await;
    }

    /// How many Pings of the gateway it answered.
    pub fn pings(&self) -> u64 {
        self.socket.pings()
    }

    // ------------------------------------------------------------------------------------------------ hearing

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
        if let Some(at) = self.skipped.iter().position(|(_, message)| message["type"] == kind) {
            return self.skipped.remove(at);
        }
        while let Some(heard) = self.hear_until(deadline).await {
            let Heard::Text(text) = heard else { continue };
            let message: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("not JSON: {e}: {text}"));
            if message["type"] == kind {
                return Some((Instant::now(), message));
            }
            assert_ne!(message["type"], "error", "{} waits for {kind:?}; {}", self.user, self.transcript());
            self.skipped.push_back((Instant::now(), message));
        }
        None
    }

    /// The error with this code, which must be the next error.
    pub async fn expect_error(&mut self, code: &str) -> Value {
        let error = self.expect("error").await;
        assert_eq!(error["code"], code, "{error}; {}", self.transcript());
        assert!(error["message"].as_str().is_some_and(|m| !m.is_empty()), "an error says what is wrong: {error}");
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
        assert_eq!(end, Some(code), "the close code of {}; {}", self.user, self.transcript());
    }

    /// Listens for a while, in which no message of this type may come and the socket may not end.
    pub async fn hears_no(&mut self, kind: &str, span: Duration) {
        if let Some((_, message)) = self.hear_kind(kind, Instant::now() + span).await {
            panic!("{} heard {message}; {}", self.user, self.transcript());
        }
        assert_eq!(self.end, None, "the socket of {} ended; {}", self.user, self.transcript());
    }

    /// Whether the connection has not ended yet, as far as was heard.
    pub async fn is_connected(&mut self) -> bool {
        self.say_frame(Message::Ping(b"there?".as_slice().into())).await;
        let deadline = Instant::now() + PATIENCE;
        while let Some(heard) = self.hear_until(deadline).await {
            match heard {
                Heard::Pong => return true,
                Heard::Text(text) => self.skipped.push_back((Instant::now(), serde_json::from_str(&text).unwrap())),
                Heard::Closed(_) => return false,
            }
        }
        false
    }

    /// As [`Self::is_connected`], after requests of which many were refused; forgets all that was answered.
    pub async fn survives_errors(&mut self) -> bool {
        let connected = self.is_connected().await;
        self.skipped.clear();
        connected
    }

    /// Waits for the end of the connection; the close code, if a close frame came.
    pub async fn end(&mut self) -> Option<u16> {
        let deadline = Instant::now() + PATIENCE;
        while self.end.is_none() && self.hear_until(deadline).await.is_some() {}
        self.end.unwrap_or_else(|| panic!("the socket of {} did not end; {}", self.user, self.transcript()))
    }

    async fn hear_until(&mut self, deadline: Instant) -> Option<Heard> {
        let heard = tokio::time::timeout_at(deadline, self.socket.next()).await.ok()??;
        match &heard {
            Heard::Closed(code) => self.end = Some(*code),
            Heard::Text(text) => self.follow_seat(text),
            Heard::Pong => {}
        }
        self.note("heard", &format!("{heard:?}"));
        Some(heard)
    }

    fn follow_seat(&mut self, text: &str) {
        let Ok(message) = serde_json::from_str::<Value>(text) else { return };
        let live = message["live_id"].as_str().map(str::to_owned);
        match message["type"].as_str() {
            Some("joined") => self.seat = live,
            Some("left") => self.seat = None,
            Some("closed") if self.seat == live => self.seat = None,
            _ => {}
        }
    }

    fn note(&mut self, verb: &str, what: &str) {
        if self.transcript.len() == TRANSCRIPT {
            self.transcript.pop_front();
        }
        let short: String = what.chars().take(300).collect();
        self.transcript.push_back(format!("{verb} {short}"));
    }

    /// What was said and heard last.
    pub fn transcript(&self) -> String {
        let lines: Vec<_> = self.transcript.iter().map(|line| format!("\n    {line}")).collect();
        format!("transcript of {}:{}", self.user, lines.concat())
    }
}
