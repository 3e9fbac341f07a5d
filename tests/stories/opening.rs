//! Streamers and back ends open lives over the socket and over HTTP. Each live has one owner, and
//! each opening a higher epoch.

use std::time::Duration;

use rollcall::config::Config;
use serde_json::json;
use tokio::time::Instant;

use crate::support::link::Link;
use crate::support::redis_view::Redis;
use crate::support::stores::{on_both_stores, on_memory, on_redis, story};
use crate::support::viewer::Viewer;
use crate::support::wait::{PATIENCE, becomes, same, until};
use crate::support::world::World;

/// How far away a distant Redis is, one way.
const FAR: Duration = Duration::from_millis(150);

/// Ten round trips to a distant Redis: an opening takes seven.
const FEW_ROUND_TRIPS: Duration = Duration::from_secs(3);

/// With the deadlines that gateways have by default.
#[test]
fn a_live_opens_fills_and_closes_although_redis_is_far_away() {
    story(async {
        let redis = Redis::start().await;
        redis.ask(&["ZADD", "followers:s1", "1", "u1"]).await;
        let link = Link::to(redis.addr()).await;
        link.slow(FAR);
        let world = World::at_tuned(&link.url(), |config| {
            let usual = Config::default();
            config.flush = usual.flush;
            config.lease = usual.lease;
            config.lease_refresh = usual.lease_refresh;
        })
        .await;
        for attendance in [true, false] {
            let live = format!("42-{attendance}");
            let asked = Instant::now();
            let wish = json!({"streamer_id": "s1", "attendance": attendance});
            world
                .backend()
                .put(&format!("/v1/lives/{live}"), wish)
                .await
                .is(201);
            assert!(asked.elapsed() < FEW_ROUND_TRIPS, "{:?}", asked.elapsed());
        }
        let mut streamer = world.streamer("s2").await;
        let asked = Instant::now();
        streamer.open("43").await;
        assert!(asked.elapsed() < FEW_ROUND_TRIPS, "{:?}", asked.elapsed());

        let mut viewer = world.viewer_in("u1", "42-true").await;
        until("the fan is in the set", PATIENCE * 2, async || {
            same(redis.fans("42-true").await, ["u1".to_owned()].into())
        })
        .await;
        assert_eq!(
            world
                .backend()
                .delete("/v1/lives/42-true")
                .await
                .is(200)
                .body["state"],
            "closed"
        );
        viewer.expect("closed").await;
        assert_eq!(redis.card("42-true").await, 0);
    });
}

on_both_stores! {
    async fn a_streamer_opens_and_owns_a_live(world) {
        let mut streamer = world.streamer("s1").await;
        let opened = streamer.open("42").await;
        let live = world.backend().live("42").await;
        assert_eq!(opened, json!({"type": "opened", "live_id": "42", "epoch": live["epoch"], "slices": 1}));
        assert_eq!((&live["state"], &live["streamer_id"]), (&json!("open"), &json!("s1")));
        assert_eq!(world.viewer("u1").await.join("42").await["streamer_id"], "s1");
    }
}

on_memory! {
    async fn a_service_opens_a_live_for_a_streamer(world) {
        let mut service = world.service().await;
        service.say(json!({"type": "open", "live_id": "42", "streamer_id": "s9"})).await;
        assert_eq!(service.expect("opened").await["epoch"], world.epoch("42").await);
        assert_eq!(world.viewer("u1").await.join("42").await["streamer_id"], "s9");
    }
}

on_memory! {
    async fn a_service_must_name_the_streamer(world) {
        let mut service = world.service().await;
        service.say(json!({"type": "open", "live_id": "42"})).await;
        let error = service.expect("error").await;
        assert!(["bad_message", "invalid_id"].contains(&error["code"].as_str().unwrap()), "{error}");
        assert_eq!(world.backend().get("/v1/lives/42").await.status, 404);
    }
}

on_memory! {
    async fn opening_again_is_the_same_epoch(world) {
        let mut streamer = world.streamer("s1").await;
        let first = streamer.open("42").await;
        assert_eq!(streamer.open("42").await, first);
        let elsewhere = world.streamer("s1").await.open("42").await;
        assert_eq!(elsewhere, first);
        assert_eq!(world.backend().open("42", "s1").await["epoch"], first["epoch"]);
    }
}

on_memory! {
    async fn a_streamer_cannot_open_the_live_of_another_streamer(world) {
        world.streamer("s1").await.open("42").await;
        let mut thief = world.streamer("s2").await;
        thief.is_refused(json!({"type": "open", "live_id": "42"}), "live_owned").await;
        let mut service = world.service().await;
        service.is_refused(json!({"type": "open", "live_id": "42", "streamer_id": "s2"}), "live_owned").await;
        assert_eq!(world.backend().live("42").await["streamer_id"], "s1");
    }
}

on_redis! {
    async fn a_viewer_is_refused_by_the_role_alone(world) {
        let other = world.another_gateway().await;
        other.open("42").await;
        let mut viewer = world.viewer("u1").await;
        let refused = async |viewer: &mut Viewer, live: &str| {
            for kind in ["open", "close", "watch", "unwatch"] {
                viewer.is_refused(json!({"type": kind, "live_id": live}), "forbidden").await;
            }
        };
        refused(&mut viewer, "42").await;
        refused(&mut viewer, "never").await;
        assert_eq!(world.metric("rollcall_lives").await, 0.0, "no room was made for a viewer who was refused");
        // The gateway refuses these without asking the store, which is away.
        world.redis().kill().await;
        refused(&mut viewer, "42").await;
    }
}

on_memory! {
    async fn a_streamer_may_not_close_the_live_of_another_streamer(world) {
        world.open("42").await;
        let mut other = world.streamer("s2").await;
        other.say(json!({"type": "close", "live_id": "42"})).await;
        let error = other.expect("error").await;
        assert!(["forbidden", "live_owned"].contains(&error["code"].as_str().unwrap()), "{error}");
        assert_eq!(world.backend().live("42").await["state"], "open");
    }
}

on_memory! {
    async fn every_opening_is_a_new_epoch(world) {
        let mut streamer = world.streamer("s1").await;
        let mut last = 0;
        for _ in 0..3 {
            let epoch = streamer.open("42").await["epoch"].as_u64().unwrap();
            assert!(epoch > last, "{epoch} after {last}");
            last = epoch;
            streamer.close_live("42").await;
        }
        // After the close, anybody may use the id.
        assert!(world.streamer("s2").await.open("42").await["epoch"].as_u64().unwrap() > last);
        assert_eq!(world.backend().live("42").await["streamer_id"], "s2");
    }
}

on_both_stores! {
    async fn viewers_come_back_into_a_new_epoch(world) {
        world.open("42").await;
        world.follow(&["u1", "u2"]).await;
        let mut first = world.viewer_in("u1", "42").await;
        let _second = world.viewer_in("u2", "42").await;
        world.fans_become("42", &["u1", "u2"]).await;
        world.backend().close("42").await;
        first.expect("closed").await;
        world.open("42").await;
        first.join("42").await;
        world.fans_become("42", &["u1"]).await;
        world.fans_stay("42", &["u1"], world.config.lease_refresh * 2).await;
        assert_eq!(first.heartbeat().await.viewers, 1, "who did not join the new epoch is not in it");
    }
}

on_memory! {
    async fn an_opener_on_two_sockets_at_once_makes_one_epoch(world) {
        let mut streamers = Vec::new();
        for _ in 0..8 {
            streamers.push(world.streamer("s1").await);
        }
        for streamer in &mut streamers {
            streamer.say(json!({"type": "open", "live_id": "42"})).await;
        }
        let mut first = None;
        for streamer in &mut streamers {
            let epoch = streamer.expect("opened").await["epoch"].as_u64().unwrap();
            assert_eq!(epoch, *first.get_or_insert(epoch));
        }
    }
}

on_redis! {
    async fn the_record_and_the_list_stand_in_redis(world) {
        let mut streamer = world.streamer("s1").await;
        streamer.open("42").await;
        let redis = world.redis();
        assert_eq!(redis.live_field("42", "state").await.unwrap(), "open");
        assert_eq!(redis.live_field("42", "streamer_id").await.unwrap(), "s1");
        assert_eq!(redis.live_field("42", "epoch").await.unwrap(), world.epoch("42").await.to_string());
        assert_eq!(redis.live_field("42", "slices").await.unwrap(), "1");
        let opened_at = redis.live_field("42", "opened_at").await.unwrap();
        assert_eq!(redis.ask(&["ZSCORE", "lives", "42"]).await, opened_at.as_str());
        streamer.close_live("42").await;
        assert_eq!(redis.live_field("42", "state").await.unwrap(), "closed");
        becomes("lives without 42", serde_json::Value::Null, async || {
            redis.ask(&["ZSCORE", "lives", "42"]).await
        })
        .await;
    }
}

on_redis! {
    async fn a_star_with_many_followers_gets_more_slices(world) {
        let redis = world.redis();
        let fill = "for i = 1, 120000, 100 do
                        local some = {}
                        for j = i, i + 99 do some[#some + 1] = 1 some[#some + 1] = 'f' .. j end
                        redis.call('ZADD', KEYS[1], unpack(some))
                    end
                    return 1";
        redis.ask(&["EVAL", fill, "1", "followers:star"]).await;
        let opened = world.streamer("star").await.open("42").await;
        let slices = opened["slices"].as_u64().unwrap();
        assert!(slices.is_power_of_two() && (2..=4).contains(&slices), "one slice per 50,000 followers: {opened}");
        assert_eq!(redis.live_field("42", "slices").await.unwrap(), slices.to_string());
    }
}
