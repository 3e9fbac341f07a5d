//! The error of a wrong field: the fault, and the place of the field.

use std::fmt::{self, Display};

use serde::de::{self, Expected, Unexpected};
use serde_path_to_error::{Path, Segment};

use super::names::{nearest, shown};

/// Maximum names that a message lists.
const MAX_LISTED: usize = 12;

/// The place of a field in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FieldPlace {
    /// In the JSON body; a JSON Pointer (RFC 6901).
    Body(String),
    /// In the query, under this name.
    Query(String),
}

impl FieldPlace {
    /// A field at the top of the body.
    pub(crate) fn field(name: &str) -> Self {
        Self::Body(format!("/{name}"))
    }

    /// An item of a list at the top of the body.
    pub(crate) fn item(list: &str, index: usize) -> Self {
        Self::Body(format!("/{list}/{index}"))
    }
}

/// Writes the place as a sentence names it: `user_ids/3`.
impl Display for FieldPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Body(pointer) => f.write_str(pointer.strip_prefix('/').unwrap_or("the body")),
            Self::Query(name) => f.write_str(name),
        }
    }
}

/// The fault of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FieldFault {
    /// The call has no such fields. The path of the error ends above them.
    Unknown {
        names: Vec<String>,
        known: &'static [&'static str],
    },
    Missing,
    Doubled,
    /// The value is wrong; the text says what would be right.
    Wrong(String),
}

/// A field that is wrong. It is also the error of the deserializer, which knows the last step of its
/// path at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// From the innermost step to the outermost.
    inside_out: Vec<String>,
    pub(crate) fault: FieldFault,
}

impl FieldError {
    pub(super) fn new(fault: FieldFault) -> Self {
        Self {
            inside_out: Vec::new(),
            fault,
        }
    }

    pub(super) fn wrong(right: impl Into<String>) -> Self {
        Self::new(FieldFault::Wrong(right.into()))
    }

    /// The same error, for a value that is in this field, or at this index of a list.
    pub(super) fn within(mut self, step: impl Display) -> Self {
        self.inside_out.push(step.to_string());
        self
    }

    /// The same error, for a value that is at this path.
    pub(super) fn under(mut self, path: &Path) -> Self {
        for segment in path.iter().rev() {
            match segment {
                Segment::Seq { index } => self = self.within(index),
                Segment::Map { key } => self = self.within(key),
                Segment::Enum { .. } | Segment::Unknown => {}
            }
        }
        self
    }

    /// The place of the field in a body.
    pub(crate) fn in_body(&self) -> FieldPlace {
        let pointer = self
            .steps()
            .map(|step| format!("/{}", step.replace('~', "~0").replace('/', "~1")));
        FieldPlace::Body(pointer.collect())
    }

    /// The place of the field in a query.
    pub(crate) fn in_query(&self) -> FieldPlace {
        FieldPlace::Query(self.steps().next_back().unwrap_or_default())
    }

    fn steps(&self) -> impl DoubleEndedIterator<Item = String> {
        let first = match &self.fault {
            FieldFault::Unknown { names, .. } => names.first(),
            _ => None,
        };
        self.inside_out
            .iter()
            .rev()
            .chain(first)
            .map(|step| shown(step))
    }
}

/// Writes the fault without the place.
impl Display for FieldFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { names, known } => {
                f.write_str("this call has no such field")?;
                if let [_, others @ ..] = names.as_slice()
                    && !others.is_empty()
                {
                    let others: Vec<String> = others
                        .iter()
                        .take(MAX_LISTED)
                        .map(|name| shown(name))
                        .collect();
                    write!(f, ", and none named {}", others.join(", "))?;
                }
                let meant = match names.first() {
                    Some(name) => nearest(name, known.iter().copied()),
                    None => None,
                };
                match meant {
                    Some((_, name)) => write!(f, "; did you mean {name}?"),
                    None if known.is_empty() => f.write_str("; it takes none"),
                    None if known.len() <= MAX_LISTED => {
                        write!(f, "; it takes {}", known.join(", "))
                    }
                    None => Ok(()),
                }
            }
            Self::Missing => f.write_str("is missing"),
            Self::Doubled => f.write_str("is there twice"),
            Self::Wrong(right) => f.write_str(right),
        }
    }
}

/// Writes the error for logs; answers to clients name the place in a field of its own.
impl Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.in_body(), self.fault)
    }
}

impl std::error::Error for FieldError {}

impl de::Error for FieldError {
    /// The error of a type that checks its own values.
    fn custom<T: Display>(right: T) -> Self {
        Self::wrong(right.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        let found = match found {
            Unexpected::Unsigned(number) => number.to_string(),
            Unexpected::Signed(number) => number.to_string(),
            Unexpected::Float(number) => format!("{number:?}"),
            Unexpected::Bool(_) => "a boolean".to_owned(),
            Unexpected::Unit | Unexpected::Option => "null".to_owned(),
            Unexpected::Seq => "a list".to_owned(),
            Unexpected::Map => "an object".to_owned(),
            Unexpected::Str(_) => "a text".to_owned(),
            _ => return Self::wrong(format!("must be {expected}")),
        };
        Self::wrong(format!("must be {expected}, not {found}"))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        Self::wrong(format!("must be {expected}"))
    }

    fn unknown_variant(_: &str, known: &'static [&'static str]) -> Self {
        Self::wrong(format!("must be {}", known.join(" or ")))
    }

    fn unknown_field(name: &str, known: &'static [&'static str]) -> Self {
        Self::new(FieldFault::Unknown {
            names: vec![name.to_owned()],
            known,
        })
    }

    fn missing_field(name: &'static str) -> Self {
        Self::new(FieldFault::Missing).within(name)
    }

    fn duplicate_field(name: &'static str) -> Self {
        Self::new(FieldFault::Doubled).within(name)
    }
}
