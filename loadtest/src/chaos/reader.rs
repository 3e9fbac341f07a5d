//! Reads Redis as another service would: straight, not over the gateways' links, page by page, each
//! slice from the node that serves it now.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use fred::prelude::*;
use fred::types::{ClusterHash, CustomCommand};
use futures_util::{StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;

const DEADLINE: Duration = Duration::from_secs(1);
const PAGE: &str = "1000";
/// A key that moves more often than this while it is asked for is not read.
const HOPS: usize = 4;

/// Connections to every node.
pub(crate) struct Reader {
    nodes: Mutex<Vec<(SocketAddr, Client)>>,
    /// By key, who served it last.
    homes: Mutex<HashMap<String, usize>>,
}

impl Reader {
    pub(crate) async fn connect(nodes: &[SocketAddr]) -> anyhow::Result<Self> {
        let mut all = Vec::new();
        for address in nodes {
            all.push((*address, client_of(*address).await?));
        }
        Ok(Self {
            nodes: Mutex::new(all),
            homes: Mutex::default(),
        })
    }

    /// Reads another server from now on, in the place of the only one.
    pub(crate) async fn turn_to(&self, address: SocketAddr) -> anyhow::Result<()> {
        let new = vec![(address, client_of(address).await?)];
        let old = std::mem::replace(&mut *self.nodes.lock(), new);
        for (_, client) in old {
            // Its server may be gone by now.
            let _ = client.quit().await;
        }
        Ok(())
    }

    /// All members of a set.
    pub(crate) async fn members(&self, key: &str) -> anyhow::Result<Vec<String>> {
        let mut all = Vec::new();
        let mut cursor = "0".to_owned();
        loop {
            let words = vec![key.to_owned(), cursor, "COUNT".to_owned(), PAGE.to_owned()];
            let (next, page): (String, Vec<String>) = self.ask("SSCAN", words).await?.convert()?;
            all.extend(page);
            if next == "0" {
                return Ok(all);
            }
            cursor = next;
        }
    }

    /// Runs many commands, each with its key first.
    pub(crate) async fn run_all(
        &self,
        command: &'static str,
        calls: Vec<Vec<String>>,
    ) -> anyhow::Result<()> {
        let calls = calls.into_iter().map(|words| self.ask(command, words));
        stream::iter(calls)
            .buffer_unordered(64)
            .try_for_each(|_| async { Ok(()) })
            .await
    }

    async fn ask(&self, command: &'static str, words: Vec<String>) -> anyhow::Result<Value> {
        let key = words.first().cloned().unwrap_or_default();
        let mut home = *self.homes.lock().get(&key).unwrap_or(&0);
        for _ in 0..HOPS {
            let custom = CustomCommand::new_static(command, ClusterHash::FirstKey, false);
            let client = self.nodes.lock()[home].1.clone();
            let answer: Result<Value, Error> = client.custom(custom, words.clone()).await;
            match answer {
                Ok(value) => {
                    self.homes.lock().insert(key, home);
                    return Ok(value);
                }
                Err(error) => match self.moved(&error.to_string()) {
                    Some(there) => home = there,
                    None => return Err(error).with_context(|| format!("{command} {key}")),
                },
            }
        }
        bail!("{key} does not stay on one node")
    }

    /// The node that `MOVED <slot> <address>` names.
    fn moved(&self, error: &str) -> Option<usize> {
        let address = error.split("MOVED ").nth(1)?.split_whitespace().nth(1)?;
        self.nodes
            .lock()
            .iter()
            .position(|(node, _)| node.to_string() == address)
    }
}

pub(crate) async fn client_of(address: SocketAddr) -> anyhow::Result<Client> {
    let config = Config::from_url(&format!("redis://{address}"))?;
    let client = Builder::from_config(config)
        .with_performance_config(|performance| performance.default_command_timeout = DEADLINE)
        .with_connection_config(|connection| {
            connection.connection_timeout = DEADLINE;
            connection.internal_command_timeout = DEADLINE;
            connection.max_command_attempts = 1;
        })
        .set_policy(ReconnectPolicy::new_constant(0, 100))
        .build()?;
    client
        .init()
        .await
        .with_context(|| format!("Redis at {address}"))?;
    Ok(client)
}
