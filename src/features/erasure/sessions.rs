//! Closes the sessions of users who are being erased, with a socket or without one, as if a moderator
//! had removed them from all lives; and those of users whose erasure this gateway missed.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::presence::conn::Signals;
use crate::session::context::SessionContext;

/// Runs until told to stop. Sessions that begin later are sent away as they begin.
pub(crate) async fn run(context: Arc<SessionContext>, stop: CancellationToken) {
    loop {
        let missed = tokio::select! {
            () = stop.cancelled() => return,
            missed = context.core.erasing.to_send_away() => missed,
        };
        for conn in context.reaper.open_conns() {
            let user = &conn.identity.user;
            if context.core.erasing.contains(user) || missed.has(user) {
                conn.signal(Signals::REMOVED);
            }
        }
    }
}
