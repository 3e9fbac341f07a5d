//! Reads a credential from what a client sends. A token or a key may stand in a header, a query or
//! a message; this one function reads all of them, so that all accept the same texts.

/// The token or key without the white space around it: a file or a shell may have left some, most
/// often the end of a line. `None` if the client sent nothing but white space.
pub(crate) fn presented(text: &str) -> Option<&str> {
    let credential = text.trim_ascii();
    if credential.is_empty() {
        None
    } else {
        Some(credential)
    }
}

#[cfg(test)]
mod tests {
    use super::presented;

    #[test]
    fn white_space_around_a_credential_is_no_part_of_it() {
        for sent in ["a.b.c", " a.b.c", "a.b.c\n", "\t a.b.c \r\n"] {
            assert_eq!(presented(sent), Some("a.b.c"), "{sent:?}");
        }
        assert_eq!(presented("a.b. c"), Some("a.b. c"));
        // Only ASCII can stand in a header, so nothing else is white space in a query.
        assert_eq!(presented("a.b.c\u{a0}"), Some("a.b.c\u{a0}"));
        for sent in ["", " ", "\r\n"] {
            assert_eq!(presented(sent), None, "{sent:?}");
        }
    }
}
