//! Events after which a gateway must check the store again: an empty server behind a connection
//! that stays, a connection made again, a slot that moved. One event raises one doubt or two.

use rollcall::features::WholeStore;
use std::sync::Arc;
use std::time::Duration;

use rollcall::store::redis::keys::Keys;
use rollcall::store::{Doubt, Doubts, Slot};
use tokio::time::{Instant, sleep, timeout};

use crate::conformance::{connect, live, memory, redis, slice, user};
use crate::link::Link;
use crate::redis_cluster::{RedisCluster, until};
use crate::redis_server::RedisServer;
use crate::trouble::a_record_on_each;

/// A probe each second, and its answer.
const PROBED: Duration = Duration::from_millis(2_500);

/// What is heard until then.
async fn heard(doubts: &mut Doubts, within: Duration) -> Vec<Doubt> {
    let (mut heard, end) = (Vec::new(), Instant::now() + within);
    while let Ok(doubt) = tokio::time::timeout_at(end, doubts.next()).await {
        heard.push(doubt.expect("a store"));
    }
    heard
}

/// For longer than a probe, nothing is heard.
async fn is_in_peace(doubts: &mut Doubts) {
    assert_eq!(heard(doubts, Duration::from_millis(1_500)).await, []);
}

async fn a_canary_is_there(server: &RedisServer) {
    until("there is a canary", || {
        server.cli(&["EXISTS", &Keys::default().canary()]) == "1"
    })
    .await;
}

#[tokio::test]
async fn a_memory_store_never_doubts_and_is_one_part() {
    let store = memory();
    assert!(
        timeout(Duration::from_millis(50), store.doubts().next())
            .await
            .is_err()
    );
    assert!(store.parts().borrow().is_whole() && store.parts().borrow().count() == 1);
    assert_eq!(store.slot_of_live(&live("42")), Slot(0));
    assert_eq!(store.slot_of_slice(&slice()), Slot(0));
    let for_clients = Arc::clone(&store).for_clients();
    assert_eq!(for_clients.follow(&user(1), &user(2)).await, Ok(true));
    assert_eq!(store.follower_count(&user(2)).await, Ok(1));
}

#[tokio::test]
async fn an_emptied_server_is_doubted_though_its_connections_stay() {
    let server = RedisServer::start().await;
    let (store, other) = (redis(&server).await, redis(&server).await);
    let (mut doubts, mut others) = (store.doubts(), other.doubts());
    a_canary_is_there(&server).await;
    is_in_peace(&mut doubts).await;
    server.cli(&["FLUSHALL"]);
    let heard_here = heard(&mut doubts, PROBED).await;
    assert!(
        heard_here.len() == 1 && heard_here[0].covers(store.slot_of_live(&live("42"))),
        "{heard_here:?}"
    );
    // One of the two wrote the new canary, and both know it for another.
    assert_eq!(heard(&mut others, Duration::from_millis(10)).await.len(), 1);
    is_in_peace(&mut doubts).await;
}

#[tokio::test]
async fn a_connection_that_was_made_again_is_a_doubt() {
    let server = RedisServer::start().await;
    let link = Link::to(server.addr()).await;
    let store: Arc<dyn WholeStore> = Arc::new(connect(&link.url()).await);
    let mut doubts = store.doubts();
    is_in_peace(&mut doubts).await;
    link.cut();
    sleep(Duration::from_millis(50)).await;
    link.heal();
    let heard = heard(&mut doubts, Duration::from_secs(4)).await;
    assert!((1..=3).contains(&heard.len()), "{heard:?}");
    assert!(heard.iter().all(|doubt| doubt.covers(Slot(0))), "{heard:?}");
}

/// After an outage the doubt is told when the store can be asked, not before.
#[tokio::test]
async fn after_an_outage_the_doubt_comes_when_the_store_can_be_asked() {
    let server = RedisServer::start().await;
    let link = Link::to(server.addr()).await;
    let store: Arc<dyn WholeStore> = Arc::new(connect(&link.url()).await);
    let mut doubts = store.doubts();
    link.cut();
    let mut parts = store.parts();
    let away = timeout(
        Duration::from_secs(10),
        parts.wait_for(|parts| parts.is_away(Slot(0))),
    )
    .await;
    assert!(away.is_ok_and(|parts| parts.is_ok_and(|parts| !parts.is_whole())));
    assert_eq!(heard(&mut doubts, Duration::from_secs(1)).await, []);
    link.heal();
    let doubt = timeout(Duration::from_secs(5), doubts.next()).await;
    assert!(
        matches!(&doubt, Ok(Some(doubt)) if doubt.covers(Slot(0))),
        "{doubt:?}"
    );
    store
        .load_live(&live("42"))
        .await
        .expect("an answer at once");
}

fn canaries_on(node: &RedisServer) -> usize {
    node.cli(&["KEYS", "rollcall:canary:*"])
        .matches("rollcall:canary:")
        .count()
}

#[tokio::test]
async fn a_subscriber_that_was_hung_up_on_is_a_doubt() {
    let server = RedisServer::start().await;
    let store = redis(&server).await;
    let mut doubts = store.doubts();
    until("the subscriber is there", || {
        server
            .cli(&["CLIENT", "LIST", "TYPE", "pubsub"])
            .contains("addr")
    })
    .await;
    is_in_peace(&mut doubts).await;
    assert_eq!(server.cli(&["CLIENT", "KILL", "TYPE", "pubsub"]), "1");
    let heard = heard(&mut doubts, Duration::from_secs(3)).await;
    assert!(heard.len() == 1 && heard[0].covers(Slot(0)), "{heard:?}");
}

#[tokio::test]
async fn a_moved_slot_is_doubted_and_no_other() {
    let cluster = RedisCluster::start(3, 0).await;
    let store: Arc<dyn WholeStore> = Arc::new(connect(&cluster.url()).await);
    let mut doubts = store.doubts();
    cluster
        .until("each master has a canary", |node| canaries_on(node) == 1)
        .await;
    let [moving, other, third] = a_record_on_each(&cluster).map(|live| store.slot_of_live(&live));
    assert_ne!(
        store.parts().borrow().part_of(moving),
        store.parts().borrow().part_of(other)
    );
    is_in_peace(&mut doubts).await;

    let slot = usize::from(moving.0);
    cluster.begin_move(slot, 0, 1);
    while cluster.move_a_key(slot, 0, 1) {}
    cluster.end_move(slot, 1);
    // The map is read every few seconds.
    let heard = heard(&mut doubts, Duration::from_secs(8)).await;
    assert!((1..=2).contains(&heard.len()), "{heard:?}");
    assert!(heard.iter().any(|doubt| doubt.covers(moving)), "{heard:?}");
    assert!(
        !heard
            .iter()
            .any(|doubt| doubt.covers(other) || doubt.covers(third)),
        "{heard:?}"
    );
    let parts = store.parts().borrow().clone();
    assert_eq!(parts.part_of(moving), parts.part_of(other));
    cluster
        .until("each master has its canary still", |node| {
            canaries_on(node) == 1
        })
        .await;
}

#[tokio::test]
async fn a_killed_master_is_a_part_that_is_away_and_doubted_once_it_is_back() {
    let mut cluster = RedisCluster::start(3, 0).await;
    let store: Arc<dyn WholeStore> = Arc::new(connect(&cluster.url()).await);
    let (mut doubts, mut parts) = (store.doubts(), store.parts());
    let [dead, other, third] = a_record_on_each(&cluster).map(|live| store.slot_of_live(&live));
    assert_eq!(parts.borrow().count(), 3);
    cluster
        .until("each master has a canary", |node| canaries_on(node) == 1)
        .await;
    cluster.nodes[0].kill();
    let away = timeout(
        Duration::from_secs(10),
        parts.wait_for(|parts| parts.is_away(dead)),
    )
    .await;
    let away = away.unwrap().unwrap().clone();
    assert!(
        !away.is_whole() && !away.is_away(other) && !away.is_away(third),
        "{away:?}"
    );
    cluster.restart(0).await;
    let whole = timeout(
        Duration::from_secs(15),
        parts.wait_for(|parts| parts.is_whole()),
    )
    .await;
    drop(whole.expect("whole again"));
    let heard = heard(&mut doubts, Duration::from_secs(3)).await;
    assert!(
        (1..=3).contains(&heard.len()) && heard.iter().any(|doubt| doubt.covers(dead)),
        "{heard:?}"
    );
    assert!(
        !heard
            .iter()
            .any(|doubt| doubt.covers(other) || doubt.covers(third)),
        "{heard:?}"
    );
}
