//! Hosts, origins and headers, asked through the router.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::Request;
use axum::http::request::Builder;
use axum::routing::get;

use super::*;
use crate::edge::http::routes::with_middleware;
use crate::edge::http::tests::world::{Answer, World, answer};

fn with_origins(origins: &[&str]) -> World {
    World::with(&Config {
        origins: origins.iter().map(|&origin| origin.to_owned()).collect(),
        ..Config::default()
    })
}

async fn sends(world: &World, request: Builder) -> Answer {
    world.sends(request.body(Body::empty()).unwrap()).await
}

fn preflight_of(path: &str, origin: &str) -> Builder {
    Request::options(path)
        .header("origin", origin)
        .header("access-control-request-method", "PUT")
}

#[tokio::test]
async fn a_request_names_one_host_and_with_auth_off_this_machine() {
    let world = World::new();
    for good in ["localhost", "127.0.0.1:8080", "[::1]:8080"] {
        assert_eq!(
            sends(&world, Request::get("/healthz").header("host", good))
                .await
                .status,
            200,
            "{good}"
        );
    }
    for bad in [
        "evil.example",
        "10.0.0.1",
        "",
        "a b",
        "user@localhost",
        "localhost:x",
    ] {
        sends(&world, Request::get("/healthz").header("host", bad))
            .await
            .is_problem(400, "bad_host");
    }
    let twice = Request::get("/v1/lives")
        .header("host", "localhost")
        .header("host", "localhost");
    sends(&world, twice).await.is_problem(400, "bad_host");
    let served = Browsers::new(&Config {
        auth: AuthMode::Jwt,
        ..Config::default()
    });
    let named =
        |host: &'static str| HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
    assert!(served.check_host(&named("rollcall.example.org")).is_ok());
    assert!(served.check_host(&named("rollcall.example.org/")).is_err());
    assert!(served.check_host(&HeaderMap::new()).is_err());
}

#[test]
fn origins_are_judged_by_the_list_and_the_host() {
    let browsers = Browsers {
        origins: vec![
            "https://app.example".to_owned(),
            "http://localhost:3000".to_owned(),
        ],
        hosts: Hosts::All,
    };
    let judge = |origin: &'static str, scheme| {
        let mut headers =
            HeaderMap::from_iter([(header::HOST, HeaderValue::from_static("gw.example"))]);
        headers.append(header::ORIGIN, HeaderValue::from_static(origin));
        match browsers.origin(&headers, scheme) {
            RequestOrigin::Allowed(echoed) => format!("allowed {}", echoed.to_str().unwrap()),
            other => format!("{other:?}"),
        }
    };
    assert_eq!(
        judge("https://app.example", Scheme::Http),
        "allowed https://app.example"
    );
    assert_eq!(
        judge("http://localhost:3000", Scheme::Https),
        "allowed http://localhost:3000"
    );
    assert_eq!(judge("https://gw.example", Scheme::Https), "Same");
    assert_eq!(judge("http://gw.example", Scheme::Http), "Same");
    for forbidden in [
        "http://gw.example",
        "https://gw.example:8443",
        "https://app.example.evil",
        "null",
        "",
        "x",
    ] {
        assert_eq!(judge(forbidden, Scheme::Https), "Forbidden", "{forbidden}");
    }
    let mut twice = HeaderMap::new();
    twice.append(
        header::ORIGIN,
        HeaderValue::from_static("https://app.example"),
    );
    twice.append(
        header::ORIGIN,
        HeaderValue::from_static("https://app.example"),
    );
    assert_eq!(
        browsers.origin(&twice, Scheme::Http),
        RequestOrigin::Forbidden
    );
    assert_eq!(
        browsers.origin(&HeaderMap::new(), Scheme::Http),
        RequestOrigin::None
    );
}

#[tokio::test]
async fn a_page_of_an_allowed_origin_reads_answers() {
    let world = with_origins(&["https://app.example"]);
    for path in [
        "/v1/lives",
        "/v1/lives/never-opened",
        "/ws/admission?user_id=u1",
        "/ws/admission",
    ] {
        let answer = sends(
            &world,
            Request::get(path).header("origin", "https://app.example"),
        )
        .await;
        assert_eq!(
            answer.header("access-control-allow-origin"),
            "https://app.example",
            "{path}"
        );
        let readable = answer.header("access-control-expose-headers");
        for header in ["retry-after", "idempotent-replayed"] {
            assert!(readable.contains(header), "{readable}");
        }
        assert_eq!(answer.header("vary"), "origin");
        assert!(
            !answer
                .headers
                .contains_key("access-control-allow-credentials")
        );
        let answer = sends(
            &world,
            Request::get(path).header("origin", "https://evil.example"),
        )
        .await;
        assert!(
            !answer.headers.contains_key("access-control-allow-origin"),
            "{path}"
        );
        assert_eq!(answer.header("vary"), "origin");
    }
    let answer = sends(
        &world,
        Request::get("/metrics").header("origin", "https://app.example"),
    )
    .await;
    assert!(!answer.headers.contains_key("access-control-allow-origin"));
}

#[tokio::test(start_paused = true)]
async fn a_page_of_an_allowed_origin_reads_what_went_wrong_too() {
    async fn broken() -> &'static str {
        panic!("on purpose")
    }
    let world = with_origins(&["https://app.example"]);
    let broken = with_middleware(
        Router::new().route("/v1/broken", get(broken)),
        world.app.clone(),
    );
    let from_page = |request: Builder| request.header("origin", "https://app.example");
    let never = Body::from_stream(futures_util::stream::pending::<Result<Bytes, std::io::Error>>());
    let slow = from_page(Request::put("/v1/lives/42")).header("content-type", "application/json");
    let answers = [
        (
            answer(
                &broken,
                from_page(Request::get("/v1/broken"))
                    .body(Body::empty())
                    .unwrap(),
            )
            .await,
            500,
            "internal",
        ),
        (
            world.sends(slow.body(never).unwrap()).await,
            408,
            "request_timeout",
        ),
        (
            sends(
                &world,
                from_page(Request::get("/v1/lives")).header("host", "evil.example"),
            )
            .await,
            400,
            "bad_host",
        ),
    ];
    for (answer, status, code) in answers {
        answer.is_problem(status, code);
        assert_eq!(
            answer.header("access-control-allow-origin"),
            "https://app.example",
            "{code}"
        );
        assert_eq!(
            (answer.header("vary"), answer.header("x-frame-options")),
            ("origin", "DENY")
        );
    }
}

#[tokio::test]
async fn preflights_are_answered_for_allowed_origins_only() {
    let world = with_origins(&["https://app.example"]);
    let answer = sends(&world, preflight_of("/v1/lives/42", "https://app.example")).await;
    assert_eq!(answer.status, 204);
    assert_eq!(
        answer.header("access-control-allow-origin"),
        "https://app.example"
    );
    assert_eq!(
        answer.header("access-control-allow-methods"),
        "GET, POST, PUT, PATCH, DELETE"
    );
    let allowed = answer.header("access-control-allow-headers");
    let allowed: Vec<&str> = allowed.split(", ").collect();
    for header in [
        "authorization",
        "content-type",
        "idempotency-key",
        // What libraries for streams of events send when they come back, and libraries that trace.
        "last-event-id",
        "x-request-id",
        "traceparent",
        "tracestate",
        "sentry-trace",
        "baggage",
    ] {
        assert!(allowed.contains(&header), "{header}: {allowed:?}");
    }
    assert_eq!(answer.header("access-control-max-age"), "7200");
    sends(&world, preflight_of("/v1/lives/42", "https://evil.example"))
        .await
        .is_problem(403, "forbidden_origin");
    sends(&world, preflight_of("/metrics", "https://app.example"))
        .await
        .is_problem(405, "method_not_allowed");
    sends(&world, Request::options("/v1/lives"))
        .await
        .is_problem(405, "method_not_allowed");
    let all = with_origins(&["*"]);
    let answer = sends(&all, preflight_of("/ws/admission", "https://any.example")).await;
    assert_eq!(
        (
            answer.status.as_u16(),
            answer.header("access-control-allow-origin")
        ),
        (204, "https://any.example")
    );
}

#[tokio::test]
async fn pages_of_allowed_origins_may_import_the_client() {
    let world = with_origins(&["https://app.example"]);
    for (origin, allowed) in [
        ("https://app.example", true),
        ("https://evil.example", false),
    ] {
        let answer = sends(
            &world,
            Request::get("/rollcall.js").header("origin", origin),
        )
        .await;
        let vary: Vec<_> = answer
            .headers
            .get_all("vary")
            .iter()
            .filter_map(|value| value.to_str().ok())
            .collect();
        assert_eq!(
            (answer.status.as_u16(), vary.as_slice()),
            (200, ["accept-encoding", "origin"].as_slice())
        );
        assert_eq!(
            answer.headers.contains_key("access-control-allow-origin"),
            allowed,
            "{origin}"
        );
    }
    // The pages themselves are for this gateway only.
    let page = sends(
        &world,
        Request::get("/pages/api.js").header("origin", "https://app.example"),
    )
    .await;
    assert!(!page.headers.contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn every_answer_tells_browsers_to_be_careful() {
    let world = World::new();
    for path in [
        "/",
        "/healthz",
        "/v1/lives",
        "/nothing",
        "/ws",
        "/ws/admission",
    ] {
        let answer = world.get(path).await;
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("referrer-policy"), "no-referrer");
        assert_eq!(answer.header("x-frame-options"), "DENY");
        assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin");
        assert!(answer.header("permissions-policy").contains("camera=()"));
        assert!(
            answer
                .header("content-security-policy")
                .starts_with("default-src 'none'")
        );
        assert!(
            answer
                .header("content-security-policy")
                .contains("frame-ancestors 'none'")
        );
        assert!(
            !answer.headers.contains_key("strict-transport-security"),
            "there is no TLS"
        );
    }
    let refused = sends(&world, Request::get("/").header("host", "evil.example")).await;
    assert_eq!(refused.header("x-frame-options"), "DENY");
    let secure = Request::get("/").extension(Scheme::Https);
    assert!(
        sends(&world, secure)
            .await
            .header("strict-transport-security")
            .starts_with("max-age=")
    );
}
