//! Gateways' leases: renewals count up, burials compare the count, and a death is final.

use rollcall::features::WholeStore;
use std::sync::Arc;
use std::time::Duration;

use rollcall::base::ids::GatewayId;
use rollcall::store::{Burial, Lease, LeaseReply, Leases, LivingGateway, RenewLease};

use super::{gateway, living_gateway, on_each, renewal};

on_each!(
    a_lease_counts_its_renewals,
    a_lease_that_is_absent_begins_anew_above_the_count_that_is_known,
    a_lease_that_stands_still_is_buried_and_one_that_moved_on_is_not,
    a_gateway_without_a_lease_is_buried_as_such,
    the_dead_stay_dead,
    a_store_that_came_back_as_it_was_buries_the_gateway,
    a_renewal_whose_answer_was_lost_does_no_harm,
    a_renewal_that_arrives_again_renews_nothing,
    a_lease_says_where_its_gateway_is_not_heard,
    a_gateway_that_ends_is_dead_at_once,
    a_dead_gateway_buries_nobody,
);

async fn renew(
    store: &Arc<dyn WholeStore>,
    name: &str,
    held: Option<Lease>,
    burials: &[(&str, Option<u64>)],
) -> LeaseReply {
    let burials = burials
        .iter()
        .map(|(name, count)| Burial {
            gateway: gateway(name),
            count: *count,
        })
        .collect();
    let number = held.map_or(0, |held| held.count) + 1;
    store
        .renew_lease(&RenewLease {
            burials,
            ..renewal(name, held, number)
        })
        .await
        .unwrap()
}

async fn renewed(
    store: &Arc<dyn WholeStore>,
    name: &str,
    held: Option<Lease>,
    burials: &[(&str, Option<u64>)],
) -> Leases {
    match renew(store, name, held, burials).await {
        LeaseReply::Renewed(mut leases) => {
            leases.living.sort();
            leases.dead.sort();
            leases
        }
        LeaseReply::Dead => panic!("{name} is dead"),
    }
}

fn dead(leases: &Leases) -> Vec<GatewayId> {
    leases
        .dead
        .iter()
        .map(|(gateway, _)| gateway.clone())
        .collect()
}

fn living(all: &[(&str, u64)]) -> Vec<LivingGateway> {
    all.iter()
        .map(|(name, count)| living_gateway(name, *count))
        .collect()
}

fn names(all: &[&str]) -> Vec<GatewayId> {
    all.iter().map(|name| gateway(name)).collect()
}

async fn a_lease_counts_its_renewals(store: Arc<dyn WholeStore>) {
    let first = renewed(&store, "a", None, &[]).await;
    assert_eq!(
        (dead(&first), first.own.count, first.living),
        (vec![], 1, living(&[("a", 1)]))
    );
    let wall = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_millis() as u64;
    assert!(first.own.born.abs_diff(wall) < 60_000, "{:?}", first.own);
    let second = renewed(&store, "a", Some(first.own), &[]).await;
    assert_eq!(
        second.own,
        Lease {
            count: 2,
            ..first.own
        }
    );
    let other = renewed(&store, "b", None, &[]).await;
    assert_eq!(other.living, living(&[("a", 2), ("b", 1)]));
}

async fn a_lease_that_is_absent_begins_anew_above_the_count_that_is_known(
    store: Arc<dyn WholeStore>,
) {
    let lost = Lease {
        born: 17,
        count: 40,
    };
    let anew = renewed(&store, "a", Some(lost), &[]).await.own;
    assert!(anew.born > 17 && anew.count == 41, "{anew:?}");
    assert_eq!(renewed(&store, "a", Some(anew), &[]).await.own.count, 42);
}

async fn a_lease_that_stands_still_is_buried_and_one_that_moved_on_is_not(
    store: Arc<dyn WholeStore>,
) {
    let b = renewed(&store, "b", None, &[]).await.own;
    renewed(&store, "b", Some(b), &[]).await;
    let mut d = renewed(&store, "d", None, &[]).await.own;
    for count in [None, Some(0), Some(1), Some(3)] {
        let leases = renewed(&store, "d", Some(d), &[("b", count)]).await;
        assert!(
            leases.living.contains(&living_gateway("b", 2)),
            "seen at {count:?}: {leases:?}"
        );
        d = leases.own;
    }
    let leases = renewed(&store, "d", Some(d), &[("b", Some(2))]).await;
    assert_eq!(dead(&leases), names(&["b"]));
    assert_eq!(leases.living, living(&[("d", d.count + 1)]));
}

async fn a_gateway_without_a_lease_is_buried_as_such(store: Arc<dyn WholeStore>) {
    let a = renewed(
        &store,
        "a",
        None,
        &[("ghost", Some(0)), ("stranger", Some(1))],
    )
    .await;
    assert_eq!(dead(&a), vec![], "a burial at a count is of a lease");
    let a = renewed(
        &store,
        "a",
        Some(a.own),
        &[("ghost", None), ("stranger", None)],
    )
    .await;
    assert_eq!(
        (dead(&a), a.living),
        (names(&["ghost", "stranger"]), living(&[("a", 2)]))
    );
    assert_eq!(renew(&store, "ghost", None, &[]).await, LeaseReply::Dead);
}

async fn the_dead_stay_dead(store: Arc<dyn WholeStore>) {
    let a = renewed(&store, "a", None, &[]).await.own;
    let b = renewed(&store, "b", None, &[("a", Some(1))]).await;
    assert_eq!(dead(&b), names(&["a"]));
    for held in [None, Some(a), Some(Lease { count: 7, ..a })] {
        assert_eq!(renew(&store, "a", held, &[]).await, LeaseReply::Dead);
    }
    // Burying the dead changes nothing, and deaths are remembered.
    let mut own = b.own;
    for count in [None, Some(1), Some(9)] {
        let leases = renewed(&store, "b", Some(own), &[("a", count)]).await;
        assert_eq!(dead(&leases), names(&["a"]));
        own = leases.own;
    }
}

async fn a_store_that_came_back_as_it_was_buries_the_gateway(store: Arc<dyn WholeStore>) {
    // Fewer renewals than were answered before.
    let a = renewed(&store, "a", None, &[]).await.own;
    assert_eq!(
        renew(&store, "a", Some(Lease { count: 2, ..a }), &[]).await,
        LeaseReply::Dead
    );
    // A lease that began at another time.
    let b = renewed(&store, "b", None, &[]).await.own;
    assert_eq!(
        renew(
            &store,
            "b",
            Some(Lease {
                born: b.born + 1,
                ..b
            }),
            &[]
        )
        .await,
        LeaseReply::Dead
    );
    // A lease of which the gateway knows nothing.
    renewed(&store, "c", None, &[]).await;
    assert_eq!(renew(&store, "c", None, &[]).await, LeaseReply::Dead);
    let d = renewed(&store, "d", None, &[]).await;
    assert_eq!(
        (dead(&d), d.living),
        (names(&["a", "b", "c"]), living(&[("d", 1)]))
    );
    assert_eq!(renew(&store, "a", Some(a), &[]).await, LeaseReply::Dead);
}

async fn a_renewal_whose_answer_was_lost_does_no_harm(store: Arc<dyn WholeStore>) {
    let a = renewed(&store, "a", None, &[]).await.own;
    renewed(&store, "a", Some(a), &[]).await;
    let leases = super::renewed(&store, &renewal("a", Some(a), 3)).await;
    assert_eq!(leases.own, Lease { count: 3, ..a });
}

async fn a_renewal_that_arrives_again_renews_nothing(store: Arc<dyn WholeStore>) {
    let a = renewed(&store, "a", None, &[]).await.own;
    let second = renewed(&store, "a", Some(a), &[]).await.own;
    tokio::time::sleep(Duration::from_millis(100)).await;
    for _ in 0..2 {
        assert_eq!(renewed(&store, "a", Some(a), &[]).await.own, second);
    }
    let third = renewed(&store, "a", Some(second), &[]).await.own;
    assert_eq!(
        renewed(&store, "a", Some(a), &[]).await.own,
        third,
        "it arrives after a later one"
    );
    assert_eq!(third, Lease { count: 3, ..a });
    // The time of the last renewal did not move either.
    let b = renewed(&store, "b", None, &[]).await.own;
    tokio::time::sleep(Duration::from_millis(100)).await;
    super::renewed(&store, &renewal("b", Some(b), 1)).await;
    let leases = renewed(&store, "a", Some(third), &[("b", Some(1))]).await;
    assert_eq!(leases.dead, [(gateway("b"), b.born)]);
}

async fn a_lease_says_where_its_gateway_is_not_heard(store: Arc<dyn WholeStore>) {
    let renew = async |held: Option<Lease>, number, unheard: &[u32]| {
        let renewal = RenewLease {
            unheard: unheard.iter().copied().collect(),
            ..renewal("a", held, number)
        };
        super::renewed(&store, &renewal).await
    };
    let says = |leases: &Leases, unheard: &[u32]| {
        let there = leases.living.iter().find(|l| l.gateway == gateway("a"));
        assert!(
            there.is_some_and(|there| there.unheard.iter().eq(unheard)),
            "{unheard:?}: {leases:?}"
        );
    };
    let first = renew(None, 1, &[7]).await;
    says(&first, &[7]);
    let second = renew(Some(first.own), 2, &[16_384, 0]).await;
    says(&second, &[0, 16_384]);
    let other = renewed(&store, "b", None, &[]).await;
    says(&other, &[0, 16_384]);
    // A renewal that arrives again, or after a later one, says nothing.
    says(&renew(Some(first.own), 2, &[]).await, &[0, 16_384]);
    says(&renew(Some(second.own), 3, &[]).await, &[]);
    says(&renewed(&store, "b", Some(other.own), &[]).await, &[]);
}

async fn a_gateway_that_ends_is_dead_at_once(store: Arc<dyn WholeStore>) {
    let a = renewed(&store, "a", None, &[]).await.own;
    for _ in 0..2 {
        store.end_lease(&gateway("a")).await.unwrap();
        assert_eq!(renew(&store, "a", Some(a), &[]).await, LeaseReply::Dead);
    }
    store.end_lease(&gateway("never")).await.unwrap();
    assert_eq!(
        dead(&renewed(&store, "b", None, &[]).await),
        names(&["a", "never"])
    );
    let c = renewed(&store, "c", None, &[]).await.own;
    tokio::time::sleep(Duration::from_millis(100)).await;
    store.end_lease(&gateway("c")).await.unwrap();
    let leases = renewed(&store, "d", None, &[]).await;
    let (_, until) = leases
        .dead
        .iter()
        .find(|(name, _)| *name == gateway("c"))
        .unwrap();
    assert!(
        *until >= c.born + 100,
        "it was there until it ended, not until it renewed its lease: {until} and {c:?}"
    );
}

async fn a_dead_gateway_buries_nobody(store: Arc<dyn WholeStore>) {
    renewed(&store, "a", None, &[]).await;
    let b = renewed(&store, "b", None, &[]).await.own;
    store.end_lease(&gateway("b")).await.unwrap();
    assert_eq!(
        renew(&store, "b", Some(b), &[("a", Some(1)), ("ghost", None)]).await,
        LeaseReply::Dead
    );
    let c = renewed(&store, "c", None, &[]).await;
    assert_eq!(
        (dead(&c), c.living),
        (names(&["b"]), living(&[("a", 1), ("c", 1)]))
    );
}
