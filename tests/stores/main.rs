//! What the stores promise: each promise runs on every store, random histories compare the stores
//! with each other and with a model, and Redis is cut off, frozen, killed, emptied, demoted and
//! resharded. Everything works under the rule for operators, which allows nothing more.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a test binary: exports nothing, and a panic is its verdict"
)]

mod acl;
#[path = "../support/certificates.rs"]
mod certificates;
mod cluster;
#[path = "../support/command.rs"]
#[allow(dead_code)]
mod command;
mod conformance;
mod contract;
mod doubts;
mod failover;
mod histories;
#[path = "../support/link.rs"]
mod link;
mod online;
#[path = "../support/program.rs"]
#[allow(dead_code)]
mod program;
#[path = "../support/redis_cluster.rs"]
mod redis_cluster;
mod redis_is_full;
#[path = "../support/redis_sentinels.rs"]
mod redis_sentinels;
#[path = "../support/redis_server.rs"]
mod redis_server;
mod sentinels;
mod tls;
mod trouble;
#[path = "../support/wait.rs"]
#[allow(dead_code)]
mod wait;
mod when_redis_is_down;
