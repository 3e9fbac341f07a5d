//! Users of the whole platform over HTTP: beats, counts, lists, questions, friends.

use std::time::Duration;

use serde_json::{Value, json};

use super::world::World;
use crate::base::clock::unix_now;
use crate::base::ids::UserId;
use crate::config::{Config, SeenIds};
use crate::store::LastSeen;

impl World {
    /// Users who were seen so many seconds ago.
    pub(crate) async fn saw(&self, users: &[(&str, u64)]) {
        let at = |ago: u64| unix_now() - ago * 1_000;
        let seen: Vec<_> = users
            .iter()
            .map(|(name, ago)| (UserId::parse(name).unwrap(), at(*ago)))
            .collect();
        self.store.note_seen(&seen, Duration::ZERO).await.unwrap();
    }

    async fn count(&self, query: &str) -> (u64, bool) {
        let count = self.get(&format!("/v1/online/count{query}")).await.is(200);
        (
            count["count"].as_u64().unwrap(),
            count["exact"].as_bool().unwrap(),
        )
    }
}

#[tokio::test]
async fn a_beat_is_a_sign_of_life_and_a_wrong_one_is_refused() {
    let world = World::new();
    assert_eq!(world.post("/v1/beat?user_id=u1", "").await.status, 204);
    assert_eq!(
        world
            .post("/v1/online/seen", r#"{"user_ids":["u2","u3","u2"]}"#)
            .await
            .status,
        204
    );
    assert_eq!(
        world
            .post("/v1/online/seen", r#"{"user_ids":[]}"#)
            .await
            .status,
        204
    );
    assert_eq!(world.count("?window_s=60").await, (3, true));
    world
        .post("/v1/beat", "")
        .await
        .is_problem(400, "invalid_id");
    world
        .post("/v1/beat?user_id=%7B", "")
        .await
        .is_problem(400, "invalid_id");
    for path in ["/v1/online/seen", "/v1/online/query"] {
        let refused = world.post(path, r#"{"user_ids":["u1","a b"]}"#).await;
        refused.is_problem(400, "invalid_id");
        assert_eq!(refused.json()["pointer"], "/user_ids/1");
    }
    world
        .post("/v1/online/seen", r#"{"user_ids":[7]}"#)
        .await
        .is_problem(400, "bad_message");
    let many = |n: usize| {
        json!({"user_ids": (0..n).map(|i| format!("{i:064}")).collect::<Vec<_>>()}).to_string()
    };
    assert_eq!(
        world.post("/v1/online/seen", &many(1_000)).await.status,
        204
    );
    world
        .post("/v1/online/seen", &many(1_001))
        .await
        .is_problem(400, "bad_message");
    world
        .post("/v1/online/query", &many(1_001))
        .await
        .is_problem(400, "bad_message");
    world
        .post("/v1/online/query", &many(2_000))
        .await
        .is_problem(413, "body_too_large");
    world.store.breaks();
    world
        .post("/v1/beat?user_id=u9", "")
        .await
        .is_problem(503, "store_unavailable");
    // A gateway that has just written a user has nothing to write.
    assert_eq!(world.post("/v1/beat?user_id=u1", "").await.status, 204);
}

#[tokio::test]
async fn a_count_says_where_it_cannot_be_exact() {
    let world = World::new();
    world
        .saw(&[("u1", 5), ("u2", 100), ("u3", 1_000), ("u4", 31 * 86_400)])
        .await;
    let ago = |seconds: u64| unix_now() - seconds * 1_000;
    assert_eq!(world.count("").await, (4, true));
    assert_eq!(world.count("?window_s=300").await, (2, true));
    assert_eq!(
        world.count("?window_s=2678500").await,
        (4, false),
        "longer than users are remembered"
    );
    assert_eq!(world.count(&format!("?from={}", ago(300))).await, (2, true));
    assert_eq!(
        world
            .count(&format!("?from={}&to={}", ago(2_000), ago(50)))
            .await,
        (2, false)
    );
    assert_eq!(
        world
            .count(&format!("?from={}&to={}", ago(2_000), unix_now() + 9_000))
            .await,
        (3, true)
    );
    assert_eq!(
        world.count("?from=0").await,
        (4, false),
        "longer than users are remembered"
    );
    assert_eq!(
        world
            .count(&format!("?window_s=2000&from={}", ago(300)))
            .await,
        (2, true),
        "the later one counts"
    );
    assert_eq!(
        world
            .count(&format!("?window_s=50&from={}", ago(300)))
            .await,
        (1, true)
    );
    assert_eq!(
        world.count(&format!("?window_s=2000&to={}", ago(50))).await,
        (2, false)
    );
    for empty in [
        "?from=2&to=1".to_owned(),
        format!("?window_s=50&to={}", ago(60)),
    ] {
        assert_eq!(world.count(&empty).await, (0, true), "{empty}");
    }
    assert_eq!(world.count("?to=9007199254740991").await, (4, true));
    for wrong in [
        "?window_s=-1",
        "?window_s=x",
        "?window_s=9007199254740992",
        "?from=18446744073709551615",
        "?to=1.5",
    ] {
        world
            .get(&format!("/v1/online/count{wrong}"))
            .await
            .is_problem(400, "invalid_query");
    }
}

#[tokio::test]
async fn users_are_listed_by_time_and_forgotten_by_age() {
    let world = World::new();
    world
        .saw(&[("u1", 5), ("u2", 100), ("u3", 1_000), ("u4", 2_000)])
        .await;
    let all = "/v1/online?from=0";
    let page = world.get(&format!("{all}&limit=3")).await.is(200);
    let named = |page: &Value| -> Vec<String> {
        page["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|user| user["user_id"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(named(&page), ["u4", "u3", "u2"]);
    let rest = world
        .get(&format!(
            "{all}&cursor={}",
            page["cursor"].as_str().unwrap()
        ))
        .await
        .is(200);
    assert_eq!(
        (named(&rest), &rest["cursor"]),
        (vec!["u1".to_owned()], &Value::Null)
    );
    assert_eq!(
        world.get("/v1/online").await.is(200)["items"],
        json!([]),
        "nobody is online now"
    );
    assert_eq!(
        named(&world.get("/v1/online?window_s=300").await.is(200)),
        ["u2", "u1"]
    );
    let from = unix_now() - 1_500_000;
    let page = world
        .get(&format!(
            "/v1/online?from={from}&to={}",
            unix_now() - 50_000
        ))
        .await
        .is(200);
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    assert!(page["items"][0]["last_seen"].as_u64().unwrap() >= from && page["cursor"].is_null());
    world
        .get("/v1/online?cursor=x")
        .await
        .is_problem(400, "invalid_cursor");
    assert_eq!(
        world.get("/v1/online?from=2&to=1").await.is(200),
        json!({"items": [], "cursor": null})
    );
    for wrong in [
        "?from=9007199254740992",
        "?to=18446744073709551615",
        "?to=x",
    ] {
        world
            .get(&format!("/v1/online{wrong}"))
            .await
            .is_problem(400, "invalid_query");
    }
    for wrong in ["9007199254740992", "-1", "x", ""] {
        world
            .delete(&format!("/v1/online?older_than_s={wrong}"))
            .await
            .is_problem(400, "invalid_query");
    }
    assert_eq!(
        world.delete("/v1/online?older_than_s=500").await.is(200),
        json!({"count": 2, "more": false})
    );
    assert_eq!(
        world.delete("/v1/online?older_than_s=500").await.is(200)["count"],
        0
    );
    assert_eq!(world.count("").await.0, 2);
    world
        .delete("/v1/online")
        .await
        .is_problem(400, "invalid_query");
}

#[tokio::test]
async fn a_question_is_answered_in_its_order() {
    let world = World::new();
    world.saw(&[("u1", 5)]).await;
    world.saw(&[("u3", 7)]).await;
    let answer = world
        .post("/v1/online/query", r#"{"user_ids":["u2","u3","u1","u3"]}"#)
        .await
        .is(200);
    let items = answer["items"].as_array().unwrap();
    assert_eq!((items.len(), &answer["unknown"]), (3, &json!(["u2"])));
    assert_eq!(
        items[0],
        json!({"user_id": "u2", "online": false, "last_seen": null, "live_id": null})
    );
    assert_eq!(
        (&items[1]["user_id"], &items[2]["user_id"]),
        (&json!("u3"), &json!("u1"))
    );
    assert_eq!(items[2]["online"], json!(false));
    assert!(items[2]["last_seen"].as_u64().unwrap() <= unix_now() - 5_000);
}

#[tokio::test]
async fn with_ids_of_four_bytes_another_id_is_refused() {
    let world = World::with(&Config {
        last_seen_ids: SeenIds::U32,
        ..Config::default()
    });
    assert_eq!(world.post("/v1/beat?user_id=7", "").await.status, 204);
    world
        .post("/v1/beat?user_id=u7", "")
        .await
        .is_problem(400, "invalid_id");
    world
        .post("/v1/online/seen", r#"{"user_ids":["7","007"]}"#)
        .await
        .is_problem(400, "invalid_id");
}

#[tokio::test]
async fn a_gateway_that_does_not_track_users_says_so() {
    let world = World::with(&Config {
        track_online: false,
        ..Config::default()
    });
    for path in ["/v1/online/count", "/v1/online"] {
        world.get(path).await.is_problem(409, "not_available");
    }
    world
        .post("/v1/online/query", r#"{"user_ids":["u1"]}"#)
        .await
        .is_problem(409, "not_available");
    world
        .post("/v1/online/seen", r#"{"user_ids":["u1"]}"#)
        .await
        .is_problem(409, "not_available");
}
