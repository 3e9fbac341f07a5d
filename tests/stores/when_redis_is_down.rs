//! The connection is cut, stalled and muted; the server is frozen, killed and emptied. No call
//! takes longer than two seconds, the store says that it is down, and it comes up again by itself.

use rollcall::features::WholeStore;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rollcall::base::ids::Group;
use rollcall::base::metrics::Metrics;
use rollcall::base::secret::Secret;
use rollcall::store::redis::keys::Keys;
use rollcall::store::redis::{ConnectError, RedisStore};
use rollcall::store::{Apply, ApplyReply, Health, LeaseReply, StoreError, StoreResult};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::conformance::{
    Caller, connect, fans, fence, is_refused, live, renewal, slice, try_look, user, users,
};
use crate::link::Link;
use crate::redis_server::RedisServer;
use crate::trouble::{self, BOUND, becomes, becomes_within, let_a_former_user_in};

async fn within_bound<T>(call: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
    timeout(BOUND, call)
        .await
        .expect("an answer within two seconds")
}

/// A call that does as little as can be.
async fn asks(store: &Arc<dyn WholeStore>) -> StoreResult<bool> {
    within_bound(store.is_member(&slice(), Group::Fans, &user(1))).await
}

/// Waits until a call succeeds again.
async fn answers(store: &Arc<dyn WholeStore>) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while let Err(error) = asks(store).await {
        assert!(Instant::now() < deadline, "still {error}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// A call each 50 ms until the store is found down; each must end in time.
async fn steady_traffic_until_down(store: &Arc<dyn WholeStore>) {
    let mut calls = JoinSet::new();
    let deadline = Instant::now() + Duration::from_secs(15);
    while *store.health().borrow() == Health::Up {
        assert!(Instant::now() < deadline, "never found down");
        let store = Arc::clone(store);
        calls.spawn(async move { asks(&store).await.is_ok() });
        sleep(Duration::from_millis(50)).await;
    }
    let answered = calls.join_all().await;
    assert!(answered.len() > 10 && !answered.iter().all(|ok| *ok));
}

/// Down, a call is refused at once rather than after its deadline.
async fn fails_fast(store: &Arc<dyn WholeStore>) {
    let asked = Instant::now();
    let refused = asks(store).await;
    assert!(matches!(refused, Err(StoreError::Lost(_))), "{refused:?}");
    assert!(asked.elapsed() < Duration::from_millis(100));
}

async fn linked() -> (RedisServer, Link, Arc<dyn WholeStore>) {
    let server = RedisServer::start().await;
    let link = Link::to(server.addr()).await;
    let store: Arc<dyn WholeStore> = Arc::new(connect(&link.url()).await);
    (server, link, store)
}

#[tokio::test]
async fn a_cut_wire_is_noticed_and_healed() {
    let (_server, link, store) = linked().await;
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 3)).await;
    link.cut();
    steady_traffic_until_down(&store).await;
    fails_fast(&store).await;
    link.heal();
    becomes(&store, Health::Up).await;
    assert_eq!(a.moves_on().await.card, 3);
}

#[tokio::test]
async fn a_short_cut_is_healed_before_the_store_is_called_down() {
    let (_server, link, store) = linked().await;
    let mut seen = store.health();
    seen.mark_unchanged();
    link.cut();
    sleep(Duration::from_millis(50)).await;
    link.heal();
    answers(&store).await;
    assert!(!seen.has_changed().unwrap());
}

/// What has failed over a cut wire does not land once it is healed. In the instant of the cut a
/// call may still wait for its timeout; soon none does.
#[tokio::test]
async fn calls_without_a_connection_are_refused_at_once_and_never_sent() {
    let (_server, link, store) = linked().await;
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 1)).await;
    link.cut();
    let deadline = Instant::now() + Duration::from_secs(10);
    let mut at_once = 0;
    while at_once < 3 {
        let asked = Instant::now();
        assert!(asked < deadline, "calls still wait");
        let refused = within_bound(store.apply(&a.next(a.entry, &users(1, 2), &[]))).await;
        assert!(
            matches!(refused, Err(StoreError::Lost(_) | StoreError::Timeout)),
            "{refused:?}"
        );
        at_once = if asked.elapsed() < Duration::from_millis(50) {
            at_once + 1
        } else {
            0
        };
    }
    link.heal();
    becomes(&store, Health::Up).await;
    answers(&store).await;
    assert_eq!(a.moves_on().await.card, 1);
}

#[tokio::test]
async fn a_stalled_wire_is_noticed_and_healed() {
    let (_server, link, store) = linked().await;
    link.stall();
    steady_traffic_until_down(&store).await;
    fails_fast(&store).await;
    link.heal();
    becomes(&store, Health::Up).await;
    answers(&store).await;
}

#[tokio::test]
async fn a_frozen_server_under_steady_traffic_is_noticed_and_taken_up_again() {
    let (server, _link, store) = linked().await;
    server.freeze();
    steady_traffic_until_down(&store).await;
    server.thaw();
    becomes(&store, Health::Up).await;
    answers(&store).await;
}

/// The connection looks alive and never will be again, but another one would do.
#[tokio::test]
async fn a_connection_that_the_network_forgot_is_replaced() {
    let (_server, link, store) = linked().await;
    link.strand();
    steady_traffic_until_down(&store).await;
    becomes(&store, Health::Up).await;
    answers(&store).await;
}

#[tokio::test]
async fn a_server_that_comes_back_empty_gets_its_scripts_again() {
    let (mut server, _link, store) = linked().await;
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 3)).await;
    server.kill();
    steady_traffic_until_down(&store).await;
    server.restart_empty().await;
    becomes(&store, Health::Up).await;
    assert!(is_refused(&a.call(a.entry, &[], &[]).await, None));
    assert_eq!(a.registers(&users(0, 3)).await.card, 3);
}

#[tokio::test]
async fn a_forgotten_script_is_loaded_and_run_in_the_same_call() {
    let (server, _link, store) = linked().await;
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 1)).await;
    server.cli(&["SCRIPT", "FLUSH"]);
    assert_eq!(a.joins(&users(1, 2)).await.card, 2);
}

#[tokio::test]
async fn a_server_that_asks_for_another_password_is_taken_up_again_once_it_relents() {
    let (server, link, store) = linked().await;
    server.cli(&["CONFIG", "SET", "requirepass", "other"]);
    link.cut();
    becomes(&store, Health::Down).await;
    link.heal();
    fails_fast(&store).await;
    server.cli_as("other", &["CONFIG", "SET", "requirepass", ""]);
    becomes(&store, Health::Up).await;
    answers(&store).await;
}

/// The answer is lost, the call is not: it was carried out, or will be.
#[tokio::test]
async fn a_call_whose_answer_is_lost_times_out_and_may_have_been_done() {
    let (_server, link, store) = linked().await;
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 1)).await;
    link.mute();
    let call = a.next(a.entry, &users(1, 2), &[]);
    let lost = within_bound(store.apply(&call)).await;
    assert!(
        matches!(lost, Err(StoreError::Timeout | StoreError::Lost(_))),
        "{lost:?}"
    );
    link.heal();
    becomes(&store, Health::Up).await;
    answers(&store).await;
    let reply = store.apply(&call).await.unwrap();
    assert!(is_refused(&reply, Some(call.number)));
    assert_eq!(fans(&store, &slice()).await, users(0, 2));
}

/// A write that timed out hangs on the old wire; a newer one goes over another; then the old one
/// arrives.
#[tokio::test]
async fn a_write_that_lands_late_does_nothing_once_a_newer_one_was_applied() {
    let (server, link, store) = linked().await;
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 1)).await;
    link.stall();
    let late: Apply = a.next(a.entry, &users(5, 6), &[]);
    assert_eq!(
        within_bound(store.apply(&late)).await,
        Err(StoreError::Timeout)
    );
    let direct: Arc<dyn WholeStore> = Arc::new(connect(&server.url()).await);
    let newer = a.next(a.entry, &users(1, 2), &users(5, 6));
    assert!(matches!(
        direct.apply(&newer).await.unwrap(),
        ApplyReply::Done(_)
    ));
    let calls = |server: &RedisServer| {
        let stats = server.cli(&["INFO", "commandstats"]);
        let evalsha = stats
            .lines()
            .find(|line| line.starts_with("cmdstat_evalsha:"))
            .unwrap_or_default();
        evalsha
            .split(['=', ','])
            .nth(1)
            .and_then(|n| n.parse::<u64>().ok())
            .unwrap_or(0)
    };
    let before = calls(&server);
    link.heal();
    let deadline = Instant::now() + Duration::from_secs(10);
    while calls(&server) == before {
        assert!(Instant::now() < deadline, "the late write never landed");
        sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(fans(&direct, &slice()).await, users(0, 2));
}

#[tokio::test]
async fn more_calls_than_may_wait_are_refused_not_kept() {
    let (_server, link, store) = linked().await;
    link.stall();
    let mut calls = JoinSet::new();
    for _ in 0..6_000 {
        let store = Arc::clone(&store);
        calls.spawn(async move { asks(&store).await });
    }
    let results = calls.join_all().await;
    let count = |kind: StoreError| {
        results
            .iter()
            .filter(|result| result.as_ref() == Err(&kind))
            .count()
    };
    let (refused, timed_out) = (count(StoreError::Backpressure), count(StoreError::Timeout));
    assert!(
        refused >= 3_000 && timed_out >= 500,
        "{refused} refused, {timed_out} timed out"
    );
    link.heal();
    becomes(&store, Health::Up).await;
    answers(&store).await;
}

/// More requests of clients than may be under way at once, and the gateway's own calls with them,
/// while the server takes its time.
#[tokio::test]
async fn requests_of_clients_do_not_take_the_places_of_the_gateways_own_calls() {
    let server = RedisServer::start().await;
    let store: Arc<dyn WholeStore> = Arc::new(connect(&server.url()).await);
    let for_clients = Arc::clone(&store).for_clients();
    assert_eq!(server.cli(&["CLIENT", "PAUSE", "500", "ALL"]), "OK");
    let call = |store: &Arc<dyn WholeStore>| {
        let store = Arc::clone(store);
        async move { asks(&store).await }
    };
    let (mut clients, mut own) = (JoinSet::new(), JoinSet::new());
    for _ in 0..300 {
        clients.spawn(call(&for_clients));
    }
    // They run in the order in which they were born.
    for _ in 0..300 {
        own.spawn(call(&store));
    }
    let (clients, own) = (clients.join_all().await, own.join_all().await);
    let refused = clients
        .iter()
        .filter(|said| **said == Err(StoreError::Backpressure))
        .count();
    assert_eq!(
        (refused, clients.iter().filter(|said| said.is_ok()).count()),
        (300 - 256, 256)
    );
    assert!(own.iter().all(Result::is_ok), "{own:?}");
}

/// Flushes to a server that takes its time may take every place of the gateway's own calls.
#[tokio::test]
async fn a_lease_is_renewed_while_other_calls_have_no_place() {
    let server = RedisServer::start().await;
    let store: Arc<dyn WholeStore> = Arc::new(connect(&server.url()).await);
    assert_eq!(server.cli(&["CLIENT", "PAUSE", "500", "ALL"]), "OK");
    let mut calls = JoinSet::new();
    for _ in 0..3_000 {
        let store = Arc::clone(&store);
        calls.spawn(async move { asks(&store).await });
    }
    // Behind them: tasks run in the order in which they were born.
    let renewal = renewal("a", None, 1);
    let renewed = tokio::spawn(async move { within_bound(store.renew_lease(&renewal)).await });
    assert!(matches!(renewed.await.unwrap(), Ok(LeaseReply::Renewed(_))));
    let refused = calls
        .join_all()
        .await
        .into_iter()
        .filter(|said| *said == Err(StoreError::Backpressure))
        .count();
    assert!(refused > 0);
}

/// A user with a rule from before there were canaries: the store does without.
#[tokio::test]
async fn a_user_who_may_not_write_the_canary_can_do_everything_else() {
    let server = RedisServer::start().await;
    let_a_former_user_in(&server);
    let url = format!("redis://old:secret@{}", server.addr());
    let store: Arc<dyn WholeStore> = Arc::new(connect(&url).await);
    let some_probes = Duration::from_millis(2_500);
    assert!(!becomes_within(&store, Health::Down, some_probes).await);
    Caller::new(&store, "a").registers(&users(0, 1)).await;
    assert_eq!(server.cli(&["EXISTS", &Keys::default().canary()]), "0");
}

/// It refuses what needs room, and can be asked for the rest.
#[tokio::test]
async fn a_full_server_is_up() {
    let server = RedisServer::start_with(&["--maxmemory", "1"]).await;
    let store: Arc<dyn WholeStore> = Arc::new(connect(&server.url()).await);
    let some_probes = Duration::from_millis(2_500);
    assert!(!becomes_within(&store, Health::Down, some_probes).await);
    let refused = store.follow(&user(1), &user(2)).await;
    trouble::is_refused(&refused);
    assert_eq!(store.follower_count(&user(2)).await, Ok(0));
}

#[tokio::test]
async fn a_slow_wire_is_no_broken_one() {
    let (_server, link, store) = linked().await;
    link.slow(Duration::from_millis(100));
    let mut a = Caller::new(&store, "a");
    assert_eq!(a.registers(&users(0, 2)).await.card, 2);
    assert_eq!(*store.health().borrow(), Health::Up);
}

#[tokio::test]
async fn refusals_and_nonsense_are_told_apart_and_counted() {
    let server = RedisServer::start().await;
    let metrics = Arc::new(Metrics::default());
    let store = RedisStore::connect(&Secret::new(server.url()), Arc::clone(&metrics))
        .await
        .unwrap();
    let store: Arc<dyn WholeStore> = Arc::new(store);
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 1)).await;

    let call = a.next(a.entry, &users(1, 2), &[]);
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    let refused = store.apply(&call).await;
    trouble::is_refused(&refused);
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);

    server.cli(&["SET", "{online-fans:42}:fence", "what"]);
    // A call takes it for no fence.
    assert!(is_refused(&store.apply(&call).await.unwrap(), None));
    assert!(matches!(
        fence(&store, &slice()).await,
        Err(StoreError::Nonsense(_))
    ));
    server.cli(&["DEL", "online-fans:42"]);
    server.cli(&["SET", "online-fans:42", "what"]);
    assert!(matches!(
        try_look(&store, &slice(), "other").await,
        Err(StoreError::Nonsense(_))
    ));
    assert!(matches!(
        store.members_page(&slice(), Group::Fans, 0).await,
        Err(StoreError::Nonsense(_))
    ));
    server.cli(&["HSET", "live:42", "state", "open", "epoch", "many"]);
    assert!(matches!(
        store.load_live(&live("42")).await,
        Err(StoreError::Nonsense(_))
    ));
    let others = store
        .load_lives(&[live("41"), live("42"), live("43")])
        .await;
    assert!(
        matches!(
            others[..],
            [Ok(None), Err(StoreError::Nonsense(_)), Ok(None)]
        ),
        "{others:?}"
    );

    let text = metrics.render().unwrap();
    for line in [
        "rollcall_store_errors_total{call=\"apply\",error=\"refused\"} 1",
        "rollcall_store_errors_total{call=\"members_page\",error=\"nonsense\"} 1",
        "rollcall_store_errors_total{call=\"load_live\",error=\"nonsense\"} 1",
        "rollcall_store_up 1",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn a_failed_connection_says_what_is_wrong() {
    let connect = async |url: &str| {
        RedisStore::connect(&Secret::new(url), Arc::default())
            .await
            .err()
    };
    for url in ["http://127.0.0.1:1", "redis://127.0.0.1:port"] {
        assert!(matches!(connect(url).await, Some(ConnectError::Url(_))));
    }
    for scheme in ["redis", "rediss", "redis-cluster", "redis-sentinel"] {
        let nobody = connect(&format!("{scheme}://127.0.0.1:1")).await;
        assert!(
            matches!(nobody, Some(ConnectError::Unreachable(StoreError::Lost(_)))),
            "{nobody:?}"
        );
    }

    let server = RedisServer::start_with(&["--requirepass", "p@ss word"]).await;
    let with = |secret: &str| format!("redis://{secret}@{}/3", server.addr());
    let wrong = connect(&with(":wrong")).await;
    assert!(
        matches!(
            wrong,
            Some(ConnectError::Unreachable(StoreError::Refused(_)))
        ),
        "{wrong:?}"
    );
    assert_eq!(connect(&with(":p%40ss%20word")).await, None);
    assert_eq!(connect(&with("default:p%40ss%20word")).await, None);
    let single = connect(&format!("redis-cluster://:p%40ss%20word@{}", server.addr())).await;
    assert!(
        single.as_ref().is_some_and(ConnectError::is_mistake),
        "{single:?}"
    );
    let said = single.map(|error| error.to_string()).unwrap_or_default();
    assert!(
        said.contains("this is a single server: use redis://"),
        "{said}"
    );
}

#[tokio::test]
async fn a_dropped_store_hangs_up() {
    let server = RedisServer::start().await;
    let store = connect(&server.url()).await;
    let clients = || server.cli(&["CLIENT", "LIST"]).lines().count();
    assert!(clients() >= 2, "the store, and this look itself");
    drop(store);
    let deadline = Instant::now() + Duration::from_secs(5);
    while clients() > 1 {
        assert!(
            Instant::now() < deadline,
            "still connected:\n{}",
            server.cli(&["CLIENT", "LIST"])
        );
        sleep(Duration::from_millis(10)).await;
    }
}
