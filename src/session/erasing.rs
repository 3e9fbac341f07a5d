//! Closes the sessions of users who are being erased, with a socket or without one, as if a moderator
//! had removed them from all lives.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::context::SessionContext;
use crate::presence::conn::Signals;

/// Runs until told to stop. Sessions that begin later are sent away as they begin.
pub(crate) async fn run(context: Arc<SessionContext>, stop: CancellationToken) {
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = context.erasing.added() => {}
        }
        for conn in context.reaper.open_conns() {
            if context.erasing.contains(&conn.identity.user) {
                conn.signal(Signals::REMOVED);
            }
        }
    }
}
