//! A gateway that loses one of its long-lived tasks, with real sockets.

use futures_util::StreamExt;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::*;

type Client = WebSocketStream<TcpStream>;

async fn connect(addr: SocketAddr, user: usize) -> Client {
    let tcp = TcpStream::connect(addr).await.unwrap();
    let (client, _) =
        tokio_tungstenite::client_async(format!("ws://{addr}/ws?user_id=u{user}"), tcp)
            .await
            .unwrap();
    client
}

/// The delay that the client is told before the socket closes, the code of that, and when it came.
async fn is_sent_away(mut client: Client) -> (u64, u16, Instant) {
    let mut after = None;
    loop {
        match client.next().await.unwrap().unwrap() {
            Message::Text(text) => {
                let message: serde_json::Value = serde_json::from_str(&text).unwrap();
                after = after.or(message["after_ms"].as_u64());
            }
            Message::Close(Some(frame)) => {
                break (
                    after.expect("a reconnect"),
                    frame.code.into(),
                    Instant::now(),
                );
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn a_gateway_that_loses_a_task_moves_its_sockets_at_once_even_while_it_drains() {
    for dies_after in [Duration::ZERO, Duration::from_secs(1)] {
        let gateway = start(Config {
            listen: ([127, 0, 0, 1], 0).into(),
            ..Config::default()
        })
        .await
        .unwrap();
        let mut clients = Vec::new();
        for user in 0..100 {
            clients.push(connect(gateway.addr(), user).await);
        }
        gateway
            .flusher
            .run("doomed", |_| tokio::time::sleep(dies_after));
        if dies_after.is_zero() {
            assert_eq!(gateway.failed().await, "doomed");
        }
        let began = Instant::now();
        let clients = futures_util::future::join_all(clients.into_iter().map(is_sent_away));
        let (failed, told) = tokio::join!(gateway.stop(), clients);
        assert_eq!(failed, Some("doomed"));
        assert!(
            began.elapsed() < dies_after + drain::AT_ONCE + Stages::LEAST,
            "{:?}",
            began.elapsed()
        );
        for (_, code, at) in &told {
            assert!(
                *code == 1012 && *at - began < dies_after + Duration::from_secs(2),
                "{code}, {:?}",
                *at - began
            );
        }
        let delays: std::collections::BTreeSet<_> = told.iter().map(|(after, ..)| after).collect();
        assert!(delays.len() > 10, "spread by chance: {delays:?}");
    }
}
