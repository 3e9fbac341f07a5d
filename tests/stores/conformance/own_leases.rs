//! A gateway's own lease, and what stands under it: entries in slices and words on viewers that a renewal has marked, and
//! nothing else.

use std::sync::Arc;
use std::time::Duration;

use rollcall::ids::{Epoch, GatewayId};
use rollcall::store::{
    COVERED_LEASES, Found, HeldSlice, OpenLive, OpenedBy, OwnLease, Renewal, SayViewers, Store, ViewersReply,
};
use tokio::time::{Instant, sleep};

use super::{Caller, LONG, fans, gateway, live, on_one_server, slice, user, users};
use crate::redis_cluster::RedisCluster;

on_one_server!(
    an_own_lease_goes_on_for_as_long_as_it_is_renewed_in_time,
    an_own_lease_that_ran_out_begins_anew,
    an_own_lease_that_is_older_than_it_was_left_begins_anew,
    what_stands_under_an_own_lease_is_swept_when_both_have_run_out,
    what_was_not_marked_does_not_stand_under_it,
    a_call_takes_the_mark_away,
    nothing_stands_under_it_for_ever,
    a_word_on_viewers_stands_under_it_too,
    a_word_that_was_taken_back_does_not,
    a_word_of_none_does_not,
    a_glance_sees_the_record_and_the_number_of_fans_and_renews_nothing,
);

/// Short enough to wait for, and long enough for a few calls on a busy machine.
const LEASE: Duration = Duration::from_millis(800);

/// Gateway `a`, which holds two fans of live 42 and has said so.
struct Scene {
    store: Arc<dyn Store>,
    a: Caller,
}

async fn own(store: &Arc<dyn Store>, gateway: &GatewayId, lease: Duration) -> OwnLease {
    store.renew_own_lease(gateway, lease, 0).await.unwrap().expect("own leases")
}

impl Scene {
    async fn of(store: Arc<dyn Store>) -> Self {
        let wish = OpenLive { live: live("42"), streamer: user(9), slices: 1, by: OpenedBy::Streamer };
        store.open_live(&wish).await.unwrap();
        let mut a = Caller::new(&store, "a");
        a.registers(&users(0, 2)).await;
        let scene = Self { store, a };
        scene.say("a", 3, 1).await;
        scene
    }

    async fn say(&self, name: &str, viewers: u64, number: u64) -> Vec<(u64, Duration)> {
        let (live, gateway) = (live("42"), gateway(name));
        let say = SayViewers { live, epoch: Epoch(1), gateway, viewers, number, keep: LEASE * 2 };
        words(self.store.say_viewers(&say).await.unwrap())
    }

    async fn viewers(&self) -> Vec<(u64, Duration)> {
        words(self.store.view_viewers(&live("42"), Epoch(1), LEASE * 2).await.unwrap())
    }

    /// What `a` expects. A glance does not look at the number of its last call.
    fn expected(&self, fans: u64, glance: bool) -> Renewal {
        let number = if glance { 77 } else { self.a.number };
        let slices = vec![HeldSlice { slice: slice(), fans, number }];
        let (live, epoch) = (live("42"), Epoch(1));
        Renewal { live, epoch, removals: 0, streamer_heard: false, relist: None, slices, glance, viewers: 3, word: 1 }
    }

    async fn finds(&self, expected: Renewal) -> Found {
        self.store.renew(&self.a.name, &[expected]).await[0]
    }

    async fn is_marked(&self) {
        assert_eq!(self.finds(self.expected(2, false)).await, Found::Still);
    }

    async fn renews_own(&self) -> OwnLease {
        own(&self.store, &self.a.name, LEASE).await
    }

    /// For how long `a` has been quiet, if that is longer than its lease.
    async fn late(&self) -> Option<Duration> {
        let silent = self.store.view_slice(&slice(), LEASE).await.unwrap().silent;
        silent.first().map(|silent| silent.quiet)
    }

    async fn swept(&self) -> u64 {
        self.store.sweep(&slice(), &self.a.name, LEASE).await.unwrap().released
    }
}

fn words(reply: ViewersReply) -> Vec<(u64, Duration)> {
    let ViewersReply::Known { gateways, .. } = reply else { panic!("it is over") };
    gateways.into_iter().map(|said| (said.viewers, said.age)).collect()
}

/// Until a lease that was renewed before has run out.
async fn outlast() {
    sleep(LEASE + Duration::from_millis(5)).await;
}

async fn an_own_lease_goes_on_for_as_long_as_it_is_renewed_in_time(store: Arc<dyn Store>) {
    let a = gateway("a");
    let first = own(&store, &a, LONG).await;
    assert_eq!(first.since, first.at);
    sleep(Duration::from_millis(20)).await;
    own(&store, &gateway("b"), LONG).await;
    let second = store.renew_own_lease(&a, LONG, first.at).await.unwrap().unwrap();
    assert_eq!(second.since, first.at);
    assert!(second.at >= first.at + 19, "{first:?}, {second:?}");
    // As after an answer that was lost: it is newer than the gateway knows.
    assert_eq!(store.renew_own_lease(&a, LONG, first.at).await.unwrap().unwrap().since, first.at);
}

async fn an_own_lease_that_ran_out_begins_anew(store: Arc<dyn Store>) {
    let a = gateway("a");
    own(&store, &a, LONG).await;
    sleep(Duration::from_millis(20)).await;
    let second = own(&store, &a, Duration::from_millis(10)).await;
    assert_eq!(second.since, second.at);
}

/// The store came back as it was before that.
async fn an_own_lease_that_is_older_than_it_was_left_begins_anew(store: Arc<dyn Store>) {
    let a = gateway("a");
    let first = own(&store, &a, LONG).await;
    sleep(Duration::from_millis(5)).await;
    let second = store.renew_own_lease(&a, LONG, first.at + 1).await.unwrap().unwrap();
    assert_eq!(second.since, second.at);
    assert_eq!(own(&store, &a, LONG).await.since, second.at, "from then on");
}

async fn what_stands_under_an_own_lease_is_swept_when_both_have_run_out(store: Arc<dyn Store>) {
    let scene = Scene::of(store).await;
    scene.is_marked().await;
    outlast().await;
    let began = Instant::now();
    scene.renews_own().await;
    let (late, swept, names) = (scene.late().await, scene.swept().await, fans(&scene.store, &slice()).await);
    assert!(began.elapsed() < LEASE, "the machine was too slow to tell anything");
    assert_eq!((late, swept, names), (None, 0, users(0, 2)));
    outlast().await;
    let late = scene.late().await.expect("it is late");
    assert!(late >= LEASE && late < began.elapsed() + Duration::from_millis(2), "late by the own lease: {late:?}");
    assert_eq!((scene.swept().await, fans(&scene.store, &slice()).await.len()), (2, 0));
}

async fn what_was_not_marked_does_not_stand_under_it(store: Arc<dyn Store>) {
    let scene = Scene::of(store).await;
    outlast().await;
    scene.renews_own().await;
    assert!(scene.late().await.is_some());
    assert_eq!(scene.swept().await, 2);
}

async fn a_call_takes_the_mark_away(store: Arc<dyn Store>) {
    let mut scene = Scene::of(store).await;
    scene.is_marked().await;
    scene.a.joins(&users(2, 3)).await;
    outlast().await;
    scene.renews_own().await;
    assert_eq!(scene.swept().await, 3);
    // What is not there is not marked, and not made.
    assert_eq!(scene.finds(scene.expected(3, false)).await, Found::News);
    assert!(scene.store.view_slice(&slice(), Duration::ZERO).await.unwrap().silent.is_empty());
}

async fn nothing_stands_under_it_for_ever(store: Arc<dyn Store>) {
    const SHORT: Duration = Duration::from_millis(30);
    let scene = Scene::of(store).await;
    let before = scene.store.view_slice(&slice(), LONG).await.unwrap().at / 1_000;
    scene.is_marked().await;
    let after = scene.store.view_slice(&slice(), LONG).await.unwrap().at / 1_000;
    loop {
        own(&scene.store, &scene.a.name, SHORT).await;
        let view = scene.store.view_slice(&slice(), SHORT).await.unwrap();
        let now = view.at / 1_000;
        let most = u64::from(COVERED_LEASES) * 30;
        match view.silent.first() {
            // The own lease was renewed a moment before, so only the mark's age can say this.
            Some(silent) if silent.quiet > SHORT * 10 => {
                assert!(now >= before + most, "after {} ms", now - before);
                break;
            }
            _ => assert!(now <= after + most, "still there after {} ms", now - after),
        }
        sleep(Duration::from_millis(3)).await;
    }
    let swept = scene.store.sweep(&slice(), &scene.a.name, SHORT).await.unwrap();
    assert_eq!(swept.released, 2);
}

async fn a_word_on_viewers_stands_under_it_too(store: Arc<dyn Store>) {
    let scene = Scene::of(store).await;
    scene.is_marked().await;
    outlast().await;
    let began = Instant::now();
    scene.renews_own().await;
    let heard = scene.viewers().await;
    assert!(heard[0].0 == 3 && heard[0].1 < began.elapsed() + Duration::from_millis(2), "{heard:?}");
    outlast().await;
    let heard = scene.viewers().await;
    assert!(heard[0].1 >= LEASE, "{heard:?}");
    outlast().await;
    assert_eq!(scene.viewers().await, [], "too old to keep");
}

async fn a_word_of_none_does_not(store: Arc<dyn Store>) {
    let scene = Scene::of(store).await;
    scene.say("a", 0, 2).await;
    let none = Renewal { viewers: 0, word: 2, ..scene.expected(2, false) };
    assert_eq!(scene.finds(none).await, Found::Still);
    outlast().await;
    scene.renews_own().await;
    assert!(scene.viewers().await[0].1 >= LEASE);
}

async fn a_word_that_was_taken_back_does_not(store: Arc<dyn Store>) {
    let scene = Scene::of(store).await;
    scene.is_marked().await;
    scene.store.forget_viewers(&live("42"), &scene.a.name, 1).await.unwrap();
    assert_eq!(scene.viewers().await[0].0, 0);
    outlast().await;
    scene.renews_own().await;
    assert!(scene.viewers().await[0].1 >= LEASE);
    // A later word of its own is not marked either.
    scene.say("a", 4, 2).await;
    outlast().await;
    scene.renews_own().await;
    let heard = scene.viewers().await;
    assert!(heard[0].0 == 4 && heard[0].1 >= LEASE, "{heard:?}");
}

async fn a_glance_sees_the_record_and_the_number_of_fans_and_renews_nothing(store: Arc<dyn Store>) {
    let mut scene = Scene::of(store).await;
    assert_eq!(scene.finds(scene.expected(2, true)).await, Found::Still);
    outlast().await;
    assert_eq!(scene.finds(scene.expected(2, true)).await, Found::Still);
    assert!(scene.late().await.is_some(), "a glance renews nothing");
    assert_eq!(scene.finds(scene.expected(3, true)).await, Found::News);
    assert_eq!(scene.finds(Renewal { removals: 1, ..scene.expected(2, true) }).await, Found::News);
    assert_eq!(scene.finds(Renewal { epoch: Epoch(2), ..scene.expected(2, true) }).await, Found::News);
    scene.a.joins(&users(5, 6)).await;
    assert_eq!(scene.finds(scene.expected(2, true)).await, Found::News);
    assert_eq!(scene.finds(scene.expected(3, true)).await, Found::Still);
}

/// A sweep could not look at them.
#[tokio::test]
async fn in_a_cluster_there_are_none() {
    let cluster = RedisCluster::start(3, 0).await;
    let store: Arc<dyn Store> = Arc::new(super::connect(&cluster.url()).await);
    assert_eq!(store.renew_own_lease(&gateway("a"), LEASE, 0).await.unwrap(), None);
}

/// Who names one node of a cluster as a server by itself: every call works, and none is in vain but the first.
#[tokio::test]
async fn a_server_that_refuses_keys_of_several_slots_has_none() {
    let cluster = RedisCluster::start(3, 0).await;
    let home = cluster.home("rollcall:leases");
    let name = (0..).map(|n| format!("part{n}")).find(|name| cluster.home(&format!("online-fans:{name}")) == home);
    let store: Arc<dyn Store> = Arc::new(super::connect(&cluster.nodes[home].url()).await);
    let slice = rollcall::ids::SliceId { live: live(&name.unwrap()), ..slice() };
    let mut a = Caller { slice, ..Caller::new(&store, "a") };
    assert_eq!(a.registers(&users(0, 2)).await.card, 2);
    assert_eq!(store.renew_own_lease(&gateway("a"), LEASE, 0).await.unwrap(), None);
    assert_eq!(store.sweep(&a.slice, &a.name, Duration::ZERO).await.unwrap().released, 2);
}
