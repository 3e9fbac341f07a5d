//! Who gives way to whom, with time that stands still.

use super::table::GRACE;
use super::*;

const ATTACKER: Holder = Holder::Network(7);
const OTHER: Holder = Holder::Network(8);

fn port(most: usize) -> Arc<PendingConnections> {
    PendingConnections::new(most, PerAddress::Share, Arc::default())
}

async fn admit(pending: &Arc<PendingConnections>, holder: Holder) -> Arc<PendingConnection> {
    let admitted = tokio::time::timeout(GRACE / 2, pending.admit(holder)).await;
    admitted
        .expect("a slot at once")
        .expect("the holder has room")
}

async fn pass(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

fn is_evicted(connection: &PendingConnection) -> bool {
    connection.evicted.is_cancelled()
}

/// Ends what was evicted, as the tasks of connections do.
fn end_evicted(connections: &mut Vec<Arc<PendingConnection>>) {
    connections.retain(|connection| !is_evicted(connection));
}

#[tokio::test]
async fn after_a_herd_ended_connections_take_no_memory() {
    let pending = port(4_096);
    let mut herd = Vec::new();
    for _ in 0..2_000 {
        herd.push(admit(&pending, Holder::Unbounded).await);
    }
    drop(herd);
    for number in 0..3_000 {
        admit(&pending, Holder::Network(number))
            .await
            .becomes_socket();
    }
    assert_eq!(pending.table.lock().size(), 0);
    assert_eq!(pending.slots.available_permits(), 4_096);
}

#[tokio::test(start_paused = true)]
async fn an_address_has_an_eighth_of_the_slots_and_gives_up_its_own_for_another() {
    let pending = port(16);
    let first = admit(&pending, ATTACKER).await;
    let second = admit(&pending, ATTACKER).await;
    assert_eq!(
        pending.admit(ATTACKER).await.err(),
        Some(TooManyConnections),
        "both have just begun"
    );
    second.busy();
    pass(2).await;
    let third = admit(&pending, ATTACKER).await;
    assert!(is_evicted(&first) && !is_evicted(&second));
    third.busy();
    assert_eq!(
        pending.admit(ATTACKER).await.err(),
        Some(TooManyConnections),
        "both are busy"
    );
    third.answered();
    let _fourth = admit(&pending, ATTACKER).await;
    assert!(is_evicted(&third), "it was answered just now");
    let _others = [admit(&pending, OTHER).await, admit(&pending, OTHER).await];
    assert!(!is_evicted(&second));
}

#[tokio::test(start_paused = true)]
async fn a_connection_counts_to_whom_the_balancer_names() {
    let pending = port(16);
    let mut unnamed = Vec::new();
    for _ in 0..4 {
        unnamed.push(admit(&pending, Holder::Unbounded).await);
    }
    assert_eq!(unnamed[0].belongs_to(ATTACKER), Ok(()));
    assert_eq!(unnamed[1].belongs_to(ATTACKER), Ok(()));
    assert_eq!(unnamed[1].belongs_to(ATTACKER), Ok(()), "again");
    assert_eq!(unnamed[2].belongs_to(ATTACKER), Err(TooManyConnections));
    assert_eq!(unnamed[2].belongs_to(OTHER), Ok(()));
    assert_eq!(unnamed[0].belongs_to(Holder::Unbounded), Ok(()));
    assert_eq!(unnamed[3].belongs_to(ATTACKER), Ok(()));
    assert!(!unnamed.iter().any(|connection| is_evicted(connection)));
}

#[tokio::test(start_paused = true)]
async fn who_holds_most_gives_way_however_lately_it_was_answered() {
    // Eight addresses hold every slot, and keep each of their connections busy.
    let pending = port(64);
    let mut held = Vec::new();
    for number in 0..64 {
        let connection = admit(&pending, Holder::Network(number % 8)).await;
        connection.busy();
        held.push(connection);
    }
    let waits = tokio::time::timeout(GRACE * 5, pending.admit(Holder::Network(100))).await;
    assert!(waits.is_err(), "nobody is idle");
    held[11].answered();
    let newcomer = async {
        let admitted = pending.admit(Holder::Network(100)).await.unwrap();
        assert_eq!(pending.table.lock().held_by(Holder::Network(3)), 7);
        admitted
    };
    let ends = async {
        while !is_evicted(&held[11]) {
            tokio::time::sleep(RETRY_DELAY).await;
        }
        held[11].becomes_socket();
    };
    let (newcomer, ()) = tokio::time::timeout(GRACE / 2, async { tokio::join!(newcomer, ends) })
        .await
        .unwrap();
    assert!(!is_evicted(&newcomer));
}

#[tokio::test(start_paused = true)]
async fn half_open_connections_of_who_holds_most_have_no_grace() {
    let pending = port(32);
    let mut held = Vec::new();
    for number in 0..32 {
        held.push(admit(&pending, Holder::Network(number % 8)).await);
    }
    assert_eq!(
        pending.evict_one(Holder::Network(100), Instant::now()),
        RETRY_DELAY
    );
    end_evicted(&mut held);
    assert_eq!(held.len(), 31);
    let _newcomer = admit(&pending, Holder::Network(100)).await;
}

#[tokio::test(start_paused = true)]
async fn among_equals_the_one_answered_longest_ago_goes_first_and_the_others_have_their_grace() {
    let pending = port(3);
    let first = admit(&pending, Holder::Unbounded).await;
    let second = admit(&pending, Holder::Unbounded).await;
    let busy = admit(&pending, Holder::Unbounded).await;
    busy.busy();
    second.busy();
    second.answered();
    pass(10).await;
    first.begun();
    let evict = || pending.evict_one(Holder::Unbounded, Instant::now());
    assert_eq!(evict(), RETRY_DELAY);
    assert!(is_evicted(&second) && !is_evicted(&first) && !is_evicted(&busy));
    drop(second);
    evict();
    assert!(!is_evicted(&first), "its request has just begun");
    pass(2).await;
    assert_eq!(evict(), RETRY_DELAY);
    assert!(is_evicted(&first) && !is_evicted(&busy));
    assert_eq!(evict(), RETRY_DELAY, "a request is answered");
    assert!(!is_evicted(&busy));
}

#[tokio::test]
async fn slots_are_scarce_when_few_are_free() {
    let pending = port(8);
    let mut held = vec![admit(&pending, Holder::Unbounded).await];
    assert!(!held[0].is_scarce());
    for _ in 0..6 {
        held.push(admit(&pending, Holder::Unbounded).await);
    }
    assert!(held[0].is_scarce());
}
