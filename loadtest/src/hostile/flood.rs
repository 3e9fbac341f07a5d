//! Strangers who send datagrams that no app has sent, as fast as asked, beside one app that beats
//! by datagram.

#![allow(
    clippy::disallowed_methods,
    reason = "the machine's own time is measured, on threads that may block"
)]

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use quinn_udp::{Transmit, UdpSocketState};
use rollcall::edge::datagrams::wire::SHORT;
use serde_json::json;

use crate::bench::generator::pace::{Clients, NAP};
use crate::bench::sessions::datagrams::DatagramClients;
use crate::client::presence::Session;

/// How many datagrams strangers send in a second, all together. They send fewer if the machine is
/// too slow.
const A_SECOND: u32 = 200_000;

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

/// What is answered to strangers, and to the app.
pub(super) const UNHARMED: &str = "only the app is answered";

/// What a stranger did.
#[derive(Debug, Default)]
struct Flooded {
    sent: u64,
    /// Datagrams that came back.
    answers: u64,
}

/// Has the strangers flood the gateway, beside an app with this viewer's token. Who was answered, in
/// words; how many datagrams the strangers sent in a second goes to standard error.
pub(super) async fn flood(
    gateway: SocketAddr,
    token: &str,
    live_id: &str,
) -> anyhow::Result<String> {
    let joined = reqwest::Client::new()
        .post(format!("http://{gateway}/v1/presence"))
        .bearer_auth(token)
        .json(&json!({"live_id": live_id}))
        .send()
        .await?
        .error_for_status()?;
    let session: Session = joined.json().await?;
    tokio::task::spawn_blocking(move || beside_an_app(&session)).await?
}

fn beside_an_app(session: &Session) -> anyhow::Result<String> {
    let offer = session.udp.as_ref().context("no datagrams are taken")?;
    let target = *offer.addresses().first().context("no address")?;
    let key = offer.session_key().context("no session")?;
    let mut app = DatagramClients::of(std::slice::from_ref(session))?;
    app.say_hello()?;
    app.seen = Default::default();

    let is_over = AtomicBool::new(false);
    let began = Instant::now();
    let (flooded, beats) = thread::scope(|scope| {
        let mut strangers = Vec::new();
        for _ in 0..STRANGERS {
            strangers.push(scope.spawn(|| send(target, key.as_bytes(), &is_over)));
        }
        let beats = beat(&mut app, began);
        is_over.store(true, Ordering::Relaxed);
        let mut flooded = Flooded::default();
        for stranger in strangers {
            let one = stranger
                .join()
                .map_err(|_| anyhow!("a stranger panicked"))??;
            flooded.sent += one.sent;
            flooded.answers += one.answers;
        }
        anyhow::Ok((flooded, beats?))
    })?;
    eprintln!(
        "  {:.0} datagrams a second",
        flooded.sent as f64 / began.elapsed().as_secs_f64()
    );
    app.leave()?;
    Ok(match flooded.answers {
        0 if beats.answered * 100 >= beats.sent * ANSWERED_PERCENT => UNHARMED.to_owned(),
        0 => format!("{} of {} beats answered", beats.answered, beats.sent),
        answers => format!("{answers} answers to strangers"),
    })
}

/// The beats of the app.
struct Beats {
    sent: u64,
    answered: u64,
}

fn beat(app: &mut DatagramClients, began: Instant) -> anyhow::Result<Beats> {
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
    Ok(Beats {
        sent: app.seen.beats,
        answered: app.seen.answered,
    })
}

/// Sends forged beats of the app's own session, and beats of sessions that do not exist.
fn send(target: SocketAddr, session: &[u8], is_over: &AtomicBool) -> anyhow::Result<Flooded> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let state = UdpSocketState::new((&socket).into())?;
    let at_once = (AT_ONCE as usize).min(state.max_gso_segments());
    let pause = Duration::from_secs(1) * STRANGERS * at_once as u32 / A_SECOND;
    let mut flooded = Flooded::default();
    let mut next = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        let mut datagrams = Vec::with_capacity(at_once * SHORT);
        for number in 0..at_once {
            let is_forged = number % 2 == 0;
            datagrams.extend(false_beat(is_forged.then_some(session)));
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
fn false_beat(session: Option<&[u8]>) -> [u8; SHORT] {
    const BEAT_THAT_WANTS_AN_ANSWER: [u8; 2] = [0x11, 1];
    let mut datagram: [u8; SHORT] = rand::random();
    datagram[..2].copy_from_slice(&BEAT_THAT_WANTS_AN_ANSWER);
    if let Some(session) = session {
        datagram[2..2 + session.len()].copy_from_slice(session);
    }
    datagram
}
