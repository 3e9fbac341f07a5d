//! Users of the whole platform: seen without a socket, in which live they are, and which friends
//! are there.

use std::time::Duration;

use reqwest::Method;
use rollcall::base::ids::UserId;
use rollcall::config::SeenIds;
use serde_json::{Value, json};

use crate::support::redis_view::Redis;
use crate::support::stores::{on_both_stores, on_redis, story};
use crate::support::wait::{PATIENCE, same, until};
use crate::support::world::World;

impl World {
    async fn post(&self, path: &str, body: Value) -> Value {
        let answer = self
            .backend()
            .send(Method::POST, path, Some(&body.to_string()))
            .await;
        assert!((200..300).contains(&answer.status), "{answer:?}");
        answer.body
    }

    /// What is known of a user.
    async fn status(&self, user: &str) -> Value {
        self.post("/v1/online/query", json!({"user_ids": [user]}))
            .await["items"][0]
            .take()
    }

    /// Waits until a user is known to be in this live, or in none.
    async fn is_in(&self, user: &str, live: Option<&str>) {
        self.is_in_within(user, live, PATIENCE).await;
    }

    async fn is_in_within(&self, user: &str, live: Option<&str>, within: Duration) {
        until(&format!("the live of {user}"), within, || async {
            same(self.status(user).await["live_id"].clone(), json!(live))
        })
        .await;
    }
}

on_both_stores! {
    async fn users_without_sockets_are_counted_listed_and_forgotten(world) {
        world.post("/v1/beat?user_id=u1", json!({})).await;
        world.post("/v1/online/seen", json!({"user_ids": ["u2", "u3"]})).await;
        let count = world.backend().get("/v1/online/count?window_s=60").await.is(200).body;
        assert_eq!((&count["count"], &count["exact"]), (&json!(3), &json!(true)), "{count}");
        let status = world.status("u1").await;
        assert_eq!((&status["online"], status["last_seen"].is_u64()), (&json!(false), true), "{status}");
        assert_eq!(world.backend().list("/v1/online?from=0", 2).await.len(), 3);
        let forgotten = world.backend().delete("/v1/online?older_than_s=60").await.is(200).body;
        assert_eq!(forgotten["count"], 0);
        until("a second has passed", PATIENCE, async || {
            let forgotten = world.backend().delete("/v1/online?older_than_s=0").await.is(200).body;
            let count = world.backend().get("/v1/online/count").await.is(200).body;
            if count["count"] == 0 { Ok(()) } else { Err(forgotten) }
        })
        .await;
    }
}

on_redis! {
    async fn a_viewer_is_said_to_be_in_the_live_joined_last(world) {
        world.open("42").await;
        world.open("43").await;
        let mut phone = world.viewer_in("u1", "42").await;
        world.is_in("u1", Some("42")).await;
        assert_eq!(world.status("u1").await["online"], true);
        phone.join("43").await;
        world.is_in("u1", Some("43")).await;
        let other = world.another_gateway().await;
        let tablet = other.viewer_in("u1", "42").await;
        world.is_in("u1", Some("42")).await;
        tablet.close().await;
        world.is_in("u1", Some("43")).await;
        world.backend().close("43").await;
        world.is_in("u1", None).await;
        let moved = other.viewer_in("u2", "42").await;
        world.is_in("u2", Some("42")).await;
        other.backend().remove("42", "u2").await.is(200);
        world.is_in("u2", None).await;
        drop(moved);
    }
}

on_redis! {
    async fn whereabouts_come_back_after_redis_lost_them(world) {
        world.open("42").await;
        let _viewer = world.viewer_in("u1", "42").await;
        world.is_in("u1", Some("42")).await;
        world.redis().ask(&["FLUSHALL"]).await;
        world.is_in("u1", Some("42")).await;
        // Only the one key.
        let slice = UserId::parse("u1").unwrap().slice_index(64);
        world.redis().ask(&["DEL", &format!("{{online-users_slice{slice}}}:who")]).await;
        world.is_in("u1", Some("42")).await;
    }
}

#[test]
fn a_killed_gateway_names_no_live_any_more() {
    story(async {
        let redis = Redis::start().await;
        let mut doomed = World::program(redis.clone()).await;
        doomed.open("42").await;
        let _ghost = doomed.viewer_in("u1", "42").await;
        let _moves = doomed.viewer_in("u2", "42").await;
        let other = World::beside(redis, |_| ()).await;
        other.is_in("u1", Some("42")).await;
        other.is_in("u2", Some("42")).await;
        doomed.process().kill();
        other.open("43").await;
        let _moved = other.viewer_in("u2", "43").await;
        other.is_in("u2", Some("43")).await;
        other.is_in_within("u1", None, other.sweep_bound()).await;
        until("the claims of the dead are dropped", PATIENCE, async || {
            let mut left = Vec::new();
            for key in other.redis().keys("{online-users*}:who").await {
                left.push(other.redis().ask(&["HGETALL", &key]).await.to_string());
            }
            let said = left.iter().filter(|words| words.contains("=42")).count();
            if said == 0 {
                Ok(())
            } else {
                Err(format!("{left:?}"))
            }
        })
        .await;
    });
}

on_redis! {
    async fn friends_are_shown_with_their_live(world) {
        world.open("42").await;
        for friend in ["f1", "f2", "f3"] {
            world.backend().follow("u1", friend).await;
        }
        world.backend().follow("f1", "u1").await;
        let _friend = world.viewer_in("f1", "42").await;
        world.post("/v1/online/seen", json!({"user_ids": ["f3", "stranger"]})).await;
        world.is_in("f1", Some("42")).await;
        let page = world.backend().get("/v1/users/u1/friends/online").await.is(200).body;
        let shown = |n: usize| (page["items"][n]["user_id"].clone(), page["items"][n]["live_id"].clone());
        assert_eq!([shown(0), shown(1)], [(json!("f1"), json!("42")), (json!("f3"), json!(null))], "{page}");
        assert_eq!(page["items"].as_array().unwrap().len(), 2);
        let mutual = world.backend().get("/v1/users/u1/friends/online?of=mutual").await.is(200).body;
        assert_eq!(mutual["items"].as_array().unwrap().len(), 1);
    }
}

on_redis! {
    async fn a_user_without_a_socket_is_noted_again_when_redis_lost_its_data(world) {
        world.post("/v1/beat?user_id=u1", json!({})).await;
        assert!(world.redis().last_seen("u1").await.is_some());
        world.redis().ask(&["FLUSHALL"]).await;
        until("the user is noted again", PATIENCE, async || {
            world.post("/v1/beat?user_id=u1", json!({})).await;
            same(world.redis().last_seen("u1").await.is_some(), true)
        })
        .await;
    }
}

on_redis! {
    tuned(|config| config.remember = Duration::from_secs(3_600))
    async fn those_seen_too_long_ago_are_forgotten(world) {
        world.post("/v1/online/seen", json!({"user_ids": ["u1"]})).await;
        let slice = UserId::parse("old").unwrap().slice_index(64);
        world.redis().ask(&["ZADD", &format!("last-seen:{{online-users_slice{slice}}}"), "5", "old"]).await;
        until("one is forgotten", PATIENCE, async || {
            let left = world.backend().list("/v1/online?from=0", 100).await;
            same(left.len(), 1).map(drop)
        })
        .await;
        assert!(world.status("u1").await["last_seen"].is_u64());
    }
}

on_redis! {
    tuned(|config| config.last_seen_ids = SeenIds::U32)
    async fn a_redis_with_ids_of_four_bytes_takes_no_other(world) {
        assert_eq!(world.backend().get("/ws/admission?user_id=alice").await.problem(401), "invalid_id");
        assert_eq!(world.backend().get("/ws/admission?user_id=258").await.status, 204);
        world.post("/v1/beat?user_id=258", json!({})).await;
        assert!(world.status("258").await["last_seen"].is_u64());
        let mut config = (*world.config).clone();
        config.last_seen_ids = SeenIds::Text;
        let Err(why) = rollcall::gateway::start(config).await else { panic!("it starts") };
        assert!(why.to_string().contains("last-seen-ids u32"), "{why}");
    }
}
