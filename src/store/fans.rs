//! The boundary to the sources that know which viewers follow a streamer: the store, the viewers'
//! tokens, the platform's own service, or a database. A source makes one attempt with a deadline
//! and retries nothing; `sync` decides when to ask again. A missing answer does not mean no.

mod http;
mod lookup;
mod sql;
mod stored;

use std::sync::Arc;

use async_trait::async_trait;

pub use lookup::{FanAnswers, FanError, FanLookup, FanSetupError};

use self::http::HttpFans;
use self::sql::SqlFans;
use self::stored::StoredFans;
use super::Store;
use crate::base::ids::UserId;
use crate::base::metrics::Metrics;
use crate::config::{Config, FanSource};

/// The source that the settings name.
///
/// # Errors
/// A file or the URL cannot be used. A source that does not answer now is no error.
pub fn open(
    config: &Config,
    store: &Arc<dyn Store>,
    metrics: &Arc<Metrics>,
) -> Result<Arc<dyn FanLookup>, FanSetupError> {
    Ok(match config.fan_source {
        FanSource::Redis => Arc::new(StoredFans::new(store.clone(), config.fan_key)),
        FanSource::Token => Arc::new(TokenFans),
        FanSource::Http => Arc::new(HttpFans::new(config, metrics.clone())?),
        FanSource::Sql => Arc::new(SqlFans::new(config, metrics.clone())?),
    })
}

/// The viewers' tokens say who is a fan. Seats read the tokens of their sockets, and no source
/// knows more.
struct TokenFans;

#[async_trait]
impl FanLookup for TokenFans {
    async fn ask(&self, _: &UserId, users: &[UserId]) -> Result<FanAnswers, FanError> {
        Ok(vec![None; users.len()])
    }
}

#[cfg(test)]
mod tests;
