//! A guest: a viewer beside the crowd who comes for a moment, knows what must happen next, and says
//! so if it does not. The crowd's own record leaves guests out.

use std::time::Duration;

use anyhow::{bail, ensure};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use crate::client::{self, Failure, WebSocket};
use crate::target::Target;

/// Whatever a guest waits for comes within this time.
const PATIENCE: Duration = Duration::from_secs(15);
const BEAT: Duration = Duration::from_millis(500);
/// A gateway that has refused somebody in a live that was closed remembers that for a second, also
/// if the live opens on another gateway meanwhile.
const KNOWN_WITHIN: Duration = Duration::from_secs(2);
const REMOVED: u16 = 4003;

pub(super) struct Guest {
    socket: WebSocket,
    deadline: Instant,
}

impl Guest {
    /// Connects and joins; the error is the code with which the gateway refuses the join. While the
    /// store does not answer, as on a machine that is too busy, a guest tries again.
    pub(super) async fn enter(
        target: &Target,
        user: &str,
        live: &str,
    ) -> anyhow::Result<Result<Self, String>> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match Self::try_to_enter(target, user, live).await? {
                Err(code) if code == "store_unavailable" && Instant::now() < deadline => {
                    sleep(BEAT).await
                }
                entered => return Ok(entered),
            }
        }
    }

    async fn try_to_enter(
        target: &Target,
        user: &str,
        live: &str,
    ) -> anyhow::Result<Result<Self, String>> {
        let query = format!("user_id={user}&role=viewer");
        let socket = client::connect(target, None, &query, PATIENCE)
            .await
            .map_err(failed)?;
        let mut guest = Self {
            socket,
            deadline: Instant::now() + PATIENCE,
        };
        guest
            .say(&format!(r#"{{"type":"join","live_id":"{live}","id":1}}"#))
            .await?;
        loop {
            let message = guest.hear().await?;
            match message["type"].as_str() {
                Some("joined") => return Ok(Ok(guest)),
                Some("error") => {
                    return Ok(Err(message["code"].as_str().unwrap_or("none").to_owned()));
                }
                _ => {}
            }
        }
    }

    /// Joins a live that is open, perhaps since a moment ago.
    pub(super) async fn join(target: &Target, user: &str, live: &str) -> anyhow::Result<Self> {
        let deadline = Instant::now() + KNOWN_WITHIN;
        loop {
            match Self::enter(target, user, live).await? {
                Ok(guest) => return Ok(guest),
                Err(code) if code == "live_not_open" && Instant::now() < deadline => {
                    sleep(BEAT).await
                }
                Err(code) => bail!("{user} may not join {live}: {code}"),
            }
        }
    }

    /// Waits until the gateway says that this user is a fan.
    pub(super) async fn is_fan(&mut self) -> anyhow::Result<()> {
        self.is_told(&Value::Bool(true)).await
    }

    /// Waits until the gateway says that this user is no fan.
    pub(super) async fn is_no_fan(&mut self) -> anyhow::Result<()> {
        self.is_told(&Value::Bool(false)).await
    }

    async fn is_told(&mut self, fan: &Value) -> anyhow::Result<()> {
        self.deadline = Instant::now() + PATIENCE;
        loop {
            self.say(r#"{"type":"heartbeat"}"#).await?;
            if self.until("heartbeat_ack").await?["fan"] == *fan {
                return Ok(());
            }
            ensure!(Instant::now() < self.deadline, "is never told `fan`: {fan}");
            sleep(BEAT).await;
        }
    }

    /// Waits for a message of this type.
    pub(super) async fn next(&mut self, kind: &str) -> anyhow::Result<Value> {
        self.deadline = Instant::now() + PATIENCE;
        self.until(kind).await
    }

    /// The same, until the present deadline. Nothing else is to be expected of a live that has
    /// closed.
    async fn until(&mut self, kind: &str) -> anyhow::Result<Value> {
        loop {
            let message = self.hear().await?;
            if message["type"] == kind {
                return Ok(message);
            }
            ensure!(message["type"] != "closed", "the live closed");
        }
    }

    /// Waits until the gateway has closed the socket as that of a removed user.
    pub(super) async fn until_removed(mut self) -> anyhow::Result<()> {
        self.deadline = Instant::now() + PATIENCE;
        loop {
            match timeout_at(self.deadline, client::receive(&mut self.socket)).await? {
                Ok(_) => {}
                Err(Failure {
                    code: Some(REMOVED),
                    ..
                }) => return Ok(()),
                Err(failure) => return Err(failed(failure)),
            }
        }
    }

    /// Closes cleanly.
    pub(super) async fn leave(mut self) -> anyhow::Result<()> {
        client::send_close(&mut self.socket).await.map_err(failed)?;
        Ok(timeout_at(Instant::now() + PATIENCE, client::drain(&mut self.socket)).await?)
    }

    async fn say(&mut self, text: &str) -> anyhow::Result<()> {
        client::send(&mut self.socket, text.to_owned())
            .await
            .map_err(failed)
    }

    async fn hear(&mut self) -> anyhow::Result<Value> {
        let text = timeout_at(self.deadline, client::receive(&mut self.socket))
            .await?
            .map_err(failed)?;
        Ok(serde_json::from_str(&text)?)
    }
}

fn failed(failure: Failure) -> anyhow::Error {
    anyhow::Error::new(failure).context("a socket")
}
