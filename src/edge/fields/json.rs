//! The values of a request, and how a type reads them. The tree of a JSON body keeps a field that is
//! there twice, so that the gateway can refuse it.

use std::collections::HashSet;
use std::fmt;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{
    DeserializeOwned, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};

use super::error::{FieldError, FieldFault};

/// A JSON value, or a parameter of a query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    List(Vec<Self>),
    /// The fields in the order of the text.
    Object(Vec<(String, Self)>),
    /// It is a text, unless a type asks for something else.
    Parameter(String),
}

/// The text is no JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotJson {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// Reads an object into a type.
///
/// # Errors
/// Names a field that an object has twice, or the first field that is wrong, or every field of an
/// object that the type does not have.
pub(crate) fn from_json<T: DeserializeOwned>(json: &Json) -> Result<T, FieldError> {
    json.check_fields()?;
    read(json)
}

/// Reads a type. The error has the path of the field.
pub(super) fn read<'de, T: Deserialize<'de>>(
    from: impl Deserializer<'de, Error = FieldError>,
) -> Result<T, FieldError> {
    serde_path_to_error::deserialize(from).map_err(|error| {
        let path = error.path().clone();
        error.into_inner().under(&path)
    })
}

/// The fields of an object or of a query.
pub(super) fn fields<'de>(
    fields: &'de [(String, Json)],
) -> MapDeserializer<'de, impl Iterator<Item = (&'de str, &'de Json)>, FieldError> {
    MapDeserializer::new(fields.iter().map(|(name, value)| (name.as_str(), value)))
}

impl Json {
    pub(crate) fn parse(text: &[u8]) -> Result<Self, NotJson> {
        serde_json::from_slice(text).map_err(|why| NotJson {
            line: why.line(),
            column: why.column(),
        })
    }

    /// Refuses an object that has a field twice, here or further in.
    pub(crate) fn check_fields(&self) -> Result<(), FieldError> {
        match self {
            Self::List(items) => {
                for (place, item) in items.iter().enumerate() {
                    item.check_fields().map_err(|error| error.within(place))?;
                }
            }
            Self::Object(fields) => {
                let mut known = HashSet::new();
                for (name, value) in fields {
                    if !known.insert(name) {
                        return Err(FieldError::new(FieldFault::Doubled).within(name));
                    }
                    value.check_fields().map_err(|error| error.within(name))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The kind of the value, as a sentence names it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Unsigned(_) | Self::Signed(_) | Self::Float(_) => "a number",
            Self::Text(_) | Self::Parameter(_) => "a text",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }

    fn must_be<T>(&self, right: &str) -> Result<T, FieldError> {
        // All parameters are texts, so the error does not say that this one is a text.
        let wrong = match self {
            Self::Parameter(_) => format!("must be {right}"),
            _ => format!("must be {right}, not {}", self.kind()),
        };
        Err(FieldError::wrong(wrong))
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Tree)
    }
}

struct Tree;

impl<'de> Visitor<'de> for Tree {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(Json::Unsigned(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json, E> {
        Ok(Json::Signed(number))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json, E> {
        Ok(Json::Float(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Json, E> {
        Ok(Json::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Json, A::Error> {
        let mut object = Vec::new();
        while let Some(field) = fields.next_entry()? {
            object.push(field);
        }
        Ok(Json::Object(object))
    }
}

impl<'de> Deserializer<'de> for &'de Json {
    type Error = FieldError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self {
            Json::Null => visitor.visit_unit(),
            Json::Bool(value) => visitor.visit_bool(*value),
            Json::Unsigned(number) => visitor.visit_u64(*number),
            Json::Signed(number) => visitor.visit_i64(*number),
            Json::Float(number) => visitor.visit_f64(*number),
            Json::Text(text) | Json::Parameter(text) => visitor.visit_borrowed_str(text),
            Json::List(items) => visitor.visit_seq(SeqDeserializer::new(items.iter())),
            Json::Object(fields) => visitor.visit_map(self::fields(fields)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self {
            Json::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self {
            Json::Bool(value) => visitor.visit_bool(*value),
            Json::Parameter(text) if text == "true" => visitor.visit_bool(true),
            Json::Parameter(text) if text == "false" => visitor.visit_bool(false),
            _ => self.must_be("true or false"),
        }
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        let Json::Parameter(text) = self else {
            return self.deserialize_any(visitor);
        };
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(number) if is_number => visitor.visit_u64(number),
            _ => Err(FieldError::invalid_type(
                Unexpected::Other("a text"),
                &visitor,
            )),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self {
            Json::Text(text) | Json::Parameter(text) => visitor.visit_borrowed_str(text),
            _ => self.must_be("a text"),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self {
            Json::List(items) => visitor.visit_seq(SeqDeserializer::new(items.iter())),
            _ => self.must_be("a list"),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self {
            Json::Object(fields) => visitor.visit_map(self::fields(fields)),
            _ => self.must_be("an object"),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        if let Json::Object(fields) = self {
            let names: Vec<String> = fields
                .iter()
                .map(|(name, _)| name)
                .filter(|name| !known.contains(&name.as_str()))
                .cloned()
                .collect();
            if !names.is_empty() {
                return Err(FieldError::new(FieldFault::Unknown { names, known }));
            }
        }
        self.deserialize_map(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        match self {
            Json::Text(text) | Json::Parameter(text) => {
                visitor.visit_enum(IntoDeserializer::<FieldError>::into_deserializer(
                    text.as_str(),
                ))
            }
            _ => self.must_be("a text"),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        visitor.visit_newtype_struct(self)
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct
        identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, FieldError> for &'de Json {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
