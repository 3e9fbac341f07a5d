//! Serves heartbeats: notes the time in the socket's [`Conn`](crate::presence::conn::Conn). A
//! heartbeat takes no lock and makes no call to the store. `memberships/acks.rs` acknowledges it.
//!
//! `socket/fast_path.rs` recognises the plain heartbeat without parsing JSON. The
//! [`reaper`](crate::session::reaper) finds clients that send none.

use super::Session;
use crate::base::clock::Moment;

impl<S> Session<S> {
    /// Notes that the client was heard. A frame of any kind counts as a heartbeat.
    pub(super) fn heard(&mut self, now: Moment) {
        self.memberships.conn.heard(now);
        self.memberships.check_watching(now);
        self.pinged_at = None;
        self.context.core.metrics.heartbeats.inc();
    }
}
