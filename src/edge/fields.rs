//! Reads the fields of a request into a type, from a JSON body or from a query. An error names the
//! wrong field and says what would be right. A type that derives `Deserialize` needs nothing more:
//! this module refuses a field that the type does not have, for all types alike.
//!
//! No message quotes a value that is a text: it may be a secret in the wrong place.

mod error;
mod json;
mod names;
mod query;

pub(crate) use error::{FieldError, FieldFault, FieldPlace};
pub(crate) use json::{Json, NotJson, from_json};
pub(crate) use names::{nearest, shown};
pub(crate) use query::{from_query, pairs};

#[cfg(test)]
mod tests;
