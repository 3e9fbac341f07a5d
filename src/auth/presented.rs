//! How a credential is read from what a client sends. Every place where a token or a key may stand
//! is read by this one function, so that all of them take the same texts: a header, a query, a
//! message.

/// The token or key itself: a file or a shell may have left white space around it, most often the
/// end of a line. `None` if nothing but white space was sent.
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
