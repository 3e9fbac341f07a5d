//! The span of a socket, so that every line about it has the ids of its session and of its user. It
//! stands only around what is rare: the welcome, a request, the end. An idle socket has none, nor
//! has a heartbeat or a push of counts.

use tracing::Span;

use crate::presence::conn::Conn;

/// Of the highest level, so that lines of every level have it.
pub(super) fn of(conn: &Conn) -> Span {
    tracing::error_span!("socket", session_id = %conn.session(), user_id = %conn.identity.user)
}
