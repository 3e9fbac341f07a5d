//! What the commands share: opening the store, printing the answer, and words for people.

use std::fmt::Display;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::gateways::BadOption;
use crate::base::exit;
use crate::base::metrics::Metrics;
use crate::config::{Config, OutputFormat};
use crate::store::Fence;
use crate::store::StoreError;
use crate::store::redis::{Access, ConnectError, RedisStore};

/// Why a command cannot answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommandError {
    #[error("{0}")]
    Connect(#[from] ConnectError),
    #[error("the command cannot continue: {0}")]
    Store(#[from] StoreError),
    #[error("{0}")]
    Option(#[from] BadOption),
}

impl CommandError {
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Option(_) => exit::WRONG_SETTINGS,
            Self::Connect(_) | Self::Store(_) => exit::UNAVAILABLE,
        }
    }
}

pub(super) async fn open(config: &Config) -> Result<RedisStore, CommandError> {
    let url = config.redis.clone().ok_or_else(|| ConnectError::Url("is not given".to_owned()))?;
    let access = Access { url, ca: config.redis_ca.clone() };
    Ok(RedisStore::open_without_canary(access, Arc::new(Metrics::default())).await?)
}

/// Writes to standard output. It is no failure if the reader has gone away.
pub(super) fn print(document: &(impl Serialize + Display), format: OutputFormat) {
    let text = match format {
        OutputFormat::Json => serde_json::to_string(document).unwrap_or_default(),
        OutputFormat::Text => document.to_string(),
    };
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// `open:<epoch>` or `closed:<epoch>`.
pub(super) fn fence_name(fence: Fence) -> String {
    match fence {
        Fence::Open(epoch) => format!("open:{epoch}"),
        Fence::Closed(epoch) => format!("closed:{epoch}"),
    }
}

/// A time span in whole seconds, such as `2m 5s`.
pub(super) fn seconds(span: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(span.as_secs()))
}
