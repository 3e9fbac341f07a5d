//! A layer around every route that refuses a field of the query, or a body, that the call does not
//! have. It reads the route's description, so the OpenAPI document and the check cannot differ. The
//! extractor that reads a body checks the fields of the body.

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use utoipa::openapi::path::{Operation, ParameterIn, Paths};
use utoipa::openapi::{PathItem, RefOr};

use super::problem::{Problem, ProblemKind};
use super::requests::{check_encoding, without_fields};
use crate::edge::fields::{FieldPlace, nearest, pairs, shown};

/// Which unknown fields of a query the layer refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refuse {
    /// All of them.
    Unknown,
    /// Only fields that look like a misspelt one, because balancers and probes add fields of their
    /// own.
    Misspelt,
}

/// The layer's state: the calls of one route.
#[derive(Debug, Clone)]
pub(crate) struct KnownFields {
    refuse: Refuse,
    calls: Vec<MethodFields>,
}

/// What a call with one method may have.
#[derive(Debug, Clone)]
struct MethodFields {
    method: Method,
    /// The names of the fields of its query.
    query: Vec<String>,
    has_body: bool,
}

impl KnownFields {
    pub(crate) fn of(paths: &Paths, refuse: Refuse) -> Self {
        let mut calls = Vec::new();
        for item in paths.paths.values() {
            for (method, operation) in operations(item) {
                calls.push(MethodFields::of(method, operation));
            }
        }
        Self { refuse, calls }
    }

    /// The call with this method. A HEAD may have what a GET may have.
    fn of_method(&self, method: &Method) -> Option<&MethodFields> {
        let method = if method == Method::HEAD {
            &Method::GET
        } else {
            method
        };
        self.calls.iter().find(|call| call.method == method)
    }
}

impl MethodFields {
    fn of(method: Method, operation: &Operation) -> Self {
        Self {
            method,
            query: query_fields(operation),
            has_body: operation.request_body.is_some(),
        }
    }

    fn check_query(&self, request: &Request, refuse: Refuse) -> Result<(), Problem> {
        let pairs = pairs(request.uri());
        for (name, _) in &pairs {
            if self.query.contains(name) {
                continue;
            }
            let meant = nearest(name, self.query.iter().map(String::as_str));
            let detail = match (meant, refuse) {
                (Some((_, known)), Refuse::Unknown) => {
                    format!("this call has no such field; did you mean {known}?")
                }
                (Some((0 | 1, known)), Refuse::Misspelt) => format!("did you mean {known}?"),
                (_, Refuse::Misspelt) => continue,
                (None, Refuse::Unknown) if self.query.is_empty() => {
                    "this call has no such field: its query is empty".to_owned()
                }
                (None, Refuse::Unknown) => {
                    format!(
                        "this call has no such field; its query takes {}",
                        self.query.join(", ")
                    )
                }
            };
            return Err(
                Problem::new(ProblemKind::UnknownField, detail).at(FieldPlace::Query(shown(name)))
            );
        }
        Ok(())
    }
}

/// The names of the fields of an operation's query.
pub(crate) fn query_fields(operation: &Operation) -> Vec<String> {
    let mut names = Vec::new();
    for parameter in operation.parameters.iter().flatten() {
        if let RefOr::T(parameter) = parameter
            && parameter.parameter_in == ParameterIn::Query
        {
            names.push(parameter.name.clone());
        }
    }
    names
}

/// The operations of a path.
pub(crate) fn operations(item: &PathItem) -> impl Iterator<Item = (Method, &Operation)> {
    let all = [
        (Method::GET, &item.get),
        (Method::PUT, &item.put),
        (Method::POST, &item.post),
        (Method::DELETE, &item.delete),
        (Method::PATCH, &item.patch),
    ];
    all.into_iter()
        .filter_map(|(method, operation)| Some((method, operation.as_ref()?)))
}

pub(crate) async fn check(
    State(known): State<KnownFields>,
    request: Request,
    next: Next,
) -> Response {
    match known.checked(request).await {
        Ok(request) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}

impl KnownFields {
    async fn checked(&self, request: Request) -> Result<Request, Problem> {
        let Some(call) = self.of_method(request.method()) else {
            return Ok(request);
        };
        call.check_query(&request, self.refuse)?;
        // A body of a GET has no meaning, whatever it is.
        if request.method().is_safe() {
            return Ok(request);
        }
        if !call.has_body {
            return without_fields(request).await;
        }
        check_encoding(&request)?;
        Ok(request)
    }
}
