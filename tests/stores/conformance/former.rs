//! Leases of former gateways, and leases that Redis keeps for long. A lease of a former version is
//! `<ms>:<ms>` or `<ms>:<ms>:<number>`: it is not touched, and not taken for one of this version's.

use rollcall::features::WholeStore;
use std::sync::Arc;

use rollcall::store::{Burial, Lease, RenewLease};

use super::{connect, gateway, living_gateway, renewal, renewed};
use crate::redis_server::RedisServer;

pub(super) async fn redis() -> (RedisServer, Arc<dyn WholeStore>) {
    let server = RedisServer::start().await;
    let store = Arc::new(connect(&server.url()).await);
    (server, store)
}

#[tokio::test]
async fn a_former_lease_neither_lives_nor_is_dead_nor_can_be_buried() {
    let (server, store) = redis().await;
    let former = "1732000000000:1732000005000";
    // Before leases said where their gateways are not heard.
    let counted = "1732000000000:1732000005000:7";
    server.cli(&[
        "HSET",
        "rollcall:leases",
        "former",
        former,
        "counted",
        counted,
        "other",
        "what is this",
    ]);
    let mut own = None;
    for count in [None, Some(0), Some(7), Some(1_732_000_005_000)] {
        let burials = ["former", "counted", "other"]
            .map(|name| Burial {
                gateway: gateway(name),
                count,
            })
            .into();
        let number = own.map_or(0, |own: Lease| own.count) + 1;
        let renewal = RenewLease {
            burials,
            ..renewal("a", own, number)
        };
        let leases = renewed(&store, &renewal).await;
        assert_eq!(
            (leases.living, leases.dead),
            (vec![living_gateway("a", leases.own.count)], vec![])
        );
        own = Some(leases.own);
    }
    for (name, value) in [
        ("former", former),
        ("counted", counted),
        ("other", "what is this"),
    ] {
        assert_eq!(server.cli(&["HGET", "rollcall:leases", name]), value);
    }
}

/// The platform may have stood still for hours before somebody buries a gateway.
#[tokio::test]
async fn a_burial_keeps_when_the_lease_was_renewed_last() {
    let (server, store) = redis().await;
    server.cli(&[
        "HSET",
        "rollcall:leases",
        "a",
        "1732000000000:1732000005000:7:",
    ]);
    let burials = vec![Burial {
        gateway: gateway("a"),
        count: Some(7),
    }];
    let renewal = RenewLease {
        burials,
        ..renewal("b", None, 1)
    };
    let leases = renewed(&store, &renewal).await;
    assert_eq!(leases.dead, [(gateway("a"), 1_732_000_005_000)]);
    let renewal = RenewLease {
        held: Some(leases.own),
        number: 2,
        burials: vec![],
        ..renewal
    };
    let later = renewed(&store, &renewal).await;
    assert_eq!(later.dead, leases.dead);
}

#[tokio::test]
async fn deaths_are_forgotten_after_a_day_and_not_before() {
    let (server, store) = redis().await;
    let now: u64 = server
        .cli(&["TIME"])
        .lines()
        .next()
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1_000;
    let day = 24 * 3_600 * 1_000;
    let (old, young) = (
        format!("dead:{}", now - day - 60_000),
        format!("dead:{}", now - day + 60_000),
    );
    server.cli(&["HSET", "rollcall:leases", "old", &old, "young", &young]);
    let renewal = renewal("a", None, 1);
    let leases = renewed(&store, &renewal).await;
    assert!(
        matches!(&leases.dead[..], [(dead, _)] if *dead == gateway("young")),
        "{:?}",
        leases.dead
    );
    assert_eq!(server.cli(&["HEXISTS", "rollcall:leases", "old"]), "0");
    // A lease ends with a lifetime too, and be it the only one.
    server.cli(&["DEL", "rollcall:leases"]);
    store.end_lease(&gateway("a")).await.unwrap();
    assert!(
        server
            .cli(&["TTL", "rollcall:leases"])
            .parse::<i64>()
            .unwrap()
            > 24 * 3_600
    );
}
