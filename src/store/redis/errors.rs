//! Owns the reading of the client library's errors: what each means for whoever called the store, and where a cluster
//! sends a call that came to the wrong node.

use fred::error::{Error, ErrorKind};

use super::address::Host;
use crate::store::StoreError;

/// The server's words for "not now", "not here" or "not you": nothing was done.
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
    "CROSSSLOT",
    "MOVED",
    "ASK",
    "NOREPLICAS",
    "BUSY",
    "TRYAGAIN",
    "NOSCRIPT",
    "UNKILLABLE",
];

/// Why a node did not do a command.
#[derive(Debug)]
pub(super) enum Failure {
    /// The slot belongs to that node. Nothing was done.
    Moved(Host),
    /// The slot is on its way to that node, and these keys are there already. Nothing was done.
    Ask(Host),
    /// The server does not know the script. Nothing was done.
    UnknownScript,
    /// This server is a replica by now. Nothing was done.
    Replica(StoreError),
    /// Anything else.
    Other(StoreError),
}

impl Failure {
    /// What an error means that this node answered.
    pub(super) fn of(error: &Error, asked: &Host) -> Self {
        let details = error.details();
        let target = || read_target(details, asked);
        match server_code(details) {
            Some("MOVED") => target().map_or_else(|| Self::Other(judge(error)), Self::Moved),
            Some("ASK") => target().map_or_else(|| Self::Other(judge(error)), Self::Ask),
            Some("NOSCRIPT") => Self::UnknownScript,
            Some("READONLY") => Self::Replica(judge(error)),
            _ => Self::Other(judge(error)),
        }
    }
}

impl From<Failure> for StoreError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Moved(to) => Self::Refused(format!("MOVED to {to}, which this URL's scheme does not follow")),
            Failure::Ask(to) => Self::Refused(format!("ASK {to}, which this URL's scheme does not follow")),
            Failure::UnknownScript => Self::Refused("NOSCRIPT".to_owned()),
            Failure::Replica(error) | Failure::Other(error) => error,
        }
    }
}

/// Reads `MOVED 3999 10.0.0.1:6381`; with no host, or one the node does not know, it is the host that was asked.
fn read_target(details: &str, asked: &Host) -> Option<Host> {
    let (name, port) = details.split(' ').nth(2)?.rsplit_once(':')?;
    let name = if name.is_empty() || name == "?" { asked.name.as_str() } else { name };
    Some(Host::new(name, port.parse().ok()?))
}

/// What an error means.
pub(super) fn judge(error: &Error) -> StoreError {
    if let Some(code) = server_code(error.details()) {
        let said = error.details().to_owned();
        // A script of several steps met a key that has gone to another node, and may have done the steps before.
        if said.contains("non local key") {
            return StoreError::Lost(said);
        }
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

/// The word with which an error of the server begins, in capitals; the library's own errors have none.
pub(super) fn server_code(details: &str) -> Option<&str> {
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
        assert_eq!(judged(ErrorKind::Cluster, "CLUSTERDOWN Hash slot not served"), "refused");
        assert_eq!(judged(ErrorKind::Unknown, "TRYAGAIN Multiple keys request during rehashing of slot"), "refused");
        assert_eq!(judged(ErrorKind::Unknown, "ERR Script attempted to access a non local key in a cluster"), "lost");
        assert_eq!(judged(ErrorKind::InvalidArgument, "WRONGTYPE Operation against a key"), "nonsense");
        assert_eq!(judged(ErrorKind::Unknown, "NONSENSE fence"), "nonsense");
        assert_eq!(judged(ErrorKind::Canceled, "Connection closed unexpectedly."), "lost");
        assert_eq!(judged(ErrorKind::IO, "Os { code: 104 }"), "lost");
        assert_eq!(judged(ErrorKind::Timeout, "Request timed out."), "timeout");
        assert_eq!(judged(ErrorKind::Backpressure, "Max in-flight commands reached."), "backpressure");
    }

    #[test]
    fn a_redirection_names_a_node() {
        let asked = Host::new("10.0.0.9", 7000);
        let read = |details: &'static str| Failure::of(&Error::new(ErrorKind::Cluster, details), &asked);
        assert!(matches!(read("MOVED 3999 10.0.0.1:6381"), Failure::Moved(to) if to == Host::new("10.0.0.1", 6381)));
        assert!(matches!(read("ASK 3999 ::1:6381"), Failure::Ask(to) if to == Host::new("::1", 6381)));
        assert!(matches!(read("MOVED 3999 :6381"), Failure::Moved(to) if to == Host::new("10.0.0.9", 6381)));
        assert!(matches!(read("MOVED 3999"), Failure::Other(StoreError::Refused(_))));
    }
}
