//! The AsyncAPI document, held against the messages that the gateway reads, and against the types of
//! the client.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::Request;
use serde_json::{Map, Value, json};

use super::schemas::Schemas;
use super::world::{World, answer};
use crate::base::ids::{Epoch, LiveId};
use crate::edge::http::asyncapi::document;
use crate::edge::http::routes::{admin, public};
use crate::presence::figures::Quality;
use crate::presence::room_stream::{OnAir, ShownStream};
use crate::session::messages::{
    ClientMessage, CountsMessage, ErrorCode, InfoTold, ServerMessage, parse,
};
use crate::store::{CloseReason, Info};

const TYPES: &str = include_str!("../../../clients/javascript/rollcall.d.ts");

struct Document(Value);

impl Document {
    /// What a reference in the document leads to.
    fn at(&self, reference: &Value) -> &Value {
        Schemas(&self.0).at(reference)
    }

    /// The messages of an operation.
    fn messages(&self, operation: &str) -> Vec<&Value> {
        let mut messages = Vec::new();
        let listed = self.0["operations"][operation]["messages"].as_array();
        for reference in listed.unwrap() {
            messages.push(self.at(self.at(reference)));
        }
        messages
    }

    fn check<'a>(&'a self, schema: &'a Value, value: &Value) -> Result<(), String> {
        Schemas(&self.0).check(schema, value)
    }
}

fn name_of(message: &Value) -> String {
    message["name"].as_str().unwrap().to_owned()
}

fn required(schema: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for name in schema["required"].as_array().into_iter().flatten() {
        names.insert(name.as_str().unwrap().to_owned());
    }
    names
}

fn example_of(message: &Value) -> Map<String, Value> {
    let example = &message["examples"][0]["payload"];
    example.as_object().unwrap().clone()
}

/// The name of a message on the wire. A new message does not compile until it stands here.
fn name_of_client_message(message: &ClientMessage) -> &'static str {
    match message {
        ClientMessage::Join(_) => "join",
        ClientMessage::Heartbeat { .. } => "heartbeat",
        ClientMessage::Away => "away",
        ClientMessage::Back => "back",
        ClientMessage::Leave => "leave",
        ClientMessage::Watch(_) => "watch",
        ClientMessage::Unwatch(_) => "unwatch",
        ClientMessage::Open { .. } => "open",
        ClientMessage::Close(_) => "close",
        ClientMessage::Refresh(_) => "refresh",
    }
}

#[test]
fn every_client_message_is_described_and_read() {
    let document = Document(document());
    let mut read = BTreeSet::new();
    for message in document.messages("hear") {
        let name = name_of(message);
        let schema = &message["payload"];
        let example = example_of(message);
        let text = json!(example).to_string();
        document.check(schema, &json!(example)).unwrap();
        let request = parse(&text)
            .1
            .unwrap_or_else(|why| panic!("{text}: {why:?}"));
        assert_eq!(name_of_client_message(&request), name, "{text}");
        read.insert(name_of_client_message(&request));
        for missing in required(schema) {
            let mut lacking = example.clone();
            lacking.remove(&missing);
            let refused = parse(&json!(lacking).to_string()).1.expect_err(&missing);
            assert_eq!(
                refused.code,
                ErrorCode::BadMessage,
                "{name} without {missing}"
            );
        }
        // The gateway looks at each field that is described.
        for field in schema["properties"].as_object().unwrap().keys() {
            let mut wrong = example.clone();
            wrong.insert(field.clone(), json!({"no": "such"}));
            let refused = parse(&json!(wrong).to_string()).1.expect_err(field);
            assert_eq!(refused.code, ErrorCode::BadMessage, "{field} of {name}");
        }
    }
    // As many as `name_of_client_message` knows.
    assert_eq!(read.len(), 10, "{read:?}");
}

#[test]
fn the_examples_of_what_the_gateway_says_fit_their_schemas() {
    let document = Document(document());
    let messages = document.messages("say");
    assert_eq!(messages.len(), 13);
    for message in messages {
        let example = json!(example_of(message));
        assert_eq!(example["type"], message["name"]);
        if let Err(why) = document.check(&message["payload"], &example) {
            panic!("{example}: {why}");
        }
    }
}

/// Those whose schemas are put together of several types, or may have nothing in a field.
#[test]
fn messages_with_everything_and_with_nothing_fit_their_schemas() {
    let document = Document(document());
    let live = LiveId::parse("42").unwrap();
    let info = Info {
        version: 7,
        json: Some(r#"{"pinned":"Hello"}"#.into()),
    };
    let everything = ServerMessage::Counts(CountsMessage {
        live_id: &live,
        epoch: Epoch(3),
        seq: 17,
        viewers: 10,
        fans: 3,
        peak_viewers: 12,
        peak_fans: 5,
        opened_at: 1_732_000_000_000,
        as_of: 1_732_000_000_123,
        quality: Quality::Exact,
        away: 0,
        watching: 0,
        confirmed: 0,
        guests: 2,
        joins: 14,
        leaves: 4,
        stream: Some(ShownStream {
            state: OnAir::Lost,
            began_at: 1_732_000_000_000,
            closes_at: Some(1_732_000_060_000),
        }),
        told: Some(InfoTold::of(&info)),
    });
    let nothing = ServerMessage::HeartbeatAck {
        live_id: None,
        fan: None,
        viewers: None,
        fans: None,
        guests: None,
        heartbeat_ms: 5_000,
        told: None,
    };
    for sent in [everything, nothing] {
        let value: Value = serde_json::from_str(sent.text(None).as_str()).unwrap();
        let described = document.messages("say");
        let described = described
            .into_iter()
            .find(|message| message["name"] == value["type"]);
        if let Err(why) = document.check(&described.unwrap()["payload"], &value) {
            panic!("{value}: {why}");
        }
    }
}

#[test]
fn the_codes_and_reasons_are_those_of_the_gateway() {
    let schemas = &document()["components"]["schemas"];
    assert_eq!(
        schemas["ErrorCode"]["enum"],
        json!(ErrorCode::ALL.map(ErrorCode::as_str))
    );
    for reason in schemas["CloseReason"]["enum"].as_array().unwrap() {
        assert!(CloseReason::from_word(reason.as_str().unwrap()).is_some());
    }
}

/// The fields that the types of the client give to a message; `None` if they do not have it.
fn typed_fields(name: &str) -> Option<BTreeSet<String>> {
    let at = TYPES.find(&format!("type: \"{name}\""))?;
    let begin = TYPES[..at].rfind('{')?;
    let end = at + TYPES[at..].find('}')?;
    let mut fields = BTreeSet::new();
    for field in TYPES[begin + 1..end].split([';', '\n']) {
        if let Some((name, _)) = field.split_once(':')
            && !field.trim_start().starts_with(['/', '*'])
        {
            fields.insert(name.trim().trim_end_matches('?').to_owned());
        }
    }
    let head = TYPES[..begin].rsplit('\n').next()?;
    if head.contains("Info") {
        fields.extend(["info".to_owned(), "info_version".to_owned()]);
    }
    if head.contains("Answer") {
        fields.insert("id".to_owned());
    }
    Some(fields)
}

#[test]
fn the_types_of_the_client_have_every_field_that_is_sent() {
    let document = Document(document());
    for message in document.messages("say") {
        let name = name_of(message);
        let mut typed = typed_fields(&name).unwrap_or_else(|| panic!("{name} has no type"));
        // The client itself adds what is known of the request.
        if name == "error" {
            assert!(typed.remove("live_id") && typed.remove("retry_after_ms"));
        }
        let sent = message["payload"]["properties"].as_object().unwrap();
        let sent: BTreeSet<String> = sent.keys().cloned().collect();
        assert_eq!(typed, sent, "{name}");
    }
}

#[tokio::test]
async fn the_port_of_the_socket_serves_the_document_with_all_fields_of_its_query() {
    let world = World::new();
    let get = || Request::get("/asyncapi.json").body(Body::empty()).unwrap();
    let served = answer(&public(&world.app, false), get()).await;
    assert_eq!(served.header("content-type"), "application/json");
    assert_eq!(served.is(200), document());
    answer(&admin(&world.app), get())
        .await
        .is_problem(404, "not_found");
    let query = served.json()["channels"]["socket"]["bindings"]["ws"]["query"].clone();
    let described: BTreeSet<String> = query["properties"]
        .as_object()
        .unwrap()
        .keys()
        .cloned()
        .collect();
    let openapi = world.get("/openapi.json").await.is(200);
    let mut taken = BTreeSet::new();
    for parameter in openapi["x-websocket"]["/ws"]["get"]["parameters"]
        .as_array()
        .unwrap()
    {
        if parameter["in"] == "query" {
            taken.insert(parameter["name"].as_str().unwrap().to_owned());
        }
    }
    assert_eq!(described, taken);
}
