//! The acknowledgements of heartbeats, with the counts of the joined live. All sessions of a live
//! share their texts.

use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::Memberships;
use crate::base::clock::{Millis, millis};
use crate::presence::figures::Figures;
use crate::session::messages::{self, RequestId, ServerMessage};

impl Memberships {
    /// The answer to a heartbeat.
    pub(in crate::session) fn ack(&mut self, id: Option<&RequestId>) -> Utf8Bytes {
        let heartbeat_ms = millis(self.context.core.config.heartbeat);
        let Some(figures) = self.figures() else {
            let message = ServerMessage::HeartbeatAck {
                live_id: None,
                fan: None,
                viewers: None,
                fans: None,
                guests: None,
                heartbeat_ms,
                told: None,
            };
            return message.text(id);
        };
        let Some(seat) = self.seat() else {
            return Utf8Bytes::default();
        };
        let room = &seat.room;
        let fan = seat.member.fan();
        if seat.info != room.info.revision() {
            return self.ack_with_info(id, figures, heartbeat_ms);
        }
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
    /// sockets of the live share the text of this answer, too.
    fn ack_with_info(
        &mut self,
        id: Option<&RequestId>,
        figures: Figures,
        heartbeat_ms: Millis,
    ) -> Utf8Bytes {
        let Some(seat) = self.seat() else {
            return Utf8Bytes::default();
        };
        let room = seat.room.clone();
        let fan = seat.member.fan();
        let known = room.info.newest();
        self.note_info_told(&room, known.revision);
        if let Some(acks) = room.info.acks.load().as_ref()
            && let Some(text) = acks.text(figures, known.revision, fan)
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
