//! The sockets for datagrams: one for each core, all with the same address. The kernel spreads the
//! clients over them. A call to the kernel receives many datagrams.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use socket2::{Domain, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use crate::features::datagrams::wire;

/// What the kernel should keep while the gateway is busy: datagrams of some thousand clients. It
/// keeps less if `net.core.rmem_max` is smaller.
const RECEIVE_BUFFER: usize = 4 << 20;

/// The buffer of one datagram. Longer than the longest one that means something, so that a longer
/// one is still too long when it has been cut.
const BUFFER: usize = 2_048;

const _: () = assert!(BUFFER > wire::LONGEST);

/// Where a datagram came from, and at which address of this machine it arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) from: SocketAddr,
    /// The answer leaves from here: a client, and the routers before it, take no answer from
    /// another address.
    pub(crate) to: Option<IpAddr>,
}

/// One of the sockets.
pub(crate) struct DatagramSocket {
    io: UdpSocket,
    state: UdpSocketState,
    /// Whether it receives for every address of this machine.
    is_for_any: bool,
}

impl DatagramSocket {
    fn new(socket: Socket) -> io::Result<Self> {
        let state = UdpSocketState::new((&socket).into())?;
        let io = UdpSocket::from_std(socket.into())?;
        Ok(Self {
            state,
            is_for_any: io.local_addr()?.ip().is_unspecified(),
            io,
        })
    }

    /// Waits until there may be datagrams.
    pub(crate) async fn ready(&self) -> io::Result<()> {
        self.io.readable().await
    }

    /// Receives as many datagrams as have arrived, up to a batch of them.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none.
    pub(crate) fn receive(&self, batch: &mut DatagramBatch) -> io::Result<()> {
        batch.received = 0;
        let mut buffers = batch
            .buffers
            .each_mut()
            .map(|buffer| IoSliceMut::new(buffer));
        batch.received = self.io.try_io(Interest::READABLE, || {
            let socket = (&self.io).into();
            self.state.recv(socket, &mut buffers, &mut batch.metas)
        })?;
        Ok(())
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// The kernel did not take it, because its buffer is full or no route leads there. Nobody needs
    /// to try again: the client does.
    pub(crate) fn send(&self, datagram: &[u8], origin: Origin) -> io::Result<()> {
        if !self.is_for_any {
            // To tell the kernel its only address costs as much as all our hashes.
            self.io.try_send_to(datagram, origin.from)?;
            return Ok(());
        }
        let transmit = Transmit {
            destination: origin.from,
            ecn: None,
            contents: datagram,
            segment_size: None,
            src_ip: origin.to,
        };
        self.state.try_send((&self.io).into(), &transmit)
    }
}

/// The datagrams that one call received.
pub(crate) struct DatagramBatch {
    buffers: Box<[[u8; BUFFER]; BATCH_SIZE]>,
    metas: [RecvMeta; BATCH_SIZE],
    received: usize,
}

impl DatagramBatch {
    pub(crate) fn new() -> Self {
        Self {
            buffers: Box::new([[0; BUFFER]; BATCH_SIZE]),
            metas: [RecvMeta::default(); BATCH_SIZE],
            received: 0,
        }
    }

    /// Each datagram with its origin. The kernel may have put several of one client into one
    /// buffer.
    pub(crate) fn datagrams(&self) -> impl Iterator<Item = (&[u8], Origin)> {
        let received = self.buffers.iter().zip(&self.metas).take(self.received);
        received.flat_map(|(buffer, meta)| {
            let origin = Origin {
                from: meta.addr,
                to: meta.dst_ip,
            };
            // An empty datagram has no length, and says nothing.
            let pieces = buffer[..meta.len].chunks(meta.stride.max(1));
            pieces.map(move |datagram| (datagram, origin))
        })
    }
}

/// Binds `count` sockets, at least one, to one address. Returns the address too, with the real port
/// instead of port 0.
///
/// # Errors
/// The address cannot be bound. It is not shared with another process, although the sockets of this
/// one share it.
pub(crate) fn bind(
    address: SocketAddr,
    count: usize,
) -> io::Result<(Vec<DatagramSocket>, SocketAddr)> {
    let first = open(address)?;
    // The first one binds without sharing: a second gateway with the same address fails to start,
    // instead of taking half of the datagrams.
    first.bind(&address.into())?;
    first.set_reuse_port(true)?;
    let first = DatagramSocket::new(first)?;
    let bound = first.io.local_addr()?;
    let mut sockets = vec![first];
    while sockets.len() < count {
        let next = open(bound)?;
        next.set_reuse_port(true)?;
        next.bind(&bound.into())?;
        sockets.push(DatagramSocket::new(next)?);
    }
    Ok((sockets, bound))
}

fn open(address: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    socket.set_nonblocking(true)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const ANY_PORT: &str = "127.0.0.1:0";

    fn bound(count: usize) -> (Vec<DatagramSocket>, SocketAddr) {
        bind(ANY_PORT.parse().unwrap(), count).unwrap()
    }

    /// The next datagrams of a socket.
    async fn next(socket: &DatagramSocket, batch: &mut DatagramBatch) -> Vec<(Vec<u8>, Origin)> {
        loop {
            socket.ready().await.unwrap();
            if socket.receive(batch).is_ok() {
                let datagrams = batch.datagrams();
                return datagrams
                    .map(|(bytes, from)| (bytes.to_vec(), from))
                    .collect();
            }
        }
    }

    #[tokio::test]
    async fn the_sockets_of_a_gateway_share_an_address_and_no_other_process_does() {
        let (_sockets, address) = bound(4);
        let second = bind(address, 4).err().unwrap();
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
    }

    #[tokio::test]
    async fn every_socket_receives_a_part_of_the_clients() {
        let (sockets, address) = bound(2);
        let clients: Vec<_> = (0..64)
            .map(|_| std::net::UdpSocket::bind(ANY_PORT).unwrap())
            .collect();
        for client in &clients {
            client.send_to(b"x", address).unwrap();
        }
        let mut batch = DatagramBatch::new();
        let mut heard = HashSet::new();
        for socket in &sockets {
            let datagrams = next(socket, &mut batch).await;
            heard.extend(datagrams.iter().map(|(_, origin)| origin.from));
        }
        assert!(heard.len() > 1);
    }

    #[tokio::test]
    async fn an_answer_reaches_the_client_from_the_address_that_it_asked() {
        let any: SocketAddr = "0.0.0.0:0".parse().unwrap();
        let (sockets, address) = bind(any, 1).unwrap();
        let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        // Not the address that the kernel would choose.
        client.connect(("127.0.0.2", address.port())).unwrap();
        client.send(b"question").unwrap();
        let datagrams = next(&sockets[0], &mut DatagramBatch::new()).await;
        let (bytes, origin) = &datagrams[0];
        assert_eq!(bytes, b"question");
        sockets[0].send(b"answer", *origin).unwrap();
        let mut answer = [0; 16];
        let length = client.recv(&mut answer).unwrap();
        assert_eq!(&answer[..length], b"answer");
    }

    #[tokio::test]
    async fn datagrams_of_any_length_keep_their_borders() {
        let (sockets, address) = bound(1);
        let client = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let lengths = [0, 1, 42, 1_200, 1_201, 4_000, 42];
        for length in lengths {
            client.send_to(&vec![7; length], address).unwrap();
        }
        let mut seen = Vec::new();
        let mut batch = DatagramBatch::new();
        while seen.len() < lengths.len() - 1 {
            let datagrams = next(&sockets[0], &mut batch).await;
            seen.extend(datagrams.iter().map(|(bytes, _)| bytes.len()));
        }
        assert_eq!(seen, [1, 42, 1_200, 1_201, BUFFER, 42]);
    }
}
