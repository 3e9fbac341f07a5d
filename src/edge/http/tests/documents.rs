//! What machines and people read about the gateway: probes, metrics, the OpenAPI document, the pages; and on which
//! port.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use super::world::{World, answer};
use crate::config::Config;
use crate::edge::http::routes::{admin, public};

#[tokio::test]
async fn probes_say_what_is_wrong() {
    let world = World::new();
    let ready = world.get("/readyz").await.is(200);
    assert_eq!((&ready["ready"], &ready["wrong"]), (&json!(true), &json!([])));
    world.app.sessions.drain();
    world.store.breaks();
    let ready = world.get("/readyz").await.is(503);
    assert_eq!((&ready["ready"], &ready["wrong"]), (&json!(false), &json!(["store_unavailable", "draining"])));
    let alive = world.get("/healthz").await.is(200);
    assert_eq!(alive["store"], "memory");
    assert_eq!(alive["gateway_id"], world.app.gateways.id().as_str());
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_gets_no_lease_is_not_ready_until_it_has_one() {
    let world = World::new();
    let half_a_lease = Config::default().lease / 2;
    tokio::time::advance(half_a_lease).await;
    world.get("/readyz").await.is(200);
    tokio::time::advance(half_a_lease).await;
    let ready = world.get("/readyz").await.is(503);
    assert_eq!((&ready["ready"], &ready["wrong"]), (&json!(false), &json!(["no_lease"])));
    world.app.gateways.own.note_renewal(world.app.clock.now());
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
    assert_eq!((&ready["ready"], &ready["wrong"]), (&json!(false), &json!(["no_lease"])));
    world.app.gateways.own.note_renewal(world.app.clock.now());
    world.store.breaks();
    let ready = world.get(ignoring).await.is(200);
    assert_eq!((&ready["ready"], &ready["wrong"]), (&json!(true), &json!(["store_unavailable"])));
    world.get("/readyz").await.is(503);
    // The outage outlasts the lease, and the gateway goes on under a new id.
    world.app.gateways.own.begin_anew();
    tokio::time::advance(lease).await;
    let ready = world.get(ignoring).await.is(200);
    assert_eq!((&ready["ready"], &ready["wrong"]), (&json!(true), &json!(["store_unavailable", "no_lease"])));
    world.app.sessions.drain();
    let ready = world.get(ignoring).await.is(503);
    assert_eq!(ready["ready"], false);
    for wrong in ["/readyz?store=", "/readyz?store=no", "/readyz?store=ignore&store=ignore"] {
        world.get(wrong).await.is_problem(400, "invalid_query");
    }
}

#[tokio::test]
async fn answers_are_counted_by_route_and_never_by_path() {
    let world = World::new();
    world.get("/v1/lives/never-opened").await;
    world.get("/secret-path").await;
    let metrics = world.get("/metrics").await;
    assert!(metrics.header("content-type").starts_with("application/openmetrics-text"));
    assert!(metrics.text.contains(r#"route="/v1/lives/{live_id}",status="404""#), "{}", metrics.text);
    assert!(metrics.text.contains(r#"route="none",status="404""#), "{}", metrics.text);
    assert!(!metrics.text.contains("secret-path") && !metrics.text.contains("never-opened"));
}

/// What a page or a script loads: the paths in quotes that begin at this gateway.
fn loaded(text: &str) -> Vec<&str> {
    let quoted = text.split('"').skip(1).step_by(2);
    quoted.filter(|path| path.starts_with("/pages/") || path.starts_with("/rollcall")).collect()
}

#[tokio::test]
async fn the_pages_load_from_this_gateway_only_and_nothing_is_inline() {
    let world = World::new();
    for path in ["/", "/demo"] {
        let page = world.get(path).await;
        assert_eq!(page.status, 200);
        assert!(page.header("content-type").starts_with("text/html"));
        let policy = page.header("content-security-policy");
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
        for inline in ["<style", "style=", " onclick", "<script>"] {
            let tags = page.text.split('<').filter_map(|rest| Some(rest.split_once('>')?.0));
            let found: Vec<_> = tags.filter(|tag| format!("<{tag}>").contains(inline)).collect();
            assert!(found.is_empty(), "{inline}: {found:?}");
        }
        let loads = loaded(&page.text);
        assert!(loads.len() >= 2, "{loads:?}");
        for part in loads {
            let part = world.get(part).await;
            assert_eq!(part.status, 200);
            assert!(
                ["text/css; charset=utf-8", "text/javascript; charset=utf-8"].contains(&part.header("content-type"))
            );
            let tag = part.header("etag");
            assert!(tag.len() > 10 && part.header("cache-control") == "no-cache");
        }
    }
    world.get("/pages/nothing.js").await.is_problem(404, "not_found");
}

#[tokio::test]
async fn a_page_says_how_people_prove_who_they_are_and_where_the_api_is() {
    let apart = Config { admin_listen: Some(([127, 0, 0, 1], 0).into()), ..Config::default() };
    let get = || Request::get("/").body(Body::empty()).unwrap();
    let world = World::with(&apart);
    let beside = answer(&public(&world.app, true), get()).await;
    assert!(beside.text.contains("<html data-auth=\"off\" data-api=\"elsewhere\" lang=\"en\">"), "{}", beside.text);
    let alone = answer(&public(&world.app, false), get()).await;
    assert!(alone.text.contains("<html data-auth=\"off\" data-api=\"here\" lang=\"en\">"), "{}", alone.text);
    let internal = answer(&admin(&world.app), get()).await;
    let links = internal.text.split("href=\"/").skip(1).map(|rest| rest.split('"').next().unwrap());
    for link in links {
        let request = Request::get(format!("/{link}")).body(Body::empty()).unwrap();
        assert_eq!(answer(&admin(&world.app), request).await.status, 200, "{link}");
    }
}

#[tokio::test]
async fn the_internal_port_serves_what_clients_do_not_need() {
    let config = Config { admin_listen: Some(([127, 0, 0, 1], 0).into()), ..Config::default() };
    let world = World::with(&config);
    let internal = admin(&world.app);
    let outside = public(&world.app, true);
    let get = |path: &str| Request::get(path).body(Body::empty()).unwrap();
    for path in ["/v1/lives", "/metrics"] {
        assert_eq!(answer(&internal, get(path)).await.status, 200, "{path}");
        answer(&outside, get(path)).await.is_problem(404, "not_found");
    }
    for path in ["/", "/openapi.json", "/healthz", "/readyz"] {
        assert_eq!(answer(&outside, get(path)).await.status, 200, "{path}");
        assert_eq!(answer(&internal, get(path)).await.status, 200, "{path}");
    }
    answer(&outside, get("/ws")).await.is_problem(426, "upgrade_required");
    answer(&internal, get("/ws")).await.is_problem(404, "not_found");
}

fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let each = paths.iter().flat_map(|(path, item)| {
        let item = item.as_object().unwrap();
        item.iter().map(move |(method, operation)| (path.clone(), method.clone(), operation.clone()))
    });
    each.collect()
}

#[tokio::test]
async fn the_openapi_document_describes_every_route_and_every_refusal() {
    let world = World::new();
    let document = world.get("/openapi.json").await.is(200);
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"), "{}", document["openapi"]);
    assert!(document["info"]["license"].is_null());
    let operations = operations(&document);
    assert_eq!(operations.len(), 47, "{:?}", operations.iter().map(|(p, m, _)| (p, m)).collect::<Vec<_>>());
    let socket = &document["x-websocket"]["/ws"]["get"];
    assert_eq!(socket["operationId"], "open_socket");
    assert!(socket["responses"]["101"].is_object() && socket["responses"]["426"].is_object(), "{socket}");
    for (path, method, operation) in operations {
        let at = format!("{method} {path}");
        for field in ["operationId", "summary", "tags"] {
            assert!(!operation[field].is_null(), "{field} of {at}");
        }
        let named = |place: &str| -> Vec<String> {
            let all = operation["parameters"].as_array().cloned().unwrap_or_default();
            let names = all.iter().filter(|p| p["in"] == place).map(|p| p["name"].as_str().unwrap().to_owned());
            names.collect()
        };
        let pattern: Vec<_> = path.split('/').filter_map(|s| s.strip_prefix('{')?.strip_suffix('}')).collect();
        assert_eq!(named("path"), pattern, "{at}");
        if path.starts_with("/v1") {
            for status in ["400", "408", "500", "503"] {
                let content = &operation["responses"][status]["content"]["application/problem+json"];
                assert_eq!(content["schema"]["$ref"], "#/components/schemas/Problem", "{status} of {at}");
                assert!(content["examples"].is_object(), "{status} of {at}");
            }
        }
    }
}

#[tokio::test]
async fn the_openapi_document_refers_to_nothing_that_it_does_not_hold() {
    let world = World::new();
    let text = world.get("/openapi.json").await.text;
    let document: Value = serde_json::from_str(&text).unwrap();
    let references = text.split("\"#/components/schemas/").skip(1).map(|rest| rest.split('"').next().unwrap());
    for name in references {
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }
    let live = &document["components"]["schemas"]["Live"]["properties"];
    for field in ["live_id", "state", "streamer_id", "epoch", "slices", "opened_at", "peak_viewers", "peak_fans"] {
        assert!(live[field].is_object(), "{field}");
    }
}

/// The schemas of the plain values in a schema, with `$ref` looked up.
fn values<'a>(document: &'a Value, schema: &'a Value, found: &mut Vec<&'a Value>) {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.rsplit('/').next().unwrap();
        return values(document, &document["components"]["schemas"][name], found);
    }
    let several = ["oneOf", "allOf"].into_iter().filter_map(|key| schema[key].as_array()).flatten();
    let fields = schema["properties"].as_object().into_iter().flat_map(serde_json::Map::values);
    let parts: Vec<&Value> = several.chain(fields).chain(schema.get("items")).collect();
    if parts.is_empty() {
        found.push(schema);
    }
    parts.into_iter().for_each(|part| values(document, part, found));
}

#[tokio::test]
async fn the_openapi_document_bounds_every_number_and_text_of_a_request() {
    let document = World::new().get("/openapi.json").await.is(200);
    let mut looked_at = 0;
    for (path, method, operation) in operations(&document).iter().filter(|(path, ..)| path.starts_with("/v1")) {
        let parameters = operation["parameters"].as_array().into_iter().flatten().map(|parameter| &parameter["schema"]);
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        let mut found = Vec::new();
        parameters.chain([body]).for_each(|schema| values(&document, schema, &mut found));
        for schema in found {
            let is = |name: &str| {
                schema["type"] == name || schema["type"].as_array().is_some_and(|types| types.contains(&json!(name)))
            };
            let has = |field: &str| !schema[field].is_null();
            if is("integer") {
                looked_at += 1;
                assert!(has("minimum") && has("maximum"), "{method} {path}: {schema}");
            }
            if is("string") {
                looked_at += 1;
                assert!(has("pattern") || has("enum") || has("maxLength"), "{method} {path}: {schema}");
            }
        }
    }
    assert!(looked_at > 40, "{looked_at}");
}
