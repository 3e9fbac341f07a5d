//! A real cluster in trouble, always under load: a master frozen or killed without a replica, a
//! slot on the move, a replica promoted. Trouble with one node must stay with that node.

use rollcall::features::WholeStore;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use rollcall::base::ids::{Group, LiveId, SliceId, UserId};
use rollcall::store::redis::keys::Keys;
use rollcall::store::{
    ApplyReply, BusEvent, BusEvents, Channel, Health, Status, StoreError, StoreResult,
};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

use crate::conformance::{Caller, connect, fans, live, user, users};
use crate::redis_cluster::RedisCluster;
use crate::trouble::{BOUND, a_live_on, becomes};

/// What a call to a node in good health may take while another is in trouble, on a machine that is
/// busy with tests.
const UNTROUBLED: Duration = Duration::from_secs(1);
/// A frozen node is found down within two probes; from then on its calls fail at once.
const FOUND: Duration = Duration::from_millis(4_500);

fn slice_of(live: &LiveId) -> SliceId {
    SliceId::of_live(live.clone(), 1, 1)
}

fn key(live: &LiveId) -> String {
    format!("online-fans:{live}")
}

/// A live with its only slice on each of the masters.
fn a_live_on_each(cluster: &RedisCluster) -> [LiveId; 3] {
    [0, 1, 2].map(|master| a_live_on(cluster, master, key))
}

async fn store_of(cluster: &RedisCluster) -> Arc<dyn WholeStore> {
    Arc::new(connect(&cluster.url()).await)
}

/// What became of the calls of one live.
#[derive(Debug, Default)]
struct Seen {
    calls: usize,
    failed: usize,
    slowest: Duration,
    /// The longest time without a call that succeeded.
    longest_gap: Duration,
}

/// A load as the test sees it while it runs.
#[derive(Debug, Default)]
struct Load {
    /// Calls that succeeded.
    calls: AtomicUsize,
    failed: AtomicUsize,
    stopped: AtomicBool,
}

impl Load {
    fn stop(&self) {
        self.stopped.store(true, Relaxed);
    }

    /// Waits until so many more calls have succeeded.
    async fn goes_on(&self, calls: usize) {
        let wanted = self.calls.load(Relaxed) + calls;
        self.comes_to("more calls", || self.calls.load(Relaxed) >= wanted)
            .await;
    }

    async fn meets_a_failure(&self) {
        self.comes_to("a failed call", || self.failed.load(Relaxed) > 0)
            .await;
    }

    async fn comes_to(&self, what: &str, is_there: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(15);
        while !is_there() {
            assert!(
                Instant::now() < deadline,
                "the load does not come to {what}: {self:?}"
            );
            sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A change each 20 ms until the load is stopped. Repeats what failed, as a gateway does; answers
/// must be what it would expect.
async fn keeps_changing(mut caller: Caller, load: Arc<Load>) -> (Caller, Seen) {
    let fans = users(0, 5);
    let mut seen = Seen::default();
    let mut good = Instant::now();
    let mut next = 0;
    // One in, then the same one out; ends with nobody in.
    while !load.stopped.load(Relaxed) || next % 2 == 1 {
        let who = std::slice::from_ref(&fans[next / 2 % fans.len()]);
        let (joins, leaves): (&[UserId], &[UserId]) = if next % 2 == 0 {
            (who, &[])
        } else {
            (&[], who)
        };
        let call = caller.next(caller.entry, joins, leaves);
        let asked = Instant::now();
        let answer = timeout(BOUND, caller.store.apply(&call))
            .await
            .expect("an answer within two seconds");
        seen.calls += 1;
        seen.slowest = seen.slowest.max(asked.elapsed());
        match answer {
            Ok(ApplyReply::Done(size)) => {
                caller.entry = Some(call.number);
                let there = 1 - next as u64 % 2;
                assert_eq!(size.card, there, "after {} failures", seen.failed);
                seen.longest_gap = seen.longest_gap.max(good.elapsed());
                good = Instant::now();
                next += 1;
                load.calls.fetch_add(1, Relaxed);
            }
            // A call whose answer was lost was carried out, or a replica took over that had not
            // heard of the last one: the gateway goes on from there.
            Ok(ApplyReply::Refused(refusal)) if seen.failed > 0 => caller.entry = refusal.entry,
            Ok(other) => panic!("a wrong answer: {other:?}"),
            Err(StoreError::Nonsense(what)) => panic!("nonsense: {what}"),
            Err(_) => {
                seen.failed += 1;
                load.failed.fetch_add(1, Relaxed);
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
    seen.longest_gap = seen.longest_gap.max(good.elapsed());
    (caller, seen)
}

async fn begins(store: &Arc<dyn WholeStore>, live: &LiveId) -> Caller {
    let mut caller = Caller::new(store, "a").in_slice(slice_of(live));
    caller.registers(&[]).await;
    caller
}

/// A load on a live, which runs until it is stopped.
async fn a_load(
    store: &Arc<dyn WholeStore>,
    live: &LiveId,
) -> (Arc<Load>, JoinHandle<(Caller, Seen)>) {
    let load = Arc::new(Load::default());
    let caller = begins(store, live).await;
    let changes = tokio::spawn(keeps_changing(caller, Arc::clone(&load)));
    (load, changes)
}

/// A call that does as little as can be.
async fn asks(store: &Arc<dyn WholeStore>, slice: &SliceId) -> StoreResult<bool> {
    store.is_member(slice, Group::Fans, &user(1)).await
}

/// Looks at a slice each 20 ms; from `FOUND` on every look must fail at once.
async fn fails_fast(store: Arc<dyn WholeStore>, slice: SliceId, until: Instant) {
    let began = Instant::now();
    while Instant::now() < until {
        let asked = Instant::now();
        let answer = timeout(BOUND, asks(&store, &slice))
            .await
            .expect("an answer within two seconds");
        if began.elapsed() > FOUND {
            assert!(matches!(answer, Err(StoreError::Lost(_))), "{answer:?}");
            assert!(
                asked.elapsed() < Duration::from_millis(200),
                "{:?}",
                asked.elapsed()
            );
        }
        sleep(Duration::from_millis(20)).await;
    }
}

async fn answers(store: &Arc<dyn WholeStore>, slice: &SliceId, within: Duration) {
    let deadline = Instant::now() + within;
    while let Err(error) = timeout(BOUND, asks(store, slice))
        .await
        .expect("an answer within two seconds")
    {
        assert!(Instant::now() < deadline, "still {error}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// The others' calls go on while the first master is away; all of them, and fast.
async fn the_others_go_on(store: &Arc<dyn WholeStore>, lives: &[LiveId], within: Duration) {
    let until = Instant::now() + within;
    let (load, mut loads) = (Arc::new(Load::default()), JoinSet::new());
    for live in &lives[1..] {
        let caller = begins(store, live).await;
        loads.spawn(keeps_changing(caller, Arc::clone(&load)));
    }
    fails_fast(Arc::clone(store), slice_of(&lives[0]), until).await;
    load.stop();
    while let Some(done) = loads.join_next().await {
        let (_, seen) = done.unwrap();
        assert_eq!(seen.failed, 0, "{seen:?}");
        assert!(seen.slowest < UNTROUBLED && seen.calls > 50, "{seen:?}");
    }
    assert_eq!(*store.health().borrow(), Health::Up);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_master_takes_only_its_own_slots_along() {
    let cluster = RedisCluster::start(3, 0).await;
    let lives = a_live_on_each(&cluster);
    let store = store_of(&cluster).await;
    begins(&store, &lives[0]).await;
    cluster.nodes[0].freeze();
    the_others_go_on(&store, &lives, Duration::from_secs(6)).await;
    cluster.nodes[0].thaw();
    answers(&store, &slice_of(&lives[0]), Duration::from_secs(15)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_master_takes_only_its_own_slots_along() {
    let mut cluster = RedisCluster::start(3, 0).await;
    let lives = a_live_on_each(&cluster);
    let store = store_of(&cluster).await;
    cluster.nodes[0].kill();
    the_others_go_on(&store, &lives, Duration::from_secs(6)).await;
    // A gateway can start meanwhile.
    let late = connect(&cluster.long_url()).await;
    assert_eq!(*late.health().borrow(), Health::Up);
    cluster.restart(0).await;
    for store in [store, Arc::new(late)] {
        answers(&store, &slice_of(&lives[0]), Duration::from_secs(15)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_every_master_frozen_the_store_is_down_and_comes_back() {
    let cluster = RedisCluster::start(3, 0).await;
    let store = store_of(&cluster).await;
    cluster.nodes.iter().for_each(|node| node.freeze());
    becomes(&store, Health::Down).await;
    cluster.nodes.iter().for_each(|node| node.thaw());
    becomes(&store, Health::Up).await;
    answers(&store, &slice_of(&live("42")), Duration::from_secs(15)).await;
}

/// The slot moves key by key, with calls in between that find it half here and half there; then
/// back, all at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_moves_under_load_and_nothing_is_wrong() {
    let cluster = RedisCluster::start(3, 0).await;
    let lives = a_live_on_each(&cluster);
    let (store, moving) = (store_of(&cluster).await, &lives[0]);
    let slot = cluster.slot(&key(moving));
    let (load, changes) = a_load(&store, moving).await;
    let (other_load, others) = a_load(&store, &lives[1]).await;
    load.goes_on(10).await;
    for (from, to, calls_between) in [(0, 1, 10), (1, 2, 0)] {
        // While the slot is half moved, calls that need keys on both sides fail, so the other
        // live's calls tell the time.
        cluster.begin_move(slot, from, to);
        other_load.goes_on(calls_between).await;
        while cluster.move_a_key(slot, from, to) {
            other_load.goes_on(calls_between).await;
        }
        other_load.goes_on(calls_between).await;
        cluster.end_move(slot, to);
        load.goes_on(10).await;
    }
    load.stop();
    other_load.stop();
    let (_, other) = others.await.unwrap();
    assert_eq!(other.failed, 0, "{other:?}");
    let (mut caller, seen) = changes.await.unwrap();
    eprintln!("a slot on the move: {seen:?}");
    assert!(seen.longest_gap < Duration::from_secs(5), "{seen:?}");
    caller.joins(&users(0, 3)).await;
    assert_eq!(fans(&store, &slice_of(moving)).await, users(0, 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_replica_is_found_under_load() {
    let mut cluster = RedisCluster::start(3, 1).await;
    let lives = a_live_on_each(&cluster);
    let store = store_of(&cluster).await;
    let (load, changes) = a_load(&store, &lives[0]).await;
    let (other_load, others) = a_load(&store, &lives[1]).await;
    load.goes_on(10).await;
    cluster.nodes[0].kill();
    load.meets_a_failure().await;
    load.goes_on(50).await;
    load.stop();
    other_load.stop();
    let (_, other) = others.await.unwrap();
    assert!(other.failed == 0 && other.slowest < UNTROUBLED, "{other:?}");
    let (mut caller, seen) = changes.await.unwrap();
    eprintln!("a failover: {seen:?}");
    assert!(seen.longest_gap < Duration::from_secs(8), "{seen:?}");
    caller.joins(&users(0, 3)).await;
    // The old master comes back as a replica of the new one, and is not asked for anything.
    cluster.restart(0).await;
    answers(&store, &slice_of(&lives[0]), BOUND).await;
    assert_eq!(fans(&store, &slice_of(&lives[0])).await, users(0, 3));
}

/// A live whose channel is on this master.
fn a_channel_on(cluster: &RedisCluster, master: usize) -> LiveId {
    let keys = Keys::default();
    a_live_on(cluster, master, |live| {
        keys.channel(&Channel::Live(live.clone()))
    })
}

/// Tells until something new is heard; in between the channel may be silent.
async fn is_heard(
    teller: &Arc<dyn WholeStore>,
    live: &LiveId,
    hearing: &mut BusEvents,
    within: Duration,
) -> Duration {
    let began = Instant::now();
    let (on, word) = (Channel::Live(live.clone()), format!("{began:?}"));
    loop {
        assert!(began.elapsed() < within, "the words on {on} are not heard");
        let _ = timeout(BOUND, teller.publish(&on, word.clone()))
            .await
            .expect("an answer within two seconds");
        let heard = async {
            let is_it = |event| match event {
                Some(BusEvent::Message { channel, text }) => channel == on && *text == *word,
                _ => false,
            };
            while !is_it(hearing.next().await) {}
        };
        if timeout(Duration::from_millis(100), heard).await.is_ok() {
            return began.elapsed();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_are_heard_again_where_their_slot_went_and_where_a_replica_took_over() {
    let mut cluster = RedisCluster::start(3, 1).await;
    let (teller, listener) = (store_of(&cluster).await, store_of(&cluster).await);
    let mut hearing = listener.events();
    let (moves, fails, stays) = (
        a_channel_on(&cluster, 1),
        a_channel_on(&cluster, 0),
        a_channel_on(&cluster, 2),
    );
    for live in [&moves, &fails, &stays] {
        listener.subscribe(live);
        is_heard(&teller, live, &mut hearing, BOUND * 2).await;
    }
    let slot = cluster.slot(&Keys::default().channel(&Channel::Live(moves.clone())));
    cluster.begin_move(slot, 1, 2);
    while cluster.move_a_key(slot, 1, 2) {}
    cluster.end_move(slot, 2);
    let after = is_heard(&teller, &moves, &mut hearing, Duration::from_secs(10)).await;
    eprintln!("words of a moved slot: heard again after {after:?}");

    cluster.nodes[0].kill();
    let dead = tokio::spawn({
        let (teller, fails, mut hearing) = (Arc::clone(&teller), fails.clone(), listener.events());
        async move { is_heard(&teller, &fails, &mut hearing, Duration::from_secs(15)).await }
    });
    for _ in 0..20 {
        is_heard(&teller, &stays, &mut hearing, UNTROUBLED * 2).await;
    }
    eprintln!(
        "words of a failed master: heard again after {:?}",
        dead.await.unwrap()
    );
}
