//! The end of a session, as a media server told it.

use crate::base::clock::UnixMillis;
use crate::base::ids::LiveId;
use crate::features::media::store::Heard;

/// The live of a session that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveOf {
    /// Its id.
    Id(LiveId),
    /// By the digest under which the store noted it.
    Noted(String),
}

/// The end of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedStream {
    pub live: LiveOf,
    pub heard: Heard,
    /// When the gateway heard of it, which may be long before it is written.
    pub heard_at: UnixMillis,
}
