//! The Redis of a run: one server, or a cluster. Faults break it here, and audits read it past the
//! gateways.

use std::net::SocketAddr;

use anyhow::bail;
use tokio::task::block_in_place;

use super::support::redis_cluster::RedisCluster;
use super::support::redis_server::RedisServer;

pub(crate) enum ChaosStore {
    Single(Box<RedisServer>),
    /// Three masters, and replicas of the first two.
    Cluster(RedisCluster),
}

impl ChaosStore {
    pub(crate) fn nodes(&self) -> &[RedisServer] {
        match self {
            Self::Single(server) => std::slice::from_ref(server),
            Self::Cluster(cluster) => &cluster.nodes,
        }
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Self::Single(server) => server.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes().iter().map(RedisServer::addr).collect()
    }

    pub(crate) fn single(&mut self) -> anyhow::Result<&mut RedisServer> {
        match self {
            Self::Single(server) => Ok(server),
            Self::Cluster(_) => bail!("this fault is for one server, not for a cluster"),
        }
    }

    pub(crate) fn cluster(&mut self) -> anyhow::Result<&mut RedisCluster> {
        match self {
            Self::Cluster(cluster) => Ok(cluster),
            Self::Single(_) => bail!("this fault is for a cluster: give --cluster"),
        }
    }

    /// Runs one command on every server that is a master now.
    pub(crate) fn on_masters(&self, command: &[&str]) -> Vec<String> {
        let masters = self
            .nodes()
            .iter()
            .filter(|node| cli(node, &["ROLE"]).starts_with("master"));
        masters.map(|node| cli(node, command)).collect()
    }
}

/// Runs one command, which blocks, without holding up other tasks.
pub(crate) fn cli(node: &RedisServer, command: &[&str]) -> String {
    block_in_place(|| node.cli(command))
}
