//! What both stores promise, tried on real ones.

#[path = "support/link.rs"]
mod link;
#[path = "support/redis_server.rs"]
mod redis_server;

#[tokio::test]
async fn harness() {
    let mut server = redis_server::RedisServer::start().await;
    let link = link::Link::to(server.addr()).await;
    assert_eq!(server.cli(&["PING"]), "PONG");
    assert!(link.url().starts_with("redis://"));
    server.restart_empty().await;
    assert_eq!(server.cli(&["DBSIZE"]), "0");
}
