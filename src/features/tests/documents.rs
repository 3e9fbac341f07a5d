//! What machines and people read about the gateway: probes, metrics, the OpenAPI document, the
//! pages; and on which port.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use crate::config::Config;
use crate::edge::http::PROBLEMS;
use crate::edge::http::routes::{admin, public};
use crate::edge::http::tests::world::{World, answer};

#[tokio::test]
async fn probes_say_what_is_wrong() {
    let world = World::new();
    let ready = world.get("/readyz").await.is(200);
    assert_eq!(
        (&ready["ready"], &ready["wrong"]),
        (&json!(true), &json!([]))
    );
    world.app.sessions.drain();
    world.store.breaks();
    let ready = world.get("/readyz").await.is(503);
    assert_eq!(
        (&ready["ready"], &ready["wrong"]),
        (&json!(false), &json!(["store_unavailable", "draining"]))
    );
    let alive = world.get("/healthz").await.is(200);
    assert_eq!(alive["store"], "memory");
    assert_eq!(alive["gateway_id"], world.app.core.gateways.id().as_str());
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_gets_no_lease_is_not_ready_until_it_has_one() {
    let world = World::new();
    let half_a_lease = Config::default().lease / 2;
    tokio::time::advance(half_a_lease).await;
    world.get("/readyz").await.is(200);
    tokio::time::advance(half_a_lease).await;
    let ready = world.get("/readyz").await.is(503);
    assert_eq!(
        (&ready["ready"], &ready["wrong"]),
        (&json!(false), &json!(["no_lease"]))
    );
    world
        .app
        .core
        .gateways
        .own
        .note_renewal(world.app.core.clock.now());
    world.get("/readyz").await.is(200);
    tokio::time::advance(half_a_lease * 2).await;
    world.get("/readyz").await.is(200);
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_ready_whatever_the_store_does_once_it_had_a_lease() {
    let world = World::new();
    let lease = Config::default().lease;
    let ignoring = "/readyz?store=ignore";
    world.get(ignoring).await.is(200);
    // A gateway with wrong settings never gets a lease.
    tokio::time::advance(lease).await;
    let ready = world.get(ignoring).await.is(503);
    assert_eq!(
        (&ready["ready"], &ready["wrong"]),
        (&json!(false), &json!(["no_lease"]))
    );
    world
        .app
        .core
        .gateways
        .own
        .note_renewal(world.app.core.clock.now());
    world.store.breaks();
    let ready = world.get(ignoring).await.is(200);
    assert_eq!(
        (&ready["ready"], &ready["wrong"]),
        (&json!(true), &json!(["store_unavailable"]))
    );
    world.get("/readyz").await.is(503);
    // The outage outlasts the lease, and the gateway goes on under a new id.
    world.app.core.gateways.own.begin_anew();
    tokio::time::advance(lease).await;
    let ready = world.get(ignoring).await.is(200);
    assert_eq!(
        (&ready["ready"], &ready["wrong"]),
        (&json!(true), &json!(["store_unavailable", "no_lease"]))
    );
    world.app.sessions.drain();
    let ready = world.get(ignoring).await.is(503);
    assert_eq!(ready["ready"], false);
    for wrong in [
        "/readyz?store=",
        "/readyz?store=no",
        "/readyz?store=ignore&store=ignore",
    ] {
        world.get(wrong).await.is_problem(400, "invalid_query");
    }
}

#[tokio::test]
async fn answers_are_counted_by_route_and_never_by_path() {
    let world = World::new();
    world.get("/v1/lives/never-opened").await;
    world.get("/secret-path").await;
    world
        .sends(
            Request::builder()
                .method("BREW")
                .uri("/v1/lives")
                .body(Body::empty())
                .unwrap(),
        )
        .await;
    let scrape = |accept: &'static str| {
        world.sends(
            Request::get("/metrics")
                .header("accept", accept)
                .body(Body::empty())
                .unwrap(),
        )
    };
    let metrics = scrape("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3").await;
    assert!(
        metrics
            .header("content-type")
            .starts_with("application/openmetrics-text")
    );
    let of_live = r#"route="/v1/lives/{live_id}",method="GET""#;
    assert!(
        metrics.text.contains(&format!(r#"{of_live},status="404""#)),
        "{}",
        metrics.text
    );
    assert!(
        metrics
            .text
            .contains(&format!("rollcall_http_seconds_count{{{of_live}}} 1")),
        "{}",
        metrics.text
    );
    assert!(
        metrics
            .text
            .contains(r#"route="none",method="GET",status="404""#),
        "{}",
        metrics.text
    );
    assert!(
        metrics.text.contains(r#"method="other""#) && !metrics.text.contains("BREW"),
        "{}",
        metrics.text
    );
    for plain in ["text/plain", "*/*"] {
        let plain = scrape(plain).await;
        assert_eq!(
            plain.header("content-type"),
            "text/plain; version=0.0.4; charset=utf-8"
        );
        assert!(
            plain
                .text
                .contains("# TYPE rollcall_http_answers_total counter"),
            "{}",
            plain.text
        );
    }
    assert!(!metrics.text.contains("secret-path") && !metrics.text.contains("never-opened"));
}

/// What a page or a script loads: the paths in quotes that begin at this gateway.
fn loaded(text: &str) -> Vec<&str> {
    let quoted = text.split('"').skip(1).step_by(2);
    quoted
        .filter(|path| path.starts_with("/pages/") || path.starts_with("/rollcall"))
        .collect()
}

#[tokio::test]
async fn the_pages_load_from_this_gateway_only_and_nothing_is_inline() {
    let world = World::new();
    for path in ["/", "/demo"] {
        let page = world.get(path).await;
        assert_eq!(page.status, 200);
        assert!(page.header("content-type").starts_with("text/html"));
        let policy = page.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'") && !policy.contains("unsafe"),
            "{policy}"
        );
        for inline in ["<style", "style=", " onclick", "<script>"] {
            let tags = page
                .text
                .split('<')
                .filter_map(|rest| Some(rest.split_once('>')?.0));
            let found: Vec<_> = tags
                .filter(|tag| format!("<{tag}>").contains(inline))
                .collect();
            assert!(found.is_empty(), "{inline}: {found:?}");
        }
        let loads = loaded(&page.text);
        assert!(loads.len() >= 2, "{loads:?}");
        for part in loads {
            let part = world.get(part).await;
            assert_eq!(part.status, 200);
            assert!(
                ["text/css; charset=utf-8", "text/javascript; charset=utf-8"]
                    .contains(&part.header("content-type"))
            );
            let tag = part.header("etag");
            assert!(tag.len() > 10 && part.header("cache-control") == "no-cache");
        }
    }
    world
        .get("/pages/nothing.js")
        .await
        .is_problem(404, "not_found");
}

#[tokio::test]
async fn a_page_says_how_people_prove_who_they_are_and_where_the_api_is() {
    let apart = Config {
        admin_listen: Some(([127, 0, 0, 1], 0).into()),
        ..Config::default()
    };
    let get = || Request::get("/").body(Body::empty()).unwrap();
    let world = World::with(&apart);
    let beside = answer(&public(&world.app, true), get()).await;
    assert!(
        beside
            .text
            .contains("<html data-auth=\"off\" data-api=\"elsewhere\" lang=\"en\">"),
        "{}",
        beside.text
    );
    let alone = answer(&public(&world.app, false), get()).await;
    assert!(
        alone
            .text
            .contains("<html data-auth=\"off\" data-api=\"here\" lang=\"en\">"),
        "{}",
        alone.text
    );
    let internal = answer(&admin(&world.app), get()).await;
    let links = internal
        .text
        .split("href=\"/")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap());
    for link in links {
        let request = Request::get(format!("/{link}"))
            .body(Body::empty())
            .unwrap();
        assert_eq!(
            answer(&admin(&world.app), request).await.status,
            200,
            "{link}"
        );
    }
}

#[tokio::test]
async fn the_internal_port_serves_what_clients_do_not_need() {
    let config = Config {
        admin_listen: Some(([127, 0, 0, 1], 0).into()),
        ..Config::default()
    };
    let world = World::with(&config);
    let internal = admin(&world.app);
    let outside = public(&world.app, true);
    let get = |path: &str| Request::get(path).body(Body::empty()).unwrap();
    for path in ["/v1/lives", "/metrics"] {
        assert_eq!(answer(&internal, get(path)).await.status, 200, "{path}");
        answer(&outside, get(path))
            .await
            .is_problem(404, "not_found");
    }
    for path in ["/", "/openapi.json", "/healthz", "/readyz"] {
        assert_eq!(answer(&outside, get(path)).await.status, 200, "{path}");
        assert_eq!(answer(&internal, get(path)).await.status, 200, "{path}");
    }
    answer(&outside, get("/ws"))
        .await
        .is_problem(426, "upgrade_required");
    answer(&internal, get("/ws"))
        .await
        .is_problem(404, "not_found");
}

fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let each = paths.iter().flat_map(|(path, item)| {
        let item = item.as_object().unwrap();
        item.iter()
            .map(move |(method, operation)| (path.clone(), method.clone(), operation.clone()))
    });
    each.collect()
}

#[tokio::test]
async fn the_openapi_document_describes_every_route_and_every_refusal() {
    let world = World::new();
    let document = world.get("/openapi.json").await.is(200);
    assert!(
        document["openapi"].as_str().unwrap().starts_with("3.1"),
        "{}",
        document["openapi"]
    );
    assert!(document["info"]["license"].is_null());
    let operations = operations(&document);
    assert_eq!(
        operations.len(),
        82,
        "{:?}",
        operations
            .iter()
            .map(|(p, m, _)| (p, m))
            .collect::<Vec<_>>()
    );
    let socket = &document["x-websocket"]["/ws"]["get"];
    assert_eq!(socket["operationId"], "open_socket");
    assert!(
        socket["responses"]["101"].is_object() && socket["responses"]["426"].is_object(),
        "{socket}"
    );
    for (path, method, operation) in operations {
        let at = format!("{method} {path}");
        for field in ["operationId", "summary", "tags"] {
            assert!(!operation[field].is_null(), "{field} of {at}");
        }
        let named = |place: &str| -> Vec<String> {
            let all = operation["parameters"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let names = all
                .iter()
                .filter(|p| p["in"] == place)
                .map(|p| p["name"].as_str().unwrap().to_owned());
            names.collect()
        };
        let pattern: Vec<_> = path
            .split('/')
            .filter_map(|s| s.strip_prefix('{')?.strip_suffix('}'))
            .collect();
        assert_eq!(named("path"), pattern, "{at}");
        if path.starts_with("/v1") {
            for status in ["400", "408", "500", "503"] {
                // A leave and a new guest ask nobody, and a test of a webhook asks its receiver.
                let id = operation["operationId"].as_str().unwrap();
                if ["end_presence", "make_guest", "test_webhook"].contains(&id) && status == "503" {
                    continue;
                }
                let content =
                    &operation["responses"][status]["content"]["application/problem+json"];
                assert_eq!(
                    content["schema"]["$ref"], "#/components/schemas/Problem",
                    "{status} of {at}"
                );
                assert!(content["examples"].is_object(), "{status} of {at}");
            }
        }
    }
}

/// A path of the document, with ids that fit.
fn filled(path: &str) -> String {
    let ids = [
        ("{live_id}", "42"),
        ("{user_id}", "u1"),
        ("{streamer_id}", "s1"),
        ("{status_id}", "s1~1"),
        ("{erasure_id}", "er-1"),
        ("{stream_id}", "none"),
        ("{list}", "cooks"),
        ("{member}", "s1"),
        ("{session_id}", "nobody"),
        ("{server}", "main"),
        ("{webhook}", "crm"),
    ];
    let path = ids
        .into_iter()
        .fold(path.to_owned(), |path, (name, id)| path.replace(name, id));
    assert!(
        !path.contains('{'),
        "a parameter that the test does not know: {path}"
    );
    path
}

#[tokio::test]
async fn every_call_refuses_what_it_does_not_have_and_names_it() {
    let world = World::new();
    world.opens("42", 1).await;
    let document = world.get("/openapi.json").await.is(200);
    let ask = |method: &str, path: &str, body: &'static str| {
        let request = Request::builder()
            .method(method.to_uppercase().as_str())
            .uri(path);
        world.sends(
            request
                .header("content-type", "application/json")
                .body(Body::from(body))
                .unwrap(),
        )
    };
    let (mut bodies, mut without) = (0, 0);
    for (path, method, operation) in operations(&document)
        .iter()
        .filter(|(path, ..)| path.starts_with("/v1"))
    {
        // A newer media server sends more, and goes on.
        if operation["operationId"] == "media_callback" {
            continue;
        }
        let at = format!("{method} {path}");
        let path = filled(path);
        let asked = ask(method, &format!("{path}?no_such_field=1"), "").await;
        asked.is_problem(400, "unknown_field");
        assert_eq!(
            asked.json()["parameter"],
            "no_such_field",
            "{at}: {asked:?}"
        );
        // A session's credentials are checked before its body is read.
        if method == "get" || path.starts_with("/v1/presence") {
            continue;
        }
        let takes_any_json = operation["operationId"] == "write_live_info";
        if !takes_any_json {
            let asked = ask(method, &path, r#"{"no_such_field":1}"#).await;
            asked.is_problem(400, "unknown_field");
            assert_eq!(asked.json()["pointer"], "/no_such_field", "{at}: {asked:?}");
        }
        let asked = ask(method, &path, r#"{"twice":1,"twice":1}"#).await;
        asked.is_problem(400, "bad_message");
        assert_eq!(asked.json()["pointer"], "/twice", "{at}: {asked:?}");
        match operation["requestBody"].is_null() {
            true => without += 1,
            false => bodies += 1,
        }
    }
    assert!(bodies >= 10 && without >= 8, "{bodies} {without}");
    assert_eq!(
        world.get("/v1/lives/42").await.is(200)["state"],
        "open",
        "no refused call did anything"
    );
}

#[tokio::test]
async fn a_misspelt_ban_is_refused_and_removes_nobody() {
    let world = World::new();
    world.opens("42", 1).await;
    let answer = world.put("/v1/lives/42/bans/u1", r#"{"ban":600}"#).await;
    answer.is_problem(400, "unknown_field");
    assert_eq!(
        answer.json()["detail"],
        "ban: this call has no such field; did you mean ban_s?"
    );
    let answer = world
        .put(
            "/v1/lives/43",
            r#"{"streamer_id":"s1","streamer_timeout":60}"#,
        )
        .await;
    answer.is_problem(400, "unknown_field");
    assert!(
        answer.text.contains("did you mean streamer_timeout_s?"),
        "{answer:?}"
    );
    world
        .get("/v1/lives/43")
        .await
        .is_problem(404, "live_not_found");
}

#[tokio::test]
async fn a_wrong_value_is_named_with_its_bounds_and_no_parser_is_quoted() {
    let world = World::new();
    world.opens("42", 1).await;
    for (path, body, field, words) in [
        (
            "/v1/lives/43",
            r#"{"streamer_id":"s1","slices":-1}"#,
            "slices",
            "a whole number from 1 to 256, not -1",
        ),
        (
            "/v1/lives/43",
            r#"{"streamer_id":"s1","slices":"8"}"#,
            "slices",
            "a whole number from 1 to 256, not a text",
        ),
        (
            "/v1/lives/43",
            r#"{"streamer_id":"s1","slices":1.5}"#,
            "slices",
            "from 1 to 256, not 1.5",
        ),
        (
            "/v1/lives/43",
            r#"{"streamer_id":"s1","streamer_timeout_s":2592001}"#,
            "streamer_timeout_s",
            "2592000",
        ),
        (
            "/v1/lives/43",
            r#"{"streamer_id":7}"#,
            "streamer_id",
            "must be a text",
        ),
        (
            "/v1/lives/43",
            r#"{"streamer_id":"{s}"}"#,
            "streamer_id",
            "an id may contain",
        ),
        ("/v1/lives/43", "{}", "streamer_id", "is missing"),
        (
            "/v1/lives/43",
            r#"{"streamer_id":"s1","attendance":1}"#,
            "attendance",
            "must be true or false",
        ),
        (
            "/v1/users/u1",
            r#"{"login":"a b","name":"A"}"#,
            "login",
            "1 to 64",
        ),
        (
            "/v1/users/u1",
            r#"{"login":"a","name":""}"#,
            "name",
            "1 to 100 characters",
        ),
        (
            "/v1/gateway/log",
            r#"{"filter":"info","for_s":0}"#,
            "for_s",
            "from 1 to 86400, not 0",
        ),
    ] {
        let answer = world.put(path, body).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        let problem = answer.json();
        assert_eq!(problem["pointer"], format!("/{field}"), "{problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(
            detail.starts_with(&format!("{field}: ")) && detail.contains(words),
            "{body}: {detail}"
        );
    }
    for (path, field, words) in [
        (
            "/v1/online/count?window_s=-1",
            "window_s",
            "a whole number from 0 to 9007199254740991",
        ),
        ("/v1/online?from=soon", "from", "a whole number"),
        (
            "/v1/online/count?windows_s=300",
            "windows_s",
            "did you mean window_s?",
        ),
        ("/v1/lives?limit=0", "limit", "from 1 to 1000"),
        (
            "/v1/lives?sort=size",
            "sort",
            "opened_at or viewers or fans",
        ),
        ("/v1/lives?cursor=x", "cursor", "unchanged"),
        ("/v1/lives?limit=1&limit=2", "limit", "twice"),
        (
            "/v1/lives/42/history?step=15",
            "step",
            "a multiple of 10 from 10 to 86400",
        ),
        ("/v1/lives/42/fans?prefix=%7B", "prefix", "begin with"),
        (
            "/v1/attendance?days=9",
            "days",
            "a whole number from 1 to 8",
        ),
        (
            "/v1/attendance?live_ids=a*",
            "live_ids",
            "an id may contain",
        ),
        ("/v1/users/u1/following?of=all", "of", "following or mutual"),
        (
            "/v1/gateway/slices?slice=257",
            "slice",
            "a whole number from 1 to 256",
        ),
        ("/readyz?store=no", "store", "must be ignore"),
        ("/readyz?stor=ignore", "stor", "did you mean store?"),
    ] {
        let answer = world.get(path).await;
        assert_eq!(answer.status, 400, "{path}: {answer:?}");
        let problem = answer.json();
        assert_eq!(problem["parameter"], field, "{problem}");
        assert!(
            problem["detail"].as_str().unwrap().contains(words),
            "{path}: {problem}"
        );
    }
    for (path, body) in [
        ("/v1/lives/43", "{\"streamer_id\""),
        ("/v1/lives/42/info", "{x}"),
        ("/v1/lives/43", "[]"),
    ] {
        let answer = world.put(path, body).await;
        answer.is_problem(400, "bad_message");
        for leak in ["Failed", "expected", "EOF", "key must be", "deserialize"] {
            assert!(!answer.text.contains(leak), "{answer:?}");
        }
    }
    let by_path = world.get("/v1/lives/a*b").await;
    assert!(
        by_path.text.contains("live_id, in the path: "),
        "{by_path:?}"
    );
}

#[tokio::test]
async fn the_document_of_each_port_describes_what_that_port_serves() {
    let config = Config {
        admin_listen: Some(([127, 0, 0, 1], 0).into()),
        ..Config::default()
    };
    let world = World::with(&config);
    let internal = admin(&world.app);
    let get = |path: &str| Request::get(path).body(Body::empty()).unwrap();
    let document = answer(&internal, get("/openapi.json")).await.is(200);
    for (path, method, _) in operations(&document) {
        if method == "get" {
            let asked = answer(&internal, get(&filled(&path))).await;
            assert!(
                !asked.text.contains(r#""code":"not_found""#),
                "{path}: {asked:?}"
            );
        }
    }
    assert!(document["paths"]["/ws/admission"].is_null() && document["x-websocket"].is_null());
    assert!(
        document["paths"]["/metrics"]["get"]["security"].is_null(),
        "the metrics are open there"
    );
    assert!(!document["paths"]["/v1/lives"]["get"]["security"].is_null());
    let outside = answer(&public(&world.app, true), get("/openapi.json"))
        .await
        .is(200);
    assert!(
        outside["paths"]["/metrics"].is_null() && outside["paths"]["/ws/admission"].is_object()
    );
}

#[tokio::test]
async fn the_openapi_document_names_items_codes_and_where_the_api_is() {
    let document = World::new().get("/openapi.json").await.is(200);
    assert_eq!(document["servers"][0]["url"], "/");
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let codes = schemas["Problem"]["properties"]["code"]["enum"]
        .as_array()
        .unwrap();
    for (_, code, _) in PROBLEMS {
        assert!(codes.contains(&json!(code)), "{code} is in {codes:?}");
    }
    let pages: Vec<_> = schemas
        .iter()
        .filter(|(name, _)| name.contains("Page_"))
        .collect();
    assert!(pages.len() > 8, "{:?}", schemas.keys());
    for (name, page) in pages {
        let item = page["properties"]["items"]["items"]["$ref"].as_str();
        let item = item.unwrap_or_else(|| panic!("{name} spells its items out: {page}"));
        assert!(
            schemas.contains_key(item.rsplit('/').next().unwrap()),
            "{item}"
        );
    }
    let text = serde_json::to_string(&document["paths"]).unwrap();
    assert!(
        text.contains("#/components/schemas/Page_Fan\""),
        "answers name their pages"
    );
}

#[tokio::test]
async fn the_openapi_document_refers_to_nothing_that_it_does_not_hold() {
    let world = World::new();
    let text = world.get("/openapi.json").await.text;
    let document: Value = serde_json::from_str(&text).unwrap();
    let references = text
        .split("\"#/components/schemas/")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap());
    for name in references {
        assert!(
            document["components"]["schemas"][name].is_object(),
            "{name}"
        );
    }
    let live = &document["components"]["schemas"]["Live"]["properties"];
    for field in [
        "live_id",
        "state",
        "streamer_id",
        "epoch",
        "slices",
        "opened_at",
        "peak_viewers",
        "peak_fans",
    ] {
        assert!(live[field].is_object(), "{field}");
    }
}

#[tokio::test]
async fn the_openapi_document_of_a_port_is_about_what_the_port_serves() {
    let config = Config {
        admin_listen: Some(([127, 0, 0, 1], 0).into()),
        ..Config::default()
    };
    let world = World::with(&config);
    let get = || Request::get("/openapi.json").body(Body::empty()).unwrap();
    let mut sizes = Vec::new();
    for router in [public(&world.app, true), admin(&world.app)] {
        let text = answer(&router, get()).await.text;
        let document: Value = serde_json::from_str(&text).unwrap();
        let served = document["paths"].to_string() + &document["x-websocket"].to_string();
        for tag in document["tags"].as_array().unwrap() {
            let tag = format!("\"tags\":[{}]", tag["name"]);
            assert!(served.contains(&tag), "{tag} is of nothing");
        }
        let components = &document["components"];
        for name in components["schemas"].as_object().unwrap().keys() {
            let reference = format!("\"#/components/schemas/{name}\"");
            assert!(text.contains(&reference), "nothing is a {name}");
        }
        for name in components["securitySchemes"]
            .as_object()
            .into_iter()
            .flatten()
        {
            let used = format!("{{\"{}\":[", name.0);
            assert!(served.contains(&used), "nothing needs {name:?}");
        }
        sizes.push(components["schemas"].as_object().unwrap().len());
    }
    assert!(sizes[0] < 15 && sizes[1] > 40, "{sizes:?}");
}

/// The schemas of the plain values in a schema, with `$ref` looked up.
fn values<'a>(document: &'a Value, schema: &'a Value, found: &mut Vec<&'a Value>) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return values(document, &document["components"]["schemas"][name], found);
    }
    let several = ["oneOf", "allOf"]
        .into_iter()
        .filter_map(|key| schema[key].as_array())
        .flatten();
    let fields = schema["properties"]
        .as_object()
        .into_iter()
        .flat_map(serde_json::Map::values);
    let parts: Vec<&Value> = several.chain(fields).chain(schema.get("items")).collect();
    if parts.is_empty() {
        found.push(schema);
    }
    parts
        .into_iter()
        .for_each(|part| values(document, part, found));
}

#[tokio::test]
async fn the_openapi_document_bounds_every_number_and_text_of_a_request() {
    let document = World::new().get("/openapi.json").await.is(200);
    let mut looked_at = 0;
    for (path, method, operation) in operations(&document)
        .iter()
        .filter(|(path, ..)| path.starts_with("/v1"))
    {
        let parameters = operation["parameters"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|parameter| &parameter["schema"]);
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        let mut found = Vec::new();
        parameters
            .chain([body])
            .for_each(|schema| values(&document, schema, &mut found));
        for schema in found {
            let is = |name: &str| {
                schema["type"] == name
                    || schema["type"]
                        .as_array()
                        .is_some_and(|types| types.contains(&json!(name)))
            };
            let has = |field: &str| !schema[field].is_null();
            if is("integer") {
                looked_at += 1;
                assert!(
                    has("minimum") && has("maximum"),
                    "{method} {path}: {schema}"
                );
            }
            if is("string") {
                looked_at += 1;
                assert!(
                    has("pattern") || has("enum") || has("maxLength"),
                    "{method} {path}: {schema}"
                );
            }
        }
    }
    assert!(looked_at > 40, "{looked_at}");
}
