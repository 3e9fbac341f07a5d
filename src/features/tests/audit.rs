//! Events name who asked for a change: of moderation, and in the audit trail.

use std::pin::pin;
use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use futures_util::poll;
use serde_json::{Value, json};

use super::authorization::{guarded, guarded_at, request, token};
use crate::base::ids::{LiveId, UserId};
use crate::edge::http::tests::world::{Answer, World, answer};
use crate::store::{EntryId, Events, LiveStore, Moderation, RemoveReply, RemoveUser};

/// The events in the stream, the oldest first.
async fn events(world: &World) -> Vec<Value> {
    let trail = world.app.audit.as_ref().expect("an audit trail");
    trail.write().await;
    let mut found = Vec::new();
    let mut after = EntryId::default();
    loop {
        let page = world.store.events_after(after, u64::MAX).await.unwrap();
        let Some(last) = page.last() else { break };
        after = last.entry;
        found.extend(page);
    }
    found
        .into_iter()
        .map(|found| serde_json::from_str(&found.event.unwrap().data).unwrap())
        .collect()
}

fn of_type(events: &[Value], kind: &str) -> Vec<Value> {
    let of_it = events.iter().filter(|event| event["type"] == kind);
    of_it.cloned().collect()
}

async fn call(world: &World, route: &str, credentials: &str) -> u16 {
    let answer = answer(&world.router, request(route, Some(credentials))).await;
    answer.status.as_u16()
}

const BAN: &str = "PUT /v1/lives/{live_id}/bans/{user_id}";
const LIFT: &str = "DELETE /v1/lives/{live_id}/bans/{user_id}";

#[tokio::test]
async fn a_ban_and_its_end_name_the_key_or_the_user_who_asked_for_it() {
    let world = guarded(0).await;
    let streamer = token(json!({"sub": "s1", "role": "streamer"}));
    assert_eq!(call(&world, BAN, "moderate").await, 200);
    assert_eq!(call(&world, LIFT, &streamer).await, 200);
    let events = events(&world).await;
    let key = json!({"role": "service", "key": "moderate", "user_id": null});
    let bearer = json!({"role": "streamer", "key": null, "user_id": "s1"});
    assert_eq!(of_type(&events, "user.banned")[0]["by"], key);
    assert_eq!(of_type(&events, "user.unbanned")[0]["by"], bearer);
}

#[tokio::test]
async fn the_audit_trail_has_every_change_and_nothing_else() {
    let world = guarded(0).await;
    for (route, key, status) in [
        (BAN, "read", 403),
        ("GET /v1/lives/{live_id}/bans", "moderate", 200),
        (BAN, "moderate", 200),
        (
            "PUT /v1/users/{user_id}/following/{streamer_id}",
            "write",
            200,
        ),
        ("DELETE /v1/lives/{live_id}", "write", 200),
    ] {
        assert_eq!(call(&world, route, key).await, status, "{route}");
    }
    let trail = of_type(&events(&world).await, "audit.recorded");
    let told: Vec<Value> = trail
        .iter()
        .map(|call| json!([call["action"], call["by"]["key"], call["target"]]))
        .collect();
    let live = json!({"live_id": "42"});
    let right = [
        json!(["PUT /v1/lives/{live_id}", "write", live]),
        json!([BAN, "moderate", {"live_id": "42", "user_id": "u1"}]),
        json!(["DELETE /v1/lives/{live_id}", "write", live]),
    ];
    assert_eq!(told, right);
    assert!(trail.iter().all(|call| call["request_id"].is_string()));
    assert_eq!(trail[0]["status"], 201);
}

/// The audit trail, the oldest first, each call as its action, its target and its status.
async fn trail(world: &World) -> Vec<Value> {
    let calls = of_type(&events(world).await, "audit.recorded");
    calls
        .iter()
        .map(|call| json!([call["action"], call["target"], call["status"]]))
        .collect()
}

#[tokio::test]
async fn who_hangs_up_is_in_the_trail_all_the_same() {
    let world = guarded(0).await;
    let before = trail(&world).await.len();
    {
        let mut call = pin!(answer(&world.router, request(BAN, Some("moderate"))));
        assert!(poll!(&mut call).is_pending(), "it has no answer yet");
    }
    let told = async {
        while trail(&world).await.len() == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(5), told).await;
    in_time.expect("the call is in the trail");
    let right = json!([BAN, {"live_id": "42", "user_id": "u1"}, 200]);
    assert_eq!(trail(&world).await.last(), Some(&right));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_ends_holds_no_handler_and_the_call_is_told() {
    let world = guarded(0).await;
    let endless = futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>();
    let ban = Request::put("/v1/lives/42/bans/u1")
        .header("content-type", "application/json")
        .header("authorization", "Bearer moderate")
        .body(Body::from_stream(endless));
    let late = answer(&world.router, ban.unwrap()).await;
    late.is_problem(408, "request_timeout");
    // The handler has the same deadline, and began a moment later.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let right = json!([BAN, {"live_id": "42", "user_id": "u1"}, 408]);
    assert_eq!(trail(&world).await.last(), Some(&right));
}

#[tokio::test]
async fn a_call_that_failed_in_the_gateway_is_told_with_its_status() {
    let world = guarded(0).await;
    world.store.breaks();
    assert_eq!(call(&world, BAN, "moderate").await, 503);
    world.store.heals();
    let right = json!([BAN, {"live_id": "42", "user_id": "u1"}, 503]);
    assert_eq!(trail(&world).await.last(), Some(&right));
}

#[tokio::test]
async fn the_trail_says_whom_a_sign_up_made_and_whom_a_query_was_about() {
    let world = guarded(0).await;
    let sign_up = async || -> Answer {
        let request = Request::post("/v1/users")
            .header("content-type", "application/json")
            .header("authorization", "Bearer write")
            .header("idempotency-key", "a");
        let body = Body::from(r#"{"login":"ann","name":"Ann"}"#);
        answer(&world.router, request.body(body).unwrap()).await
    };
    let before = trail(&world).await.len();
    let made = sign_up().await.is(201);
    assert_eq!(sign_up().await.is(201), made, "the answer of before");
    let forget = Request::delete("/v1/online?older_than_s=86400");
    let forget = forget.header("authorization", "Bearer write");
    let forget = answer(&world.router, forget.body(Body::empty()).unwrap()).await;
    forget.is(200);
    let right = [
        json!(["POST /v1/users", {"user_id": made["user_id"]}, 201]),
        json!(["DELETE /v1/online", {"older_than_s": "86400"}, 200]),
    ];
    assert_eq!(trail(&world).await[before..], right);
}

#[tokio::test]
async fn a_streamer_spends_a_budget_of_their_own_on_what_events_tell() {
    let world = guarded_at(0, 10).await;
    let streamer = token(json!({"sub": "s1", "role": "streamer"}));
    let mut answers = Vec::new();
    for _ in 0..60 {
        answers.push(call(&world, BAN, &streamer).await);
    }
    // The burst is spent, and what comes back meanwhile.
    let banned = answers.iter().filter(|status| **status == 200).count();
    assert!((20..50).contains(&banned), "{answers:?}");
    assert_eq!(*answers.last().unwrap(), 429);
    for _ in 0..60 {
        assert_eq!(
            call(&world, BAN, "moderate").await,
            200,
            "a key has its own"
        );
    }
}

#[tokio::test]
async fn a_removal_that_finds_the_record_full_of_events_is_told_if_these_can_be_written() {
    for (is_written, untold) in [(true, 0), (false, 1)] {
        let world = guarded(0).await;
        let live = LiveId::parse("42").unwrap();
        let record = world.store.load_live(&live).await.unwrap().unwrap();
        let wish = RemoveUser {
            live: live.clone(),
            epoch: record.epoch,
            user: UserId::parse("u7").unwrap(),
            ban: None,
            by: None,
            is_told: true,
            message: String::new(),
        };
        while world.store.remove_user(&wish).await.unwrap() != RemoveReply::Crowded {}
        if !is_written {
            world.store.fails_once("append_events", 0);
        }
        assert_eq!(call(&world, BAN, "moderate").await, 200);
        let dropped = &world.app.core.metrics.removal_events_dropped;
        assert_eq!(dropped.get(), untold, "written: {is_written}");
        let told = of_type(&events(&world).await, "user.banned").len();
        assert_eq!(told, usize::from(is_written));
    }
}
