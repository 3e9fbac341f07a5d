//! What a heartbeat does: it notes the time in the socket's [`Conn`](crate::presence::conn::Conn),
//! and is acknowledged with the counts of the live that the socket joined. It takes no lock and
//! makes no call to the store.
//!
//! `socket/fast_path.rs` recognises the plain heartbeat without parsing JSON. A client that sends
//! none is found by the [`reaper`](crate::session::reaper).

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
    pub(super) fn ack(&mut self, id: Option<&RequestId>) -> Utf8Bytes {
        let heartbeat_ms = millis(self.context.heartbeat);
        let Some(seat) = self.memberships.seat() else {
            let (live_id, fan, viewers, fans, told) = (None, None, None, None, None);
            return ServerMessage::HeartbeatAck {
                live_id,
                fan,
                viewers,
                fans,
                heartbeat_ms,
                told,
            }
            .text(id);
        };
        let (room, fan) = (&seat.room, seat.member.fan());
        if seat.info != room.info.revision() {
            return self.ack_with_info(id, heartbeat_ms);
        }
        let figures = room.figures();
        if let Some(text) = room.acks.load().text(figures, 0, fan) {
            return messages::answering(text, id);
        }
        let acks = messages::acks(&room.record.live, figures, None, heartbeat_ms);
        room.acks.store(acks.clone());
        acks.text(figures, 0, fan)
            .map(|text| messages::answering(text, id))
            .unwrap_or_default()
    }

    /// The answer to the first heartbeat after a back end wrote something about the live. All
    /// sockets of the live share its text, too.
    fn ack_with_info(&mut self, id: Option<&RequestId>, heartbeat_ms: Millis) -> Utf8Bytes {
        let Some(seat) = self.memberships.seat() else {
            return Utf8Bytes::default();
        };
        let (room, fan) = (seat.room.clone(), seat.member.fan());
        let (figures, known) = (room.figures(), room.info.newest());
        self.memberships.note_info_told(&room, known.revision);
        if let Some(text) = room
            .info
            .acks
            .load()
            .as_ref()
            .and_then(|acks| acks.text(figures, known.revision, fan))
        {
            return messages::answering(text, id);
        }
        let acks = messages::acks(&room.record.live, figures, Some(&known), heartbeat_ms);
        room.info.acks.store(Some(acks.clone()));
        acks.text(figures, known.revision, fan)
            .map(|text| messages::answering(text, id))
            .unwrap_or_default()
    }
}
