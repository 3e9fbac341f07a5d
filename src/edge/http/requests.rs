//! The extractors of the handlers: ids from the path and JSON from the body. They refuse what they cannot read with a
//! problem document, before a handler runs.

use std::future::Future;
use std::panic::resume_unwind;

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, FromRequestParts, Query, RawPathParams, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use bytes::Bytes;
use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};
use tracing::Instrument;

use super::problem::{Kind, Problem};
use crate::base::ids::{InvalidId, ListName, LiveId, UserId};
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
        Ok((A::parse(&mut next)?, B::parse(&mut next)?, C::parse(&mut next)?))
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
        // A pattern with too few parameters yields the empty string, which is no id.
        let ids = T::parse(|| params.next().map_or("", |(_, value)| value))?;
        Ok(Self(ids))
    }
}

/// The fields of the query. Fields that `T` does not know are ignored.
pub(crate) struct InQuery<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Sync> FromRequestParts<S> for InQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let Query(query) = Query::<T>::try_from_uri(&parts.uri)
            .map_err(|error| Problem::new(Kind::InvalidQuery, error.body_text()))?;
        Ok(Self(query))
    }
}

/// A JSON object. Fields that `T` does not know are ignored.
pub(crate) struct JsonObject<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for JsonObject<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        // Through a map, because serde would take an array for a struct.
        let Json(object) =
            Json::<Map<String, Value>>::from_request(request, state).await.map_err(|why| refuse_body(&why))?;
        let body =
            T::deserialize(Value::Object(object)).map_err(|error| Problem::new(Kind::BadMessage, error.to_string()))?;
        Ok(Self(body))
    }
}

/// A JSON object; without a body, or with `null`, the default.
pub(crate) struct MaybeObject<T>(pub(crate) T);

impl<T: DeserializeOwned + Default, S: Send + Sync> FromRequest<S> for MaybeObject<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let (parts, body) = request.into_parts();
        let whole = Request::from_parts(parts.clone(), body);
        let bytes = Bytes::from_request(whole, state).await.map_err(|why| {
            let kind =
                if why.status() == StatusCode::PAYLOAD_TOO_LARGE { Kind::BodyTooLarge } else { Kind::BadMessage };
            Problem::new(kind, why.body_text())
        })?;
        if matches!(bytes.trim_ascii(), b"" | b"null") {
            return Ok(Self(T::default()));
        }
        let JsonObject(object) = JsonObject::from_request(Request::from_parts(parts, bytes.into()), state).await?;
        Ok(Self(object))
    }
}

/// Reads a whole number however JSON spells it: 600, 600.0 and 6e2 are one number.
pub(crate) fn whole_number<'de, D: Deserializer<'de>, T: TryFrom<u64>>(from: D) -> Result<Option<T>, D::Error> {
    /// Above it, not every whole number is a float.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let Some(number) = Option::<Number>::deserialize(from)? else { return Ok(None) };
    let spelled_as_float = || number.as_f64().filter(|float| float.fract() == 0.0 && (0.0..=EXACT).contains(float));
    let whole = number.as_u64().or_else(|| spelled_as_float().map(|float| float as u64));
    let fits = whole.and_then(|whole| T::try_from(whole).ok());
    fits.map(Some).ok_or_else(|| D::Error::custom(format!("{number} is not a whole number within bounds")))
}

pub(crate) fn refuse_body(rejection: &JsonRejection) -> Problem {
    let kind = match rejection.status() {
        StatusCode::UNSUPPORTED_MEDIA_TYPE => Kind::UnsupportedMediaType,
        StatusCode::PAYLOAD_TOO_LARGE => Kind::BodyTooLarge,
        _ => Kind::BadMessage,
    };
    Problem::new(kind, rejection.body_text())
}

/// Runs a change to its end even if the client hangs up meanwhile.
///
/// A handler is dropped together with its connection. Half a change, in the store but not in the rooms, would be worse
/// than a change whose answer nobody reads. (Opening and closing a live need no such help.)
pub(crate) async fn run_to_completion<T: Send + 'static>(change: impl Future<Output = T> + Send + 'static) -> T {
    match tokio::spawn(change.in_current_span()).await {
        Ok(answer) => answer,
        Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
        // Cancelled: the runtime shuts down, and this handler with it.
        Err(_) => std::future::pending().await,
    }
}
