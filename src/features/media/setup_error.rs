//! What stops a gateway from using a media server of its settings.

use crate::base::media_server::MediaServerName;
use crate::features::wired::SetupError;

/// Why a server cannot be used as it is set up. Its text holds no secret.
#[derive(Debug, thiserror::Error)]
#[error("media.{server}.{key}: {problem}")]
pub struct MediaSetupError {
    /// The server.
    pub server: MediaServerName,
    /// The key of its table.
    pub key: &'static str,
    /// What is wrong.
    pub problem: String,
}

impl From<MediaSetupError> for SetupError {
    fn from(why: MediaSetupError) -> Self {
        Self::Wrong(why.to_string())
    }
}
