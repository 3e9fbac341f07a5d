//! What a socket is told of the friends who are in the live with its user: those whom the user
//! follows.

use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::Memberships;
use crate::session::messages::ServerMessage;

impl Memberships {
    /// Whether they are pushed.
    pub(in crate::session) fn asks_friends(&self) -> bool {
        self.asks_friends
    }

    /// Has the friends in the joined live pushed.
    pub(in crate::session) fn begin_friends(&mut self) {
        if let Some(seat) = self.seat.as_ref().filter(|_| !self.asks_friends) {
            self.context
                .rooms
                .ask_friends(&seat.room, &self.conn, self.context.clock.now());
            self.asks_friends = true;
        }
    }

    /// Has them pushed no longer.
    pub(in crate::session) fn end_friends(&mut self) {
        if let Some(seat) = self.seat.as_ref().filter(|_| self.asks_friends) {
            self.context.rooms.forget_asker(&seat.room, &self.conn);
            self.asks_friends = false;
        }
    }

    /// The friends in the joined live, if they are others than the client was told last.
    pub(in crate::session) fn new_friends(&self) -> Option<Utf8Bytes> {
        let seat = self.seat.as_ref().filter(|_| self.asks_friends)?;
        let shown = self.context.rooms.asker(&self.conn)?.news()?;
        let message = ServerMessage::Friends {
            live_id: &seat.room.record.live,
            count: shown.count,
            user_ids: &shown.users,
            partial: shown.partial,
        };
        self.context.metrics.friends_sent.inc();
        Some(message.text(None))
    }
}
