//! Thousands of WebSocket clients on one thread: an epoll loop over sockets that know just enough
//! of the protocol.
//!
//! A generator that shares two cores with what it measures must cost little: no task per socket, no
//! JSON, no copy. Frames are encoded once; of what comes back the kind is read off a fixed byte.

use std::io::{self, ErrorKind, Read, Write};
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use super::dial::{dial, request};
use super::frames::{self, CLOSE, PING, PONG, TEXT};
use super::order::{Crowd, Enter, live};
use super::pace::{Clients, ClientsSeen, NAP};
use crate::tally::unix_micros;

/// How long all sockets together may take to close.
const PATIENCE: Duration = Duration::from_secs(5);
/// Where the kind of a message stands: `{"type":"` comes first in all of them.
const KIND_AT: usize = 9;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SocketStage {
    Connecting,
    Upgrading,
    Open,
    Joined,
}

struct EngineSocket {
    stream: TcpStream,
    number: usize,
    stage: SocketStage,
    /// What came of a frame that is not whole yet.
    rest: Vec<u8>,
    asked: Option<Instant>,
}

/// The sockets of one generator.
pub(super) struct SocketEngine {
    poll: Poll,
    events: Events,
    buffer: Vec<u8>,
    sockets: Vec<Option<EngineSocket>>,
    crowd: Option<Crowd>,
    heartbeat: Vec<u8>,
    large: Vec<u8>,
    pong: Vec<u8>,
    /// An answer is followed by the next heartbeat.
    pub(super) looping: bool,
    upgraded: usize,
    joined: usize,
    lost: usize,
    awaited: u64,
    seen: ClientsSeen,
}

impl SocketEngine {
    pub(super) fn new() -> io::Result<Self> {
        // With its id echoed, the answer is as long as the question. 4,096 bytes is the most a
        // message may have.
        let large = format!(r#"{{"type":"heartbeat","id":"{}"}}"#, "x".repeat(3_900));
        Ok(Self {
            poll: Poll::new()?,
            events: Events::with_capacity(1024),
            buffer: vec![0; 64 << 10],
            sockets: Vec::new(),
            crowd: None,
            heartbeat: frames::encode(TEXT, br#"{"type":"heartbeat"}"#),
            large: frames::encode(TEXT, large.as_bytes()),
            pong: frames::encode(PONG, b""),
            looping: false,
            upgraded: 0,
            joined: 0,
            lost: 0,
            awaited: 0,
            seen: ClientsSeen::default(),
        })
    }

    pub(super) fn expect(&mut self, crowd: Crowd) {
        self.sockets.reserve(crowd.count);
        self.crowd = Some(crowd);
    }

    pub(super) fn joined(&self) -> usize {
        self.joined
    }

    pub(super) fn lost(&self) -> usize {
        self.lost
    }

    /// Begins to connect the next user.
    pub(super) fn connect_next(&mut self) {
        let Some(crowd) = &self.crowd else { return };
        let position = self.sockets.len();
        let number = crowd.first + position;
        match dial(crowd, number, position).and_then(|mut stream| {
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll
                .registry()
                .register(&mut stream, Token(position), interest)?;
            Ok(stream)
        }) {
            Ok(stream) => {
                let socket = EngineSocket {
                    stream,
                    number,
                    stage: SocketStage::Connecting,
                    rest: Vec::new(),
                    asked: None,
                };
                self.sockets.push(Some(socket));
            }
            Err(error) => {
                self.sockets.push(None);
                self.lose(position, format!("connect: {error}"));
            }
        }
    }

    /// Sends the large message.
    pub(super) fn ask_at_length(&mut self, position: usize) {
        let frame = std::mem::take(&mut self.large);
        self.ask(position, &frame);
        self.large = frame;
    }

    /// Asks to join.
    pub(super) fn join(&mut self, position: usize) {
        let (Some(Some(socket)), Some(crowd)) = (self.sockets.get(position), &self.crowd) else {
            return;
        };
        let live = live(socket.number % crowd.lives);
        let join = format!(r#"{{"type":"join","live_id":"{live}"}}"#);
        let frame = frames::encode(TEXT, join.as_bytes());
        self.write(position, &frame);
        self.seen.asked_at.push(unix_micros());
    }

    fn ask(&mut self, position: usize, frame: &[u8]) {
        let Some(Some(socket)) = self.sockets.get_mut(position) else {
            return;
        };
        socket.asked = Some(Instant::now());
        self.seen.beats += 1;
        self.awaited += 1;
        self.write(position, frame);
    }

    /// Frames here are far smaller than a socket's buffer: one that does not fit means a server
    /// that reads nothing.
    fn write(&mut self, position: usize, frame: &[u8]) {
        let Some(Some(socket)) = self.sockets.get_mut(position) else {
            return;
        };
        match socket.stream.write(frame) {
            Ok(written) if written == frame.len() => {}
            Ok(written) => self.lose(position, format!("only {written} bytes could be sent")),
            Err(error) => self.lose(position, format!("send: {error}")),
        }
    }

    fn stirred(&mut self, position: usize, readable: bool, writable: bool) {
        let Some(Some(socket)) = self.sockets.get_mut(position) else {
            return;
        };
        if writable && socket.stage == SocketStage::Connecting {
            socket.stage = SocketStage::Upgrading;
            if let Some(request) = self
                .crowd
                .as_ref()
                .map(|crowd| request(crowd, socket.number))
            {
                self.write(position, request.as_bytes());
            }
        }
        if readable {
            let mut buffer = std::mem::take(&mut self.buffer);
            self.read(position, &mut buffer);
            self.buffer = buffer;
        }
    }

    /// Reads until nothing waits: the next edge comes with the next bytes.
    fn read(&mut self, position: usize, buffer: &mut [u8]) {
        loop {
            let Some(Some(socket)) = self.sockets.get_mut(position) else {
                return;
            };
            match socket.stream.read(buffer) {
                Ok(0) => return self.lose(position, "the server ended it".to_owned()),
                Ok(read) => {
                    self.heard(position, &buffer[..read]);
                    if read < buffer.len() {
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => return self.lose(position, format!("read: {error}")),
            }
        }
    }

    fn heard(&mut self, position: usize, bytes: &[u8]) {
        let Some(Some(socket)) = self.sockets.get_mut(position) else {
            return;
        };
        let mut whole = std::mem::take(&mut socket.rest);
        let mut bytes = bytes;
        if !whole.is_empty() {
            whole.extend(bytes);
            bytes = &whole;
        }
        if socket.stage == SocketStage::Upgrading {
            let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
                socket.rest = bytes.to_vec();
                return;
            };
            if !bytes.starts_with(b"HTTP/1.1 101") {
                let answer = String::from_utf8_lossy(&bytes[..end.min(40)]).into_owned();
                return self.lose(position, format!("the upgrade was refused: {answer}"));
            }
            socket.stage = SocketStage::Open;
            self.upgraded += 1;
            bytes = &bytes[end + 4..];
        }
        while let Some((frame, used)) = frames::next(bytes) {
            match frame.opcode {
                TEXT => self.told(position, frame.payload),
                PING => {
                    let pong = std::mem::take(&mut self.pong);
                    self.write(position, &pong);
                    self.pong = pong;
                }
                CLOSE => {
                    let code = frame
                        .payload
                        .get(..2)
                        .map(|code| u16::from_be_bytes([code[0], code[1]]));
                    return self.lose(position, format!("closed with {code:?}"));
                }
                _ => {}
            }
            bytes = &bytes[used..];
        }
        if let Some(Some(socket)) = self.sockets.get_mut(position)
            && !bytes.is_empty()
        {
            socket.rest = bytes.to_vec();
        }
    }

    fn told(&mut self, position: usize, text: &[u8]) {
        let Some(Some(socket)) = self.sockets.get_mut(position) else {
            return;
        };
        match text.get(KIND_AT) {
            // heartbeat_ack, or the echo of a heartbeat
            Some(b'h') => {
                if let Some(asked) = socket.asked.take() {
                    self.seen.latency.record(asked.elapsed());
                    self.seen.answered += 1;
                    self.awaited -= 1;
                }
                if self.looping {
                    self.beat(position);
                }
            }
            // joined
            Some(b'j') if socket.stage == SocketStage::Open => {
                socket.stage = SocketStage::Joined;
                self.joined += 1;
            }
            // error
            Some(b'e') => {
                let text = String::from_utf8_lossy(text).into_owned();
                self.seen.trouble.get_or_insert(text);
            }
            _ => {}
        }
    }

    fn lose(&mut self, position: usize, why: String) {
        self.sockets[position] = None;
        self.lost += 1;
        self.seen.trouble.get_or_insert(why);
    }
}

impl Clients for SocketEngine {
    fn count(&self) -> usize {
        self.sockets.len()
    }

    fn entered(&self) -> usize {
        match self.crowd.as_ref().map(|crowd| crowd.enter) {
            Some(Enter::Joined) => self.joined,
            _ => self.upgraded,
        }
    }

    fn turn(&mut self, wait: Duration) -> io::Result<()> {
        match self.poll.poll(&mut self.events, Some(wait)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            other => other?,
        }
        let events = std::mem::replace(&mut self.events, Events::with_capacity(0));
        for event in &events {
            self.stirred(event.token().0, event.is_readable(), event.is_writable());
        }
        self.events = events;
        Ok(())
    }

    fn beat(&mut self, position: usize) {
        let frame = std::mem::take(&mut self.heartbeat);
        self.ask(position, &frame);
        self.heartbeat = frame;
    }

    fn awaited(&self) -> u64 {
        self.awaited
    }

    fn seen(&mut self) -> &mut ClientsSeen {
        &mut self.seen
    }

    /// Says goodbye and forgets the sockets, all of which the server ends.
    fn leave(&mut self) -> io::Result<bool> {
        let frame = frames::encode(CLOSE, &1000_u16.to_be_bytes());
        (0..self.sockets.len()).for_each(|position| self.write(position, &frame));
        let began = Instant::now();
        while self.sockets.iter().any(Option::is_some) && began.elapsed() < PATIENCE {
            self.turn(NAP)?;
        }
        let all_gone = self.sockets.iter().all(Option::is_none);
        self.sockets.clear();
        (self.upgraded, self.joined, self.lost, self.awaited) = (0, 0, 0, 0);
        self.seen = ClientsSeen::default();
        Ok(all_gone)
    }
}
