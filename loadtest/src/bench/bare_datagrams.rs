//! The yardstick of datagrams: an echo that does nothing else. One call to the kernel receives many
//! datagrams (recvmmsg) and one sends all their answers (sendmmsg), with one socket for each core.
//! What a beat costs here is the price of the datagram alone.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;

use quinn_udp::{BATCH_SIZE, RecvMeta, UdpSocketState};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};
use socket2::{Domain, Socket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Longer than any beat.
const BUFFER: usize = 2_048;

/// Where a client says whether it wants an answer.
pub(crate) const WANTS_ANSWER: usize = 1;

/// Serves until the process ends.
pub(crate) async fn serve(listen: SocketAddr) -> anyhow::Result<()> {
    let first = bind(listen)?;
    let address = first.local_addr()?;
    let cores = std::thread::available_parallelism()?.get();
    let mut others = Vec::new();
    for _ in 1..cores {
        others.push(tokio::spawn(echo(bind(address)?)));
    }
    println!("listening on http://{address}");
    echo(first).await
}

fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None)?;
    socket.set_nonblocking(true)?;
    socket.set_reuse_port(true)?;
    socket.bind(&address.into())?;
    UdpSocket::from_std(socket.into())
}

async fn echo(socket: UdpSocket) -> anyhow::Result<()> {
    let state = UdpSocketState::new((&socket).into())?;
    let mut buffers = Box::new([[0; BUFFER]; BATCH_SIZE]);
    let mut metas = [RecvMeta::default(); BATCH_SIZE];
    loop {
        socket.readable().await?;
        let received = socket.try_io(Interest::READABLE, || {
            let mut slices = buffers.each_mut().map(|buffer| IoSliceMut::new(buffer));
            state.recv((&socket).into(), &mut slices, &mut metas)
        });
        match received {
            Ok(received) => answer(&socket, &buffers[..received], &metas),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn answer(socket: &UdpSocket, buffers: &[[u8; BUFFER]], metas: &[RecvMeta]) {
    let mut contents = Vec::new();
    let mut addresses = Vec::new();
    for (buffer, meta) in buffers.iter().zip(metas) {
        // The kernel may have put several datagrams of one client into one buffer.
        for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
            if datagram.get(WANTS_ANSWER) == Some(&1) {
                contents.push([IoSlice::new(datagram)]);
                addresses.push(SocketAddrAny::from(meta.addr));
            }
        }
    }
    if contents.is_empty() {
        return;
    }
    let mut nothing: Vec<_> = contents
        .iter()
        .map(|_| SendAncillaryBuffer::default())
        .collect();
    let mut messages = Vec::with_capacity(contents.len());
    for ((content, address), control) in contents.iter().zip(&addresses).zip(&mut nothing) {
        messages.push(MMsgHdr::new_with_addr(address, content, control));
    }
    // An answer that the kernel does not take is lost; the client counts it.
    let _ = sendmmsg(socket, &mut messages, SendFlags::DONTWAIT);
}
