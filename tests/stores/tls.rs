//! Redis over TLS, with an authority of the test's own: which certificates are trusted, and what
//! the error says when none is.

use rollcall::features::WholeStore;
use std::sync::Arc;

use rollcall::base::ids::SliceId;
use rollcall::store::redis::ConnectError;

use crate::certificates::Certificates;
use crate::conformance::{Caller, try_connect, users};
use crate::redis_cluster::RedisCluster;
use crate::redis_server::{RedisServer, free_port};

async fn server(certificates: &Certificates) -> (RedisServer, String) {
    let port = free_port();
    let options = certificates.options(port);
    let options: Vec<&str> = options
        .iter()
        .map(String::as_str)
        .chain(["--requirepass", "secret"])
        .collect();
    (
        RedisServer::start_with(&options).await,
        format!("rediss://:secret@127.0.0.1:{port}"),
    )
}

#[tokio::test]
async fn a_server_that_the_authority_vouches_for_is_taken() {
    let certificates = Certificates::for_host("IP:127.0.0.1");
    let (_server, url) = server(&certificates).await;
    let store: Arc<dyn WholeStore> =
        Arc::new(try_connect(&url, Some(certificates.ca())).await.unwrap());
    assert_eq!(
        Caller::new(&store, "a").registers(&users(0, 3)).await.card,
        3
    );
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_is_not_taken() {
    let certificates = Certificates::for_host("IP:127.0.0.1");
    let (_server, url) = server(&certificates).await;
    let others = Certificates::for_host("IP:127.0.0.1");
    for ca in [None, Some(others.ca())] {
        let refused = try_connect(&url, ca)
            .await
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(
            refused.contains("Certificate") || refused.contains("trust"),
            "{refused}"
        );
    }
    let elsewhere = Certificates::for_host("DNS:redis.example");
    let (_server, url) = self::server(&elsewhere).await;
    let refused = try_connect(&url, Some(elsewhere.ca()))
        .await
        .err()
        .map(|error| error.to_string());
    assert!(
        refused
            .as_ref()
            .is_some_and(|why| why.contains("Certificate")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_file_without_an_authority_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty.pem");
    std::fs::write(&empty, "nothing\n").unwrap();
    for file in [empty, dir.path().join("absent.pem")] {
        let name = file.file_name().unwrap().to_owned().into_string().unwrap();
        let refused = try_connect("rediss://127.0.0.1:1", Some(file)).await.err();
        let Some(ConnectError::Trust(why)) = refused else {
            panic!("{refused:?}")
        };
        assert!(why.contains(&name), "{why}");
    }
}

#[tokio::test]
async fn a_cluster_is_spoken_to_over_tls_throughout() {
    let certificates = Certificates::for_host("IP:127.0.0.1");
    let (cluster, ports) = RedisCluster::start_tls(3, &certificates).await;
    let url = format!("rediss-cluster://rollcall:secret@127.0.0.1:{}", ports[1]);
    let store: Arc<dyn WholeStore> =
        Arc::new(try_connect(&url, Some(certificates.ca())).await.unwrap());
    for n in 0..20 {
        let mut caller = Caller::new(&store, "a");
        caller.slice = SliceId::of_live(crate::conformance::live(&format!("live{n}")), 1, 1);
        assert_eq!(caller.registers(&users(0, 2)).await.card, 2);
    }
    for node in &cluster.nodes {
        let clients = node.cli(&["CLIENT", "LIST"]);
        assert!(
            clients.lines().any(|line| line.contains("user=rollcall")),
            "{clients}"
        );
    }
}
