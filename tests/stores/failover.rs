//! A managed Redis behind one name: its master becomes a replica of another server, connections
//! stay open, and some time later the name leads to the new master.

use rollcall::features::WholeStore;
use std::sync::Arc;
use std::time::Duration;

use rollcall::base::key_prefix::KeyPrefix;
use rollcall::base::metrics::Metrics;
use rollcall::base::secret::Secret;
use rollcall::store::redis::{Access, RedisStore};
use rollcall::store::{ApplyReply, BusEvent, Channel, Health, LiveStore, Slot, Status, StoreError};
use tokio::time::{Instant, sleep, timeout};

use crate::conformance::{Caller, connect, live, users};
use crate::link::Link;
use crate::redis_cluster::until;
use crate::redis_server::RedisServer;
use crate::trouble::{BOUND, becomes_within, is_written_again, let_a_former_user_in};

/// From the time on when the name leads to the new master.
const FOUND: Duration = Duration::from_secs(6);

fn replicates(replica: &RedisServer, master: &RedisServer) {
    assert_eq!(
        replica.cli(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]),
        "OK"
    );
}

fn in_step(replica: &RedisServer) -> bool {
    replica
        .cli(&["INFO", "replication"])
        .contains("master_link_status:up")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_leads_to_a_replica_is_followed_until_it_leads_to_a_master() {
    let options = ["--repl-diskless-sync-delay", "0"];
    let (old, new) = (
        RedisServer::start_with(&options).await,
        RedisServer::start_with(&options).await,
    );
    replicates(&new, &old);
    until("the replica is in step", || in_step(&new)).await;
    let link = Link::to(old.addr()).await;
    let store: Arc<dyn WholeStore> = Arc::new(connect(&link.url()).await);
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 3)).await;
    let (on, mut hearing) = (Channel::Live(live("42")), store.events());
    store.subscribe(&live("42"));
    while hearing.next().await != Some(BusEvent::Ready(on.clone())) {}
    let mut doubts = store.doubts();

    // The servers change their parts; the name, and every connection, still lead to the old one.
    // WAIT would prove nothing here: it waits for what its own connection wrote. A replica that is
    // promoted without the registration takes it from the old master too, which then refuses the
    // call instead of the write.
    let entry = a
        .entry
        .map(|number| format!("1:{number}"))
        .expect("a is registered");
    until("the replica has it", || {
        new.cli(&["HGET", "{online-fans:42}:gateways", "a"]) == entry
    })
    .await;
    new.cli(&["REPLICAOF", "NO", "ONE"]);
    replicates(&old, &new);
    let refused = store.apply(&a.next(a.entry, &users(3, 4), &[])).await;
    assert!(
        matches!(refused, Err(StoreError::Refused(_) | StoreError::Lost(_))),
        "{refused:?}"
    );
    let at_once = Duration::from_millis(300);
    assert!(becomes_within(&store, Health::Down, at_once).await);
    assert!(store.parts().borrow().is_away(Slot(0)));
    until("the old master is in step", || in_step(&old)).await;
    assert!(
        !becomes_within(&store, Health::Up, BOUND).await,
        "up at a replica"
    );

    link.lead_to(new.addr());
    assert_eq!(is_written_again(&mut a, FOUND).await, 4);
    assert_eq!(*store.health().borrow(), Health::Up);
    let doubt = timeout(Duration::from_secs(2), doubts.next()).await;
    assert!(
        matches!(&doubt, Ok(Some(doubt)) if doubt.covers(Slot(0))),
        "{doubt:?}"
    );

    // The subscriber has followed too: all words are told at the new master, and heard.
    until("the subscriber is at the new master", || {
        new.cli(&["CLIENT", "LIST", "TYPE", "pubsub"])
            .contains("addr")
    })
    .await;
    let heard = async {
        loop {
            let _ = store.publish(&on, "word".to_owned()).await;
            let word =
                async { while !matches!(hearing.next().await, Some(BusEvent::Message { .. })) {} };
            if timeout(Duration::from_millis(200), word).await.is_ok() {
                return;
            }
        }
    };
    timeout(FOUND, heard)
        .await
        .expect("words are heard at the new master");
    assert_eq!(
        old.cli(&["CLIENT", "LIST", "TYPE", "pubsub"]),
        "",
        "nobody listens at the replica"
    );
}

/// The name already leads to the new master when the old one turns: one new connection is enough.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_leads_to_the_new_master_already_is_followed_at_once() {
    let (old, new) = (RedisServer::start().await, RedisServer::start().await);
    let link = Link::to(old.addr()).await;
    let store: Arc<dyn WholeStore> = Arc::new(connect(&link.url()).await);
    link.lead_to(new.addr());
    replicates(&old, &new);
    let mut a = Caller::new(&store, "a");
    assert_eq!(is_written_again(&mut a, BOUND).await, 1);
    assert_eq!(new.cli(&["SCARD", "online-fans:42"]), "1");
}

/// At the start no call has been refused yet that could tell.
#[tokio::test]
async fn a_store_that_begins_at_a_replica_is_down_at_once() {
    let server = RedisServer::start().await;
    assert_eq!(server.cli(&["REPLICAOF", "127.0.0.1", "1"]), "OK");
    let store: Arc<dyn WholeStore> = Arc::new(connect(&server.url()).await);
    let at_once = Duration::from_millis(500);
    assert!(becomes_within(&store, Health::Down, at_once).await);
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    assert!(becomes_within(&store, Health::Up, FOUND).await);
}

/// The probe of such a user is refused by replicas and masters alike, so calls have to tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_not_write_the_canary_follows_the_name_too() {
    let (old, new) = (RedisServer::start().await, RedisServer::start().await);
    for server in [&old, &new] {
        let_a_former_user_in(server);
    }
    let link = Link::to(old.addr()).await;
    let store: Arc<dyn WholeStore> =
        Arc::new(connect(&link.url().replace("redis://", "redis://old:secret@")).await);
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 1)).await;
    replicates(&old, &new);
    link.lead_to(new.addr());
    let turned = Instant::now();
    while !matches!(
        store.apply(&a.next(None, &users(0, 2), &[])).await,
        Ok(ApplyReply::Done(_))
    ) {
        assert!(turned.elapsed() < FOUND, "never followed");
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(new.cli(&["SCARD", "online-fans:42"]), "2");
}

/// An audit may look at a replica, and leaves nothing behind.
#[tokio::test]
async fn a_store_that_only_looks_writes_nothing_and_is_up_at_a_replica() {
    let server = RedisServer::start().await;
    let access = Access {
        url: Secret::new(server.url()),
        prefix: KeyPrefix::default(),
        ca: None,
    };
    let store = RedisStore::open_without_canary(access, Arc::new(Metrics::default()))
        .await
        .expect("a store");
    sleep(Duration::from_millis(1_200)).await;
    assert_eq!(server.cli(&["DBSIZE"]), "0");
    assert_eq!(server.cli(&["REPLICAOF", "127.0.0.1", "1"]), "OK");
    sleep(Duration::from_millis(1_200)).await;
    assert_eq!(*store.health().borrow(), Health::Up);
    assert_eq!(store.load_live(&live("42")).await, Ok(None));
}
