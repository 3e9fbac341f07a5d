//! What a heartbeat does: it notes the time in the socket's [`Conn`](crate::presence::conn::Conn), and is acknowledged
//! with the counts of the live that the socket joined. It takes no lock and makes no call to the store.
//!
//! `socket/fast_path.rs` recognises the plain heartbeat without parsing JSON. A client that sends none is found by the
//! [`reaper`](crate::session::reaper).

use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::Session;
use crate::base::clock::{Millis, millis};
use crate::session::messages::{self, RequestId, ServerMessage};

impl<S> Session<S> {
    /// A frame of any kind is a heartbeat.
    pub(super) fn heard(&mut self, now: Millis) {
        self.memberships.conn.heard(now);
        self.pinged_at = None;
        self.context.metrics.heartbeats.inc();
    }

    /// The answer to a heartbeat.
    pub(super) fn ack(&self, id: Option<&RequestId>) -> Utf8Bytes {
        let heartbeat_ms = millis(self.context.heartbeat);
        let Some((room, member)) = self.memberships.seat() else {
            let nowhere =
                ServerMessage::HeartbeatAck { live_id: None, fan: None, viewers: None, fans: None, heartbeat_ms };
            return nowhere.text(id);
        };
        let (figures, fan) = (room.figures(), member.fan());
        if let Some(text) = messages::cached_ack(&room.acks.load(), figures, fan, id) {
            return text;
        }
        let acks = messages::acks(&room.record.live, figures, heartbeat_ms);
        room.acks.store(acks.clone());
        messages::cached_ack(&acks, figures, fan, id).unwrap_or_default()
    }
}
