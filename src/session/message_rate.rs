//! Holds a socket to its message rate: counts what the client sends, and refuses what is beyond.

use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::socket::Transport;
use super::{Session, SessionResult};
use crate::base::clock::Millis;
use crate::base::gcra::Load;
use crate::base::metrics::Metrics;
use crate::session::close_codes::Close;
use crate::session::messages::{self, ErrorCode, Refusal};

impl<S: Transport> Session<S> {
    /// Counts a frame, or a part of one, against the message rate. The Pong that answers a Ping of
    /// the gateway costs nothing, and a client may always say goodbye.
    pub(super) fn load_of(&mut self, frame: Option<&Message>, now: Millis) -> Load {
        let is_answer = self.pinged_at.is_some();
        let own = match frame {
            None | Some(Message::Close(_)) => 0,
            Some(Message::Pong(_)) if is_answer => 0,
            Some(_) => 1,
        };
        match self.connection.socket.take_parts().saturating_add(own) {
            0 => Load::Within,
            units => self
                .context
                .limits
                .messages
                .count(&mut self.sent, units, now),
        }
    }

    /// Refuses what is beyond the rate: the first time with an error, then in silence, and then
    /// ends the session.
    pub(super) async fn refuse_load(
        &mut self,
        load: Load,
        text: Option<Utf8Bytes>,
    ) -> SessionResult {
        Metrics::count(&self.context.metrics.limited, "messages");
        match load {
            Load::FirstBeyond => {
                let id = text.as_ref().and_then(|text| messages::parse(text).0);
                self.serve(
                    id,
                    Err(Refusal::new(
                        ErrorCode::RateLimited,
                        "too many messages; send fewer",
                    )),
                )
                .await
            }
            Load::FarBeyond => Err(Close::RateLimited),
            // The answer to a Ping is queued already.
            Load::Within | Load::Beyond if self.connection.socket.owes() => self.put(None).await,
            Load::Within | Load::Beyond => Ok(()),
        }
    }
}
