//! Sessions that beat by datagram, over few sockets: a gateway tells sessions by their key and not
//! by their address, so one socket can carry any number of them. Clients of the bare echo have no
//! session: what they send is as long as a beat, and says no more than its number and whether an
//! answer is wanted.
//!
//! An answer does not say which session it is for. So no two datagrams of this process have the
//! same number, and the number in an answer says it.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rollcall::features::datagrams::wire::{DatagramAck, DatagramAnswer, DatagramStatus, SHORT};
use simulation::crowd::datagrams::DatagramSession;

use super::pace::{Clients, ClientsSeen, NAP, await_answers, wants_answer};
use super::udp::ClientSockets;
use crate::bench::bare_datagrams::WANTS_ANSWER;
use crate::client::datagrams::{NUMBER, number_of};
use crate::client::presence::Begun;

/// A session tries its next address when so many datagrams in a row were not answered.
const UNANSWERED: u8 = 2;

/// After how long an answer comes no more.
const LOST_AFTER: Duration = Duration::from_secs(3);

/// How long all sessions together may take to say hello, or to leave.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many sessions say hello, or leave, in a turn of one millisecond.
const IN_A_TURN: usize = 20;

/// One session, as its client knows it, or a client of the echo.
struct DatagramClient {
    /// `None`: the server is the echo.
    session: Option<DatagramSession>,
    addresses: Vec<SocketAddr>,
    /// Which of the addresses it uses.
    address: usize,
    beats: u32,
    unanswered: u8,
    /// Whether a gateway has acknowledged a datagram from the present address.
    is_heard: bool,
}

/// A datagram whose answer is awaited.
struct AwaitedAnswer {
    position: usize,
    at: Instant,
}

/// Sessions that beat by datagram.
pub(crate) struct DatagramClients {
    sockets: ClientSockets,
    clients: Vec<DatagramClient>,
    /// By number.
    asked: HashMap<u32, AwaitedAnswer>,
    /// When lost ones were forgotten last.
    forgot_at: Instant,
    /// The number of the last datagram.
    number: u32,
    ack_every: u32,
    pub(crate) seen: ClientsSeen,
}

impl DatagramClients {
    /// The clients of sessions that have begun.
    pub(crate) fn of(sessions: &[Begun]) -> anyhow::Result<Self> {
        let mut clients = Vec::with_capacity(sessions.len());
        for session in sessions {
            clients.push(DatagramClient::of(session)?);
        }
        Ok(Self::new(clients)?)
    }

    /// Clients of the echo.
    pub(super) fn of_echo(server: SocketAddr, count: usize) -> io::Result<Self> {
        let client = |_| DatagramClient::new(None, vec![server]);
        Self::new((0..count).map(client).collect())
    }

    fn new(clients: Vec<DatagramClient>) -> io::Result<Self> {
        Ok(Self {
            sockets: ClientSockets::open()?,
            clients,
            asked: HashMap::new(),
            forgot_at: Instant::now(),
            number: 0,
            ack_every: 1,
            seen: ClientsSeen::default(),
        })
    }

    /// Has the gateway validate the address of each session.
    pub(crate) fn say_hello(&mut self) -> anyhow::Result<()> {
        for position in 0..self.clients.len() {
            self.send_beat(position, true);
            if position % IN_A_TURN == 0 {
                self.turn(NAP)?;
            }
        }
        if !await_answers(self, 0, PATIENCE)? {
            bail!("the gateway did not answer every hello");
        }
        Ok(())
    }

    /// A beat of the session at this position, as somebody on the way reads it.
    pub(crate) fn overheard(&mut self, position: usize) -> [u8; SHORT] {
        let number = self.next_number();
        let beat = self.clients[position].datagram(number, true);
        self.ask(position, number, &beat);
        beat
    }

    /// Has all sessions go on from other addresses.
    pub(crate) fn change_addresses(&mut self) -> io::Result<()> {
        self.sockets = ClientSockets::open()?;
        for client in &mut self.clients {
            client.is_heard = false;
        }
        Ok(())
    }

    /// How many sessions a gateway has acknowledged at their present address.
    pub(crate) fn heard_from(&self) -> usize {
        self.clients.iter().filter(|client| client.is_heard).count()
    }

    /// Forgets the datagrams whose answers come no more, because a gateway is gone.
    pub(crate) fn forget_lost(&mut self) {
        if self.forgot_at.elapsed() < LOST_AFTER {
            return;
        }
        self.forgot_at = Instant::now();
        self.asked
            .retain(|_, asked| asked.at.elapsed() < LOST_AFTER);
    }

    fn next_number(&mut self) -> u32 {
        self.number += 1;
        self.number
    }

    fn send_beat(&mut self, position: usize, wants_answer: bool) {
        let number = self.next_number();
        let client = &self.clients[position];
        let beat = client.datagram(number, wants_answer);
        if wants_answer {
            self.ask(position, number, &beat);
        } else {
            self.sockets.send(position, &beat, client.address());
        }
    }

    /// Sends a datagram whose answer is awaited.
    fn ask(&mut self, position: usize, number: u32, datagram: &[u8]) {
        let client = &mut self.clients[position];
        client.count_unanswered();
        let at = Instant::now();
        self.asked.insert(number, AwaitedAnswer { position, at });
        self.sockets.send(position, datagram, client.address());
    }

    fn heard(&mut self, datagram: &[u8]) {
        let Some(number) = number_of(datagram) else {
            return;
        };
        let Some(AwaitedAnswer { position, at }) = self.asked.get(&number) else {
            return;
        };
        let position = *position;
        let latency = at.elapsed();
        let client = &mut self.clients[position];
        let answer = match &mut client.session {
            None => None,
            // Anything else is no answer to this datagram.
            Some(session) => match session.hears(datagram) {
                None => return,
                answer => answer,
            },
        };
        self.asked.remove(&number);
        client.unanswered = 0;
        if let Some(DatagramAnswer::Challenge(challenge)) = answer {
            let number = self.next_number();
            if let Some(session) = &self.clients[position].session {
                let hello = session.hello(number, challenge.cookie);
                self.ask(position, number, &hello);
            }
            return;
        }
        client.is_heard = true;
        self.seen.answered += 1;
        self.seen.latency.record(latency);
        if let Some(DatagramAnswer::Ack(ack)) = answer {
            self.note_status(&ack);
        }
    }

    fn note_status(&mut self, ack: &DatagramAck) {
        let status = ack.status;
        if !matches!(status, DatagramStatus::Here | DatagramStatus::Left) {
            let trouble = format!("a session is told {status:?}");
            self.seen.trouble.get_or_insert(trouble);
        }
    }
}

impl DatagramClient {
    fn of(session: &Begun) -> anyhow::Result<Self> {
        let offer = session
            .udp
            .as_ref()
            .context("the gateway takes no datagrams")?;
        let addresses = offer.addresses();
        if addresses.is_empty() {
            bail!("the gateway takes no datagrams on this machine");
        }
        let session = DatagramSession::of(offer).context("the keys of a session")?;
        Ok(Self::new(Some(session), addresses))
    }

    fn new(session: Option<DatagramSession>, addresses: Vec<SocketAddr>) -> Self {
        Self {
            session,
            addresses,
            address: 0,
            beats: 0,
            unanswered: 0,
            is_heard: false,
        }
    }

    /// A beat.
    fn datagram(&self, number: u32, wants_answer: bool) -> [u8; SHORT] {
        if let Some(session) = &self.session {
            return session.beat(number, wants_answer);
        }
        let mut datagram = [0; SHORT];
        datagram[WANTS_ANSWER] = u8::from(wants_answer);
        datagram[NUMBER..NUMBER + 4].copy_from_slice(&number.to_be_bytes());
        datagram
    }

    fn address(&self) -> SocketAddr {
        self.addresses[self.address]
    }

    /// Counts a datagram that asks for an answer, and goes on to the next address if the last ones
    /// were not answered.
    fn count_unanswered(&mut self) {
        if self.unanswered >= UNANSWERED {
            self.unanswered = 0;
            self.address = (self.address + 1) % self.addresses.len();
        }
        self.unanswered += 1;
    }
}

impl Clients for DatagramClients {
    fn count(&self) -> usize {
        self.clients.len()
    }

    fn beat(&mut self, position: usize) {
        self.seen.beats += 1;
        let beats = &mut self.clients[position].beats;
        let asks = wants_answer(beats, position, self.ack_every);
        self.send_beat(position, asks);
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

    fn seen(&mut self) -> &mut ClientsSeen {
        &mut self.seen
    }

    fn ack_every(&mut self, beats: u32) {
        self.ack_every = beats;
    }

    /// Ends all sessions. A leave that is lost on the way does no harm: its session falls silent.
    fn leave(&mut self) -> io::Result<bool> {
        for position in 0..self.clients.len() {
            let number = self.next_number();
            // The echo knows no sessions.
            let Some(session) = &self.clients[position].session else {
                continue;
            };
            let leave = session.leave(number);
            self.ask(position, number, &leave);
            if position % IN_A_TURN == 0 {
                self.turn(NAP)?;
            }
        }
        await_answers(self, 0, LOST_AFTER)?;
        self.asked.clear();
        self.clients.clear();
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_goes_on_to_the_next_address_after_two_missing_answers() {
        let text = r#"{"session_id":"id","udp":{"addresses":["127.0.0.1:1","127.0.0.1:2"],
            "session":"MDEyMzQ1Njc4OWFiY2RlZg","key":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","ticket":"t"}}"#;
        let session: Begun = serde_json::from_str(text).unwrap();
        let mut client = DatagramClient::of(&session).unwrap();
        let mut ports = Vec::new();
        for _ in 0..5 {
            client.count_unanswered();
            ports.push(client.address().port());
        }
        assert_eq!(ports, [1, 1, 2, 2, 1]);
    }
}
