//! What a media server takes as a yes or a no.

use axum::http::StatusCode;

use crate::base::media_server::MediaKind;

/// The answer to a callback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaAnswer {
    /// The status.
    pub status: StatusCode,
    /// The body: JSON, or empty.
    pub body: &'static str,
}

impl MediaAnswer {
    /// The publisher may go on, or the gateway took the message in.
    pub fn yes(kind: MediaKind) -> Self {
        let body = match kind {
            MediaKind::Srs => r#"{"code":0}"#,
            MediaKind::OvenMediaEngine => r#"{"allowed":true}"#,
            _ => "",
        };
        Self {
            status: StatusCode::OK,
            body,
        }
    }

    /// The publisher may not publish.
    pub fn no(kind: MediaKind) -> Self {
        match kind {
            MediaKind::Srs => Self {
                status: StatusCode::FORBIDDEN,
                body: r#"{"code":403}"#,
            },
            MediaKind::OvenMediaEngine => Self {
                status: StatusCode::OK,
                body: r#"{"allowed":false,"reason":"not allowed to publish"}"#,
            },
            MediaKind::MediaMtx => Self {
                status: StatusCode::UNAUTHORIZED,
                body: "",
            },
            _ => Self {
                status: StatusCode::FORBIDDEN,
                body: "",
            },
        }
    }
}
