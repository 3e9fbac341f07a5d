//! Callbacks of media servers: pure code turns a request into a [`MediaEvent`]. It checks no token and
//! changes nothing. `mapped` reads most kinds, by a [`Mapping`] of the settings; a kind that names its
//! sessions in a way of its own has an adapter. Fields that nobody knows are ignored, so that a newer
//! server goes on working.
//!
//! `signature` proves that the server sent the request, `publisher` decides who may publish, and
//! `intake` lets the live follow. The route `edge/http/media.rs` uses all of them.

mod fields;
mod forms;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
pub(crate) mod intake;
mod json;
mod mapped;
pub(crate) mod poller;
mod polls;
pub(crate) mod publisher;
pub(crate) mod servers;
pub mod setup_error;
pub mod signature;
pub(crate) mod stream_keys;
#[cfg(test)]
mod tests;

use crate::base::media_event::MediaEvent;
use crate::base::media_server::MediaKind;
use crate::config::Mapping;
pub use fields::Unreadable;

/// Reads the body of a callback. `word` is the event, if the URL of the callback names it. `None` is
/// an event that says nothing about a publisher.
///
/// # Errors
/// The body is not what a server of this kind sends.
pub fn read(
    kind: MediaKind,
    mapping: &Mapping,
    word: Option<&str>,
    body: &[u8],
) -> Result<Option<MediaEvent>, Unreadable> {
    match kind {
        MediaKind::NginxRtmp => forms::nginx_rtmp(body),
        MediaKind::NodeMediaServer => json::node_media_server(body),
        MediaKind::OvenMediaEngine => json::oven_media_engine(body),
        MediaKind::LiveKit => json::livekit(body),
        _ => mapped::read(mapping, word, body),
    }
}
