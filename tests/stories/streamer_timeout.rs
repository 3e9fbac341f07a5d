//! A streamer falls silent: a live opened over the streamer's own socket closes after
//! `streamer_timeout`, a live opened by a back end does not.

use std::time::Duration;

use rollcall::base::ids::{OnlineSet, STREAMERS_SLICES, SliceId, UserId};
use tokio::time::Instant;

use crate::support::media::{Nginx, with_nginx};
use crate::support::redis_view::Redis;
use crate::support::stores::{on_both_stores, on_memory, on_redis, story};
use crate::support::wait::{PATIENCE, SLACK, becomes};
use crate::support::world::World;

const STREAMER_TIMEOUT: Duration = Duration::from_millis(2_000);

fn short(config: &mut rollcall::config::Config) {
    config.streamer_timeout = Some(STREAMER_TIMEOUT);
}

on_both_stores! {
    tuned(short)
    async fn a_streamer_who_vanishes_ends_the_live(world) {
        let mut streamer = world.streamer("s1").await;
        streamer.open("42").await;
        world.follow(&["u1"]).await;
        let mut viewer = world.viewer_in("u1", "42").await;
        world.fans_become("42", &["u1"]).await;
        let gone = Instant::now();
        streamer.vanish();
        world.stays_open(STREAMER_TIMEOUT - world.config.lease_refresh - Duration::from_millis(250)).await;
        let closed = viewer.expect("closed").await;
        assert_eq!(closed["reason"], "streamer_timeout");
        let took = gone.elapsed();
        let bound = STREAMER_TIMEOUT + world.config.timeout + world.config.lease_refresh * 2 + SLACK;
        assert!(took < bound, "closed only after {took:?}");
        world.fans_become("42", &[]).await;
        world.live_becomes_within("42", "closed", PATIENCE).await;
    }
}

on_memory! {
    tuned(|config: &mut rollcall::config::Config| {
        short(config);
        with_nginx(config);
        config.stream_grace = STREAMER_TIMEOUT;
    })
    async fn a_streamer_who_is_on_air_may_close_the_page_that_opened_the_live(world) {
        let mut streamer = world.streamer("s1").await;
        streamer.open("42").await;
        let nginx = Nginx::calling(&world, "main");
        nginx.lets_in(1, "42").await;
        streamer.vanish();
        world.stays_open(STREAMER_TIMEOUT * 2 + world.config.timeout).await;
        nginx.done(1, "42").await;
        world.live_becomes_within("42", "closed", STREAMER_TIMEOUT * 3 + PATIENCE).await;
    }
}

on_memory! {
    tuned(short)
    async fn a_streamer_who_comes_back_in_time_keeps_the_live_open(world) {
        let mut streamer = world.streamer("s1").await;
        let epoch = streamer.open("42").await["epoch"].clone();
        for _ in 0..3 {
            streamer.vanish();
            world.stays_open(STREAMER_TIMEOUT / 4).await;
            streamer = world.streamer("s1").await;
            assert_eq!(streamer.open("42").await["epoch"], epoch);
            world.stays_open(STREAMER_TIMEOUT / 2).await;
        }
        world.stays_open(STREAMER_TIMEOUT).await;
    }
}

on_memory! {
    tuned(short)
    async fn a_live_that_a_back_end_opened_outlasts_its_streamer(world) {
        world.open("42").await;
        let mut streamer = world.streamer("s1").await;
        assert_eq!(streamer.open("42").await["epoch"], world.epoch("42").await);
        streamer.vanish();
        world.stays_open(STREAMER_TIMEOUT + world.config.timeout + SLACK).await;
    }
}

/// Opens live 42 of streamer `s1` as a back end does, with a streamer timeout of its own.
async fn open_with_timeout(world: &World, seconds: u64) {
    let body = serde_json::json!({"streamer_id": "s1", "streamer_timeout_s": seconds});
    let opened = world.backend().put("/v1/lives/42", body).await.is(201).body;
    assert_eq!(
        (&opened["streamer_timeout_s"], &opened["opened_by"]),
        (&seconds.into(), &"service".into())
    );
}

on_memory! {
    // No live closes by itself unless it was opened so.
    tuned(|config: &mut rollcall::config::Config| config.streamer_timeout = None)
    async fn a_live_that_a_back_end_opened_with_a_timeout_closes_when_its_streamer_is_gone(world) {
        open_with_timeout(&world, 2).await;
        let mut viewer = world.viewer_in("u1", "42").await;
        let streamer = world.streamer("s1").await;
        world.stays_open(STREAMER_TIMEOUT * 2).await;
        streamer.vanish();
        world.stays_open(STREAMER_TIMEOUT / 2).await;
        assert_eq!(viewer.expect("closed").await["reason"], "streamer_timeout");
        world.live_becomes_within("42", "closed", PATIENCE).await;
    }
}

on_memory! {
    async fn a_shorter_timeout_holds_at_once(world) {
        open_with_timeout(&world, 3_600).await;
        world.stays_open(SLACK).await;
        let changed = Instant::now();
        let body = serde_json::json!({"streamer_timeout_s": 2});
        world.backend().patch("/v1/lives/42", body).await.is(200);
        world.live_becomes_within("42", "closed", PATIENCE).await;
        assert!(changed.elapsed() < STREAMER_TIMEOUT + SLACK, "closed only after {:?}", changed.elapsed());
    }
}

on_memory! {
    async fn a_streamer_who_never_comes_is_gone_from_the_opening_on(world) {
        let opened = Instant::now();
        open_with_timeout(&world, 2).await;
        world.stays_open(STREAMER_TIMEOUT * 3 / 4).await;
        world.live_becomes_within("42", "closed", PATIENCE).await;
        assert!(opened.elapsed() < STREAMER_TIMEOUT + SLACK, "closed only after {:?}", opened.elapsed());
    }
}

on_memory! {
    tuned(short)
    async fn a_streamer_timeout_of_zero_never_closes_a_live(world) {
        open_with_timeout(&world, 0).await;
        let streamer = world.streamer("s1").await;
        streamer.vanish();
        world.stays_open(STREAMER_TIMEOUT + world.config.timeout + SLACK).await;
    }
}

on_redis! {
    async fn another_gateway_closes_a_live_whose_opener_stopped(world) {
        let other = world.another_gateway().await;
        open_with_timeout(&world, 2).await;
        world.stop().await;
        other.live_becomes_within("42", "closed", STREAMER_TIMEOUT + PATIENCE).await;
    }
}

on_redis! {
    tuned(short)
    async fn a_streamer_who_only_connects_to_another_gateway_keeps_the_live_open(world) {
        let mut streamer = world.streamer("s1").await;
        streamer.open("42").await;
        let other = world.another_gateway().await;
        // The streamer does not join, watch or open there, so that gateway has no room for the
        // live.
        let moved = other.streamer("s1").await;
        streamer.vanish();
        world.stays_open(STREAMER_TIMEOUT * 3).await;
        moved.vanish();
        world.live_becomes_within("42", "closed", STREAMER_TIMEOUT + PATIENCE).await;
    }
}

/// The gateway where the streamer is makes a room for the live, although nobody is in it. So the
/// streamer's absence counts from when that gateway last heard the streamer, not from when the last
/// room ended.
#[test]
fn a_streamer_keeps_a_live_open_of_which_no_gateway_has_a_room_any_more() {
    const TIMEOUT: Duration = Duration::from_secs(4);
    story(async {
        let redis = Redis::start().await;
        let tuned = |config: &mut rollcall::config::Config| config.streamer_timeout = Some(TIMEOUT);
        let first = World::beside(redis.clone(), tuned).await;
        let world = World::beside(redis, tuned).await;
        let mut streamer = first.streamer("s1").await;
        streamer.open("42").await;
        let moved = world.streamer("s1").await;
        first.stop().await;
        world.stays_open(TIMEOUT * 2).await;
        moved.vanish();
        world.stays_open(TIMEOUT * 3 / 4).await;
        world
            .live_becomes_within("42", "closed", TIMEOUT + PATIENCE)
            .await;
    });
}

/// A failover may undo the newest writes, and with them the note that a streamer is gone. It also
/// gives reason for doubt.
#[test]
fn a_streamers_leaving_that_redis_has_lost_is_told_once_more() {
    let slice = SliceId::of_user(
        OnlineSet::Streamers,
        &UserId::parse("s1").unwrap(),
        STREAMERS_SLICES,
    )
    .index;
    let set = format!("online-streamers_slice{slice}");
    story(async {
        let redis = Redis::start().await;
        let world = World::beside(redis.clone(), short).await;
        let mut streamer = world.streamer("s1").await;
        streamer.open("42").await;
        let members = || async { redis.ask(&["SMEMBERS", &set]).await };
        becomes(
            "the streamer is told of",
            serde_json::json!(["s1"]),
            async || members().await,
        )
        .await;
        let keys: Vec<String> = redis.keys(&format!("*{set}*")).await.into_iter().collect();
        let mut copies = Vec::new();
        for key in &keys {
            copies.push((key, format!("copy-of-{key}")));
        }
        for (key, copy) in &copies {
            redis.ask(&["COPY", key, copy]).await;
        }
        streamer.close().await;
        becomes("the leaving is told", serde_json::json!([]), async || {
            members().await
        })
        .await;
        for (key, copy) in &copies {
            redis.ask(&["COPY", copy, key, "REPLACE"]).await;
        }
        redis.ask(&["DEL", "rollcall:leases"]).await;
        becomes(
            "the leaving is told once more",
            serde_json::json!([]),
            async || members().await,
        )
        .await;
        world
            .live_becomes_within("42", "closed", STREAMER_TIMEOUT + PATIENCE)
            .await;
    });
}
