//! What hostile clients do, and the documented answer to each: `docs/security.md`,
//! `docs/websocket.md` and `docs/http.md` have them.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::flood::{ALL_BIND, Flood, TOLD_SELDOM, UNHARMED};
use super::issuer::Forgery;
use super::neighbours::{self, SPARED};
use super::occupation::{ANSWERED, Occupation};
use super::publishers::{self, LET_IN};
use super::scene::Scene;
use super::wire::{ENDED, Wire, fragment, frame, text};

/// Connections that one client holds half open.
pub(super) const HALF_OPEN: usize = 5_000;

/// No client waits longer for its answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Between the end of a hostile client and the next one in its place.
const BREATH: Duration = Duration::from_millis(20);

/// Nine messages a second are within the message rate.
const BETWEEN: Duration = Duration::from_millis(110);

const A_MINUTE: Duration = Duration::from_secs(60);

/// With reserved bit 1, which means "compressed", and final.
const COMPRESSED_TEXT: u8 = 0xC1;

pub(super) struct Attack {
    pub(super) name: &'static str,
    pub(super) expected: &'static str,
    /// How many do it at a time, each again and again.
    clients: usize,
    act: Act,
}

/// What one client does.
#[derive(Debug, Clone, Copy)]
enum Act {
    /// Connects with a forged token.
    Enter(Forgery),
    /// Joins with a token that is good for another live.
    Trespass,
    /// Says something that a viewer must not, about the live of the run.
    Say(&'static str),
    /// Calls the HTTP API with a viewer's token.
    Call,
    /// Sends this after the upgrade.
    Send(fn() -> Vec<u8>),
    /// Sends a frame each millisecond.
    Flood(fn(u64) -> Vec<u8>),
    /// Offers compression, and uses it.
    Bomb,
    /// Sends a request, or after the upgrade a frame, at a byte a minute.
    Dribble { upgraded: Upgraded },
    /// Holds connections with half a request each.
    HoldHalfOpen,
    /// Makes the gateway talk and does not read.
    NeverRead,
    /// Keeps every slot for connections busy, from one address.
    Occupy(Occupation),
    /// Sends datagrams, beside apps.
    SendDatagrams(Flood),
    /// Sends senseless ids of sessions from the address of viewers who beat over HTTP.
    GuessIds,
    /// Tries stream keys on which the platform fails, beside an honest publisher.
    Publish,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Upgraded {
    Yes,
    No,
}

const fn attack(name: &'static str, expected: &'static str, act: Act) -> Attack {
    let clients = match act {
        Act::HoldHalfOpen
        | Act::NeverRead
        | Act::Occupy(_)
        | Act::SendDatagrams(_)
        | Act::GuessIds
        | Act::Publish => 1,
        _ => 4,
    };
    Attack {
        name,
        expected,
        clients,
        act,
    }
}

const UNAUTHORIZED: &str = "401 unauthorized";
const FORBIDDEN: &str = "error forbidden";
const TOO_FAST: &str = "error rate_limited, close 4008";

pub(super) const ALL: &[Attack] = &[
    attack("no token", UNAUTHORIZED, Act::Enter(Forgery::NoToken)),
    attack("expired token", UNAUTHORIZED, Act::Enter(Forgery::Expired)),
    attack(
        "token of another key",
        UNAUTHORIZED,
        Act::Enter(Forgery::WrongKey),
    ),
    attack(
        "token with alg none",
        UNAUTHORIZED,
        Act::Enter(Forgery::AlgNone),
    ),
    attack(
        "HS256 with the public key",
        UNAUTHORIZED,
        Act::Enter(Forgery::PublicKeyAsSecret),
    ),
    attack("token for another live", FORBIDDEN, Act::Trespass),
    attack("viewer opens a live", FORBIDDEN, Act::Say("open")),
    attack("viewer closes the live", FORBIDDEN, Act::Say("close")),
    attack("viewer watches the live", FORBIDDEN, Act::Say("watch")),
    attack("viewer calls /v1", "403 forbidden", Act::Call),
    attack(
        "message of 4 KiB + 1",
        "close 1009",
        Act::Send(|| text(&"x".repeat(4_097))),
    ),
    attack("frame of a tebibyte", "close 1009", Act::Send(tebibyte)),
    attack(
        "endless short fragments",
        TOO_FAST,
        Act::Flood(|number| fragment(number, b"x")),
    ),
    attack(
        "endless long fragments",
        "close 1009",
        Act::Flood(|number| fragment(number, &[b'x'; 1_024])),
    ),
    attack("compressed frame", "not negotiated, close 1002", Act::Bomb),
    attack(
        "1,000 messages a second",
        TOO_FAST,
        Act::Flood(|_| text(r#"{"type":"heartbeat"}"#)),
    ),
    attack(
        "request at a byte a minute",
        ENDED,
        Act::Dribble {
            upgraded: Upgraded::No,
        },
    ),
    attack(
        "frame at a byte a minute",
        "close 4000",
        Act::Dribble {
            upgraded: Upgraded::Yes,
        },
    ),
    attack("5,000 half-open handshakes", ENDED, Act::HoldHalfOpen),
    attack("never reads", "closed as slow_consumer", Act::NeverRead),
    attack(
        "busy keep-alive everywhere",
        ANSWERED,
        Act::Occupy(Occupation::BusyKeepAlive),
    ),
    attack(
        "half-open everywhere",
        ANSWERED,
        Act::Occupy(Occupation::HalfOpen),
    ),
    attack(
        "slow bodies everywhere",
        ANSWERED,
        Act::Occupy(Occupation::SlowBody),
    ),
    attack(
        "refused upgrades everywhere",
        ANSWERED,
        Act::Occupy(Occupation::RefusedUpgrade),
    ),
    attack(
        "flood of false datagrams",
        UNHARMED,
        Act::SendDatagrams(Flood::False),
    ),
    attack(
        "copies of datagrams",
        ALL_BIND,
        Act::SendDatagrams(Flood::Copies),
    ),
    attack(
        "hellos of dead sessions",
        TOLD_SELDOM,
        Act::SendDatagrams(Flood::HellosOfDeadSessions),
    ),
    attack("1,000 senseless ids a second", SPARED, Act::GuessIds),
    attack("20 hostile publishers a second", LET_IN, Act::Publish),
];

/// The header of a frame of 2^40 bytes, and the first of them.
fn tebibyte() -> Vec<u8> {
    let header = [0x81, 0xFF, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    [&header[..], &[b'x'; 16 * 1_024]].concat()
}

impl Attack {
    /// One client after another in the place with this number, until `deadline`; each answer that
    /// came.
    pub(super) async fn place(
        &self,
        scene: &Scene,
        number: usize,
        deadline: Instant,
    ) -> anyhow::Result<Vec<String>> {
        let user = format!("mallory{number}");
        let mut answers = Vec::new();
        while answers.is_empty() || Instant::now() < deadline {
            let answer = timeout(PATIENCE, self.act.carry_out(scene, &user));
            answers.push(match answer.await {
                Ok(answer) => answer.with_context(|| self.name)?,
                Err(_) => format!("no answer within {PATIENCE:?}"),
            });
            tokio::time::sleep(BREATH).await;
        }
        Ok(answers)
    }

    pub(super) fn places(&self) -> std::ops::Range<usize> {
        0..self.clients
    }
}

impl Act {
    /// The answer, in words.
    async fn carry_out(self, scene: &Scene, user: &str) -> anyhow::Result<String> {
        let address = scene.gateway.server.addr;
        let live_id = &scene.live_id;
        let viewer = || scene.issuer.viewer(user, &json!({}));
        match self {
            Self::Enter(how) => {
                let token = scene.issuer.forged(&scene.absent_fan, how)?;
                let query = format!("token={token}&live_id={live_id}");
                let answer = Wire::connect(address).await?.upgrade(&query, "").await?;
                Ok(answer.map_or_else(|refused| refused, |_| "let in".to_owned()))
            }
            Self::Trespass => {
                let token = scene
                    .issuer
                    .viewer(&scene.absent_fan, &json!({"lives": ["another"]}))?;
                say(enter(address, &token).await?, "join", live_id).await
            }
            Self::Say(kind) => say(enter(address, &viewer()?).await?, kind, live_id).await,
            Self::Call => call(scene, &viewer()?).await,
            Self::Send(bytes) => {
                let mut wire = enter(address, &viewer()?).await?;
                wire.send(&bytes()).await;
                wire.hear_out().await
            }
            Self::Flood(frame) => enter(address, &viewer()?).await?.flood(frame).await,
            Self::Bomb => bomb(address, &viewer()?).await,
            Self::Dribble {
                upgraded: Upgraded::No,
            } => dribble(Wire::connect(address).await?, b"GET /ws").await,
            Self::Dribble {
                upgraded: Upgraded::Yes,
            } => {
                dribble(
                    enter(address, &viewer()?).await?,
                    &text(r#"{"type":"heartbeat"}"#),
                )
                .await
            }
            Self::HoldHalfOpen => hold_half_open(address).await,
            Self::NeverRead => never_read(scene, &viewer()?).await,
            Self::Occupy(how) => {
                let streamer = scene.issuer.viewer(user, &json!({"role": "streamer"}))?;
                let other = scene.issuer.viewer("other", &json!({}))?;
                how.carry_out(scene.proxied.server.addr, &streamer, &other)
                    .await
            }
            Self::GuessIds => neighbours::guess(scene).await,
            Self::SendDatagrams(flood) => flood.carry_out(scene, user).await,
            Self::Publish => publishers::publish(&scene.gateway).await,
        }
    }
}

async fn enter(address: SocketAddr, token: &str) -> anyhow::Result<Wire> {
    let mut wire = Wire::connect(address).await?;
    match wire.upgrade(&format!("token={token}"), "").await? {
        Ok(_) => Ok(wire),
        Err(refused) => bail!("a good token was refused: {refused}"),
    }
}

async fn say(mut wire: Wire, kind: &str, live_id: &str) -> anyhow::Result<String> {
    wire.send(&text(
        &json!({"type": kind, "live_id": live_id}).to_string(),
    ))
    .await;
    wire.next().await
}

/// Tries routes of all kinds; they all have the same answer.
async fn call(scene: &Scene, token: &str) -> anyhow::Result<String> {
    let Scene {
        live_id, gateway, ..
    } = scene;
    let mut answers: Vec<String> = Vec::new();
    for route in [
        "GET /v1/lives",
        "DELETE /v1/lives/LIVE",
        "GET /v1/lives/LIVE/fans",
        "DELETE /v1/lives/LIVE/viewers/u1",
    ] {
        let route = route.replace("LIVE", live_id);
        let head =
            format!("{route} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\r\n");
        let answer = Wire::connect(gateway.server.addr)
            .await?
            .request(&head)
            .await?;
        let answer = answer.unwrap_or_else(|answer| answer);
        if !answers.contains(&answer) {
            answers.push(answer);
        }
    }
    Ok(answers.join(", "))
}

async fn bomb(address: SocketAddr, token: &str) -> anyhow::Result<String> {
    let mut wire = Wire::connect(address).await?;
    let offer = "sec-websocket-extensions: permessage-deflate; client_max_window_bits\r\n";
    let head = match wire.upgrade(&format!("token={token}"), offer).await? {
        Ok(head) => head,
        Err(refused) => return Ok(refused),
    };
    let negotiated = if head.contains("sec-websocket-extensions") {
        "negotiated"
    } else {
        "not negotiated"
    };
    // A block of deflate that repeats one byte 258 times, over and over.
    let bomb: Vec<u8> = [0x4B, 0x04].into_iter().chain([0x00; 2_000]).collect();
    wire.send(&frame(COMPRESSED_TEXT, &bomb)).await;
    Ok(format!("{negotiated}, {}", wire.hear_out().await?))
}

async fn dribble(mut wire: Wire, bytes: &[u8]) -> anyhow::Result<String> {
    for byte in bytes {
        wire.send(&[*byte]).await;
        if let Ok(said) = timeout(A_MINUTE, wire.hear_out()).await {
            return said;
        }
    }
    Ok("let go on".to_owned())
}

async fn hold_half_open(address: SocketAddr) -> anyhow::Result<String> {
    let mut connections = JoinSet::new();
    for _ in 0..HALF_OPEN {
        connections.spawn(async move {
            let mut wire = Wire::connect(address).await?;
            // Everything but the empty line. The answer is awaited by a request that adds nothing.
            wire.send(b"GET /ws HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\n")
                .await;
            anyhow::Ok(wire.request("").await?.unwrap_or_else(|answer| answer))
        });
    }
    let mut answers: Vec<String> = Vec::new();
    while let Some(answer) = connections.join_next().await {
        let answer = answer??;
        if !answers.contains(&answer) {
            answers.push(answer);
        }
    }
    Ok(answers.join(", "))
}

/// A client that does not read cannot see why it was closed; the gateway's metrics tell.
async fn never_read(scene: &Scene, token: &str) -> anyhow::Result<String> {
    const CLOSED: &str = r#"rollcall_sockets_closed_total{why="slow_consumer"}"#;
    let before = scene.gateway.metric(CLOSED).await.unwrap_or_default();
    let mut wire = Wire::connect_narrow(scene.gateway.server.addr).await?;
    if let Err(refused) = wire.upgrade(&format!("token={token}"), "").await? {
        return Ok(refused);
    }
    // The longest answers that a viewer gets have the request's own id.
    let request = text(&json!({"type": "heartbeat", "id": "x".repeat(3_900)}).to_string());
    let deadline = Instant::now() + PATIENCE - BREATH;
    let mut talking = true;
    while Instant::now() < deadline {
        // A gateway that waits for room reads little, so at last nothing more can be sent.
        talking = talking && matches!(timeout(BETWEEN, wire.send(&request)).await, Ok(true));
        tokio::time::sleep(BETWEEN).await;
        if scene.gateway.metric(CLOSED).await.unwrap_or_default() > before {
            return Ok("closed as slow_consumer".to_owned());
        }
    }
    Ok("not closed".to_owned())
}
