//! How much one socket may do, other than how many a user may have: how fast it may send, and what
//! it may take part in. `message_rate.rs` holds it to the first; `requests.rs` to the others.

use crate::base::gcra::Rate;
use crate::config::Config;

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
        let most = |limit: u32| {
            if limit == 0 {
                usize::MAX
            } else {
                limit as usize
            }
        };
        Self {
            messages: Rate::per_second(config.message_rate),
            joins: Rate::per_second(config.join_rate),
            watches: most(config.watches_per_socket),
            opens: most(config.opens_per_socket),
        }
    }
}
