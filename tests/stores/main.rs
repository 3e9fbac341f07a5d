//! What the stores promise: each promise runs on every store, random histories compare the stores
//! with each other and with a model, and Redis is cut off, frozen, killed, emptied, demoted and
//! resharded.

#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    reason = "a test binary: exports nothing, and a panic is its verdict"
)]

#[path = "../support/certificates.rs"]
mod certificates;
mod cluster;
mod conformance;
mod contract;
mod doubts;
mod failover;
mod histories;
#[path = "../support/link.rs"]
mod link;
mod online;
#[path = "../support/redis_cluster.rs"]
mod redis_cluster;
mod redis_is_full;
#[path = "../support/redis_sentinels.rs"]
mod redis_sentinels;
#[path = "../support/redis_server.rs"]
mod redis_server;
mod sentinels;
mod tls;
mod when_redis_is_down;
