//! Owns a real Redis Cluster for one test: masters on their own ports, replicas where asked, formed
//! by hand because that is faster than redis-cli's way. Gateways come as the user that
//! docs/redis.md tells operators to make. All of it is gone when dropped.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "several test binaries share this file, none uses all of it"
)]

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::certificates::Certificates;
use super::redis_server::{RedisServer, free_port};

const SLOTS: usize = 16_384;
const FORM_DEADLINE: Duration = Duration::from_secs(20);
/// After so long without an answer a node takes another for failed.
const NODE_TIMEOUT_MS: &str = "1000";

/// A running cluster.
pub struct RedisCluster {
    /// First the masters, in the order of their slots.
    pub nodes: Vec<RedisServer>,
    masters: usize,
}

impl RedisCluster {
    /// So many masters, and a replica of each of the first so many.
    pub async fn start(masters: usize, replicas: usize) -> Self {
        Self::start_with(masters, replicas, &[]).await
    }

    /// As [`Self::start`], with more options for every server.
    pub async fn start_with(masters: usize, replicas: usize, options: &[&str]) -> Self {
        let mut nodes = Vec::new();
        for _ in 0..masters + replicas {
            nodes.push(node(options).await);
        }
        Self::form(nodes, masters).await
    }

    /// Masters that speak TLS too, each on another port: these are told beside it.
    pub async fn start_tls(masters: usize, certificates: &Certificates) -> (Self, Vec<u16>) {
        let (mut nodes, mut ports) = (Vec::new(), Vec::new());
        for _ in 0..masters {
            let port = free_port();
            let options = certificates.options(port);
            let options: Vec<&str> = options
                .iter()
                .map(String::as_str)
                .chain(["--tls-cluster", "yes"])
                .collect();
            nodes.push(node(&options).await);
            ports.push(port);
        }
        (Self::form(nodes, masters).await, ports)
    }

    /// Makes one of the first so many servers, and replicas of the first of these of the others.
    async fn form(nodes: Vec<RedisServer>, masters: usize) -> Self {
        let replicas = nodes.len() - masters;
        let cluster = Self { nodes, masters };
        cluster.nodes.iter().for_each(let_gateways_in);
        for (n, node) in cluster.nodes.iter().enumerate() {
            node.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(n + 1).to_string()]);
            if n < masters {
                let (first, last) = (SLOTS * n / masters, SLOTS * (n + 1) / masters - 1);
                node.cli(&[
                    "CLUSTER",
                    "ADDSLOTSRANGE",
                    &first.to_string(),
                    &last.to_string(),
                ]);
            }
            if n > 0 {
                cluster.meet(n);
            }
        }
        cluster
            .until("all know all", |node| {
                count(node, "CLUSTER", "cluster_known_nodes:") == masters + replicas
            })
            .await;
        for n in 0..replicas {
            let replica = &cluster.nodes[masters + n];
            let id = cluster.nodes[n].cli(&["CLUSTER", "MYID"]);
            assert_eq!(replica.cli(&["CLUSTER", "REPLICATE", &id]), "OK");
        }
        // Without full coverage the state may be ok before a node has heard who serves the other
        // slots.
        let ok = |node: &RedisServer| {
            node.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
                && count(node, "CLUSTER", "cluster_slots_ok:") == SLOTS
        };
        cluster
            .until("the state is ok, and all slots are served", ok)
            .await;
        for n in 0..replicas {
            let linked = |node: &RedisServer| {
                node.cli(&["INFO", "replication"])
                    .contains("master_link_status:up")
            };
            until("the replica is in step", || {
                linked(&cluster.nodes[masters + n])
            })
            .await;
            // A replica that the others do not know as one may not stand for election.
            let known = |node: &RedisServer| {
                node.cli(&["CLUSTER", "SLOTS"])
                    .contains(&port(&cluster.nodes[masters + n]))
            };
            cluster.until("all know the replica", known).await;
        }
        cluster
    }

    /// Starts a node again, with nothing in it but what it knows of the others.
    pub async fn restart(&mut self, n: usize) {
        self.nodes[n].restart_empty().await;
        let_gateways_in(&self.nodes[n]);
    }

    fn meet(&self, n: usize) {
        let info = self.nodes[n].cli(&["CLUSTER", "NODES"]);
        // <id> <host>:<port>@<bus port> myself,…
        let address = info
            .split([' ', ','])
            .nth(1)
            .expect("a node's own address")
            .to_owned();
        let (ports, bus) = address.split_once('@').expect("a bus port");
        let port = ports.rsplit(':').next().expect("a port");
        assert_eq!(
            self.nodes[0].cli(&["CLUSTER", "MEET", "127.0.0.1", port, bus]),
            "OK"
        );
    }

    /// The URL that a gateway is given: one node of all.
    pub fn url(&self) -> String {
        format!("redis-cluster://rollcall:secret@{}", self.nodes[1].addr())
    }

    /// The URL with every master in it.
    pub fn long_url(&self) -> String {
        let hosts: Vec<String> = self.nodes[..self.masters]
            .iter()
            .map(|node| node.addr().to_string())
            .collect();
        format!("redis-cluster://rollcall:secret@{}", hosts.join(","))
    }

    /// Empties it.
    pub fn flush(&self) {
        for node in &self.nodes[..self.masters] {
            assert_eq!(node.cli(&["FLUSHALL"]), "OK");
        }
    }

    /// Lets gateways touch only keys and channels that begin so.
    pub fn allow_prefix(&self, prefix: &str) {
        if prefix.is_empty() {
            return self.nodes.iter().for_each(let_gateways_in);
        }
        let (keys, channels) = (format!("~{prefix}*"), format!("&{prefix}*"));
        for node in &self.nodes {
            assert_eq!(
                node.cli(&[
                    "ACL",
                    "SETUSER",
                    "rollcall",
                    "resetkeys",
                    "resetchannels",
                    &keys,
                    &channels
                ]),
                "OK"
            );
        }
    }

    /// Which master serves a key, by how the slots were dealt out.
    pub fn home(&self, key: &str) -> usize {
        let slot = self.slot(key);
        (0..self.masters)
            .find(|n| slot < SLOTS * (n + 1) / self.masters)
            .expect("a master")
    }

    /// The slot of a key.
    pub fn slot(&self, key: &str) -> usize {
        self.nodes[0]
            .cli(&["CLUSTER", "KEYSLOT", key])
            .parse()
            .expect("a slot")
    }

    /// Waits until every node sees what is wished.
    pub async fn until(&self, what: &str, wished: impl Fn(&RedisServer) -> bool) {
        for node in &self.nodes {
            until(what, || wished(node)).await;
        }
    }

    /// Begins to move a slot from one master to another.
    pub fn begin_move(&self, slot: usize, from: usize, to: usize) {
        let ids = [from, to].map(|n| self.nodes[n].cli(&["CLUSTER", "MYID"]));
        let slot = slot.to_string();
        assert_eq!(
            self.nodes[to].cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids[0]]),
            "OK"
        );
        assert_eq!(
            self.nodes[from].cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids[1]]),
            "OK"
        );
    }

    /// Moves one key of the slot; false if none is left.
    pub fn move_a_key(&self, slot: usize, from: usize, to: usize) -> bool {
        let key = self.nodes[from].cli(&["CLUSTER", "GETKEYSINSLOT", &slot.to_string(), "1"]);
        if key.is_empty() {
            return false;
        }
        let to = port(&self.nodes[to]);
        let said = self.nodes[from].cli(&["MIGRATE", "127.0.0.1", &to, &key, "0", "5000"]);
        assert!(said == "OK" || said == "NOKEY", "{said}");
        true
    }

    /// The slot is the other master's from now on.
    pub fn end_move(&self, slot: usize, to: usize) {
        let id = self.nodes[to].cli(&["CLUSTER", "MYID"]);
        let slot = slot.to_string();
        // After a failover the masters are not those of the beginning; a replica takes no slots.
        let is_master = |n: &usize| self.nodes[*n].cli(&["ROLE"]).starts_with("master");
        let others = (0..self.nodes.len()).filter(|n| *n != to).filter(is_master);
        for n in std::iter::once(to).chain(others) {
            assert_eq!(
                self.nodes[n].cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &id]),
                "OK"
            );
        }
    }
}

async fn node(options: &[&str]) -> RedisServer {
    // The usual bus port is 10,000 above, which may be beyond the last.
    let bus = free_port().to_string();
    let mut all = vec![
        "--cluster-enabled",
        "yes",
        "--cluster-port",
        &bus,
        "--cluster-node-timeout",
        NODE_TIMEOUT_MS,
    ];
    all.extend([
        "--cluster-require-full-coverage",
        "no",
        "--repl-diskless-sync-delay",
        "0",
    ]);
    all.extend(["--cluster-replica-validity-factor", "0"]);
    all.extend(options);
    RedisServer::start_with(&all).await
}

fn let_gateways_in(node: &RedisServer) {
    for rule in acl_rules() {
        let words: Vec<&str> = rule.iter().map(String::as_str).collect();
        assert_eq!(node.cli(&words), "OK", "{rule:?}");
    }
}

/// The rules that the document gives to operators, with a password in place.
pub fn acl_rules() -> Vec<Vec<String>> {
    let text = include_str!("../../docs/redis.md");
    let blocks = text
        .split("```acl")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default());
    let words = |block: &str| {
        block
            .split_whitespace()
            .map(|w| w.replace(">PASSWORD", ">secret"))
            .collect()
    };
    blocks.map(words).collect()
}

fn port(node: &RedisServer) -> String {
    node.port().to_string()
}

fn count(node: &RedisServer, command: &str, field: &str) -> usize {
    let info = node.cli(&[command, "INFO"]);
    info.lines()
        .find_map(|line| line.strip_prefix(field)?.trim().parse().ok())
        .unwrap_or(0)
}

/// Waits for a condition.
pub async fn until(what: &str, wished: impl Fn() -> bool) {
    let deadline = Instant::now() + FORM_DEADLINE;
    while !wished() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        sleep(Duration::from_millis(20)).await;
    }
}
