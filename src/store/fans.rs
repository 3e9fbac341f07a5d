//! The boundary to the sources that know which viewers follow a streamer: the store, the viewers'
//! tokens, the platform's own service, or a database. A source makes one attempt with a deadline
//! and retries nothing; `sync` decides when to ask again. A missing answer does not mean no.

pub(crate) mod lookup;
pub(crate) mod stored;

use std::sync::Arc;

use async_trait::async_trait;

pub use lookup::{FanAnswers, FanError, FanLookup, FanSetupError};

use self::stored::StoredFans;
use crate::base::ids::UserId;
use crate::config::{Config, FanSource};
use crate::store::Store;

/// The viewers' tokens say who is a fan. Seats read the tokens of their sockets, and no source
/// knows more.
pub(crate) struct TokenFans;

#[async_trait]
impl FanLookup for TokenFans {
    async fn ask(&self, _: &UserId, users: &[UserId]) -> Result<FanAnswers, FanError> {
        Ok(vec![None; users.len()])
    }
}

/// The source that the settings name, if it needs no other system. Features know the others.
pub(crate) fn open(config: &Config, store: &Arc<dyn Store>) -> Option<Arc<dyn FanLookup>> {
    match config.fan_source {
        FanSource::Redis => Some(Arc::new(StoredFans::new(store.clone(), config.fan_key))),
        FanSource::Token => Some(Arc::new(TokenFans)),
        FanSource::Http | FanSource::Sql => None,
    }
}

#[cfg(test)]
mod tests;
