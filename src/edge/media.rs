//! Callbacks of media servers: a pure adapter per kind turns a request into a [`MediaEvent`]. It
//! checks no token and changes nothing. An adapter ignores fields and events that it does not know,
//! so that a newer server goes on working.
//!
//! `signature` proves that the server sent the request, `publisher` decides who may publish, and
//! `intake` lets the live follow. The route `edge/http/media.rs` uses all of them.

pub mod answer;
mod fields;
mod forms;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
pub(crate) mod intake;
mod json;
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
pub use fields::Unreadable;

/// Reads the body of a callback. `None` is an event that says nothing about a publisher.
///
/// # Errors
/// The body is not what a server of this kind sends.
pub fn read(kind: MediaKind, body: &[u8]) -> Result<Option<MediaEvent>, Unreadable> {
    match kind {
        MediaKind::NginxRtmp => forms::nginx_rtmp(body),
        MediaKind::MediaMtx if body.trim_ascii_start().starts_with(b"{") => json::mediamtx(body),
        MediaKind::MediaMtx => forms::mediamtx_hook(body),
        MediaKind::Srs => json::srs(body),
        MediaKind::NodeMediaServer => json::node_media_server(body),
        MediaKind::OvenMediaEngine => json::oven_media_engine(body),
        MediaKind::LiveKit => json::livekit(body),
        MediaKind::Owncast => json::owncast(body),
        MediaKind::Mux => json::mux(body),
        MediaKind::Cloudflare => json::cloudflare(body),
        MediaKind::Generic => json::generic(body),
    }
}
