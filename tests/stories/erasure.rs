//! A user is erased: everything that names the user goes from Redis, whoever dies meanwhile, and
//! nobody can be that user until it is done.

use std::time::Duration;

use reqwest::Method;
use rollcall::config::{AttendanceForm, Config, SeenIds};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::presence::with_shared_sessions;
use crate::support::redis_view::Redis;
use crate::support::stores::{on_both_stores, story};
use crate::support::wait::{PATIENCE, becomes, fits, same, throughout, until};
use crate::support::world::World;

const REMOVED: u16 = 4_003;

/// An erasure is over within this time, although a gateway dies.
const ERASED_WITHIN: Duration = Duration::from_secs(60);

/// The people of the story. Bitmaps take numbers only.
struct People {
    form: AttendanceForm,
    ids: SeenIds,
    /// Who is erased: a viewer, and a streamer.
    viewer: &'static str,
    streamer: &'static str,
    friend: &'static str,
    other_streamer: &'static str,
}

const IN_SETS: People = People {
    form: AttendanceForm::Set,
    ids: SeenIds::Text,
    viewer: "erika@example.org",
    streamer: "max:mustermann",
    friend: "fred",
    other_streamer: "s1",
};

const IN_BITMAPS: People = People {
    form: AttendanceForm::Bitmap,
    ids: SeenIds::U32,
    viewer: "4029384756",
    streamer: "3918273645",
    friend: "77",
    other_streamer: "78",
};

async fn ended(world: &World, location: &str, within: Duration) -> Value {
    until("the erasure ends", within, async || {
        let erasure = world.backend().get(location).await.is(200).body;
        if erasure["state"] == "ended" {
            Ok(erasure)
        } else {
            Err(erasure)
        }
    })
    .await
}

/// Asks for an erasure; the path of its report.
async fn erase(world: &World, user: &str) -> String {
    let asked = world.backend().delete(&format!("/v1/users/{user}")).await;
    let asked = asked.is(202).body;
    assert_eq!(asked["state"], "running");
    assert!(asked["ended_at"].is_null() && asked["found"].is_null());
    format!("/v1/erasures/{}", asked["erasure_id"].as_str().unwrap())
}

on_both_stores! {
    async fn a_user_is_kept_out_until_the_erasure_ends_and_comes_back_as_a_new_one(world) {
        world.open("42").await;
        let backend = world.backend();
        let profile = json!({"login": "ann", "name": "Ann"});
        backend.put("/v1/users/u1", profile.clone()).await.is(201);
        world.follow(&["u1", "u2"]).await;
        let mut inside = world.viewer_in("u1", "42").await;
        let mut idle = world.viewer("u1").await;
        let mut other = world.viewer_in("u2", "42").await;
        let session = world.caller("u1", "42").await;
        let location = erase(&world, "u1").await;
        assert_eq!(erase(&world, "u1").await, location, "it runs already");
        inside.expect_closed(REMOVED).await;
        idle.expect_closed(REMOVED).await;
        assert_eq!(session.beat(&world).await.problem(403), "removed");
        for (method, path, body) in [
            (Method::PUT, "/v1/users/u1", Some(profile.to_string())),
            (Method::PUT, "/v1/users/u1/following/s1", None),
            (Method::PUT, "/v1/users/u2/following/u1", None),
            (Method::PUT, "/v1/users/u2/lists/cooks/u1", None),
            (Method::POST, "/v1/beat?user_id=u1", None),
            (Method::PUT, "/v1/lives/43", Some(json!({"streamer_id": "u1"}).to_string())),
            (Method::POST, "/v1/presence?user_id=u1", Some(json!({"live_id": "42"}).to_string())),
            (Method::GET, "/ws/admission?user_id=u1", None),
        ] {
            let refused = backend.send(method, path, body.as_deref()).await;
            assert_eq!(refused.problem(409), "being_erased", "{path}");
        }
        backend.post("/v1/online/seen", json!({"user_ids": ["u1", "u9"]})).await.is(204);
        let report = ended(&world, &location, ERASED_WITHIN).await;
        assert!(report["ended_at"].as_u64() > report["asked_at"].as_u64(), "{report}");
        assert_eq!((&report["found"]["profiles"], &report["found"]["logins"]), (&json!(1), &json!(1)));
        assert!(!report.to_string().contains("u1"), "{report}");
        let known = backend.get("/v1/users/u1").await.is(200).body;
        assert!(known["login"].is_null() && known["last_seen"].is_null(), "{known}");
        assert_eq!(known["following"], 0);
        assert_eq!(backend.get("/v1/users/s1/followers").await.body["items"][0]["user_id"], "u2");
        assert!(other.is_connected().await);
        // Now nobody knows the user, and everybody may become the user.
        until("the user may come back", PATIENCE, async || {
            let refused = backend.get("/ws/admission?user_id=u1").await;
            if refused.status == 204 { Ok(()) } else { Err(refused.text) }
        }).await;
        let _back = world.viewer_in("u1", "42").await;
        backend.put("/v1/users/u1", profile).await.is(201);
        assert_eq!(backend.get("/v1/erasures/er-none").await.problem(404), "erasure_not_found");
    }
}

/// A viewer who has everything that a viewer can have, on two gateways.
async fn has_everything(people: &People, here: &World, there: &World) {
    let People {
        viewer,
        friend,
        other_streamer: streamer,
        ..
    } = people;
    let backend = here.backend();
    let profile = json!({"login": "Erika", "name": "Erika M.", "hidden": true});
    backend
        .put(&format!("/v1/users/{viewer}"), profile)
        .await
        .is(201);
    for (one, other) in [(viewer, streamer), (friend, viewer), (viewer, friend)] {
        backend.follow(one, other).await;
    }
    backend
        .post(
            &format!("/v1/users/{viewer}/statuses"),
            json!({"text": "soup"}),
        )
        .await
        .is(201);
    for (owner, member) in [(viewer, friend), (friend, viewer)] {
        let path = format!("/v1/users/{owner}/lists/cooks/{member}");
        backend.put(&path, Value::Null).await.is(200);
    }
    let redis = here.redis();
    // Other programs wrote what no gateway can read.
    redis.say("SET {rollcall:events}:dead:odd text").await;
    for odd in ["live:odd", "attendance:odd@1"] {
        redis.ask(&["HSET", odd, "streamer_id", viewer]).await;
    }
    // A request that may be repeated, and an event that a webhook did not take.
    let answer = format!(r#"{{"made":{{"location":"/v1/users/{viewer}/statuses/x"}}}}"#);
    redis.ask(&["SET", "rollcall:answer:0", &answer]).await;
    let event = format!(r#"{{"user_id":"{viewer}"}}"#);
    let dead = [
        "XADD",
        "{rollcall:events}:dead",
        "*",
        "id",
        "a:1:user.removed:1",
        "type",
        "user.removed",
    ];
    let rest = [
        "live_id", "41", "data", &event, "why", "500", "attempts", "3",
    ];
    redis.ask(&[&dead[..], &rest[..]].concat()).await;
    // A past stay, and the present one on both gateways.
    for live in ["41", "42", "43"] {
        let body = json!({"streamer_id": streamer, "attendance": true, "slices": 2});
        backend
            .put(&format!("/v1/lives/{live}"), body)
            .await
            .is(201);
    }
    here.viewer_in(viewer, "41").await.close().await;
    becomes("the viewer has left", Some(0), async || {
        backend.live("41").await["viewers"].as_u64()
    })
    .await;
    backend.close("41").await;
    backend.ban("43", viewer, 600).await;
    until("the friend is told", PATIENCE, async || {
        let home = backend.get(&format!("/v1/users/{friend}/home")).await.body;
        same(home["items"].as_array().unwrap().len(), 1)
    })
    .await;
    there.live_is_heard_by("42", 1).await;
}

async fn only_events_name(redis: &Redis, user: &str) -> Result<(), String> {
    fits(redis.keys_that_name(user).await, |named| {
        named.iter().all(|key| key == "rollcall:events")
    })
    .map(drop)
}

/// A streamer with an open live and a past one, each with somebody in it.
async fn streams(people: &People, here: &World) {
    let People {
        streamer, friend, ..
    } = people;
    let backend = here.backend();
    backend.follow(friend, streamer).await;
    for live in ["51", "52"] {
        let body = json!({"streamer_id": streamer, "attendance": true});
        backend
            .put(&format!("/v1/lives/{live}"), body)
            .await
            .is(201);
    }
    here.viewer_in(friend, "51").await.close().await;
    backend.close("51").await;
    here.redis().say("SET rollcall:stream-key:0 52").await;
}

async fn nothing_is_left(people: &People) {
    let tune = |config: &mut Config| {
        with_shared_sessions(config);
        config.audit_events = true;
        config.attendance = people.form;
        config.last_seen_ids = people.ids;
    };
    let redis = Redis::start().await;
    let here = World::beside(redis.clone(), tune).await;
    let mut there = World::program_with(redis.clone(), tune).await;
    let (viewer, streamer) = (people.viewer, people.streamer);
    has_everything(people, &here, &there).await;
    streams(people, &here).await;
    let mut devices = [
        here.viewer_in(viewer, "42").await,
        here.viewer(viewer).await,
    ];
    let _on_the_one_that_dies = there.viewer_in(viewer, "42").await;
    let session = here.caller(viewer, "42").await;
    becomes("the viewer is confirmed", json!(1), async || {
        let body = json!({"user_ids": [viewer]});
        let path = "/v1/lives/42/confirmed";
        here.backend().post(path, body).await.body["confirmed"].clone()
    })
    .await;
    let mut on_air = here.streamer(streamer).await;
    let mut audience = here.viewer_in(people.friend, "52").await;
    for user in [viewer, streamer] {
        until("Redis knows the user", PATIENCE, async || {
            fits(redis.keys_that_name(user).await, |named| named.len() > 10)
        })
        .await;
    }
    let asked = Instant::now();
    // Each gateway works on one of the two, so the one that dies has a job.
    let locations = [erase(&here, viewer).await, erase(&there, streamer).await];
    for device in &mut devices {
        device.expect_closed(REMOVED).await;
    }
    on_air.expect_closed(REMOVED).await;
    assert_eq!(session.beat(&here).await.problem(403), "removed");
    sleep(Duration::from_secs(5)).await;
    there.process().kill();
    audience.expect("closed").await;
    for location in &locations {
        let left = ERASED_WITHIN.saturating_sub(asked.elapsed());
        let report = ended(&here, location, left).await;
        eprintln!("after {:?}: {report}", asked.elapsed());
    }
    for user in [viewer, streamer] {
        only_events_name(&redis, user).await.unwrap();
    }
    // What is no text: bits, and bytes of numbers.
    let came = here.backend().get("/v1/attendance?live_ids=42").await;
    assert_eq!(came.is(200).body["count"], 0);
    let asked = json!({"user_ids": [viewer, streamer]});
    let known = here.backend().post("/v1/online/query", asked).await.is(200);
    assert!(!known.text.contains("\"last_seen\":1"), "{}", known.text);
    // What the streamer streamed is gone, and the lives of the other streamer are as they were.
    for live in ["51", "52"] {
        let gone = here.backend().get(&format!("/v1/lives/{live}")).await;
        assert_eq!(gone.problem(404), "live_not_found");
    }
    assert_eq!(here.backend().live("42").await["state"], "open");
    assert_eq!(here.backend().live("41").await["state"], "closed");
}

#[test]
fn an_erasure_that_a_gateway_does_not_survive_leaves_nothing_in_sets() {
    story(nothing_is_left(&IN_SETS));
}

#[test]
fn an_erasure_that_a_gateway_does_not_survive_leaves_nothing_in_bitmaps() {
    story(nothing_is_left(&IN_BITMAPS));
}

/// A gateway that has not heard of an erasure from its beginning to its end brings nothing back.
async fn a_gateway_was_cut_off() {
    let redis = Redis::start().await;
    let (far, link) = World::over_a_link(&redis, with_shared_sessions).await;
    let near = World::beside(redis.clone(), with_shared_sessions).await;
    let backend = near.backend();
    let [erika, max, ben] = ["erika@example.org", "max:mustermann", "ben@example.org"];
    for (live, streamer) in [("42", "s1"), ("51", max)] {
        let body = json!({"streamer_id": streamer, "attendance": true});
        backend
            .put(&format!("/v1/lives/{live}"), body)
            .await
            .is(201);
    }
    let mut erika_there = far.viewer_in(erika, "42").await;
    let session = far.caller(erika, "42").await;
    let ben_there = far.viewer_in(ben, "42").await;
    let mut on_air = far.streamer(max).await;
    let mut audience = far.viewer_in("fred", "51").await;
    until("Redis knows them", PATIENCE, async || {
        for user in [erika, max, ben] {
            if redis.keys_that_name(user).await.len() < 3 {
                return Err(user);
            }
        }
        Ok(())
    })
    .await;

    link.cut();
    let locations = [
        erase(&near, erika).await,
        erase(&near, max).await,
        erase(&near, ben).await,
    ];
    // While nobody hears of it, one of them leaves, and is to be noted as seen.
    ben_there.close().await;
    for location in &locations {
        ended(&near, location, ERASED_WITHIN).await;
    }
    for user in [erika, max, ben] {
        only_events_name(&redis, user).await.unwrap();
    }
    link.heal();
    erika_there.expect_closed(REMOVED).await;
    on_air.expect_closed(REMOVED).await;
    assert_eq!(audience.expect("closed").await["reason"], "requested");
    far.readyz_becomes(200).await;
    until("all is erased again", ERASED_WITHIN, async || {
        for user in [erika, max, ben] {
            only_events_name(&redis, user).await?;
        }
        Ok::<(), String>(())
    })
    .await;
    let lease = near.config.lease;
    throughout("nothing comes back", lease * 2, async || {
        for user in [erika, max, ben] {
            only_events_name(&redis, user).await?;
        }
        Ok::<(), String>(())
    })
    .await;
    for gateway in [&near, &far] {
        let gone = gateway.backend().get("/v1/lives/51").await;
        assert_eq!(gone.problem(404), "live_not_found");
    }
    // An old session does not come back either, here or there.
    for gateway in [&near, &far] {
        assert_eq!(session.beat(gateway).await.problem(403), "removed");
    }
    assert_eq!(backend.live("42").await["viewers"], 0);
}

#[test]
fn a_gateway_that_heard_nothing_of_an_erasure_brings_nobody_back() {
    story(a_gateway_was_cut_off());
}
