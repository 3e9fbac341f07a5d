//! Owns the verbs of somebody who watches a live's counts.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use rollcall::store::REBUILD;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::viewer::Viewer;
use super::wait::PATIENCE;

/// A number of viewers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Viewers(pub u64);

/// A number of fans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fans(pub u64);

/// So many viewers.
pub fn viewers(n: u64) -> Viewers {
    Viewers(n)
}

/// So many fans.
pub fn fans(n: u64) -> Fans {
    Fans(n)
}

/// A `counts` message, and when it was read.
#[derive(Debug, Clone)]
pub struct Counts {
    /// When.
    pub at: Instant,
    /// What.
    pub json: Value,
}

impl Counts {
    /// A number in it.
    pub fn number(&self, field: &str) -> u64 {
        self.json[field]
            .as_u64()
            .unwrap_or_else(|| panic!("no {field} in {}", self.json))
    }

    /// Whether the figures are these.
    pub fn are(&self, viewers: Viewers, fans: Fans) -> bool {
        self.number("viewers") == viewers.0 && self.number("fans") == fans.0
    }
}

/// A socket that watches one live.
#[derive(Debug)]
pub struct Dashboard {
    socket: Viewer,
    /// Every `counts` that was heard, oldest first.
    pub log: Vec<Counts>,
}

impl Dashboard {
    /// A socket that watches already, or is about to.
    pub fn at(socket: Viewer) -> Self {
        Self {
            socket,
            log: Vec::new(),
        }
    }

    /// Watches a live, and waits for the figures that come at once.
    pub async fn watch(&mut self, live: &str) -> Counts {
        self.socket
            .say(json!({"type": "watch", "live_id": live}))
            .await;
        self.next().await
    }

    /// The next `counts`.
    pub async fn next(&mut self) -> Counts {
        let (at, json) = self.socket.expect_timed("counts").await;
        self.keep(at, json)
    }

    /// Waits until the newest figures are these; the message that brought them.
    pub async fn sees(&mut self, viewers: Viewers, fans: Fans) -> Counts {
        let what = format!("{viewers:?} {fans:?}");
        self.sees_that(&what, |counts| counts.are(viewers, fans))
            .await
    }

    /// Waits until the newest `counts` are of this quality.
    pub async fn sees_quality(&mut self, quality: &str) -> Counts {
        self.sees_that(quality, |counts| counts.json["quality"] == quality)
            .await
    }

    /// Waits until the newest `counts` are as wished. After a loss they are in doubt for a while.
    pub async fn sees_that(&mut self, what: &str, wish: impl Fn(&Counts) -> bool) -> Counts {
        let deadline = Instant::now() + REBUILD + PATIENCE;
        loop {
            self.catch_up(Instant::now()).await;
            if let Some(newest) = self.log.last().filter(|newest| wish(newest)) {
                return newest.clone();
            }
            match self.socket.hear_kind("counts", deadline).await {
                Some((at, json)) => drop(self.keep(at, json)),
                None => panic!(
                    "the dashboard never saw {what}; {}; {}",
                    self.seen(),
                    self.socket.transcript()
                ),
            }
        }
    }

    /// Listens for a while; everything heard is in the log.
    pub async fn listen(&mut self, span: Duration) {
        self.catch_up(Instant::now() + span).await;
    }

    async fn catch_up(&mut self, deadline: Instant) {
        while let Some((at, json)) = self.socket.hear_kind("counts", deadline).await {
            self.keep(at, json);
        }
    }

    fn keep(&mut self, at: Instant, json: Value) -> Counts {
        let counts = Counts { at, json };
        if let Some(last) = self.log.last()
            && last.json["live_id"] == counts.json["live_id"]
            && last.json["epoch"] == counts.json["epoch"]
        {
            assert!(
                counts.number("seq") > last.number("seq"),
                "seq grows: {} then {}",
                last.json,
                counts.json
            );
        }
        self.log.push(counts.clone());
        counts
    }

    /// The figures seen, shortly.
    pub fn seen(&self) -> String {
        let line = |c: &Counts| {
            format!(
                "#{} {}v {}f {}",
                c.json["seq"], c.json["viewers"], c.json["fans"], c.json["quality"]
            )
        };
        let newest: Vec<_> = self.log.iter().rev().take(12).rev().map(line).collect();
        format!("seen: [{}]", newest.join(", "))
    }
}

impl Deref for Dashboard {
    type Target = Viewer;

    fn deref(&self) -> &Viewer {
        &self.socket
    }
}

impl DerefMut for Dashboard {
    fn deref_mut(&mut self) -> &mut Viewer {
        &mut self.socket
    }
}
