//! Sockets with `?count=false` or `?invisible=true`, which mean the same (a moderator's console, a
//! recorder, a bot, a user who hides), take part and are in no figure, no list, no time and no
//! event.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::dashboard::{fans, viewers};
use crate::support::stores::{on_both_stores, on_memory};
use crate::support::tokens::{in_seconds, mint, with_tokens};
use crate::support::wait::{PATIENCE, becomes, names, same, throughout, until};
use crate::support::world::World;

const UNCOUNTED: &str = "&count=false";
const INVISIBLE: &str = "&invisible=true";

/// How long a gateway goes on with a list that it has read.
const LIST_KEPT: Duration = Duration::from_secs(12);

async fn listed(world: &World, set: &str) -> BTreeSet<String> {
    let path = format!("/v1/lives/42/{set}");
    world
        .backend()
        .users(&path, 1_000)
        .await
        .into_iter()
        .collect()
}

/// What is said of a user of the platform.
async fn asked(world: &World, user: &str) -> Value {
    let answer = world
        .backend()
        .post("/v1/online/query", json!({"user_ids": [user]}))
        .await
        .is(200)
        .body;
    answer["items"][0].clone()
}

async fn online(world: &World) -> u64 {
    world.backend().get("/v1/online/count").await.is(200).body["online_users"]
        .as_u64()
        .unwrap()
}

on_memory! {
    async fn an_uncounted_socket_is_in_no_figure(world) {
        world.open("42").await;
        world.follow(&["bot", "ghost", "u1"]).await;
        let mut dashboard = world.dashboard("42").await;
        let mut bot = world.person("bot", "viewer", UNCOUNTED).await;
        assert_eq!(bot.join("42").await["viewers"], 0);
        let mut ghost = world.person("ghost", "viewer", INVISIBLE).await;
        assert_eq!(ghost.join("42").await["viewers"], 0);
        let mut viewer = world.viewer("u1").await;
        viewer.join("42").await;
        world.fans_become("42", &["u1"]).await;
        dashboard.sees(viewers(1), fans(1)).await;
        let ack = bot.heartbeat().await;
        assert_eq!((ack.viewers, ack.fan), (1, Some(true)), "it sees the figures: {ack:?}");
        world.fans_stay("42", &["u1"], world.config.flush * 6).await;
        bot.close().await;
        ghost.close().await;
        dashboard.listen(world.config.flush * 6).await;
        let max = dashboard.log.iter().map(|c| c.number("viewers")).max();
        assert_eq!(max, Some(1), "{}", dashboard.seen());
    }
}

on_memory! {
    async fn an_uncounted_socket_hears_the_end_of_the_live(world) {
        world.open("42").await;
        let mut bot = world.person("bot", "viewer", "&count=false&live_id=42").await;
        bot.expect("joined").await;
        world.backend().close("42").await;
        let closed = bot.expect("closed").await;
        assert_eq!(closed["peak_viewers"], 0, "{closed}");
    }
}

on_memory! {
    async fn the_same_user_counts_through_another_socket(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let mut recorder = world.person("u1", "viewer", UNCOUNTED).await;
        recorder.join("42").await;
        let person = world.viewer_in("u1", "42").await;
        world.fans_become("42", &["u1"]).await;
        recorder.close().await;
        world.fans_stay("42", &["u1"], world.config.flush * 6).await;
        let mut recorder = world.person("u1", "viewer", INVISIBLE).await;
        recorder.join("42").await;
        person.close().await;
        world.dashboard("42").await.sees(viewers(0), fans(0)).await;
        assert_eq!(recorder.heartbeat().await.viewers, 0);
    }
}

on_both_stores! {
    async fn an_uncounted_user_is_in_no_list_has_no_time_and_is_nobodys_friend(world) {
        world.open("42").await;
        let hiding = [("bot", UNCOUNTED), ("ghost", INVISIBLE)];
        world.follow(&["bot", "ghost", "u1"]).await;
        for friend in ["bot", "ghost", "u1"] {
            world.backend().follow("me", friend).await;
        }
        let mut me = world.viewer("me").await;
        me.say(json!({"type": "join", "live_id": "42", "friends": true})).await;
        me.expect("joined").await;
        assert_eq!(me.expect("friends").await["count"], 0);
        let mut people = Vec::new();
        for (user, word) in hiding {
            let mut person = world.person(user, "viewer", word).await;
            person.join("42").await;
            people.push(person);
        }
        let _plain = world.viewer_in("u1", "42").await;
        let pushed = me.expect("friends").await;
        assert_eq!(pushed["user_ids"], json!(["u1"]));
        world.dashboard("42").await.sees(viewers(2), fans(1)).await;
        becomes("two are online", 2, async || online(&world).await).await;

        assert_eq!(listed(&world, "fans").await, names(&["u1"]));
        assert_eq!(listed(&world, "viewers").await, names(&["me", "u1"]));
        let friends = world.backend().get("/v1/users/me/friends/online").await.is(200).body;
        assert_eq!(friends["items"].as_array().unwrap().len(), 1, "{friends}");
        for (user, _) in hiding {
            let one = world.backend().get(&format!("/v1/lives/42/fans/{user}")).await.is(200).body;
            assert_eq!(one["online"], false, "{user}");
            let said = asked(&world, user).await;
            assert_eq!((&said["online"], &said["live_id"]), (&json!(false), &Value::Null), "{said}");
        }
        me.hears_no("friends", Duration::from_secs(3)).await;
        for person in people {
            person.close().await;
        }
        throughout("the visits leave no trace", world.config.flush * 6, async || {
            same(world.backend().get("/v1/online/count").await.is(200).body["count"].clone(), json!(2))
        })
        .await;
        // The next visit is another one.
        let _again = world.viewer_in("ghost", "42").await;
        until("the user is listed", LIST_KEPT + PATIENCE, async || {
            same(listed(&world, "fans").await, names(&["ghost", "u1"]))
        })
        .await;
        assert_eq!(asked(&world, "ghost").await["live_id"], "42");
    }
}

on_memory! {
    async fn an_uncounted_socket_says_nothing_of_when_its_user_was_there(world) {
        world.open("42").await;
        let mut hidden = world.person("u1", "viewer", INVISIBLE).await;
        hidden.join("42").await;
        let before = hidden.heartbeat().await;
        assert_eq!(before.viewers, 0);
        tokio::time::sleep(Duration::from_millis(50)).await;
        let came = rollcall::base::clock::unix_now();
        let plain = world.viewer_in("u1", "42").await;
        let page = async || world.backend().list("/v1/lives/42/viewers", 10).await;
        until("the viewer is listed", LIST_KEPT + PATIENCE, async || same(page().await.len(), 1)).await;
        let since = page().await[0]["since"].as_u64().unwrap();
        assert!(since + 10 >= came, "since {since}, and came at {came}");
        plain.close().await;
        let is_seen = async || {
            let said = asked(&world, "u1").await;
            same((said["online"] == false, said["last_seen"].is_number()), (true, true))
        };
        until("the user was seen", PATIENCE, is_seen).await;
        let seen = asked(&world, "u1").await;
        hidden.heartbeat().await;
        hidden.close().await;
        throughout("the time stays", world.config.flush * 6, async || {
            same(asked(&world, "u1").await, seen.clone())
        })
        .await;
        // A back end may see the user all the same.
        let _hidden = world.person("ghost", "viewer", INVISIBLE).await;
        world.backend().post("/v1/online/seen", json!({"user_ids": ["ghost"]})).await.is(204);
        assert!(asked(&world, "ghost").await["last_seen"].is_number());
    }
}

on_memory! {
    async fn a_live_of_an_invisible_streamer_is_in_no_feed(world) {
        let backend = world.backend();
        for streamer in ["ghost", "s1", "s2"] {
            backend.follow("u1", streamer).await;
        }
        let mut ghost = world.person("ghost", "streamer", INVISIBLE).await;
        ghost.ask(json!({"type": "open", "live_id": "42"})).await;
        backend.put("/v1/lives/43", json!({"streamer_id": "s1", "invisible": true})).await.is(201);
        backend.put("/v1/lives/44", json!({"streamer_id": "s2", "invisible": false})).await.is(201);
        let feed = async || {
            let items = world.backend().list("/v1/users/u1/feed", 10).await;
            items.iter().map(|item| item["live_id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        becomes("the visible one is told", vec!["44".to_owned()], async || feed().await).await;
        throughout("the others are not", world.config.check_every * 2, async || {
            same(feed().await, vec!["44".to_owned()])?;
            same(world.backend().list("/v1/users/ghost/profile", 10).await.len(), 0)
        })
        .await;
        // The next one of that streamer is.
        backend.close("43").await;
        backend.open("43", "s1").await;
        becomes("both are told", 2, async || feed().await.len()).await;
    }
}

on_memory! {
    tuned(with_tokens)
    async fn a_socket_stays_counted_or_not_as_it_was_opened(world) {
        let exp = in_seconds(60);
        let plain = mint(&json!({"sub": "u1", "exp": exp}));
        for hiding in [json!({"count": false}), json!({"invisible": true})] {
            let mut claims = json!({"sub": "u1", "exp": exp});
            claims.as_object_mut().unwrap().extend(hiding.as_object().unwrap().clone());
            let hidden = mint(&claims);
            for (opened, same, other) in [(json!({"sub": "u1"}), &plain, &hidden), (claims, &hidden, &plain)] {
                let mut viewer = world.bearer(opened).await;
                viewer.is_refused(json!({"type": "refresh", "token": other}), "forbidden").await;
                assert_eq!(viewer.ask(json!({"type": "refresh", "token": same})).await["type"], "refreshed");
            }
        }
    }
}
