//! The parts of the OpenAPI document that do not come from the handlers: its head, the schemas of
//! ids, and who may call a route. The document cannot differ from the routes that a port serves.

use std::collections::BTreeSet;
use std::collections::btree_map::Entry;
use std::mem;

use serde_json::{Map, Value};
use utoipa::openapi::path::{Operation, Paths};
use utoipa::openapi::schema::{AdditionalProperties, ArrayItems, Object, SchemaType};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, Http, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{ObjectBuilder, PathItem, Ref, RefOr, Response, Schema, Type};
use utoipa::{Modify, OpenApi, PartialSchema, ToSchema};

use super::authorization::Accepts;
use super::known_fields::query_fields;
use super::problem::{ProblemBody, ProblemKind, describe};
use crate::auth::permissions::{Action, Caller, Permission, permission, scope};
use crate::base::identity::Role;
use crate::base::ids::{ErasureId, ListName, LiveId, Login, StreamId, UserId};
use crate::base::media_server::MediaServerName;
use crate::base::webhook_name::WebhookName;

/// Title, tags, and the schemas that no handler names as its answer.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "Rollcall",
        description = "Who is in the room now: the HTTP API of a live-stream presence gateway, for back ends. \
            Errors are RFC 9457 problem documents; `code` says which. Times are Unix milliseconds. \
            Lists answer `{\"items\":[…],\"cursor\":…}`: pass the cursor on until it is null.",
    ),
    servers((url = "/", description = "The gateway that answers")),
    components(schemas(
        ProblemBody, ErasureId, ListName, LiveId, Login, MediaServerName, StreamId, UserId, WebhookName,
    )),
    modifiers(&Credentials),
    tags(
        (name = "lives", description = "Live-stream sessions: open, close, look, list"),
        (name = "fans", description = "Fans who are online in a live"),
        (name = "attendance", description = "Which fans came to which lives, and who was there from when to when"),
        (name = "moderation", description = "Remove users from a live, and ban them"),
        (name = "webhooks", description = "Receivers of events: how they stand, tests, replays"),
        (name = "media", description = "Media servers, whose streams open and close lives"),
        (name = "follows", description = "The follow graph"),
        (name = "users", description = "Profiles, and what else is known of a user"),
        (name = "feeds", description = "What users tell those who follow them: lives on air, and announcements"),
        (name = "online", description = "Who is online on the platform, and who was"),
        (name = "presence", description = "Sessions of viewers who cannot keep a WebSocket open"),
        (name = "socket", description = "The WebSocket"),
        (name = "operations", description = "Probes, metrics, and what this gateway holds"),
    )
)]
pub(crate) struct DocumentHead;

const API_KEY: &str = "api_key";
const TOKEN: &str = "token";
const SESSION: &str = "session";

/// Where the document describes the WebSocket, which is no operation of OpenAPI.
pub(crate) const WEBSOCKET: &str = "x-websocket";

/// What a reference to a schema begins with.
const SCHEMAS: &str = "#/components/schemas/";

struct Credentials;

impl Modify for Credentials {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        let key = bearer("An API key of `--api-keys`; a route names the scope that the key needs");
        components.add_security_scheme(API_KEY, SecurityScheme::Http(key));
        let mut token = bearer("A token; a route names the roles that may call it");
        token.bearer_format = Some("JWT".to_owned());
        components.add_security_scheme(TOKEN, SecurityScheme::Http(token));
        let id = ApiKeyValue::with_description(
            "Authorization",
            "`Presence` and the `session_id` of a session without a WebSocket",
        );
        components.add_security_scheme(SESSION, SecurityScheme::ApiKey(ApiKey::Header(id)));
    }
}

fn bearer(description: &str) -> Http {
    HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(description))
        .build()
}

/// Adds to operations who may call them, and how they refuse everybody else.
pub(crate) fn describe_callers(paths: &mut Paths, action: Action, accepts: Accepts) {
    let mut security = Vec::new();
    if accepts == Accepts::KeysAndTokens
        && let Some(scope) = scope(action)
    {
        security.push(SecurityRequirement::new(API_KEY, [scope.as_str()]));
    }
    let roles = [Role::Viewer, Role::Streamer, Role::Service]
        .into_iter()
        .filter(|role| permission(Caller::Role(*role), action) != Permission::No)
        .map(Role::as_str);
    security.push(SecurityRequirement::new(TOKEN, roles));
    let refusals = describe(&[
        ProblemKind::Unauthorized,
        ProblemKind::Forbidden,
        ProblemKind::RateLimited,
    ]);
    for operation in paths.paths.values_mut().flat_map(operations) {
        operation.security = Some(security.clone());
        for (status, refusal) in &refusals {
            operation
                .responses
                .responses
                .entry(status.clone())
                .or_insert_with(|| refusal.clone());
        }
    }
}

/// Adds to operations how they refuse a query or a body that is wrong.
pub(crate) fn describe_requests(paths: &mut Paths) {
    for operation in paths.paths.values_mut().flat_map(operations) {
        let mut kinds = Vec::new();
        if operation.request_body.is_some() {
            kinds.extend([
                ProblemKind::BadMessage,
                ProblemKind::BodyTooLarge,
                ProblemKind::UnsupportedMediaType,
            ]);
        }
        let query = query_fields(operation);
        if query.iter().any(|name| name == "cursor") {
            kinds.extend([ProblemKind::InvalidCursor, ProblemKind::InvalidLimit]);
        }
        if !query.is_empty() {
            kinds.push(ProblemKind::InvalidQuery);
        }
        for (status, refusal) in describe(&kinds) {
            match operation.responses.responses.entry(status) {
                Entry::Occupied(mut known) => add_codes(known.get_mut(), refusal),
                Entry::Vacant(place) => {
                    place.insert(refusal);
                }
            }
        }
    }
}

/// Adds the codes of a refusal to those that an operation has with the same status.
fn add_codes(known: &mut RefOr<Response>, refusal: RefOr<Response>) {
    let (RefOr::T(known), RefOr::T(refusal)) = (known, refusal) else {
        return;
    };
    known.description = format!("{}, {}", known.description, refusal.description);
    for (content_type, content) in refusal.content {
        if let Some(RefOr::T(known)) = known.content.get_mut(&content_type)
            && let RefOr::T(content) = content
        {
            known.examples.extend(content.examples);
        }
    }
}

/// Adds to every operation the refusal of the listener, which answers before any layer sees the
/// request.
pub(crate) fn describe_listener(document: &mut utoipa::openapi::OpenApi) {
    let too_large =
        Response::new("The request line and the headers are larger than 8 KiB; no body");
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        operation
            .responses
            .responses
            .insert("431".to_owned(), RefOr::T(too_large.clone()));
    }
}

/// Says of the bodies of requests that they have no other fields: a field that is not described is
/// refused, because it may be a misspelt one. Of answers it says that a field which may be null is
/// always there: a field of an answer is null or left out, never both.
pub(crate) fn close_schemas(document: &mut utoipa::openapi::OpenApi) {
    let bodies = bodies(document);
    let components = document.components.get_or_insert_default();
    for (name, schema) in &mut components.schemas {
        let is_body = bodies.contains(name);
        match schema {
            RefOr::T(Schema::Object(body)) if is_body => {
                body.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(false)));
            }
            RefOr::T(Schema::Object(answer)) => require_nullable(answer),
            RefOr::T(Schema::AllOf(parts)) => {
                for part in &mut parts.items {
                    if let RefOr::T(Schema::Object(answer)) = part {
                        require_nullable(answer);
                    }
                }
            }
            _ => {}
        }
    }
}

/// The names of the schemas of the bodies of requests.
fn bodies(document: &mut utoipa::openapi::OpenApi) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for operation in document.paths.paths.values_mut().flat_map(operations) {
        let Some(RefOr::T(body)) = &operation.request_body else {
            continue;
        };
        for content in body.content.values() {
            let RefOr::T(content) = content else {
                continue;
            };
            match &content.schema {
                // A body that may be left out.
                Some(RefOr::T(Schema::OneOf(either))) => {
                    names.extend(either.items.iter().filter_map(name_of));
                }
                Some(schema) => names.extend(name_of(schema)),
                None => {}
            }
        }
    }
    names
}

fn require_nullable(answer: &mut Object) {
    for (name, field) in &answer.properties {
        if is_nullable(field) && !answer.required.contains(name) {
            answer.required.push(name.clone());
        }
    }
}

fn is_nullable(field: &RefOr<Schema>) -> bool {
    match field {
        RefOr::T(Schema::Object(field)) => match &field.schema_type {
            SchemaType::Type(kind) => *kind == Type::Null,
            SchemaType::Array(kinds) => kinds.contains(&Type::Null),
            SchemaType::AnyValue => false,
        },
        RefOr::T(Schema::OneOf(either)) => either.items.iter().any(is_nullable),
        _ => false,
    }
}

/// The name of a schema that is only referred to.
fn name_of(schema: &RefOr<Schema>) -> Option<String> {
    let RefOr::Ref(schema) = schema else {
        return None;
    };
    let (_, name) = schema.ref_location.rsplit_once('/')?;
    Some(name.to_owned())
}

/// Puts the description of a field beside its schema, where utoipa has made both out to be two
/// schemas that the field has to fit.
pub(crate) fn describe_fields(schema: &mut RefOr<Schema>) {
    let RefOr::T(Schema::Object(object)) = schema else {
        return;
    };
    for field in object.properties.values_mut() {
        let RefOr::T(Schema::AllOf(both)) = field else {
            continue;
        };
        if let [
            RefOr::T(Schema::Object(kind)),
            RefOr::T(Schema::Object(text)),
        ] = both.items.as_slice()
            && text.properties.is_empty()
        {
            let mut described = kind.clone();
            described.description = text.description.clone().or(described.description);
            *field = RefOr::T(Schema::Object(described));
        }
    }
}

/// Gives the items of pages a name where utoipa spells them out. Programs that are generated from
/// the document then have one type for an item, whichever list it is in.
pub(crate) fn name_items(document: &mut utoipa::openapi::OpenApi) {
    let components = document.components.get_or_insert_default();
    let mut named = Vec::new();
    for (page, schema) in &mut components.schemas {
        let Some((_, item)) = page.split_once("Page_") else {
            continue;
        };
        let RefOr::T(Schema::Object(page)) = schema else {
            continue;
        };
        let Some(RefOr::T(Schema::Array(list))) = page.properties.get_mut("items") else {
            continue;
        };
        if let ArrayItems::RefOrSchema(schema) = &mut list.items
            && matches!(**schema, RefOr::T(_))
        {
            let spelled_out = mem::replace(&mut **schema, RefOr::Ref(Ref::from_schema_name(item)));
            named.push((item.to_owned(), spelled_out));
        }
    }
    for (name, schema) in named {
        components.schemas.entry(name).or_insert(schema);
    }
}

/// Leaves out the tags, schemas and kinds of credentials that nothing in the document uses, so that
/// the document of a port is about what that port serves.
pub(crate) fn drop_unused(document: &mut utoipa::openapi::OpenApi) {
    let Ok(whole) = serde_json::to_value(&*document) else {
        return;
    };
    let used = Used::of(&whole);
    if let Some(tags) = &mut document.tags {
        tags.retain(|tag| used.tags.contains(&tag.name));
    }
    let components = document.components.get_or_insert_default();
    let credentials = &mut components.security_schemes;
    credentials.retain(|name, _| used.credentials.contains(name));
    let schemas = &mut components.schemas;
    schemas.retain(|name, _| used.schemas.contains(name));
}

/// Names of things that the operations of a document use.
#[derive(Default)]
struct Used {
    tags: BTreeSet<String>,
    credentials: BTreeSet<String>,
    schemas: BTreeSet<String>,
}

impl Used {
    fn of(whole: &Value) -> Self {
        let mut used = Self::default();
        for paths in [&whole["paths"], &whole[WEBSOCKET]] {
            for item in paths.as_object().into_iter().flat_map(Map::values) {
                for operation in item.as_object().into_iter().flat_map(Map::values) {
                    used.note_operation(operation);
                }
            }
            used.note_schemas(paths, &whole["components"]["schemas"]);
        }
        used
    }

    fn note_operation(&mut self, operation: &Value) {
        for tag in operation["tags"].as_array().into_iter().flatten() {
            self.tags.extend(tag.as_str().map(str::to_owned));
        }
        for either in operation["security"].as_array().into_iter().flatten() {
            let names = either.as_object().into_iter().flat_map(Map::keys);
            self.credentials.extend(names.cloned());
        }
    }

    /// Notes the schemas to which this part of the document refers, and those to which they refer.
    fn note_schemas(&mut self, part: &Value, all: &Value) {
        match part {
            Value::Array(parts) => {
                for part in parts {
                    self.note_schemas(part, all);
                }
            }
            Value::Object(fields) => {
                let reference = fields.get("$ref").and_then(Value::as_str);
                if let Some(name) = reference.and_then(|to| to.strip_prefix(SCHEMAS))
                    && self.schemas.insert(name.to_owned())
                {
                    self.note_schemas(&all[name], all);
                }
                for part in fields.values() {
                    self.note_schemas(part, all);
                }
            }
            _ => {}
        }
    }
}

/// The operations of a path.
fn operations(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    let all = [
        &mut item.get,
        &mut item.put,
        &mut item.post,
        &mut item.delete,
        &mut item.patch,
    ];
    all.into_iter().flatten()
}

/// The pattern of ids of users, and of logins.
const USER: &str = r"^(?!\.{1,2}$)[A-Za-z0-9_.:@-]{1,64}$";

pub(crate) fn id(pattern: &str, description: &str, example: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(pattern))
        .description(Some(description))
        .examples([example])
        .into()
}

impl PartialSchema for LiveId {
    fn schema() -> RefOr<Schema> {
        let description = "1 to 64 letters, digits, `_`, `.`, `-`; not `.`, `..`, or `_slice` and digits at the end";
        id(
            r"^(?!\.{1,2}$)(?!.*_slice[0-9]+$)[A-Za-z0-9_.-]{1,64}$",
            description,
            "42",
        )
    }
}

impl ToSchema for LiveId {}

impl PartialSchema for UserId {
    fn schema() -> RefOr<Schema> {
        id(
            USER,
            "1 to 64 letters, digits, `_`, `.`, `:`, `@`, `-`; not `.` or `..`",
            "u1",
        )
    }
}

impl ToSchema for UserId {}

impl PartialSchema for Login {
    fn schema() -> RefOr<Schema> {
        id(
            USER,
            "1 to 64 letters, digits, `_`, `.`, `:`, `@`, `-`; not `.` or `..`",
            "ann",
        )
    }
}

impl ToSchema for Login {}

impl PartialSchema for ListName {
    fn schema() -> RefOr<Schema> {
        id(
            r"^(?!\.{1,2}$)[A-Za-z0-9_.-]{1,64}$",
            "1 to 64 letters, digits, `_`, `.`, `-`; not `.` or `..`",
            "cooks",
        )
    }
}

impl ToSchema for ListName {}

impl PartialSchema for ErasureId {
    fn schema() -> RefOr<Schema> {
        id(
            r"^(?!\.{1,2}$)[A-Za-z0-9_.-]{1,64}$",
            "Names an erasure: what it was answered with when it was asked for",
            "er-5m2zkq3wvtcohxya",
        )
    }
}

impl ToSchema for ErasureId {}

impl PartialSchema for StreamId {
    fn schema() -> RefOr<Schema> {
        id(
            r"^(?!\.{1,2}$)[A-Za-z0-9_.-]{1,64}$",
            "Names a session of a media server: what the list of streams says",
            "1f0c2a9be7d45f10",
        )
    }
}

impl ToSchema for StreamId {}

impl PartialSchema for MediaServerName {
    fn schema() -> RefOr<Schema> {
        let description = "The name of a media server in the settings file: 1 to 32 of `a-z 0-9 -`";
        id(r"^[a-z0-9-]{1,32}$", description, "main")
    }
}

impl ToSchema for MediaServerName {}

impl PartialSchema for WebhookName {
    fn schema() -> RefOr<Schema> {
        let description = "The name of a webhook in the settings: 1 to 32 of `a-z 0-9 -`";
        id(r"^[a-z0-9-]{1,32}$", description, "crm")
    }
}

impl ToSchema for WebhookName {}
