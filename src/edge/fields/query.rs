//! Reads a query into a type. Several types may read one query, each its own fields, so no type
//! refuses the fields of the others: the routes know all fields of a call.

use std::collections::VecDeque;

use axum::extract::Query;
use axum::http::Uri;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::error::{Fault, FieldError};
use super::json::word;

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
    T::deserialize(Parameters(&pairs(uri)))
}

struct Parameters<'de>(&'de [(String, String)]);

impl<'de> Deserializer<'de> for Parameters<'de> {
    type Error = FieldError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_map(Pairs {
            pairs: self.0.iter().collect(),
            value: None,
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        known: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        let own: VecDeque<_> = self
            .0
            .iter()
            .filter(|(name, _)| known.contains(&name.as_str()))
            .collect();
        for (place, (name, _)) in own.iter().enumerate() {
            if own.iter().skip(place + 1).any(|(other, _)| other == name) {
                return Err(FieldError::new(Fault::Doubled).within(name));
            }
        }
        visitor.visit_map(Pairs {
            pairs: own,
            value: None,
        })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

struct Pairs<'de> {
    pairs: VecDeque<&'de (String, String)>,
    /// The pair whose name was read last.
    value: Option<&'de (String, String)>,
}

impl<'de> MapAccess<'de> for Pairs<'de> {
    type Error = FieldError;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, FieldError> {
        let Some(pair) = self.pairs.pop_front() else {
            return Ok(None);
        };
        self.value = Some(pair);
        seed.deserialize(Parameter(&pair.0)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<S::Value, FieldError> {
        match self.value.take() {
            Some((name, text)) => seed
                .deserialize(Parameter(text))
                .map_err(|error| error.within(name)),
            None => seed.deserialize(Parameter("")),
        }
    }
}

/// A value of a query. It is a text, unless a type asks for something else.
struct Parameter<'de>(&'de str);

impl<'de> Deserializer<'de> for Parameter<'de> {
    type Error = FieldError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_borrowed_str(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        match self.0 {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            _ => Err(FieldError::wrong("must be true or false")),
        }
    }

    fn deserialize_u64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FieldError> {
        let is_number = !self.0.is_empty() && self.0.bytes().all(|byte| byte.is_ascii_digit());
        match self.0.parse() {
            Ok(number) if is_number => visitor.visit_u64(number),
            // All values of a query are texts, so the error does not say that this one is a text.
            _ => Err(FieldError::invalid_type(
                Unexpected::Other("a text"),
                &visitor,
            )),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FieldError> {
        visitor.visit_enum(word(self.0))
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}
