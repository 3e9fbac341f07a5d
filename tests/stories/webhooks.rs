//! What happens is told to a webhook: nothing is lost, each live's events arrive in order, and
//! repeats carry the same id, whatever happens to the receiver and to the gateway that sends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use reqwest::Method;
use rollcall::base::event_kind::EventKind;
use rollcall::base::ids::{LiveId, UserId};
use rollcall::base::metrics::Metrics;
use rollcall::base::secret::Secret;
use rollcall::config::Config;
use rollcall::store::redis::RedisStore;
use rollcall::store::{
    CloseLive, CloseReason, LiveStore, OpenLive, OpenReply, OpenedBy, Peaks, Terms,
};
use serde_json::{Value, json};

use crate::support::backend::Backend;
use crate::support::command::run;
use crate::support::redis_view::Redis;
use crate::support::stores::story;
use crate::support::wait::{PATIENCE, becomes, fits, same, until};
use crate::support::webhook::{Mood, Webhook};
use crate::support::world::World;

/// Waits until the gateways have a sender of events.
async fn somebody_sends(redis: &Redis) -> String {
    until("a gateway sends", PATIENCE, async || {
        redis
            .say("GET {rollcall:events}:sender")
            .await
            .as_str()
            .map(str::to_owned)
            .ok_or("nobody")
    })
    .await
}

/// Waits until no event of the stream waits for the webhook.
async fn all_is_acknowledged(redis: &Redis) {
    until("all is acknowledged", PATIENCE, async || {
        let pending = redis.say("XPENDING rollcall:events webhooks").await;
        same(pending[0].as_u64(), Some(0))
    })
    .await;
}

async fn a_live_is_told_from_its_opening_to_its_close(world: World, webhook: &Webhook) {
    let backend = world.backend();
    backend
        .put(
            "/v1/lives/42",
            json!({"streamer_id": "s1", "title": "of two"}),
        )
        .await
        .is(201);
    let _viewer = world.viewer_in("u1", "42").await;
    webhook
        .hears_of("42", &["live.opened", "live.counts"])
        .await;
    backend.remove("42", "u1").await.is(200);
    backend.ban("42", "u2", 600).await;
    backend.delete("/v1/lives/42/bans/u2").await.is(200);
    backend.close("42").await;
    webhook
        .hears_of(
            "42",
            &[
                "live.opened",
                "live.counts",
                "user.removed",
                "user.banned",
                "user.unbanned",
                "live.closed",
            ],
        )
        .await;
    let taken = webhook.taken();
    let of = |kind: &str| webhook.taken_of(kind).remove(0);
    let epoch = taken[0]["epoch"].as_u64().unwrap();
    for event in &taken {
        let n = event["at"].as_u64().unwrap();
        assert_eq!(
            event["id"],
            format!("42:{epoch}:{}:{n}", event["type"].as_str().unwrap())
        );
        assert_eq!(
            (&event["streamer_id"], &event["epoch"]),
            (&json!("s1"), &json!(epoch))
        );
    }
    assert_eq!(
        (&of("live.opened")["title"], &of("live.opened")["opened_by"]),
        (&json!("of two"), &json!("service"))
    );
    assert_eq!(of("live.counts")["viewers"], 1);
    assert_eq!(of("user.removed")["user_id"], "u1");
    assert_eq!(of("user.banned")["user_id"], "u2");
    assert_eq!(of("user.unbanned")["user_id"], "u2");
    assert!(
        of("user.banned")["ban_ends_at"].as_u64().unwrap()
            > of("user.banned")["at"].as_u64().unwrap() + 500_000
    );
    let closed = of("live.closed");
    assert_eq!(
        (&closed["reason"], &closed["peak_viewers"]),
        (&json!("requested"), &json!(1))
    );
    let time = |name: &str| closed[name].as_u64().unwrap();
    assert_eq!(time("duration_ms"), time("closed_at") - time("opened_at"));
}

#[test]
fn a_live_is_told_on_memory() {
    story(async {
        let webhook = Webhook::start().await;
        let world = World::on_memory(|config| webhook.hears(config)).await;
        a_live_is_told_from_its_opening_to_its_close(world, &webhook).await;
    });
}

#[test]
fn a_live_is_told_on_redis() {
    story(async {
        let webhook = Webhook::start().await;
        let world = World::on_redis(|config| webhook.hears(config)).await;
        let redis = world.redis().clone();
        a_live_is_told_from_its_opening_to_its_close(world, &webhook).await;
        let told = redis.ask(&["HKEYS", "live:42"]).await.to_string();
        assert!(
            !told.contains("event:") && !told.contains("counts_told"),
            "nothing is left in the record: {told}"
        );
    });
}

#[test]
fn nothing_is_lost_when_the_receiver_is_down_and_the_sender_is_killed() {
    story(async {
        let mut webhook = Webhook::start().await;
        let redis = Redis::start().await;
        let mut doomed = World::program_with(redis.clone(), |config| webhook.hears(config)).await;
        somebody_sends(&redis).await;
        doomed.backend().open("1", "s1").await;
        webhook.hears_of("1", &["live.opened"]).await;
        webhook.stops().await;
        for live in ["1", "2", "3"] {
            doomed.backend().open(live, "s1").await;
            doomed.backend().remove(live, "u1").await.is(200);
        }
        let waiting = async || redis.ask(&["XLEN", "rollcall:events"]).await.as_u64();
        becomes("the events are in the stream", Some(6), async || {
            waiting().await
        })
        .await;
        doomed.process().kill();

        let other = World::beside(redis.clone(), |config| webhook.hears(config)).await;
        for live in ["1", "2", "3"] {
            other.backend().ban(live, "u2", 60).await;
            other.backend().close(live).await;
        }
        webhook.comes_back().await;
        for live in ["1", "2", "3"] {
            webhook
                .hears_of(
                    live,
                    &["live.opened", "user.removed", "user.banned", "live.closed"],
                )
                .await;
        }
        all_is_acknowledged(&redis).await;
    });
}

/// The users whom the events of the stream say were removed from a live, each as often as it says so.
async fn removed_by_events(redis: &Redis) -> Vec<String> {
    let entries = redis.ask(&["XRANGE", "rollcall:events", "-", "+"]).await;
    let mut users = Vec::new();
    for entry in entries.as_array().unwrap() {
        let fields = entry[1].as_array().unwrap();
        let event: Value = serde_json::from_str(fields.last().unwrap().as_str().unwrap()).unwrap();
        if event["type"] == "user.removed" {
            users.push(event["user_id"].as_str().unwrap().to_owned());
        }
    }
    users.sort();
    users
}

fn names(count: usize) -> Vec<String> {
    let mut names: Vec<String> = (0..count).map(|n| format!("u{n}")).collect();
    names.sort();
    names
}

/// Removes users `from` to `to` from the live 1 through a gateway, a hundred at a time: fewer than the
/// calls that it makes for clients at a time.
/// Answers how many of these calls had the answer 200.
async fn removes_a_herd(backend: Backend, from: usize, to: usize) -> usize {
    let calls = stream::iter(from..to).map(|n| {
        let backend = backend.clone();
        async move {
            let path = format!("/v1/lives/1/viewers/u{n}");
            backend.try_send(Method::DELETE, &path).await == Some(200)
        }
    });
    let answers = calls.buffer_unordered(100);
    answers
        .filter(|was_removed| std::future::ready(*was_removed))
        .count()
        .await
}

fn for_herds(webhook: &Webhook, config: &mut Config) {
    webhook.hears(config);
    config.count_events = false;
    config.http_rate = 0;
}

#[test]
fn a_thousand_removals_at_once_are_a_thousand_events() {
    story(async {
        let webhook = Webhook::start().await;
        let one = World::on_redis(|config| for_herds(&webhook, config)).await;
        let redis = one.redis().clone();
        let two = World::beside(redis.clone(), |config| for_herds(&webhook, config)).await;
        one.backend().open("1", "s1").await;
        let herds = [(&one, 0, 500), (&two, 500, 1_000)];
        let herds =
            herds.map(|(world, from, to)| removes_a_herd(world.backend().clone(), from, to));
        assert_eq!(join_all(herds).await, [500, 500]);
        assert_eq!(removed_by_events(&redis).await, names(1_000));
        until("the webhook has them", PATIENCE * 3, async || {
            same(webhook.taken().len(), 1_001)
        })
        .await;
        all_is_acknowledged(&redis).await;
        assert_eq!(webhook.requests(), 1_001, "each once");
    });
}

#[test]
fn no_removal_goes_untold_when_its_gateway_is_killed_among_many() {
    story(async {
        let webhook = Webhook::start().await;
        let redis = Redis::start().await;
        let mut doomed =
            World::program_with(redis.clone(), |config| for_herds(&webhook, config)).await;
        let other = World::beside(redis.clone(), |config| for_herds(&webhook, config)).await;
        other.backend().open("1", "s1").await;
        let herd = tokio::spawn(removes_a_herd(doomed.backend().clone(), 0, 2_000));
        // More than are under way at a time, so some calls have their answers.
        until("some are removed", PATIENCE, async || {
            fits(removed_by_events(&redis).await.len(), |told| *told >= 300)
        })
        .await;
        doomed.process().kill();
        let answered = herd.await.unwrap();
        let removed = redis.ask(&["ZRANGE", "{live:1}:removals", "0", "-1"]).await;
        let removed: BTreeSet<String> = removed
            .as_array()
            .unwrap()
            .iter()
            .map(|user| user.as_str().unwrap().to_owned())
            .collect();
        assert!((1..2_000).contains(&answered), "{answered}");
        assert!(removed.len() >= answered);
        until("each removal is told", PATIENCE * 2, async || {
            let told = removed_by_events(&redis).await;
            let unique: BTreeSet<String> = told.iter().cloned().collect();
            if unique == removed {
                Ok(())
            } else {
                Err(format!("{} of {}", unique.len(), removed.len()))
            }
        })
        .await;
        until("the webhook has them", PATIENCE * 2, async || {
            let heard = webhook.story_of("1").len();
            same(heard, removed.len() + 1)
        })
        .await;
    });
}

#[test]
fn a_receiver_that_says_when_to_come_back_is_left_alone_until_then() {
    story(async {
        let webhook = Webhook::start().await;
        webhook.is(Mood::Defers("1", "3"));
        let world = World::on_memory(|config| webhook.hears(config)).await;
        for live in ["1", "2"] {
            world.backend().open(live, "s1").await;
        }
        webhook.hears_of("2", &["live.opened"]).await;
        until("the event is sent again", PATIENCE, async || {
            fits(webhook.deferred(), |deferred| deferred.len() == 2)
        })
        .await;
        let deferred = webhook.deferred();
        let wait = deferred[1].duration_since(deferred[0]);
        assert!(wait >= Duration::from_millis(2_900), "{wait:?}");
        webhook.is(Mood::Takes);
        webhook.hears_of("1", &["live.opened"]).await;
    });
}

#[test]
fn a_live_whose_event_is_refused_holds_back_only_its_own() {
    story(async {
        let webhook = Webhook::start().await;
        webhook.is(Mood::Refuses("1"));
        let world = World::on_redis(|config| {
            webhook.hears(config);
            config.webhook_patience = Duration::from_secs(2);
        })
        .await;
        for live in ["1", "2"] {
            world.backend().open(live, "s1").await;
            world.backend().close(live).await;
        }
        webhook.hears_of("2", &["live.opened", "live.closed"]).await;
        assert_eq!(webhook.story_of("1"), Vec::<String>::new());
        let url = world.redis().url();
        let events = |words: &str| {
            run(&format!("events {words} --redis {url} --json"))
                .is(0)
                .json()
        };
        let dead = until(
            "both events of the live are given up",
            PATIENCE * 2,
            async || {
                fits(events("list"), |listed| {
                    listed["events"].as_array().unwrap().len() == 2
                })
            },
        )
        .await;
        assert_eq!(
            (&dead["events"][0]["event"]["type"], &dead["more"]),
            (&json!("live.opened"), &json!(false))
        );
        assert!(
            dead["events"][0]["attempts"].as_u64().unwrap() >= 3
                && dead["events"][0]["why"] == "it answered 500"
        );
        webhook.is(Mood::Takes);
        let entry = dead["events"][0]["entry"].as_str().unwrap();
        assert_eq!(events(&format!("replay {entry}"))["replayed"], 1);
        webhook.hears_of("1", &["live.opened"]).await;
        assert_eq!(events("replay --all")["replayed"], 1);
        webhook.hears_of("1", &["live.opened", "live.closed"]).await;
        assert_eq!(events("list")["events"], json!([]));
    });
}

#[test]
fn a_private_address_is_sent_nothing_unless_a_setting_allows_it() {
    story(async {
        let webhook = Webhook::start().await;
        let mut config = crate::support::world::timings();
        webhook.hears(&mut config);
        config.webhook_allow_private = false;
        let refused = rollcall::gateway::start(config)
            .await
            .err()
            .expect("no gateway")
            .to_string();
        assert!(refused.contains("webhook-allow-private"), "{refused}");
    });
}

#[test]
fn the_walk_writes_the_events_that_a_gateway_left_in_a_record() {
    story(async {
        let webhook = Webhook::start().await;
        let redis = Redis::start().await;
        // A gateway that dies right after its script: the store is asked, and nobody goes on.
        let store = RedisStore::connect(&Secret::new(redis.url()), Arc::new(Metrics::default()))
            .await
            .unwrap();
        let mut records = Vec::new();
        for live in ["1", "2"] {
            let (live, streamer) = (LiveId::parse(live).unwrap(), UserId::parse("s1").unwrap());
            let (by, terms, message) = (OpenedBy::Service, Terms::default(), String::new());
            let wish = OpenLive {
                live,
                streamer,
                slices: 1,
                by,
                terms,
                message,
            };
            let OpenReply::Opened(record) = store.open_live(&wish).await.unwrap() else {
                panic!("not opened")
            };
            records.push(record);
        }
        let close = CloseLive {
            live: records[1].live.clone(),
            epoch: records[1].epoch,
            reason: CloseReason::Moderated,
            peaks: Peaks::default(),
            uniques: true,
            message: String::new(),
        };
        store.begin_close(&close).await.unwrap();
        let _world = World::beside(redis, |config| webhook.hears(config)).await;
        webhook.hears_of("1", &["live.opened"]).await;
        webhook.hears_of("2", &["live.opened", "live.closed"]).await;
        assert_eq!(webhook.taken_of("live.closed")[0]["reason"], "moderated");
    });
}

/// A gateway that sends who comes and goes, and nothing else.
async fn telling_of_fans(webhook: &Webhook) -> World {
    World::on_redis(|config| {
        webhook.hears(config);
        config.fan_events = true;
        config.webhook_events = vec![EventKind::FanJoined, EventKind::FanLeft];
    })
    .await
}

#[test]
fn fans_who_come_and_go_are_told_in_batches_if_a_setting_says_so() {
    story(async {
        let webhook = Webhook::start().await;
        let world = telling_of_fans(&webhook).await;
        world.open("42").await;
        world.crowd_follows("u", 20).await;
        world.follow(&["ghost"]).await;
        let mut ghost = world
            .person("ghost", "viewer", "&live_id=42&invisible=true")
            .await;
        ghost.expect("joined").await;
        let crowd = world.crowd("u", 20, "42").await;
        let _stranger = world.viewer_in("stranger", "42").await;
        let told = |kind: &str| {
            let mut users = BTreeSet::new();
            for event in webhook.taken_of(kind) {
                for user in event["user_ids"].as_array().unwrap() {
                    users.insert(user.as_str().unwrap().to_owned());
                }
            }
            users
        };
        let all: BTreeSet<String> = (0..20).map(|n| format!("u{n}")).collect();
        becomes("all fans have joined", all.clone(), async || {
            told("fan.joined")
        })
        .await;
        let batches = webhook.taken_of("fan.joined").len();
        assert!(batches < 10, "they come in batches");
        ghost.close().await;
        for viewer in crowd {
            viewer.close().await;
        }
        becomes("all fans have left", all.clone(), async || told("fan.left")).await;
        let more = webhook.taken_of("live.opened");
        assert!(more.is_empty(), "only what was asked for is sent");
        assert!(
            webhook
                .taken()
                .iter()
                .all(|event| event.get("session_ids").is_none()),
            "the live keeps no sessions"
        );
    });
}

#[test]
fn fans_of_a_live_with_attendance_are_told_with_their_sessions_and_the_invisible_are_not() {
    story(async {
        let webhook = Webhook::start().await;
        let world = telling_of_fans(&webhook).await;
        world.follow(&["u1", "ghost"]).await;
        let body = serde_json::json!({"streamer_id": "s1", "attendance": true});
        world.backend().put("/v1/lives/42", body).await.is(201);
        let session = async |place: usize| {
            let all = world.backend().list("/v1/lives/42/sessions", 9).await;
            all.get(place)
                .map(|session| session["session_id"].as_str().unwrap().to_owned())
        };
        let told = |kind: &str| {
            let mut pairs = Vec::new();
            for event in webhook.taken_of(kind) {
                let words = |name: &str| event[name].as_array().unwrap().clone();
                for (user, session) in words("user_ids").iter().zip(words("session_ids")) {
                    pairs.push((user.to_string(), session.as_str().map(str::to_owned)));
                }
            }
            pairs
        };
        let mut wanted = Vec::new();
        for round in 0..2 {
            let mut ghost = world
                .person("ghost", "viewer", "&live_id=42&invisible=true")
                .await;
            ghost.expect("joined").await;
            let fan = world.viewer_in("u1", "42").await;
            until("the fan's session", PATIENCE, async || {
                session(round).await.ok_or("none yet")
            })
            .await;
            wanted.push(("\"u1\"".to_owned(), session(round).await));
            becomes("the fan has joined", wanted.clone(), async || {
                told("fan.joined")
            })
            .await;
            ghost.close().await;
            fan.close().await;
            becomes("the fan has left", wanted.clone(), async || {
                told("fan.left")
            })
            .await;
        }
        assert_ne!(wanted[0], wanted[1]);
    });
}
