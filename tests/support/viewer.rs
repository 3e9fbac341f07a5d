//! Owns the verbs of a client at a WebSocket: join, heartbeat, leave, open, close, vanish.
//! [`super::hearing`] has the answers it waits for, [`super::dashboard`] the verbs of a dashboard.

use std::collections::VecDeque;
use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::socket::{Heard, Socket};
use super::wait::PATIENCE;

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
    pub(super) socket: Socket,
    pub(super) skipped: VecDeque<(Instant, Value)>,
    pub(super) transcript: VecDeque<String>,
    pub(super) end: Option<Option<u16>>,
    asked: u64,
    /// The live in which it sits, as far as it was told.
    pub seat: Option<String>,
}

impl Viewer {
    /// Connects to the gateway at this address; `more` is added to the query, as in `&live_id=42`.
    pub async fn connects(addr: SocketAddr, user: &str, more: &str) -> Self {
        let path = format!("/ws?user_id={user}{more}");
        let connected = Socket::connect(addr, &path, &[]).await;
        let (socket, _) = connected.unwrap_or_else(|error| panic!("{path}: {error}"));
        Self::greeted(user, socket).await
    }

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

    // -------------------------------------------------------------------------------------- saying

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
        panic!(
            "{} got no answer to request {id}; {}",
            self.user,
            self.transcript()
        );
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
            viewers: ack["viewers"]
                .as_u64()
                .unwrap_or_else(|| panic!("no viewers in {ack}")),
            fans: ack["fans"]
                .as_u64()
                .unwrap_or_else(|| panic!("no fans in {ack}")),
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
        self.say_frame(Message::Ping(b"story".as_slice().into()))
            .await;
        let deadline = Instant::now() + PATIENCE;
        while !matches!(self.hear_until(deadline).await, Some(Heard::Pong)) {
            assert!(
                self.end.is_none() && Instant::now() < deadline,
                "no Pong; {}",
                self.transcript()
            );
        }
    }

    // -------------------------------------------------------------------------------------- ending

    /// Closes cleanly, and waits for the gateway to do the same.
    pub async fn close(mut self) {
        let frame = CloseFrame {
            code: 1_000.into(),
            reason: "".into(),
        };
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
}
