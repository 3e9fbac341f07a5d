//! The messages on the WebSocket, described for programs: the AsyncAPI document that the public port
//! serves. The messages of the gateway are described where they are declared, in
//! `session/messages.rs`, and those of clients here.

use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::routing::get;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::openapi::describe_fields;
use super::state::AppState;
use crate::base::ids::{LiveId, UserId};
use crate::session::close_codes::Close;
use crate::session::messages::ServerMessage;

/// The document without its messages.
const HEAD: &str = include_str!("asyncapi.json");

/// The messages of the gateway that answer no request, so that they have no `id`.
const UNASKED: [&str; 4] = ["welcome", "friends", "you", "reconnect"];

/// The messages of clients. `session/messages.rs` reads them; here is only their description.
#[derive(ToSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(dead_code, reason = "only the schema is used")]
enum ClientMessages {
    /// Join a live
    ///
    /// Answered with `joined`. Joining another live leaves the first.
    #[schema(example = json!({"type": "join", "live_id": "42", "counts": true, "id": 1}))]
    Join {
        live_id: LiveId,
        /// Whether to push `counts` to this viewer, at most one per 2 s.
        counts: Option<bool>,
        /// Whether to push which friends are here.
        friends: Option<bool>,
    },
    /// Say that the client is there
    ///
    /// Answered with `heartbeat_ack`. Any other frame is a heartbeat as well.
    #[schema(example = json!({"type": "heartbeat", "watching": true}))]
    Heartbeat {
        /// Whether the picture plays and can be seen. Whoever has not said so for the timeout is
        /// there and does not watch.
        watching: Option<bool>,
    },
    /// Say that nobody looks
    ///
    /// No answer. The viewer goes on to count.
    #[schema(example = json!({"type": "away"}))]
    Away,
    /// Say that somebody looks again
    ///
    /// No answer.
    #[schema(example = json!({"type": "back"}))]
    Back,
    /// Leave the live
    ///
    /// Answered with `left`.
    #[schema(example = json!({"type": "leave", "id": 2}))]
    Leave,
    /// Watch the counts of a live
    ///
    /// Answered with `counts`, and again on change. For the streamer of the live, and for services.
    #[schema(example = json!({"type": "watch", "live_id": "42"}))]
    Watch { live_id: LiveId },
    /// Stop watching
    ///
    /// Answered with `unwatched`. Without a live: stop watching all.
    #[schema(example = json!({"type": "unwatch", "live_id": "42"}))]
    Unwatch { live_id: Option<LiveId> },
    /// Open a live
    ///
    /// Answered with `opened`. A streamer becomes the owner; a service names one.
    #[schema(example = json!({"type": "open", "live_id": "42", "streamer_id": "s1", "id": "o"}))]
    Open {
        live_id: LiveId,
        streamer_id: Option<UserId>,
        /// Only for services: over how many sets the viewers are spread.
        #[schema(minimum = 1, maximum = 256)]
        slices: Option<u32>,
    },
    /// Close a live
    ///
    /// Answered with `closed`.
    #[schema(example = json!({"type": "close", "live_id": "42", "id": "c"}))]
    Close { live_id: LiveId },
    /// Go on with a new token
    ///
    /// Answered with `refreshed`.
    #[schema(example = json!({"type": "refresh", "token": "eyJhbGciOiJIUzI1NiJ9.e30.c2ln", "id": 4}))]
    Refresh {
        /// For the same user, with a role that is not higher.
        token: String,
    },
}

pub(crate) fn route() -> Router<Arc<AppState>> {
    let content = [(header::CONTENT_TYPE, "application/json")];
    let answer = (content, document().to_string());
    Router::new().route("/asyncapi.json", get(async move || answer))
}

pub(super) fn document() -> Value {
    let mut document: Value = serde_json::from_str(HEAD).unwrap_or_default();
    document["info"]["version"] = json!(env!("CARGO_PKG_VERSION"));
    add_messages::<ClientMessages>(&mut document, "hear");
    add_messages::<ServerMessage<'_>>(&mut document, "say");
    let mut codes: Vec<u16> = Close::ALL.into_iter().filter_map(Close::code).collect();
    codes.sort_unstable();
    document["components"]["schemas"]["CloseCode"] = json!({
        "type": "integer",
        "enum": codes,
        "description": "The codes with which the gateway closes a socket",
    });
    document
}

/// Adds the messages of an operation, each a variant of `T`, and the schemas to which they refer.
fn add_messages<T: ToSchema>(document: &mut Value, operation: &str) {
    let mut operation_messages = Vec::new();
    for variant in json!(T::schema())["oneOf"].as_array().into_iter().flatten() {
        let message = Message::of(variant);
        // Only streams of events have it.
        if message.name == "info" {
            continue;
        }
        let name = camel_case(&message.name);
        document["components"]["messages"][&name] = message.described();
        document["channels"]["socket"]["messages"][&name] =
            json!({"$ref": format!("#/components/messages/{name}")});
        operation_messages.push(json!({"$ref": format!("#/channels/socket/messages/{name}")}));
    }
    document["operations"][operation]["messages"] = Value::Array(operation_messages);
    let mut schemas = Vec::new();
    T::schemas(&mut schemas);
    for (name, mut schema) in schemas {
        describe_fields(&mut schema);
        document["components"]["schemas"][name] = json!(schema);
    }
}

fn camel_case(name: &str) -> String {
    let mut camel_case = String::new();
    for word in name.split('_') {
        let (first, rest) = word.split_at(1);
        camel_case += &first.to_uppercase();
        camel_case += rest;
    }
    camel_case
}

/// A message, gathered from the schema of its variant.
#[derive(Default)]
struct Message {
    name: String,
    /// The title, and after an empty line the summary.
    doc: String,
    required: Vec<Value>,
    properties: Map<String, Value>,
    example: Value,
}

impl Message {
    fn of(variant: &Value) -> Self {
        let mut message = Self::default();
        message.gather(variant);
        if let Some(tag) = message.properties.get("type")
            && let Some(name) = tag["enum"][0].as_str()
        {
            message.name = name.to_owned();
        }
        let tag = json!({"type": "string", "const": message.name});
        message.properties.insert("type".to_owned(), tag);
        if !UNASKED.contains(&message.name.as_str()) {
            let id = json!({
                "type": ["string", "number"],
                "description": "Any id of the request; the answer has the same",
            });
            message.properties.insert("id".to_owned(), id);
        }
        message
    }

    /// Adds what a part of the schema says. What serde flattens is a part of its own.
    fn gather(&mut self, part: &Value) {
        for part in part["allOf"].as_array().into_iter().flatten() {
            self.gather(part);
        }
        if let Some(doc) = part["description"].as_str() {
            self.doc = doc.to_owned();
        }
        if !part["example"].is_null() {
            self.example = part["example"].clone();
        }
        if let Some(required) = part["required"].as_array() {
            self.required.extend_from_slice(required);
        }
        if let Some(properties) = part["properties"].as_object() {
            self.properties.extend(properties.clone());
        }
    }

    fn described(self) -> Value {
        let (title, summary) = self.doc.split_once("\n\n").unwrap_or_default();
        json!({
            "name": self.name,
            "title": title,
            "summary": summary.replace('\n', " "),
            "payload": {
                "type": "object",
                "required": self.required,
                "properties": self.properties,
            },
            "examples": [{"payload": self.example}],
        })
    }
}
