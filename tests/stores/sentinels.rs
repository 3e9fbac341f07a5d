//! Sentinels watch a master: it is killed, its replica takes its place, and the store finds the
//! replica.

use rollcall::features::WholeStore;
use std::sync::Arc;
use std::time::Duration;

use rollcall::store::StoreError;
use rollcall::store::redis::ConnectError;

use crate::conformance::{Caller, connect, fans, slice, try_connect, users};
use crate::redis_sentinels::RedisSentinels;
use crate::trouble::is_written_again;

/// A sentinel takes a second to see that the master is gone, and some to agree and to promote; the
/// store another to ask.
const FAILOVER: Duration = Duration::from_secs(12);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_new_master_is_found_though_a_sentinel_hangs() {
    let mut redis = RedisSentinels::start().await;
    let store: Arc<dyn WholeStore> = Arc::new(connect(&redis.url()).await);
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 3)).await;
    let passed_on = || redis.servers[0].cli_as("secret", &["WAIT", "1", "1000"]) == "1";
    crate::redis_cluster::until("the replica has it", passed_on).await;

    redis.servers[0].kill();
    assert_eq!(is_written_again(&mut a, FAILOVER).await, 4);
    assert_eq!(fans(&store, &slice()).await, users(0, 4));

    // One sentinel that hangs, the first in the URL, keeps nobody from finding the master.
    redis.freeze_a_sentinel();
    let late: Arc<dyn WholeStore> = Arc::new(connect(&redis.url()).await);
    assert_eq!(fans(&late, &slice()).await, users(0, 4));
}

#[tokio::test]
async fn a_name_that_no_sentinel_knows_is_told() {
    let redis = RedisSentinels::start().await;
    for (known, unknown) in [("/main", "/other"), ("secret", "wrong")] {
        let url = redis.url().replace(known, unknown);
        let refused = try_connect(&url, None).await.err();
        let is_told = matches!(
            refused,
            Some(ConnectError::Unreachable(StoreError::Refused(_)))
        );
        assert!(is_told, "{refused:?}");
    }
}
