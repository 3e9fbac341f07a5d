//! The extractors of the handlers: ids from the path, fields from the query and JSON from the body.
//! They refuse what they cannot read with a problem document, before a handler runs.

use std::future::Future;
use std::panic::resume_unwind;

use axum::body::{Body, HttpBody};
use axum::extract::{FromRequest, FromRequestParts, RawPathParams, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tracing::Instrument;

use super::problem::{Kind, Problem};
use crate::base::ids::{InvalidId, ListName, LiveId, UserId};
use crate::edge::fields::{Json, NotJson, Place, from_json, from_query};
use crate::store::StatusId;

/// Ids of the path, percent-decoded and parsed, in the order in which the pattern names them.
pub(crate) struct InPath<T>(pub(crate) T);

/// What [`InPath`] can read.
pub(crate) trait Ids: Sized {
    fn parse<'a>(next: impl FnMut() -> &'a str) -> Result<Self, InvalidId>;
}

impl Ids for LiveId {
    fn parse<'a>(mut next: impl FnMut() -> &'a str) -> Result<Self, InvalidId> {
        Self::parse(next())
    }
}

impl Ids for UserId {
    fn parse<'a>(mut next: impl FnMut() -> &'a str) -> Result<Self, InvalidId> {
        Self::parse(next())
    }
}

impl Ids for ListName {
    fn parse<'a>(mut next: impl FnMut() -> &'a str) -> Result<Self, InvalidId> {
        Self::parse(next())
    }
}

impl Ids for StatusId {
    fn parse<'a>(mut next: impl FnMut() -> &'a str) -> Result<Self, InvalidId> {
        Self::parse(next()).ok_or(InvalidId::Alphabet)
    }
}

impl<A: Ids, B: Ids, C: Ids> Ids for (A, B, C) {
    fn parse<'a>(mut next: impl FnMut() -> &'a str) -> Result<Self, InvalidId> {
        Ok((
            A::parse(&mut next)?,
            B::parse(&mut next)?,
            C::parse(&mut next)?,
        ))
    }
}

impl<A: Ids, B: Ids> Ids for (A, B) {
    fn parse<'a>(mut next: impl FnMut() -> &'a str) -> Result<Self, InvalidId> {
        Ok((A::parse(&mut next)?, B::parse(&mut next)?))
    }
}

impl<T: Ids, S: Send + Sync> FromRequestParts<S> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|error| Problem::new(Kind::InvalidId, error.body_text()))?;
        let mut params = params.iter();
        let mut read = "";
        let next = || {
            // A pattern with too few parameters yields the empty string, which is no id.
            let (name, value) = params.next().unwrap_or_default();
            read = name;
            value
        };
        match T::parse(next) {
            Ok(ids) => Ok(Self(ids)),
            Err(why) => Err(Problem::new(
                Kind::InvalidId,
                format!("{read}, in the path: {why}"),
            )),
        }
    }
}

/// Those fields of the query that `T` has. The routes refuse a field that the call does not have.
pub(crate) struct InQuery<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for InQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        from_query(&parts.uri)
            .map(Self)
            .map_err(|error| Problem::of_query(&error))
    }
}

/// What was read of a field of the query.
pub(super) fn in_query<T>(field: &str, read: Result<T, InvalidId>) -> Result<T, Problem> {
    read.map_err(|why| Problem::from(why).at(Place::Query(field.to_owned())))
}

/// What was read of a field of the body.
pub(super) fn in_body<T>(field: &str, read: Result<T, InvalidId>) -> Result<T, Problem> {
    read.map_err(|why| Problem::from(why).at(Place::field(field)))
}

/// A JSON object with no other fields than those of `T`, and none of them twice.
pub(crate) struct JsonObject<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonObject<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let JsonText(text) = JsonText::from_request(request, state).await?;
        object(&text).map(Self)
    }
}

/// As [`JsonObject`]; without a body, or with `null`, the default.
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

/// A body that is declared as JSON. Whether it is JSON is not known yet.
pub(super) struct JsonText(pub(super) Bytes);

impl<S: Send + Sync> FromRequest<S> for JsonText {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            return Err(not_declared());
        }
        body(request, state).await.map(Self)
    }
}

/// Any JSON in which no object has a field twice.
pub(super) fn json(text: &[u8]) -> Result<Json, Problem> {
    let json = parse(text)?;
    json.check_fields()
        .map_err(|error| Problem::of_body(&error))?;
    Ok(json)
}

/// Any JSON. Whether an object has a field twice is not known yet.
fn parse(text: &[u8]) -> Result<Json, Problem> {
    Json::parse(text).map_err(|NotJson { line, column }| {
        let detail =
            format!("the body is no JSON that can be read; look at line {line}, column {column}");
        Problem::new(Kind::BadMessage, detail)
    })
}

fn object<T: DeserializeOwned>(text: &[u8]) -> Result<T, Problem> {
    let json = parse(text)?;
    if !matches!(json, Json::Object(_)) {
        return Err(Problem::new(
            Kind::BadMessage,
            format!("the body must be a JSON object, not {}", json.kind()),
        ));
    }
    from_json(&json).map_err(|error| Problem::of_body(&error))
}

/// The body of a call that has no fields may be left out, or be an empty object. A field in it is a
/// mistake of the caller, who expects the call to do something about it.
pub(super) async fn without_fields(request: Request) -> Result<Request, Problem> {
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
                Kind::BadMessage,
                "this call has no body; leave it out",
            ));
        }
    }
    Ok(Request::from_parts(parts, Body::empty()))
}

#[derive(Deserialize)]
struct Nothing {}

/// The largest body that a call takes, in bytes; an extension of its requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct MaxBody(pub(super) u64);

async fn body<S: Send + Sync>(request: Request, state: &S) -> Result<Bytes, Problem> {
    let too_large = || {
        Problem::new(
            Kind::BodyTooLarge,
            "the body is larger than this call takes",
        )
    };
    let most = request
        .extensions()
        .get::<MaxBody>()
        .map_or(u64::MAX, |most| most.0);
    // A client that asks first (Expect: 100-continue) must not be told to go on.
    if request.body().size_hint().lower() > most {
        return Err(too_large());
    }
    Bytes::from_request(request, state)
        .await
        .map_err(|why| match why.status() {
            StatusCode::PAYLOAD_TOO_LARGE => too_large(),
            _ => Problem::new(Kind::BadMessage, "the body ended too early"),
        })
}

/// `application/json`, or a type that ends in `+json`; with or without a charset.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(declared) = headers
        .get(header::CONTENT_TYPE)
        .and_then(|declared| declared.to_str().ok())
    else {
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
        Kind::UnsupportedMediaType,
        "send the body with Content-Type: application/json",
    )
}

/// Runs a change to its end even if the client hangs up meanwhile.
///
/// A handler is dropped together with its connection. Half a change, in the store but not in the
/// rooms, would be worse than a change whose answer nobody reads. (Opening and closing a live need
/// no such help.)
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
