//! Users whose profiles say that they are hidden: they are counted as everybody is, and are in nothing
//! that another user is told. Back ends see them.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::backend::Answer;
use crate::support::dashboard::{fans, viewers};
use crate::support::stores::on_both_stores;
use crate::support::tokens::{in_seconds, mint, with_tokens};
use crate::support::viewer::Viewer;
use crate::support::wait::{becomes, same, until};
use crate::support::world::World;

/// A request with a token of this user and role.
async fn say(world: &World, who: (&str, &str), method: Method, path: &str, body: Value) -> Answer {
    let (user, role) = who;
    let token = mint(&json!({"sub": user, "role": role, "exp": in_seconds(600)}));
    let bearer = format!("Bearer {token}");
    let body = (!body.is_null()).then(|| body.to_string());
    let headers = [("authorization", bearer.as_str())];
    let answer = world
        .backend()
        .send_with(method, path, body.as_deref(), &headers);
    answer.await
}

/// An erasure is over within this time.
const ERASED_WITHIN: Duration = Duration::from_secs(60);

const BACK_END: (&str, &str) = ("shop", "service");
const STREAMER: (&str, &str) = ("s1", "streamer");

async fn put(world: &World, path: &str, body: Value) -> Answer {
    say(world, BACK_END, Method::PUT, path, body).await
}

async fn hide(world: &World, user: &str, hidden: Option<bool>) -> Value {
    let mut body = json!({"login": user, "name": user});
    if let Some(hidden) = hidden {
        body["hidden"] = hidden.into();
    }
    let answer = put(world, &format!("/v1/users/{user}"), body).await;
    assert!([200, 201].contains(&answer.status), "{answer:?}");
    answer.body
}

/// All users of a list, in pages of `limit`. No cursor names a hidden user.
async fn listed(world: &World, who: (&str, &str), path: &str, limit: usize) -> Vec<String> {
    let more = if path.contains('?') { '&' } else { '?' };
    let mut users = Vec::new();
    let mut cursor = String::new();
    for _ in 0..100 {
        let path = format!("{path}{more}limit={limit}&cursor={cursor}");
        let page = say(world, who, Method::GET, &path, Value::Null)
            .await
            .is(200);
        if who == STREAMER {
            assert!(!page.text.contains("hid"), "{}", page.text);
        }
        for item in page.body["items"].as_array().unwrap() {
            users.push(item["user_id"].as_str().unwrap().to_owned());
        }
        match page.body["cursor"].as_str() {
            Some(next) => next.clone_into(&mut cursor),
            None => {
                users.sort_unstable();
                return users;
            }
        }
    }
    panic!("{path} has no end");
}

async fn joins(world: &World, user: &str) -> Viewer {
    let mut viewer = world.bearer(json!({"sub": user})).await;
    viewer.join("42").await;
    viewer
}

on_both_stores! {
    tuned(with_tokens)
    async fn a_hidden_user_is_counted_and_in_no_list_of_the_streamer(world) {
        let open = json!({"streamer_id": "s1", "attendance": true, "slices": 2});
        put(&world, "/v1/lives/42", open).await.is(201);
        let everybody = ["a1", "hid1", "hid2", "hid3", "z1"];
        let seen = ["a1", "z1"];
        let mut people = Vec::new();
        for user in everybody {
            put(&world, &format!("/v1/users/{user}/following/s1"), Value::Null).await.is(200);
            hide(&world, user, Some(user.starts_with("hid"))).await;
            people.push(joins(&world, user).await);
        }
        let mut dashboard = world.bearer(json!({"sub": "s1", "role": "streamer"})).await;
        dashboard.say(json!({"type": "watch", "live_id": "42"})).await;
        becomes("all are fans", everybody.map(str::to_owned).to_vec(), async || {
            listed(&world, BACK_END, "/v1/lives/42/fans", 1_000).await
        }).await;
        let live = say(&world, STREAMER, Method::GET, "/v1/lives/42", Value::Null).await.is(200).body;
        assert_eq!((&live["viewers"], &live["fans"]), (&json!(5), &json!(5)), "{live}");
        for path in [
            "/v1/lives/42/fans", "/v1/lives/42/viewers", "/v1/lives/42/viewers?fan=true", "/v1/lives/42/sessions",
        ] {
            for limit in [1, 2, 3, 1_000] {
                assert_eq!(listed(&world, STREAMER, path, limit).await, seen, "{path} by {limit}");
                assert_eq!(listed(&world, BACK_END, path, limit).await, everybody, "{path} by {limit}");
            }
        }
        assert_eq!(listed(&world, STREAMER, "/v1/lives/42/fans?prefix=hi", 1).await, [""; 0]);
        let count = "/v1/lives/42/sessions";
        let sessions = say(&world, STREAMER, Method::GET, count, Value::Null).await.is(200).body;
        assert_eq!(sessions["count"], 5, "a figure counts everybody");
        for (who, user, online) in [
            (STREAMER, "hid1", false), (STREAMER, "a1", true), (STREAMER, "nobody", false), (BACK_END, "hid1", true),
        ] {
            let path = format!("/v1/lives/42/fans/{user}");
            let one = say(&world, who, Method::GET, &path, Value::Null).await.is(200).body;
            assert_eq!(one, json!({"online": online}), "{user} for {who:?}");
        }
        // A profile that says nothing of it leaves it as it is.
        assert_eq!(hide(&world, "hid1", None).await["hidden"], true);
        assert_eq!(listed(&world, STREAMER, "/v1/lives/42/fans", 2).await, seen);
        assert_eq!(hide(&world, "hid1", Some(false)).await["hidden"], false);
        let fans = listed(&world, BACK_END, "/v1/lives/42/fans", 2).await;
        assert_eq!(fans, everybody);
        let path = "/v1/lives/42/fans/hid1";
        let one = say(&world, STREAMER, Method::GET, path, Value::Null).await.is(200).body;
        assert_eq!(one["online"], true, "the user is shown again");
    }
}

on_both_stores! {
    tuned(with_tokens)
    async fn a_hidden_user_is_nobodys_friend_in_the_live_from_the_moment_of_hiding_on(world) {
        put(&world, "/v1/lives/42", json!({"streamer_id": "s1"})).await.is(201);
        for friend in ["f1", "f2"] {
            put(&world, &format!("/v1/users/me/following/{friend}"), Value::Null).await.is(200);
        }
        hide(&world, "f1", Some(true)).await;
        let _hidden = joins(&world, "f1").await;
        let _plain = joins(&world, "f2").await;
        let mut me = world.bearer(json!({"sub": "me"})).await;
        me.say(json!({"type": "join", "live_id": "42", "friends": true})).await;
        let told = async |me: &mut Viewer, wanted: &[&str]| {
            loop {
                let told = me.expect("friends").await;
                if told["user_ids"] == json!(wanted) {
                    assert_eq!(told["count"], wanted.len(), "{told}");
                    return;
                }
            }
        };
        told(&mut me, &["f2"]).await;
        hide(&world, "f2", Some(true)).await;
        told(&mut me, &[]).await;
        hide(&world, "f1", Some(false)).await;
        told(&mut me, &["f1"]).await;
    }
}

on_both_stores! {
    async fn a_profile_says_whether_the_user_is_hidden_and_an_erasure_takes_it_away(world) {
        let backend = world.backend();
        let made = backend.post("/v1/users", json!({"login": "ann", "name": "Ann", "hidden": true})).await.is(201).body;
        assert_eq!(made["hidden"], true, "{made}");
        let path = format!("/v1/users/{}", made["user_id"].as_str().unwrap());
        assert_eq!(backend.get(&path).await.is(200).body["hidden"], true);
        let refused = backend.put(&path, json!({"login": "ann", "name": "Ann", "hidden": "yes"})).await;
        assert_eq!((refused.problem(400), &refused.body["pointer"]), ("bad_message".to_owned(), &json!("/hidden")));
        assert!(backend.get("/v1/users/u9").await.is(200).body["hidden"].is_null(), "no profile");
        backend.delete(&path).await.is(202);
        until("the user may come back", ERASED_WITHIN, async || {
            let answer = backend.put(&path, json!({"login": "ann", "name": "Ann"})).await;
            same(answer.body["hidden"].clone(), json!(false))
        }).await;
    }
}

on_both_stores! {
    async fn hidden_users_move_the_figures_of_a_dashboard(world) {
        world.open("42").await;
        world.follow(&["u1"]).await;
        let body = json!({"login": "u1", "name": "U", "hidden": true});
        world.backend().put("/v1/users/u1", body).await.is(201);
        let _there = world.viewer_in("u1", "42").await;
        world.dashboard("42").await.sees(viewers(1), fans(1)).await;
    }
}
