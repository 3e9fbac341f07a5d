//! Opens the store of a gateway, and looks whether it was used with other settings before.

use std::sync::Arc;
use std::time::Duration;

use super::start_error::StartError;
use crate::base::clock::Clock;
use crate::base::metrics::Metrics;
use crate::config::Config;
use crate::features::{self, WholeStore};
use crate::store::Store;
use crate::store::memory::MemoryStore;
use crate::store::redis::{Access, ConnectError, RedisStore};

pub(super) async fn open(
    config: &Config,
    metrics: &Arc<Metrics>,
) -> Result<Arc<dyn WholeStore>, ConnectError> {
    let Some(url) = &config.redis else {
        return Ok(Arc::new(MemoryStore::new(Clock::start())));
    };
    let deadline = tokio::time::Instant::now() + config.wait_for_store;
    loop {
        let access = Access {
            url: url.clone(),
            prefix: config.key_prefix.clone(),
            ca: config.redis_ca.clone(),
        };
        match open_and_try(access, metrics).await {
            Ok(store) => return Ok(Arc::new(store)),
            Err(why) if why.may_pass() && tokio::time::Instant::now() < deadline => {
                tracing::info!(error = %why, "the store is not there yet; waiting");
            }
            Err(why) => return Err(why),
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Connects to Redis, and tries out whether a gateway can work with it. The problems that a gateway
/// can live with go into the log.
async fn open_and_try(access: Access, metrics: &Arc<Metrics>) -> Result<RedisStore, ConnectError> {
    let store = RedisStore::open(access, metrics.clone()).await?;
    let found = store.try_out().await?;
    for warning in &found.warnings {
        tracing::warn!("{warning}");
    }
    for refusal in &found.refusals {
        tracing::warn!("{refusal}");
    }
    for away in &found.away {
        tracing::info!("a master was not tried out: {away}");
    }
    Ok(store)
}

/// Fixes the forms in which the store keeps things.
///
/// # Errors
/// The store already has another form.
pub(super) async fn fix_forms(config: &Config, store: &dyn WholeStore) -> Result<(), StartError> {
    if config.track_online {
        fix_seen_ids(config, store).await?;
    }
    features::check(config, store).await?;
    Ok(())
}

/// Fixes the form in which the store keeps the ids of users seen.
///
/// # Errors
/// The store already has another form.
async fn fix_seen_ids(config: &Config, store: &dyn Store) -> Result<(), StartError> {
    let wanted = config.last_seen_ids;
    let fixed = match store.fix_seen_ids(wanted).await {
        Ok(fixed) if fixed == wanted => return Ok(()),
        Ok(fixed) => fixed,
        Err(why) => {
            // The walk tries again.
            tracing::warn!(error = %why, "could not look how the store keeps the ids of users seen");
            return Ok(());
        }
    };
    let fixed = fixed.as_str();
    let wanted = wanted.as_str();
    Err(StartError::Settings(format!(
        "this Redis was first used with last-seen-ids {fixed}, which cannot be changed to {wanted} while it has data: \
         use last-seen-ids {fixed}, or forget all users seen and delete the key {prefix}rollcall:last-seen-ids",
        prefix = config.key_prefix
    )))
}
