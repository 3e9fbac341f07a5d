//! The extractors of the handlers: ids from the path, fields from the query and JSON from the body.
//! They refuse what they cannot read with a problem document, before a handler runs.

use std::future::Future;
use std::panic::resume_unwind;

use axum::body::{Body, HttpBody};
use axum::extract::path::RawPathParamsIter;
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tracing::Instrument;

use super::problem::{Problem, ProblemKind};
use crate::base::ids::{ErasureId, InvalidId, ListName, LiveId, StreamId, UserId};
use crate::base::media_server::MediaServerName;
use crate::base::webhook_name::WebhookName;
use crate::edge::fields::{FieldPlace, Json, NotJson, from_json, from_query};

/// The largest request body; a useful one has some hundred bytes.
pub(crate) const MAX_BODY: usize = 64 << 10;

/// Ids of the path, percent-decoded and parsed, in the order in which the pattern names them.
pub(crate) struct InPath<T>(pub(crate) T);

/// The parameters of a path, one after the other.
pub(crate) struct PathParams<'a> {
    rest: RawPathParamsIter<'a>,
    /// The name of the parameter that was read last.
    name: &'a str,
}

impl<'a> PathParams<'a> {
    /// The next value. After the last one it is the empty string, which is no id.
    pub(crate) fn next_value(&mut self) -> &'a str {
        let (name, value) = self.rest.next().unwrap_or_default();
        self.name = name;
        value
    }
}

/// What [`InPath`] can read.
pub(crate) trait Ids: Sized {
    fn parse(params: &mut PathParams<'_>) -> Result<Self, InvalidId>;
}

/// A single id of the path.
pub(crate) trait PathId: TryFrom<String, Error = InvalidId> {}

impl PathId for ErasureId {}
impl PathId for ListName {}
impl PathId for LiveId {}
impl PathId for MediaServerName {}
impl PathId for StreamId {}
impl PathId for UserId {}
impl PathId for WebhookName {}

impl<T: PathId> Ids for T {
    fn parse(params: &mut PathParams<'_>) -> Result<Self, InvalidId> {
        Self::try_from(params.next_value().to_owned())
    }
}

impl<A: Ids, B: Ids, C: Ids> Ids for (A, B, C) {
    fn parse(params: &mut PathParams<'_>) -> Result<Self, InvalidId> {
        Ok((A::parse(params)?, B::parse(params)?, C::parse(params)?))
    }
}

impl<A: Ids, B: Ids> Ids for (A, B) {
    fn parse(params: &mut PathParams<'_>) -> Result<Self, InvalidId> {
        Ok((A::parse(params)?, B::parse(params)?))
    }
}

impl<T: Ids, S: Send + Sync> FromRequestParts<S> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|error| Problem::new(ProblemKind::InvalidId, error.body_text()))?;
        let mut params = PathParams {
            rest: params.iter(),
            name: "",
        };
        match T::parse(&mut params) {
            Ok(ids) => Ok(Self(ids)),
            Err(why) => Err(Problem::new(
                ProblemKind::InvalidId,
                format!("{}, in the path: {why}", params.name),
            )),
        }
    }
}

/// The fields of the query that `T` has. The routes refuse a field that the call does not have.
pub(crate) struct InQuery<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for InQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        from_query(&parts.uri)
            .map(Self)
            .map_err(|error| Problem::of_query(&error))
    }
}

/// Names the field of the query in the problem, if its value is no id.
pub(crate) fn in_query<T>(field: &str, read: Result<T, InvalidId>) -> Result<T, Problem> {
    read.map_err(|why| Problem::from(why).at(FieldPlace::Query(field.to_owned())))
}

/// Names the field of the body in the problem, if its value is no id.
pub(crate) fn in_body<T>(field: &str, read: Result<T, InvalidId>) -> Result<T, Problem> {
    read.map_err(|why| Problem::from(why).at(FieldPlace::field(field)))
}

/// A JSON object that has only fields of `T`, and none of them twice.
pub(crate) struct JsonObject<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonObject<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let JsonText(text) = JsonText::from_request(request, state).await?;
        object(&text).map(Self)
    }
}

/// As [`JsonObject`], but the default if there is no body or the body is `null`.
pub(crate) struct MaybeObject<T>(pub(crate) T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for MaybeObject<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let is_json = is_json(request.headers());
        let text = body(request, state).await?;
        match text.trim_ascii() {
            b"" | b"null" => Ok(Self(T::default())),
            _ if !is_json => Err(not_declared()),
            _ => object(&text).map(Self),
        }
    }
}

/// A body that the client declared as JSON. The extractor does not parse it.
pub(crate) struct JsonText(pub(crate) Bytes);

impl<S: Send + Sync> FromRequest<S> for JsonText {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(not_declared());
        }
        body(request, state).await.map(Self)
    }
}

/// Parses any JSON in which no object has a field twice.
pub(crate) fn json(text: &[u8]) -> Result<Json, Problem> {
    let json = parse(text)?;
    json.check_fields()
        .map_err(|error| Problem::of_body(&error))?;
    Ok(json)
}

/// Parses any JSON. Does not check whether an object has a field twice.
fn parse(text: &[u8]) -> Result<Json, Problem> {
    Json::parse(text).map_err(|NotJson { line, column }| {
        let detail =
            format!("the body is no JSON that can be read; look at line {line}, column {column}");
        Problem::new(ProblemKind::BadMessage, detail)
    })
}

pub(crate) fn object<T: DeserializeOwned>(text: &[u8]) -> Result<T, Problem> {
    let json = parse(text)?;
    if !matches!(json, Json::Object(_)) {
        return Err(Problem::new(
            ProblemKind::BadMessage,
            format!("the body must be a JSON object, not {}", json.kind()),
        ));
    }
    from_json(&json).map_err(|error| Problem::of_body(&error))
}

/// Checks the body of a call that has no fields: it may be absent, or an empty object. A field in it
/// is a mistake of the caller, who expects the call to use it.
pub(crate) async fn without_fields(request: Request) -> Result<Request, Problem> {
    let (parts, body) = request.into_parts();
    if body.is_end_stream() {
        return Ok(Request::from_parts(parts, body));
    }
    let text = self::body(Request::from_parts(parts.clone(), body), &()).await?;
    match text.trim_ascii() {
        b"" | b"null" => {}
        text if is_json(&parts.headers) => {
            let Nothing {} = object(text)?;
        }
        _ => {
            return Err(Problem::new(
                ProblemKind::BadMessage,
                "this call has no body; leave it out",
            ));
        }
    }
    Ok(Request::from_parts(parts, Body::empty()))
}

#[derive(Deserialize)]
struct Nothing {}

/// The largest body that a call takes, in bytes. The routes add it to the extensions of requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MaxBody(pub(crate) u64);

pub(crate) async fn body<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Problem> {
    // Reading the body of a client that asks first (Expect: 100-continue) would tell it to go on.
    if let Some(MaxBody(max)) = request.extensions().get::<MaxBody>()
        && request.body().size_hint().lower() > *max
    {
        return Err(too_large());
    }
    Bytes::from_request(request, state)
        .await
        .map_err(|why| match why.status() {
            StatusCode::PAYLOAD_TOO_LARGE => too_large(),
            _ => Problem::new(ProblemKind::BadMessage, "the body ended too early"),
        })
}

fn too_large() -> Problem {
    Problem::new(
        ProblemKind::BodyTooLarge,
        "the body is larger than this call takes",
    )
}

/// Whether the content type is `application/json`, or ends in `+json`, with or without a charset.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(declared) = headers.get(header::CONTENT_TYPE) else {
        return false;
    };
    let Ok(declared) = declared.to_str() else {
        return false;
    };
    let kind = declared
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

fn not_declared() -> Problem {
    Problem::new(
        ProblemKind::UnsupportedMediaType,
        "send the body with Content-Type: application/json",
    )
}

/// Refuses a body that is compressed, as the gateway would have to unpack it first.
pub(crate) fn check_encoding(request: &Request) -> Result<(), Problem> {
    let mut encodings = request.headers().get_all(header::CONTENT_ENCODING).iter();
    let is_plain = encodings.all(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"identity"));
    if is_plain || request.body().is_end_stream() {
        return Ok(());
    }
    Err(Problem::new(
        ProblemKind::UnsupportedMediaType,
        "send the body as it is, without Content-Encoding",
    ))
}

/// Runs a change to its end even if the client hangs up meanwhile.
///
/// The end of a connection drops the handler. Half a change, in the store but not in the rooms,
/// would be worse than a change whose answer nobody reads. (Opening and closing a live need no such
/// help.)
pub(crate) async fn run_to_completion<T: Send + 'static>(
    change: impl Future<Output = T> + Send + 'static,
) -> T {
    match tokio::spawn(change.in_current_span()).await {
        Ok(answer) => answer,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        // Cancelled: the runtime shuts down, and this handler with it.
        Err(_) => std::future::pending().await,
    }
}
