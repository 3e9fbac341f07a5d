//! Every refusal of the HTTP edge: RFC 9457 problem documents, each kind declared once. All
//! handlers and extractors use it, and the OpenAPI document reads the same table. A problem tells
//! clients nothing that only operators should know: the store's own error texts stay in the logs.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use axum::Extension;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::header::HeaderBuilder;
use utoipa::openapi::{
    ContentBuilder, Object, ObjectBuilder, Ref, RefOr, Response as Described, ResponseBuilder,
    Schema, Type,
};

use super::request_id::HttpRequestId;
use crate::base::clock::UnixMillis;
use crate::base::ids::InvalidId;
use crate::edge::credentials::AuthError;
use crate::edge::fields::{FieldError, FieldFault, FieldPlace};
use crate::presence::rules::RunningBan;
use crate::store::StoreError;
use crate::sync::lives::LiveError;
use crate::sync::removals::RemoveError;

pub(crate) const CONTENT_TYPE: &str = "application/problem+json";

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $kind:ident = $status:ident $code:literal $title:literal),* $(,)?) => {
        /// The code is the contract; it is also the end of the problem's `type`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum ProblemKind { $($(#[doc = $doc])* $kind,)* }

        impl ProblemKind {
            pub(crate) fn status(self) -> StatusCode {
                match self { $(Self::$kind => StatusCode::$status),* }
            }

            pub(crate) fn code(self) -> &'static str {
                match self { $(Self::$kind => $code),* }
            }

            pub(crate) fn title(self) -> &'static str {
                match self { $(Self::$kind => $title),* }
            }
        }

        /// Status, code and title of every problem, for the check of the documentation.
        pub const ALL: &[(StatusCode, &str, &str)] = &[$((StatusCode::$status, $code, $title)),*];
    };
}

kinds! {
    BadMessage = BAD_REQUEST "bad_message" "The request's body cannot be understood",
    /// The body or the query has a field that the call does not have, which may be a misspelt one.
    UnknownField = BAD_REQUEST "unknown_field" "The call has no such field",
    InvalidId = BAD_REQUEST "invalid_id" "Not an id",
    InvalidLogin = BAD_REQUEST "invalid_login" "Not a login",
    InvalidCursor = BAD_REQUEST "invalid_cursor" "Not a cursor of this listing",
    InvalidLimit = BAD_REQUEST "invalid_limit" "The limit is out of range",
    InvalidQuery = BAD_REQUEST "invalid_query" "The query cannot be understood",
    /// The header is doubled, empty, too long, or not of visible ASCII characters.
    InvalidIdempotencyKey = BAD_REQUEST "invalid_idempotency_key" "Not an Idempotency-Key",
    InvalidFilter = BAD_REQUEST "invalid_filter" "Not a filter of the log",
    /// The settings of the gateway, or of the live, say that nobody keeps what is asked for.
    NotKept = CONFLICT "not_available" "Not kept, as the settings say",
    /// The header `Host` is missing, doubled, malformed, or not served here.
    BadHost = BAD_REQUEST "bad_host" "The host is not one of this gateway",
    BadHandshake = BAD_REQUEST "bad_handshake" "The WebSocket handshake is broken",
    /// The user id of an upgrade is missing or wrong.
    InvalidUser = UNAUTHORIZED "invalid_id" "Not a user id",
    /// A token or an API key is missing, or it is not good.
    Unauthorized = UNAUTHORIZED "unauthorized" "The credentials are missing or wrong",
    InvalidRole = UNAUTHORIZED "invalid_role" "Not a role",
    /// The caller may not do it, or nobody may, such as removing a streamer from their own live.
    Forbidden = FORBIDDEN "forbidden" "That is not allowed",
    /// A page of this web origin may not connect.
    ForbiddenOrigin = FORBIDDEN "forbidden_origin" "The web origin is not allowed",
    /// A moderator removed the user from the live; the session is over.
    Removed = FORBIDDEN "removed" "The user was removed from the live",
    /// From the live, from all lives of its streamer, or from the platform, and the ban still runs.
    Banned = FORBIDDEN "banned" "The user is banned",
    NotFound = NOT_FOUND "not_found" "Nothing is here",
    /// The live was never opened, or its record has expired.
    LiveNotFound = NOT_FOUND "live_not_found" "The live was never opened",
    /// The user has no profile.
    UserNotFound = NOT_FOUND "user_not_found" "The user has no profile",
    /// The session has ended, or the id is of no session: begin another one.
    SessionUnknown = NOT_FOUND "session_unknown" "There is no such session",
    StreamNotFound = NOT_FOUND "stream_not_found" "The live has no such stream",
    /// The settings have no media server of the name.
    MediaServerNotFound = NOT_FOUND "media_server_not_found" "There is no such media server",
    WebhookNotFound = NOT_FOUND "webhook_not_found" "The settings have no such webhook",
    StatusNotFound = NOT_FOUND "status_not_found" "There is no such announcement",
    /// Another opening of the live was meant, or it was long ago.
    EpochNotFound = NOT_FOUND "epoch_not_found" "Nothing is kept of that opening",
    ErasureNotFound = NOT_FOUND "erasure_not_found" "There is no such erasure",
    MethodNotAllowed = METHOD_NOT_ALLOWED "method_not_allowed" "The method does not fit the path",
    Timeout = REQUEST_TIMEOUT "request_timeout" "The request took too long",
    LiveOwned = CONFLICT "live_owned" "The live belongs to another streamer",
    LiveNotOpen = CONFLICT "live_not_open" "The live is not open",
    LoginTaken = CONFLICT "login_taken" "Another user has the login",
    /// The user has opened too many sockets and sessions; this session was the oldest.
    TooManySessions = CONFLICT "too_many_sessions" "The user has too many sessions",
    /// The same caller sent another request with it within a day.
    IdempotencyKeyReused = CONFLICT "idempotency_key_reused" "The Idempotency-Key came with another request",
    SelfFollow = CONFLICT "self_follow" "Nobody follows themselves",
    /// The live has as many as it may have, or the streamer has, of bans or of moderators.
    TooManyBans = CONFLICT "too_many_bans" "There are too many bans",
    ListFull = CONFLICT "list_full" "The list has too many members",
    /// The erasure of the user runs; until it has ended, nothing about the user changes.
    BeingErased = CONFLICT "being_erased" "The user is being erased",
    /// The files of some keys or certificates; what was read before stays in force.
    BadFiles = CONFLICT "bad_files" "Files of the gateway cannot be used",
    /// What a request with this `Idempotency-Key` made, or its author.
    Erased = GONE "erased" "What the request made was erased",
    BodyTooLarge = PAYLOAD_TOO_LARGE "body_too_large" "The request's body is too large",
    UnsupportedMediaType = UNSUPPORTED_MEDIA_TYPE "unsupported_media_type" "The body is not declared as plain JSON",
    /// The path speaks WebSocket, version 13, over HTTP/1.1 only.
    UpgradeRequired = UPGRADE_REQUIRED "upgrade_required" "This path speaks WebSocket",
    /// The caller's budget of requests is spent.
    RateLimited = TOO_MANY_REQUESTS "rate_limited" "Too many requests",
    /// The client's address has as many sockets as one address may have.
    TooManySockets = TOO_MANY_REQUESTS "too_many_sockets" "The address has too many sockets",
    /// As many users are being erased as may be at a time.
    TooManyErasures = TOO_MANY_REQUESTS "too_many_erasures" "Too many users are being erased",
    Internal = INTERNAL_SERVER_ERROR "internal" "The gateway failed",
    StoreUnavailable = SERVICE_UNAVAILABLE "store_unavailable" "The store does not answer, or refuses",
    /// More clients connect than are admitted at a time.
    Crowded = SERVICE_UNAVAILABLE "crowded" "Too many clients connect at once",
    /// All socket permits are taken.
    Full = SERVICE_UNAVAILABLE "full" "The gateway is full",
    Draining = SERVICE_UNAVAILABLE "draining" "The gateway is about to stop",
}

impl ProblemKind {
    /// The stable URI that names this kind.
    fn uri(self) -> String {
        format!("urn:rollcall:problem:{}", self.code())
    }

    /// The headers that a problem of this kind needs.
    fn headers(self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        match self {
            // A store either comes back within a second, or not soon. Another gateway takes the
            // client of a draining one at once.
            Self::StoreUnavailable | Self::Draining => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            Self::UpgradeRequired => {
                headers.insert(
                    header::SEC_WEBSOCKET_VERSION,
                    HeaderValue::from_static("13"),
                );
                headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
                headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
            }
            _ if self.status() == StatusCode::UNAUTHORIZED => {
                headers.insert(
                    header::WWW_AUTHENTICATE,
                    HeaderValue::from_static("Bearer realm=\"rollcall\""),
                );
            }
            _ => {}
        }
        headers
    }
}

/// After how many seconds a streamer who has too many open lives may try again to open one. The
/// streamer has to close one first.
const OPEN_RETRY_DELAY: u64 = 10;

#[derive(Debug, Clone)]
pub(crate) struct Problem {
    kind: ProblemKind,
    /// In seconds. It overrides the `retry-after` that the kind has.
    retry_after: Option<u64>,
    detail: Cow<'static, str>,
    /// The place in the request that is wrong, if there is exactly one.
    place: Option<FieldPlace>,
    /// The ban of the platform or of the streamer that is why.
    ban: Option<Box<RunningBan>>,
}

/// An RFC 9457 problem document.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub(crate) struct ProblemBody {
    /// A stable URI that names the kind of problem.
    #[schema(example = "urn:rollcall:problem:live_owned")]
    r#type: String,
    /// The same for every problem of this kind.
    #[schema(example = "The live belongs to another streamer")]
    title: &'static str,
    /// The HTTP status.
    #[schema(example = 409)]
    status: u16,
    /// What was wrong this time.
    #[schema(example = "live 42 was opened by another streamer")]
    detail: String,
    /// The kind, for programs.
    #[schema(schema_with = code_schema)]
    code: &'static str,
    /// Which field of the body is wrong, as a JSON Pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "/streamer_id")]
    pointer: Option<String>,
    /// Which field of the query is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "limit")]
    parameter: Option<String>,
    /// When the ban ends that is why, in Unix milliseconds; absent if it has no end.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = u64, required = false)]
    ban_ends_at: Option<UnixMillis>,
    /// Why the user is banned; absent if nobody said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    ban_reason: Option<String>,
    /// The request that was refused, as in the header `x-request-id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false, example = "6f1c3c9e94a54f0e9ad5a7b3c2f1e001")]
    request_id: Option<String>,
}

/// One code may have several statuses.
fn code_schema() -> Schema {
    let codes: BTreeSet<&str> = ALL.iter().map(|(_, code, _)| *code).collect();
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(codes))
        .description(Some("The kind, for programs"))
        .examples([json!("live_owned")])
        .into()
}

impl Problem {
    pub(crate) fn new(kind: ProblemKind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            retry_after: None,
            detail: detail.into(),
            place: None,
            ban: None,
        }
    }

    /// A ban of the platform or of the streamer keeps the user out.
    pub(crate) fn banned(ban: &RunningBan) -> Self {
        Self {
            ban: Some(Box::new(ban.clone())),
            ..Self::new(ProblemKind::Banned, ban.to_string())
        }
    }

    /// The same problem, with the place in the request that is wrong.
    pub(crate) fn at(self, place: FieldPlace) -> Self {
        let detail = format!("{place}: {}", self.detail).into();
        Self {
            detail,
            place: Some(place),
            ..self
        }
    }

    /// A field of the JSON body is wrong.
    pub(crate) fn of_body(error: &FieldError) -> Self {
        Self::of_field(error, ProblemKind::BadMessage, error.in_body())
    }

    /// A field of the query is wrong.
    pub(crate) fn of_query(error: &FieldError) -> Self {
        Self::of_field(error, ProblemKind::InvalidQuery, error.in_query())
    }

    fn of_field(error: &FieldError, otherwise: ProblemKind, place: FieldPlace) -> Self {
        let kind = match error.fault {
            FieldFault::Unknown { .. } => ProblemKind::UnknownField,
            _ => otherwise,
        };
        Self::new(kind, error.fault.to_string()).at(place)
    }

    /// A problem that ends after so many seconds. With a 503 the connection closes, because other
    /// clients need its slot.
    pub(crate) fn later(kind: ProblemKind, seconds: u64, detail: &'static str) -> Self {
        Self {
            retry_after: Some(seconds),
            ..Self::new(kind, detail)
        }
    }

    /// The same problem, which ends after so many seconds.
    pub(crate) fn retry_after(self, seconds: u64) -> Self {
        Self {
            retry_after: Some(seconds),
            ..self
        }
    }

    pub(crate) fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// Writes the id of the request into a problem document. Leaves every other answer as it is.
    pub(crate) fn name_request(response: &mut Response, method: &Method, id: &HttpRequestId) {
        let Some(problem) = response.extensions_mut().remove::<Self>() else {
            return;
        };
        let text = problem.text(Some(id));
        response
            .headers_mut()
            .insert(header::CONTENT_LENGTH, text.len().into());
        if method != Method::HEAD {
            *response.body_mut() = text.into();
        }
    }

    fn text(&self, request: Option<&HttpRequestId>) -> String {
        let Self {
            kind,
            detail,
            place,
            ban,
            ..
        } = self;
        let body = ProblemBody {
            r#type: kind.uri(),
            title: kind.title(),
            status: kind.status().as_u16(),
            detail: detail.clone().into_owned(),
            code: kind.code(),
            pointer: match place {
                Some(FieldPlace::Body(pointer)) => Some(pointer.clone()),
                _ => None,
            },
            parameter: match place {
                Some(FieldPlace::Query(name)) => Some(name.clone()),
                _ => None,
            },
            ban_ends_at: ban.as_ref().and_then(|ban| ban.until),
            ban_reason: ban.as_ref().and_then(|ban| ban.reason.clone()),
            request_id: request.map(ToString::to_string),
        };
        serde_json::to_string(&body).unwrap_or_default()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let kind = self.kind;
        let text = self.text(None);
        let mut headers = kind.headers();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            if kind.status() == StatusCode::SERVICE_UNAVAILABLE {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
        }
        let content = [(header::CONTENT_TYPE, CONTENT_TYPE)];
        // The answer carries the problem as an extension, because only the outer layer knows the id
        // of the request.
        (kind.status(), headers, content, Extension(self), text).into_response()
    }
}

impl From<InvalidId> for Problem {
    fn from(error: InvalidId) -> Self {
        Self::new(ProblemKind::InvalidId, error.to_string())
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        // The store's error may name hosts and keys, so the client learns only its label.
        tracing::debug!(%error, "a request failed in the store");
        Self::new(
            ProblemKind::StoreUnavailable,
            format!("{} ({}); try again", error.for_clients(), error.label()),
        )
    }
}

impl From<LiveError> for Problem {
    fn from(error: LiveError) -> Self {
        let kind = match error {
            LiveError::Store(error) => return error.into(),
            LiveError::NotOpen(_) => ProblemKind::LiveNotOpen,
            LiveError::NeverOpened(_) => ProblemKind::LiveNotFound,
            LiveError::Owned(_) => ProblemKind::LiveOwned,
            LiveError::Banned(ban) => return Self::banned(&ban),
            LiveError::BannedHost(_) => ProblemKind::Banned,
            LiveError::Erased(_) => ProblemKind::BeingErased,
            LiveError::NotByStreamers => ProblemKind::Forbidden,
            LiveError::TooMany(_) | LiveError::TooFast(_) => ProblemKind::RateLimited,
        };
        let retry_after = match error {
            LiveError::TooFast(wait) => Some(wait.as_secs() + 1),
            LiveError::TooMany(_) => Some(OPEN_RETRY_DELAY),
            _ => None,
        };
        Self {
            retry_after,
            ..Self::new(kind, error.to_string())
        }
    }
}

impl From<RemoveError> for Problem {
    fn from(error: RemoveError) -> Self {
        let kind = match error {
            RemoveError::Live(error) => return error.into(),
            RemoveError::Streamer(_) | RemoveError::Host(_) => ProblemKind::Forbidden,
            RemoveError::Full(_) => ProblemKind::TooManyBans,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<AuthError> for Problem {
    fn from(error: AuthError) -> Self {
        let kind = match error {
            AuthError::Query(error) => return Self::of_query(&error),
            AuthError::Count | AuthError::Invisible => ProblemKind::InvalidQuery,
            AuthError::NoUser | AuthError::User(_) => ProblemKind::InvalidUser,
            AuthError::Role | AuthError::GuestRole => ProblemKind::InvalidRole,
            AuthError::MustCount => ProblemKind::Forbidden,
            AuthError::NoToken | AuthError::Token(_) => ProblemKind::Unauthorized,
        };
        Self::new(kind, error.to_string())
    }
}

/// Describes kinds for the OpenAPI document: one response for each status, and in it one example
/// for each code.
pub(crate) fn describe(kinds: &[ProblemKind]) -> BTreeMap<String, RefOr<Described>> {
    let statuses: BTreeSet<StatusCode> = kinds.iter().map(|kind| kind.status()).collect();
    let mut described = BTreeMap::new();
    for status in statuses {
        let mut codes = Vec::new();
        let mut examples = Vec::new();
        for kind in kinds.iter().filter(|kind| kind.status() == status) {
            if codes.contains(&kind.code()) {
                continue;
            }
            let value = json!({
                "type": kind.uri(),
                "title": kind.title(),
                "status": status.as_u16(),
                "detail": "…",
                "code": kind.code(),
            });
            let example = ExampleBuilder::new()
                .summary(kind.title())
                .value(Some(value))
                .build();
            codes.push(kind.code());
            examples.push((kind.code(), example));
        }
        let content = ContentBuilder::new()
            .schema(Some(Ref::from_schema_name("Problem")))
            .examples_from_iter(examples)
            .build();
        let mut response = ResponseBuilder::new()
            .description(codes.join(", "))
            .content(CONTENT_TYPE, content);
        if [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::SERVICE_UNAVAILABLE,
        ]
        .contains(&status)
        {
            let after = HeaderBuilder::new()
                .schema(Some(Object::with_type(Type::Integer)))
                .description(Some("In how many seconds to try again"));
            response = response.header("Retry-After", after.build());
        }
        let response = response.build();
        described.insert(status.as_str().to_owned(), RefOr::T(response));
    }
    described
}

/// Declares the kinds with which an operation may refuse a request, for its `#[utoipa::path]`. Those
/// for a wrong query or body are not named: the routes add them.
macro_rules! refusals {
    ($name:ident = $($kind:ident),+ $(,)?) => {
        /// How this operation refuses.
        struct $name;

        impl utoipa::IntoResponses for $name {
            fn responses() -> std::collections::BTreeMap<
                String,
                utoipa::openapi::RefOr<utoipa::openapi::response::Response>,
            > {
                use $crate::edge::http::problem::ProblemKind;
                let everywhere = [
                    ProblemKind::UnknownField, ProblemKind::BadHost, ProblemKind::Timeout, ProblemKind::Internal,
                ];
                let kinds: Vec<ProblemKind> = [$(ProblemKind::$kind),+].into_iter().chain(everywhere).collect();
                $crate::edge::http::problem::describe(&kinds)
            }
        }
    };
}
pub(crate) use refusals;
