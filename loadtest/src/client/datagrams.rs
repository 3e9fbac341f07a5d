//! Sockets for datagrams that many viewers share: a gateway tells sessions by their key, and not by
//! their address.
//!
//! An answer does not say which session it is for. So no two datagrams of a process have the same
//! number, and the number in an answer says it.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use rollcall::features::datagrams::wire::SHORT;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;

/// The kernel hands the datagrams of one client socket to one socket of the gateway: enough client
/// sockets that each of the gateway's has its share.
const SOCKETS: usize = 16;

/// An answer, and which datagram it answers.
#[derive(Debug)]
pub(crate) struct HeardDatagram {
    pub(crate) number: u32,
    pub(crate) bytes: [u8; SHORT],
}

/// Who wants to hear the answer to a datagram, by its number.
type WaitingAnswers = Mutex<HashMap<u32, mpsc::Sender<HeardDatagram>>>;

/// The sockets of one process.
#[derive(Debug)]
pub(crate) struct DatagramSockets {
    sockets: Vec<Arc<UdpSocket>>,
    number: AtomicU32,
    waiting: Arc<WaitingAnswers>,
}

impl DatagramSockets {
    pub(crate) async fn open() -> io::Result<Self> {
        let waiting: Arc<WaitingAnswers> = Arc::default();
        let mut sockets = Vec::new();
        for _ in 0..SOCKETS {
            let socket = Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await?);
            tokio::spawn(receive(socket.clone(), waiting.clone()));
            sockets.push(socket);
        }
        Ok(Self {
            sockets,
            number: AtomicU32::new(0),
            waiting,
        })
    }

    /// A number for the next datagram of any viewer.
    pub(crate) fn next_number(&self) -> u32 {
        self.number.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Sends a datagram of this viewer, which has this number. `by` hears the answer. A datagram
    /// that the kernel does not take is as good as one that is lost.
    pub(crate) fn ask(
        &self,
        viewer: usize,
        number: u32,
        datagram: &[u8],
        to: SocketAddr,
        by: &mpsc::Sender<HeardDatagram>,
    ) {
        self.waiting.lock().insert(number, by.clone());
        let _ = self.sockets[viewer % SOCKETS].try_send_to(datagram, to);
    }

    /// Forgets a datagram whose answer comes no more.
    pub(crate) fn forget(&self, number: u32) {
        self.waiting.lock().remove(&number);
    }
}

async fn receive(socket: Arc<UdpSocket>, waiting: Arc<WaitingAnswers>) {
    let mut datagram = [0; 2 * SHORT];
    loop {
        // An error says that an earlier datagram did not arrive; the missing answer says so, too.
        let Ok(length) = socket.recv(&mut datagram).await else {
            continue;
        };
        let Ok(bytes) = <[u8; SHORT]>::try_from(&datagram[..length]) else {
            continue;
        };
        if let Some(number) = number_of(&bytes)
            && let Some(by) = waiting.lock().remove(&number)
        {
            // A viewer that does not read its answers loses them, as over any network.
            let _ = by.try_send(HeardDatagram { number, bytes });
        }
    }
}

/// Where the number of the datagram stands that a gateway answers: after the kind, the flags and the
/// channel.
pub(crate) const NUMBER: usize = 6;

/// The number of the datagram that is answered.
pub(crate) fn number_of(answer: &[u8]) -> Option<u32> {
    let bytes = answer.get(NUMBER..NUMBER + 4)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// What is under the lock stays usable when a task panicked while it held the lock.
#[cfg(test)]
mod tests {
    use rollcall::features::datagrams::wire::{COOKIE, Challenge, Cookie, Counter, DatagramKey};

    use super::*;

    #[test]
    fn the_number_in_an_answer_is_found() {
        let challenge = Challenge {
            counter: Counter {
                channel: 1,
                number: 0x0203_0405,
            },
            cookie: Cookie([9; COOKIE]),
        };
        let datagram = challenge.seal(&DatagramKey::new(&[7; 32]));
        assert_eq!(number_of(&datagram), Some(0x0203_0405));
        assert_eq!(number_of(b"short"), None);
    }
}
