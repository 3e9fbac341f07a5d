//! Owns a viewer who beats by datagram: an app with a UDP socket, and somebody who sends what they
//! recorded or made up.

use std::net::SocketAddr;
use std::time::Duration;

use data_encoding::BASE64URL_NOPAD;
use rollcall::base::session_key::SessionKey;
use rollcall::config::Config;
use rollcall::features::datagrams::wire;
use rollcall::features::datagrams::wire::{
    Cookie, Counter, DatagramAck, DatagramAnswer, DatagramKey, DatagramStatus,
};
use serde_json::Value;
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::presence::with_shared_sessions;
use super::wait::PATIENCE;
use super::world::World;

/// How long a story waits for an answer before the next try: datagrams may be lost on a busy
/// machine.
const TRY_AGAIN: Duration = Duration::from_millis(300);

/// Has the gateways of a story take datagrams, and go on with each other's sessions.
pub fn with_datagrams(config: &mut Config) {
    with_shared_sessions(config);
    config.udp = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
}

/// Where a gateway takes datagrams.
pub async fn udp_address(world: &World) -> SocketAddr {
    world.open("where").await;
    let caller = world.caller("somebody", "where").await;
    caller.leave(world).await;
    let address = &caller.begun["udp"]["addresses"][0];
    address.as_str().unwrap().parse().unwrap()
}

/// A viewer's app.
pub struct App {
    session: SessionKey,
    key: DatagramKey,
    ticket: String,
    counter: Counter,
    socket: UdpSocket,
    gateway: SocketAddr,
    /// What the app has sent, oldest first.
    pub sent: Vec<Vec<u8>>,
}

impl World {
    /// A viewer who has joined, and has sent no datagram yet.
    pub async fn app(&self, user: &str, live: &str) -> App {
        let caller = self.caller(user, live).await;
        App::begin(caller.begun).await
    }

    /// A viewer who has joined, and beats by datagram.
    pub async fn app_in(&self, user: &str, live: &str) -> App {
        let mut app = self.app(user, live).await;
        app.settles().await;
        app
    }
}

async fn new_socket() -> UdpSocket {
    UdpSocket::bind("127.0.0.1:0").await.unwrap()
}

impl App {
    async fn begin(begun: Value) -> Self {
        let udp = &begun["udp"];
        let text = |field: &str| udp[field].as_str().expect(field).to_owned();
        let key = BASE64URL_NOPAD.decode(text("key").as_bytes()).unwrap();
        Self {
            session: SessionKey::parse(&text("session")).unwrap(),
            key: DatagramKey::new(&key.try_into().unwrap()),
            ticket: text("ticket"),
            counter: Counter {
                channel: 0,
                number: 0,
            },
            socket: new_socket().await,
            gateway: udp["addresses"][0].as_str().unwrap().parse().unwrap(),
            sent: Vec::new(),
        }
    }

    /// Goes to another gateway from now on.
    pub fn goes_to(&mut self, gateway: SocketAddr) {
        self.gateway = gateway;
    }

    /// Gets another address, as behind a router that forgot the app.
    pub async fn gets_another_port(&mut self) {
        self.socket = new_socket().await;
    }

    /// The address of the app.
    pub fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    // -------------------------------------------------------------------------------------- saying

    fn next(&mut self) -> Counter {
        self.counter.number += 1;
        self.counter
    }

    /// A beat that has not been sent.
    pub fn makes_beat(&mut self) -> Vec<u8> {
        let counter = self.next();
        wire::beat(&self.key, &self.session, counter, true).to_vec()
    }

    /// Sends what was made before.
    pub async fn sends(&mut self, datagram: Vec<u8>) {
        self.socket.send_to(&datagram, self.gateway).await.unwrap();
        self.sent.push(datagram);
    }

    /// Sends a datagram once more.
    pub async fn repeats(&self, datagram: &[u8]) {
        self.socket.send_to(datagram, self.gateway).await.unwrap();
    }

    async fn says_hello(&mut self, cookie: Cookie) {
        self.counter.channel = cookie.channel();
        let counter = self.next();
        let hello = wire::hello_to(&self.key, &self.session, counter, cookie, &self.ticket);
        self.sends(hello).await;
    }

    // ------------------------------------------------------------------------------------- hearing

    /// The next authentic answer; `None` if none comes in time.
    pub async fn hears(&mut self, within: Duration) -> Option<DatagramAnswer> {
        let deadline = Instant::now() + within;
        let mut buffer = [0; 2_048];
        loop {
            let received = timeout_at(deadline, self.socket.recv_from(&mut buffer)).await;
            let Ok(Ok((length, _))) = received else {
                return None;
            };
            if let Some(answer) = DatagramAnswer::read(&buffer[..length], &self.key) {
                return Some(answer);
            }
        }
    }

    /// The next ack for this datagram, if it comes within one try.
    async fn is_acked(&mut self, counter: Counter) -> Option<DatagramAck> {
        let deadline = Instant::now() + TRY_AGAIN;
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            match self.hears(left).await? {
                DatagramAnswer::Ack(ack) if ack.counter == counter => return Some(ack),
                DatagramAnswer::Challenge(challenge) if challenge.counter == self.counter => {
                    self.says_hello(challenge.cookie).await;
                    return Box::pin(self.is_acked(self.counter)).await;
                }
                _ => {}
            }
        }
        None
    }

    /// Stays in the live until the answer is dropped, as an app does: when a gateway does not
    /// answer, it goes to the next one.
    pub fn stays(mut self, gateways: Vec<SocketAddr>) -> Staying {
        Staying(tokio::spawn(async move {
            for at in (0..).map(|n: usize| n % gateways.len()) {
                self.gateway = gateways[at];
                loop {
                    let beat = self.makes_beat();
                    self.sends(beat).await;
                    let Some(ack) = self.is_acked(self.counter).await else {
                        break;
                    };
                    tokio::time::sleep(Duration::from_millis(ack.beat_ms.into())).await;
                }
            }
        }))
    }

    /// Beats until a beat, or the hello after it, is acknowledged.
    pub async fn beat(&mut self) -> DatagramAck {
        let beats = async {
            loop {
                let beat = self.makes_beat();
                self.sends(beat).await;
                if let Some(ack) = self.is_acked(self.counter).await {
                    return ack;
                }
            }
        };
        timeout(PATIENCE, beats).await.expect("an ack in time")
    }

    /// A beat that says that the user watches. The address is validated.
    pub async fn beats_watching(&mut self) {
        let counter = self.next();
        let beat = wire::watching_beat(&self.key, &self.session, counter, true).to_vec();
        self.sends(beat).await;
        assert!(self.is_acked(counter).await.is_some(), "no ack in time");
    }

    /// Has its address validated.
    pub async fn settles(&mut self) {
        assert_eq!(self.beat().await.status, DatagramStatus::Here);
    }

    /// Beats until the answer has this status.
    pub async fn hears_status(&mut self, status: DatagramStatus) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let ack = self.beat().await;
            if ack.status == status {
                return;
            }
            assert!(Instant::now() < deadline, "{ack:?} instead of {status:?}");
        }
    }

    /// Leaves, and waits until the gateway has said so.
    pub async fn leaves(&mut self) {
        let leave = async {
            loop {
                let counter = self.next();
                let datagram = wire::leave(&self.key, &self.session, counter).to_vec();
                self.sends(datagram).await;
                if let Some(ack) = self.is_acked(self.counter).await {
                    return ack;
                }
            }
        };
        let ack = timeout(PATIENCE, leave).await.expect("an ack in time");
        assert_eq!(ack.status, DatagramStatus::Left);
    }

    /// Beats for so long, as often as the gateway wants.
    pub async fn keeps_beating(&mut self, span: Duration) {
        let end = Instant::now() + span;
        while Instant::now() < end {
            let ack = self.beat().await;
            assert_eq!(ack.status, DatagramStatus::Here);
            tokio::time::sleep(Duration::from_millis(ack.beat_ms.into())).await;
        }
    }
}

/// An app that stays in its live until this is dropped.
pub struct Staying(JoinHandle<()>);

impl Drop for Staying {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a gateway counted of the datagrams with this fate.
pub async fn counted(world: &World, fate: &str) -> f64 {
    let name = format!("rollcall_datagrams_total{{result=\"{fate}\"}}");
    world.metric(&name).await
}

/// Whether nobody answers on this socket for a while.
pub async fn stays_silent(socket: &UdpSocket) -> bool {
    let mut buffer = [0; 64];
    let heard = timeout(TRY_AGAIN, socket.recv_from(&mut buffer)).await;
    heard.is_err()
}
