//! The sockets of clients that send datagrams. They are few: a server tells its clients by what
//! their datagrams say, and not by their address.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use mio::net::UdpSocket;
use mio::{Events, Interest, Poll, Token};

/// The kernel hands the datagrams of one client socket to one socket of the server: enough client
/// sockets that each of the server's has its share.
const SOCKETS: usize = 16;

/// The longest answer.
const LONGEST: usize = 64;

/// A datagram that has come.
pub(super) struct Datagram {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Datagram {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

pub(super) struct ClientSockets {
    poll: Poll,
    events: Events,
    sockets: Vec<UdpSocket>,
}

impl ClientSockets {
    pub(super) fn open() -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut sockets = Vec::new();
        for place in 0..SOCKETS {
            let mut socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0).into())?;
            poll.registry()
                .register(&mut socket, Token(place), Interest::READABLE)?;
            sockets.push(socket);
        }
        Ok(Self {
            poll,
            events: Events::with_capacity(SOCKETS),
            sockets,
        })
    }

    /// Sends a datagram of the client at this position. One that the kernel does not take is as
    /// good as one that is lost.
    pub(super) fn send(&self, position: usize, datagram: &[u8], to: SocketAddr) {
        let _ = self.sockets[position % SOCKETS].send_to(datagram, to);
    }

    /// Waits at most so long, and returns what has come.
    pub(super) fn receive(&mut self, wait: Duration) -> io::Result<Vec<Datagram>> {
        let mut arrived = Vec::new();
        match self.poll.poll(&mut self.events, Some(wait)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(arrived),
            other => other?,
        }
        for event in &self.events {
            read(&self.sockets[event.token().0], &mut arrived);
        }
        Ok(arrived)
    }
}

/// Reads until nothing waits: the next edge comes with the next datagram.
fn read(socket: &UdpSocket, arrived: &mut Vec<Datagram>) {
    loop {
        let mut bytes = [0; LONGEST];
        match socket.recv_from(&mut bytes) {
            Ok((length, _)) => arrived.push(Datagram { bytes, length }),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            // The kernel tells that a server is gone; the missing answers tell it, too.
            Err(_) => {}
        }
    }
}
