//! Counts for other services: what the record of a live says of its viewers and fans, and lists of
//! rooms by size.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::audit::audit;
use crate::support::redis_view::Redis;
use crate::support::stores::{on_memory, on_redis, story};
use crate::support::wait::{PATIENCE, SLACK, same, throughout, until};
use crate::support::world::World;

/// The least time between two writes of a live's figures.
const EVERY: Duration = Duration::from_secs(5);

/// The viewers, fans and time in the record of a live, as another service reads them.
async fn record(redis: &Redis, live: &str) -> [Option<u64>; 3] {
    let fields = redis
        .say(&format!("HMGET live:{live} viewers fans counted_at"))
        .await;
    [0, 1, 2].map(|at| fields[at].as_str().and_then(|text| text.parse().ok()))
}

/// The calls that changed a record.
const WRITTEN: &str = "result=\"written\"";

async fn record_becomes(redis: &Redis, live: &str, viewers: u64, fans: u64) -> Duration {
    let since = Instant::now();
    until(
        "the record has the figures",
        EVERY + SLACK * 2,
        async || {
            let [seen_viewers, seen_fans, _] = record(redis, live).await;
            same((seen_viewers, seen_fans), (Some(viewers), Some(fans)))
        },
    )
    .await;
    since.elapsed()
}

/// How many calls to write figures these gateways made together, whatever the store answered.
async fn calls(worlds: &[&World]) -> f64 {
    calls_with(worlds, "").await
}

/// How many of these calls have a line in the metrics with this label.
async fn calls_with(worlds: &[&World], label: &str) -> f64 {
    let mut sum = 0.0;
    for world in worlds {
        let text = world.backend().get("/metrics").await.is(200).text;
        let lines = text
            .lines()
            .filter(|line| line.starts_with("rollcall_figures_written_total{"));
        let lines = lines.filter(|line| line.contains(label));
        sum += lines
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
            .sum::<f64>();
    }
    sum
}

on_redis! {
    async fn the_record_follows_the_counts_within_five_seconds_and_zero_gets_there_too(world) {
        let redis = world.redis().clone();
        world.open("42").await;
        world.crowd_follows("u", 2).await;
        let crowd = world.crowd("u", 3, "42").await;
        record_becomes(&redis, "42", 3, 2).await;
        let [.., first] = record(&redis, "42").await;
        until("the ranks follow", PATIENCE, async || {
            same(redis.ask(&["ZSCORE", "{lives}:by_viewers", "42"]).await.as_str(), Some("3")).map(drop)
        })
        .await;
        for viewer in crowd {
            viewer.close().await;
        }
        record_becomes(&redis, "42", 0, 0).await;
        let [.., second] = record(&redis, "42").await;
        assert!(second.unwrap() >= first.unwrap() + 5_000, "{first:?}, then {second:?}");
        until("the ranks follow", PATIENCE, async || {
            same(redis.ask(&["ZSCORE", "{lives}:by_viewers", "42"]).await.as_str(), Some("0")).map(drop)
        })
        .await;
        world.backend().close("42").await;
        assert_eq!(record(&redis, "42").await, [None; 3]);
        assert!(redis.ask(&["ZSCORE", "{lives}:by_fans", "42"]).await.is_null());
    }
}

on_redis! {
    async fn a_live_in_which_nothing_changes_is_not_written(world) {
        world.open("42").await;
        let _crowd = world.crowd("u", 2, "42").await;
        let other = world.another_gateway().await;
        let _elsewhere = other.viewer_in("u9", "42").await;
        record_becomes(world.redis(), "42", 3, 0).await;
        assert_eq!(world.redis().ask(&["HGET", "live:42", "joins"]).await, json!("3"));
        let both = [&world, &other];
        let (before, asked) = (record(world.redis(), "42").await, calls(&both).await);
        let written = calls_with(&both, WRITTEN).await;
        // Checks look at the figures meanwhile, several times.
        throughout("nothing is written", world.config.check_every * 4, async || {
            same((record(world.redis(), "42").await, calls_with(&both, WRITTEN).await), (before, written))
        })
        .await;
        // A gateway that had not heard of the other's viewers yet may have come second, once.
        let more = calls(&both).await - asked;
        assert!(more <= 1.0, "{more} calls");
    }
}

on_redis! {
    async fn the_record_counts_each_user_once(world) {
        world.open("42").await;
        world.crowd_follows("u", 1).await;
        let other = world.another_gateway().await;
        let _here = world.crowd("u", 2, "42").await;
        let _there = other.crowd("u", 2, "42").await;
        record_becomes(world.redis(), "42", 2, 1).await;
        // An audit compares only what was written more than seven seconds ago.
        throughout("the record stays", EVERY * 2, async || {
            let [viewers, fans, _] = record(world.redis(), "42").await;
            same((viewers, fans), (Some(2), Some(1)))
        })
        .await;
        let report = audit(&world.redis().url(), 0, "").await;
        assert_eq!((&report["lives"][0]["viewers"], &report["lives"][0]["fans"]), (&json!(2), &json!(1)), "{report}");
    }
}

/// Has guests come and go on these gateways for three times the least time between writes. Answers
/// how many calls to write the gateways made together.
async fn calls_for_guests(worlds: &[&World]) -> f64 {
    let mut stay = Vec::new();
    for (n, world) in worlds.iter().enumerate() {
        stay.push(world.viewer_in(&format!("stays{n}"), "42").await);
    }
    let all = worlds.len() as u64;
    record_becomes(worlds[0].redis(), "42", all, 0).await;
    let (before, start) = (calls(worlds).await, Instant::now());
    let mut n = 0;
    while start.elapsed() < EVERY * 3 {
        let guest = worlds[n % worlds.len()]
            .viewer_in(&format!("guest{n}"), "42")
            .await;
        guest.close().await;
        n += 1;
    }
    let made = calls(worlds).await - before;
    eprintln!(
        "{n} guests in {:?} on {all} gateways: {made} calls",
        start.elapsed()
    );
    record_becomes(worlds[0].redis(), "42", all, 0).await;
    made
}

on_redis! {
    tuned(|config| config.check_every = Duration::from_secs(60))
    async fn of_four_gateways_with_changes_one_writes(world) {
        world.open("42").await;
        let (b, c, d) =
            (world.another_gateway().await, world.another_gateway().await, world.another_gateway().await);
        let calls = calls_for_guests(&[&world, &b, &c, &d]).await;
        // While gateways disagree for a moment, a second one may call, and is refused.
        assert!((2.0..=5.0).contains(&calls), "{calls} calls by four gateways in 15 s");
    }
}

/// The last gateway with viewers dies; another one, which has no room of the live, sweeps it.
#[test]
fn the_figures_of_a_live_that_only_a_killed_gateway_had_become_zero() {
    story(async {
        let redis = Redis::start().await;
        let mut doomed = World::program(redis.clone()).await;
        doomed.open("42").await;
        doomed.crowd_follows("u", 2).await;
        let _crowd = doomed.crowd("u", 2, "42").await;
        record_becomes(&redis, "42", 2, 2).await;
        let other = World::beside(redis.clone(), |_| ()).await;
        doomed.process().kill();
        until(
            "nobody is counted",
            other.sweep_bound() + EVERY,
            async || {
                let [viewers, fans, _] = record(&redis, "42").await;
                same((viewers, fans), (Some(0), Some(0)))
            },
        )
        .await;
    });
}

on_redis! {
    async fn figures_and_ranks_that_redis_lost_are_written_again(world) {
        world.open("42").await;
        let _crowd = world.crowd("u", 2, "42").await;
        record_becomes(world.redis(), "42", 2, 0).await;
        world.redis().ask(&["HSET", "live:42", "viewers", "7"]).await;
        let within = world.config.check_every * 2 + EVERY + SLACK;
        until("the figures are right again", within, async || {
            same(record(world.redis(), "42").await[0], Some(2))
        })
        .await;
        world.redis().ask(&["FLUSHALL"]).await;
        // For ten seconds after a loss the figures are in doubt.
        let within = within + Duration::from_secs(10);
        until("the figures are back", within, async || same(record(world.redis(), "42").await[0], Some(2))).await;
        world.takes_the_sweepers_turn().await;
        world.redis().ask(&["ZADD", "{lives}:by_viewers", "9", "42"]).await;
        // A rank is compared with a record that has not changed for a while.
        until("the walk repairs the rank", Duration::from_secs(20), async || {
            same(world.redis().ask(&["ZSCORE", "{lives}:by_viewers", "42"]).await.as_str(), Some("2")).map(drop)
        })
        .await;
    }
}

on_memory! {
    async fn many_lives_are_asked_about_in_one_call(world) {
        let backend = world.backend();
        let title = "Köche & Ko. \"live\"";
        backend.put("/v1/lives/a", json!({"streamer_id": "s1", "title": title})).await.is(201);
        world.open("b").await;
        world.follow(&["u0"]).await;
        let _crowd = world.crowd("u", 3, "a").await;
        backend.open("over", "s1").await;
        backend.close("over").await;
        let ask = async || backend.post("/v1/lives:query", json!({"live_ids": ["b", "never", "a", "over", "b"]})).await;
        until("the counts are exact", PATIENCE, async || {
            let found = ask().await.is(200).body;
            let shown = |n: usize| (found["items"][n]["viewers"].clone(), found["items"][n]["fans"].clone());
            same((shown(0), shown(1)), ((json!(0), json!(0)), (json!(3), json!(1))))
        })
        .await;
        let found = ask().await.is(200).body;
        let ids: Vec<&Value> = found["items"].as_array().unwrap().iter().map(|live| &live["live_id"]).collect();
        assert_eq!((ids, &found["unknown"]), (vec![&json!("b"), &json!("a"), &json!("over")], &json!(["never"])));
        let (a, over) = (&found["items"][1], &found["items"][2]);
        assert_eq!((&a["title"], &a["peak_viewers"], &over["state"]), (&json!(title), &json!(3), &json!("closed")));
        assert!(a["counted_at"].is_u64() && over["counted_at"].is_null(), "{found}");
        for (ids, code) in
            [(json!(["4 2"]), "invalid_id"), (json!(7), "bad_message"), (json!(vec!["x"; 1_001]), "bad_message")]
        {
            let answer = backend.post("/v1/lives:query", json!({"live_ids": ids})).await;
            assert_eq!(answer.problem(400), code, "{answer:?}");
        }
        assert_eq!(backend.get("/v1/lives").await.is(200).body["items"][0]["title"], title);
    }
}

/// The lives of a listing with a figure of each, page by page.
async fn listing(world: &World, sort: &str, limit: usize) -> Vec<(String, u64)> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/lives?sort={sort}&limit={limit}{cursor}");
        let page = world.backend().get(&path).await.is(200).body;
        for live in page["items"].as_array().unwrap() {
            all.push((
                live["live_id"].as_str().unwrap().to_owned(),
                live[sort].as_u64().unwrap(),
            ));
        }
        match page["cursor"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return all,
        }
    }
}

on_redis! {
    async fn rooms_are_listed_by_size_on_a_gateway_that_has_none_of_them(world) {
        let other = world.another_gateway().await;
        world.crowd_follows("u", 3).await;
        let (mut crowds, mut by_viewers, mut by_fans) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0_u64..6 {
            let live = format!("L{n}");
            world.open(&live).await;
            // As many fans, and then some who are not.
            let (viewers, fans) = ((n * 5) % 6, n.min(3).min((n * 5) % 6));
            crowds.push(world.crowd("u", fans as usize, &live).await);
            crowds.push(world.crowd("x", (viewers - fans) as usize, &live).await);
            by_viewers.push((live.clone(), viewers));
            by_fans.push((live, fans));
        }
        for model in [&mut by_viewers, &mut by_fans] {
            model.sort_by(|a, b| (b.1, &b.0).cmp(&(a.1, &a.0)));
        }
        for world in [&world, &other] {
            for limit in [2, 100] {
                until("the list is as the model says", EVERY * 2 + SLACK, async || {
                    same(listing(world, "viewers", limit).await, by_viewers.clone())?;
                    same(listing(world, "fans", limit).await, by_fans.clone())
                })
                .await;
            }
        }
        let top = other.backend().get("/v1/lives?sort=viewers&limit=1").await.is(200).body["items"][0].clone();
        assert_eq!((&top["live_id"], &top["viewers"]), (&json!("L1"), &json!(5)), "{top}");
        assert!(top["counted_at"].is_u64(), "{top}");
        world.backend().close("L1").await;
        assert!(!listing(&other, "viewers", 100).await.iter().any(|(live, _)| live == "L1"));
        assert_eq!(other.backend().get("/v1/lives?sort=size").await.problem(400), "invalid_query");
    }
}
