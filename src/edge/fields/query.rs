//! Reads a query into a type. Several types may read one query, each its own fields, so no type
//! refuses the fields of the others: the routes know all fields of a call.

use axum::extract::Query;
use axum::http::Uri;
use serde::de::DeserializeOwned;

use super::error::FieldError;
use super::json::{Json, fields, read};

/// The fields of a query, in their order.
pub(crate) fn pairs(uri: &Uri) -> Vec<(String, String)> {
    match Query::try_from_uri(uri) {
        Ok(Query(pairs)) => pairs,
        Err(_) => Vec::new(),
    }
}

/// Reads the fields of a type from a query.
///
/// # Errors
/// Names the first of these fields that is wrong, or that is there twice.
pub(crate) fn from_query<T: DeserializeOwned>(uri: &Uri) -> Result<T, FieldError> {
    let pairs: Vec<_> = pairs(uri)
        .into_iter()
        .map(|(name, text)| (name, Json::Parameter(text)))
        .collect();
    read(fields(&pairs))
}
