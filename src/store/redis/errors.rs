//! The one place that reads the client library's errors: the server's code, the meaning for the
//! caller of the store, and the node to which a cluster redirects a call. All other code decides on
//! [`ServerError`], [`NotDone`] or [`StoreError`], never on a text.

use fred::error::{Error, ErrorKind};

use crate::base::redis_address::Host;
use crate::store::StoreError;

/// Why the store could not be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The URL cannot be read.
    #[error("the Redis URL {0}")]
    Url(String),
    /// There is no authority to trust over TLS.
    #[error("Redis cannot be trusted: {0}")]
    Trust(String),
    /// The servers are of another kind than the scheme of the URL says.
    #[error("{0}")]
    WrongScheme(String),
    /// A server answers, and lacks what a gateway needs of it.
    #[error("{0}")]
    Unfit(String),
    /// A server is a replica now; it may become a master, or its name lead to one.
    #[error("{0}")]
    Replica(String),
    /// No server answers; trying again may help.
    #[error("Redis cannot be reached: {0}")]
    Unreachable(#[from] StoreError),
}

impl ConnectError {
    /// Whether only other settings, or another file, can help.
    pub fn is_mistake(&self) -> bool {
        matches!(self, Self::Url(_) | Self::Trust(_) | Self::WrongScheme(_))
    }

    /// Whether the same attempt may succeed later.
    pub fn may_pass(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Replica(_))
    }
}

/// The meaning of an error of the server: its first word, which is part of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ServerError {
    /// `MOVED`: the slot belongs to another node.
    Moved,
    /// `ASK`: the slot is moving to another node, and these keys are there already.
    Ask,
    /// `NOSCRIPT`
    UnknownScript,
    /// `READONLY`: the server is a replica.
    ReadOnly,
    /// `MASTERDOWN`: the server is a replica that has lost its master.
    MasterDown,
    /// `LOADING`: the server reads its data from disk.
    Loading,
    /// `CLUSTERDOWN`: the cluster does not serve the slot.
    ClusterDown,
    /// `BUSY` or `UNKILLABLE`: the server is stuck in a script.
    Stuck,
    /// `NOAUTH` or `WRONGPASS`: the server refused the login.
    NotLetIn,
    /// `NOPERM`: this user may not do that. In a script Redis 7.0 has no code of its own for it,
    /// and the text tells.
    NoPermission,
    /// A script met a key that has moved to another node, and may have done the steps before. Redis
    /// has no code of its own for that, so this error is recognized by its text.
    NonLocalKey,
    /// The server does not know the command, or knows it by another name; recognized by its text,
    /// too.
    UnknownCommand,
    /// Another code for "not now" or "not so": nothing was done.
    Refused,
    /// An unexpected code: another program uses the key, or there is a bug.
    Other,
}

impl ServerError {
    /// Reads an error of the server; `None` for the library's own errors.
    pub(crate) fn of(error: &Error) -> Option<Self> {
        let details = error.details();
        Some(match server_code(details)? {
            "MOVED" => Self::Moved,
            "ASK" => Self::Ask,
            "NOSCRIPT" => Self::UnknownScript,
            "READONLY" => Self::ReadOnly,
            "MASTERDOWN" => Self::MasterDown,
            "LOADING" => Self::Loading,
            "CLUSTERDOWN" => Self::ClusterDown,
            "BUSY" | "UNKILLABLE" => Self::Stuck,
            "NOAUTH" | "WRONGPASS" => Self::NotLetIn,
            "NOPERM" => Self::NoPermission,
            "OOM" | "MISCONF" | "CROSSSLOT" | "NOREPLICAS" | "TRYAGAIN" => Self::Refused,
            _ if details.contains("non local key") => Self::NonLocalKey,
            "ERR" if details.contains("The user executing the script can't run") => {
                Self::NoPermission
            }
            "ERR"
                if details.contains("nknown command")
                    || details.contains("Unknown Redis command") =>
            {
                Self::UnknownCommand
            }
            _ => Self::Other,
        })
    }
}

/// Why a node did not do a command.
#[derive(Debug)]
pub(crate) enum NotDone {
    /// The slot belongs to that node. Nothing was done.
    Moved(Host),
    /// The slot is moving to that node, and these keys are there already. Nothing was done.
    Ask(Host),
    /// The server does not know the script. Nothing was done.
    UnknownScript,
    /// This server is a replica by now. Nothing was done.
    Replica(StoreError),
    /// Anything else.
    Other(StoreError),
}

impl NotDone {
    /// Reads an error with which this node answered.
    pub(crate) fn of(error: &Error, asked: &Host) -> Self {
        match ServerError::of(error) {
            Some(ServerError::Moved) => match read_target(error.details(), asked) {
                Some(to) => Self::Moved(to),
                None => Self::Other(judge(error)),
            },
            Some(ServerError::Ask) => match read_target(error.details(), asked) {
                Some(to) => Self::Ask(to),
                None => Self::Other(judge(error)),
            },
            Some(ServerError::UnknownScript) => Self::UnknownScript,
            Some(ServerError::ReadOnly) => Self::Replica(judge(error)),
            _ => Self::Other(judge(error)),
        }
    }
}

impl From<NotDone> for StoreError {
    fn from(failure: NotDone) -> Self {
        match failure {
            NotDone::Moved(to) => Self::Refused(format!(
                "MOVED to {to}, which this URL's scheme does not follow"
            )),
            NotDone::Ask(to) => {
                Self::Refused(format!("ASK {to}, which this URL's scheme does not follow"))
            }
            NotDone::UnknownScript => Self::Refused("NOSCRIPT".to_owned()),
            NotDone::Replica(error) | NotDone::Other(error) => error,
        }
    }
}

/// Reads the target of `MOVED 3999 10.0.0.1:6381`. An empty host, or `?` for one that the node does
/// not know, means the host that was asked.
fn read_target(details: &str, asked: &Host) -> Option<Host> {
    let (name, port) = details.split(' ').nth(2)?.rsplit_once(':')?;
    let name = if name.is_empty() || name == "?" {
        asked.name.as_str()
    } else {
        name
    };
    Some(Host::new(name, port.parse().ok()?))
}

/// The meaning of an error for the caller of the store.
pub(crate) fn judge(error: &Error) -> StoreError {
    let said = readable(error.details()).to_owned();
    match (ServerError::of(error), error.kind()) {
        (Some(ServerError::NonLocalKey), _) => StoreError::Lost(said),
        (Some(ServerError::Other), _) => StoreError::Nonsense(said),
        (Some(_), _) => StoreError::Refused(said),
        (None, ErrorKind::Timeout) => StoreError::Timeout,
        (None, ErrorKind::Backpressure) => StoreError::Backpressure,
        (None, ErrorKind::Auth) => StoreError::Refused(said),
        (None, ErrorKind::Parse | ErrorKind::InvalidArgument | ErrorKind::InvalidCommand) => {
            StoreError::Nonsense(said)
        }
        (None, _) => StoreError::Lost(said),
    }
}

/// The part of an error that people can read. For an I/O error the library shows
/// `Os { code: 111, …, message: "Connection refused" }`, or
/// `Custom { kind: Uncategorized, error: "failed to lookup address information: Name or service not known" }`.
/// After its own sentence Redis may name the script and its line, or the arguments, which contain
/// ids of users.
pub(crate) fn readable(details: &str) -> &str {
    if let Some(message) = quoted(details, "Os {", "message: \"") {
        return message;
    }
    if let Some(message) = quoted(details, "Custom {", "error: \"") {
        return message;
    }
    let mut said = details;
    for rest in [
        " script: ",
        ", with args beginning with",
        ", on @user_script",
    ] {
        said = said.split(rest).next().unwrap_or(said);
    }
    said.trim_end()
}

/// The text in quotes after `field`, in an error that begins with `kind`.
fn quoted<'a>(details: &'a str, kind: &str, field: &str) -> Option<&'a str> {
    let (_, rest) = details.strip_prefix(kind)?.split_once(field)?;
    let (text, _) = rest.split_once('"')?;
    Some(text)
}

/// The words of a server that refused a call; `None` if it sent the call elsewhere, and for the
/// library's own errors.
pub(crate) fn refusal(error: &Error) -> Option<&str> {
    match ServerError::of(error)? {
        ServerError::Moved | ServerError::Ask | ServerError::UnknownScript => None,
        _ => Some(readable(error.details())),
    }
}

/// The word in capitals with which an error of the server begins; `None` for the library's own
/// errors.
fn server_code(details: &str) -> Option<&str> {
    let word = details.split(' ').next().unwrap_or_default();
    if word.len() >= 3 && word.bytes().all(|b| b.is_ascii_uppercase()) {
        Some(word)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_the_server_differ_from_nonsense_and_from_errors_of_the_library() {
        let judged = |kind, details: &'static str| judge(&Error::new(kind, details)).label();
        assert_eq!(
            judged(
                ErrorKind::Unknown,
                "READONLY You can't write against a read only replica."
            ),
            "refused"
        );
        assert_eq!(
            judged(ErrorKind::Unknown, "OOM command not allowed"),
            "refused"
        );
        assert_eq!(
            judged(ErrorKind::Auth, "NOAUTH Authentication required."),
            "refused"
        );
        assert_eq!(
            judged(ErrorKind::Cluster, "CLUSTERDOWN Hash slot not served"),
            "refused"
        );
        assert_eq!(
            judged(
                ErrorKind::Unknown,
                "TRYAGAIN Multiple keys request during rehashing of slot"
            ),
            "refused"
        );
        assert_eq!(
            judged(
                ErrorKind::Unknown,
                "ERR Script attempted to access a non local key in a cluster"
            ),
            "lost"
        );
        assert_eq!(
            judged(
                ErrorKind::Unknown,
                "ERR unknown command 'EVALSHA', with args beginning with:"
            ),
            "refused"
        );
        assert_eq!(
            judged(
                ErrorKind::Unknown,
                "ERR Unknown Redis command called from script"
            ),
            "refused"
        );
        let may_not =
            "ERR The user executing the script can't run this command or subcommand script: 6f2a";
        assert_eq!(judged(ErrorKind::Unknown, may_not), "refused");
        assert_eq!(
            judged(
                ErrorKind::InvalidArgument,
                "WRONGTYPE Operation against a key"
            ),
            "nonsense"
        );
        assert_eq!(judged(ErrorKind::Unknown, "NONSENSE fence"), "nonsense");
        assert_eq!(
            judged(ErrorKind::Canceled, "Connection closed unexpectedly."),
            "lost"
        );
        assert_eq!(judged(ErrorKind::IO, "Os { code: 104 }"), "lost");
        assert_eq!(judged(ErrorKind::Timeout, "Request timed out."), "timeout");
        assert_eq!(
            judged(ErrorKind::Backpressure, "Max in-flight commands reached."),
            "backpressure"
        );
    }

    #[test]
    fn an_io_error_is_told_in_words() {
        let os = "Os { code: 111, kind: ConnectionRefused, message: \"Connection refused\" }";
        assert_eq!(
            judge(&Error::new(ErrorKind::IO, os)),
            StoreError::Lost("Connection refused".to_owned())
        );
        assert_eq!(
            (readable("Os { code: 104 }"), readable("")),
            ("Os { code: 104 }", "")
        );
        let words = "failed to lookup address information: Name or service not known";
        let dns = format!("Custom {{ kind: Uncategorized, error: \"{words}\" }}");
        assert_eq!(readable(&dns), words);
    }

    #[test]
    fn an_error_of_redis_is_told_without_scripts_and_arguments() {
        for (said, told) in [
            (
                "OOM command not allowed when used memory > 'maxmemory'. script: 6f2a, on @user_script:12.",
                "OOM command not allowed when used memory > 'maxmemory'.",
            ),
            (
                "ERR unknown command 'XADD', with args beginning with: 'u1' ",
                "ERR unknown command 'XADD'",
            ),
            (
                "ERR Unknown Redis command called from script script: 6f2a, on @user_script:1.",
                "ERR Unknown Redis command called from script",
            ),
        ] {
            assert_eq!(readable(said), told);
        }
    }

    #[test]
    fn a_redirection_names_a_node() {
        let asked = Host::new("10.0.0.9", 7000);
        let read =
            |details: &'static str| NotDone::of(&Error::new(ErrorKind::Cluster, details), &asked);
        assert!(
            matches!(read("MOVED 3999 10.0.0.1:6381"), NotDone::Moved(to) if to == Host::new("10.0.0.1", 6381))
        );
        assert!(
            matches!(read("ASK 3999 ::1:6381"), NotDone::Ask(to) if to == Host::new("::1", 6381))
        );
        assert!(
            matches!(read("MOVED 3999 :6381"), NotDone::Moved(to) if to == Host::new("10.0.0.9", 6381))
        );
        assert!(matches!(
            read("MOVED 3999"),
            NotDone::Other(StoreError::Refused(_))
        ));
    }
}
