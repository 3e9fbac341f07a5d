//! The limits of one socket: how fast it may send, and how many lives it may take part in.
//! `message_rate.rs` enforces the message rate, `requests.rs` the other limits. The number of
//! sockets of a user is limited elsewhere.

use crate::base::gcra::Rate;
use crate::config::Config;

#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionLimits {
    /// How fast one socket may send messages.
    pub(crate) messages: Rate,
    /// How fast viewers may join one live.
    pub(crate) joins: Rate,
    /// Maximum lives that a socket watches.
    pub(crate) watches: usize,
    /// Maximum lives that a socket opened and that are still open.
    pub(crate) opens: usize,
}

impl SessionLimits {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            messages: Rate::per_second(config.message_rate),
            joins: Rate::per_second(config.join_rate),
            watches: zero_is_unlimited(config.watches_per_socket),
            opens: zero_is_unlimited(config.opens_per_socket),
        }
    }
}

fn zero_is_unlimited(limit: u32) -> usize {
    if limit == 0 {
        usize::MAX
    } else {
        limit as usize
    }
}
