//! A user whose token says `invisible` counts as every other, and is in no list and in no answer about friends, on any
//! gateway and whatever Redis loses.

use std::collections::BTreeSet;
use std::time::Duration;

use rollcall::config::{Config, Switch};
use serde_json::{Value, json};

use crate::support::dashboard::{fans, viewers};
use crate::support::stores::{on_both_stores, on_redis};
use crate::support::tokens::with_tokens;
use crate::support::wait::{PATIENCE, SLACK, same, throughout, until};
use crate::support::world::World;

fn exact(config: &mut Config) {
    config.exact_viewers = Switch::On;
}

fn users(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

async fn listed(world: &World, set: &str) -> BTreeSet<String> {
    let path = format!("/v1/lives/42/{set}?limit=1000");
    let answer = world.backend().get(&path).await;
    if answer.status == 404 {
        // Redis has just lost the live.
        return BTreeSet::new();
    }
    let page = answer.is(200).body;
    page["items"].as_array().unwrap().iter().map(|item| item["user_id"].as_str().unwrap().to_owned()).collect()
}

/// What is said of a user of the platform.
async fn asked(world: &World, user: &str) -> Value {
    let answer = world.backend().post("/v1/online/query", json!({"user_ids": [user]})).await.is(200).body;
    answer["items"][0].clone()
}

async fn online(world: &World) -> u64 {
    world.backend().get("/v1/online/count").await.is(200).body["online"].as_u64().unwrap()
}

on_both_stores! {
    tuned(exact)
    async fn an_invisible_fan_counts_and_is_in_no_list(world) {
        world.open("42").await;
        world.follow(&["ghost", "u1"]).await;
        for friend in ["ghost", "u1"] {
            world.backend().follow("me", friend).await;
        }
        let mut me = world.viewer("me").await;
        me.say(json!({"type": "join", "live_id": "42", "friends": true})).await;
        me.expect("joined").await;
        assert_eq!(me.expect("friends").await["count"], 0);
        let mut ghost = world.person("ghost", "viewer", "&live_id=42&invisible=true").await;
        ghost.expect("joined").await;
        let _plain = world.viewer_in("u1", "42").await;
        world.dashboard("42").await.sees(viewers(3), fans(2)).await;
        assert_eq!(ghost.heartbeat().await.fan, Some(true));
        until("they are online", PATIENCE, || async { same(online(&world).await, 3) }).await;

        assert_eq!(listed(&world, "fans").await, users(&["u1"]));
        assert_eq!(listed(&world, "viewers").await, users(&["me", "u1"]));
        let one = world.backend().get("/v1/lives/42/fans/ghost").await.is(200).body;
        assert_eq!(one["online"], false);
        let said = asked(&world, "ghost").await;
        assert_eq!((&said["online"], &said["live_id"]), (&json!(false), &Value::Null));
        assert_eq!(said["last_seen"], Value::Null);
        let friends = world.backend().get("/v1/users/me/friends/online").await.is(200).body;
        assert_eq!(friends["items"].as_array().unwrap().len(), 1, "{friends}");
        let pushed = me.expect("friends").await;
        assert_eq!(pushed["user_ids"], json!(["u1"]));
        me.hears_no("friends", Duration::from_secs(3)).await;

        ghost.close().await;
        until("the user has left", PATIENCE, || async { same(online(&world).await, 2) }).await;
        let count = world.backend().get("/v1/online/count").await.is(200).body["count"].clone();
        assert_eq!(count, 2, "the visit leaves no trace");
        assert_eq!(asked(&world, "ghost").await["last_seen"], Value::Null);
        if world.redis.is_some() {
            assert!(world.redis().keys("*invisible*").await.is_empty());
        }
        // The next visit is another one.
        let _again = world.viewer_in("ghost", "42").await;
        until("the user is listed", Duration::from_secs(12) + PATIENCE, || async {
            same(listed(&world, "fans").await, users(&["ghost", "u1"]))
        }).await;
        assert_eq!(asked(&world, "ghost").await["live_id"], "42");
    }
}

on_both_stores! {
    /// The time of the last visible visit stays, and the user counts once.
    async fn an_invisible_visit_changes_no_last_seen_time(world) {
        let plain = world.viewer("ghost").await;
        until("the user is online", PATIENCE, || async { same(online(&world).await, 1) }).await;
        plain.close().await;
        until("the user was seen", PATIENCE, || async {
            let said = asked(&world, "ghost").await;
            same((said["online"] == false, said["last_seen"].is_number()), (true, true))
        }).await;
        let before = asked(&world, "ghost").await;
        let ghost = world.person("ghost", "viewer", "&invisible=1").await;
        until("the user is online", PATIENCE, || async { same(online(&world).await, 1) }).await;
        assert_eq!(asked(&world, "ghost").await, before);
        for window in ["", "?window_s=600"] {
            let count = world.backend().get(&format!("/v1/online/count{window}")).await.is(200).body;
            assert_eq!((&count["count"], &count["online"]), (&json!(1), &json!(1)), "{window}");
        }
        ghost.close().await;
        until("the user has left", PATIENCE, || async { same(online(&world).await, 0) }).await;
        assert_eq!(asked(&world, "ghost").await, before);
    }
}

on_both_stores! {
    tuned(exact)
    async fn a_user_becomes_invisible_with_the_first_such_socket(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let plain = world.viewer_in("u1", "42").await;
        until("the fan is listed", PATIENCE, || async { same(listed(&world, "fans").await, users(&["u1"])) }).await;
        let second = world.person("u1", "viewer", "&live_id=42&invisible=true").await;
        let bound = Duration::from_secs(12) + PATIENCE;
        for set in ["fans", "viewers"] {
            until("the fan is in no list", bound, || async { same(listed(&world, set).await, users(&[])) }).await;
        }
        second.close().await;
        throughout("the fan stays in no list", world.config.flush * 4, || async {
            same(listed(&world, "fans").await, users(&[]))
        }).await;
        world.dashboard("42").await.sees(viewers(1), fans(1)).await;
        plain.close().await;
    }
}

on_redis! {
    tuned(exact)
    async fn no_gateway_lists_an_invisible_user_even_when_redis_lost_its_data(world) {
        world.backend().open_sliced("42", "s1", 2).await;
        world.crowd_follows("u", 4).await;
        let other = world.another_gateway().await;
        let _seen = world.viewer_in("u0", "42").await;
        let mut ghosts = Vec::new();
        for (n, at) in [(1, &world), (2, &other), (3, &other)] {
            ghosts.push(at.person(&format!("u{n}"), "viewer", "&live_id=42&invisible=true").await);
        }
        world.card_becomes("42", 4, PATIENCE).await;
        let nobody = |there: BTreeSet<String>| same(there.is_subset(&users(&["u0"])), true);
        let lost = async {
            world.redis().ask(&["FLUSHALL"]).await;
            world.crowd_follows("u", 4).await;
            world.card_becomes("42", 4, Duration::from_secs(5) + SLACK + PATIENCE).await;
            ghosts.pop().unwrap().vanish();
            ghosts.pop().unwrap().close().await;
            world.card_becomes("42", 2, world.config.timeout + PATIENCE).await;
        };
        let looks = throughout("no ghost is listed", Duration::MAX, || async {
            for set in ["fans", "viewers"] {
                nobody(listed(&world, set).await)?;
                nobody(listed(&other, set).await)?;
            }
            let each = ["u1", "u2", "u3"].map(|ghost| format!("/v1/lives/42/fans/{ghost}"));
            for path in each {
                same(other.backend().get(&path).await.body["online"] == true, false)?;
            }
            Ok::<(), String>(())
        });
        tokio::select! {
            () = lost => {}
            () = looks => unreachable!("it looks until all is done"),
        }
        world.backend().close("42").await;
        assert!(world.redis().keys("*online-*:42*invisible*").await.is_empty());
    }
}

on_both_stores! {
    async fn a_live_of_an_invisible_streamer_is_in_no_feed(world) {
        let backend = world.backend();
        for streamer in ["ghost", "s1", "s2", "s3"] {
            backend.follow("u1", streamer).await;
        }
        let mut ghost = world.person("ghost", "streamer", "&invisible=true").await;
        ghost.ask(json!({"type": "open", "live_id": "42"})).await;
        backend.put("/v1/lives/43", json!({"streamer_id": "s1", "invisible": true})).await.is(201);
        // A streamer who joins a live so is invisible from then on.
        let mut late = world.person("s3", "streamer", "").await;
        late.say(json!({"type": "join", "live_id": "43", "invisible": true})).await;
        late.expect("joined").await;
        late.ask(json!({"type": "open", "live_id": "45"})).await;
        backend.put("/v1/lives/44", json!({"streamer_id": "s2", "invisible": false})).await.is(201);
        let feed = async || {
            let items = world.backend().list("/v1/users/u1/feed", 10).await;
            items.iter().map(|item| item["live_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        until("the visible one is told", PATIENCE, async || same(feed().await, vec!["44".to_owned()])).await;
        throughout("the others are not", world.config.check_every * 2, async || {
            same(feed().await, vec!["44".to_owned()])?;
            same(world.backend().list("/v1/users/ghost/profile", 10).await.len(), 0)
        })
        .await;
        // The next one of that streamer is.
        backend.close("43").await;
        backend.open("43", "s1").await;
        until("both are told", PATIENCE, async || same(feed().await.len(), 2)).await;
    }
}

on_redis! {
    tuned(|config: &mut Config| {
        with_tokens(config);
        exact(config);
    })
    async fn the_claim_makes_a_user_invisible(world) {
        let mut service = world.bearer(json!({"sub": "back-end", "role": "service"})).await;
        service.ask(json!({"type": "open", "live_id": "42", "streamer_id": "s1"})).await;
        let mut ghost = world.bearer(json!({"sub": "ghost", "invisible": true})).await;
        let mut plain = world.bearer(json!({"sub": "u1", "invisible": false})).await;
        ghost.join("42").await;
        plain.join("42").await;
        until("both are viewers", PATIENCE, || async {
            same(world.redis().viewers("42").await, users(&["ghost", "u1"]))
        }).await;
        let hidden = world.redis().ask(&["SMEMBERS", "{online-viewers:42}:invisible"]).await;
        assert_eq!(hidden, json!(["ghost"]));
    }
}

on_both_stores! {
    tuned(exact)
    async fn a_viewer_who_joins_invisibly_is_in_no_list_from_then_on(world) {
        world.open("42").await;
        world.open("43").await;
        world.follow(&["u1"]).await;
        world.backend().follow("me", "u1").await;
        let mut me = world.viewer("me").await;
        me.say(json!({"type": "join", "live_id": "42", "friends": true})).await;
        assert_eq!(me.expect("friends").await["count"], 0);
        let mut one = world.viewer_in("u1", "42").await;
        assert_eq!(me.expect("friends").await["user_ids"], json!(["u1"]));
        until("the fan is listed", PATIENCE, || async { same(listed(&world, "fans").await, users(&["u1"])) }).await;

        one.say(json!({"type": "join", "live_id": "42", "invisible": true})).await;
        one.expect("joined").await;
        assert_eq!(me.expect("friends").await["count"], 0);
        for (set, there) in [("fans", users(&[])), ("viewers", users(&["me"]))] {
            let bound = Duration::from_secs(12) + PATIENCE;
            until("the user is in no list", bound, || async { same(listed(&world, set).await, there.clone()) }).await;
        }
        world.dashboard("42").await.sees(viewers(2), fans(1)).await;
        until("the user was seen", PATIENCE, || async {
            let said = asked(&world, "u1").await;
            same((said["online"] == false, said["last_seen"].is_number()), (true, true))
        }).await;
        let said = asked(&world, "u1").await;

        // In another live, too.
        one.join("43").await;
        world.dashboard("43").await.sees(viewers(1), fans(1)).await;
        let fans = world.backend().get("/v1/lives/43/fans").await.is(200).body;
        assert_eq!(fans["items"], json!([]));
        one.close().await;
        until("the user has left", PATIENCE, || async { same(online(&world).await, 1) }).await;
        assert_eq!(asked(&world, "u1").await, said);
    }
}

on_both_stores! {
    /// Nobody forgets when the user was seen.
    async fn an_invisible_user_whom_a_back_end_sees_is_remembered(world) {
        let ghost = world.person("ghost", "viewer", "&invisible=1").await;
        until("the user is online", PATIENCE, || async { same(online(&world).await, 1) }).await;
        assert_eq!(asked(&world, "ghost").await["last_seen"], Value::Null);
        world.backend().post("/v1/online/seen", json!({"user_ids": ["ghost"]})).await.is(204);
        let said = asked(&world, "ghost").await;
        assert!(said["last_seen"].is_number(), "{said}");
        ghost.close().await;
        until("the user has left", PATIENCE, || async { same(online(&world).await, 0) }).await;
        assert_eq!(asked(&world, "ghost").await, said);
    }
}

on_redis! {
    async fn friends_are_told_when_a_user_becomes_invisible_through_another_gateway(world) {
        world.open("42").await;
        let other = world.another_gateway().await;
        world.backend().follow("me", "u1").await;
        let mut me = world.viewer("me").await;
        me.say(json!({"type": "join", "live_id": "42", "friends": true})).await;
        assert_eq!(me.expect("friends").await["count"], 0);
        let _plain = world.viewer_in("u1", "42").await;
        assert_eq!(me.expect("friends").await["user_ids"], json!(["u1"]));
        let _ghost = other.person("u1", "viewer", "&invisible=true").await;
        assert_eq!(me.expect("friends").await["count"], 0);
    }
}

on_redis! {
    async fn friends_are_told_of_an_invisible_user_once_messages_can_be_sent_again(world) {
        world.open("42").await;
        let (other, redis) = (world.another_gateway().await, world.redis());
        world.backend().follow("me", "u1").await;
        let mut me = world.viewer("me").await;
        me.say(json!({"type": "join", "live_id": "42", "friends": true})).await;
        assert_eq!(me.expect("friends").await["count"], 0);
        let _plain = world.viewer_in("u1", "42").await;
        assert_eq!(me.expect("friends").await["user_ids"], json!(["u1"]));
        redis.ask(&["ACL", "SETUSER", "default", "-spublish"]).await;
        let _ghost = other.person("u1", "viewer", "&invisible=true").await;
        until("Redis knows that the user is invisible", PATIENCE, || async {
            same(redis.keys("{online-users*}:invisible").await.len(), 1)
        }).await;
        redis.ask(&["ACL", "LOG", "RESET"]).await;
        until("Redis refuses a message", PATIENCE, || async {
            same(redis.ask(&["ACL", "LOG"]).await.to_string().contains("spublish"), true)
        }).await;
        redis.ask(&["ACL", "SETUSER", "default", "+spublish"]).await;
        assert_eq!(me.expect("friends").await["count"], 0);
    }
}

on_redis! {
    async fn a_user_who_becomes_invisible_through_another_gateway_was_seen_until_then(world) {
        let other = world.another_gateway().await;
        let plain = world.viewer("u1").await;
        let is_online = || async { same(asked(&world, "u1").await["online"].clone(), json!(true)) };
        until("the user is online", PATIENCE, is_online).await;
        let ghost = other.person("u1", "viewer", "&invisible=1").await;
        let offline = || async {
            let said = asked(&world, "u1").await;
            let is_remembered = said["online"] == false && said["last_seen"].is_u64();
            if is_remembered { Ok(()) } else { Err(said) }
        };
        until("the user seems to have left just now", PATIENCE, offline).await;
        ghost.close().await;
        throughout("the user stays so", SLACK, offline).await;
        plain.close().await;
    }
}
