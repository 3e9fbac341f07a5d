//! The rules at the head of `docs/http.md`, held over every operation of the OpenAPI document.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};

use crate::base::ids::UserId;
use crate::base::secret::Secret;
use crate::config::Config;
use crate::edge::http::tests::schemas::Schemas;
use crate::edge::http::tests::world::World;
use crate::features::Opened;
use crate::features::webhooks;
use crate::gateway::wiring::FromOutside;
use crate::testing::FaultyStore;

/// A call of the document.
struct Call {
    path: String,
    method: String,
    operation: Value,
}

impl Call {
    fn name(&self) -> String {
        format!("{} {}", self.method.to_uppercase(), self.path)
    }

    fn codes(&self, status: &str) -> BTreeSet<String> {
        let examples =
            &self.operation["responses"][status]["content"]["application/problem+json"]["examples"];
        examples
            .as_object()
            .into_iter()
            .flat_map(|examples| examples.keys().cloned())
            .collect()
    }
}

struct Document(Value);

impl Document {
    async fn read() -> Self {
        Self(World::new().get("/openapi.json").await.is(200))
    }

    /// The calls of the API, without the probes and the pages.
    fn calls(&self) -> Vec<Call> {
        let paths = self.0["paths"]
            .as_object()
            .unwrap()
            .iter()
            .filter(|(path, _)| path.starts_with("/v1/"));
        let each = paths.flat_map(|(path, item)| {
            item.as_object()
                .unwrap()
                .iter()
                .map(move |(method, operation)| Call {
                    path: path.clone(),
                    method: method.clone(),
                    operation: operation.clone(),
                })
        });
        each.collect()
    }

    /// Every field of a request or an answer, and every field of a query, with its schema:
    /// `where.name`.
    fn fields(&self) -> Vec<(String, String, Value)> {
        let mut fields = Vec::new();
        for (name, schema) in self.0["components"]["schemas"].as_object().unwrap() {
            collect(name, schema, &mut fields);
        }
        for call in self.calls() {
            for parameter in call.operation["parameters"]
                .as_array()
                .into_iter()
                .flatten()
            {
                if parameter["in"] == "query" {
                    let name = parameter["name"].as_str().unwrap().to_owned();
                    let mut schema = parameter["schema"].clone();
                    schema["description"] = parameter["description"].clone();
                    fields.push((call.name(), name, schema));
                }
            }
        }
        fields
    }
}

fn collect(at: &str, schema: &Value, fields: &mut Vec<(String, String, Value)>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        fields.push((at.to_owned(), name.clone(), field.clone()));
        collect(at, field, fields);
    }
    for part in ["allOf", "oneOf", "anyOf"]
        .into_iter()
        .filter_map(|key| schema[key].as_array())
        .flatten()
    {
        collect(at, part, fields);
    }
    if schema["items"].is_object() {
        collect(at, &schema["items"], fields);
    }
}

fn is_number(schema: &Value) -> bool {
    let is = |kind: &Value| ["integer", "number"].iter().any(|name| kind == name);
    let has = |kinds: &Vec<Value>| kinds.iter().any(is);
    let may_be = |key: &str| {
        schema[key]
            .as_array()
            .is_some_and(|parts| parts.iter().any(is_number))
    };
    is(&schema["type"])
        || schema["type"].as_array().is_some_and(has)
        || may_be("oneOf")
        || may_be("allOf")
}

/// The exceptions, as the table at the head of `docs/http.md` says. Each is in the document: a name
/// that has gone must leave this list.
const OTHER_TIMES: [&str; 3] = ["since", "last_seen", "signup"];
const OTHER_SPANS: [&str; 2] = ["step", "days"];

/// The one batch in a query.
const BATCH_IN_QUERY: &str = "GET /v1/attendance";

/// The calls below which a wrong user id or role is 401, as for a WebSocket.
const LIKE_SOCKETS: &str = "/v1/presence";

/// The bounds of a span of time, and where such a span lies.
const BOUNDS: [&str; 2] = ["from", "to"];

#[tokio::test]
async fn a_time_ends_in_at_and_a_span_in_its_unit() {
    let fields = Document::read().await.fields();
    let (mut times, mut spans) = (0, 0);
    for (at, name, schema) in &fields {
        let said = schema["description"]
            .as_str()
            .unwrap_or_default()
            .to_lowercase();
        let is_time = name.ends_with("_at")
            || BOUNDS.contains(&name.as_str())
            || OTHER_TIMES.contains(&name.as_str());
        let is_span =
            name.ends_with("_s") || name.ends_with("_ms") || OTHER_SPANS.contains(&name.as_str());
        if is_time || is_span {
            assert!(is_number(schema), "{at}: {name} is a number: {schema}");
        } else if is_number(schema) {
            for word in [
                "unix milliseconds",
                "seconds",
                "milliseconds",
                "minutes",
                "days",
                "how long",
            ] {
                assert!(
                    !said.contains(word),
                    "{at}: {name} is a time or a span, by its words: {said}"
                );
            }
        }
        times += usize::from(is_time);
        spans += usize::from(is_span);
    }
    assert!(times > 20 && spans > 10, "{times} {spans}");
    let is_there = |name: &&str| fields.iter().any(|(_, field, _)| field == name);
    for name in ["until", "as_of", "at", "viewer_minutes"] {
        assert!(!is_there(&name), "{name}");
    }
    let of = |name: &str| fields.iter().filter(|(_, field, _)| field == name).count();
    assert_eq!(of("since"), 1, "of a viewer only");
    for name in OTHER_TIMES.iter().chain(&OTHER_SPANS) {
        assert!(is_there(name), "{name} is an exception of nothing");
    }
}

#[tokio::test]
async fn a_time_says_that_it_is_in_unix_milliseconds_or_is_like_one_that_does() {
    let fields = Document::read().await.fields();
    let times = fields.iter().filter(|(_, name, _)| name.ends_with("_at"));
    let mut said: BTreeSet<&str> = BTreeSet::new();
    let mut unsaid: BTreeSet<&str> = BTreeSet::new();
    for (_, name, schema) in times {
        match schema["description"]
            .as_str()
            .unwrap_or_default()
            .contains("Unix milliseconds")
        {
            true => said.insert(name),
            false => unsaid.insert(name),
        };
    }
    let never: Vec<_> = unsaid.difference(&said).collect();
    assert!(said.len() > 8 && never.is_empty(), "{never:?}");
}

#[tokio::test]
async fn what_can_be_written_can_be_read_and_what_can_be_made_can_be_deleted() {
    let calls = Document::read().await.calls();
    let has = |method: &str, path: &str| {
        calls
            .iter()
            .any(|call| call.method == method && call.path == path)
    };
    // A ban is in the list of bans, and a member in the list of members.
    let reads = |path: &str| {
        has("get", path)
            || path
                .rsplit_once('/')
                .is_some_and(|(list, _)| has("get", list))
    };
    for call in calls
        .iter()
        .filter(|call| ["put", "patch"].contains(&call.method.as_str()))
    {
        assert!(
            reads(&call.path),
            "{} writes what nobody can read",
            call.name()
        );
    }
    // These are no things: the log and the info have no lack of themselves, and null clears the
    // latter. Tokens that were revoked stay so.
    let always_there = [
        "/v1/gateway/log",
        "/v1/lives/{live_id}/info",
        "/v1/users/{user_id}/tokens/revoked",
    ];
    for call in calls.iter().filter(|call| call.method == "put") {
        assert!(
            always_there.contains(&call.path.as_str()) || has("delete", &call.path),
            "{} makes what nobody can delete",
            call.name()
        );
    }
    assert!(has("delete", "/v1/users/{user_id}/statuses/{status_id}"));
}

#[tokio::test]
async fn a_batch_is_an_array_in_a_post_and_its_answer_names_the_unknown() {
    let document = Document::read().await;
    for (at, name, schema) in document.fields() {
        if ["live_ids", "user_ids"].contains(&name.as_str()) {
            let is_array = schema["type"] == "array" && !at.starts_with("GET");
            assert_ne!(is_array, at == BATCH_IN_QUERY, "{at}: {name}");
        }
    }
    for path in ["/v1/lives:query", "/v1/online/query"] {
        let answer = &document.0["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]
            ["schema"];
        let name = answer["$ref"].as_str().unwrap().rsplit('/').next().unwrap();
        let fields = &document.0["components"]["schemas"][name]["properties"];
        assert!(
            fields["items"].is_object() && fields["unknown"].is_object(),
            "{path}: {fields}"
        );
    }
}

#[tokio::test]
async fn a_word_of_a_path_where_another_path_has_an_id_is_no_id() {
    let document = Document::read().await;
    let paths = document.0["paths"].as_object().unwrap().keys();
    let paths: Vec<Vec<&str>> = paths.map(|path| path.split('/').collect()).collect();
    let is_id = |segment: &str| segment.starts_with('{');
    for with_id in &paths {
        for with_word in &paths {
            if with_id.len() != with_word.len() {
                continue;
            }
            for (id, word) in with_id.iter().zip(with_word) {
                if is_id(id) && !is_id(word) {
                    assert!(
                        UserId::parse(word).is_err(),
                        "{with_word:?} hides {word} from {with_id:?}"
                    );
                }
                if id != word && !is_id(id) && !is_id(word) {
                    break;
                }
            }
        }
    }
}

#[tokio::test]
async fn a_compressed_body_is_refused_by_every_call_that_takes_a_body() {
    let world = World::new();
    let compressed = |call: &Call, encoding: &str| {
        let path = call.path.replace(['{', '}'], "");
        Request::builder()
            .method(call.method.to_uppercase().as_str())
            .uri(path)
            .header("content-type", "application/json")
            .header("content-encoding", encoding)
            .body(Body::from("{}"))
            .unwrap()
    };
    let mut calls = Document::read().await.calls();
    calls.retain(|call| call.operation["requestBody"].is_object());
    assert!(calls.len() > 10);
    for call in calls {
        let name = call.name();
        assert!(
            call.codes("415").contains("unsupported_media_type"),
            "{name}"
        );
        for encoding in ["gzip", "br, gzip"] {
            let refused = world.sends(compressed(&call, encoding)).await;
            refused.is_problem(415, "unsupported_media_type");
            assert!(
                refused.text.contains("Content-Encoding"),
                "{name}: {refused:?}"
            );
        }
        let plain = world.sends(compressed(&call, "identity")).await;
        assert_ne!(plain.status, 415, "{name}");
    }
}

#[tokio::test]
async fn a_status_means_one_thing_for_every_call() {
    let calls = Document::read().await.calls();
    for call in &calls {
        for (status, codes) in [
            ("400", &["bad_message", "unknown_field", "invalid_"][..]),
            ("401", &["unauthorized"]),
            ("403", &["forbidden", "banned", "removed"]),
            ("404", &["not_found", "session_unknown"]),
            (
                "409",
                &[
                    "live_owned",
                    "live_not_open",
                    "login_taken",
                    "too_many_bans",
                    "list_full",
                    "self_follow",
                    "idempotency_key_reused",
                    "too_many_sessions",
                    "bad_files",
                    "being_erased",
                    "not_available",
                ],
            ),
        ] {
            for code in call.codes(status) {
                let is_like_a_socket = status == "401"
                    && call.path.starts_with(LIKE_SOCKETS)
                    && ["invalid_id", "invalid_role"].contains(&code.as_str());
                let fits = codes.iter().any(|known| code.contains(known));
                let fits = fits || is_like_a_socket || code == "bad_host";
                assert!(fits, "{} answers {status} {code}", call.name());
            }
        }
        // A method that reads changes nothing, so nothing conflicts but the settings. A stream of
        // events needs an open live, or a session.
        if call.method == "get" && !call.path.ends_with("/events") {
            let conflicts = call.codes("409");
            assert!(
                conflicts.iter().all(|code| code == "not_available"),
                "{}: {conflicts:?}",
                call.name()
            );
        }
    }
}

#[tokio::test]
async fn a_call_that_asks_for_credentials_says_how_it_refuses_others() {
    let mut asking = 0;
    for call in Document::read().await.calls() {
        // The id of a session may also stand in the path.
        if call.operation["security"].is_null() || call.path.starts_with("/v1/presence/") {
            continue;
        }
        for (status, code) in [
            ("401", "unauthorized"),
            ("403", "forbidden"),
            ("429", "rate_limited"),
        ] {
            assert!(call.codes(status).contains(code), "{}: {code}", call.name());
        }
        asking += 1;
    }
    assert!(asking > 50, "{asking}");
}

#[tokio::test]
async fn a_field_of_an_answer_is_null_or_left_out_and_never_both() {
    let document = Document::read().await;
    let mut nullable = 0;
    for (name, schema) in document.0["components"]["schemas"].as_object().unwrap() {
        if schema["additionalProperties"] == false {
            continue;
        }
        let parts = schema["allOf"].as_array().cloned();
        for part in parts.unwrap_or_else(|| vec![schema.clone()]) {
            for (field, schema) in part["properties"].as_object().into_iter().flatten() {
                let required = part["required"].as_array().into_iter().flatten();
                let is_required = required.into_iter().any(|name| name == field);
                // Any JSON may be null, whether it may be left out or not.
                if is_nullable(schema) {
                    assert!(is_required, "{name}.{field} may be both");
                    nullable += 1;
                }
            }
        }
    }
    assert!(nullable > 30, "{nullable}");
}

fn is_nullable(schema: &Value) -> bool {
    let kinds = schema["type"].as_array().into_iter().flatten();
    let either = schema["oneOf"].as_array().into_iter().flatten();
    schema["type"] == "null"
        || kinds.into_iter().any(|kind| kind == "null")
        || either.into_iter().any(is_nullable)
}

#[tokio::test]
async fn a_word_means_one_thing() {
    let fields = Document::read().await.fields();
    let of = |name: &str| -> BTreeSet<&str> {
        fields
            .iter()
            .filter(|(_, field, _)| field == name)
            .map(|(at, ..)| at.as_str())
            .collect()
    };
    // Of a stay, and of a session without a WebSocket: the table of exceptions has both.
    let named = ["Presence", "PresenceAck", "Session"];
    assert_eq!(of("session_id"), named.into());
    // The same name never has two types.
    let kinds = |name: &str| -> BTreeSet<String> {
        let all = fields.iter().filter(|(_, field, _)| field == name);
        let kind = |schema: &Value| match &schema["type"] {
            Value::Array(kinds) => kinds
                .iter()
                .find(|kind| **kind != json!("null"))
                .cloned()
                .unwrap_or_default(),
            kind => kind.clone(),
        };
        all.filter(|(_, _, schema)| !schema["type"].is_null())
            .map(|(_, _, schema)| kind(schema).to_string())
            .collect()
    };
    for (_, name, _) in &fields {
        // The status of a problem is that of HTTP, and `/healthz` has the word that orchestrators
        // know. `?count=false` and the batch in a query are exceptions. A beat says of one user what
        // `watching` counts.
        let exceptions = ["items", "info", "status", "count", "live_ids", "watching"];
        if !exceptions.contains(&name.as_str()) {
            assert!(kinds(name).len() <= 1, "{name}: {:?}", kinds(name));
        }
    }
}

/// The paths of the calls that read: without those about one gateway or one session, and without
/// streams of events.
fn reads(document: &Document) -> Vec<String> {
    let mut paths = Vec::new();
    for call in document.calls() {
        let is_left_out = call.path.starts_with("/v1/gateway/")
            || call.path.starts_with("/v1/presence/")
            || call.path.ends_with("/events");
        if call.method == "get" && !is_left_out {
            paths.push(call.path);
        }
    }
    paths
}

/// Makes one of everything that can be read: the live `42` with attendance, whose streamer `s1` has
/// an announcement, a list and a follower. Answers the ids of what the gateway names itself.
async fn make_one_of_each(world: &World) -> [(&'static str, String); 2] {
    let live = r#"{"streamer_id":"s1","attendance":true}"#;
    world.put("/v1/lives/42", live).await.is(201);
    world.put("/v1/lives/42/info", "7").await.is(200);
    let ban = r#"{"ban_s":600}"#;
    world.put("/v1/lives/42/bans/u9", ban).await.is(200);
    let profile = r#"{"login":"ann","name":"Ann"}"#;
    world.put("/v1/users/s1", profile).await.is(201);
    world.put("/v1/users/u1/following/s1", "").await.is(200);
    world.put("/v1/users/u1/lists/cooks/s1", "").await.is(200);
    let text = r#"{"text":"Tomorrow"}"#;
    let status = world.post("/v1/users/s1/statuses", text).await.is(201);
    let erasure = world.delete("/v1/users/u8").await.is(202);
    let text_of = |value: &Value| value.as_str().unwrap().to_owned();
    [
        ("{status_id}", text_of(&status["status_id"])),
        ("{erasure_id}", text_of(&erasure["erasure_id"])),
    ]
}

/// A path with ids.
fn filled(path: &str, live: &str, made: &[(&'static str, String)]) -> String {
    let user = if path.contains("statuses") || path.ends_with("/profile") {
        "s1"
    } else {
        "u1"
    };
    let mut path = path
        .replace("{live_id}", live)
        .replace("{streamer_id}", "s1")
        .replace("{user_id}", user)
        .replace("{list}", "cooks")
        .replace("{member}", "s2")
        .replace("{webhook}", "default");
    for (name, id) in made {
        path = path.replace(name, id);
    }
    if path == "/v1/attendance" {
        return format!("{path}?live_ids={live}");
    }
    assert!(!path.contains('{'), "{path}");
    path
}

/// Takes out what only a gateway that holds a live knows of its figures, and the time of the answer.
fn without_the_moment(mut answer: Value) -> Value {
    match &mut answer {
        Value::Array(items) => {
            for item in items {
                *item = without_the_moment(item.take());
            }
        }
        Value::Object(fields) => {
            for name in [
                "away",
                "watching",
                "confirmed",
                "quality",
                "gateways",
                "counted_at",
                "to",
            ] {
                fields.remove(name);
            }
            for field in fields.values_mut() {
                *field = without_the_moment(field.take());
            }
        }
        _ => {}
    }
    answer
}

/// What a PUT of this path sends.
fn body_of(path: &str) -> &'static str {
    match path.rsplit('/').next() {
        Some("{live_id}") => r#"{"streamer_id":"s1","title":"Soup"}"#,
        Some("info") => r#"{"goods":7}"#,
        Some("log") => r#"{"filter":"info"}"#,
        _ if path.contains("/bans/") => r#"{"ban_s":600}"#,
        _ if path == "/v1/users/{user_id}" => r#"{"login":"bob","name":"Bob"}"#,
        _ => "",
    }
}

#[tokio::test]
async fn a_repeated_put_does_no_harm() {
    let document = Document::read().await;
    let world = World::new();
    make_one_of_each(&world).await;
    world.delete("/v1/users/u1/following/s1").await.is(200);
    let mut repeated = 0;
    for call in document.calls() {
        if call.method != "put" {
            continue;
        }
        let path = filled(&call.path, "42", &[]);
        let body = body_of(&call.path);
        let first = world.put(&path, body).await;
        assert!(first.status.is_success(), "{path}: {first:?}");
        let again = world.put(&path, body).await.is(200);
        for (field, value) in first.json().as_object().unwrap() {
            // Whether this call changed something, and when.
            let may_differ = [
                "changed",
                "ban_ends_at",
                "banned_at",
                "revoked_at",
                "info_version",
            ];
            if !may_differ.contains(&field.as_str()) {
                assert_eq!(again[field], *value, "{field} of {path}");
            }
        }
        repeated += 1;
    }
    assert!(repeated > 6, "{repeated}");
}

#[tokio::test]
async fn the_answer_does_not_depend_on_the_gateway() {
    let document = Document::read().await;
    let mut secret = tempfile::NamedTempFile::new().unwrap();
    secret.write_all(&[b'x'; 32]).unwrap();
    let config = Config {
        webhook_url: Some(Secret::new("http://127.0.0.1:9/hooks")),
        webhook_secret_file: Some(secret.path().to_owned()),
        webhook_allow_private: true,
        ..Config::default()
    };
    let on = |store| {
        let verifiers = FromOutside {
            of_features: Opened {
                webhooks: webhooks::open(&config).unwrap(),
                ..Opened::default()
            },
            ..FromOutside::default()
        };
        World::verified_by(&config, verifiers, store)
    };
    let one = on(Arc::new(FaultyStore::new()));
    let other = on(one.store.clone());
    let made = make_one_of_each(&one).await;
    let paths = reads(&document);
    for name in &paths {
        let path = filled(name, "42", &made);
        let told = one.get(&path).await.is(200);
        let answers = &document.0["paths"][name]["get"]["responses"]["200"]["content"];
        let schema = &answers["application/json"]["schema"];
        if let Err(why) = Schemas(&document.0).check(schema, &told) {
            panic!("{path} answers {told}: {why}");
        }
        let told = without_the_moment(told);
        assert_eq!(
            without_the_moment(other.get(&path).await.is(200)),
            told,
            "{path}"
        );
    }
    assert!(paths.len() > 25, "{paths:?}");
}

#[tokio::test]
async fn a_closed_live_answers_as_an_open_one_in_which_nobody_is() {
    let document = Document::read().await;
    let world = World::new();
    let live = r#"{"streamer_id":"s1","attendance":true}"#;
    for name in ["open", "over"] {
        world.put(&format!("/v1/lives/{name}"), live).await.is(201);
    }
    world
        .put("/v1/lives/over/bans/u9", r#"{"ban_s":600}"#)
        .await
        .is(200);
    world.put("/v1/lives/over/info", "7").await.is(200);
    world.delete("/v1/lives/over").await.is(200);
    let mut asked = 0;
    for path in reads(&document) {
        if !path.contains("{live_id}") {
            continue;
        }
        let answer = async |name: &str| {
            let mut answer = world.get(&filled(&path, name, &[])).await.is(200);
            for what_a_close_changes in [
                "live_id",
                "epoch",
                "state",
                "opened_at",
                "closed_at",
                "reason",
                "duration_ms",
                "summary",
                "from",
            ] {
                answer.as_object_mut().unwrap().remove(what_a_close_changes);
            }
            without_the_moment(answer)
        };
        assert_eq!(answer("over").await, answer("open").await, "{path}");
        asked += 1;
    }
    assert!(asked > 6, "{asked}");
}
