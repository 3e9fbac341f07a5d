//! Types for fields of requests whose values have bounds. Each type reads the values that its schema
//! in the OpenAPI document allows, and nothing else.

use std::fmt;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::base::ids::UserId;
use crate::store::HISTORY_STEP;

/// The largest [`Whole`]: up to it, every whole number is exact in JSON, and as a score of the
/// store.
const MAX_WHOLE: u64 = (1 << 53) - 1;

/// A number in a query: seconds, or a time in Unix milliseconds.
pub(crate) type Whole = Within<0, MAX_WHOLE>;

/// A whole number from `LEAST` to `MOST`, however JSON spells it: 600, 600.0 and 6e2 are one
/// number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Within<const LEAST: u64, const MOST: u64>(pub(crate) u64);

impl<'de, const LEAST: u64, const MOST: u64> Deserialize<'de> for Within<LEAST, MOST> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_u64(Number {
            least: LEAST,
            most: MOST,
            multiple_of: 1,
        })
        .map(Self)
    }
}

impl<const LEAST: u64, const MOST: u64> PartialSchema for Within<LEAST, MOST> {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(LEAST))
            .maximum(Some(MOST))
            .into()
    }
}

impl<const LEAST: u64, const MOST: u64> ToSchema for Within<LEAST, MOST> {}

/// Reads a whole number within bounds.
struct Number {
    least: u64,
    most: u64,
    multiple_of: u64,
}

impl Visitor<'_> for Number {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.multiple_of {
            1 => write!(f, "a whole number from {} to {}", self.least, self.most),
            step => write!(
                f,
                "a multiple of {step} from {} to {}",
                self.least, self.most
            ),
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        if (self.least..=self.most).contains(&number) && number.is_multiple_of(self.multiple_of) {
            return Ok(number);
        }
        Err(E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<u64, E> {
        let is_whole = number.fract() == 0.0 && (0.0..=MAX_WHOLE as f64).contains(&number);
        if is_whole {
            self.visit_u64(number as u64)
        } else {
            Err(E::invalid_value(Unexpected::Float(number), &self))
        }
    }
}

/// How far the points of a history are apart, in seconds: a multiple of ten, up to a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HistoryStep(u64);

/// The least [`HistoryStep`], in seconds. Every step is a multiple of it.
const STEP: u64 = HISTORY_STEP.as_secs();
const MAX_STEP: u64 = 24 * 3_600;

impl HistoryStep {
    pub(crate) fn seconds(self) -> u64 {
        self.0
    }

    pub(crate) fn millis(self) -> u64 {
        self.0 * 1_000
    }
}

impl Default for HistoryStep {
    fn default() -> Self {
        Self(STEP)
    }
}

impl<'de> Deserialize<'de> for HistoryStep {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_u64(Number {
            least: STEP,
            most: MAX_STEP,
            multiple_of: STEP,
        })
        .map(Self)
    }
}

impl PartialSchema for HistoryStep {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(STEP))
            .maximum(Some(MAX_STEP))
            .multiple_of(Some(STEP))
            .default(Some(STEP.into()))
            .into()
    }
}

impl ToSchema for HistoryStep {}

/// The beginning of user ids: empty, or up to 64 characters that a user id may have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct IdPrefix(pub(crate) String);

impl<'de> Deserialize<'de> for IdPrefix {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if !UserId::may_begin_with(&text) {
            return Err(D::Error::custom(
                "must be what user ids may begin with: up to 64 of A-Z a-z 0-9 _ . : @ -",
            ));
        }
        Ok(Self(text))
    }
}

impl PartialSchema for IdPrefix {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(Type::String)
            .pattern(Some("^[A-Za-z0-9_.:@-]{0,64}$"))
            .into()
    }
}

impl ToSchema for IdPrefix {}

/// A text for people: `MIN` to `MAX` characters, none of them a control character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text<const MIN: usize, const MAX: usize>(pub(crate) String);

impl<'de, const MIN: usize, const MAX: usize> Deserialize<'de> for Text<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if !(MIN..=MAX).contains(&text.chars().count()) || text.contains(char::is_control) {
            return Err(D::Error::custom(format!(
                "must have {MIN} to {MAX} characters, and none of them a control character"
            )));
        }
        Ok(Self(text))
    }
}

impl<const MIN: usize, const MAX: usize> PartialSchema for Text<MIN, MAX> {
    fn schema() -> RefOr<Schema> {
        let description = format!("For people: {MIN} to {MAX} characters, no control characters");
        ObjectBuilder::new()
            .schema_type(Type::String)
            .min_length(Some(MIN))
            .max_length(Some(MAX))
            .pattern(Some(r"^[^\u0000-\u001f\u007f-\u009f]*$"))
            .description(Some(description))
            .into()
    }
}

impl<const MIN: usize, const MAX: usize> ToSchema for Text<MIN, MAX> {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_is_exact_everywhere_or_refused() {
        let read = |value: serde_json::Value| Whole::deserialize(value).map(|whole| whole.0).ok();
        assert_eq!(read(json!(0)), Some(0));
        assert_eq!(
            read(json!(9_007_199_254_740_991_u64)),
            Some(9_007_199_254_740_991)
        );
        for wrong in [
            json!(9_007_199_254_740_992_u64),
            json!(u64::MAX),
            json!(-1),
            json!(1.5),
            json!("1"),
        ] {
            assert_eq!(read(wrong.clone()), None, "{wrong}");
        }
    }

    #[test]
    fn a_step_is_a_multiple_of_ten_seconds() {
        let read = |seconds: u64| {
            HistoryStep::deserialize(json!(seconds))
                .map(HistoryStep::millis)
                .ok()
        };
        assert_eq!(
            (read(10), read(60), read(86_400)),
            (Some(10_000), Some(60_000), Some(86_400_000))
        );
        for wrong in [0, 5, 15, 86_410] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_text_is_measured_in_characters_and_has_no_control_characters() {
        let read = |text: &str| Text::<1, 3>::deserialize(json!(text)).is_ok();
        for right in ["a", "äöü", "🦀🦀🦀", "\u{a0}"] {
            assert!(read(right), "{right:?}");
        }
        for wrong in ["", "abcd", "a\n", "\u{0}", "\u{7f}", "\u{85}", "\u{9f}"] {
            assert!(!read(wrong), "{wrong:?}");
        }
        assert!(Text::<0, 3>::deserialize(json!("")).is_ok());
    }
}
