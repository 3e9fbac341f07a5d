//! A gateway of the former version beside those of this one, and what Redis loses by itself. A
//! former entry is `<ms>:<number>`, a former lease `<ms>:<ms>` or `<ms>:<ms>:<number>`: none of them
//! is touched, and none is taken for one of this version's.

use std::collections::BTreeSet;
use std::sync::Arc;

use rollcall::base::ids::Group;
use rollcall::store::{
    Burial, CheckLive, Checked, ExpectedSlice, Figures, Lease, LeaseReply, RenewLease, SliceSize,
    Store, Strays, Surplus,
};

use super::{
    Caller, connect, fans, gateway, live, living_gateway, of_size, opened, slice, user, users,
};
use crate::redis_server::RedisServer;

const VIEWERS: &str = "{online-fans:42}:viewers";

pub(super) async fn redis() -> (RedisServer, Arc<dyn Store>) {
    let server = RedisServer::start().await;
    let store = Arc::new(connect(&server.url()).await);
    (server, store)
}

/// Puts members into a slice as the former version did.
fn former_joins(server: &RedisServer, members: &[&str]) {
    server.cli(&[
        "HSET",
        "{online-fans:42}:gateways",
        "former",
        "1732000000000:17",
    ]);
    for set in [
        "{online-fans:42}:held:former",
        "{online-fans:42}:held-fans:former",
        VIEWERS,
        "online-fans:42",
    ] {
        server.cli(&[&["SADD", set], members].concat());
    }
    for member in members {
        server.cli(&["HSETNX", "{online-fans:42}:since", member, "1"]);
    }
}

#[tokio::test]
async fn a_former_entry_is_foreign_and_its_members_stay() {
    let (server, store) = redis().await;
    let record = opened(&store, "42").await;
    let mut a = Caller {
        epoch: record.epoch.0,
        ..Caller::new(&store, "a")
    };
    a.registers(&users(0, 3)).await;
    former_joins(&server, &["u000002", "u000005"]);
    // The former version does not count.
    let compared = store
        .compare(&slice(), record.epoch, SliceSize::default())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(
        (compared.size.in_doubt, compared.surplus),
        (
            true,
            Surplus {
                members: 1,
                fans: 1
            }
        )
    );
    store
        .settle(&slice(), record.epoch, compared.surplus)
        .await
        .unwrap();
    a.leaves(&users(2, 3)).await;
    assert_eq!(
        fans(&store, &slice()).await,
        [user(0), user(1), user(2), user(5)],
        "the former gateway holds two"
    );

    let reading = store.read_slice(&slice(), &gateway("a")).await.unwrap();
    assert_eq!(
        (reading.size.card, reading.gateways),
        (4, vec![]),
        "it is no gateway of this version"
    );
    let expected = CheckLive {
        live: live("42"),
        epoch: record.epoch,
        listed: true,
        removals: 0,
        version: 0,
        counted: Some(Figures::default()),
        slices: vec![ExpectedSlice {
            slice: slice(),
            entry: a.entry,
            held: 2,
            held_fans: 2,
            size: of_size(4),
        }],
    };
    assert_eq!(
        store.check(&gateway("a"), &[expected]).await,
        [Checked::default()],
        "and nothing to report"
    );
    let page = store
        .strays(&slice(), Group::Fans, 0, 1_000, Strays::Drop)
        .await
        .unwrap();
    assert_eq!(
        (page.strays, page.size.card, page.held),
        (0, 4, 4),
        "whom it holds are no strays"
    );
    let swept = store.sweep(&slice(), &gateway("a"), 100, 0).await.unwrap();
    assert_eq!((swept.released, swept.size.card), (2, 2));
    assert_eq!(fans(&store, &slice()).await, [user(2), user(5)]);
    assert_eq!(
        server.cli(&["HGET", "{online-fans:42}:gateways", "former"]),
        "1732000000000:17"
    );
    // A close ends all of it.
    store.close_slice(&slice(), record.epoch).await.unwrap();
    assert_eq!(
        server.cli(&[
            "EXISTS",
            "{online-fans:42}:held:former",
            "{online-fans:42}:gateways"
        ]),
        "0"
    );
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
            gateway: gateway("a"),
            held: own,
            number,
            unheard: BTreeSet::new(),
            burials,
        };
        let LeaseReply::Renewed(leases) = store.renew_lease(&renewal).await.unwrap() else {
            panic!("dead")
        };
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
        gateway: gateway("b"),
        held: None,
        number: 1,
        unheard: BTreeSet::new(),
        burials,
    };
    let LeaseReply::Renewed(leases) = store.renew_lease(&renewal).await.unwrap() else {
        panic!("dead")
    };
    assert_eq!(leases.dead, [(gateway("a"), 1_732_000_005_000)]);
    let renewal = RenewLease {
        held: Some(leases.own),
        number: 2,
        burials: vec![],
        ..renewal
    };
    let LeaseReply::Renewed(later) = store.renew_lease(&renewal).await.unwrap() else {
        panic!("dead")
    };
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
    let renewal = RenewLease {
        gateway: gateway("a"),
        held: None,
        number: 1,
        unheard: BTreeSet::new(),
        burials: vec![],
    };
    let LeaseReply::Renewed(leases) = store.renew_lease(&renewal).await.unwrap() else {
        panic!("dead")
    };
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

/// Members that no call put there.
#[tokio::test]
async fn strays_are_found_and_taken_out_page_by_page() {
    let (server, store) = redis().await;
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 500)).await;
    let strays: Vec<String> = (0..2_000).map(|n| format!("stray{n}")).collect();
    for some in strays.chunks(500) {
        let some: Vec<&str> = some.iter().map(String::as_str).collect();
        server.cli(&[&["SADD", "online-fans:42"], some.as_slice()].concat());
    }
    let before = store
        .read_slice(&slice(), &a.name)
        .await
        .unwrap()
        .size
        .version;
    for (how, left) in [
        (Strays::Count, 2_500),
        (Strays::Drop, 500),
        (Strays::Count, 500),
    ] {
        let (mut cursor, mut found) = (0, 0);
        let last = loop {
            let page = store
                .strays(&slice(), Group::Fans, cursor, 300, how)
                .await
                .unwrap();
            assert!(page.names.len() <= 10 && page.strays >= page.names.len() as u64);
            assert!(
                page.names
                    .iter()
                    .all(|name| name.as_str().starts_with("stray")),
                "{:?}",
                page.names
            );
            found += page.strays;
            match page.next {
                Some(next) => cursor = next,
                None => break page,
            }
        };
        assert_eq!((last.card, last.held), (left, 500));
        assert!(
            found
                >= if left == 500 && how == Strays::Count {
                    0
                } else {
                    2_000
                },
            "{found}"
        );
    }
    assert_eq!(fans(&store, &slice()).await, users(0, 500));
    assert!(
        store
            .read_slice(&slice(), &a.name)
            .await
            .unwrap()
            .size
            .version
            > before
    );
    assert_eq!(a.moves_on().await.held, 500);
}

/// A user whom the slice lacks although a gateway holds them: the page of what is held says so.
#[tokio::test]
async fn a_member_that_the_slice_lacks_is_told() {
    let (server, store) = redis().await;
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 5)).await;
    server.cli(&["SREM", "online-fans:42", "u000003"]);
    let page = store
        .held_page(&slice(), Group::Fans, &a.name, 0)
        .await
        .unwrap();
    assert_eq!((page.users.len(), page.missing), (5, users(3, 4)));
}
