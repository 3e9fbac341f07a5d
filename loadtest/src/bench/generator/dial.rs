//! How a socket begins: from which address it comes, and what it asks.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, SocketAddr};

use mio::net::TcpStream;
use socket2::{Domain, Protocol, Socket as RawSocket, Type};

use super::order::{Crowd, Enter, live, streamer, user};
use crate::entry::EntryTerms;

/// Of one source address; Linux has 28,232 ports for each, but searches long once half of them are
/// taken.
const SOCKETS_PER_SOURCE: usize = 8_000;
/// EINPROGRESS, on Linux: the connection is on its way, as it was asked.
const IN_PROGRESS: i32 = 115;

/// A connection on its way.
pub(super) fn dial(crowd: &Crowd, number: usize, position: usize) -> io::Result<TcpStream> {
    let raw = RawSocket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    raw.set_nonblocking(true)?;
    raw.set_tcp_nodelay(true)?;
    raw.set_reuse_address(true)?;
    // Generators count users from different numbers, so their sources differ as well.
    let source = (crowd.first / SOCKETS_PER_SOURCE + position / SOCKETS_PER_SOURCE) % 200;
    let odd = (number % 2) as u8;
    raw.bind(
        &SocketAddr::from((
            Ipv4Addr::new(127, 1 + odd, crowd.block, 1 + source as u8),
            0,
        ))
        .into(),
    )?;
    match raw.connect(&crowd.server.into()) {
        Err(error)
            if error.raw_os_error() != Some(IN_PROGRESS)
                && error.kind() != ErrorKind::WouldBlock =>
        {
            return Err(error);
        }
        _ => {}
    }
    Ok(TcpStream::from_std(raw.into()))
}

/// The upgrade.
pub(super) fn request(crowd: &Crowd, number: usize) -> String {
    let user = user(number);
    let live_number = number % crowd.lives;
    // Rollcall reads the streamer off the live's record; the naive server is told.
    let place = format!("streamer_id={}", streamer(live_number));
    let join = if crowd.enter == Enter::Joined {
        format!("&live_id={}", live(live_number))
    } else {
        String::new()
    };
    let plain = format!("user_id={user}&{place}{join}");
    let entry = EntryTerms {
        secret: crowd.secret.clone(),
        ..EntryTerms::default()
    };
    // A secret that cannot be read is noticed when the gateway is started with it; here the upgrade
    // would be refused.
    let query = entry.query(&plain).unwrap_or(plain);
    format!(
        "GET /ws?{query} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        crowd.server
    )
}
