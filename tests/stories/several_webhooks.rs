//! Several webhooks: each hears its own events, whatever becomes of the others; operators see how each
//! stands, send tests, and have events sent again.

use std::time::Duration;

use axum::http::Method;
use rollcall::base::event_kind::EventKind;
use rollcall::config::Config;
use serde_json::{Value, json};

use crate::support::redis_view::Redis;
use crate::support::stores::story;
use crate::support::wait::{PATIENCE, becomes, fits, same, until};
use crate::support::webhook::{Mood, Webhook};
use crate::support::world::World;

/// How a webhook stands.
async fn standing(world: &World, name: &str) -> Value {
    let listed = world.backend().get("/v1/webhooks").await.is(200).body;
    let items = listed["items"].as_array().unwrap();
    let found = items.iter().find(|webhook| webhook["name"] == name);
    found.unwrap_or_else(|| panic!("{name}: {listed}")).clone()
}

/// A gateway with two webhooks: one hears everything but counts, the other of closes only.
async fn two_webhooks() -> (World, Webhook, Webhook) {
    let (all, closes) = (Webhook::start().await, Webhook::start().await);
    let world = World::on_redis(|config| all_and_closes(&all, &closes, config)).await;
    (world, all, closes)
}

fn all_and_closes(all: &Webhook, closes: &Webhook, config: &mut Config) {
    config.count_events = false;
    all.hears(config);
    closes.hears_as("closes", &[EventKind::LiveClosed], config);
}

async fn hears_its_own_events() {
    let (world, all, closes) = two_webhooks().await;
    let backend = world.backend();
    closes.is(Mood::Refuses("1"));
    for live in ["1", "2"] {
        backend.open(live, "s1").await;
        backend.ban(live, "u1", 600).await;
        backend.close(live).await;
    }
    for live in ["1", "2"] {
        all.hears_of(live, &["live.opened", "user.banned", "live.closed"])
            .await;
    }
    closes.hears_of("2", &["live.closed"]).await;
    assert_eq!(closes.story_of("1"), Vec::<String>::new());
    until("the failure is shown", PATIENCE, async || {
        fits(standing(&world, "closes").await, |closes| {
            closes["last_failure"] == "it answered 500" && closes["last_delivered_at"].is_u64()
        })
    })
    .await;
    let standing = standing(&world, "closes").await;
    assert_eq!(standing["events"], json!(["live.closed"]));
    assert_eq!(standing["secrets"], 1);
    assert!(
        standing["origin"]
            .as_str()
            .unwrap()
            .starts_with("http://127.0.0.1:")
            && !standing.to_string().contains("hooks\""),
        "the path may be secret: {standing}"
    );
    let page = backend
        .get("/v1/webhooks/closes/deliveries?limit=1")
        .await
        .is(200)
        .body;
    assert_eq!(page["items"].as_array().unwrap().len(), 1);
    assert!(page["cursor"].is_string(), "{page}");
    let failed = backend
        .get("/v1/webhooks/closes/deliveries")
        .await
        .is(200)
        .body;
    let failed = failed["items"].as_array().unwrap().clone();
    assert!(
        failed.iter().any(|one| one["delivered"] == false
            && one["status"] == 500
            && one["event_type"] == "live.closed"),
        "{failed:?}"
    );
    closes.is(Mood::Takes);
    closes.hears_of("1", &["live.closed"]).await;
}

#[test]
fn each_webhook_hears_its_own_events() {
    story(hears_its_own_events());
}

async fn reach_one_webhook_only() {
    let (world, all, closes) = two_webhooks().await;
    let backend = world.backend();
    backend.open("1", "s1").await;
    backend.close("1").await;
    all.hears_of("1", &["live.opened", "live.closed"]).await;
    closes.hears_of("1", &["live.closed"]).await;
    let before = all.taken().len();
    let test = backend
        .send(Method::POST, "/v1/webhooks/closes/test", None)
        .await
        .is(200)
        .body;
    assert_eq!(
        (&test["delivered"], &test["status"]),
        (&json!(true), &json!(204))
    );
    let taken = closes.taken();
    assert_eq!(taken.last().unwrap()["type"], "webhook.test");
    assert_eq!(taken.last().unwrap()["id"], test["event_id"]);

    let replayed = backend
        .post("/v1/webhooks/closes/replay", json!({"from": 0}))
        .await
        .is(200)
        .body;
    assert_eq!(replayed, json!({"replayed": 1, "next_from": null}));
    until("the close comes again", PATIENCE, async || {
        fits(closes.taken_of("live.closed"), |closed| {
            closed.len() == 2 && closed[0] == closed[1]
        })
    })
    .await;
    assert_eq!(all.taken().len(), before, "the other webhook hears nothing");
    let nobody = backend.get("/v1/webhooks/nobody/deliveries").await;
    assert_eq!(nobody.problem(404), "webhook_not_found");
}

#[test]
fn a_test_and_a_replay_reach_one_webhook_only() {
    story(reach_one_webhook_only());
}

#[test]
fn follows_and_calls_are_events_where_they_are_switched_on() {
    story(async {
        let webhook = Webhook::start().await;
        let world = World::on_redis(|config| {
            config.count_events = false;
            config.follow_events = true;
            config.audit_events = true;
            webhook.hears(config);
        })
        .await;
        let backend = world.backend();
        for _ in 0..2 {
            backend
                .send(Method::PUT, "/v1/users/u1/following/s1", None)
                .await
                .is(200);
        }
        backend.delete("/v1/users/u1/following/s1").await.is(200);
        backend.open("42", "s1").await;
        backend.ban("42", "u1", 600).await;
        until("all of it is heard", PATIENCE * 3, async || {
            fits(webhook.taken().len(), |heard| *heard >= 6)
        })
        .await;
        let followed = webhook.taken_of("user.followed");
        assert_eq!(followed.len(), 1, "the second call changed nothing");
        assert_eq!(
            (&followed[0]["user_id"], &followed[0]["streamer_id"]),
            (&json!("u1"), &json!("s1"))
        );
        assert_eq!(webhook.taken_of("user.unfollowed").len(), 1);
        let calls = webhook.taken_of("audit.recorded");
        let actions: Vec<&str> = calls
            .iter()
            .map(|call| call["action"].as_str().unwrap())
            .collect();
        let right = [
            "PUT /v1/lives/{live_id}",
            "PUT /v1/lives/{live_id}/bans/{user_id}",
        ];
        assert_eq!(actions, right);
        assert_eq!(
            calls[1]["target"],
            json!({"live_id": "42", "user_id": "u1"})
        );
        assert_eq!(calls[1]["by"], Value::Null, "nobody is asked who they are");
        let noted = until("all of it is noted", PATIENCE, async || {
            let listed = backend.get("/v1/webhooks/default/deliveries").await;
            let listed = listed.is(200).body;
            match listed["items"].as_array().unwrap().len() {
                6.. => Ok(listed.to_string()),
                fewer => Err(fewer),
            }
        })
        .await;
        assert!(!noted.contains("u1"), "no id names a user: {noted}");
        assert!(calls[1]["request_id"].is_string());
    });
}

#[test]
fn another_gateway_goes_on_with_every_webhook_when_one_stops() {
    story(async {
        let (all, closes) = (Webhook::start().await, Webhook::start().await);
        let settings = |config: &mut Config| all_and_closes(&all, &closes, config);
        let first = World::on_redis(settings).await;
        let redis = first.redis().clone();
        first.backend().open("1", "s1").await;
        all.hears_of("1", &["live.opened"]).await;
        let second = World::beside(redis.clone(), settings).await;
        first.stop().await;
        let gateway = second.gateway_id().await;
        let senders = [
            "{rollcall:events}:sender",
            "{rollcall:events}:sender:closes",
        ];
        for sender in senders {
            until(
                "another gateway sends",
                Duration::from_secs(20),
                async || {
                    fits(redis.ask(&["GET", sender]).await, |holder| {
                        *holder == gateway.as_str()
                    })
                },
            )
            .await;
        }
        second.backend().close("1").await;
        all.hears_of("1", &["live.opened", "live.closed"]).await;
        closes.hears_of("1", &["live.closed"]).await;
    });
}

/// Both webhooks, as every gateway has them.
fn hear_both(main: &Webhook, log: &Webhook, config: &mut Config) {
    main.hears(config);
    log.hears_as("log", &[], config);
}

#[test]
fn each_webhook_gets_everything_though_one_is_down_and_the_sender_is_killed() {
    story(async {
        let (mut main, log) = (Webhook::start().await, Webhook::start().await);
        let redis = Redis::start().await;
        let mut doomed =
            World::program_with(redis.clone(), |config| hear_both(&main, &log, config)).await;
        doomed.backend().open("1", "s1").await;
        for webhook in [&main, &log] {
            webhook.hears_of("1", &["live.opened"]).await;
        }
        let other = World::beside(redis.clone(), |config| hear_both(&main, &log, config)).await;
        main.stops().await;
        let lives = ["1", "2", "3"];
        for live in lives {
            other.backend().open(live, "s1").await;
            other.backend().remove(live, "u1").await.is(200);
        }
        for live in lives {
            log.hears_of(live, &["live.opened", "user.removed"]).await;
        }
        doomed.process().kill();
        for live in lives {
            other.backend().ban(live, "u2", 60).await;
            other.backend().close(live).await;
        }
        let whole = ["live.opened", "user.removed", "user.banned", "live.closed"];
        for live in lives {
            log.hears_of(live, &whole).await;
        }
        assert_eq!(main.story_of("2"), Vec::<String>::new(), "it is down");
        main.comes_back().await;
        for live in lives {
            main.hears_of(live, &whole).await;
        }
        becomes("nothing waits", [json!(0), json!(0)], async || {
            [
                standing(&other, "default").await["waiting"].clone(),
                standing(&other, "log").await["waiting"].clone(),
            ]
        })
        .await;
    });
}

#[test]
fn the_secret_of_any_webhook_changes_while_gateways_run() {
    story(async {
        for name in ["default", "log"] {
            let webhook = Webhook::start().await;
            let hear = |config: &mut Config| match name {
                "default" => webhook.hears(config),
                further => webhook.hears_as(further, &[], config),
            };
            let one = World::on_redis(hear).await;
            let other = World::beside(one.redis().clone(), hear).await;
            let gateways = [&one, &other];
            one.backend().open("1", "s1").await;
            webhook.hears_of("1", &["live.opened"]).await;
            assert_eq!(webhook.signed_twice(), 0, "{name}");
            webhook.adds_a_secret();
            for gateway in gateways {
                gateway.reload().await;
                assert_eq!(standing(gateway, name).await["secrets"], 2);
            }
            one.backend().open("2", "s1").await;
            webhook.hears_of("2", &["live.opened"]).await;
            // On a busy machine it may come twice.
            let by_both = webhook.signed_twice();
            assert!(by_both >= 1, "{name}: by both secrets");
            webhook.knows_the_next_secret();
            webhook.drops_the_old_secret();
            for gateway in gateways {
                gateway.reload().await;
            }
            one.backend().open("3", "s1").await;
            webhook.hears_of("3", &["live.opened"]).await;
            let more = webhook.signed_twice() - by_both;
            assert_eq!(more, 0, "{name}: by the new one alone");
        }
    });
}

#[test]
fn a_receiver_that_is_overloaded_is_sent_nothing_from_either_queue() {
    story(async {
        let webhook = Webhook::start().await;
        let world = World::on_memory(|config| webhook.hears(config)).await;
        let backend = world.backend();
        backend.open("1", "s1").await;
        webhook.hears_of("1", &["live.opened"]).await;
        webhook.is(Mood::Defers("2", "3"));
        backend.open("2", "s1").await;
        let deferred = until("an event is deferred", PATIENCE, async || {
            webhook.deferred().first().copied().ok_or("none is")
        })
        .await;
        webhook.is(Mood::Takes);
        let before = webhook.taken().len();
        backend
            .post("/v1/webhooks/default/replay", json!({"from": 0}))
            .await
            .is(200);
        until("an event is taken", PATIENCE, async || {
            fits(webhook.taken().len(), |taken| *taken > before)
        })
        .await;
        let rest = deferred.elapsed();
        assert!(rest >= Duration::from_millis(2_900), "{rest:?}");
        becomes("everything came again", 2, async || {
            webhook
                .taken()
                .iter()
                .filter(|event| event["live_id"] == "1")
                .count()
        })
        .await;
    });
}

#[test]
fn the_audit_trail_outlives_a_flood_of_events_and_old_events_go_by_themselves() {
    story(async {
        let redis = Redis::start().await;
        let add = async |id: &str| {
            let entry = [
                "XADD",
                "rollcall:events",
                id,
                "id",
                "x",
                "type",
                "live.counts",
            ];
            redis
                .ask(&[&entry[..], &["live_id", "1", "data", "{}"]].concat())
                .await;
        };
        add("1-1").await;
        let world = World::beside(redis.clone(), |config| {
            config.audit_events = true;
            config.events_kept = 100;
        })
        .await;
        until("nothing is left of an old event", PATIENCE, async || {
            let left = redis.ask(&["XLEN", "rollcall:events"]).await;
            same(left.as_u64(), Some(0))
        })
        .await;
        let backend = world.backend();
        let profile = json!({"login": "ann", "name": "Ann"});
        backend.put("/v1/users/u9", profile).await.is(201);
        let trail = async || {
            let trail = redis.say("XRANGE {rollcall:events}:audit - +").await;
            trail.to_string()
        };
        until("the trail tells it", PATIENCE, async || {
            fits(trail().await, |trail| trail.contains("u9"))
        })
        .await;
        for _ in 0..1_000 {
            add("*").await;
        }
        backend.open("42", "s1").await;
        until("the stream is trimmed", PATIENCE, async || {
            let all = redis.say("XRANGE rollcall:events - +").await.to_string();
            if all.contains("u9") { Err(all) } else { Ok(()) }
        })
        .await;
        assert!(trail().await.contains("u9"));
    });
}
