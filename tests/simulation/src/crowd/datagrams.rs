//! The datagrams of a session without a socket.

use std::net::{Ipv4Addr, SocketAddr};

use data_encoding::BASE64URL_NOPAD;
use rollcall::base::session_key::SessionKey;
use rollcall::edge::datagrams::wire::{self, Ack, Answer, Counter, DatagramKey, Status};
use serde_json::{Value, json};

use super::{Asked, Surroundings};
use crate::expectation::User;

/// How a session beats by datagram, as its device knows it.
pub(super) struct Datagrams {
    session: SessionKey,
    key: DatagramKey,
    ticket: String,
    counter: Counter,
    from: SocketAddr,
    /// Whether nothing was sent from its address.
    has_moved: bool,
    /// Where the last beat went.
    gateway: Option<usize>,
}

impl Datagrams {
    /// `None` if the answer to a join has nothing of the kind.
    pub(super) fn of(joined: &Value, user: User, device: usize) -> Option<Self> {
        let udp = &joined["udp"];
        let key = BASE64URL_NOPAD
            .decode(udp["key"].as_str()?.as_bytes())
            .ok()?;
        let ip = Ipv4Addr::new(198, 18, user as u8, device as u8);
        Some(Self {
            session: SessionKey::parse(udp["session"].as_str()?)?,
            key: DatagramKey::new(&key.try_into().ok()?),
            ticket: udp["ticket"].as_str()?.to_owned(),
            counter: Counter {
                channel: 0,
                number: 0,
            },
            from: SocketAddr::new(ip.into(), 1_024),
            has_moved: true,
            gateway: None,
        })
    }

    /// The session has another ticket.
    pub(super) fn renew(&mut self, newer: Self) {
        self.ticket = newer.ticket;
        self.counter.channel = 0;
    }

    /// The next datagrams come from another port.
    pub(super) fn change_address(&mut self) {
        let port = self.from.port().checked_add(1).unwrap_or(1_024);
        self.from.set_port(port);
        self.has_moved = true;
    }

    fn next(&mut self) -> Counter {
        self.counter.number += 1;
        self.counter
    }

    /// The answer to a datagram; `None` if none comes.
    async fn say(
        &self,
        surroundings: &impl Surroundings,
        gateway: usize,
        datagram: Vec<u8>,
    ) -> Option<Answer> {
        let answer = surroundings.datagram(gateway, datagram, self.from).await?;
        Answer::read(&answer, &self.key)
    }

    /// Sends a beat, and if it is challenged a hello. Returns what a request would be answered, or
    /// what is wrong.
    pub(super) async fn beat(
        &mut self,
        surroundings: &impl Surroundings,
        gateway: usize,
        live_id: &str,
    ) -> Result<Asked, String> {
        if !surroundings.listens(gateway) {
            return Ok(Asked::Nobody);
        }
        if self.gateway.replace(gateway) != Some(gateway) {
            // A beat for another gateway must not be one for the former.
            self.counter.channel = 0;
        }
        surroundings.note(gateway, "receives a datagram");
        let counter = self.next();
        let beat = wire::beat(&self.key, &self.session, counter, true);
        let must_answer = std::mem::take(&mut self.has_moved) && surroundings.is_sound(gateway);
        let mut answer = self.say(surroundings, gateway, beat.to_vec()).await;
        if answer.is_none() && must_answer && surroundings.is_sound(gateway) {
            return Err(format!("{} is not challenged", self.from));
        }
        if let Some(Answer::Challenge(challenge)) = answer {
            self.counter.channel = challenge.cookie.channel();
            let counter = self.next();
            let cookie = challenge.cookie;
            let hello = wire::hello_to(&self.key, &self.session, counter, cookie, &self.ticket);
            answer = self.say(surroundings, gateway, hello).await;
        }
        Ok(match answer {
            Some(Answer::Ack(ack)) => Asked::Answered(as_request(&ack, live_id)),
            _ => Asked::Unanswered,
        })
    }

    /// Leaves. Returns what a request would be answered.
    pub(super) async fn leave(
        &mut self,
        surroundings: &impl Surroundings,
        gateway: usize,
    ) -> Asked {
        if !surroundings.listens(gateway) {
            return Asked::Nobody;
        }
        let counter = self.next();
        let leave = wire::leave(&self.key, &self.session, counter);
        match self.say(surroundings, gateway, leave.to_vec()).await {
            Some(Answer::Ack(ack)) if ack.status == Status::Left => {
                Asked::Answered(answer(204, Value::Null))
            }
            _ => Asked::Unanswered,
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
fn as_request(ack: &Ack, live_id: &str) -> super::Answer {
    let taken = answer(200, json!({"live_id": live_id}));
    match ack.status {
        Status::Here => taken,
        // A gateway that has not taken the session over has no figures for it.
        Status::Move if ack.viewers == 0 => answer(503, json!({"code": "draining"})),
        Status::Move => super::Answer {
            closes: true,
            ..taken
        },
        _ => answer(404, json!({"code": "session_unknown"})),
    }
}
