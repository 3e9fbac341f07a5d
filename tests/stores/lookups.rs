//! The connections for questions about many users: over TLS, with a login and a database, after the server closed them,
//! and after it became a replica. There are few of them, however many ask.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::try_join_all;
use rollcall::base::ids::UserId;
use rollcall::store::{Store, StoreError};

use crate::certificates::Certificates;
use crate::conformance::{connect, try_connect, user, users};
use crate::redis_server::{RedisServer, free_port};

/// Notes when 300 users were seen.
async fn see(store: &dyn Store) -> Vec<UserId> {
    let some = users(0, 300);
    let seen: Vec<(UserId, u64)> = some.iter().cloned().zip(1..).collect();
    store.note_seen(&seen).await.unwrap();
    some
}

/// Fails if the answer about one of these users is that of another one.
async fn knows(store: &dyn Store, some: &[UserId]) -> Result<(), StoreError> {
    let known = store.presence_of(some).await?;
    let times: Vec<Option<u64>> = known.iter().map(|known| known.last_seen).collect();
    assert_eq!(times, (1..=300).map(Some).collect::<Vec<_>>());
    Ok(())
}

/// The ids of the connections that asked about users last.
fn connections(server: &RedisServer) -> BTreeSet<String> {
    let clients = server.cli(&["CLIENT", "LIST"]);
    let asked = clients.lines().filter(|client| client.contains(" cmd=smismember "));
    asked.filter_map(|client| client.strip_prefix("id=")?.split(' ').next().map(str::to_owned)).collect()
}

fn close(server: &RedisServer) {
    let connections = connections(server);
    assert!(!connections.is_empty(), "nobody asked");
    connections.iter().for_each(|id| assert_eq!(server.cli(&["CLIENT", "KILL", "ID", id]), "1"));
}

#[tokio::test]
async fn questions_are_asked_over_tls_with_a_login_and_in_the_database() {
    let (certificates, port) = (Certificates::for_host("IP:127.0.0.1"), free_port());
    let options = certificates.options(port);
    let options: Vec<&str> = options.iter().map(String::as_str).chain(["--requirepass", "secret"]).collect();
    let _server = RedisServer::start_with(&options).await;
    let url = format!("rediss://:secret@127.0.0.1:{port}/3");
    let store = try_connect(&url, Some(certificates.ca())).await.unwrap();
    let some = see(&store).await;
    knows(&store, &some).await.unwrap();
}

#[tokio::test]
async fn a_connection_that_the_server_closed_is_made_again() {
    let server = RedisServer::start().await;
    let store = connect(&server.url()).await;
    let some = see(&store).await;
    for _ in 0..3 {
        knows(&store, &some).await.unwrap();
        close(&server);
        knows(&store, &some).await.unwrap();
    }
}

#[tokio::test]
async fn a_replica_is_not_asked() {
    let (server, other) = (RedisServer::start().await, RedisServer::start().await);
    let store = connect(&server.url()).await;
    let some = see(&store).await;
    knows(&store, &some).await.unwrap();
    assert_eq!(server.cli(&["REPLICAOF", "127.0.0.1", &other.port().to_string()]), "OK");
    close(&server);
    let refused = knows(&store, &some).await;
    assert!(matches!(refused, Err(StoreError::Refused(_) | StoreError::Lost(_))), "{refused:?}");
}

#[tokio::test]
async fn however_many_ask_there_are_four_connections() {
    let server = RedisServer::start().await;
    let store: Arc<dyn Store> = Arc::new(connect(&server.url()).await);
    let some = see(store.as_ref()).await;
    try_join_all((0..50).map(|_| knows(store.as_ref(), &some))).await.unwrap();
    let made = connections(&server);
    assert!((1..=4).contains(&made.len()), "{made:?}");
    // One whose caller gives up cannot be used again, and answers nobody else.
    for _ in 0..20 {
        let asked = some.clone();
        let asking = tokio::spawn({
            let store = Arc::clone(&store);
            async move { store.presence_of(&asked).await }
        });
        tokio::task::yield_now().await;
        asking.abort();
        knows(store.as_ref(), &some).await.unwrap();
    }
    assert_eq!(store.presence_of(&[user(299)]).await.unwrap()[0].last_seen, Some(300));
}
