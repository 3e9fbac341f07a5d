//! Reads the fields of a request into a type, from a JSON body or from a query, and says of a wrong
//! field which one it is and what would be right. A type that derives `Deserialize` needs nothing
//! more: a field that the type does not have is refused here, for all types alike.
//!
//! No message quotes a value that is a text: it may be a secret in the wrong place.

mod error;
mod json;
mod names;
mod query;

pub(crate) use error::{Fault, FieldError, Place};
pub(crate) use json::{Json, NotJson, from_json};
pub(crate) use names::{nearest, shown};
pub(crate) use query::{from_query, pairs};

#[cfg(test)]
mod tests;
