//! Feeds: what users tell reaches those who follow them, once, and goes again however it ends.

use std::time::Duration;

use serde_json::{Value, json};

use crate::support::backend::Backend;
use crate::support::redis_view::Redis;
use crate::support::stores::{on_both_stores, on_memory, on_redis, story};
use crate::support::wait::{PATIENCE, becomes, fits, same, until};
use crate::support::world::World;

/// The lives in a user's feed, or the texts of a list of statuses.
async fn listed(backend: &Backend, path: &str, limit: usize) -> Vec<String> {
    let name = |item: &Value| {
        let name = item["live_id"]
            .as_str()
            .or(item["text"].as_str())
            .or(item["live"]["live_id"].as_str());
        name.unwrap_or_else(|| panic!("no name: {item}")).to_owned()
    };
    backend.list(path, limit).await.iter().map(name).collect()
}

async fn list_becomes(world: &World, path: &str, wanted: &[&str]) {
    until(&format!("{path} is {wanted:?}"), PATIENCE, async || {
        let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
        same(listed(world.backend(), path, 2).await, wanted)
    })
    .await;
}

/// Announces something; the status id.
async fn tells(world: &World, author: &str, text: &str) -> String {
    let body = json!({"text": text, "data": {"n": [1, 2.5]}});
    let made = world
        .backend()
        .post(&format!("/v1/users/{author}/statuses"), body)
        .await
        .is(201)
        .body;
    assert_eq!(
        (&made["user_id"], &made["text"], &made["live"]),
        (&json!(author), &json!(text), &Value::Null)
    );
    assert_eq!(made["data"], json!({"n": [1, 2.5]}));
    made["status_id"].as_str().expect("an id").to_owned()
}

async fn signs_up(world: &World, user: &str) {
    world
        .backend()
        .put(
            &format!("/v1/users/{user}"),
            json!({"login": user, "name": user}),
        )
        .await
        .is(201);
}

on_both_stores! {
    async fn a_live_is_in_the_feeds_of_followers_while_it_is_on_air(world) {
        let backend = world.backend();
        for user in ["u1", "u2"] {
            backend.follow(user, "s1").await;
        }
        let opened = backend.put("/v1/lives/42", json!({"streamer_id": "s1", "title": "Soup"})).await.is(201).body;
        list_becomes(&world, "/v1/users/u1/feed", &["42"]).await;
        let entry = json!({
            "live_id": "42", "streamer_id": "s1", "title": "Soup", "opened_at": opened["opened_at"],
        });
        assert_eq!(backend.get("/v1/users/u2/feed").await.is(200).body, json!({"items": [entry], "cursor": null}));
        let own = backend.get("/v1/users/s1/profile").await.is(200).body;
        assert_eq!((&own["items"][0]["live"], &own["items"][0]["text"]), (&entry, &Value::Null));
        // Who follows later sees it at once, and who follows no longer sees it no longer.
        backend.follow("u3", "s1").await;
        assert_eq!(listed(backend, "/v1/users/u3/feed", 10).await, ["42"]);
        backend.unfollow("u1", "s1").await;
        assert_eq!(listed(backend, "/v1/users/u1/feed", 10).await, [""; 0]);
        tokio::time::sleep(Duration::from_millis(3)).await;
        backend.open("43", "s1").await;
        list_becomes(&world, "/v1/users/u2/feed", &["43", "42"]).await;
        backend.close("42").await;
        assert_eq!(listed(backend, "/v1/users/u2/feed", 10).await, ["43"]);
        assert_eq!(backend.get("/v1/users/u3/home").await.is(200).body["items"][0]["live"]["title"], Value::Null);
        backend.close("43").await;
        for path in ["u2/feed", "u3/home", "s1/profile", "nobody/feed"] {
            assert_eq!(listed(backend, &format!("/v1/users/{path}"), 10).await, [""; 0], "{path}");
        }
    }
}

on_both_stores! {
    async fn an_announcement_reaches_followers_and_lists_until_it_is_deleted(world) {
        let backend = world.backend();
        let refused = backend.post("/v1/users/s1/statuses", json!({"text": "hi"})).await;
        assert_eq!(refused.problem(404), "user_not_found");
        signs_up(&world, "s1").await;
        backend.follow("u1", "s1").await;
        backend.put("/v1/users/u2/lists/cooks/s1", Value::Null).await.is(200);
        let mut ids = Vec::new();
        for text in ["one", "two", "three"] {
            ids.push(tells(&world, "s1", text).await);
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        for path in ["/v1/users/u1/home", "/v1/users/s1/profile", "/v1/users/u2/timelines/cooks"] {
            list_becomes(&world, path, &["three", "two", "one"]).await;
        }
        assert_eq!(backend.get("/v1/users/s1").await.is(200).body["statuses"], 3);
        let path = |user: &str, id: &str| format!("/v1/users/{user}/statuses/{id}");
        assert_eq!(backend.delete(&path("u1", &ids[1])).await.problem(403), "forbidden");
        backend.delete(&path("s1", &ids[1])).await.is(204);
        assert_eq!(backend.delete(&path("s1", &ids[1])).await.problem(404), "status_not_found");
        for path in ["/v1/users/u1/home", "/v1/users/s1/profile", "/v1/users/u2/timelines/cooks"] {
            assert_eq!(listed(backend, path, 10).await, ["three", "one"], "{path}");
        }
        assert_eq!(backend.get("/v1/users/s1").await.is(200).body["statuses"], 2);
        backend.delete("/v1/users/u2/lists/cooks/s1").await.is(200);
        assert_eq!(listed(backend, "/v1/users/u2/timelines/cooks", 10).await, [""; 0]);
        backend.unfollow("u1", "s1").await;
        assert_eq!(listed(backend, "/v1/users/u1/home", 10).await, [""; 0]);
        backend.follow("u1", "s1").await;
        assert_eq!(listed(backend, "/v1/users/u1/home", 1).await, ["three", "one"]);
    }
}

on_memory! {
    async fn what_is_no_announcement_is_refused(world) {
        let backend = world.backend();
        signs_up(&world, "s1").await;
        for bad in [json!({}), json!({"text": ""}), json!({"text": 7}), json!({"text": "x".repeat(1_001)})] {
            backend.post("/v1/users/s1/statuses", bad).await.problem(400);
        }
        let long = json!({"text": "x", "data": "y".repeat(1_023)});
        assert_eq!(backend.post("/v1/users/s1/statuses", long).await.problem(413), "body_too_large");
        for bad in ["nothing", "s1~", "s1~a%20b", "~a"] {
            backend.delete(&format!("/v1/users/s1/statuses/{bad}")).await.problem(400);
        }
        backend.put("/v1/users/u1/lists/a%20b/s1", Value::Null).await.problem(400);
        for path in ["feed", "home", "profile", "timelines/cooks"] {
            let cursor = backend.get(&format!("/v1/users/u1/{path}?cursor=d~1~s1")).await;
            assert_eq!(cursor.problem(400), "invalid_cursor", "{path}");
        }
        // The status of a live is not an announcement: the live can be closed.
        backend.open("42", "s1").await;
        let own = backend.get("/v1/users/s1/profile").await.is(200).body;
        let status = own["items"][0]["status_id"].as_str().unwrap();
        assert_eq!(backend.delete(&format!("/v1/users/s1/statuses/{status}")).await.problem(403), "forbidden");
    }
}

on_redis! {
    tuned(|config| config.fanout_limit = 3)
    async fn what_users_with_very_many_followers_do_is_read_and_not_written(world) {
        let backend = world.backend();
        for n in 0..5 {
            backend.follow(&format!("u{n}"), "star").await;
        }
        backend.follow("u0", "s1").await;
        backend.open("41", "s1").await;
        list_becomes(&world, "/v1/users/u0/feed", &["41"]).await;
        tokio::time::sleep(Duration::from_millis(3)).await;
        backend.open("42", "star").await;
        list_becomes(&world, "/v1/users/u0/feed", &["42", "41"]).await;
        assert_eq!(listed(backend, "/v1/users/u4/feed", 10).await, ["42"]);
        assert_eq!(listed(backend, "/v1/users/u9/feed", 10).await, [""; 0]);
        assert_eq!(world.redis().ask(&["EXISTS", "statuses:feed:u4", "statuses:feed:u1"]).await, 0);
        signs_up(&world, "star").await;
        tells(&world, "star", "hi").await;
        list_becomes(&world, "/v1/users/u4/home", &["hi", "42"]).await;
        backend.close("42").await;
        assert_eq!(listed(backend, "/v1/users/u0/feed", 10).await, ["41"]);
        assert_eq!(world.redis().ask(&["EXISTS", "statuses:home:u4", "statuses:on-air:star"]).await, 0);
    }
}

/// Waits until a live is in the feed of a follower in Redis, or until nothing of it is left.
async fn in_store(world: &World, wanted: u64) {
    until("the feed in Redis", PATIENCE, async || {
        let keys = ["statuses:feed:u1", "statuses:on-air:s1"];
        same(
            world
                .redis()
                .ask(&["EXISTS", keys[0], keys[1]])
                .await
                .as_u64(),
            Some(wanted * 2),
        )
    })
    .await;
}

on_redis! {
    tuned(|config| config.streamer_timeout = Some(Duration::from_millis(400)))
    async fn however_a_live_ends_its_status_goes(world) {
        world.follow(&["u1"]).await;
        // By request.
        world.open("42").await;
        in_store(&world, 1).await;
        world.backend().close("42").await;
        in_store(&world, 0).await;
        // The streamer is gone.
        let mut streamer = world.streamer("s1").await;
        streamer.say(json!({"type": "open", "live_id": "42"})).await;
        streamer.expect("opened").await;
        in_store(&world, 1).await;
        drop(streamer);
        in_store(&world, 0).await;
        // A close that a gateway left half done.
        world.open("42").await;
        in_store(&world, 1).await;
        world.redis().ask(&["HSET", "live:42", "state", "closing", "closed_at", "1", "reason", "requested"]).await;
        in_store(&world, 0).await;
        // The record was lost, and the live opened again in a new epoch.
        world.open("42").await;
        in_store(&world, 1).await;
        world.redis().ask(&["HSET", "live:42", "state", "closed", "closed_at", "1", "reason", "requested"]).await;
        until("another epoch begins", PATIENCE, async || {
            let opened = world.backend().put("/v1/lives/42", json!({"streamer_id": "s1"})).await;
            same(opened.status, 201).map(drop)
        })
        .await;
        becomes("one status is left", Some(1), async || {
            world.redis().ask(&["ZCARD", "statuses:feed:u1"]).await.as_u64()
        })
        .await;
        world.backend().close("42").await;
        in_store(&world, 0).await;
        until("no job is left", PATIENCE, async || {
            let progress = world.redis().ask(&["HLEN", "{rollcall:fanout}:progress"]).await;
            let jobs = world.redis().ask(&["XLEN", "rollcall:fanout"]).await;
            let told = world.metric("rollcall_fanout_jobs").await;
            same((progress.as_u64(), jobs.as_u64(), told), (Some(0), Some(0), 0.0))
        })
        .await;
    }
}

on_redis! {
    async fn a_live_that_was_not_announced_is_announced_by_the_walk(world) {
        world.follow(&["u1"]).await;
        world.open("42").await;
        in_store(&world, 1).await;
        // As if the gateway had died before it could.
        world.redis().ask(&["DEL", "statuses:on-air:s1", "statuses:feed:u1"]).await;
        in_store(&world, 1).await;
        // The stream was lost, and the hash beside it says that the job is there.
        let epoch = world.backend().get("/v1/lives/42").await.is(200).body["epoch"].to_string();
        world.redis().ask(&["DEL", "rollcall:fanout"]).await;
        world.redis().ask(&["HSET", "{rollcall:fanout}:progress", &format!("add s1~42@{epoch}"), "gone "]).await;
        becomes("nobody thinks so any more", Some(0), async || {
            world.redis().say("EXISTS {rollcall:fanout}:progress").await.as_u64()
        })
        .await;
        world.redis().ask(&["DEL", "statuses:on-air:s1", "statuses:feed:u1"]).await;
        in_store(&world, 1).await;
    }
}

on_redis! {
    async fn a_feed_is_filled_from_those_whom_the_user_follows_when_nobody_knows_the_followers(world) {
        world.redis().ask(&["ZADD", "following:u1", "1", "s1"]).await;
        world.open("42").await;
        for _ in 0..2 {
            assert_eq!(listed(world.backend(), "/v1/users/u1/feed", 10).await, ["42"]);
        }
    }
}

on_redis! {
    async fn an_announcement_that_was_garbled_hides_no_other(world) {
        signs_up(&world, "s1").await;
        for text in ["one", "two", "three"] {
            let id = tells(&world, "s1", text).await;
            if text == "two" {
                let id = id.strip_prefix("s1~").unwrap();
                world.redis().ask(&["HSET", "{statuses:profile:s1}:posts", id, "garbled"]).await;
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        assert_eq!(listed(world.backend(), "/v1/users/s1/profile", 10).await, ["three", "one"]);
    }
}

const CROWD: usize = 10_000;

/// How many followers have the status exactly once, and how many statuses there are.
async fn spread(redis: &Redis) -> (u64, u64) {
    let script = "local once, all = 0, 0
        for i = 0, ARGV[1] - 1 do
            local n = redis.call('ZCARD', 'statuses:feed:u' .. i)
            once, all = once + (n == 1 and 1 or 0), all + n
        end
        return { once, all }";
    let said = redis.ask(&["EVAL", script, "0", &CROWD.to_string()]).await;
    (said[0].as_u64().unwrap(), said[1].as_u64().unwrap())
}

#[test]
fn a_gateway_that_is_killed_while_it_tells_followers_leaves_nobody_out() {
    story(async {
        let redis = Redis::start().await;
        let mut doomed = World::program(redis.clone()).await;
        for from in (0..CROWD).step_by(1_000) {
            let users: Vec<String> = (from..from + 1_000).map(|n| format!("u{n}")).collect();
            let mut words = vec!["ZADD", "followers:s1"];
            words.extend(users.iter().flat_map(|user| ["1", user.as_str()]));
            redis.ask(&words).await;
        }
        doomed.open("42").await;
        until("some have it", PATIENCE, async || {
            fits(redis.ask(&["DBSIZE"]).await.as_u64(), |size| {
                *size > Some(2_000)
            })
        })
        .await;
        doomed.process().kill();
        let (told, _) = spread(&redis).await;
        assert!(
            (1_000..CROWD as u64).contains(&told),
            "killed in the middle, not after {told}"
        );

        let other = World::beside(redis.clone(), |_| ()).await;
        // Twelve seconds pass before the job counts as left, two until somebody looks, and six after
        // each pass that a busy machine was too slow for.
        until(
            "everybody has it once",
            Duration::from_secs(60),
            async || same(spread(&redis).await, (CROWD as u64, CROWD as u64)),
        )
        .await;
        other.backend().close("42").await;
        until("nobody has it", Duration::from_secs(20), async || {
            same(spread(&redis).await, (0, 0))
        })
        .await;
    });
}
