//! Owns a viewer without a socket: joins, beats, listens and leaves over HTTP.

use std::net::SocketAddr;
use std::time::Duration;

use reqwest::Method;
use rollcall::config::Config;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::backend::{Answer, Backend};
use super::tokens::shared_file;
use super::wait::PATIENCE;
use super::world::World;

const SECRET: &[u8] = b"the secret that the gateways of a story share";

/// Lets the gateways of a story go on with each other's sessions.
pub fn with_shared_sessions(config: &mut Config) {
    config.presence_secret_file = Some(shared_file("presence-secret", SECRET));
}

/// A viewer who has begun a session.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The id of the session.
    pub session: String,
    /// What the beginning was answered.
    pub begun: Value,
}

impl Caller {
    fn path(&self) -> String {
        format!("/v1/presence/{}", self.session)
    }

    /// A beat through this gateway.
    pub async fn beat(&self, at: &World) -> Answer {
        beat(at.backend(), &self.session).await
    }

    /// Switches to another live.
    pub async fn switch(&mut self, at: &World, live: &str) -> Value {
        let answer = at
            .backend()
            .post(&self.path(), json!({"live_id": live}))
            .await;
        let begun = answer.is(200).body;
        self.session = begun["session_id"].as_str().unwrap().to_owned();
        begun
    }

    /// Leaves, as a program does.
    pub async fn leave(&self, at: &World) {
        at.backend().delete(&self.path()).await.is(204);
    }

    /// Leaves, as a page does that is left.
    pub async fn sends_beacon(&self, at: &World) {
        let path = format!("{}?leave", self.path());
        at.backend().send(Method::POST, &path, None).await.is(204);
    }

    /// Beats until it is dropped, through one gateway after the other. A beat that is not taken is
    /// tried at the next one at once.
    pub fn keeps_beating(&self, through: &[&World]) -> Beating {
        let backends: Vec<Backend> = through
            .iter()
            .map(|world| world.backend().clone())
            .collect();
        let every = through[0].config.heartbeat;
        let session = self.session.clone();
        let task = tokio::spawn(async move {
            for at in (0..).map(|n: usize| n % backends.len()) {
                let path = format!("/v1/presence/{session}");
                let sent = backends[at].try_send(Method::POST, &path).await;
                if sent == Some(200) {
                    tokio::time::sleep(every).await;
                } else {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        });
        Beating(task)
    }

    /// Listens to the events of the session.
    pub async fn listens(&self, at: &World, query: &str) -> Events {
        Events::at(at, &format!("{}/events{query}", self.path())).await
    }
}

async fn beat(backend: &Backend, session: &str) -> Answer {
    let path = format!("/v1/presence/{session}");
    backend.send(Method::POST, &path, None).await
}

/// Beats that go on until this is dropped.
pub struct Beating(JoinHandle<()>);

impl Drop for Beating {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An open stream of events.
pub struct Events {
    answer: reqwest::Response,
    received: String,
    /// Events that a wait for another kind passed over.
    passed_over: Vec<(String, Value)>,
}

impl Events {
    /// Opens the stream at this path.
    pub async fn at(world: &World, path: &str) -> Self {
        Self::open(world.addr, path, None).await
    }

    /// Opens the stream at this path of a gateway, perhaps with an API key.
    pub async fn open(addr: SocketAddr, path: &str, key: Option<&str>) -> Self {
        let url = format!("http://{addr}{path}");
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut call = http.get(url);
        if let Some(key) = key {
            call = call.bearer_auth(key);
        }
        let answer = call.send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self {
            answer,
            received: String::new(),
            passed_over: Vec::new(),
        }
    }

    /// The next event, its name and its message; `None` at the end.
    pub async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            if let Some((event, rest)) = self.received.split_once("\n\n") {
                let read = read(event);
                self.received = rest.to_owned();
                match read {
                    Some(read) => return Some(read),
                    None => continue,
                }
            }
            let part = timeout(PATIENCE, self.answer.chunk())
                .await
                .expect("an event, or a comment")
                .unwrap_or(None)?;
            self.received.push_str(str::from_utf8(&part).unwrap());
        }
    }

    /// Waits for an event of this kind that fits. Kinds may come in any order.
    pub async fn hears(&mut self, kind: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let early = self
            .passed_over
            .iter()
            .position(|(name, message)| name == kind && fits(message));
        if let Some(at) = early {
            return self.passed_over.remove(at).1;
        }
        let look = async {
            loop {
                let (name, message) = self.next().await.expect("the stream goes on");
                if name == kind && fits(&message) {
                    return message;
                }
                self.passed_over.push((name, message));
            }
        };
        timeout(PATIENCE, look).await.expect("an event that fits")
    }

    /// Waits for the end of the stream.
    pub async fn ends(&mut self) {
        let look = async { while self.next().await.is_some() {} };
        timeout(PATIENCE, look).await.expect("the end");
    }
}

/// `None` for a comment, and for the time after which a client comes back.
fn read(event: &str) -> Option<(String, Value)> {
    let mut name = None;
    let mut data = String::new();
    for line in event.lines() {
        if let Some(text) = line.strip_prefix("event: ") {
            name = Some(text.to_owned());
        } else if let Some(text) = line.strip_prefix("data: ") {
            data.push_str(text);
            data.push('\n');
        }
    }
    Some((name?, serde_json::from_str(&data).unwrap()))
}

impl World {
    /// A viewer who joins a live without a socket.
    pub async fn caller(&self, user: &str, live: &str) -> Caller {
        self.caller_as(&format!("user_id={user}"), json!({"live_id": live}))
            .await
    }

    /// The same with this query and body.
    pub async fn caller_as(&self, query: &str, body: Value) -> Caller {
        let begun = self.tries_to_call(query, body).await.is(201).body;
        let session = begun["session_id"].as_str().unwrap().to_owned();
        Caller { session, begun }
    }

    /// What the beginning of a session is answered.
    pub async fn tries_to_call(&self, query: &str, body: Value) -> Answer {
        let path = format!("/v1/presence?{query}");
        self.backend().post(&path, body).await
    }
}
