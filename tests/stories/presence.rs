//! A viewer whose network lets no WebSocket through joins by HTTP, and is counted, moderated and
//! told as all the others are, whichever gateway the next request reaches.

use std::time::Duration;

use reqwest::Method;
use rollcall::config::Config;
use serde_json::{Value, json};

use crate::support::presence::{Events, with_shared_sessions};
use crate::support::redis_view::Redis;
use crate::support::stores::{on_both_stores, on_memory, on_redis, story};
use crate::support::tokens::{in_seconds, mint, with_tokens};
use crate::support::wait::{PATIENCE, SLACK, becomes, same, throughout, until};
use crate::support::world::{World, timings};

fn tokens_and_shared_sessions(config: &mut Config) {
    with_tokens(config);
    with_shared_sessions(config);
}

on_both_stores! {
    async fn a_viewer_without_a_socket_is_counted_as_all_others_are(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let caller = world.caller("u1", "42").await;
        assert_eq!(caller.begun["beat_ms"], 400);
        assert_eq!(caller.begun["timeout_ms"], 1_600);
        assert_eq!(caller.begun["streamer_id"], "s1");
        assert_eq!(caller.begun["udp"], Value::Null);
        world.fans_become("42", &["u1"]).await;
        world.figures_become("42", (1, 1), PATIENCE).await;
        let ack = caller.beat(&world).await.is(200).body;
        assert_eq!(ack["type"], "heartbeat_ack");
        assert_eq!((&ack["live_id"], &ack["fan"]), (&json!("42"), &json!(true)));
        assert_eq!((&ack["viewers"], &ack["fans"]), (&json!(1), &json!(1)));
        let there = world.backend().list("/v1/lives/42/viewers", 10).await;
        assert_eq!(there[0]["user_id"], "u1");
        caller.leave(&world).await;
        world.fans_become("42", &[]).await;
        world.figures_become("42", (0, 0), PATIENCE).await;
        let metrics = world.backend().get("/metrics").await.text;
        for line in [
            "rollcall_presences 0",
            "rollcall_presences_ended_total{why=\"left\"} 1",
            "rollcall_presence_beats_total{way=\"http\"} 1",
            "rollcall_joins_total 1",
        ] {
            assert!(metrics.contains(line), "{line} in {metrics}");
        }
    }
}

on_memory! {
    async fn who_is_silent_is_gone_and_a_later_beat_brings_the_viewer_back(world) {
        world.open("42").await;
        let caller = world.caller("u1", "42").await;
        world.figures_become("42", (1, 0), PATIENCE).await;
        until("the silent viewer is gone", world.config.timeout + SLACK + PATIENCE, async || {
            same(world.figures("42").await, (0, 0))
        })
        .await;
        caller.beat(&world).await.is(200);
        world.figures_become("42", (1, 0), PATIENCE).await;
        caller.sends_beacon(&world).await;
        world.figures_become("42", (0, 0), PATIENCE).await;
        assert_eq!(caller.beat(&world).await.problem(404), "session_unknown");
        assert_eq!(world.figures("42").await, (0, 0));
    }
}

on_memory! {
    async fn one_user_with_a_socket_and_a_session_counts_once(world) {
        world.open("42").await;
        let caller = world.caller("u1", "42").await;
        let _beating = caller.keeps_beating(&[&world]);
        let socket = world.viewer_in("u1", "42").await;
        let other = world.caller("u1", "42").await;
        world.figures_become("42", (1, 0), PATIENCE).await;
        socket.close().await;
        other.leave(&world).await;
        throughout("the session keeps the user", world.config.heartbeat * 2, async || {
            same(world.figures("42").await, (1, 0))
        })
        .await;
        caller.leave(&world).await;
        world.figures_become("42", (0, 0), PATIENCE).await;
    }
}

on_memory! {
    async fn a_session_switches_lives_and_neither_counts_it_twice(world) {
        world.open("42").await;
        world.open("43").await;
        let mut caller = world.caller("u1", "42").await;
        let former = caller.clone();
        world.figures_become("42", (1, 0), PATIENCE).await;
        let begun = caller.switch(&world, "43").await;
        assert_eq!(begun["live_id"], "43");
        world.figures_become("42", (0, 0), PATIENCE).await;
        world.figures_become("43", (1, 0), PATIENCE).await;
        for beat in 0..2 {
            assert_eq!(former.beat(&world).await.problem(404), "session_unknown", "{beat}");
        }
        former.leave(&world).await;
        let refused = world
            .backend()
            .post(&format!("/v1/presence/{}", caller.session), json!({"live_id": "nope"}))
            .await;
        assert_eq!(refused.problem(409), "live_not_open");
        assert_eq!(caller.beat(&world).await.is(200).body["live_id"], "43");
    }
}

on_memory! {
    async fn a_late_beat_brings_no_closed_live_back(world) {
        world.open("42").await;
        let caller = world.caller("u1", "42").await;
        world.figures_become("42", (1, 0), PATIENCE).await;
        world.backend().close("42").await;
        becomes("the session ends with its live", 404, async || caller.beat(&world).await.status).await;
        world.open("42").await;
        assert_eq!(caller.beat(&world).await.problem(404), "session_unknown");
        assert_eq!(world.figures("42").await, (0, 0));
        assert_eq!(
            world.tries_to_call("user_id=u1", json!({"live_id": "43"})).await.problem(409),
            "live_not_open"
        );
    }
}

on_memory! {
    async fn a_removed_viewer_stays_away(world) {
        world.open("42").await;
        let caller = world.caller("u1", "42").await;
        let mut events = caller.listens(&world, "").await;
        events.hears("counts", |counts| counts["viewers"] == 1).await;
        world.backend().ban("42", "u1", 60).await;
        events.ends().await;
        world.figures_become("42", (0, 0), PATIENCE).await;
        assert_eq!(caller.beat(&world).await.problem(403), "removed");
        let refused = world.tries_to_call("user_id=u1", json!({"live_id": "42"})).await;
        assert_eq!(refused.problem(403), "banned");
    }
}

on_memory! {
    async fn a_stream_tells_what_a_socket_would_be_told(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        world.backend().follow("u1", "u2").await;
        let caller = world.caller_as("user_id=u1", json!({"live_id": "42", "friends": true})).await;
        let mut events = caller.listens(&world, "").await;
        events.hears("counts", |counts| counts["viewers"] == 1).await;
        let mut dashboard = Events::at(&world, "/v1/lives/42/events").await;
        dashboard.hears("counts", |counts| counts["viewers"] == 1).await;
        let _friend = world.viewer_in("u2", "42").await;
        events.hears("friends", |friends| friends["user_ids"] == json!(["u2"])).await;
        events.hears("counts", |counts| counts["viewers"] == 2).await;
        dashboard.hears("counts", |counts| counts["viewers"] == 2).await;
        let lines = "{\n\n  \"goods\": 7\r\n}";
        let told = world.backend().send(Method::PUT, "/v1/lives/42/info", Some(lines)).await;
        let version = &told.is(200).body["info_version"];
        let info = events.hears("info", |_| true).await;
        assert_eq!((&info["info"], &info["info_version"]), (&json!({"goods": 7}), version));
        // The open stream counts as beats.
        throughout("the listener stays", world.config.timeout * 2, async || {
            same(world.figures("42").await, (2, 1))
        })
        .await;
        world.backend().close("42").await;
        let closed = events.hears("closed", |_| true).await;
        assert_eq!((&closed["live_id"], &closed["reason"]), (&json!("42"), &json!("requested")));
        dashboard.hears("closed", |_| true).await;
        events.ends().await;
        dashboard.ends().await;
        becomes("no stream is left", 0, async || world.metric("rollcall_event_streams").await as u64).await;
    }
}

on_memory! {
    async fn a_stream_that_is_not_to_beat_keeps_nobody(world) {
        world.open("42").await;
        let caller = world.caller("u1", "42").await;
        let mut events = caller.listens(&world, "?beat=false").await;
        events.hears("counts", |counts| counts["viewers"] == 1).await;
        events.ends().await;
        world.figures_become("42", (0, 0), PATIENCE).await;
        // A later stream goes on with the session, and takes the place of an earlier one.
        let mut earlier = caller.listens(&world, "").await;
        earlier.hears("counts", |counts| counts["viewers"] == 1).await;
        let mut later = caller.listens(&world, "").await;
        later.hears("counts", |counts| counts["viewers"] == 1).await;
        earlier.ends().await;
        caller.leave(&world).await;
        later.ends().await;
        world.figures_become("42", (0, 0), PATIENCE).await;
    }
}

on_redis! {
    tuned(with_shared_sessions)
    async fn beats_may_reach_any_gateway_and_a_leave_is_one_on_all(world) {
        let other = world.another_gateway().await;
        world.open("42").await;
        world.follow(&["u1"]).await;
        let caller = world.caller("u1", "42").await;
        for at in [&other, &world, &other] {
            let ack = caller.beat(at).await.is(200);
            assert_eq!(ack.body["viewers"], 1, "{ack:?}");
        }
        becomes("both gateways know the one viewer", ((1, 1), (1, 1)), async || {
            (world.figures("42").await, other.figures("42").await)
        })
        .await;
        caller.leave(&other).await;
        // Long before the first gateway would find the session silent.
        until("gone on both", world.config.timeout / 2 + SLACK / 2, async || {
            same((world.figures("42").await, other.figures("42").await), ((0, 0), (0, 0)))
        })
        .await;
        // A gateway that has never heard of the session asks the store.
        let young = world.another_gateway().await;
        for at in [&world, &other, &young] {
            assert_eq!(caller.beat(at).await.problem(404), "session_unknown");
        }
        world.fans_stay("42", &[], world.config.heartbeat).await;
    }
}

#[test]
fn a_gateway_is_killed_and_its_viewers_go_on_through_another_one() {
    story(async {
        let redis = Redis::start().await;
        let mut doomed = World::program_with(redis.clone(), with_shared_sessions).await;
        let other = World::beside(redis, with_shared_sessions).await;
        other.open("42").await;
        let users: Vec<String> = (0..20).map(|n| format!("u{n}")).collect();
        let mut beating = Vec::new();
        for user in &users {
            let caller = doomed.caller(user, "42").await;
            beating.push(caller.keeps_beating(&[&doomed, &other]));
        }
        other.figures_become("42", (20, 0), PATIENCE).await;
        doomed.process().kill();
        let lease = timings().lease + timings().heartbeat * 2;
        throughout(
            "nobody is missing or counted twice",
            lease * 2,
            async || same(other.figures("42").await, (20, 0)),
        )
        .await;
        drop(beating);
        until("all are gone", timings().timeout + PATIENCE, async || {
            same(other.figures("42").await, (0, 0))
        })
        .await;
    });
}

#[test]
fn a_gateway_that_stops_sends_its_sessions_elsewhere_and_no_figure_dips() {
    story(async {
        let redis = Redis::start().await;
        let old = World::beside(redis.clone(), |config| {
            with_shared_sessions(config);
            config.drain = Duration::from_secs(8);
        })
        .await;
        let new = World::beside(redis, with_shared_sessions).await;
        new.open("42").await;
        let mut beating = Vec::new();
        let mut streams = Vec::new();
        for n in 0..10 {
            let caller = old.caller(&format!("u{n}"), "42").await;
            streams.push(caller.listens(&old, "?beat=false").await);
            beating.push(caller.keeps_beating(&[&old, &new]));
        }
        new.figures_become("42", (10, 0), PATIENCE).await;
        let stopping = old.stop();
        let watching = throughout("no figure dips", Duration::from_secs(6), async || {
            same(new.figures("42").await, (10, 0))
        });
        tokio::join!(stopping, watching);
        for stream in &mut streams {
            stream.hears("reconnect", |_| true).await;
            stream.ends().await;
        }
    });
}

on_redis! {
    tuned(with_shared_sessions)
    async fn a_session_that_switched_lives_is_in_the_new_one_on_every_gateway(world) {
        let other = world.another_gateway().await;
        let third = world.another_gateway().await;
        world.open("42").await;
        world.open("43").await;
        let mut caller = world.caller("u1", "42").await;
        let former = caller.clone();
        let mut stream = caller.listens(&world, "").await;
        stream.hears("counts", |counts| counts["viewers"] == 1).await;
        caller.switch(&other, "43").await;
        // The first gateway gives up its seat although its stream is still open.
        becomes("in the new live only", (0, 1), async || {
            (world.figures("42").await.0, world.figures("43").await.0)
        })
        .await;
        stream.ends().await;
        assert_eq!(former.beat(&third).await.problem(404), "session_unknown");
        for at in [&world, &other, &third] {
            assert_eq!(caller.beat(at).await.is(200).body["live_id"], "43");
        }
        // A newer id moves a session that has an older one.
        let second = caller.clone();
        caller.switch(&other, "42").await;
        assert_eq!(caller.beat(&world).await.is(200).body["live_id"], "42");
        assert_eq!(caller.beat(&third).await.is(200).body["live_id"], "42");
        assert_eq!(second.beat(&other).await.problem(404), "session_unknown");
        becomes("in the former live again", (1, 0), async || {
            (world.figures("42").await.0, world.figures("43").await.0)
        })
        .await;
    }
}

on_redis! {
    tuned(tokens_and_shared_sessions)
    async fn a_session_allows_what_its_token_allowed_and_no_longer(world) {
        let other = world.another_gateway().await;
        let mut streamer = world.bearer(json!({"sub": "s1", "role": "streamer"})).await;
        streamer.open("42").await;
        streamer.open("43").await;
        let refused = world.tries_to_call("user_id=u1", json!({"live_id": "42"})).await;
        assert_eq!(refused.problem(401), "unauthorized");

        let token = mint(&json!({"sub": "u1", "exp": in_seconds(3_600), "lives": ["42"]}));
        let query = format!("token={token}");
        let refused = world.tries_to_call(&query, json!({"live_id": "43"})).await;
        assert_eq!(refused.problem(403), "forbidden");
        let caller = world.caller_as(&query, json!({"live_id": "42"})).await;
        for at in [&world, &other] {
            caller.beat(at).await.is(200);
            let path = format!("/v1/presence/{}", caller.session);
            let switch = at.backend().post(&path, json!({"live_id": "43"})).await;
            assert_eq!(switch.problem(403), "forbidden");
        }
        // The id of a session is no token, and a token is no id.
        let id = &caller.session;
        assert_eq!(
            world.tries_to_call(&format!("token={id}"), json!({"live_id": "42"})).await.problem(401),
            "unauthorized"
        );
        let as_id = world.backend().post(&format!("/v1/presence/{token}"), json!({})).await;
        assert_eq!(as_id.problem(404), "session_unknown");

        let unseen = mint(&json!({"sub": "u2", "exp": in_seconds(3_600), "count": false}));
        let unseen = world.caller_as(&format!("token={unseen}"), json!({"live_id": "42"})).await;
        unseen.beat(&other).await.is(200);
        let seen = unseen.beat(&world).await.is(200).body;
        assert_eq!(seen["viewers"], 1, "only u1 counts");
    }
}

on_memory! {
    tuned(|config: &mut Config| { config.max_presences = 2; config.sockets_per_user = 2; })
    async fn there_are_no_more_sessions_than_the_settings_say(world) {
        world.open("42").await;
        let first = world.caller("u1", "42").await;
        let _second = world.caller("u2", "42").await;
        let full = world.tries_to_call("user_id=u3", json!({"live_id": "42"})).await;
        assert_eq!(full.problem(503), "full");
        first.leave(&world).await;
        // The oldest session of a user gives way to the newest socket.
        let third = world.caller("u3", "42").await;
        let _sockets = [world.viewer("u3").await, world.viewer("u3").await];
        becomes("the oldest gives way", 409, async || third.beat(&world).await.status).await;
    }
}

on_redis! {
    tuned(with_shared_sessions)
    async fn a_redis_that_was_emptied_learns_again_which_sessions_are_over(world) {
        world.open("42").await;
        let caller = world.caller("u1", "42").await;
        caller.leave(&world).await;
        let pattern = "{rollcall:gateways}:ended:*";
        let is_written = async || same(world.redis().keys(pattern).await.len(), 1);
        until("the end is in Redis", PATIENCE, is_written).await;
        world.redis().ask(&["FLUSHALL"]).await;
        until("it is there again", PATIENCE, is_written).await;
        world.open("42").await;
        let young = world.another_gateway().await;
        assert_eq!(caller.beat(&young).await.problem(404), "session_unknown");
    }
}

on_redis! {
    async fn gateways_without_a_file_share_a_secret_also_when_redis_was_emptied(world) {
        let other = world.another_gateway().await;
        world.open("42").await;
        let caller = world.caller("u1", "42").await;
        for at in [&other, &world] {
            caller.beat(at).await.is(200);
        }
        world.redis().ask(&["FLUSHALL"]).await;
        let young = world.another_gateway().await;
        for at in [&young, &other, &world] {
            becomes("the session goes on", 200, async || caller.beat(at).await.status).await;
        }
        let began_there = young.caller("u2", "42").await;
        becomes("all know it", 200, async || began_there.beat(&world).await.status).await;
    }
}

on_memory! {
    async fn a_header_has_the_id_so_that_no_log_has_it(world) {
        world.open("42").await;
        world.open("43").await;
        let mut caller = world.caller("u1", "42").await;
        let current = "/v1/presence/current";
        let backend = world.backend().clone();
        assert_eq!(backend.send(Method::POST, current, None).await.problem(401), "unauthorized");
        let ask = async |session: &str, method, body: Value| {
            let shown = format!("Presence {session}");
            let headers = [("authorization", shown.as_str())];
            backend.send_with(method, current, Some(&body.to_string()), &headers).await
        };
        let switched = ask(&caller.session, Method::POST, json!({"live_id": "43"})).await.is(200);
        caller.session = switched.body["session_id"].as_str().unwrap().to_owned();
        let ack = ask(&caller.session, Method::POST, Value::Null).await.is(200);
        assert_eq!(ack.body["live_id"], "43");
        ask(&caller.session, Method::DELETE, Value::Null).await.is(204);
        assert_eq!(ask("a.b.c", Method::POST, Value::Null).await.problem(404), "session_unknown");
        world.figures_become("43", (0, 0), PATIENCE).await;
    }
}

on_memory! {
    async fn a_wrong_request_is_told_what_is_wrong(world) {
        world.open("42").await;
        for (query, body, status, code) in [
            ("user_id=u1", json!({"live": "42"}), 400, "unknown_field"),
            ("user_id=u1", json!({}), 400, "bad_message"),
            ("user_id=u1", json!({"live_id": "a b"}), 400, "invalid_id"),
            ("user_id=u1", json!({"live_id": 42}), 400, "bad_message"),
            ("user_id=", json!({"live_id": "42"}), 401, "invalid_id"),
            ("user_id=u1&role=god", json!({"live_id": "42"}), 401, "invalid_role"),
        ] {
            let answer = world.tries_to_call(query, body).await;
            assert_eq!(answer.problem(status), code, "{query}");
        }
        for id in ["x", "a.b.c", "%00"] {
            let path = format!("/v1/presence/{id}");
            assert_eq!(world.backend().post(&path, json!({})).await.problem(404), "session_unknown");
            assert_eq!(world.backend().delete(&path).await.problem(404), "session_unknown");
            let events = world.backend().get(&format!("{path}/events")).await;
            assert_eq!(events.problem(404), "session_unknown");
        }
        assert_eq!(world.figures("42").await, (0, 0));
    }
}
