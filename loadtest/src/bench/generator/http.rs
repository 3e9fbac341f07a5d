//! Sessions whose beats are HTTP requests over connections that are kept open. As behind a proxy,
//! several sessions share a connection, because a gateway has far fewer connections for plain HTTP
//! than for WebSockets. A connection has one request under way at a time, as HTTP/1.1 has it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use super::order::{Viewers, live, user};
use super::pace::{Clients, ClientsSeen, await_answers};
use crate::client::http_answer::HttpAnswer;
use crate::client::presence::Begun;

/// How long all sessions together may take to begin or to leave.
const PATIENCE: Duration = Duration::from_secs(60);

/// How many connections begin sessions, and end them.
pub(super) const TO_BEGIN: usize = 8;

/// What a request asks for, with the position of the session.
#[derive(Debug, Clone, Copy)]
enum SessionRequest {
    Begin(usize),
    Beat(usize),
    Leave(usize),
}

struct GeneratorConnection {
    stream: TcpStream,
    waiting: VecDeque<(SessionRequest, Instant)>,
    under_way: Option<(SessionRequest, Instant)>,
    /// What has come of an answer that is not whole yet.
    rest: Vec<u8>,
}

/// Sessions that beat by HTTP.
pub(crate) struct HttpClients {
    server: SocketAddr,
    poll: Poll,
    events: Events,
    buffer: Vec<u8>,
    connections: Vec<GeneratorConnection>,
    lives: usize,
    pub(crate) sessions: Vec<Begun>,
    /// Requests without an answer yet.
    awaited: u64,
    pub(crate) seen: ClientsSeen,
}

impl HttpClients {
    pub(crate) fn new(server: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            server,
            poll: Poll::new()?,
            events: Events::with_capacity(1024),
            buffer: vec![0; 64 << 10],
            connections: Vec::new(),
            lives: 1,
            sessions: Vec::new(),
            awaited: 0,
            seen: ClientsSeen::default(),
        })
    }

    /// Opens so many connections, in place of those that there were.
    pub(crate) fn connect(&mut self, connections: usize) -> io::Result<()> {
        self.disconnect();
        for place in 0..connections {
            let stream = std::net::TcpStream::connect(self.server)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            self.poll
                .registry()
                .register(&mut stream, Token(place), Interest::READABLE)?;
            self.connections.push(GeneratorConnection {
                stream,
                waiting: VecDeque::new(),
                under_way: None,
                rest: Vec::new(),
            });
        }
        Ok(())
    }

    pub(crate) fn disconnect(&mut self) {
        self.connections.clear();
    }

    /// Begins a session of each viewer.
    pub(crate) fn begin(&mut self, viewers: &Viewers) -> anyhow::Result<()> {
        self.lives = viewers.lives;
        self.sessions = vec![Begun::default(); viewers.count];
        if !self.ask_all(SessionRequest::Begin)? {
            bail!("the sessions did not begin within {PATIENCE:?}");
        }
        match &self.seen.trouble {
            Some(why) => bail!("a session did not begin: {why}"),
            None => Ok(()),
        }
    }

    /// Sends one beat over each connection. False if answers are missing.
    pub(crate) fn beat_over_each_connection(&mut self) -> io::Result<bool> {
        let count = self.connections.len().min(self.sessions.len());
        for position in 0..count {
            self.beat(position);
        }
        await_answers(self, 0, PATIENCE)
    }

    /// The requests wait at their connections, so no more are under way than there are connections.
    fn ask_all(&mut self, request: fn(usize) -> SessionRequest) -> io::Result<bool> {
        for position in 0..self.sessions.len() {
            self.ask(position, request(position));
        }
        await_answers(self, 0, PATIENCE)
    }

    fn ask(&mut self, position: usize, request: SessionRequest) {
        if self.connections.is_empty() {
            self.trouble("there is no connection".to_owned());
            return;
        }
        let place = position % self.connections.len();
        self.awaited += 1;
        self.connections[place]
            .waiting
            .push_back((request, Instant::now()));
        self.send_next(place);
    }

    /// Sends the next request of a connection that has none under way.
    fn send_next(&mut self, place: usize) {
        let connection = &mut self.connections[place];
        if connection.under_way.is_some() {
            return;
        }
        let Some((request, asked_at)) = connection.waiting.pop_front() else {
            return;
        };
        connection.under_way = Some((request, asked_at));
        let text = self.text_of(request);
        // A request is far smaller than a socket's buffer.
        match self.connections[place].stream.write(text.as_bytes()) {
            Ok(written) if written == text.len() => {}
            Ok(written) => self.trouble(format!("only {written} bytes could be sent")),
            Err(error) => self.trouble(format!("send: {error}")),
        }
    }

    fn text_of(&self, request: SessionRequest) -> String {
        let host = self.server;
        match request {
            SessionRequest::Begin(position) => {
                let user = user(position);
                let live = live(position % self.lives);
                let body = format!(r#"{{"live_id":"{live}"}}"#);
                let length = body.len();
                format!(
                    "POST /v1/presence?user_id={user} HTTP/1.1\r\nHost: {host}\r\n\
                     Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
                )
            }
            SessionRequest::Beat(position) => {
                let id = &self.sessions[position].id;
                format!(
                    "POST /v1/presence/{id} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\n\r\n"
                )
            }
            SessionRequest::Leave(position) => {
                let id = &self.sessions[position].id;
                format!("DELETE /v1/presence/{id} HTTP/1.1\r\nHost: {host}\r\n\r\n")
            }
        }
    }

    /// Reads until nothing waits: the next edge comes with the next bytes.
    fn read(&mut self, place: usize, buffer: &mut [u8]) {
        loop {
            let Some(connection) = self.connections.get_mut(place) else {
                return;
            };
            match connection.stream.read(buffer) {
                Ok(0) => return self.trouble("the gateway ended a connection".to_owned()),
                Ok(read) => {
                    connection.rest.extend(&buffer[..read]);
                    self.answered(place);
                    if read < buffer.len() {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => return self.trouble(format!("read: {error}")),
            }
        }
    }

    /// Takes in the answer of a connection, once it is whole.
    fn answered(&mut self, place: usize) {
        let connection = &mut self.connections[place];
        let Some(answer) = HttpAnswer::read(&connection.rest) else {
            return;
        };
        if let Some((request, asked_at)) = connection.under_way.take() {
            self.awaited -= 1;
            self.seen.answered += 1;
            self.seen.latency.record(asked_at.elapsed());
            let taken = match request {
                SessionRequest::Begin(position) => match session(&answer) {
                    Ok(session) => {
                        self.sessions[position] = session;
                        Ok(())
                    }
                    Err(why) => Err(why),
                },
                SessionRequest::Beat(_) | SessionRequest::Leave(_) => check(&answer),
            };
            if let Err(why) = taken {
                self.seen.trouble.get_or_insert(format!("{why:#}"));
            }
        }
        self.connections[place].rest.clear();
        self.send_next(place);
    }

    fn trouble(&mut self, why: String) {
        self.seen.trouble.get_or_insert(why);
    }
}

impl Clients for HttpClients {
    fn count(&self) -> usize {
        self.sessions.len()
    }

    fn beat(&mut self, position: usize) {
        self.seen.beats += 1;
        self.ask(position, SessionRequest::Beat(position));
    }

    fn turn(&mut self, wait: Duration) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(wait)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        let events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        let mut buffer = std::mem::take(&mut self.buffer);
        for event in &events {
            self.read(event.token().0, &mut buffer);
        }
        self.buffer = buffer;
        self.events = events;
        Ok(())
    }

    fn awaited(&self) -> u64 {
        self.awaited
    }

    fn seen(&mut self) -> &mut ClientsSeen {
        &mut self.seen
    }

    fn leave(&mut self) -> io::Result<bool> {
        // The gateway has closed those that were at rest for long.
        self.connect(TO_BEGIN)?;
        let done = self.ask_all(SessionRequest::Leave)?;
        self.sessions.clear();
        self.disconnect();
        Ok(done)
    }
}

fn check(answer: &HttpAnswer) -> anyhow::Result<()> {
    if !answer.is_success() {
        let why = String::from_utf8_lossy(&answer.body);
        bail!("{}: {why}", answer.status);
    }
    Ok(())
}

fn session(answer: &HttpAnswer) -> anyhow::Result<Begun> {
    check(answer)?;
    serde_json::from_slice(&answer.body).context("the answer to POST /v1/presence")
}
