//! What the gateway's own tests break things with: servers that can be frozen and killed, and links
//! that can be cut. The same files, so that there is one of each.

#[path = "../../../tests/support/certificates.rs"]
mod certificates;
#[path = "../../../tests/support/foreign.rs"]
pub(crate) mod foreign;
#[path = "../../../tests/support/link.rs"]
pub(crate) mod link;
#[path = "../../../tests/support/redis_cluster.rs"]
pub(crate) mod redis_cluster;
#[path = "../../../tests/support/redis_server.rs"]
pub(crate) mod redis_server;
