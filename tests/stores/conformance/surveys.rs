//! A look over many lives: those that need nobody, and every reason to look more closely.

use std::sync::Arc;
use std::time::Duration;

use rollcall::ids::{Epoch, LiveId, SliceId};
use rollcall::store::{
    CloseLive, CloseReason, Found, HeldSlice, MAX_SURVEYED, OpenLive, OpenedBy, Peaks, SayViewers, Store, Survey,
};

use super::renewals::with_one_viewer;
use super::{Caller, LONG, live, on_one_server, user, users};
use crate::redis_cluster::RedisCluster;

on_one_server!(
    a_live_that_needs_nobody_is_passed_over,
    every_reason_to_look_more_closely_is_found,
    of_many_lives_those_that_need_somebody_are_told,
    an_entry_under_an_own_lease_is_as_fresh_as_that,
    a_live_on_many_gateways_is_looked_at_by_itself,
);

const NEVER: Survey = Survey { lease: LONG, streamer: LONG };

async fn open(store: &Arc<dyn Store>, name: &str, by: OpenedBy, slices: u32) -> LiveId {
    let wish = OpenLive { live: live(name), streamer: user(9), slices, by };
    store.open_live(&wish).await.unwrap();
    live(name)
}

async fn needs(store: &Arc<dyn Store>, live: &LiveId, survey: Survey) -> bool {
    store.survey(std::slice::from_ref(live), survey).await.unwrap()[0]
}

fn caller(store: &Arc<dyn Store>, live: &LiveId, name: &str) -> Caller {
    Caller { slice: SliceId { live: live.clone(), index: 1, of: 1 }, ..Caller::new(store, name) }
}

async fn a_live_that_needs_nobody_is_passed_over(store: Arc<dyn Store>) {
    let empty = open(&store, "empty", OpenedBy::Streamer, 1).await;
    let held = open(&store, "held", OpenedBy::Service, 1).await;
    caller(&store, &held, "a").registers(&users(0, 3)).await;
    assert_eq!(store.survey(&[empty, held.clone()], NEVER).await.unwrap(), [false, false]);
    // A service's live may be without its streamer.
    assert!(!needs(&store, &held, Survey { streamer: Duration::ZERO, ..NEVER }).await);
    assert!(store.survey(&[], NEVER).await.unwrap().is_empty());
}

async fn every_reason_to_look_more_closely_is_found(store: Arc<dyn Store>) {
    assert!(needs(&store, &live("unknown"), NEVER).await, "no record");

    let wide = open(&store, "wide", OpenedBy::Service, 2).await;
    assert!(needs(&store, &wide, NEVER).await, "two slices");

    let left = open(&store, "left", OpenedBy::Streamer, 1).await;
    assert!(needs(&store, &left, Survey { streamer: Duration::ZERO, ..NEVER }).await, "a silent streamer");

    let held = open(&store, "held", OpenedBy::Service, 1).await;
    let mut a = caller(&store, &held, "a");
    a.registers(&users(0, 1)).await;
    let silent = Survey { lease: Duration::ZERO, ..NEVER };
    assert!(!needs(&store, &held, silent).await, "nobody's own lease has run out");
    store.renew_own_lease(&a.name, LONG, 0).await.unwrap();
    assert!(needs(&store, &held, silent).await, "a silent gateway");

    let end = CloseLive { live: held, epoch: Epoch(1), reason: CloseReason::Requested, peaks: Peaks::default() };
    store.begin_close(&end).await.unwrap();
    assert!(needs(&store, &end.live, NEVER).await, "closing");
    store.close_slice(&a.slice, Epoch(1)).await.unwrap();
    store.finish_close(&end.live, Epoch(1)).await.unwrap();
    assert!(needs(&store, &end.live, NEVER).await, "closed");
}

async fn of_many_lives_those_that_need_somebody_are_told(store: Arc<dyn Store>) {
    let mut lives = Vec::new();
    for n in 0..MAX_SURVEYED {
        lives.push(open(&store, &format!("many{n}"), OpenedBy::Service, 1).await);
    }
    for place in [0, 17, MAX_SURVEYED - 1] {
        lives[place] = live(&format!("gone{place}"));
    }
    let needy = store.survey(&lives, NEVER).await.unwrap();
    let told: Vec<usize> = (0..needy.len()).filter(|place| needy[*place]).collect();
    assert_eq!((needy.len(), told), (MAX_SURVEYED, vec![0, 17, MAX_SURVEYED - 1]));
}

async fn an_entry_under_an_own_lease_is_as_fresh_as_that(store: Arc<dyn Store>) {
    const SHORT: Duration = Duration::from_millis(600);
    let held = open(&store, "held", OpenedBy::Service, 1).await;
    let mut a = caller(&store, &held, "a");
    a.registers(&users(0, 1)).await;
    let (epoch, gateway) = (Epoch(1), a.name.clone());
    let say = SayViewers { live: held.clone(), epoch, gateway, viewers: 1, number: 1, keep: LONG };
    store.say_viewers(&say).await.unwrap();
    let slices = vec![HeldSlice { slice: a.slice.clone(), fans: 1, number: a.number }];
    let expected = with_one_viewer(held.clone(), slices);
    assert_eq!(store.renew(&a.name, &[expected]).await, [Found::Still]);
    let survey = Survey { lease: SHORT, ..NEVER };
    store.renew_own_lease(&Caller::new(&store, "dead").name, SHORT, 0).await.unwrap();
    tokio::time::sleep(SHORT).await;
    assert!(needs(&store, &held, survey).await, "no own lease");
    store.renew_own_lease(&a.name, SHORT, 0).await.unwrap();
    assert!(!needs(&store, &held, survey).await, "an own lease that is fresh");
    tokio::time::sleep(SHORT).await;
    assert!(needs(&store, &held, survey).await, "one that ran out");
}

async fn a_live_on_many_gateways_is_looked_at_by_itself(store: Arc<dyn Store>) {
    let held = open(&store, "held", OpenedBy::Service, 1).await;
    let survey = Survey { lease: Duration::from_millis(50), ..NEVER };
    store.renew_own_lease(&Caller::new(&store, "dead").name, LONG, 0).await.unwrap();
    tokio::time::sleep(survey.lease).await;
    let mut callers: Vec<Caller> = (0..6).map(|n| caller(&store, &held, &format!("g{n}"))).collect();
    for (n, caller) in callers.iter_mut().enumerate() {
        caller.registers(&users(n, n + 1)).await;
    }
    assert!(needs(&store, &held, survey).await);
    assert!(!needs(&store, &held, NEVER).await, "nobody is late");
}

/// A key that another program garbled is to be looked at, and hides nothing else.
#[tokio::test]
async fn what_is_garbled_hides_no_other_live() {
    let server = crate::redis_server::RedisServer::start().await;
    let store = super::redis(&server).await;
    let mut lives = Vec::new();
    for name in ["fine", "record", "entries", "entry"] {
        lives.push(open(&store, name, OpenedBy::Service, 1).await);
    }
    server.cli(&["SET", "live:record", "text"]);
    server.cli(&["SET", "{online-fans:entries}:gateways", "text"]);
    server.cli(&["HSET", "{online-fans:entry}:gateways", "a", "text"]);
    assert_eq!(store.survey(&lives, NEVER).await.unwrap(), [false, true, false, false]);
    // Entries are looked at when somebody is late.
    let gateway = Caller::new(&store, "dead").name;
    store.renew_own_lease(&gateway, LONG, 0).await.unwrap();
    let silent = Survey { lease: Duration::ZERO, ..NEVER };
    assert_eq!(store.survey(&lives, silent).await.unwrap(), [false, true, true, true]);
    server.cli(&["DEL", "rollcall:leases"]);
    server.cli(&["SET", "rollcall:leases", "text"]);
    assert_eq!(store.survey(&lives, NEVER).await.unwrap(), [false, true, true, true]);
}

/// Keys of lives are in several slots there.
#[tokio::test]
async fn in_a_cluster_every_live_is_looked_at_by_itself() {
    let cluster = RedisCluster::start(3, 0).await;
    let store: Arc<dyn Store> = Arc::new(super::connect(&cluster.url()).await);
    let calm = open(&store, "calm", OpenedBy::Service, 1).await;
    assert_eq!(store.survey(&[calm.clone(), calm], NEVER).await.unwrap(), [true, true]);
}
