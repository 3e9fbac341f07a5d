//! Profiles over HTTP, what is known of a user, and follows that a gateway leaves half done.

use rollcall::base::ids::UserId;
use serde_json::{Value, json};

use super::audit::audit;
use crate::support::backend::Answer;
use crate::support::redis_cluster::acl_rules;
use crate::support::redis_view::Redis;
use crate::support::stores::{on_both_stores, on_memory, on_redis, story};
use crate::support::wait::{PATIENCE, becomes, same, until};
use crate::support::world::World;

async fn put(world: &World, user: &str, login: &str) -> Answer {
    world
        .backend()
        .put(
            &format!("/v1/users/{user}"),
            json!({"login": login, "name": format!("{user} itself")}),
        )
        .await
}

async fn user(world: &World, user: &str) -> Value {
    world
        .backend()
        .get(&format!("/v1/users/{user}"))
        .await
        .is(200)
        .body
}

on_both_stores! {
    async fn a_user_signs_up_and_is_looked_at(world) {
        let body = json!({"login": "Ann", "name": "Änn 安"}).to_string();
        let made = world.backend().send(reqwest::Method::POST, "/v1/users", Some(&body)).await.is(201).body;
        let id = made["user_id"].as_str().unwrap().to_owned();
        assert!(made["signup"].as_u64().unwrap() > 1_700_000_000_000, "{made}");
        for fan in ["u1", "u2"] {
            world.backend().follow(fan, &id).await;
        }
        world.backend().follow(&id, "u1").await;
        let wanted = json!({
            "user_id": id, "login": "Ann", "name": "Änn 安", "signup": made["signup"], "hidden": false,
            "followers": 2, "following": 1, "statuses": 0, "online": false, "last_seen": null, "live_id": null,
        });
        assert_eq!(user(&world, &id).await, wanted);
        world.backend().unfollow("u2", &id).await;
        assert_eq!(user(&world, &id).await["followers"], 1);
        // A user without a profile follows and is followed all the same.
        let other = json!({
            "user_id": "u1", "login": null, "name": null, "signup": null, "hidden": null,
            "followers": 1, "following": 1, "statuses": 0,
            "online": false, "last_seen": null, "live_id": null,
        });
        assert_eq!(user(&world, "u1").await, other);
    }
}

on_memory! {
    async fn a_user_is_shown_as_online_with_the_live_and_then_as_last_seen(world) {
        world.open("42").await;
        let viewer = world.viewer_in("u1", "42").await;
        until("u1 is shown in the live", PATIENCE, async || {
            let shown = user(&world, "u1").await;
            same((shown["online"].clone(), shown["live_id"].clone()), (json!(true), json!("42")))
        }).await;
        let online = user(&world, "u1").await["last_seen"].as_u64().unwrap();
        viewer.close().await;
        until("u1 is shown as last seen", PATIENCE, async || {
            let shown = user(&world, "u1").await;
            same((shown["online"].clone(), shown["live_id"].clone()), (json!(false), json!(null)))?;
            shown["last_seen"].as_u64().ok_or("unknown".to_owned())
        }).await;
        let seen = user(&world, "u1").await["last_seen"].as_u64().unwrap();
        assert!(seen.abs_diff(online) < 60_000, "{seen} and {online}");
    }
}

on_memory! {
    async fn a_login_is_unique_and_free_once_it_is_given_up(world) {
        put(&world, "u1", "Ann").await.is(201);
        assert_eq!(put(&world, "u2", "aNN").await.problem(409), "login_taken");
        let renamed = put(&world, "u1", "bob").await.is(200).body;
        assert_eq!(renamed["signup"], user(&world, "u1").await["signup"]);
        put(&world, "u2", "ann").await.is(201);
        assert_eq!(put(&world, "u1", "ANN").await.problem(409), "login_taken");
        assert_eq!(user(&world, "u1").await["login"], "bob");
    }
}

on_memory! {
    async fn what_is_no_profile_is_refused(world) {
        let long = "x".repeat(65);
        for login in ["", "a b", "änn", "ann\n", "{ann}", "ａｎｎ", &long] {
            assert_eq!(put(&world, "u1", login).await.problem(400), "invalid_login", "{login}");
        }
        for body in [
            json!({}),
            json!({"login": "ann"}),
            json!({"login": "ann", "name": ""}),
            json!({"login": "ann", "name": "a\u{7}"}),
            json!({"login": "ann", "name": "x".repeat(101)}),
            json!({"login": 7, "name": "Ann"}),
            json!([]),
        ] {
            assert_eq!(world.backend().put("/v1/users/u1", body).await.problem(400), "bad_message");
        }
        assert_eq!(put(&world, "%7Bu%7D", "ann").await.problem(400), "invalid_id");
        assert_eq!(user(&world, "u1").await["login"], Value::Null);
    }
}

on_redis! {
    async fn of_two_gateways_one_gives_the_login(world) {
        let other = world.another_gateway().await;
        for n in 0..20 {
            let (login, [a, b]) = (format!("name{n}"), [format!("a{n}"), format!("b{n}")]);
            let (one, two) = tokio::join!(put(&world, &a, &login), put(&other, &b, &login));
            let mut answers = [one.status, two.status];
            answers.sort_unstable();
            assert_eq!(answers, [201, 409], "{one:?} {two:?}");
            let owner = world.redis().ask(&["HGET", "users", &login]).await;
            assert_eq!(owner, if one.status == 201 { a } else { b });
        }
        let left = world.redis().keys("rollcall:changes:*").await;
        assert!(left.is_empty(), "{left:?}");
    }
}

on_memory! {
    async fn mutual_follows_are_those_that_go_both_ways(world) {
        for n in 0..30 {
            world.backend().follow("u1", &format!("s{n}")).await;
            if n % 3 == 0 {
                world.backend().follow(&format!("s{n}"), "u1").await;
            }
        }
        world.backend().follow("s99", "u1").await;
        for limit in [1, 3, 4, 10, 1_000] {
            let mut found = world.backend().users("/v1/users/u1/following?of=mutual", limit).await;
            found.sort_unstable();
            let mut wanted: Vec<String> = (0..30).step_by(3).map(|n| format!("s{n}")).collect();
            wanted.sort_unstable();
            assert_eq!(found, wanted, "limit {limit}");
        }
        let refused = world.backend().get("/v1/users/u1/following?of=friends").await;
        assert_eq!(refused.problem(400), "invalid_query");
    }
}

/// Sets what the gateways' user may touch: what the document says, or all of that but the
/// followers.
async fn allow(redis: &Redis, followers: bool) {
    let mut rule = acl_rules().swap_remove(0);
    rule.retain(|word| followers || word != "~followers:*");
    redis
        .ask(&rule.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
}

async fn ends(redis: &Redis) -> (bool, bool) {
    let is_there = |end: &Value| end.is_string();
    let following = redis.ask(&["ZSCORE", "following:u1", "s1"]).await;
    (
        is_there(&following),
        is_there(&redis.ask(&["ZSCORE", "followers:s1", "u1"]).await),
    )
}

/// The second write of a change is refused, and then the gateway dies: another one finishes the
/// change.
async fn is_finished_after_a_kill(follow: bool) {
    let redis = Redis::start().await;
    allow(&redis, true).await;
    let mut dies = World::program_as(redis.clone(), "rollcall:secret").await;
    let path = "/v1/users/u1/following/s1";
    if !follow {
        dies.backend().follow("u1", "s1").await;
        // An unfollow writes the followers first: another gateway's rule keeps it from the other
        // end.
        redis
            .say("ACL SETUSER rollcall resetkeys ~rollcall:* ~followers:* ~lives")
            .await;
        dies.backend().delete(path).await.problem(503);
        assert_eq!(ends(&redis).await, (true, false));
    } else {
        allow(&redis, false).await;
        dies.backend().put(path, json!({})).await.problem(503);
        assert_eq!(ends(&redis).await, (true, false));
    }
    dies.process().kill();
    allow(&redis, true).await;
    let lives = World::beside(redis.clone(), |_| {}).await;
    until("both ends say the same", PATIENCE * 2, async || {
        same(ends(&redis).await, (follow, follow))
    })
    .await;
    let followers = user(&lives, "s1").await["followers"].clone();
    let following = user(&lives, "u1").await["following"].clone();
    assert_eq!(
        (followers, following),
        (json!(u64::from(follow)), json!(u64::from(follow)))
    );
    becomes("the note is gone", 0, async || {
        redis.keys("rollcall:changes:*").await.len()
    })
    .await;
    lives.stop().await;
}

#[test]
fn a_follow_whose_gateway_dies_half_way_is_finished() {
    story(is_finished_after_a_kill(true));
}

#[test]
fn an_unfollow_whose_gateway_dies_half_way_is_finished() {
    story(is_finished_after_a_kill(false));
}

on_redis! {
    /// The gateway that left them tells nobody any more.
    async fn follows_that_were_left_half_way_are_told_to_all_gateways_once_they_are_finished(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        let mut here = world.viewer_in("u1", "42").await;
        let mut there = other.viewer_in("u2", "42").await;
        for viewer in [&mut here, &mut there] {
            world.acks_become(viewer, Some(false), 2, 0).await;
        }
        for user in ["u1", "u2"] {
            let key = format!("rollcall:changes:{}", UserId::parse(user).unwrap().xxh3() % 64);
            world.redis().ask(&["HSET", &key, &format!("{user} s1"), "1000 follow"]).await;
        }
        world.fans_become("42", &["u1", "u2"]).await;
    }
}

/// Another program wrote follows at one end only, and logins that no profile carries.
#[test]
fn an_audit_finds_half_follows_and_stale_logins_and_repairs_them() {
    story(async {
        let world = World::on_redis(|_| {}).await;
        let redis = world.redis();
        put(&world, "u1", "ann").await.is(201);
        put(&world, "u2", "bob").await.is(201);
        world.backend().follow("u1", "s1").await;
        let kinds = async |code, more: &str| -> Vec<String> {
            let report = audit(&redis.url(), code, &format!("--users {more}")).await;
            let kinds = report["findings"].as_array().unwrap().iter();
            let mut kinds: Vec<String> = kinds
                .map(|finding| finding["kind"].as_str().unwrap().to_owned())
                .collect();
            kinds.sort_unstable();
            kinds
        };
        assert_eq!(kinds(0, "").await, [""; 0]);
        redis.say("ZADD following:u1 7 s2 8 s3").await;
        redis.ask(&["ZADD", "followers:s4", "9", "u9"]).await;
        redis.ask(&["HSET", "users", "cid", "u2"]).await;
        redis.ask(&["HDEL", "users", "ann"]).await;
        redis.say("ZADD statuses:feed:u1 7 s1~42@7").await;
        let wanted = [
            "half_follow",
            "half_follow",
            "stale_login",
            "stale_status",
            "unclaimed_login",
        ];
        assert_eq!(kinds(1, "").await, wanted);
        // It takes long where the graph is large, so it is done only where it is asked for.
        assert_eq!(audit(&redis.url(), 0, "").await["findings"], json!([]));
        assert_eq!(kinds(0, "--fix").await, [""; 0]);
        for (key, member, at) in [
            ("followers:s2", "u1", "7"),
            ("followers:s3", "u1", "8"),
            ("following:u9", "s4", "9"),
        ] {
            assert_eq!(redis.ask(&["ZSCORE", key, member]).await, at, "{key}");
        }
        assert_eq!(redis.ask(&["EXISTS", "statuses:feed:u1"]).await, 0);
        assert_eq!(put(&world, "u3", "ANN").await.problem(409), "login_taken");
        put(&world, "u3", "cid").await.is(201);
        assert_eq!(kinds(0, "").await, [""; 0]);
        // What cannot be read hides nothing else.
        put(&world, "u8", "dan").await.is(201);
        for key in ["followers:s8", "statuses:home:u8", "user:u8"] {
            redis.ask(&["SET", key, "x"]).await;
        }
        redis.ask(&["ZADD", "followers:s7", "9", "u7"]).await;
        assert_eq!(
            kinds(1, "").await,
            [
                "half_follow",
                "unreadable_key",
                "unreadable_key",
                "unreadable_key"
            ]
        );
        world.stop().await;
    });
}

/// A change that was left is found. Gateways finish it, so an audit does not.
#[test]
fn an_audit_finds_a_change_that_was_left_and_leaves_it_to_the_gateways() {
    story(async {
        let redis = Redis::start().await;
        let partition = UserId::parse("u1").unwrap().xxh3() % 64;
        let key = format!("rollcall:changes:{partition}");
        redis.ask(&["ZADD", "following:u1", "7", "s1"]).await;
        redis.ask(&["HSET", &key, "u1 s1", "1000 follow"]).await;
        let report = audit(&redis.url(), 1, "--fix").await;
        let found = &report["findings"][0];
        assert_eq!(
            (&found["kind"], &found["key"]),
            (&json!("unfinished_change"), &json!(key)),
            "{report}"
        );
        assert_eq!(
            found["gateways_repair_it"], "within twice --check-every",
            "{report}"
        );
        let world = World::at(&redis.url()).await;
        becomes("the gateway finishes it", json!(0), async || {
            redis.ask(&["EXISTS", &key]).await
        })
        .await;
        assert_eq!(redis.ask(&["ZSCORE", "followers:s1", "u1"]).await, "7");
        world.stop().await;
    });
}

/// The login is claimed and its profile was not written: the login is free again, and the user has
/// no profile.
#[test]
fn a_login_whose_gateway_dies_half_way_is_free_again() {
    story(async {
        let redis = Redis::start().await;
        allow(&redis, true).await;
        let mut dies = World::program_as(redis.clone(), "rollcall:secret").await;
        let mut rule = acl_rules().swap_remove(0);
        rule.retain(|word| word != "~user:*");
        redis
            .ask(&rule.iter().map(String::as_str).collect::<Vec<_>>())
            .await;
        put(&dies, "u1", "ann").await.problem(503);
        assert_eq!(redis.ask(&["HGET", "users", "ann"]).await, "u1");
        dies.process().kill();
        allow(&redis, true).await;
        let lives = World::beside(redis.clone(), |_| {}).await;
        assert_eq!(put(&lives, "u2", "ann").await.problem(409), "login_taken");
        until("the login is free", PATIENCE * 2, async || {
            let status = put(&lives, "u2", "ann").await.status;
            same(status, 201)
        })
        .await;
        assert_eq!(user(&lives, "u1").await["login"], Value::Null);
        lives.stop().await;
    });
}
