//! The limits of one socket, other than how many a user may have: how fast it may send, and what it may take part in.
//! 0 is no limit.

use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::socket::Transport;
use super::{Session, SessionResult};
use crate::base::clock::Millis;
use crate::base::gcra::{Load, Rate};
use crate::base::metrics::Metrics;
use crate::config::Config;
use crate::session::close_codes::Close;
use crate::session::messages::{self, ErrorCode, Refusal};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Messages of one socket.
    pub(crate) messages: Rate,
    /// Joins of one live.
    pub(crate) joins: Rate,
    /// Lives that a socket watches.
    pub(crate) watches: usize,
    /// Lives that a socket opened and that are still open.
    pub(crate) opens: usize,
}

impl Limits {
    pub(crate) fn new(config: &Config) -> Self {
        let most = |limit: u32| if limit == 0 { usize::MAX } else { limit as usize };
        Self {
            messages: Rate::per_second(config.message_rate),
            joins: Rate::per_second(config.join_rate),
            watches: most(config.watches_per_socket),
            opens: most(config.opens_per_socket),
        }
    }
}

impl<S: Transport> Session<S> {
    /// Counts a frame, or a part of one, against the message rate. The Pong that answers a Ping of the gateway costs
    /// nothing, and a client may always say goodbye.
    pub(super) fn load_of(&mut self, frame: Option<&Message>, now: Millis) -> Load {
        let is_answer = self.pinged_at.is_some();
        let own = match frame {
            None | Some(Message::Close(_)) => 0,
            Some(Message::Pong(_)) if is_answer => 0,
            Some(_) => 1,
        };
        match self.connection.socket.take_parts().saturating_add(own) {
            0 => Load::Within,
            units => self.context.limits.messages.count(&mut self.sent, units, now),
        }
    }

    /// Refuses what is beyond the rate: the first time with an error, then in silence, and then ends the session.
    pub(super) async fn refuse_load(&mut self, load: Load, text: Option<Utf8Bytes>) -> SessionResult {
        Metrics::count(&self.context.metrics.limited, "messages");
        match load {
            Load::FirstBeyond => {
                let id = text.as_ref().and_then(|text| messages::parse(text).0);
                self.serve(id, Err(Refusal::new(ErrorCode::RateLimited, "too many messages; send fewer"))).await
            }
            Load::FarBeyond => Err(Close::RateLimited),
            // The answer to a Ping is queued already.
            Load::Within | Load::Beyond if self.connection.socket.owes() => self.put(None).await,
            Load::Within | Load::Beyond => Ok(()),
        }
    }
}
