//! `rollcall keys PATTERN` counts the keys in Redis by kind, with their types and an estimate of
//! their memory. It reads every master with SCAN, a page at a time. After each page it pauses for as
//! long as the page took, so that it uses only a part of a server's time.

mod census;

use anyhow::anyhow;
use tokio::time::Instant;

use self::census::Census;
use super::common::{open, print};
use crate::base::exit;
use crate::config::{Config, KeysArgs};
use crate::store::StoreResult;
use crate::store::redis::RedisStore;

/// Counts the keys, writes the result to standard output and returns the exit code.
pub async fn run(config: &Config, args: &KeysArgs) -> anyhow::Result<u8> {
    let store = open(config).await?;
    let census = take(&store, args)
        .await
        .map_err(|why| anyhow!("the command cannot continue: {why}"))?;
    Ok(print(exit::STOPPED, &census, args.json))
}

async fn take(store: &RedisStore, args: &KeysArgs) -> StoreResult<Census> {
    let started = Instant::now();
    let glob = store.keys().matching(&args.pattern);
    let mut census = Census::new(&args.pattern, args.count);
    let (_, masters) = store
        .each_page(&glob, async |keys| census.add(store, keys).await)
        .await?;
    census.finish(masters, started.elapsed());
    Ok(census)
}
