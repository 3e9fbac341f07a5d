//! Functions that the commands share: they open the store, print the answer, and put values into
//! words for people.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::gateways::{BadOption, KeyRefused};
use crate::base::exit;
use crate::config::Config;
use crate::store::Fence;
use crate::store::fans::FanSetupError;
use crate::store::redis::{Access, ConnectError, RedisStore};

pub(crate) async fn open(config: &Config) -> Result<RedisStore, ConnectError> {
    let Some(access) = access(config) else {
        return Err(ConnectError::Url("is not given".to_owned()));
    };
    RedisStore::open_without_canary(access, Arc::default()).await
}

/// The Redis of the settings; `None` for the memory store.
pub(crate) fn access(config: &Config) -> Option<Access> {
    let url = config.redis.clone()?;
    Some(Access {
        url,
        prefix: config.key_prefix.clone(),
        ca: config.redis_ca.clone(),
    })
}

/// The exit code for the error of a command.
pub fn code_of(why: &anyhow::Error) -> u8 {
    let is_mistake = why.downcast_ref().is_some_and(ConnectError::is_mistake)
        || why.is::<FanSetupError>()
        || why.is::<KeyRefused>()
        || why.is::<BadOption>();
    if is_mistake {
        exit::WRONG_SETTINGS
    } else {
        exit::UNAVAILABLE
    }
}

/// Writes a document to standard output, as JSON or for people. Returns the code, or that of output
/// that could not be written.
pub(crate) fn print(code: u8, document: &(impl Serialize + Display), json: bool) -> u8 {
    if json {
        exit::print(code, serde_json::to_string(document).unwrap_or_default())
    } else {
        exit::print(code, document)
    }
}

/// `open:<epoch>` or `closed:<epoch>`.
pub(crate) fn fence_name(fence: Fence) -> String {
    match fence {
        Fence::Open(epoch) => format!("open:{epoch}"),
        Fence::Closed(epoch) => format!("closed:{epoch}"),
    }
}

/// A time span in whole seconds, such as `2m 5s`.
pub(crate) fn seconds(span: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(span.as_secs()))
}
