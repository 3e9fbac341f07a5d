//! Many lives renewed in one call: only what stands as expected, and nothing is brought back that is gone.

use std::sync::Arc;
use std::time::Duration;

use rollcall::ids::{Epoch, LiveId, SliceId};
use rollcall::store::{
    CloseLive, CloseReason, Entry, Found, HeldSlice, MAX_RENEWALS, OpenLive, OpenReply, OpenedBy, Peaks, RemoveUser,
    Renewal, SayViewers, Store, ViewersReply,
};
use tokio::time::Instant;

use crate::redis_cluster::RedisCluster;

use super::{Caller, LONG, fans, gateway, live, on_one_server, slice, user, users};

on_one_server!(
    a_lease_that_stands_as_expected_is_renewed,
    a_word_on_viewers_is_renewed_with_it,
    a_streamer_who_was_heard_is_noted,
    whatever_is_new_is_told,
    a_peer_s_word_on_viewers_is_news,
    after_a_close_nothing_is_renewed_and_nothing_comes_back,
    of_many_lives_only_those_with_news_are_told,
    a_live_of_many_slices_is_renewed_as_a_whole,
    a_late_renewal_does_not_hide_a_later_call,
);

/// A live of one slice in which gateway `a` holds two fans and says so.
struct Scene {
    store: Arc<dyn Store>,
    a: Caller,
    expected: Renewal,
}

fn one_slice(live: &LiveId) -> SliceId {
    SliceId { live: live.clone(), index: 1, of: 1 }
}

/// The first epoch of a live, with all that can be looked at.
pub fn with_one_viewer(live: LiveId, slices: Vec<HeldSlice>) -> Renewal {
    let epoch = Epoch(1);
    Renewal {
        live,
        epoch,
        removals: 0,
        streamer_heard: false,
        relist: None,
        slices,
        glance: false,
        viewers: 1,
        word: 1,
    }
}

async fn open(store: &Arc<dyn Store>, live: &LiveId, slices: u32) -> Epoch {
    let wish = OpenLive { live: live.clone(), streamer: user(9), slices, by: OpenedBy::Streamer };
    let OpenReply::Opened(record) = store.open_live(&wish).await.unwrap() else { panic!("not opened") };
    record.epoch
}

async fn say(store: &Arc<dyn Store>, live: &LiveId, name: &str, viewers: u64, number: u64) -> ViewersReply {
    let say = SayViewers { live: live.clone(), epoch: Epoch(1), gateway: gateway(name), viewers, number, keep: LONG };
    store.say_viewers(&say).await.unwrap()
}

impl Scene {
    async fn of(store: &Arc<dyn Store>, live: LiveId) -> Self {
        let epoch = open(store, &live, 1).await;
        let mut a = Caller { slice: one_slice(&live), epoch: epoch.0, ..Caller::new(store, "a") };
        a.registers(&users(0, 2)).await;
        say(store, &live, "a", 3, 7).await;
        let slices = vec![HeldSlice { slice: one_slice(&live), fans: 2, number: a.number }];
        let expected = Renewal { epoch, viewers: 3, word: 7, ..with_one_viewer(live, slices) };
        Self { store: Arc::clone(store), a, expected }
    }

    async fn finds(&self, expected: &Renewal) -> bool {
        self.store.renew(&self.a.name, std::slice::from_ref(expected)).await[0] == Found::Still
    }

    async fn is_still(&self) -> bool {
        self.finds(&self.expected).await
    }

    /// For how long gateway `a` has been quiet in the slice.
    async fn quiet(&self) -> Option<Duration> {
        let view = self.store.view_slice(&self.a.slice, Duration::ZERO).await.unwrap();
        view.silent.into_iter().find(|silent| silent.gateway == self.a.name).map(|silent| silent.quiet)
    }
}

async fn here(store: &Arc<dyn Store>) -> Scene {
    Scene::of(store, live("42")).await
}

/// Until so much time has passed for the store.
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

const A_WHILE: Duration = Duration::from_millis(300);

/// The store's clock ticks in ms.
const TICK: Duration = Duration::from_millis(2);

async fn a_lease_that_stands_as_expected_is_renewed(store: Arc<dyn Store>) {
    let mut scene = here(&store).await;
    pass(A_WHILE).await;
    let before = scene.quiet().await.unwrap();
    let began = Instant::now();
    assert!(scene.is_still().await);
    let after = scene.quiet().await.unwrap();
    assert!(before >= A_WHILE && after <= began.elapsed() + TICK, "quiet for {before:?}, then {after:?}");
    // It is no call of the ledger's: the next one counts on from the last.
    assert_eq!(scene.a.joins(&users(2, 3)).await.card, 3);
    assert!(!scene.is_still().await, "there is another fan");
}

async fn a_word_on_viewers_is_renewed_with_it(store: Arc<dyn Store>) {
    let scene = here(&store).await;
    pass(A_WHILE).await;
    let began = Instant::now();
    assert!(scene.is_still().await);
    let reply = store.view_viewers(&live("42"), Epoch(1), LONG).await.unwrap();
    let ViewersReply::Known { gateways, .. } = reply else { panic!("it is over") };
    assert_eq!(gateways.iter().map(|said| (said.viewers, said.number)).collect::<Vec<_>>(), [(3, 7)]);
    assert!(gateways[0].age <= began.elapsed() + TICK, "{gateways:?}");
}

async fn a_streamer_who_was_heard_is_noted(store: Arc<dyn Store>) {
    let scene = here(&store).await;
    pass(A_WHILE).await;
    assert!(scene.is_still().await);
    assert!(store.streamer_silent(&live("42")).await.unwrap().unwrap() >= A_WHILE);
    let began = Instant::now();
    assert!(scene.finds(&Renewal { streamer_heard: true, ..scene.expected.clone() }).await);
    assert!(store.streamer_silent(&live("42")).await.unwrap().unwrap() <= began.elapsed() + TICK);
}

async fn whatever_is_new_is_told(store: Arc<dyn Store>) {
    let mut scene = here(&store).await;
    let as_it_is = scene.expected.clone();
    let held = |fans, number| vec![HeldSlice { slice: slice(), fans, number }];
    let number = scene.a.number;
    for (why, wrong) in [
        ("another epoch", Renewal { epoch: Epoch(2), ..as_it_is.clone() }),
        ("a removal", Renewal { removals: 1, ..as_it_is.clone() }),
        ("another number of fans", Renewal { slices: held(3, number), ..as_it_is.clone() }),
        ("nobody", Renewal { slices: held(0, number), ..as_it_is.clone() }),
        ("a later call", Renewal { slices: held(2, number + 1), ..as_it_is.clone() }),
        ("an earlier call", Renewal { slices: held(2, number - 1), ..as_it_is.clone() }),
        ("other viewers", Renewal { viewers: 4, ..as_it_is.clone() }),
        ("another word", Renewal { word: 8, ..as_it_is.clone() }),
        ("another live", Renewal { live: live("43"), ..as_it_is.clone() }),
    ] {
        assert!(!scene.finds(&wrong).await, "{why}");
    }
    assert!(scene.is_still().await, "nothing of that changed anything");
    let other = Caller { name: gateway("b"), ..Caller::new(&store, "b") };
    assert_eq!(store.renew(&other.name, std::slice::from_ref(&as_it_is)).await, [Found::News], "another gateway's");

    let mut b = Caller::new(&store, "b");
    b.registers(&users(5, 6)).await;
    assert!(!scene.is_still().await, "a fan elsewhere");
    b.done(Entry::Release, &[], &users(5, 6)).await;
    assert!(scene.is_still().await);
    b.registers(&[]).await;
    assert!(!scene.is_still().await, "another gateway, without a fan of its own");
    b.done(Entry::Release, &[], &[]).await;
    let removal = RemoveUser { live: live("42"), epoch: Epoch(1), user: user(5), ban: None };
    store.remove_user(&removal).await.unwrap();
    assert!(!scene.is_still().await, "a removal");
    scene.expected.removals = 1;
    assert!(scene.is_still().await);
    store.sweep(&slice(), &scene.a.name, Duration::ZERO).await.unwrap();
    assert!(!scene.is_still().await, "it was swept");
    assert_eq!((scene.quiet().await, fans(&store, &slice()).await.len()), (None, 0));
}

async fn a_peer_s_word_on_viewers_is_news(store: Arc<dyn Store>) {
    let scene = here(&store).await;
    say(&store, &live("42"), "b", 0, 1).await;
    assert!(!scene.is_still().await);
}

async fn after_a_close_nothing_is_renewed_and_nothing_comes_back(store: Arc<dyn Store>) {
    let scene = here(&store).await;
    let end = CloseLive { live: live("42"), epoch: Epoch(1), reason: CloseReason::Requested, peaks: Peaks::default() };
    store.begin_close(&end).await.unwrap();
    assert!(!scene.is_still().await, "it is closing");
    store.close_slice(&slice(), Epoch(1)).await.unwrap();
    store.close_viewers(&live("42"), Epoch(1)).await.unwrap();
    store.finish_close(&live("42"), Epoch(1)).await.unwrap();
    for _ in 0..2 {
        assert!(!scene.finds(&Renewal { streamer_heard: true, ..scene.expected.clone() }).await);
        assert_eq!(scene.quiet().await, None);
        assert_eq!(store.view_slice(&slice(), LONG).await.unwrap().card, 0);
        assert_eq!(store.view_viewers(&live("42"), Epoch(1), LONG).await.unwrap(), ViewersReply::Over);
    }
    assert_eq!(open(&store, &live("42"), 1).await, Epoch(2));
    assert!(!scene.is_still().await, "it is another epoch");
    assert_eq!(scene.quiet().await, None);
}

async fn of_many_lives_only_those_with_news_are_told(store: Arc<dyn Store>) {
    let mut scenes = Vec::new();
    for n in 0..MAX_RENEWALS {
        scenes.push(Scene::of(&store, live(&format!("many{n}"))).await);
    }
    let expected: Vec<Renewal> = scenes.iter().map(|scene| scene.expected.clone()).collect();
    for place in [0, 17, MAX_RENEWALS - 1] {
        scenes[place].a.leaves(&users(0, 1)).await;
    }
    let renewed = store.renew(&gateway("a"), &expected).await;
    let news: Vec<usize> = (0..renewed.len()).filter(|place| renewed[*place] == Found::News).collect();
    assert_eq!((renewed.len(), news), (MAX_RENEWALS, vec![0, 17, MAX_RENEWALS - 1]));
    assert!(store.renew(&gateway("a"), &[]).await.is_empty());
}

async fn a_live_of_many_slices_is_renewed_as_a_whole(store: Arc<dyn Store>) {
    const SLICES: u32 = 256;
    let live = live("big");
    let epoch = open(&store, &live, SLICES).await;
    say(&store, &live, "a", 1, 1).await;
    // A fan in each slice but the last two, which nobody is in.
    let mut slices = Vec::new();
    for slice in SliceId::all(&live, SLICES) {
        let fans = u64::from(slice.index <= SLICES - 2);
        if fans > 0 {
            let mut a = Caller { slice: slice.clone(), ..Caller::new(&store, "a") };
            a.registers(&users(slice.index as usize, slice.index as usize + 1)).await;
        }
        slices.push(HeldSlice { slice, fans, number: 1 });
    }
    let expected = Renewal { epoch, ..with_one_viewer(live, slices) };
    let still = async || store.renew(&gateway("a"), std::slice::from_ref(&expected)).await[0] == Found::Still;
    assert!(still().await);
    let last = expected.slices.last().unwrap().slice.clone();
    Caller { slice: last, ..Caller::new(&store, "b") }.registers(&users(900, 901)).await;
    assert!(!still().await, "somebody came into the last slice");
}

/// Of two calls the second overtook a renewal that expected the first: were the entry's number put back, the first could
/// be carried out again.
async fn a_late_renewal_does_not_hide_a_later_call(store: Arc<dyn Store>) {
    let mut scene = here(&store).await;
    let first = scene.a.next(Entry::Keep, &users(2, 3), &[]);
    scene.a.done(Entry::Keep, &[], &users(0, 1)).await;
    scene.a.joins(&users(0, 1)).await;
    assert!(!scene.is_still().await, "as many fans, by a later call");
    assert_eq!(store.apply(&first).await.unwrap(), rollcall::store::ApplyReply::Stale);
    assert_eq!(fans(&store, &slice()).await, users(0, 2));
}

/// The parts of a live are in several slots there.
#[tokio::test]
async fn in_a_cluster_no_lives_are_renewed_together() {
    let cluster = RedisCluster::start(3, 0).await;
    let store: Arc<dyn Store> = Arc::new(super::connect(&cluster.url()).await);
    let scene = here(&store).await;
    pass(A_WHILE).await;
    assert_eq!(store.renew(&scene.a.name, std::slice::from_ref(&scene.expected)).await, [Found::Nothing]);
    assert!(scene.quiet().await.unwrap() >= A_WHILE);
}

/// Who names one node of a cluster as a server by itself.
#[tokio::test]
async fn a_server_that_refuses_keys_of_several_slots_is_asked_once() {
    let cluster = RedisCluster::start(3, 0).await;
    let store: Arc<dyn Store> = Arc::new(super::connect(&cluster.nodes[0].url()).await);
    let names = (0..).map(|n| live(&format!("part{n}")));
    let here = |live: &LiveId| {
        [format!("live:{live}"), format!("live-viewers:{live}"), format!("online-fans:{live}")]
            .iter()
            .all(|key| cluster.home(key) == 0)
    };
    let live = names.into_iter().find(here).unwrap();
    let slices = vec![HeldSlice { slice: one_slice(&live), fans: 1, number: 1 }];
    let expected = with_one_viewer(live, slices);
    for _ in 0..2 {
        assert_eq!(store.renew(&gateway("a"), std::slice::from_ref(&expected)).await, [Found::Nothing]);
    }
}
