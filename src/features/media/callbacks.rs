//! Callbacks of media servers: pure code turns a request into a [`MediaEvent`]. It checks no token and
//! changes nothing. `mapped` reads most kinds, by a [`Mapping`] of the settings; a kind that names its
//! sessions in a way of its own has an adapter. Fields that nobody knows are ignored, so that a newer
//! server goes on working.

use super::fields::Unreadable;
use super::{forms, json, mapped};
use crate::base::media_event::MediaEvent;
use crate::base::media_server::MediaKind;
use crate::config::Mapping;

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
