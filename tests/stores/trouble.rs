//! Waiting for a store whose Redis is in trouble: that it notices, and that it works again.

use rollcall::features::WholeStore;
use std::sync::Arc;
use std::time::Duration;

use rollcall::base::ids::LiveId;
use rollcall::store::redis::keys::Keys;
use rollcall::store::{ApplyReply, Health, StoreError, StoreResult};
use tokio::time::{Instant, sleep, timeout};

use crate::conformance::{Caller, live, users};
use crate::redis_cluster::RedisCluster;
use crate::redis_server::RedisServer;

/// No call may take longer.
pub const BOUND: Duration = Duration::from_secs(2);

/// The longest that a store may take to notice that Redis is away, or back.
const NOTICED: Duration = Duration::from_secs(15);

pub async fn becomes(store: &Arc<dyn WholeStore>, health: Health) {
    let became = becomes_within(store, health, NOTICED).await;
    assert!(became, "the store does not become {health:?}");
}

pub async fn becomes_within(store: &Arc<dyn WholeStore>, health: Health, within: Duration) -> bool {
    let mut seen = store.health();
    let changed = timeout(within, seen.wait_for(|now| *now == health)).await;
    changed.is_ok()
}

/// Fan 3 joins a slice as soon as it can be written to again, within this time. Returns how many fans
/// there are then.
pub async fn is_written_again(caller: &mut Caller, within: Duration) -> u64 {
    let began = Instant::now();
    loop {
        let call = caller.next(caller.entry, &users(3, 4), &[]);
        match timeout(BOUND, caller.store.apply(&call))
            .await
            .expect("an answer within two seconds")
        {
            Ok(ApplyReply::Done(size)) => {
                eprintln!("written again after {:?}", began.elapsed());
                return size.card;
            }
            Ok(other) => panic!("{other:?}"),
            Err(error) => assert!(began.elapsed() < within, "still {error}"),
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Redis refuses what it was asked.
pub fn is_refused<T: std::fmt::Debug>(answer: &StoreResult<T>) {
    assert!(matches!(answer, Err(StoreError::Refused(_))), "{answer:?}");
}

/// A user with a rule from before there were canaries.
pub fn let_a_former_user_in(server: &RedisServer) {
    let rule = "ACL SETUSER old on >secret +@all ~*online-fans* ~rollcall:leases &*";
    let words: Vec<&str> = rule.split(' ').collect();
    assert_eq!(server.cli(&words), "OK");
}

/// For each of the masters a live whose record is there.
pub fn a_record_on_each(cluster: &RedisCluster) -> [LiveId; 3] {
    let keys = Keys::default();
    [0, 1, 2].map(|master| a_live_on(cluster, master, |live| keys.live(live)))
}

/// A live of which this key is on this master.
pub fn a_live_on(cluster: &RedisCluster, master: usize, key: impl Fn(&LiveId) -> String) -> LiveId {
    (0..)
        .map(|n| live(&format!("live{n}")))
        .find(|live| cluster.home(&key(live)) == master)
        .expect("a live")
}
