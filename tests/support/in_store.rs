//! Owns the verbs that look at the store behind a gateway, and wait until it holds what it should.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use super::redis_view::Redis;
use super::viewer::Viewer;
use super::wait::{BACK, PATIENCE, names, same, throughout, until};
use super::world::World;

impl World {
    /// Its Redis.
    pub fn redis(&self) -> &Redis {
        self.redis.as_ref().expect("this story needs Redis")
    }

    /// The fans online: by key from Redis, through the API from the memory store.
    pub async fn fans_in_store(&self, live: &str) -> BTreeSet<String> {
        match &self.redis {
            Some(redis) => redis.fans(live).await,
            None => self.backend.fans(live).await,
        }
    }

    /// How many fans are online in the store.
    pub async fn card(&self, live: &str) -> u64 {
        match &self.redis {
            Some(redis) => redis.card(live).await,
            None => self.backend.fans(live).await.len() as u64,
        }
    }

    /// Waits until exactly these fans are in the store.
    pub async fn fans_become(&self, live: &str, fans: &[&str]) {
        self.fans_become_within(live, fans, PATIENCE).await;
    }

    /// Waits, no longer than this, until exactly these fans are in the store.
    pub async fn fans_become_within(&self, live: &str, fans: &[&str], within: Duration) {
        let wanted = names(fans);
        until(&format!("the fans of {live}"), within, || async {
            same(self.fans_in_store(live).await, wanted.clone())
        })
        .await;
    }

    /// Waits, no longer than this, until so many fans are in the store.
    pub async fn card_becomes(&self, live: &str, card: u64, within: Duration) {
        until(&format!("the number of fans of {live}"), within, || async {
            same(self.card(live).await, card)
        })
        .await;
    }

    /// For so long, exactly these fans are in the store.
    pub async fn fans_stay(&self, live: &str, fans: &[&str], span: Duration) {
        let wanted = names(fans);
        throughout(&format!("the fans of {live}"), span, || async {
            same(self.fans_in_store(live).await, wanted.clone())
        })
        .await;
    }

    /// The viewers and fans of a live, as this gateway says.
    pub async fn figures(&self, live: &str) -> (u64, u64) {
        let live = self.backend.live(live).await;
        (
            live["viewers"].as_u64().unwrap(),
            live["fans"].as_u64().unwrap(),
        )
    }

    /// Waits, no longer than this, until this gateway says so many viewers and fans of a live.
    pub async fn figures_become(&self, live: &str, wanted: (u64, u64), within: Duration) {
        until(&format!("the figures of {live}"), within, async || {
            same(self.figures(live).await, wanted)
        })
        .await;
    }

    /// Waits, no longer than this, until this gateway says so many viewers of live 42.
    pub async fn viewers_become(&self, wanted: u64, within: Duration) {
        until("the viewers of the live", within, async || {
            same(self.figures("42").await.0, wanted)
        })
        .await;
    }

    /// Waits until a viewer of live 42 has so many sockets at this gateway.
    pub async fn sockets_become(&self, user: &str, wanted: u64) {
        let path = format!("/v1/gateway/lives/42/viewers/{user}");
        until("the sockets of the viewer", PATIENCE, async || {
            let known = self.backend.get(&path).await.is(200).body;
            same(known["sockets"].as_u64().unwrap_or(0), wanted)
        })
        .await;
    }

    /// Waits, no longer than this, until this gateway calls so many viewers and fans of a live exact.
    pub async fn figures_become_exact(&self, live: &str, wanted: (u64, u64), within: Duration) {
        let what = format!("the exact figures of {live} at {}", self.addr);
        let wanted = json!([wanted.0, wanted.1, "exact"]);
        until(&what, within, async || {
            let told = self.backend.get(&format!("/v1/lives/{live}")).await.body;
            same(
                json!([told["viewers"], told["fans"], told["quality"]]),
                wanted.clone(),
            )
        })
        .await;
    }

    /// Every key that has to do with a live. Those of the platform have numbers, which may be that
    /// of the live.
    pub async fn keys_of(&self, live: &str) -> BTreeSet<String> {
        let mut keys = self.redis().keys(&format!("*{live}*")).await;
        keys.retain(|key| !key.contains("online-users_slice") && !key.starts_with("last-seen:"));
        // How its figures moved outlasts the close, as the record does.
        keys.retain(|key| !key.starts_with(&format!("{{live:{live}}}:history@")));
        keys
    }

    /// Waits until the gateway says that it is ready (or not).
    pub async fn readyz_becomes(&self, status: u16) {
        until("/readyz", PATIENCE, || async {
            same(self.backend.get("/readyz").await.status, status)
        })
        .await;
    }

    /// Waits until the breaker before the source of fans is in this state.
    pub async fn breaker_becomes(&self, state: f64) {
        until("the breaker", BACK, async || {
            same(self.metric("rollcall_fan_breaker").await, state)
        })
        .await;
    }

    /// Waits until a viewer's acks carry these figures.
    pub async fn acks_become(
        &self,
        viewer: &mut Viewer,
        fan: Option<bool>,
        viewers: u64,
        fans: u64,
    ) {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let ack = viewer.heartbeat().await;
            if (ack.fan, ack.viewers, ack.fans) == (fan, viewers, fans) {
                return;
            }
            let wanted = json!({"fan": fan, "viewers": viewers, "fans": fans});
            assert!(
                tokio::time::Instant::now() < deadline,
                "{ack:?} instead of {wanted}"
            );
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    }
}
