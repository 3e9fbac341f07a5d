//! What is left to look at of a live: its history, its summary, and how many came and left.

use std::time::Duration;

use rollcall::base::clock::unix_now;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::redis_view::Redis;
use crate::support::stores::{on_both_stores, on_memory, on_redis, story};
use crate::support::wait::{PATIENCE, SLACK, becomes, fits, same, throughout, until};
use crate::support::world::World;

/// The least time between two writes of a live's figures.
const EVERY: Duration = Duration::from_secs(5);

const STEP: u64 = 10_000;

/// The history of a live; its points are checked to be in order, one a bucket.
async fn history(world: &World, live: &str, query: &str) -> Value {
    let history = world
        .backend()
        .get(&format!("/v1/lives/{live}/history{query}"))
        .await
        .is(200)
        .body;
    let points = history["items"].as_array().unwrap().iter();
    let at: Vec<u64> = points
        .map(|point| point["began_at"].as_u64().unwrap())
        .collect();
    // No point lies before the opening.
    let opened_at = history["from"].as_u64().unwrap();
    let is_border = |at: &u64| at.is_multiple_of(STEP) || *at == opened_at;
    assert!(
        at.is_sorted_by(|one, other| one < other) && at.iter().all(is_border),
        "{history}"
    );
    history
}

fn figures(point: &Value) -> [u64; 4] {
    ["viewers", "fans", "joins", "leaves"].map(|name| point[name].as_u64().unwrap())
}

/// Waits until the last point has these viewers, fans, joins and leaves.
async fn history_ends_with(world: &World, live: &str, last: [u64; 4]) {
    until(
        "the history has the figures",
        EVERY * 2 + SLACK * 2,
        async || {
            let history = history(world, live, "").await;
            same(
                history["items"].as_array().unwrap().last().map(figures),
                Some(last),
            )
        },
    )
    .await;
}

on_both_stores! {
    async fn a_live_in_which_nothing_happens_has_no_points_and_one_that_moves_has_them(world) {
        world.open("quiet").await;
        world.open("42").await;
        world.follow(&["u0"]).await;
        let mut crowd = world.crowd("u", 3, "42").await;
        history_ends_with(&world, "42", [3, 1, 3, 0]).await;
        crowd.remove(2).close().await;
        history_ends_with(&world, "42", [2, 1, 3, 1]).await;
        let shown = history(&world, "42", "").await;
        let record = world.backend().live("42").await;
        assert_eq!((&shown["live_id"], &shown["step_s"]), (&json!("42"), &json!(10)));
        assert_eq!(shown["epoch"], record["epoch"]);
        assert!(shown["from"] == record["opened_at"] && shown["to"].as_u64() > shown["from"].as_u64(), "{shown}");
        let thinned = history(&world, "42", "?step=86400").await;
        assert_eq!(figures(thinned["items"].as_array().unwrap().last().unwrap()), [2, 1, 3, 1]);
        assert_eq!(history(&world, "42", "?to=1").await["items"], json!([]));
        assert_eq!(history(&world, "quiet", "").await["items"], json!([]));
        world.backend().close("42").await;
        let closed = history(&world, "42", "").await;
        assert_eq!((&closed["items"], &closed["from"]), (&shown["items"], &shown["from"]), "it outlasts the close");
        assert_eq!(closed["to"], world.backend().live("42").await["closed_at"]);
        // A new opening has a history of its own; the former one is still there.
        world.open("42").await;
        assert_eq!(history(&world, "42", "").await["items"], json!([]));
        let former = history(&world, "42", &format!("?epoch={}", shown["epoch"])).await;
        assert_eq!(former["items"], shown["items"]);
        for (path, status, code) in [
            ("42/history?step=15", 400, "invalid_query"),
            ("42/history?step=0", 400, "invalid_query"),
            ("42/history?from=x", 400, "invalid_query"),
            ("42/history?epoch=7", 404, "epoch_not_found"),
            ("never/history", 404, "live_not_found"),
        ] {
            let answer = world.backend().get(&format!("/v1/lives/{path}")).await;
            assert_eq!(answer.problem(status), code, "{path}");
        }
    }
}

on_redis! {
    tuned(|config| config.user_rate = 0)
    async fn two_gateways_write_one_history(world) {
        world.open("42").await;
        world.crowd_follows("a", 2).await;
        let other = world.another_gateway().await;
        let (mut here, mut there) = (world.crowd("a", 2, "42").await, other.crowd("b", 2, "42").await);
        let began = Instant::now();
        // Over the border between two buckets.
        while began.elapsed() < Duration::from_secs(12) {
            here.pop().unwrap().close().await;
            there.pop().unwrap().close().await;
            here.push(world.viewer_in("a1", "42").await);
            there.push(other.viewer_in("b1", "42").await);
        }
        // By then, each gateway has written what it counted.
        tokio::time::sleep(EVERY + SLACK).await;
        // Most of them came back before the store heard that they left.
        for gateway in [&world, &other] {
            until("as many came as left or are there", EVERY + SLACK * 2, async || {
                let history = history(gateway, "42", "").await;
                let last = history["items"].as_array().unwrap().last();
                let [viewers, fans, joins, leaves] = last.map_or([0; 4], figures);
                same((viewers, fans, joins.saturating_sub(leaves), joins > 4), (4, 2, 4, true))
            })
            .await;
        }
        let items = history(&world, "42", "").await["items"].clone();
        let length = items.as_array().unwrap().len();
        assert!((2..=4).contains(&length), "one point a bucket: {items}");
        assert_eq!(history(&other, "42", "").await["items"], items);
        let stream = format!("{{live:42}}:history@{}", world.epoch("42").await);
        // The newest point is in the record.
        assert_eq!(world.redis().ask(&["XLEN", &stream]).await, json!(length - 1));
        // Nobody comes or leaves: nobody writes.
        let end = world.redis().ask(&["XINFO", "STREAM", &stream]).await;
        throughout("nothing is written", EVERY + SLACK, async || {
            same(world.redis().ask(&["XINFO", "STREAM", &stream]).await, end.clone())
        })
        .await;
    }
}

on_redis! {
    async fn a_short_history_takes_little_memory(world) {
        world.open("42").await;
        let stream = format!("{{live:42}}:history@{}", world.epoch("42").await);
        // Redis and this test have one clock. Two writes, 5 s apart, fit into what is left of the
        // bucket.
        until("a bucket begins", Duration::from_millis(STEP) + SLACK, async || {
            fits(unix_now() % STEP, |since| *since < 2_000)
        })
        .await;
        let _one = world.viewer_in("u1", "42").await;
        history_ends_with(&world, "42", [1, 0, 1, 0]).await;
        let _two = world.viewer_in("u2", "42").await;
        history_ends_with(&world, "42", [2, 0, 2, 0]).await;
        assert_eq!(world.redis().ask(&["EXISTS", &stream]).await, json!(0), "the only point is in the record");
        world.backend().close("42").await;
        assert_eq!(world.redis().ask(&["XLEN", &stream]).await, json!(1));
        let bytes = world.redis().ask(&["MEMORY", "USAGE", &stream]).await;
        assert!(bytes.as_u64().unwrap() < 1_500, "{bytes} bytes");
    }
}

on_memory! {
    async fn counts_tell_how_many_came_and_left(world) {
        world.open("42").await;
        let mut dashboard = world.dashboard("42").await;
        let first = dashboard.log[0].clone();
        assert_eq!((first.number("joins"), first.number("leaves"), first.number("away")), (0, 0, 0));
        let mut crowd = world.crowd("u", 3, "42").await;
        // A second tab of a user who is there.
        let second = world.viewer_in("u0", "42").await;
        dashboard.sees_that("three came", |counts| counts.number("joins") == 3).await;
        crowd.remove(2).close().await;
        dashboard.sees_that("one left", |counts| (counts.number("viewers"), counts.number("leaves")) == (2, 1)).await;
        second.close().await;
        let _again = world.viewer_in("u2", "42").await;
        dashboard.sees_that("one is back", |counts| (counts.number("joins"), counts.number("leaves")) == (4, 1)).await;
    }
}

/// The totals of a killed gateway stay, on gateways that knew it and on one that did not.
#[test]
fn what_a_killed_gateway_counted_stays() {
    story(async {
        let redis = Redis::start().await;
        let mut doomed = World::program(redis.clone()).await;
        doomed.open("42").await;
        let world = World::beside(redis.clone(), |_| ()).await;
        let mut dashboard = world.dashboard("42").await;
        let mut crowd = doomed.crowd("d", 4, "42").await;
        dashboard
            .sees_that("all are there", |counts| counts.number("viewers") == 4)
            .await;
        crowd.remove(0).close().await;
        let _here = world.crowd("h", 2, "42").await;
        let totals = |counts: &crate::support::dashboard::Counts| {
            (counts.number("joins"), counts.number("leaves"))
        };
        dashboard
            .sees_that("all who came", |counts| totals(counts) == (6, 1))
            .await;
        becomes("all are counted", json!(6), async || {
            redis.ask(&["PFCOUNT", "{online-fans:42}:uniques"]).await
        })
        .await;
        doomed.process().kill();
        dashboard
            .sees_that("the dead one's viewers are gone", |counts| {
                counts.number("viewers") == 2
            })
            .await;
        assert_eq!(totals(dashboard.log.last().unwrap()), (6, 4));
        history_ends_with(&world, "42", [2, 0, 6, 4]).await;
        let late = World::beside(redis.clone(), |_| ()).await;
        let mut fresh = late.dashboard("42").await;
        assert_eq!(totals(&fresh.log[0]), (6, 4));
        let _one_more = world.viewer_in("h2", "42").await;
        fresh
            .sees_that("one more came", |counts| totals(counts) == (7, 4))
            .await;
        let closed = world.backend().close("42").await;
        assert_eq!(closed["state"], "closed");
        let summary = late.backend().live("42").await["summary"].clone();
        assert_eq!(
            (&summary["joins"], &summary["unique_viewers"]),
            (&json!(7), &json!(7)),
            "{summary}"
        );
        assert_eq!(summary["peak_viewers"], json!(5), "{summary}");
    });
}

on_both_stores! {
    async fn a_closed_live_has_a_summary_and_its_streamer_a_list_of_them(world) {
        world.backend().put("/v1/lives/42", json!({"streamer_id": "s1", "title": "Cooking"})).await.is(201);
        assert_eq!(world.backend().live("42").await["summary"], Value::Null);
        world.follow(&["u0", "u1"]).await;
        let mut crowd = world.crowd("u", 4, "42").await;
        let mut dashboard = world.dashboard("42").await;
        dashboard.sees_that("all are there", |counts| counts.number("viewers") == 4).await;
        for _ in 0..2 {
            crowd.pop().unwrap().close().await;
            // Who comes back before the next flush has not left.
            dashboard.sees_that("one has left", |counts| counts.number("viewers") == 3).await;
            crowd.push(world.viewer_in("u3", "42").await);
            dashboard.sees_that("all are there", |counts| counts.number("viewers") == 4).await;
        }
        world.fans_become("42", &["u0", "u1"]).await;
        history_ends_with(&world, "42", [4, 2, 6, 2]).await;
        // Four viewers are there for another while.
        let written = Instant::now();
        until("some time has passed", PATIENCE, async || {
            if written.elapsed() > Duration::from_secs(2) { Ok(()) } else { Err("not yet") }
        })
        .await;
        let closed = world.backend().close("42").await;
        let summary = world.backend().live("42").await["summary"].clone();
        for field in ["live_id", "epoch", "streamer_id", "title", "opened_at", "closed_at", "duration_ms", "reason"] {
            assert_eq!(summary[field], closed[field], "{field}: {summary}");
        }
        let fields = ["peak_viewers", "peak_fans", "unique_viewers", "unique_fans", "joins"];
        let figures = fields.map(|field| &summary[field]);
        assert_eq!(figures, [&json!(4), &json!(2), &json!(4), &json!(2), &json!(6)], "{summary}");
        let watched = summary["watched_ms"].as_u64().unwrap();
        let most = 4 * summary["duration_ms"].as_u64().unwrap();
        assert!((7_200..=most + 600).contains(&watched), "{watched} of {most} ms");
        world.open("43").await;
        world.backend().close("43").await;
        world.backend().open("44", "s2").await;
        world.backend().close("44").await;
        let past = world.backend().list("/v1/streamers/s1/lives", 1).await;
        assert_eq!((past.len(), &past[0]["live_id"], &past[1]), (2, &json!("43"), &summary));
        // The id is used again, and the list still has its former opening.
        world.open("42").await;
        assert_eq!(world.backend().list("/v1/streamers/s1/lives", 10).await, past);
        assert_eq!(world.backend().list("/v1/streamers/nobody/lives", 10).await, Vec::<Value>::new());
        let cursor = world.backend().get("/v1/streamers/s1/lives?cursor=c~x~42~1").await;
        assert_eq!(cursor.problem(400), "invalid_cursor");
    }
}

on_redis! {
    tuned(|config| config.uniques = false)
    async fn without_uniques_nobody_is_counted(world) {
        world.open("42").await;
        let _crowd = world.crowd("u", 2, "42").await;
        history_ends_with(&world, "42", [2, 0, 2, 0]).await;
        assert!(world.redis().keys("*unique*").await.is_empty());
        world.backend().close("42").await;
        let summary = world.backend().live("42").await["summary"].clone();
        let figures = ["unique_viewers", "unique_fans", "joins"].map(|name| &summary[name]);
        assert_eq!(figures, [&Value::Null, &Value::Null, &json!(2)], "{summary}");
    }
}

on_redis! {
    async fn a_user_on_two_gateways_is_one_viewer_who_came_once(world) {
        world.open("42").await;
        world.follow(&["u0"]).await;
        let other = world.another_gateway().await;
        let (here, mut there) = (world.crowd("u", 2, "42").await, other.crowd("u", 2, "42").await);
        history_ends_with(&world, "42", [2, 1, 2, 0]).await;
        let mut dashboard = world.dashboard("42").await;
        there[0].say(json!({"type": "away"})).await;
        dashboard.sees_that("one is away", |counts| counts.number("away") == 1).await;
        there[0].say(json!({"type": "back"})).await;
        dashboard.sees_that("nobody is away", |counts| counts.number("away") == 0).await;
        for viewer in here.into_iter().chain(there) {
            viewer.close().await;
        }
        dashboard.sees_that("nobody is left", |counts| counts.number("viewers") == 0).await;
        history_ends_with(&world, "42", [0, 0, 2, 2]).await;
        world.backend().close("42").await;
        let summary = world.backend().live("42").await["summary"].clone();
        let figures = ["unique_viewers", "unique_fans", "joins"].map(|name| &summary[name]);
        assert_eq!(figures, [&json!(2), &json!(1), &json!(2)], "{summary}");
    }
}

/// A gateway is stopped (as by SIGSTOP) while a live closes, and goes on afterwards.
#[test]
fn a_gateway_that_is_late_writes_nothing_after_the_close() {
    story(async {
        let redis = Redis::start().await;
        let mut late = World::program(redis.clone()).await;
        late.open("42").await;
        let mut crowd = late.crowd("d", 3, "42").await;
        history_ends_with(&late, "42", [3, 0, 3, 0]).await;
        // These changes wait in memory for their write.
        crowd.push(late.viewer_in("d3", "42").await);
        crowd.remove(0).close().await;
        late.process().freeze();
        let world = World::beside(redis.clone(), |_| ()).await;
        world.backend().close("42").await;
        let before = (
            history(&world, "42", "").await,
            world.backend().live("42").await["summary"].clone(),
        );
        let keys = world.redis().keys("{live:42}:*").await;
        assert!(keys.iter().all(|key| key.contains(":history@")), "{keys:?}");
        late.process().thaw();
        throughout("nothing is written", EVERY + SLACK, async || {
            same(world.redis().keys("{live:42}:*").await, keys.clone())?;
            let now = (
                history(&world, "42", "").await,
                world.backend().live("42").await["summary"].clone(),
            );
            same(now, before.clone())
        })
        .await;
        // The next opening begins with nothing of it.
        world.open("42").await;
        let _viewer = world.viewer_in("n0", "42").await;
        history_ends_with(&world, "42", [1, 0, 1, 0]).await;
        let ttl = redis
            .ask(&["TTL", keys.first().unwrap()])
            .await
            .as_i64()
            .unwrap();
        assert!(
            (1..=30 * 24 * 3_600).contains(&ttl),
            "the former history expires: {ttl}"
        );
    });
}
