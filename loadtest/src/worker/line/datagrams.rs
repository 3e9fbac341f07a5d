//! A viewer whose heartbeats are datagrams, over a socket that it shares with others.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use rollcall::features::datagrams::wire::{DatagramAck, DatagramAnswer, DatagramStatus};
use simulation::crowd::datagrams::DatagramSession;
use tokio::sync::mpsc;

use super::heard::Hearing;
use crate::client::Failure;
use crate::client::datagrams::{self, DatagramSockets};
use crate::client::presence::Begun;
use crate::error_kind::{self, ErrorName};

/// How many answers may wait for a viewer.
const WAITING: usize = 8;

/// A viewer tries the next address when so many datagrams in a row were not answered.
const UNANSWERED: u8 = 2;

/// How many datagrams without an answer are remembered.
const REMEMBERED: usize = 8;

/// A datagram whose answer is awaited.
struct Sent {
    number: u32,
    /// The heartbeat that it is; `None` for a hello without one, and for a leave.
    heartbeat: Option<u64>,
}

/// The line of one viewer.
pub(crate) struct DatagramLine {
    sockets: Arc<DatagramSockets>,
    viewer: usize,
    session: DatagramSession,
    addresses: Vec<SocketAddr>,
    /// Which of the addresses is used.
    address: usize,
    unanswered: u8,
    sent: VecDeque<Sent>,
    by: mpsc::Sender<datagrams::HeardDatagram>,
    heard: mpsc::Receiver<datagrams::HeardDatagram>,
}

impl DatagramLine {
    pub(super) fn new(
        sockets: Arc<DatagramSockets>,
        viewer: usize,
        session: Begun,
    ) -> Result<Self, ErrorName> {
        let offer = session.udp.ok_or(error_kind::NO_DATAGRAMS)?;
        let session = DatagramSession::of(&offer).ok_or(error_kind::BAD_FRAME)?;
        let addresses = offer.addresses();
        if addresses.is_empty() {
            return Err(error_kind::NO_DATAGRAMS);
        }
        let (by, heard) = mpsc::channel(WAITING);
        Ok(Self {
            sockets,
            viewer,
            session,
            addresses,
            address: 0,
            unanswered: 0,
            sent: VecDeque::new(),
            by,
            heard,
        })
    }

    /// Has the gateway validate the viewer's address.
    pub(super) async fn say_hello(&mut self) -> Result<(), Failure> {
        self.send_beat(None);
        loop {
            match self.heard().await? {
                Hearing::Ack { .. } => return Ok(()),
                Hearing::Trouble(kind) => return Err(kind.into()),
                Hearing::Nothing => {}
            }
        }
    }

    pub(super) async fn heard(&mut self) -> Result<Hearing, Failure> {
        loop {
            // The line has a sender, so the channel does not end.
            let Some(heard) = self.heard.recv().await else {
                return Ok(Hearing::Nothing);
            };
            let Some(heartbeat) = self.settle(heard.number) else {
                continue;
            };
            match self.session.hears(&heard.bytes) {
                Some(DatagramAnswer::Ack(ack)) => return of_ack(&ack, heartbeat),
                Some(DatagramAnswer::Challenge(challenge)) => {
                    let number = self.sockets.next_number();
                    let hello = self.session.hello(number, challenge.cookie);
                    self.send(number, heartbeat, &hello);
                }
                None => return Ok(Hearing::Trouble(error_kind::BAD_FRAME)),
            }
        }
    }

    pub(super) fn beat(&mut self, id: u64) {
        self.send_beat(Some(id));
    }

    pub(super) async fn leave(&mut self) -> Result<(), ErrorName> {
        let number = self.sockets.next_number();
        let leave = self.session.leave(number);
        self.send(number, None, &leave);
        while let Some(heard) = self.heard.recv().await {
            if let Some(DatagramAnswer::Ack(ack)) = self.session.hears(&heard.bytes)
                && ack.status == DatagramStatus::Left
            {
                return Ok(());
            }
        }
        Ok(())
    }

    fn send_beat(&mut self, heartbeat: Option<u64>) {
        let number = self.sockets.next_number();
        let beat = self.session.beat(number, true);
        self.send(number, heartbeat, &beat);
    }

    fn send(&mut self, number: u32, heartbeat: Option<u64>, datagram: &[u8]) {
        if self.unanswered >= UNANSWERED {
            self.unanswered = 0;
            self.address = (self.address + 1) % self.addresses.len();
        }
        self.unanswered += 1;
        if self.sent.len() == REMEMBERED
            && let Some(lost) = self.sent.pop_front()
        {
            self.sockets.forget(lost.number);
        }
        self.sent.push_back(Sent { number, heartbeat });
        let to = self.addresses[self.address];
        self.sockets
            .ask(self.viewer, number, datagram, to, &self.by);
    }

    /// The heartbeat of a datagram that is answered. `None` if no answer is awaited to such a one.
    fn settle(&mut self, number: u32) -> Option<Option<u64>> {
        let place = self.sent.iter().position(|sent| sent.number == number)?;
        let sent = self.sent.remove(place)?;
        self.unanswered = 0;
        Some(sent.heartbeat)
    }
}

fn of_ack(ack: &DatagramAck, heartbeat: Option<u64>) -> Result<Hearing, Failure> {
    match ack.status {
        DatagramStatus::Here => Ok(Hearing::Ack {
            id: heartbeat,
            fan: ack.fan,
        }),
        DatagramStatus::Move => Ok(Hearing::Trouble(error_kind::RECONNECT_TOLD)),
        DatagramStatus::Closed => Ok(Hearing::Trouble(error_kind::LIVE_CLOSED)),
        // The viewer has not left, so the gateway ended the session.
        _ => Err(error_kind::SESSION_OVER.into()),
    }
}

impl Drop for DatagramLine {
    fn drop(&mut self) {
        for sent in &self.sent {
            self.sockets.forget(sent.number);
        }
    }
}
