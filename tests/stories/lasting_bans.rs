//! Bans of streamers and of the platform outlast the live: they hold on every gateway, in the next
//! live, and whatever happens to messages, gateways and Redis. Revoked tokens are refused as bans
//! are, and moderators ban within bounds.

use std::time::Duration;

use reqwest::Method;
use rollcall::config::Config;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::support::backend::Answer;
use crate::support::redis_view::Redis;
use crate::support::stores::{on_both_stores, on_memory, on_redis, story};
use crate::support::tokens::{in_seconds, mint, with_tokens};
use crate::support::wait::{becomes, same, until};
use crate::support::world::World;

const REMOVED: u16 = 4_003;
const EXPIRED: u16 = 4_001;
const BY_STREAMER: &str = "/v1/streamers/s1/bans/u1";
const BY_PLATFORM: &str = "/v1/bans/u1";

/// The promise is a second; a machine that does much else needs a little more.
const PROMISED: Duration = Duration::from_secs(3);

fn join(live: &str) -> Value {
    json!({"type": "join", "live_id": live})
}

async fn is_kept_out(world: &World, user: &str, live: &str) -> Value {
    let mut viewer = world.viewer(user).await;
    viewer.is_refused(join(live), "banned").await
}

async fn is_let_in(world: &World, user: &str, live: &str) {
    until("the user is let in", PROMISED, || async {
        let mut viewer = world.viewer(user).await;
        same(
            viewer.ask(join(live)).await["type"].clone(),
            json!("joined"),
        )
    })
    .await;
}

async fn begins_over_http(world: &World, user: &str, live: &str) -> Answer {
    let path = format!("/v1/presence?user_id={user}");
    world.backend().post(&path, json!({"live_id": live})).await
}

on_both_stores! {
    async fn a_streamers_ban_holds_in_the_next_live_and_on_every_way_in(world) {
        world.open("42").await;
        let mut viewer = world.viewer_in("u1", "42").await;
        let wish = json!({"ban_s": 600, "reason": "insults"});
        let ban = world.backend().put(BY_STREAMER, wish).await.is(200).body;
        assert!(ban["ban_ends_at"].as_u64() > Some(1_600_000_000_000), "{ban}");
        viewer.expect_closed(REMOVED).await;
        let refused = is_kept_out(&world, "u1", "42").await;
        assert_eq!((&refused["ban_ends_at"], &refused["ban_reason"]), (&ban["ban_ends_at"], &json!("insults")));
        world.backend().close("42").await;
        world.open("43").await;
        is_kept_out(&world, "u1", "43").await;
        let problem = begins_over_http(&world, "u1", "43").await;
        assert_eq!(problem.body["ban_reason"], "insults");
        assert_eq!(problem.problem(403), "banned");
        // The live of another streamer is open to the user.
        world.backend().open("50", "s2").await;
        world.viewer_in("u1", "50").await.close().await;
        let listed = world.backend().list("/v1/streamers/s1/bans", 10).await;
        assert_eq!(listed.len(), 1);
        assert_eq!(listed[0]["ban_ends_at"], ban["ban_ends_at"]);
        assert!(world.backend().list("/v1/streamers/s2/bans", 10).await.is_empty());
        let lifted = world.backend().delete(BY_STREAMER).await.is(200).body;
        assert_eq!(lifted, json!({"banned": false, "changed": true}));
        is_let_in(&world, "u1", "43").await;
        let lifted = world.backend().delete(BY_STREAMER).await.is(200).body;
        assert_eq!(lifted["changed"], false);
    }
}

on_both_stores! {
    async fn a_ban_of_the_platform_closes_everything_and_refuses_the_connection(world) {
        world.open("42").await;
        let mut inside = world.viewer_in("u1", "42").await;
        let mut idle = world.viewer("u1").await;
        let mut other = world.viewer_in("u2", "42").await;
        let session = begins_over_http(&world, "u1", "42").await.is(201).body;
        let ban = world.backend().put(BY_PLATFORM, json!({})).await.is(200).body;
        assert_eq!((&ban["ban_ends_at"], &ban["reason"]), (&Value::Null, &Value::Null));
        inside.expect_closed(REMOVED).await;
        idle.expect_closed(REMOVED).await;
        let authorization = format!("Presence {}", session["session_id"].as_str().unwrap());
        let headers = [("authorization", authorization.as_str())];
        let back_end = world.backend();
        becomes("why a heartbeat is refused", json!("removed"), || async {
            let path = "/v1/presence/current";
            let beat = back_end.send_with(Method::POST, path, None, &headers).await;
            beat.body["code"].clone()
        })
        .await;
        assert_eq!(begins_over_http(&world, "u1", "42").await.problem(403), "banned");
        // Nor may the user have a live.
        let open = world.backend().put("/v1/lives/60", json!({"streamer_id": "u1"})).await;
        assert_eq!(open.problem(403), "banned");
        assert!(other.is_connected().await);
        let banned = world.backend().users("/v1/bans", 10).await;
        assert_eq!(banned, ["u1"]);
        world.backend().delete(BY_PLATFORM).await.is(200);
        is_let_in(&world, "u1", "42").await;
    }
}

on_memory! {
    async fn a_ban_ends_by_itself_and_says_what_is_wrong_with_it(world) {
        world.open("42").await;
        world.backend().put(BY_STREAMER, json!({"ban_s": 1})).await.is(200);
        is_kept_out(&world, "u1", "42").await;
        is_let_in(&world, "u1", "42").await;
        assert!(world.backend().list("/v1/streamers/s1/bans", 10).await.is_empty());
        for wrong in [
            json!({"ban_s": 0}), json!({"ban_s": -1}), json!({"ban_s": 1e9}),
            json!({"reason": "two\nlines"}), json!({"reason": "x".repeat(201)}), json!({"reason": 7}),
        ] {
            let problem = world.backend().put(BY_PLATFORM, wrong.clone()).await;
            assert!(problem.body["pointer"].is_string(), "{wrong}: {}", problem.body);
            assert_eq!(problem.problem(400), "bad_message", "{wrong}");
        }
        let own = world.backend().put("/v1/streamers/s1/bans/s1", json!({})).await;
        assert_eq!(own.problem(403), "forbidden");
        for n in 0..5 {
            world.backend().put(&format!("/v1/bans/v{n}"), json!({"ban_s": 3e8})).await.is(200);
        }
        for limit in [1, 2, 5, 9] {
            let users = world.backend().users("/v1/bans", limit).await;
            assert_eq!(users, ["v0", "v1", "v2", "v3", "v4"], "in pages of {limit}");
        }
    }
}

on_redis! {
    async fn a_ban_holds_on_two_gateways_at_once_and_on_one_that_comes_later(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        let mut here = world.viewer_in("u1", "42").await;
        let mut there = other.viewer_in("u1", "42").await;
        let asked = Instant::now();
        world.backend().put(BY_STREAMER, json!({})).await.is(200);
        here.expect_closed(REMOVED).await;
        there.expect_closed(REMOVED).await;
        assert!(asked.elapsed() < PROMISED, "after {:?}", asked.elapsed());
        let later = world.another_gateway().await;
        for gateway in [&world, &other, &later] {
            is_kept_out(gateway, "u1", "42").await;
        }
        other.backend().delete(BY_STREAMER).await.is(200);
        for gateway in [&world, &other, &later] {
            is_let_in(gateway, "u1", "42").await;
        }
    }
}

on_redis! {
    async fn a_ban_whose_word_is_lost_holds_within_a_second(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        let mut there = other.viewer_in("u1", "42").await;
        world.redis().ask(&["ACL", "SETUSER", "default", "resetchannels"]).await;
        world.redis().ask(&["CLIENT", "KILL", "TYPE", "pubsub"]).await;
        let asked = Instant::now();
        world.backend().put(BY_PLATFORM, json!({})).await.is(200);
        there.expect_closed(REMOVED).await;
        assert!(asked.elapsed() < PROMISED, "after {:?}", asked.elapsed());
    }
}

on_redis! {
    async fn rules_outlive_the_data_of_redis(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        let _here = world.crowd("a", 1, "42").await;
        world.backend().put(BY_STREAMER, json!({"reason": "spam"})).await.is(200);
        world.backend().put("/v1/bans/u2", json!({})).await.is(200);
        world.backend().delete("/v1/bans/u2").await.is(200);
        is_kept_out(&other, "u1", "42").await;
        world.redis().ask(&["FLUSHALL"]).await;
        until("the rule is there again", PROMISED, || async {
            let rules = world.redis().ask(&["HKEYS", "rollcall:rules"]).await;
            same(rules, json!(["s s1 u1"]))
        })
        .await;
        let later = world.another_gateway().await;
        for gateway in [&world, &other, &later] {
            assert_eq!(is_kept_out(gateway, "u1", "42").await["ban_reason"], "spam");
            is_let_in(gateway, "u2", "42").await;
        }
        // Changes go on, on every gateway.
        later.backend().delete(BY_STREAMER).await.is(200);
        for gateway in [&world, &other, &later] {
            is_let_in(gateway, "u1", "42").await;
        }
    }
}

#[test]
fn a_ban_that_was_made_while_a_gateway_was_cut_off_holds_for_its_next_join() {
    story(async {
        let redis = Redis::start().await;
        let (far, link) = World::over_a_link(&redis, |_| ()).await;
        let near = World::beside(redis, |_| ()).await;
        near.open("42").await;
        let mut behind = far.viewer_in("u1", "42").await;
        let mut waits = far.viewer("u2").await;
        link.cut();
        far.readyz_becomes(503).await;
        near.backend().put(BY_STREAMER, json!({})).await.is(200);
        near.backend()
            .put("/v1/streamers/s1/bans/u2", json!({}))
            .await
            .is(200);
        // What the gateway knows decides, as long as it has no store.
        assert!(behind.is_connected().await);
        far.viewer_in("u1", "42").await.close().await;
        link.heal();
        far.readyz_becomes(200).await;
        waits.is_refused(join("42"), "banned").await;
        behind.expect_closed(REMOVED).await;
        is_kept_out(&far, "u1", "42").await;
    });
}

fn jwt(config: &mut Config) {
    with_tokens(config);
}

fn token(user: &str, role: &str, issued: i64) -> String {
    let claims =
        json!({"sub": user, "role": role, "exp": in_seconds(600), "iat": in_seconds(issued)});
    format!("Bearer {}", mint(&claims))
}

async fn call(
    world: &World,
    method: Method,
    path: &str,
    token: &str,
    body: Option<&str>,
) -> Answer {
    let headers = [("authorization", token)];
    world
        .backend()
        .send_with(method, path, body, &headers)
        .await
}

on_memory! {
    tuned(jwt)
    async fn revoked_tokens_end_their_sessions_and_are_refused(world) {
        let service = token("backend", "service", 0);
        let body = r#"{"streamer_id":"s1"}"#;
        call(&world, Method::PUT, "/v1/lives/42", &service, Some(body)).await.is(201);
        let old = json!({"sub": "u1", "exp": in_seconds(600), "iat": in_seconds(-60)});
        let mut socket = world.bearer(old.clone()).await;
        socket.join("42").await;
        let mut unsaid = world.bearer(json!({"sub": "u1", "exp": in_seconds(600)})).await;
        let old_token = format!("Bearer {}", mint(&old));
        let begin = r#"{"live_id":"42"}"#;
        let session = call(&world, Method::POST, "/v1/presence", &old_token, Some(begin)).await.is(201).body;
        let revoked = "/v1/users/u1/tokens/revoked";
        assert_eq!(call(&world, Method::PUT, revoked, &old_token, None).await.problem(403), "forbidden");
        let answer = call(&world, Method::PUT, revoked, &service, None).await.is(200).body;
        assert_eq!(answer["user_id"], "u1");
        socket.expect_closed(EXPIRED).await;
        unsaid.expect_closed(EXPIRED).await;
        let presence = format!("Presence {}", session["session_id"].as_str().unwrap());
        assert_eq!(
            call(&world, Method::POST, "/v1/presence/current", &presence, None).await.problem(404),
            "session_unknown"
        );
        let again = call(&world, Method::POST, "/v1/presence", &old_token, Some(begin)).await;
        assert_eq!(again.problem(401), "unauthorized");
        let mut fresh = world.bearer(json!({"sub": "u1", "exp": in_seconds(600), "iat": in_seconds(2)})).await;
        fresh.join("42").await;
        let refresh = json!({"type": "refresh", "token": mint(&old)});
        fresh.is_refused(refresh, "forbidden").await;
        assert!(fresh.is_connected().await);
    }
}

on_memory! {
    tuned(jwt)
    async fn a_moderator_sees_removes_and_bans_within_bounds(world) {
        let service = token("backend", "service", 0);
        let streamer = token("s1", "streamer", 0);
        let moderator = token("m1", "viewer", 0);
        let stranger = token("m9", "viewer", 0);
        call(&world, Method::PUT, "/v1/lives/42", &service, Some(r#"{"streamer_id":"s1"}"#)).await.is(201);
        let claims = |user: &str| json!({"sub": user, "exp": in_seconds(600), "iat": in_seconds(0)});
        let mut mod_socket = world.bearer(claims("m1")).await;
        assert!(mod_socket.join("42").await.get("you").is_none());
        let appoint = "/v1/streamers/s1/moderators/m1";
        assert_eq!(call(&world, Method::PUT, appoint, &moderator, None).await.problem(403), "forbidden");
        let made = call(&world, Method::PUT, appoint, &streamer, None).await.is(200).body;
        assert_eq!(made, json!({"moderator": true, "changed": true}));
        assert_eq!(mod_socket.expect("you").await["moderator"], true);
        let mut again = world.bearer(claims("m1")).await;
        let you = json!({"moderator": true, "host": false});
        assert_eq!(again.join("42").await["you"], you);
        call(&world, Method::PUT, "/v1/streamers/s1/moderators/m2", &service, None).await.is(200);
        let listed = call(&world, Method::GET, "/v1/streamers/s1/moderators", &streamer, None).await.is(200).body;
        assert_eq!(listed["items"][0]["user_id"], "m1");
        // A moderator sees who is there and removes viewers; a stranger does not.
        for (path, method) in [("/v1/lives/42/viewers", Method::GET), ("/v1/lives/42/fans", Method::GET)] {
            call(&world, method.clone(), path, &moderator, None).await.is(200);
            assert_eq!(call(&world, method, path, &stranger, None).await.problem(403), "forbidden");
        }
        let mut viewer = world.bearer(claims("u1")).await;
        viewer.join("42").await;
        call(&world, Method::DELETE, "/v1/lives/42/viewers/u1", &moderator, None).await.is(200);
        viewer.expect_closed(REMOVED).await;
        for other in ["s1", "m2"] {
            let path = format!("/v1/lives/42/viewers/{other}");
            assert_eq!(call(&world, Method::DELETE, &path, &moderator, None).await.problem(403), "forbidden");
            let path = format!("/v1/streamers/s1/bans/{other}");
            assert_eq!(call(&world, Method::PUT, &path, &moderator, None).await.problem(403), "forbidden");
        }
        // Bans of a moderator are short, and a moderator lifts those of moderators only.
        let ban = async |token: &str, body: &str| {
            call(&world, Method::PUT, BY_STREAMER, token, Some(body)).await
        };
        assert_eq!(ban(&moderator, r#"{"ban_s":86401}"#).await.problem(403), "forbidden");
        assert_eq!(ban(&stranger, "{}").await.problem(403), "forbidden");
        let made = ban(&moderator, "{}").await.is(200).body;
        assert_eq!(made["by"], json!({"role": "viewer", "key": null, "user_id": "m1"}));
        let lasts = made["ban_ends_at"].as_u64().unwrap() - made["banned_at"].as_u64().unwrap();
        assert_eq!(lasts, 86_400_000);
        call(&world, Method::DELETE, BY_STREAMER, &moderator, None).await.is(200);
        ban(&streamer, "{}").await.is(200);
        assert_eq!(ban(&moderator, "{}").await.problem(403), "forbidden");
        assert_eq!(call(&world, Method::DELETE, BY_STREAMER, &moderator, None).await.problem(403), "forbidden");
        // The end of the office is told, and takes effect.
        call(&world, Method::DELETE, appoint, &streamer, None).await.is(200);
        assert_eq!(mod_socket.expect("you").await["moderator"], false);
        let path = "/v1/lives/42/viewers";
        assert_eq!(call(&world, Method::GET, path, &moderator, None).await.problem(403), "forbidden");
        assert_eq!(
            call(&world, Method::GET, "/v1/bans", &streamer, None).await.problem(403),
            "forbidden"
        );
    }
}
