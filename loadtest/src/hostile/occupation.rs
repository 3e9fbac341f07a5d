//! One address that keeps every slot for connections of a gateway busy, over the PROXY protocol,
//! and the clients of other addresses who must be answered all the while.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use super::wire::Wire;

/// The slots of the gateway, and how many connections the one address wants.
pub(super) const SLOTS: &str = "256";
const CONNECTIONS: usize = 300;

/// How long it lasts.
const FOR: Duration = Duration::from_secs(3);

/// Another client is answered within this time.
const PROMPTLY: Duration = Duration::from_secs(8);

/// Between two acts of a connection, before it connects again, and between two others who come.
const BETWEEN: Duration = Duration::from_millis(100);

/// How often others must be late before it counts: this machine may be busy with something else.
const TRIES: usize = 3;

pub(super) const ANSWERED: &str = "others are answered within 8 s";

/// What each connection does. The first part is sent at once, the second again and again.
#[derive(Debug, Clone, Copy)]
pub(super) enum Occupation {
    BusyKeepAlive,
    HalfOpen,
    SlowBody,
    RefusedUpgrade,
}

impl Occupation {
    fn first(self, token: &str) -> String {
        match self {
            Self::BusyKeepAlive | Self::RefusedUpgrade => String::new(),
            Self::HalfOpen => "GET / HTTP/1.1\r\nx: ".to_owned(),
            // The body of a caller without credentials would not be waited for.
            Self::SlowBody => format!(
                "PUT /v1/lives/slow HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n\
                 content-type: application/json\r\ncontent-length: 60000\r\n\r\n"
            ),
        }
    }

    fn again(self) -> &'static str {
        match self {
            Self::BusyKeepAlive => "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n",
            Self::HalfOpen | Self::SlowBody => "x",
            Self::RefusedUpgrade => {
                "GET /ws?token=none HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
                 sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            }
        }
    }

    /// Whether others are answered meanwhile, in words. `token` is a streamer's, and good; `other` is
    /// that of another user, who pays for the others.
    pub(super) async fn carry_out(
        self,
        address: SocketAddr,
        token: &str,
        other: &str,
    ) -> anyhow::Result<String> {
        let mut late = String::new();
        for _ in 0..TRIES {
            let mut occupiers = JoinSet::new();
            for _ in 0..CONNECTIONS {
                occupiers.spawn(self.hold(address, self.first(token)));
            }
            let said = others(address, other).await;
            occupiers.shutdown().await;
            match said? {
                None => return Ok(ANSWERED.to_owned()),
                Some(why) => late = why,
            }
        }
        Ok(late)
    }

    /// Holds one connection after the other until it is dropped.
    async fn hold(self, address: SocketAddr, first: String) {
        loop {
            let Ok(mut wire) = proxied(address, "192.0.2.66").await else {
                return;
            };
            let mut open = wire.send(first.as_bytes()).await;
            while open {
                open = wire.send(self.again().as_bytes()).await;
                // What is answered does not matter, but that the connection ends.
                open &= wire.is_open(BETWEEN).await;
            }
            sleep(BETWEEN).await;
        }
    }
}

/// Clients of other addresses ask for a probe and a WebSocket. Why one was not answered, or
/// nothing.
async fn others(address: SocketAddr, token: &str) -> anyhow::Result<Option<String>> {
    let until = Instant::now() + FOR;
    let mut number = 0;
    while Instant::now() < until {
        number += 1;
        let client = format!("198.51.100.{}", number % 250);
        let asks = async {
            let probe = "GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
            let probe = proxied(address, &client).await?.request(probe).await?;
            let upgrade = proxied(address, &client)
                .await?
                .upgrade(&format!("token={token}"), "")
                .await?;
            anyhow::Ok((probe, upgrade))
        };
        match timeout(PROMPTLY, asks).await {
            Err(_) => return Ok(Some(format!("others wait for more than {PROMPTLY:?}"))),
            Ok(answers) => {
                let (probe, upgrade) = answers?;
                if probe != Err("200 without a code".to_owned()) {
                    return Ok(Some(format!("a probe of others is answered {probe:?}")));
                }
                if let Err(refused) = upgrade {
                    return Ok(Some(format!("an upgrade of others is answered {refused}")));
                }
            }
        }
        sleep(BETWEEN).await;
    }
    Ok(None)
}

/// A connection of this client, as a balancer opens it.
pub(super) async fn proxied(address: SocketAddr, client: &str) -> anyhow::Result<Wire> {
    let mut wire = Wire::connect(address).await?;
    wire.send(format!("PROXY TCP4 {client} 127.0.0.1 4711 443\r\n").as_bytes())
        .await;
    Ok(wire)
}
