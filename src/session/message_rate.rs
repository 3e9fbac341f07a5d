//! Enforces the message rate of a socket: counts the client's frames, and refuses those beyond the
//! rate.

use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::socket::Transport;
use super::{Session, SessionResult};
use crate::base::clock::Moment;
use crate::base::gcra::Load;
use crate::base::metrics::Metrics;
use crate::session::close_codes::Close;
use crate::session::messages::{self, ErrorCode, Refusal};

impl<S: Transport> Session<S> {
    /// Counts a frame, or a part of a message (`None`), against the message rate. The Pong that
    /// answers a Ping of the gateway costs nothing, and neither does a Close.
    pub(super) fn load_of(&mut self, frame: Option<&Message>, now: Moment) -> Load {
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

    /// Refuses a frame beyond the rate: the first one with an error, further ones in silence. A
    /// client far beyond the rate loses its session.
    pub(super) async fn refuse_load(
        &mut self,
        load: Load,
        text: Option<Utf8Bytes>,
    ) -> SessionResult {
        Metrics::count(&self.context.core.metrics.limited, "messages");
        match load {
            Load::FirstBeyond => {
                let id = match &text {
                    Some(text) => messages::parse(text).0,
                    None => None,
                };
                let refusal = Refusal::new(ErrorCode::RateLimited, "too many messages; send fewer");
                self.serve(id, Err(refusal)).await
            }
            Load::FarBeyond => Err(Close::RateLimited),
            // The answer to a Ping is queued already.
            Load::Within | Load::Beyond if self.connection.socket.needs_flush() => {
                self.put(None).await
            }
            Load::Within | Load::Beyond => Ok(()),
        }
    }
}
