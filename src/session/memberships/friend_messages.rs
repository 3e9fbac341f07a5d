//! The messages about friends in the joined live. A friend is a user whom the socket's user
//! follows.

use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::Memberships;
use crate::session::messages::ServerMessage;

impl Memberships {
    /// Whether the client asked for the friends in the joined live.
    pub(in crate::session) fn asks_friends(&self) -> bool {
        self.asks_friends
    }

    /// Starts to push the friends in the joined live.
    pub(in crate::session) fn begin_friends(&mut self) {
        if let Some(seat) = &self.seat
            && !self.asks_friends
        {
            self.context.core.rooms.ask_friends(
                &seat.room,
                &self.conn,
                self.context.core.clock.now(),
            );
            self.asks_friends = true;
        }
    }

    /// Stops pushing the friends in the joined live.
    pub(in crate::session) fn end_friends(&mut self) {
        if let Some(seat) = &self.seat
            && self.asks_friends
        {
            self.context.core.rooms.forget_asker(&seat.room, &self.conn);
            self.asks_friends = false;
        }
    }

    /// The friends in the joined live, if they changed since the client was last told of them.
    pub(in crate::session) fn new_friends(&self) -> Option<Utf8Bytes> {
        if !self.asks_friends {
            return None;
        }
        let seat = self.seat.as_ref()?;
        let shown = self.context.core.rooms.asker(&self.conn)?.update()?;
        let message = ServerMessage::Friends {
            live_id: &seat.room.record.live,
            count: shown.count,
            user_ids: &shown.users,
            partial: shown.partial,
        };
        self.context.core.metrics.friends_sent.inc();
        Some(message.text(None))
    }
}
