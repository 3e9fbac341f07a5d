//! Requests that make something and may be repeated: the header `Idempotency-Key`. The store keeps
//! the answer for a day, so any gateway gives it again.
//!
//! The store first keeps a claim with the id of what is to be made. So a request that was carried
//! out, and whose answer was not kept because the gateway died, makes nothing a second time when it
//! is repeated. An erasure puts [`ERASED_ANSWER`] in the place of a claim or an answer that names the
//! user. So no repetition brings the user back under the same id.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, MatchedPath, RawPathParams};
use axum::http::request::Parts;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use data_encoding::HEXLOWER;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::IntoParams;
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::{ObjectBuilder, Required, Type};

use super::problem::{Problem, ProblemKind};
use super::requests::run_to_completion;
use crate::base::actor::Actor;
use crate::store::{AnswerName, ERASED_ANSWER, Store};

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");

/// Says that an answer was given before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// How long an answer is kept.
const KEPT_FOR: Duration = Duration::from_secs(24 * 3_600);

/// The longest key, in bytes.
const MAX_KEY: usize = 255;

/// The header, as the OpenAPI document describes it.
pub(crate) struct IdempotencyKey;

impl IntoParams for IdempotencyKey {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        let key = ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(Some(1))
            .max_length(Some(MAX_KEY))
            .pattern(Some("^[!-~]+$"));
        let header = ParameterBuilder::new()
            .name("Idempotency-Key")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some("Any name of this request"))
            .schema(Some(key));
        vec![header.build()]
    }
}

/// A request that was sent with a key, without its body: a digest of caller, route, what the path
/// names, and key.
type CallDigest = [u8; 32];

/// Whether the client may repeat the request.
#[derive(Debug, Clone)]
pub(crate) enum Repeatable {
    No,
    Yes(CallDigest),
}

/// What a request made: where it is, and the body that tells so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Made {
    location: String,
    body: String,
}

impl Made {
    pub(crate) fn new(location: String, body: &impl Serialize) -> Result<Self, Problem> {
        match serde_json::to_string(body) {
            Ok(body) => Ok(Self { location, body }),
            Err(why) => Err(Problem::new(ProblemKind::Internal, why.to_string())),
        }
    }
}

impl IntoResponse for Made {
    fn into_response(self) -> Response {
        let headers = [
            (header::LOCATION, self.location),
            (header::CONTENT_TYPE, "application/json".to_owned()),
        ];
        (StatusCode::CREATED, headers, self.body).into_response()
    }
}

/// What the store keeps under the name of a key.
#[derive(Serialize, Deserialize)]
struct KeptAnswer<Id> {
    /// The digest of what was asked for.
    asked: String,
    /// The id of what is to be made, as long as no request with the key succeeded.
    id: Option<Id>,
    made: Option<Made>,
}

impl<Id: Serialize + DeserializeOwned> KeptAnswer<Id> {
    fn text(&self) -> Result<String, Problem> {
        serde_json::to_string(self)
            .map_err(|why| Problem::new(ProblemKind::Internal, why.to_string()))
    }

    fn read(text: &str) -> Result<Self, Problem> {
        if text == ERASED_ANSWER {
            let detail = "what this request made was erased; with another Idempotency-Key it makes something new";
            return Err(Problem::new(ProblemKind::Erased, detail));
        }
        let unreadable = |_| {
            Problem::new(
                ProblemKind::Internal,
                "the answer that is kept cannot be read",
            )
        };
        serde_json::from_str(text).map_err(unreadable)
    }
}

impl<S: Sync> FromRequestParts<S> for Repeatable {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let mut given = parts.headers.get_all(HEADER).into_iter();
        let Some(key) = given.next().cloned() else {
            return Ok(Self::No);
        };
        let is_visible = key.as_bytes().iter().all(u8::is_ascii_graphic);
        if !is_visible || !(1..=MAX_KEY).contains(&key.len()) || given.next().is_some() {
            let detail = format!(
                "Idempotency-Key: must be one header of 1 to {MAX_KEY} visible ASCII characters"
            );
            return Err(Problem::new(ProblemKind::InvalidIdempotencyKey, detail));
        }
        // The keys of one caller are nothing to another.
        let caller = match parts.extensions.get::<Actor>() {
            Some(actor) => actor.to_string(),
            None => String::new(),
        };
        let route = parts.extensions.get::<MatchedPath>().cloned();
        let mut call = vec![caller.as_bytes(), key.as_bytes()];
        if let Some(route) = &route {
            call.push(route.as_str().as_bytes());
        }
        // The same path may be spelt in several ways.
        let Ok(named) = RawPathParams::from_request_parts(parts, &()).await else {
            return Err(Problem::new(
                ProblemKind::InvalidId,
                "the path has bytes that are no text",
            ));
        };
        call.extend(named.iter().map(|(_, value)| value.as_bytes()));
        Ok(Self::Yes(digest(&call)))
    }
}

/// The digest of some texts, none of which can be taken for a part of another.
fn digest(texts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    hash.finalize().into()
}

/// The first half of a digest, which is enough to name something.
fn first_half(digest: &[u8; 32]) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&digest[..16]);
    half
}

impl Repeatable {
    /// Carries out a request that asks for this, or gives the answer that it got before. `make` is
    /// given the id of the new thing: `id`, or the one of an earlier attempt. It must answer the thing
    /// with this id if there is one.
    ///
    /// # Errors
    /// As those of `make`, which are not kept; or the key came with another request before, or what
    /// was made with it was erased.
    pub(crate) async fn carry_out<Id, F>(
        self,
        store: Arc<dyn Store>,
        asked: &[String],
        id: Id,
        make: impl FnOnce(Id) -> F,
    ) -> Result<Response, Problem>
    where
        Id: Serialize + DeserializeOwned + Clone + Send + 'static,
        F: Future<Output = Result<Made, Problem>> + Send + 'static,
    {
        let Self::Yes(call) = self else {
            let made = run_to_completion(make(id)).await?;
            return Ok(made.into_response());
        };
        let mut texts: Vec<&[u8]> = vec![&call];
        for text in asked {
            texts.push(text.as_bytes());
        }
        let name = AnswerName::of_digest(&first_half(&call));
        let mut claim = KeptAnswer {
            asked: HEXLOWER.encode(&digest(&texts)),
            id: Some(id.clone()),
            made: None,
        };
        let mut claimed = claim.text()?;
        let mut id = id;
        if let Some(there) = store.claim_answer(&name, &claimed, KEPT_FOR).await? {
            let kept = KeptAnswer::<Id>::read(&there)?;
            if kept.asked != claim.asked {
                return Err(reused());
            }
            if let Some(made) = kept.made {
                return Ok(replayed(made));
            }
            // The first request is under way, was refused, or its gateway died. The id sees to it
            // that nothing is made twice.
            id = kept.id.unwrap_or(id);
            claimed = there;
        }
        let making = make(id);
        let made = run_to_completion(async move {
            let made = making.await?;
            claim.id = None;
            claim.made = Some(made.clone());
            let kept = store
                .keep_answer(&name, &claimed, &claim.text()?, KEPT_FOR)
                .await?;
            match KeptAnswer::<Id>::read(&kept)?.made {
                // The same request was answered meanwhile. Its answer is the one that stays.
                Some(first) if first != made => Ok(replayed(first)),
                _ => Ok(made.into_response()),
            }
        });
        made.await
    }
}

/// Whether this is the answer to an earlier request, with which that request was repeated.
pub(crate) fn is_replayed(response: &Response) -> bool {
    response.headers().contains_key(REPLAYED)
}

fn replayed(made: Made) -> Response {
    let mut answer = made.into_response();
    answer
        .headers_mut()
        .insert(REPLAYED, HeaderValue::from_static("true"));
    answer
}

/// A key must not stand for two things.
fn reused() -> Problem {
    Problem::new(
        ProblemKind::IdempotencyKeyReused,
        "this Idempotency-Key came with another request before; use a new one",
    )
}
