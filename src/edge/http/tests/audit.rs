//! Events name who asked for a change: of moderation, and in the audit trail.

use serde_json::{Value, json};

use super::authorization::{guarded, request, token};
use super::world::{World, answer};
use crate::store::{EntryId, Events};

/// The events in the stream, the oldest first.
async fn events(world: &World) -> Vec<Value> {
    let trail = world.app.audit.as_ref().expect("an audit trail");
    trail.write().await;
    let found = world
        .store
        .events_after(EntryId::default(), u64::MAX)
        .await
        .unwrap();
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
