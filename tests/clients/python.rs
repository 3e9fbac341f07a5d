//! The package for Python: what is in it, its types, and the program that the document shows, which
//! stays in its live over lost connections until another try is of no use.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::apps::{PythonApp, read, shown, story, succeeds};
use crate::support::link::Link;
use crate::support::running::Running;
use crate::support::tokens::{SECRET, in_seconds, mint, with_tokens};
use crate::support::wait::PATIENCE;
use crate::support::world::World;

/// Starts the document's program, as a user of this id or with this token.
async fn viewer(addr: SocketAddr, live: &str, who: (&str, &str)) -> (PythonApp, Running) {
    let app = PythonApp::new().await;
    app.has("viewer.py", &shown("python"));
    let mut command = app.python("viewer.py");
    command.arg(format!("http://{addr}")).arg(live);
    command.env_remove("TOKEN").env_remove("USER_ID");
    command.env(who.0, who.1);
    let running = Running::start(command);
    (app, running)
}

const U1: (&str, &str) = ("USER_ID", "u1");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_package_has_its_modules_and_says_that_it_has_types() {
    let app = PythonApp::new().await;
    let mut files = BTreeSet::new();
    for entry in std::fs::read_dir(app.package()).unwrap() {
        files.insert(entry.unwrap().file_name().into_string().unwrap());
    }
    let wanted = [
        "__init__.py",
        "client.py",
        "connection.py",
        "messages.py",
        "py.typed",
        "rules.py",
    ];
    assert_eq!(files, BTreeSet::from(wanted.map(str::to_owned)));
    let version = format!("version = \"{}\"", env!("CARGO_PKG_VERSION"));
    let manifest = read("src/clients/python/pyproject.toml");
    assert!(manifest.lines().any(|line| line == version), "{manifest}");
    let module = read("src/clients/python/rollcall/__init__.py");
    assert!(
        module.contains(&version.replace("version", "__version__")),
        "{module}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_types_of_the_package_and_of_its_programs_are_right() {
    let app = PythonApp::new().await;
    app.has("viewer.py", &shown("python"));
    let mut files = vec!["rollcall", "viewer.py"];
    for name in [
        "behaviour.py",
        "fake.py",
        "fields.py",
        "flock.py",
        "rules.py",
        "signing.py",
    ] {
        app.has(name, &read(&format!("tests/clients/programs/{name}")));
        files.push(name);
    }
    app.has_right_types(&files).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_package_keeps_to_the_rules_of_the_document() {
    let app = PythonApp::new().await;
    app.has("rules.py", &read("tests/clients/programs/rules.py"));
    let said = succeeds(app.python("rules.py")).await;
    assert!(said.ends_with("rules hold\n"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_may_rely_on_the_package_where_a_gateway_is_silent_or_refuses() {
    let app = PythonApp::new().await;
    app.has("fake.py", &read("tests/clients/programs/fake.py"));
    let said = succeeds(app.python("fake.py")).await;
    assert!(said.ends_with("all of it holds\n"), "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_app_may_rely_on_the_package() {
    let world = World::on_memory(with_tokens).await;
    let app = PythonApp::new().await;
    for name in ["behaviour.py", "signing.py"] {
        app.has(name, &read(&format!("tests/clients/programs/{name}")));
    }
    let mut program = app.python("behaviour.py");
    program.arg(format!("http://{}", world.addr));
    program.arg(std::str::from_utf8(SECRET).unwrap());
    let said = succeeds(program).await;
    assert!(said.starts_with("all of it holds\n"), "{said}");
}

/// Each message has a type, whose fields are those of the document of the messages: each with the
/// same types of JSON, and demanded where the document demands it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_gateway_says_fits_the_types_of_the_package() {
    let world = World::on_memory(|_| ()).await;
    let document = world.backend().get("/asyncapi.json").await.is(200).body;
    let app = PythonApp::new().await;
    app.has("fields.py", &read("tests/clients/programs/fields.py"));
    let said = succeeds(app.python("fields.py")).await;
    let mut typed: Value = serde_json::from_str(&said).unwrap();
    // What ended while the client was not connected has no figures, and may have had other reasons.
    for figure in ["peak_viewers", "peak_fans", "duration_ms"] {
        let required = &mut typed["closed"][figure]["required"];
        assert_eq!(std::mem::replace(required, json!(true)), false);
    }
    // The client itself adds the live.
    let added = typed["error"].as_object_mut().unwrap().remove("live_id");
    assert_eq!(added, Some(json!({"required": false, "types": ["string"]})));
    let said = document["operations"]["say"]["messages"]
        .as_array()
        .unwrap();
    for reference in said {
        let message = leads_to(&document, leads_to(&document, reference));
        let name = message["name"].as_str().unwrap();
        has_the_fields_of(&document, name, &typed[name], &message["payload"]);
    }
    assert_eq!(said.len(), typed.as_object().unwrap().len());
}

/// What a reference leads to; anything else is what it is.
fn leads_to<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str() {
        Some(reference) => document.pointer(&reference[1..]).unwrap(),
        None => schema,
    }
}

fn has_the_fields_of(document: &Value, name: &str, typed: &Value, schema: &Value) {
    let typed = typed.as_object().unwrap_or_else(|| panic!("{name}"));
    let described = schema["properties"].as_object().unwrap();
    assert_eq!(
        typed.keys().collect::<BTreeSet<_>>(),
        described.keys().collect(),
        "{name}"
    );
    for (field, typed) in typed {
        let at = format!("{name}.{field}");
        let described = &described[field];
        let required = schema["required"].as_array().unwrap();
        assert_eq!(
            typed["required"],
            required.contains(&json!(field)),
            "{at} is demanded"
        );
        let kinds = strings(&typed["types"]);
        assert_eq!(kinds, json_types(document, described), "{at}");
        let described = leads_to(document, described);
        if let Some(values) = typed["values"].as_array() {
            let one = [described["const"].clone()];
            let known = described["enum"].as_array().map_or(&one[..], Vec::as_slice);
            assert_eq!(values, known, "{at}");
        }
        if kinds.contains("object") {
            has_the_fields_of(document, &at, &typed["fields"], described);
        }
    }
}

/// The types of JSON that a schema allows; none if it allows all.
fn json_types<'a>(document: &'a Value, schema: &'a Value) -> BTreeSet<&'a str> {
    let schema = leads_to(document, schema);
    let mut types = BTreeSet::new();
    for either in schema["oneOf"].as_array().into_iter().flatten() {
        types.extend(json_types(document, either));
    }
    match &schema["type"] {
        Value::Array(_) => types.extend(strings(&schema["type"])),
        Value::String(one) => _ = types.insert(one.as_str()),
        _ => {}
    }
    types
}

fn strings(list: &Value) -> BTreeSet<&str> {
    let list = list.as_array().unwrap();
    list.iter().map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn the_program_stays_in_its_live_until_it_is_removed() {
    story(async {
        let world = World::on_memory(|_| ()).await;
        world.open("42").await;
        let link = Link::to(world.addr).await;
        let (_app, mut python) = viewer(link.addr(), "42", U1).await;
        assert_eq!(python.prints("joined").await["viewers"], 1);
        python.prints("heartbeat_ack").await;

        // It comes back over a connection that was lost, and is the same viewer.
        link.cut();
        world.sockets_become("u1", 0).await;
        link.heal();
        world.sockets_become("u1", 1).await;
        assert_eq!(python.prints("heartbeat_ack").await["viewers"], 1);

        world.backend().remove("42", "u1").await.is(200);
        let (status, said) = python.ends().await;
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains("\nclosed removed\n"), "{said}");
    });
}

#[test]
fn the_program_ends_where_another_try_is_of_no_use() {
    story(async {
        let world = World::on_memory(with_tokens).await;
        let token = |seconds| mint(&json!({"sub": "u1", "exp": in_seconds(seconds)}));
        for (token, why) in [
            ("no token", "invalid_token: "),
            ("e30.e30.c2ln", "unauthorized: "),
            // `rollcall token` ends its line.
            (
                &format!(
                    "{}
",
                    token(60)
                ),
                "live_not_open: live 42 is not open",
            ),
        ] {
            let (_app, python) = viewer(world.addr, "42", ("TOKEN", token)).await;
            let (status, said) = python.ends().await;
            let last = said.lines().last().unwrap();
            assert_eq!(
                (status.code(), last.starts_with(why)),
                (Some(1), true),
                "{said}"
            );
        }

        let mut streamer = world.bearer(json!({"sub": "s1", "role": "streamer"})).await;
        streamer.open("42").await;
        let (_app, mut python) = viewer(world.addr, "42", ("TOKEN", &token(60))).await;
        python.prints("joined").await;
        streamer.close_live("42").await;
        let (status, said) = python.ends().await;
        assert!(status.success(), "{status}: {said}");
        assert_eq!(said.lines().last(), Some("closed requested"), "{said}");

        // The gateway accepts a token until 30 s after its end.
        streamer.open("43").await;
        let (_app, mut python) = viewer(world.addr, "43", ("TOKEN", &token(-18))).await;
        python.prints("joined").await;
        let (status, said) = python.ends().await;
        assert_eq!(
            (status.code(), said.lines().last()),
            (Some(1), Some("the token has ended")),
            "{said}"
        );
    });
}

/// Answers each request like a gateway that has no room, and tells when each one came.
async fn refuses_with(retry_after: u64) -> (SocketAddr, tokio::sync::mpsc::Receiver<Instant>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (tell, told) = tokio::sync::mpsc::channel(8);
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let mut request = [0; 4_096];
            let _ = connection.read(&mut request).await;
            let answer = format!(
                "HTTP/1.1 503 Service Unavailable\r\nretry-after: {retry_after}\r\ncontent-length: 0\r\n\
                 connection: close\r\n\r\n"
            );
            let _ = connection.write_all(answer.as_bytes()).await;
            if tell.send(Instant::now()).await.is_err() {
                return;
            }
        }
    });
    (addr, told)
}

#[test]
fn the_program_waits_as_long_as_a_refusal_says() {
    story(async {
        let (addr, mut asked) = refuses_with(2).await;
        let (_app, _python) = viewer(addr, "42", U1).await;
        let mut times = Vec::new();
        for _ in 0..3 {
            let asked = tokio::time::timeout(PATIENCE, asked.recv()).await;
            times.push(asked.expect("it asks again").unwrap());
        }
        for pair in times.windows(2) {
            let waited = pair[1] - pair[0];
            assert!(
                waited >= Duration::from_secs(2),
                "it came back after {waited:?}"
            );
        }
    });
}

type FakeGateway = tokio_tungstenite::WebSocketStream<tokio::net::TcpStream>;

async fn takes_in(listener: &TcpListener) -> FakeGateway {
    let accepted = tokio::time::timeout(2 * PATIENCE, listener.accept()).await;
    let (connection, _) = accepted.expect("the program connects").unwrap();
    tokio_tungstenite::accept_async(connection).await.unwrap()
}

/// The next request of this type.
async fn is_asked(gateway: &mut FakeGateway, kind: &str) -> Value {
    loop {
        let next = tokio::time::timeout(PATIENCE, gateway.next()).await;
        let message = next.expect("it asks").unwrap().unwrap();
        let message: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
        if message["type"] == kind {
            return message;
        }
    }
}

async fn says(gateway: &mut FakeGateway, message: Value) {
    gateway
        .send(Message::text(message.to_string()))
        .await
        .unwrap();
}

#[test]
fn the_program_joins_again_when_the_store_was_away() {
    story(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (_app, mut python) = viewer(listener.local_addr().unwrap(), "42", U1).await;
        let mut gateway = takes_in(&listener).await;
        let asked = is_asked(&mut gateway, "join").await;
        assert_eq!(asked["live_id"], "42");
        let code = "store_unavailable";
        let error = json!({"type": "error", "code": code, "message": "", "id": asked["id"]});
        says(&mut gateway, error).await;
        let asked = is_asked(&mut gateway, "join").await;
        let joined = json!({"type": "joined", "live_id": "42", "viewers": 7, "id": asked["id"]});
        says(&mut gateway, joined).await;
        assert_eq!(python.prints("joined").await["viewers"], 7);
    });
}

#[test]
fn the_program_comes_back_when_a_draining_gateway_asks_for_it() {
    story(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (_app, _python) = viewer(listener.local_addr().unwrap(), "42", U1).await;
        let mut gateway = takes_in(&listener).await;
        is_asked(&mut gateway, "join").await;
        says(
            &mut gateway,
            json!({"type": "reconnect", "after_ms": 1_200}),
        )
        .await;
        let frame = CloseFrame {
            code: CloseCode::from(1_012),
            reason: "drain".into(),
        };
        let told = Instant::now();
        gateway.close(Some(frame)).await.unwrap();
        takes_in(&listener).await;
        assert!(
            told.elapsed() >= Duration::from_millis(1_100),
            "{:?}",
            told.elapsed()
        );
    });
}

/// A proxy may hold a connection open although the gateway is gone.
#[test]
fn the_program_gives_up_a_connection_on_which_nothing_is_answered() {
    story(async {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (_app, _python) = viewer(listener.local_addr().unwrap(), "42", U1).await;
        let mut gateway = takes_in(&listener).await;
        let welcome = json!({"type": "welcome", "heartbeat_ms": 100, "timeout_ms": 300});
        says(&mut gateway, welcome).await;
        is_asked(&mut gateway, "heartbeat").await;
        // Nobody reads the first connection any more.
        let mut second = takes_in(&listener).await;
        is_asked(&mut second, "join").await;
    });
}
