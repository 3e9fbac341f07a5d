//! The span of a socket: it gives every log line about the socket the ids of its session and of its
//! user. Only rare work runs in it: the welcome, a request, the end. An idle socket, a heartbeat and
//! a push of counts have no span.

use tracing::Span;

use crate::presence::conn::Conn;

/// The span has the highest level, so that log lines of every level are in it.
pub(super) fn of(conn: &Conn) -> Span {
    tracing::error_span!("socket", socket_id = %conn.socket_id(), user_id = %conn.identity.user)
}
