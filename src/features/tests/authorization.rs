//! Who may call which route: every cell of the table of permissions, and that a refused call reads
//! nothing.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Router;
use axum::body::Body;
use axum::http::Request;
use data_encoding::HEXLOWER;
use futures_util::StreamExt;
use jsonwebtoken::{EncodingKey, Header, encode};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::auth::api_keys::ApiKeys;
use crate::auth::tokens::Tokens;
use crate::config::{AuthMode, Config};
use crate::edge::http::routes::{admin, public};
use crate::edge::http::tests::world::{Answer, World, answer};
use crate::gateway::wiring::FromOutside;
use crate::testing::FaultyStore;

const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// What a streamer's token is good for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Streamer {
    OwnLives,
    Nothing,
}
use Streamer::{Nothing, OwnLives};

/// Each route that asks for credentials; what a streamer may do with it; the scope that a key
/// needs.
const GUARDED: &[(&str, Streamer, &str)] = &[
    ("GET /v1/lives", Nothing, "read"),
    ("POST /v1/lives:query", Nothing, "read"),
    ("PUT /v1/lives/{live_id}/info", OwnLives, "write"),
    ("GET /v1/lives/{live_id}/info", OwnLives, "read"),
    ("PUT /v1/lives/{live_id}", OwnLives, "write"),
    ("PATCH /v1/lives/{live_id}", OwnLives, "write"),
    ("DELETE /v1/lives/{live_id}", OwnLives, "write"),
    ("GET /v1/lives/{live_id}", OwnLives, "read"),
    ("GET /v1/lives/{live_id}/fans", OwnLives, "read"),
    ("GET /v1/lives/{live_id}/viewers", OwnLives, "read"),
    ("GET /v1/lives/{live_id}/sessions", OwnLives, "read"),
    ("GET /v1/lives/{live_id}/history", OwnLives, "read"),
    ("GET /v1/lives/{live_id}/streams", OwnLives, "read"),
    (
        "DELETE /v1/lives/{live_id}/streams/{stream_id}",
        OwnLives,
        "write",
    ),
    (PAST_LIVES, OwnLives, "read"),
    (OPEN_LIVES, OwnLives, "read"),
    ("GET /v1/attendance", Nothing, "read"),
    ("GET /v1/lives/{live_id}/fans/{user_id}", OwnLives, "read"),
    (
        "DELETE /v1/lives/{live_id}/viewers/{user_id}",
        OwnLives,
        "moderate",
    ),
    ("GET /v1/lives/{live_id}/bans", OwnLives, "moderate"),
    (
        "PUT /v1/lives/{live_id}/bans/{user_id}",
        OwnLives,
        "moderate",
    ),
    (
        "DELETE /v1/lives/{live_id}/bans/{user_id}",
        OwnLives,
        "moderate",
    ),
    ("GET /v1/streamers/{streamer_id}/bans", OwnLives, "moderate"),
    (
        "PUT /v1/streamers/{streamer_id}/bans/{user_id}",
        OwnLives,
        "moderate",
    ),
    (
        "DELETE /v1/streamers/{streamer_id}/bans/{user_id}",
        OwnLives,
        "moderate",
    ),
    (
        "GET /v1/streamers/{streamer_id}/moderators",
        OwnLives,
        "moderate",
    ),
    (
        "PUT /v1/streamers/{streamer_id}/moderators/{user_id}",
        OwnLives,
        "moderate",
    ),
    (
        "DELETE /v1/streamers/{streamer_id}/moderators/{user_id}",
        OwnLives,
        "moderate",
    ),
    ("GET /v1/bans", Nothing, "moderate"),
    ("PUT /v1/bans/{user_id}", Nothing, "moderate"),
    ("DELETE /v1/bans/{user_id}", Nothing, "moderate"),
    (
        "PUT /v1/users/{user_id}/tokens/revoked",
        Nothing,
        "moderate",
    ),
    (
        "GET /v1/users/{user_id}/tokens/revoked",
        Nothing,
        "moderate",
    ),
    (
        "PUT /v1/users/{user_id}/following/{streamer_id}",
        Nothing,
        "write",
    ),
    (
        "DELETE /v1/users/{user_id}/following/{streamer_id}",
        Nothing,
        "write",
    ),
    (
        "GET /v1/users/{user_id}/following/{streamer_id}",
        Nothing,
        "read",
    ),
    ("GET /v1/lives/{live_id}/events", OwnLives, "read"),
    ("POST /v1/lives/{live_id}/confirmed", Nothing, "write"),
    ("GET /v1/lives/{live_id}/shape", Nothing, "read"),
    ("GET /v1/users/{user_id}/following", Nothing, "read"),
    ("GET /v1/users/{user_id}/followers", Nothing, "read"),
    ("POST /v1/users", Nothing, "write"),
    ("PUT /v1/users/{user_id}", Nothing, "write"),
    ("GET /v1/users/{user_id}", Nothing, "read"),
    ("DELETE /v1/users/{user_id}", Nothing, "write"),
    ("GET /v1/erasures/{erasure_id}", Nothing, "write"),
    ("GET /v1/users/{user_id}/friends/online", Nothing, "read"),
    ("GET /v1/users/{user_id}/feed", Nothing, "read"),
    ("GET /v1/users/{user_id}/home", Nothing, "read"),
    ("GET /v1/users/{user_id}/profile", Nothing, "read"),
    (
        "GET /v1/users/{user_id}/statuses/{status_id}",
        Nothing,
        "read",
    ),
    ("POST /v1/users/{user_id}/statuses", Nothing, "write"),
    (
        "DELETE /v1/users/{user_id}/statuses/{status_id}",
        Nothing,
        "write",
    ),
    (
        "PUT /v1/users/{user_id}/lists/{list}/{member}",
        Nothing,
        "write",
    ),
    (
        "DELETE /v1/users/{user_id}/lists/{list}/{member}",
        Nothing,
        "write",
    ),
    ("GET /v1/users/{user_id}/lists/{list}", Nothing, "read"),
    ("GET /v1/users/{user_id}/timelines/{list}", Nothing, "read"),
    ("GET /v1/online/count", Nothing, "read"),
    ("GET /v1/online", Nothing, "read"),
    ("DELETE /v1/online", Nothing, "write"),
    ("POST /v1/online/query", Nothing, "read"),
    ("POST /v1/online/seen", Nothing, "write"),
    ("GET /v1/webhooks", Nothing, "read"),
    ("GET /v1/webhooks/{webhook}/deliveries", Nothing, "read"),
    ("POST /v1/webhooks/{webhook}/test", Nothing, "write"),
    ("POST /v1/webhooks/{webhook}/replay", Nothing, "write"),
    ("GET /v1/gateway/slices", Nothing, "read"),
    (
        "GET /v1/gateway/lives/{live_id}/viewers/{user_id}",
        Nothing,
        "read",
    ),
    ("GET /v1/gateway/log", Nothing, "read"),
    ("PUT /v1/gateway/log", Nothing, "moderate"),
    (RELOAD, Nothing, "moderate"),
    ("GET /metrics", Nothing, "read"),
];

/// A streamer may call these about nobody else; a token for some lives is not good for it.
const PAST_LIVES: &str = "GET /v1/streamers/{streamer_id}/lives";
const OPEN_LIVES: &str = "GET /v1/streamers/{streamer_id}/lives/open";

/// The files of the gateways of these tests are gone once these run.
const RELOAD: &str = "POST /v1/gateway/reload";

/// Everybody who was seen at any time.
const SEEN: &str = "GET /v1/online?from=0";

/// A route that every token may call, and no key.
const BEAT: &str = "POST /v1/beat";

/// The routes that ask for none.
/// Anybody may call these; `/ws/admission` checks credentials itself, as `/ws` does, and so
/// do the routes of sessions without a socket.
/// What moderators may do, too, whatever the role of their token.
const FOR_MODERATORS: &[&str] = &[
    "GET /v1/lives/{live_id}",
    "GET /v1/lives/{live_id}/info",
    "GET /v1/lives/{live_id}/fans",
    "GET /v1/lives/{live_id}/fans/{user_id}",
    "GET /v1/lives/{live_id}/viewers",
    "GET /v1/lives/{live_id}/sessions",
    "GET /v1/lives/{live_id}/history",
    "GET /v1/lives/{live_id}/streams",
    "GET /v1/lives/{live_id}/bans",
    "DELETE /v1/lives/{live_id}/viewers/{user_id}",
    "GET /v1/streamers/{streamer_id}/bans",
    "PUT /v1/streamers/{streamer_id}/bans/{user_id}",
    "DELETE /v1/streamers/{streamer_id}/bans/{user_id}",
];

/// What only hosts of the live may do, too, whatever the role of their token.
const FOR_HOSTS: &[&str] = &[
    "GET /v1/lives/{live_id}/events",
    "PUT /v1/lives/{live_id}/bans/{user_id}",
    "DELETE /v1/lives/{live_id}/bans/{user_id}",
];

const OPEN: &[&str] = &[
    "GET /healthz",
    "GET /readyz",
    "GET /ws/admission",
    "POST /v1/guests",
    "POST /v1/presence",
    "POST /v1/presence/{session_id}",
    "DELETE /v1/presence/{session_id}",
    "GET /v1/presence/{session_id}/events",
    "POST /v1/media/{server}",
];

const SCOPES: [&str; 3] = ["read", "write", "moderate"];

fn file(text: &str) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file
}

/// A gateway with `--auth jwt` and a key for each scope, whose text is the scope; it holds live 42
/// of streamer `s1`.
pub(super) async fn guarded(http_rate: u32) -> World {
    guarded_at(http_rate, 0).await
}

/// The same, with a limit of what a user may ask of the store.
pub(super) async fn guarded_at(http_rate: u32, user_rate: u32) -> World {
    let line = |scope: &&str| {
        format!(
            "{scope} {scope} {}\n",
            HEXLOWER.encode(&Sha256::digest(scope))
        )
    };
    let keys = file(&SCOPES.iter().map(line).collect::<String>());
    let secret = file(std::str::from_utf8(SECRET).unwrap());
    let config = Config {
        auth: AuthMode::Jwt,
        jwt_hs256_secret_file: Some(secret.path().to_owned()),
        api_keys: Some(keys.path().to_owned()),
        http_rate,
        user_rate,
        audit_events: true,
        ..Config::default()
    };
    let verifiers = FromOutside {
        tokens: Some(Arc::new(Tokens::open(&config, Arc::default()).unwrap().0)),
        api_keys: Arc::new(ApiKeys::open(&config).unwrap()),
        ..FromOutside::default()
    };
    let world = World::verified_by(&config, verifiers, Arc::new(FaultyStore::new()));
    call(&world.router, "PUT /v1/lives/{live_id}", Some("write"))
        .await
        .is(201);
    world
}

/// A token with these claims, good for the next minute.
pub(super) fn token(mut claims: Value) -> String {
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    claims["exp"] = claims["exp"].as_u64().unwrap_or(now + 60).into();
    encode(
        &Header::default(),
        &claims,
        &EncodingKey::from_secret(SECRET),
    )
    .unwrap()
}

fn of(user: &str, role: &str) -> String {
    token(json!({"sub": user, "role": role}))
}

/// The request for a route, about live 42 of streamer `s1`.
pub(super) fn request(route: &str, credentials: Option<&str>) -> Request<Body> {
    let (method, path) = route.split_once(' ').unwrap();
    let path = match route {
        "DELETE /v1/online" => "/v1/online?older_than_s=60",
        "GET /v1/attendance" => "/v1/attendance?live_ids=42",
        _ => path,
    };
    let path = path
        .replace("{live_id}", "42")
        .replace("{user_id}", "u1")
        .replace("{streamer_id}", "s1");
    let path = path
        .replace("{list}", "cooks")
        .replace("{member}", "s1")
        .replace("{status_id}", "u1~none")
        .replace("{erasure_id}", "er-none")
        .replace("{stream_id}", "none")
        .replace("{webhook}", "crm");
    let mut request = Request::builder().method(method).uri(path);
    if let Some(credentials) = credentials {
        request = request.header("authorization", format!("Bearer {credentials}"));
    }
    match body_of(route) {
        Some(body) => {
            let body = Body::from(body.to_string());
            request
                .header("content-type", "application/json")
                .body(body)
                .unwrap()
        }
        None => request.body(Body::empty()).unwrap(),
    }
}

/// A right body for a call; a call takes no fields of others.
fn body_of(route: &str) -> Option<Value> {
    Some(match route {
        "PUT /v1/lives/{live_id}" => json!({"streamer_id": "s1", "attendance": true}),
        "PATCH /v1/lives/{live_id}" => json!({"title": "New"}),
        "PUT /v1/lives/{live_id}/info" => json!({"pinned": "hi"}),
        "PUT /v1/lives/{live_id}/bans/{user_id}" => json!({"ban_s": 60}),
        "POST /v1/lives:query" => json!({"live_ids": ["42"]}),
        "POST /v1/online/query" | "POST /v1/online/seen" | "POST /v1/lives/{live_id}/confirmed" => {
            json!({"user_ids": ["u1"]})
        }
        "POST /v1/users" | "PUT /v1/users/{user_id}" => {
            json!({"login": path_login(route), "name": "Ann"})
        }
        "POST /v1/users/{user_id}/statuses" => json!({"text": "hi"}),
        "POST /v1/webhooks/{webhook}/replay" => json!({"from": 0}),
        "PUT /v1/gateway/log" => json!({"filter": "off"}),
        _ => return None,
    })
}

/// A login for the request of a route: another one for each, because they may be sent to one
/// gateway.
fn path_login(route: &str) -> String {
    route.chars().filter(char::is_ascii_alphanumeric).collect()
}

async fn call(router: &Router, route: &str, credentials: Option<&str>) -> Answer {
    answer(router, request(route, credentials)).await
}

/// A call by this caller to a gateway of its own succeeds.
async fn may(route: &str, credentials: &str) {
    let world = guarded(0).await;
    // Who announces something must have a profile.
    call(&world.router, "PUT /v1/users/{user_id}", Some("write"))
        .await
        .is(201);
    let answer = call(&world.router, route, Some(credentials)).await;
    assert!(
        is_let_through(route, &answer),
        "{route} with {credentials}: {answer:?}"
    );
}

/// Whether the caller may do it: there is no announcement to read or delete, no erasure to ask about,
/// no stream to end, no webhook, and there are no files to read.
fn is_let_through(route: &str, answer: &Answer) -> bool {
    let absent = ["/statuses/{status_id}", "/{erasure_id}", "/{stream_id}"];
    let of_none = absent.iter().any(|end| route.ends_with(end));
    answer.status.is_success()
        || of_none && answer.status == 404
        || route.contains("{webhook}") && answer.text.contains("webhook_not_found")
        || route == RELOAD && answer.status == 409
}

/// A call is refused, before anything is read.
async fn may_not(world: &World, route: &str, credentials: Option<&str>, status: u16) {
    let before = world.store.calls.load(Ordering::SeqCst);
    let answer = call(&world.router, route, credentials).await;
    answer.is_problem(
        status,
        if status == 401 {
            "unauthorized"
        } else {
            "forbidden"
        },
    );
    assert_eq!(
        world.store.calls.load(Ordering::SeqCst),
        before,
        "{route} with {credentials:?} read the store"
    );
}

#[tokio::test]
async fn every_key_does_what_its_scope_says_and_no_more() {
    let world = guarded(0).await;
    for (route, _, scope) in GUARDED {
        for key in SCOPES {
            if key == *scope {
                may(route, key).await
            } else {
                may_not(&world, route, Some(key), 403).await;
                let refusal = call(&world.router, route, Some(key)).await;
                let detail = refusal.json()["detail"].to_string();
                assert!(detail.contains(&format!("the scope {scope}")), "{detail}");
            }
        }
    }
}

#[tokio::test]
async fn every_token_does_what_its_role_says_and_no_more() {
    let world = guarded(0).await;
    for (route, streamer, _) in GUARDED {
        may_not(&world, route, Some(&of("s1", "viewer")), 403).await;
        may(route, &of("back-end", "service")).await;
        match streamer {
            OwnLives => may(route, &of("s1", "streamer")).await,
            Nothing => may_not(&world, route, Some(&of("s1", "streamer")), 403).await,
        }
    }
}

#[tokio::test]
async fn a_host_does_what_hosts_may_in_the_hosted_live_only() {
    for (route, streamer, _) in GUARDED {
        let world = guarded(0).await;
        let hosts = Request::patch("/v1/lives/42")
            .header("content-type", "application/json")
            .header("authorization", "Bearer write")
            .body(Body::from(r#"{"hosts":["h1"]}"#));
        answer(&world.router, hosts.unwrap()).await.is(200);
        let is_open_to = |routes: &[&str]| routes.contains(route);
        let for_hosts = route.contains("{live_id}") && is_open_to(FOR_MODERATORS);
        for role in ["viewer", "streamer"] {
            let answer = call(&world.router, route, Some(&of("h1", role))).await;
            if for_hosts || is_open_to(FOR_HOSTS) {
                assert!(is_let_through(route, &answer), "{route}: {answer:?}");
            } else {
                answer.is_problem(403, "forbidden");
            }
            assert!(*streamer == OwnLives || answer.status == 403, "{route}");
        }
    }
}

#[tokio::test]
async fn a_token_of_an_invisible_streamer_opens_a_live_that_is_in_no_feed() {
    let world = guarded(0).await;
    for (streamer, invisible, shown) in [("s2", true, 0), ("s3", false, 1)] {
        let bearer = token(json!({"sub": streamer, "role": "streamer", "invisible": invisible}));
        let open = Request::put(format!("/v1/lives/of-{streamer}"))
            .header("content-type", "application/json");
        let open = open.header("authorization", format!("Bearer {bearer}"));
        let body = Body::from(json!({"streamer_id": streamer}).to_string());
        answer(&world.router, open.body(body).unwrap())
            .await
            .is(201);
        let own = request(&format!("GET /v1/users/{streamer}/profile"), Some("read"));
        let own = answer(&world.router, own).await.is(200);
        assert_eq!(own["items"].as_array().unwrap().len(), shown, "{own}");
    }
}

/// Opens a live with a streamer's token.
async fn opens(world: &World, live: &str, more: Value) -> Answer {
    let mut body = json!({"streamer_id": "s2"});
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let request =
        Request::put(format!("/v1/lives/{live}")).header("content-type", "application/json");
    let request = request.header("authorization", format!("Bearer {}", of("s2", "streamer")));
    answer(
        &world.router,
        request.body(Body::from(body.to_string())).unwrap(),
    )
    .await
}

#[tokio::test]
async fn a_streamers_token_switches_no_attendance_on() {
    let world = guarded(0).await;
    opens(&world, "50", json!({"attendance": true}))
        .await
        .is_problem(403, "forbidden");
    opens(&world, "50", json!({"attendance": false}))
        .await
        .is(201);
    opens(&world, "50", json!({"attendance": true}))
        .await
        .is_problem(403, "forbidden");
    assert_eq!(
        opens(&world, "50", json!({"attendance": null}))
            .await
            .is(200)["attendance"],
        false
    );
}

#[tokio::test]
async fn a_streamers_token_opens_so_many_lives() {
    let world = guarded(0).await;
    for live in 0..20 {
        opens(&world, &format!("s2-{live}"), json!({}))
            .await
            .is(201);
    }
    let refused = opens(&world, "s2-20", json!({})).await;
    refused.is_problem(429, "rate_limited");
    assert!(refused.header("retry-after").parse::<u64>().unwrap() > 0);
    opens(&world, "s2-7", json!({})).await.is(200);
    let close = request("DELETE /v1/lives/s2-7", Some(&of("s2", "streamer")));
    answer(&world.router, close).await.is(200);
    opens(&world, "s2-20", json!({})).await.is(201);
}

#[tokio::test]
async fn another_streamers_live_is_out_of_reach() {
    let world = guarded(0).await;
    // Nobody renews the lease, so a slow test sees how the counts become partial.
    let look = async || {
        let mut live = call(&world.router, "GET /v1/lives/{live_id}", Some("read"))
            .await
            .is(200);
        live["quality"].take();
        live
    };
    let live = look().await;
    for (route, ..) in GUARDED
        .iter()
        .filter(|(_, streamer, _)| *streamer == OwnLives)
    {
        call(&world.router, route, Some(&of("s2", "streamer")))
            .await
            .is_problem(403, "forbidden");
        // The streamer's own name does not help a token that is for other lives.
        let elsewhere = token(json!({"sub": "s1", "role": "streamer", "lives": ["43", "44"]}));
        may_not(&world, route, Some(&elsewhere), 403).await;
        if route.contains("{live_id}") {
            may(
                route,
                &token(json!({"sub": "s1", "role": "streamer", "lives": ["43", "42"]})),
            )
            .await;
        }
    }
    assert_eq!(look().await, live);
    let unknown = |path| answer(&world.router, request(path, Some(&of("s1", "streamer"))));
    unknown("DELETE /v1/lives/never")
        .await
        .is_problem(404, "live_not_found");
    unknown("GET /v1/lives/%7B42%7D")
        .await
        .is_problem(400, "invalid_id");
}

#[tokio::test]
async fn a_token_for_some_lives_calls_nothing_that_is_about_all() {
    let world = guarded(0).await;
    let limited = token(json!({"sub": "back-end", "role": "service", "lives": ["42"]}));
    for (route, ..) in GUARDED {
        match route.contains("{live_id}") {
            true => may(route, &limited).await,
            false => may_not(&world, route, Some(&limited), 403).await,
        }
    }
}

#[tokio::test]
async fn every_token_says_that_its_own_user_is_there_and_no_key_does() {
    let world = guarded(0).await;
    for claims in [
        json!({"sub": "u1", "role": "viewer"}),
        json!({"sub": "u2", "role": "viewer", "lives": ["43"]}),
        json!({"sub": "u3", "role": "streamer"}),
        json!({"sub": "u4", "role": "viewer", "count": false}),
    ] {
        assert_eq!(
            call(&world.router, BEAT, Some(&token(claims))).await.status,
            204
        );
    }
    // A name in the query is not believed.
    let other = Request::post("/v1/beat?user_id=u5")
        .header("authorization", format!("Bearer {}", of("u1", "viewer")));
    assert_eq!(
        answer(&world.router, other.body(Body::empty()).unwrap())
            .await
            .status,
        204
    );
    for key in SCOPES {
        may_not(&world, BEAT, Some(key), 403).await;
    }
    may_not(&world, BEAT, None, 401).await;
    let seen = answer(&world.router, request(SEEN, Some("read")))
        .await
        .is(200);
    let mut seen: Vec<&str> = seen["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["user_id"].as_str().unwrap())
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, ["u1", "u2", "u3"]);
}

#[tokio::test]
async fn credentials_that_are_not_good_open_nothing() {
    let world = guarded(0).await;
    let good = of("back-end", "service");
    let forged = format!("{}x", &good[..good.len() - 1]);
    let bad = [
        "",
        "nobody",
        "READ",
        "a.b.c",
        "..",
        &forged,
        &token(json!({"sub": "back-end", "role": "service", "exp": 1})),
        &token(json!({"sub": "back-end", "role": "king"})),
        &token(json!({"role": "service"})),
    ];
    for (route, ..) in GUARDED {
        may_not(&world, route, None, 401).await;
    }
    for credentials in bad {
        may_not(&world, "GET /v1/lives", Some(credentials), 401).await;
    }
    for scheme in ["Basic read", "read", "Bearerread", "bearer"] {
        let request = Request::get("/v1/lives")
            .header("authorization", scheme)
            .body(Body::empty())
            .unwrap();
        let answer = answer(&world.router, request).await;
        answer.is_problem(401, "unauthorized");
        assert!(answer.header("www-authenticate").starts_with("Bearer"));
    }
}

#[tokio::test]
async fn every_route_of_the_document_is_guarded_or_known_to_be_open() {
    let world = guarded(0).await;
    let document = world.get("/openapi.json").await.is(200);
    let mut routes: Vec<String> = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let route = format!("{} {path}", method.to_uppercase());
            let guarded = GUARDED.iter().find(|(guarded, ..)| *guarded == route);
            let known = OPEN.contains(&route.as_str()) || route == BEAT;
            assert!(guarded.is_some() != known, "who may call {route}?");
            if let Some((_, streamer, scope)) = guarded {
                let roles = match streamer {
                    OwnLives
                        if [FOR_MODERATORS, FOR_HOSTS]
                            .concat()
                            .contains(&route.as_str()) =>
                    {
                        json!(["viewer", "streamer", "service"])
                    }
                    OwnLives => json!(["streamer", "service"]),
                    Nothing => json!(["service"]),
                };
                assert_eq!(
                    operation["security"],
                    json!([{"api_key": [scope]}, {"token": roles}]),
                    "{route}"
                );
                for status in ["401", "403", "429"] {
                    assert!(
                        operation["responses"][status].is_object(),
                        "{status} of {route}"
                    );
                }
            }
            routes.push(route);
        }
    }
    assert_eq!(routes.len(), GUARDED.len() + OPEN.len() + 1);
    let beat = &document["paths"]["/v1/beat"]["post"]["security"];
    assert_eq!(*beat, json!([{"token": ["viewer", "streamer", "service"]}]));
    for scheme in ["api_key", "token"] {
        assert_eq!(
            document["components"]["securitySchemes"][scheme]["scheme"],
            "bearer"
        );
    }
}

#[tokio::test]
async fn what_is_open_asks_for_nothing() {
    let world = guarded(0).await;
    for path in ["/", "/openapi.json", "/healthz", "/readyz"] {
        assert_eq!(world.get(path).await.status, 200, "{path}");
    }
    // With `--auth off` everything is.
    let world = World::with(&Config::default());
    call(&world.router, "PUT /v1/lives/{live_id}", None)
        .await
        .is(201);
    for (route, ..) in GUARDED
        .iter()
        .filter(|(route, ..)| !route.starts_with("DELETE /v1/lives/{live_id}"))
        .filter(|(route, ..)| *route != "DELETE /v1/users/{user_id}")
    {
        let answer = call(&world.router, route, None).await;
        assert!(is_let_through(route, &answer), "{route}: {answer:?}");
    }
}

#[tokio::test]
async fn beside_an_internal_port_the_public_one_takes_tokens_only() {
    let world = guarded(0).await;
    let (outside, inside) = (public(&world.app, true), admin(&world.app));
    let service = of("back-end", "service");
    for (route, ..) in GUARDED
        .iter()
        .filter(|(route, ..)| *route != "GET /metrics" && route.starts_with("GET"))
    {
        call(&outside, route, Some("read"))
            .await
            .is_problem(401, "unauthorized");
        call(&outside, route, Some("moderate"))
            .await
            .is_problem(401, "unauthorized");
        call(&inside, route, None)
            .await
            .is_problem(401, "unauthorized");
        for (port, caller) in [(&outside, &service), (&inside, &service)] {
            assert!(
                is_let_through(route, &call(port, route, Some(caller)).await),
                "{route}"
            );
        }
    }
    assert!(
        call(&inside, "GET /v1/lives", Some("read"))
            .await
            .status
            .is_success()
    );
    call(&outside, "GET /metrics", Some(&service))
        .await
        .is_problem(404, "not_found");
    assert_eq!(call(&inside, "GET /metrics", None).await.status, 200);
}

#[tokio::test]
async fn a_streamer_whose_request_takes_long_to_arrive_cannot_act_on_the_next_ones_live() {
    let world = guarded(0).await;
    let (s1, url) = (of("s1", "streamer"), "/v1/lives/42/bans/u1");
    let (late, arrives) = tokio::sync::oneshot::channel::<&str>();
    let first = futures_util::stream::iter([Ok::<_, std::io::Error>("{\"ban_s\":")]);
    let body = Body::from_stream(first.chain(futures_util::stream::once(async {
        Ok(arrives.await.unwrap())
    })));
    let head = Request::put(url).header("authorization", format!("Bearer {s1}"));
    let request = head
        .header("content-type", "application/json")
        .body(body)
        .unwrap();
    let router = world.router.clone();
    let banning = tokio::spawn(async move { answer(&router, request).await });
    tokio::time::timeout(
        std::time::Duration::from_millis(200),
        std::future::pending::<()>(),
    )
    .await
    .unwrap_err();
    call(&world.router, "DELETE /v1/lives/{live_id}", Some("write"))
        .await
        .is(200);
    let next = Request::put("/v1/lives/42").header("authorization", "Bearer write");
    let next = next
        .header("content-type", "application/json")
        .body(Body::from(r#"{"streamer_id":"s2"}"#))
        .unwrap();
    answer(&world.router, next).await.is(201);
    late.send("600}").unwrap();
    banning.await.unwrap().is_problem(409, "live_not_open");
    let bans = call(
        &world.router,
        "GET /v1/lives/{live_id}/bans",
        Some("moderate"),
    )
    .await
    .is(200);
    assert_eq!(bans["items"], json!([]));
}

#[tokio::test]
async fn a_live_that_a_streamer_opens_over_http_is_as_one_opened_over_the_socket() {
    let world = guarded(0).await;
    let open = |live: &str, body: &str| {
        let request =
            Request::put(format!("/v1/lives/{live}")).header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {}", of("s1", "streamer")));
        request.body(Body::from(body.to_owned())).unwrap()
    };
    let opened = answer(&world.router, open("43", r#"{"streamer_id":"s1"}"#))
        .await
        .is(201);
    assert_eq!(opened["opened_by"], "streamer");
    answer(
        &world.router,
        open("44", r#"{"streamer_id":"s1","slices":256}"#),
    )
    .await
    .is_problem(403, "forbidden");
}
