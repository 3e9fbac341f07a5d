//! Describes why JSON cannot be read, and quotes nothing of it: the text of the library quotes
//! values, and a value may be a secret that stands in the wrong field.

use serde_json::error::Category;

/// The problem and its position.
pub(crate) fn without_values(why: &serde_json::Error) -> String {
    let line = why.line();
    let column = why.column();
    match why.classify() {
        Category::Data => {
            format!(
                "a field has a wrong type, is missing or is there twice: line {line}, column {column}"
            )
        }
        Category::Syntax => format!("it is not JSON: line {line}, column {column}"),
        Category::Eof => "it is not JSON: it ends too soon".to_owned(),
        Category::Io => "it cannot be read".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_is_quoted() {
        for text in [
            "[\"secret\"]",
            "\"secret\"",
            "[1,secret]",
            "[1,2",
            "{\"secret\":1}",
        ] {
            let why = serde_json::from_str::<Vec<u8>>(text).unwrap_err();
            let told = without_values(&why);
            assert!(!told.contains("secret") && !told.is_empty(), "{told}");
        }
    }
}
