//! Somebody who sends senseless ids of sessions, and viewers who beat over HTTP from the same address.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::json;
use tokio::task::JoinSet;
use tokio::time::{Instant, interval, sleep_until};

use super::occupation::proxied;
use super::scene::Scene;

/// The address of all of them.
const ADDRESS: &str = "192.0.2.77";

/// How many viewers there are.
const VIEWERS: usize = 20;

/// How many senseless requests there are in a second, and who sends them.
const A_SECOND: u32 = 1_000;
const GUESSERS: u32 = 20;

/// How long it lasts, and the time between two beats.
const FOR: Duration = Duration::from_secs(3);
const BEAT: Duration = Duration::from_millis(500);

/// An id that no gateway made, of the length of a good one.
const SENSELESS: [&str; 3] = [
    "eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9",
    "e30",
    "c2Vuc2VsZXNz",
];

/// What becomes of the viewers.
pub(super) const SPARED: &str = "no honest viewer is refused";

/// Has the ids sent beside the viewers. Whether a viewer was refused, in words.
pub(super) async fn guess(scene: &Scene) -> anyhow::Result<String> {
    let address = scene.proxied.server.addr;
    let until = Instant::now() + FOR;
    let mut guessers = JoinSet::new();
    for _ in 0..GUESSERS {
        guessers.spawn(guess_until(address, until));
    }
    let mut viewers = JoinSet::new();
    for number in 0..VIEWERS {
        let token = scene
            .issuer
            .viewer(&format!("neighbour{number}"), &json!({}))?;
        viewers.spawn(watch(address, token, scene.live_id.clone(), until));
    }
    let mut refused = Vec::new();
    while let Some(viewer) = viewers.join_next().await {
        refused.extend(viewer??);
    }
    let mut sent = 0;
    while let Some(guesser) = guessers.join_next().await {
        sent += guesser??;
    }
    eprintln!(
        "  {:.0} senseless ids a second",
        sent as f64 / FOR.as_secs_f64()
    );
    refused.sort();
    refused.dedup();
    Ok(if refused.is_empty() {
        SPARED.to_owned()
    } else {
        format!("honest viewers are refused: {}", refused.join(", "))
    })
}

/// Sends one senseless id after the other, each over a connection of its own: a refusal ends it.
/// Returns how many.
async fn guess_until(address: SocketAddr, until: Instant) -> anyhow::Result<u32> {
    let mut pace = interval(Duration::from_secs(1) * GUESSERS / A_SECOND);
    let id = SENSELESS.join(".");
    let request =
        format!("POST /v1/presence/{id} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n");
    let mut sent = 0;
    while Instant::now() < until {
        pace.tick().await;
        let answer = proxied(address, ADDRESS).await?.ask(&request).await?;
        match answer {
            Some((404 | 429, _)) => sent += 1,
            // The address holds as many connections as one may.
            None => {}
            Some(other) => bail!("a senseless id is answered {other:?}"),
        }
    }
    Ok(sent)
}

/// Joins, and beats over a connection that is kept open. Returns each refusal.
async fn watch(
    address: SocketAddr,
    token: String,
    live_id: String,
    until: Instant,
) -> anyhow::Result<Option<String>> {
    let body = json!({"live_id": live_id}).to_string();
    let join = format!(
        "POST /v1/presence HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut wire = proxied(address, ADDRESS).await?;
    let id = loop {
        match wire.ask(&join).await? {
            Some((201, begun)) => {
                let id = begun["session_id"].as_str().context("no session_id")?;
                break id.to_owned();
            }
            Some((status, problem)) => return Ok(Some(format!("{status} {}", problem["code"]))),
            // A connection that was answered gives way to others of the address.
            None => wire = proxied(address, ADDRESS).await?,
        }
    };
    let beat = format!(
        "POST /v1/presence/current HTTP/1.1\r\nhost: localhost\r\nauthorization: Presence {id}\r\n\
         content-length: 0\r\n\r\n"
    );
    let mut next = Instant::now();
    while next < until {
        sleep_until(next).await;
        next += BEAT;
        loop {
            match wire.ask(&beat).await? {
                Some((200, _)) => break,
                Some((status, problem)) => {
                    return Ok(Some(format!("{status} {}", problem["code"])));
                }
                None => wire = proxied(address, ADDRESS).await?,
            }
        }
    }
    Ok(None)
}
