//! The sources of fans outside the store: a service of the platform, or its database.
//!
//! The core asks a [`FanLookup`] and keeps a fan who is known. This feature offers such sources, and
//! asks them in batches, so that joins do not wait for a slow one.

use std::sync::Arc;

use self::asker::FanAsker;
use self::http::HttpFans;
use self::sql::SqlFans;
use super::wired::Wired;
use crate::base::metrics::Metrics;
use crate::config::{Config, FanSource};
use crate::store::fans::{FanLookup, FanSetupError};

pub(crate) mod asker;
pub(crate) mod http;
pub(crate) mod sql;

/// The source that the settings name; `None` if it is none of these.
///
/// # Errors
/// A file or the URL cannot be used. A source that does not answer now is no error.
pub(crate) fn open(
    config: &Config,
    metrics: &Arc<Metrics>,
) -> Result<Option<Arc<dyn FanLookup>>, FanSetupError> {
    match config.fan_source {
        FanSource::Redis | FanSource::Token => Ok(None),
        FanSource::Http => Ok(Some(Arc::new(HttpFans::new(config, metrics.clone())?))),
        FanSource::Sql => Ok(Some(Arc::new(SqlFans::new(config, metrics.clone())?))),
    }
}

/// Asks a source that is elsewhere.
pub(crate) fn feature(source: &Arc<dyn FanLookup>) -> Wired {
    let source = source.clone();
    Wired::joins(move |host, added| {
        added.files.extend(source.clone().secret_file());
        if host.core.config.fan_source.is_elsewhere() {
            let asker = FanAsker {
                core: host.core.clone(),
                source,
                calls: host.core.config.fan_calls,
            };
            added.task("fan asker", |stop| asker.run(stop));
        }
        Ok(())
    })
}
