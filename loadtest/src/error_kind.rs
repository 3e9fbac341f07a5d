//! What can go wrong with a socket, as the short stable names that the report counts errors by.

use std::borrow::Cow;
use std::io::ErrorKind;

use tokio_tungstenite::tungstenite::Error as WsError;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

/// The name of one kind of error, `family` or `family:detail`.
pub(crate) type ErrorName = Cow<'static, str>;

pub(crate) const CONNECT_TIMEOUT: ErrorName = Cow::Borrowed("connect_timeout");
pub(crate) const NO_TOKEN: ErrorName = Cow::Borrowed("no_token");
pub(crate) const TLS: ErrorName = Cow::Borrowed("tls");
pub(crate) const JOIN_TIMEOUT: ErrorName = Cow::Borrowed("join_timeout");
pub(crate) const MISSING_ACK: ErrorName = Cow::Borrowed("missing_ack");
pub(crate) const LATE_ACK: ErrorName = Cow::Borrowed("late_ack");
pub(crate) const UNASKED_ACK: ErrorName = Cow::Borrowed("unasked_ack");
pub(crate) const BAD_FRAME: ErrorName = Cow::Borrowed("bad_frame");
pub(crate) const LIVE_CLOSED: ErrorName = Cow::Borrowed("live_closed");
pub(crate) const NO_DATAGRAMS: ErrorName = Cow::Borrowed("no_datagrams");
pub(crate) const SESSION_OVER: ErrorName = Cow::Borrowed("session_over");
pub(crate) const RECONNECT_TOLD: ErrorName = Cow::Borrowed("reconnect_told");

/// A TCP connection that did not come about.
pub(crate) fn of_connect(error: &std::io::Error) -> ErrorName {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connect_refused".into(),
        ErrorKind::AddrNotAvailable | ErrorKind::AddrInUse => "connect_no_source_port".into(),
        kind => format!("connect:{kind}").into(),
    }
}

/// A request over HTTP that was not answered.
pub(crate) fn of_http(error: &std::io::Error) -> ErrorName {
    format!("http:{}", error.kind()).into()
}

/// A refusal over HTTP without a code.
pub(crate) fn of_status(status: u16) -> ErrorName {
    format!("http_status:{status}").into()
}

/// A WebSocket that failed, in the upgrade or later.
pub(crate) fn of_socket(error: &WsError) -> ErrorName {
    match error {
        WsError::Http(response) => format!("upgrade_status:{}", response.status().as_u16()).into(),
        WsError::Protocol(ProtocolError::ResetWithoutClosingHandshake)
        | WsError::ConnectionClosed
        | WsError::AlreadyClosed => "closed_without_code".into(),
        WsError::Io(error) => format!("socket:{}", error.kind()).into(),
        WsError::Protocol(_) | WsError::Capacity(_) | WsError::Utf8(_) => {
            "protocol_violation".into()
        }
        _ => "socket:other".into(),
    }
}

/// A close frame from the gateway.
pub(crate) fn of_close(frame: Option<&CloseFrame>) -> ErrorName {
    match frame {
        Some(frame) => format!("close_code:{}", u16::from(frame.code)).into(),
        None => "close_code:none".into(),
    }
}

/// An `error` message from the gateway, by its code.
pub(crate) fn of_code(code: Option<&str>) -> ErrorName {
    format!("error_code:{}", code.unwrap_or("none")).into()
}
