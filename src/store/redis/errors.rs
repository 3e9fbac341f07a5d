//! Owns the reading of the client library's errors: what each means for whoever called the store.

use fred::error::{Error, ErrorKind};

use crate::store::StoreError;

/// The server's words for "not now" or "not you": nothing was done.
const REFUSALS: &[&str] = &[
    "READONLY",
    "OOM",
    "LOADING",
    "NOPERM",
    "MISCONF",
    "NOAUTH",
    "WRONGPASS",
    "MASTERDOWN",
    "CLUSTERDOWN",
    "NOREPLICAS",
    "BUSY",
    "TRYAGAIN",
    "NOSCRIPT",
    "UNKILLABLE",
];

/// What an error means.
pub(super) fn judge(error: &Error) -> StoreError {
    if let Some(code) = server_code(error.details()) {
        let said = error.details().to_owned();
        return if REFUSALS.contains(&code) { StoreError::Refused(said) } else { StoreError::Nonsense(said) };
    }
    match error.kind() {
        ErrorKind::Timeout => StoreError::Timeout,
        ErrorKind::Backpressure => StoreError::Backpressure,
        ErrorKind::Auth => StoreError::Refused(error.details().to_owned()),
        ErrorKind::Parse | ErrorKind::InvalidArgument | ErrorKind::InvalidCommand => {
            StoreError::Nonsense(error.details().to_owned())
        }
        _ => StoreError::Lost(error.details().to_owned()),
    }
}

/// Whether the server does not know a script and so did nothing.
pub(super) fn is_unknown_script(error: &Error) -> bool {
    server_code(error.details()) == Some("NOSCRIPT")
}

/// Errors of the server begin with a word in capitals; the library's own do not.
fn server_code(details: &str) -> Option<&str> {
    let word = details.split(' ').next().unwrap_or_default();
    (word.len() >= 3 && word.bytes().all(|b| b.is_ascii_uppercase())).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_servers_refusals_are_told_from_nonsense_and_from_the_librarys_own() {
        let judged = |kind, details: &'static str| judge(&Error::new(kind, details)).label();
        assert_eq!(judged(ErrorKind::Unknown, "READONLY You can't write against a read only replica."), "refused");
        assert_eq!(judged(ErrorKind::Unknown, "OOM command not allowed"), "refused");
        assert_eq!(judged(ErrorKind::Auth, "NOAUTH Authentication required."), "refused");
        assert_eq!(judged(ErrorKind::InvalidArgument, "WRONGTYPE Operation against a key"), "nonsense");
        assert_eq!(judged(ErrorKind::Unknown, "NONSENSE fence"), "nonsense");
        assert_eq!(judged(ErrorKind::Canceled, "Connection closed unexpectedly."), "lost");
        assert_eq!(judged(ErrorKind::IO, "Os { code: 104 }"), "lost");
        assert_eq!(judged(ErrorKind::Timeout, "Request timed out."), "timeout");
        assert_eq!(judged(ErrorKind::Backpressure, "Max in-flight commands reached."), "backpressure");
    }
}
