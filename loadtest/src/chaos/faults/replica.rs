//! A planned failover as managed services do it: the server behind the name of Redis becomes a
//! replica, and the name leads to another server. Old connections stay open, and the server at
//! their end now refuses writes.

use std::net::SocketAddr;

use anyhow::ensure;

use super::fault::{Later, Mark, wait_until};
use super::planned::Planned;
use crate::chaos::store::cli;
use crate::chaos::support::redis_server::RedisServer;
use crate::chaos::testbed::Testbed;

/// Switches to another server, and back at the end.
pub(super) async fn switch(
    testbed: &mut Testbed,
    fault: &Planned,
) -> anyhow::Result<(Mark, Option<Later>)> {
    let other = RedisServer::start().await;
    let first = testbed.store.single()?;
    for server in [&*first, &other] {
        // By default a master delays the sync, in case more replicas want it, too.
        ok(server, &["CONFIG", "SET", "repl-diskless-sync-delay", "0"])?;
    }
    follow(&other, first)?;
    in_sync(&other).await?;
    testbed.state.crowd.loss_for_all();
    swap(testbed.store.single()?, &other)?;
    lead(testbed, other.addr()).await?;
    testbed.pass(fault.hold).await?;
    in_sync(testbed.store.single()?).await?;
    testbed.state.crowd.loss_for_all();
    let first = testbed.store.single()?;
    swap(&other, first)?;
    let address = first.addr();
    lead(testbed, address).await?;
    let mark = Mark::rebuilt_from_now(testbed);
    Ok((mark, Some(Later::ServerEnds(Box::new(other)))))
}

/// The master becomes the replica of its replica.
fn swap(master: &RedisServer, replica: &RedisServer) -> anyhow::Result<()> {
    ok(replica, &["REPLICAOF", "NO", "ONE"])?;
    follow(master, replica)
}

/// Makes the name lead to this server, for new connections and for the reader that compares Redis
/// with the truth.
async fn lead(testbed: &Testbed, address: SocketAddr) -> anyhow::Result<()> {
    testbed.links.iter().for_each(|link| link.lead_to(address));
    testbed.reader.turn_to(address).await?;
    testbed.state.crowd.all_well();
    Ok(())
}

fn follow(replica: &RedisServer, master: &RedisServer) -> anyhow::Result<()> {
    ok(
        replica,
        &["REPLICAOF", "127.0.0.1", &master.port().to_string()],
    )
}

async fn in_sync(replica: &RedisServer) -> anyhow::Result<()> {
    wait_until(
        || cli(replica, &["INFO", "replication"]).contains("master_link_status:up"),
        "a replica is not in sync",
    )
    .await
}

fn ok(server: &RedisServer, command: &[&str]) -> anyhow::Result<()> {
    let said = cli(server, command);
    ensure!(said == "OK", "Redis said {said:?} to {command:?}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;

    use super::*;
    use crate::chaos::support::link::Link;

    /// Sends an inline command and returns the reply.
    async fn say(connection: &mut TcpStream, command: &str) -> String {
        connection
            .write_all(format!("{command}\r\n").as_bytes())
            .await
            .unwrap();
        let mut said = vec![0; 256];
        let length = connection.read(&mut said).await.unwrap();
        String::from_utf8_lossy(&said[..length])
            .trim_end()
            .to_owned()
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn old_connections_stay_with_the_server_that_refuses_writes() {
        let (first, other) = (RedisServer::start().await, RedisServer::start().await);
        ok(&first, &["CONFIG", "SET", "repl-diskless-sync-delay", "0"]).unwrap();
        let link = Link::to(first.addr()).await;
        let mut old = TcpStream::connect(link.addr()).await.unwrap();
        assert_eq!(say(&mut old, "SET key before").await, "+OK");
        follow(&other, &first).unwrap();
        in_sync(&other).await.unwrap();
        swap(&first, &other).unwrap();
        link.lead_to(other.addr());
        let mut new = TcpStream::connect(link.addr()).await.unwrap();
        assert!(
            say(&mut old, "SET key after")
                .await
                .starts_with("-READONLY")
        );
        assert_eq!(say(&mut new, "GET key").await, "$6\r\nbefore");
        assert_eq!(say(&mut new, "SET key after").await, "+OK");
    }
}
