//! The datagrams of a session without a socket.

use std::net::{Ipv4Addr, SocketAddr};

use data_encoding::BASE64URL_NOPAD;
use rollcall::base::session_key::SessionKey;
use rollcall::features::datagrams::wire::{
    self, Cookie, Counter, DatagramAck, DatagramAnswer, DatagramKey, DatagramStatus, SHORT,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Outcome, Surroundings};
use crate::expectation::User;

/// What a gateway says of the datagrams of a session that has begun.
#[derive(Debug, Clone, Deserialize)]
pub struct Offer {
    addresses: Vec<String>,
    session: String,
    key: String,
    /// What a hello says, so that any gateway can go on with the session.
    pub ticket: String,
}

impl Offer {
    /// Where the datagrams go. A client tries the next one when two beats are not answered. Only
    /// addresses of this machine are taken, as in all load tools.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let mut addresses = Vec::new();
        for text in &self.addresses {
            if let Ok(address) = text.parse::<SocketAddr>()
                && address.ip().is_loopback()
            {
                addresses.push(address);
            }
        }
        addresses
    }

    /// `None` if it is none.
    #[must_use]
    pub fn session_key(&self) -> Option<SessionKey> {
        SessionKey::parse(&self.session)
    }

    /// `None` if it is none.
    #[must_use]
    pub fn datagram_key(&self) -> Option<DatagramKey> {
        let key = BASE64URL_NOPAD.decode(self.key.as_bytes()).ok()?;
        Some(DatagramKey::new(&key.try_into().ok()?))
    }
}

/// A session that beats by datagram, without any I/O: what its client sends, and what an answer
/// means. The caller numbers the datagrams, because several sessions may share a socket.
pub struct DatagramSession {
    session: SessionKey,
    key: DatagramKey,
    ticket: String,
    channel: u32,
}

impl DatagramSession {
    /// `None` if the offer has no keys.
    #[must_use]
    pub fn of(offer: &Offer) -> Option<Self> {
        Some(Self {
            session: offer.session_key()?,
            key: offer.datagram_key()?,
            ticket: offer.ticket.clone(),
            channel: 0,
        })
    }

    fn counter(&self, number: u32) -> Counter {
        Counter {
            channel: self.channel,
            number,
        }
    }

    /// A beat.
    #[must_use]
    pub fn beat(&self, number: u32, wants_answer: bool) -> [u8; SHORT] {
        let counter = self.counter(number);
        wire::beat(&self.key, &self.session, counter, wants_answer)
    }

    /// The end of the session.
    #[must_use]
    pub fn leave(&self, number: u32) -> [u8; SHORT] {
        wire::leave(&self.key, &self.session, self.counter(number))
    }

    /// What a gateway answers. After a challenge the client says hello.
    pub fn hears(&mut self, datagram: &[u8]) -> Option<DatagramAnswer> {
        let answer = DatagramAnswer::read(datagram, &self.key)?;
        if let DatagramAnswer::Challenge(challenge) = &answer {
            self.channel = challenge.cookie.channel();
        }
        Some(answer)
    }

    /// What answers a challenge.
    #[must_use]
    pub fn hello(&self, number: u32, cookie: Cookie) -> Vec<u8> {
        let counter = Counter {
            channel: cookie.channel(),
            number,
        };
        wire::hello_to(&self.key, &self.session, counter, cookie, &self.ticket)
    }

    /// The next beat begins anew: a beat for another gateway must not be one for the former.
    pub fn forget_channel(&mut self) {
        self.channel = 0;
    }
}

/// How a session beats by datagram, as its device knows it.
pub(super) struct Datagrams {
    session: DatagramSession,
    number: u32,
    from: SocketAddr,
    /// Whether nothing was sent from its address.
    has_moved: bool,
    /// Where the last beat went.
    gateway: Option<usize>,
}

impl Datagrams {
    /// `None` if the answer to a join has nothing of the kind.
    pub(super) fn of(joined: &Value, user: User, device: usize) -> Option<Self> {
        let offer = Offer::deserialize(&joined["udp"]).ok()?;
        let ip = Ipv4Addr::new(198, 18 + (user >> 8) as u8, user as u8, device as u8);
        Some(Self {
            session: DatagramSession::of(&offer)?,
            number: 0,
            from: SocketAddr::new(ip.into(), 1_024),
            has_moved: true,
            gateway: None,
        })
    }

    /// The session has another ticket.
    pub(super) fn renew(&mut self, newer: Self) {
        self.session = newer.session;
    }

    /// The next datagrams come from another port.
    pub(super) fn change_address(&mut self) {
        let port = self.from.port().checked_add(1).unwrap_or(1_024);
        self.from.set_port(port);
        self.has_moved = true;
    }

    fn next(&mut self) -> u32 {
        self.number += 1;
        self.number
    }

    /// The answer to a datagram; `None` if none comes.
    async fn say(
        &mut self,
        surroundings: &impl Surroundings,
        gateway: usize,
        datagram: Vec<u8>,
    ) -> Option<DatagramAnswer> {
        let answer = surroundings.datagram(gateway, datagram, self.from).await?;
        self.session.hears(&answer)
    }

    /// Sends a beat, and if it is challenged a hello. Returns what a request would be answered, or
    /// what is wrong.
    pub(super) async fn beat(
        &mut self,
        surroundings: &impl Surroundings,
        gateway: usize,
        live_id: &str,
    ) -> Result<Outcome, String> {
        if !surroundings.listens(gateway) {
            return Ok(Outcome::Nobody);
        }
        if self.gateway.replace(gateway) != Some(gateway) {
            self.session.forget_channel();
        }
        surroundings.note(gateway, "receives a datagram");
        let number = self.next();
        let beat = self.session.beat(number, true);
        let must_answer = std::mem::take(&mut self.has_moved) && surroundings.is_sound(gateway);
        let mut answer = self.say(surroundings, gateway, beat.to_vec()).await;
        if answer.is_none() && must_answer && surroundings.is_sound(gateway) {
            return Err(format!("{} is not challenged", self.from));
        }
        if let Some(DatagramAnswer::Challenge(challenge)) = answer {
            let number = self.next();
            let hello = self.session.hello(number, challenge.cookie);
            answer = self.say(surroundings, gateway, hello).await;
        }
        Ok(match answer {
            Some(DatagramAnswer::Ack(ack)) => Outcome::Answered(as_request(&ack, live_id)),
            _ => Outcome::Unanswered,
        })
    }

    /// Leaves. Returns what a request would be answered.
    pub(super) async fn leave(
        &mut self,
        surroundings: &impl Surroundings,
        gateway: usize,
    ) -> Outcome {
        if !surroundings.listens(gateway) {
            return Outcome::Nobody;
        }
        let number = self.next();
        let leave = self.session.leave(number);
        match self.say(surroundings, gateway, leave.to_vec()).await {
            Some(DatagramAnswer::Ack(ack)) if ack.status == DatagramStatus::Left => {
                Outcome::Answered(answer(204, Value::Null))
            }
            _ => Outcome::Unanswered,
        }
    }
}

fn answer(status: u16, body: Value) -> super::Answer {
    super::Answer {
        status,
        body,
        closes: false,
    }
}

/// What a request that says the same would have been answered.
fn as_request(ack: &DatagramAck, live_id: &str) -> super::Answer {
    let taken = answer(200, json!({"live_id": live_id}));
    match ack.status {
        DatagramStatus::Here => taken,
        // A gateway that has not taken the session over has no figures for it.
        DatagramStatus::Move if ack.viewers == 0 => answer(503, json!({"code": "draining"})),
        DatagramStatus::Move => super::Answer {
            closes: true,
            ..taken
        },
        _ => answer(404, json!({"code": "session_unknown"})),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "these are tests")]

    use super::*;

    #[test]
    fn only_addresses_of_this_machine_are_taken() {
        let text = r#"{"addresses":["192.0.2.7:1","localhost:2","127.0.0.1:3","[::1]:4"],
            "session":"","key":"","ticket":""}"#;
        let offer: Offer = serde_json::from_str(text).unwrap();
        let ports: Vec<u16> = offer.addresses().iter().map(SocketAddr::port).collect();
        assert_eq!(ports, [3, 4]);
    }
}
