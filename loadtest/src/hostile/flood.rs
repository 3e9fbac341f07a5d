//! Floods of datagrams, beside apps that beat by datagram: those that no app has sent, copies of
//! what apps have sent, and hellos of sessions whose live is closed.

#![allow(
    clippy::disallowed_methods,
    reason = "the machine's own time is measured, on threads that may block"
)]

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use quinn_udp::{Transmit, UdpSocketState};
use reqwest::Method;
use rollcall::base::session_key::SessionKey;
use rollcall::features::datagrams::wire::{self, Cookie, DatagramAnswer, DatagramStatus, SHORT};
use serde_json::json;
use simulation::crowd::datagrams::DatagramSession;

use super::scene::Scene;

use crate::bench::generator::datagrams::DatagramClients;
use crate::bench::generator::pace::{Clients, NAP};
use crate::client::presence::Begun;

/// How many false datagrams strangers send in a second, all together. They send fewer if the machine
/// is too slow.
const FALSE_A_SECOND: u32 = 200_000;

/// How many apps there are whose datagrams strangers have overheard, and how many copies of one
/// datagram of each they send in a second.
const OVERHEARD: usize = 20;
const COPIES_A_SECOND: u32 = 2_000;

/// How often these apps change their address, and within how many beats they must have been heard
/// there; the kernel may lose one.
const MOVES: u32 = 3;
const BEATS_TO_BIND: u32 = 3;

/// How many sessions say hello whose live is closed, and how often in a second all together.
const DEAD: usize = 50;
const HELLOS_A_SECOND: u32 = 20_000;

/// A gateway tries to go on with each of them once, and again if its store did not answer in time.
const TRIED_AT_MOST: f64 = 3.0 * DEAD as f64;

/// A gateway answers each of them four times a second at most.
const ANSWERS_AT_MOST: u64 = 5 * DEAD as u64 * HELLOS_FOR.as_secs();

/// How long they do.
const HELLOS_FOR: Duration = Duration::from_secs(3);

/// A session gets a cookie within this time, even on a busy machine.
const CHALLENGED_WITHIN: Duration = Duration::from_secs(20);

/// A cookie of the gateway of the run is good for three seconds.
const COOKIE_SERVES: Duration = Duration::from_secs(2);

/// How many strangers there are, each with a thread.
const STRANGERS: u32 = 2;

/// How many datagrams a stranger hands to the kernel in one call.
const AT_ONCE: u32 = 60;

/// How long it lasts.
const FOR: Duration = Duration::from_secs(6);

/// Between two beats of the app: as often as a gateway answers.
const BEAT: Duration = Duration::from_millis(300);

/// The last answers come within this time.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// How many beats in a hundred are answered at least. The kernel drops what does not fit into the
/// gateway's buffer, whoever sent it; an app tolerates two lost beats in a row.
const ANSWERED_PERCENT: u64 = 90;

/// What is sent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Flood {
    False,
    Copies,
    HellosOfDeadSessions,
}

/// What becomes of each flood.
pub(super) const UNHARMED: &str = "only the app is answered";
pub(super) const ALL_BIND: &str = "all apps bind anew";
pub(super) const TOLD_SELDOM: &str = "told seldom, Redis not asked";

/// What a stranger did.
#[derive(Debug, Default)]
struct Flooded {
    sent: u64,
    /// Datagrams that came back.
    answers: u64,
}

impl Flood {
    /// What became of it, in words. How many datagrams came in a second, and what each cost the
    /// gateway, goes to standard error.
    pub(super) async fn carry_out(self, scene: &Scene, user: &str) -> anyhow::Result<String> {
        let server = &scene.gateway.server;
        let cpu = server.cpu()?;
        let began = Instant::now();
        let (sent, outcome) = match self {
            Self::False => {
                let sessions = begin(scene, user, 1, &scene.live_id).await?;
                tokio::task::spawn_blocking(move || beside_an_app(&sessions)).await??
            }
            Self::Copies => {
                let sessions = begin(scene, user, OVERHEARD, &scene.live_id).await?;
                tokio::task::spawn_blocking(move || beside_moving_apps(&sessions)).await??
            }
            Self::HellosOfDeadSessions => hellos_of_dead_sessions(scene, user).await?,
        };
        let micros = (server.cpu()? - cpu) * 1e6 / sent as f64;
        let a_second = sent as f64 / began.elapsed().as_secs_f64();
        eprintln!(
            "  {a_second:.0} datagrams a second, {micros:.1} µs of the gateway's CPU for each"
        );
        Ok(outcome)
    }
}

/// Sessions of as many users.
async fn begin(
    scene: &Scene,
    user: &str,
    count: usize,
    live_id: &str,
) -> anyhow::Result<Vec<Begun>> {
    // The gateway may close a connection that waits for its next request, if others want its slot.
    let client = reqwest::Client::builder()
        .pool_max_idle_per_host(0)
        .build()?;
    let mut sessions = Vec::with_capacity(count);
    for number in 0..count {
        let token = scene
            .issuer
            .viewer(&format!("{user}-{number}"), &json!({}))?;
        let joined = client
            .post(format!("http://{}/v1/presence", scene.gateway.server.addr))
            .bearer_auth(token)
            .json(&json!({"live_id": live_id}))
            .send()
            .await?
            .error_for_status()?;
        sessions.push(joined.json().await?);
    }
    Ok(sessions)
}

fn target(sessions: &[Begun]) -> anyhow::Result<SocketAddr> {
    let session = sessions.first().context("no session")?;
    let offer = session.udp.as_ref().context("no datagrams are taken")?;
    offer.addresses().first().copied().context("no address")
}

/// Has strangers send what `make` makes of a number, so many a second, while `apps` does its work.
fn beside<T>(
    target: SocketAddr,
    a_second: u32,
    make: impl Fn(u32) -> [u8; SHORT] + Sync,
    apps: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<(Flooded, T)> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut strangers = Vec::new();
        for _ in 0..STRANGERS {
            strangers.push(scope.spawn(|| send(target, a_second, &make, &is_over)));
        }
        let done = apps();
        is_over.store(true, Ordering::Relaxed);
        let mut flooded = Flooded::default();
        for stranger in strangers {
            let one = stranger
                .join()
                .map_err(|_| anyhow!("a stranger panicked"))??;
            flooded.sent += one.sent;
            flooded.answers += one.answers;
        }
        Ok((flooded, done?))
    })
}

/// False beats, beside one app: half of them claim to be of its session, half are of none.
fn beside_an_app(sessions: &[Begun]) -> anyhow::Result<(u64, String)> {
    let offer = sessions[0].udp.as_ref().context("no datagrams are taken")?;
    let key = offer.session_key().context("no session")?;
    let mut app = DatagramClients::of(sessions)?;
    app.say_hello()?;
    app.seen = Default::default();
    let make = |number: u32| false_beat(number.is_multiple_of(2).then_some(&key));
    let (flooded, beats) = beside(target(sessions)?, FALSE_A_SECOND, make, || beat(&mut app))?;
    app.leave()?;
    let outcome = match flooded.answers {
        0 if beats.answered * 100 >= beats.sent * ANSWERED_PERCENT => UNHARMED.to_owned(),
        0 => format!("{} of {} beats answered", beats.answered, beats.sent),
        answers => format!("{answers} answers to strangers"),
    };
    Ok((flooded.sent, outcome))
}

/// Copies of a beat of each app, while the apps change their address again and again.
fn beside_moving_apps(sessions: &[Begun]) -> anyhow::Result<(u64, String)> {
    let mut apps = DatagramClients::of(sessions)?;
    apps.say_hello()?;
    let overheard: Vec<_> = (0..sessions.len()).map(|app| apps.overheard(app)).collect();
    let make = |number: u32| overheard[number as usize % overheard.len()];
    let a_second = COPIES_A_SECOND * sessions.len() as u32;
    let (flooded, fewest) = beside(target(sessions)?, a_second, make, || bind_anew(&mut apps))?;
    apps.leave()?;
    let outcome = if fewest == sessions.len() {
        ALL_BIND.to_owned()
    } else {
        format!("{fewest} of {} bind", sessions.len())
    };
    Ok((flooded.sent, outcome))
}

/// How many apps were heard at their new address, the fewest of all changes.
fn bind_anew(apps: &mut DatagramClients) -> anyhow::Result<usize> {
    let mut fewest = apps.count();
    for _ in 0..MOVES {
        apps.change_addresses()?;
        for _ in 0..BEATS_TO_BIND {
            for app in 0..apps.count() {
                apps.beat(app);
            }
            let next = Instant::now() + BEAT;
            while Instant::now() < next {
                apps.turn(NAP)?;
            }
        }
        fewest = fewest.min(apps.heard_from());
    }
    Ok(fewest)
}

/// The beats of the app.
struct AppBeats {
    sent: u64,
    answered: u64,
}

fn beat(app: &mut DatagramClients) -> anyhow::Result<AppBeats> {
    let began = Instant::now();
    let mut next = began;
    while began.elapsed() < FOR {
        app.turn(next.saturating_duration_since(Instant::now()))?;
        if next <= Instant::now() {
            app.beat(0);
            next += BEAT;
        }
    }
    let ended = Instant::now();
    while app.awaited() > 0 && ended.elapsed() < LAST_ANSWERS {
        app.turn(NAP)?;
    }
    Ok(AppBeats {
        sent: app.seen.beats,
        answered: app.seen.answered,
    })
}

fn send(
    target: SocketAddr,
    a_second: u32,
    make: impl Fn(u32) -> [u8; SHORT],
    is_over: &AtomicBool,
) -> anyhow::Result<Flooded> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let state = UdpSocketState::new((&socket).into())?;
    let at_once = (AT_ONCE as usize).min(state.max_gso_segments());
    let pause = Duration::from_secs(1) * STRANGERS * at_once as u32 / a_second;
    let mut flooded = Flooded::default();
    let mut number = 0;
    let mut next = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        let mut datagrams = Vec::with_capacity(at_once * SHORT);
        for _ in 0..at_once {
            datagrams.extend(make(number));
            number = number.wrapping_add(1);
        }
        let transmit = Transmit {
            destination: target,
            ecn: None,
            contents: &datagrams,
            segment_size: Some(SHORT),
            src_ip: None,
        };
        // What the kernel does not take is not sent.
        if state.try_send((&socket).into(), &transmit).is_ok() {
            flooded.sent += at_once as u64;
        }
        next += pause;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let mut buffer = [0; 2 * SHORT];
    loop {
        match socket.recv(&mut buffer) {
            Ok(_) => flooded.answers += 1,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(flooded),
            Err(error) => return Err(error.into()),
        }
    }
}

/// A beat whose code is wrong, of this session or of any.
fn false_beat(session: Option<&SessionKey>) -> [u8; SHORT] {
    const BEAT_THAT_WANTS_AN_ANSWER: [u8; 2] = [0x11, 1];
    let mut datagram: [u8; SHORT] = rand::random();
    datagram[..2].copy_from_slice(&BEAT_THAT_WANTS_AN_ANSWER);
    if let Some(session) = session {
        datagram[2..18].copy_from_slice(session.as_bytes());
    }
    datagram
}

/// Sessions whose live is closed say hello again and again, each with a good cookie.
async fn hellos_of_dead_sessions(scene: &Scene, user: &str) -> anyhow::Result<(u64, String)> {
    const TRIED: &str = r#"rollcall_datagrams_total{result="resumed"}"#;
    let gateway = &scene.gateway;
    let path = "/v1/lives/doomed";
    let body = json!({"streamer_id": "doomed", "slices": 1});
    gateway.call(Method::PUT, path, Some(body)).await?;
    let sessions = begin(scene, user, DEAD, "doomed").await?;
    gateway.call(Method::DELETE, path, None).await?;
    let before = gateway.metric(TRIED).await?;
    let flooded = tokio::task::spawn_blocking(move || say_hellos(&sessions)).await??;
    let tried = gateway.metric(TRIED).await? - before;
    let outcome = if flooded.answers > ANSWERS_AT_MOST {
        format!("{} answers", flooded.answers)
    } else if tried > TRIED_AT_MOST {
        format!("tried {tried} times to go on")
    } else {
        TOLD_SELDOM.to_owned()
    };
    Ok((flooded.sent, outcome))
}

/// A session whose live is closed, as its client knows it.
struct Dead {
    session: DatagramSession,
    number: u32,
    cookie: Cookie,
}

impl Dead {
    fn of(session: &Begun) -> anyhow::Result<Self> {
        let offer = session.udp.as_ref().context("no datagrams are taken")?;
        Ok(Self {
            session: DatagramSession::of(offer).context("no keys")?,
            number: 0,
            cookie: Cookie([0; wire::COOKIE]),
        })
    }

    fn next(&mut self) -> u32 {
        self.number += 1;
        self.number
    }

    /// Gets a cookie. Answers to former hellos may come before the challenge.
    fn is_challenged(&mut self, socket: &UdpSocket) -> anyhow::Result<()> {
        let mut buffer = [0; 2 * SHORT];
        let deadline = Instant::now() + CHALLENGED_WITHIN;
        let mut beat_at = Instant::now();
        self.session.forget_channel();
        while Instant::now() < deadline {
            if beat_at <= Instant::now() {
                let number = self.next();
                socket.send(&self.session.beat(number, true))?;
                beat_at += BEAT;
            }
            let length = match socket.recv(&mut buffer) {
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    thread::sleep(NAP);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            if let Some(DatagramAnswer::Challenge(challenge)) =
                self.session.hears(&buffer[..length])
            {
                self.cookie = challenge.cookie;
                return Ok(());
            }
        }
        Err(anyhow!("a session whose live is closed was not challenged"))
    }

    fn hello(&mut self) -> Vec<u8> {
        let number = self.next();
        self.session.hello(number, self.cookie)
    }
}

fn say_hellos(sessions: &[Begun]) -> anyhow::Result<Flooded> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(target(sessions)?)?;
    socket.set_nonblocking(true)?;
    let mut dead = Vec::with_capacity(sessions.len());
    for session in sessions {
        dead.push(Dead::of(session)?);
    }
    let mut flooded = Flooded::default();
    let mut buffer = [0; 2 * SHORT];
    let began = Instant::now();
    let pause = Duration::from_secs(1) * DEAD as u32 / HELLOS_A_SECOND;
    let mut next = began;
    let mut challenged_at = None;
    while began.elapsed() < HELLOS_FOR {
        if challenged_at.is_none_or(|at: Instant| at.elapsed() > COOKIE_SERVES) {
            for session in &mut dead {
                session.is_challenged(&socket)?;
            }
            challenged_at = Some(Instant::now());
            next = Instant::now();
        }
        for session in &mut dead {
            // What the kernel does not take is not sent.
            flooded.sent += u64::from(socket.send(&session.hello()).is_ok());
        }
        while let Ok(length) = socket.recv(&mut buffer) {
            flooded.answers += 1;
            for dead in &mut dead {
                let answer = dead.session.hears(&buffer[..length]);
                let is_here = matches!(answer, Some(DatagramAnswer::Ack(ack)) if ack.status == DatagramStatus::Here);
                ensure!(!is_here, "a session whose live is closed went on");
            }
        }
        next += pause;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(flooded)
}
