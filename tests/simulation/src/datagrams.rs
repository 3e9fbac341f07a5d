//! The datagrams of a session without a socket, and somebody who overhears those of all sessions
//! and sends them again: to any gateway, from anywhere, also with the address of their sender.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use rand::{RngExt, SeedableRng};
use rollcall::base::session_key::SessionKey;
use rollcall::edge::datagrams::wire::{self, Ack, Answer, Counter, DatagramKey, Status};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::expectation::User;
use crate::network::derived;
use crate::world::{self, Asked, World};

/// How many datagrams the eavesdropper remembers.
const REMEMBERED: usize = 500;

/// The eavesdropper sends one so often, in seconds.
const REPEATED_EVERY: std::ops::Range<f64> = 0.01..0.3;

/// Where the eavesdropper is.
const ELSEWHERE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9)), 53);

/// What the eavesdropper has heard, each with its sender.
#[derive(Default)]
pub(crate) struct Overheard(Mutex<VecDeque<(Vec<u8>, SocketAddr)>>);

impl Overheard {
    fn note(&self, datagram: &[u8], from: SocketAddr) {
        let mut heard = self.0.lock();
        if heard.len() == REMEMBERED {
            heard.pop_front();
        }
        heard.push_back((datagram.to_vec(), from));
    }

    fn any(&self, rng: &mut StdRng) -> Option<(Vec<u8>, SocketAddr)> {
        self.0.lock().iter().choose(rng).cloned()
    }
}

/// Repeats what was overheard.
pub(crate) async fn eavesdrop(world: Arc<World>) {
    let mut rng = StdRng::seed_from_u64(derived(world.plan.seed, "eavesdropper"));
    loop {
        sleep(Duration::from_secs_f64(rng.random_range(REPEATED_EVERY))).await;
        let Some((datagram, sender)) = world.overheard.any(&mut rng) else {
            continue;
        };
        let gateway = rng.random_range(0..world.plan.gateways);
        let from = if rng.random_bool(0.5) {
            sender
        } else {
            ELSEWHERE
        };
        // Nobody waits for the answer.
        drop(world.datagram(gateway, datagram, from));
    }
}

/// How a session beats by datagram, as its device knows it.
pub(crate) struct Datagrams {
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
    pub(crate) fn of(joined: &Value, user: User, device: usize) -> Option<Self> {
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
    pub(crate) fn renew(&mut self, newer: Self) {
        self.ticket = newer.ticket;
        self.counter.channel = 0;
    }

    /// The next datagrams come from another port.
    pub(crate) fn change_address(&mut self) {
        let port = self.from.port().checked_add(1).unwrap_or(1_024);
        self.from.set_port(port);
        self.has_moved = true;
    }

    fn next(&mut self) -> Counter {
        self.counter.number += 1;
        self.counter
    }

    /// The answer to a datagram; `None` if none comes.
    async fn say(&self, world: &World, gateway: usize, datagram: Vec<u8>) -> Option<Answer> {
        world.overheard.note(&datagram, self.from);
        let answer = world.datagram(gateway, datagram, self.from)?;
        let answer = world::within_patience(answer).await??;
        Answer::read(&answer, &self.key)
    }

    /// Sends a beat, and if it is challenged a hello. Returns what a request would be answered.
    pub(crate) async fn beat(&mut self, world: &World, gateway: usize, live_id: &str) -> Asked {
        if !world.listens(gateway) {
            return Asked::Nobody;
        }
        if self.gateway.replace(gateway) != Some(gateway) {
            // A beat for another gateway must not be one for the former.
            self.counter.channel = 0;
        }
        let counter = self.next();
        let beat = wire::beat(&self.key, &self.session, counter, true);
        let must_answer = std::mem::take(&mut self.has_moved) && world.is_sound(gateway);
        let mut answer = self.say(world, gateway, beat.to_vec()).await;
        if answer.is_none() && must_answer && world.is_sound(gateway) {
            let from = self.from;
            world.found(format!("gateway {gateway} does not challenge {from}"));
        }
        if let Some(Answer::Challenge(challenge)) = answer {
            self.counter.channel = challenge.cookie.channel();
            let counter = self.next();
            let cookie = challenge.cookie;
            let hello = wire::hello_to(&self.key, &self.session, counter, cookie, &self.ticket);
            answer = self.say(world, gateway, hello).await;
        }
        match answer {
            Some(Answer::Ack(ack)) => Asked::Answered(as_request(&ack, live_id)),
            _ => Asked::Unanswered,
        }
    }

    /// Leaves. Returns what a request would be answered.
    pub(crate) async fn leave(&mut self, world: &World, gateway: usize) -> Asked {
        if !world.listens(gateway) {
            return Asked::Nobody;
        }
        let counter = self.next();
        let leave = wire::leave(&self.key, &self.session, counter);
        match self.say(world, gateway, leave.to_vec()).await {
            Some(Answer::Ack(ack)) if ack.status == Status::Left => {
                Asked::Answered(answer(204, Value::Null))
            }
            _ => Asked::Unanswered,
        }
    }
}

fn answer(status: u16, body: Value) -> world::Answer {
    world::Answer {
        status,
        body,
        closes: false,
    }
}

/// What a request that says the same would have been answered.
fn as_request(ack: &Ack, live_id: &str) -> world::Answer {
    let taken = answer(200, json!({"live_id": live_id}));
    match ack.status {
        Status::Here => taken,
        // A gateway that has not taken the session over has no figures for it.
        Status::Move if ack.viewers == 0 => answer(503, json!({"code": "draining"})),
        Status::Move => world::Answer {
            closes: true,
            ..taken
        },
        _ => answer(404, json!({"code": "session_unknown"})),
    }
}
