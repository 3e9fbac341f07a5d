//! Clients of the bare echo of datagrams: what they send is as long as a beat of a session, and
//! says nothing.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::pace::{Clients, Seen, wants_answer};
use super::udp::ClientSockets;

/// The length of a beat, and of its answer.
const LENGTH: usize = 42;

/// Where the number of a datagram begins.
const NUMBER: usize = 22;

/// Clients of the echo.
pub(super) struct EchoClients {
    server: SocketAddr,
    sockets: ClientSockets,
    /// How many beats each has sent.
    beats: Vec<u32>,
    asked: HashMap<u32, Instant>,
    number: u32,
    ack_every: u32,
    seen: Seen,
}

impl EchoClients {
    pub(super) fn new(server: SocketAddr, count: usize) -> io::Result<Self> {
        Ok(Self {
            server,
            sockets: ClientSockets::open()?,
            beats: vec![0; count],
            asked: HashMap::new(),
            number: 0,
            ack_every: 1,
            seen: Seen::default(),
        })
    }

    fn heard(&mut self, datagram: &[u8]) {
        let Some(number) = datagram.get(NUMBER..NUMBER + 4) else {
            return;
        };
        let number = u32::from_be_bytes([number[0], number[1], number[2], number[3]]);
        if let Some(asked_at) = self.asked.remove(&number) {
            self.seen.answered += 1;
            self.seen.latency.record(asked_at.elapsed());
        }
    }
}

impl Clients for EchoClients {
    fn count(&self) -> usize {
        self.beats.len()
    }

    fn beat(&mut self, position: usize) {
        let asks = wants_answer(&mut self.beats[position], position, self.ack_every);
        self.seen.beats += 1;
        self.number += 1;
        let mut datagram = [0; LENGTH];
        datagram[1] = u8::from(asks);
        datagram[NUMBER..NUMBER + 4].copy_from_slice(&self.number.to_be_bytes());
        if asks {
            self.asked.insert(self.number, Instant::now());
        }
        self.sockets.send(position, &datagram, self.server);
    }

    fn turn(&mut self, wait: Duration) -> io::Result<()> {
        for datagram in self.sockets.receive(wait)? {
            self.heard(datagram.bytes());
        }
        Ok(())
    }

    fn awaited(&self) -> u64 {
        self.asked.len() as u64
    }

    fn seen(&mut self) -> &mut Seen {
        &mut self.seen
    }

    fn ack_every(&mut self, beats: u32) {
        self.ack_every = beats;
    }

    /// The echo knows no sessions.
    fn leave(&mut self) -> io::Result<bool> {
        Ok(true)
    }
}
