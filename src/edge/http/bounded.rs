//! Values of requests that have bounds. Each type reads what its schema in the OpenAPI document allows, and nothing
//! else.

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

/// The largest [`Whole`]: up to it, every whole number is exact in JSON, and as a score of the store.
const MAX_WHOLE: u64 = (1 << 53) - 1;

/// A number of a query: seconds, or a time in Unix milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Whole(pub(super) u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let number = u64::deserialize(from)?;
        if number > MAX_WHOLE {
            return Err(D::Error::custom(format!("{number} is more than {MAX_WHOLE}")));
        }
        Ok(Self(number))
    }
}

impl PartialSchema for Whole {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(MAX_WHOLE)).into()
    }
}

impl ToSchema for Whole {}

/// A text for people: `MIN` to `MAX` characters, none of them a control character.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Text<const MIN: usize, const MAX: usize>(pub(super) String);

impl<'de, const MIN: usize, const MAX: usize> Deserialize<'de> for Text<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if !(MIN..=MAX).contains(&text.chars().count()) || text.contains(char::is_control) {
            let what = format!("a name or title here has {MIN} to {MAX} characters, and no control characters");
            return Err(D::Error::custom(what));
        }
        Ok(Self(text))
    }
}

impl<const MIN: usize, const MAX: usize> PartialSchema for Text<MIN, MAX> {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(Type::String).min_length(Some(MIN)).max_length(Some(MAX));
        let description = format!("For people: {MIN} to {MAX} characters, no control characters");
        text.pattern(Some(r"^[^\u0000-\u001f\u007f-\u009f]*$")).description(Some(description)).into()
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
        assert_eq!(read(json!(9_007_199_254_740_991_u64)), Some(9_007_199_254_740_991));
        for wrong in [json!(9_007_199_254_740_992_u64), json!(u64::MAX), json!(-1), json!(1.5), json!("1")] {
            assert_eq!(read(wrong.clone()), None, "{wrong}");
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
