//! A check finds nothing where the store is as the gateway expects, and finds every difference.

use std::sync::Arc;

use rollcall::base::ids::{Epoch, SliceId};
use rollcall::store::{
    Arrived, ChangeLive, ChangeReply, CheckLive, Checked, CountLive, Entries, ExpectedSlice,
    Figures, Finding, LiveChange, LiveRecord, OpenLive, Pass, Peaks, RemoveUser, SliceSize,
    Standing, Store, StoreError,
};

use super::{
    Caller, LONG, connect, end, fans, finish_close, gateway, live, on_each, opened, opened_as,
    passes, slice, user, users, wish,
};
use crate::redis_cluster::RedisCluster;
use crate::redis_server::RedisServer;

on_each!(
    nothing_is_found_where_all_is_as_expected,
    a_record_that_is_not_as_expected_is_found,
    information_and_figures_that_are_not_as_expected_are_found,
    a_live_that_is_not_on_the_list_is_found,
    a_slice_that_is_not_as_expected_is_found,
    a_slice_in_a_rebuild_is_never_as_expected,
    a_slice_in_which_one_has_no_part_is_as_large_as_expected,
    a_list_that_nobody_asks_about_is_not_looked_at,
    each_of_many_lives_has_its_own_answer,
);

/// A live of two slices as gateway `a` expects it; `b` is a living gateway beside it.
struct Scene {
    store: Arc<dyn Store>,
    record: LiveRecord,
    a: Vec<Caller>,
    expected: CheckLive,
}

impl Scene {
    async fn of(store: &Arc<dyn Store>, name: &str) -> Self {
        let record = opened_as(
            store,
            &OpenLive {
                slices: 2,
                ..wish(name)
            },
        )
        .await;
        let (mut a, mut slices) = (Vec::new(), Vec::new());
        for (n, slice) in record.all_slices().enumerate() {
            let epoch = record.epoch.0;
            let mut b = Caller {
                slice: slice.clone(),
                epoch,
                ..Caller::new(store, "b")
            };
            b.registers(&users(1, 4)).await;
            let mut own = Caller {
                slice: slice.clone(),
                epoch,
                number: 5,
                ..Caller::new(store, "a")
            };
            let size = own.registers(&users(0, 2 + n)).await;
            let expected = ExpectedSlice {
                slice,
                epoch: record.epoch,
                entry: own.entry,
                size,
            };
            a.push(own);
            slices.push(expected);
        }
        let expected = CheckLive {
            live: record.live.clone(),
            epoch: record.epoch,
            listed: true,
            removals: 0,
            version: 0,
            counted: Some(Figures::default()),
            slices,
        };
        Self {
            store: store.clone(),
            record,
            a,
            expected,
        }
    }

    async fn finds(&self, expected: &CheckLive) -> Vec<Finding> {
        whole(
            found(&self.store, std::slice::from_ref(expected))
                .await
                .remove(0),
        )
    }

    /// What is found with one slice expected otherwise.
    async fn finds_with(
        &self,
        place: usize,
        change: impl FnOnce(&mut ExpectedSlice),
    ) -> Vec<Finding> {
        let mut expected = self.expected.clone();
        change(&mut expected.slices[place]);
        self.finds(&expected).await
    }

    /// A slice as `a` reads it.
    async fn finding(&self, place: usize) -> Finding {
        let slice = &self.expected.slices[place].slice;
        let slices = std::slice::from_ref(slice);
        let mut looks = self.store.look(slices, &gateway("a"), Entries::Own).await;
        Finding::Slice(place, looks.remove(0).unwrap())
    }
}

/// The findings of a check that could read everything.
fn whole(Checked { findings, complete }: Checked) -> Vec<Finding> {
    complete.unwrap();
    findings
}

/// The findings of `a`, in the order of their kinds.
async fn found(store: &Arc<dyn Store>, lives: &[CheckLive]) -> Vec<Checked> {
    let mut answers = store.check(&gateway("a"), lives).await;
    assert_eq!(answers.len(), lives.len());
    for checked in &mut answers {
        checked.findings.sort_by_key(|finding| match finding {
            Finding::Record => 0,
            Finding::Unlisted | Finding::ListUnread => 1,
            Finding::Counted => 2,
            Finding::Slice(place, _) => 4 + place,
        });
    }
    answers
}

async fn nothing_is_found_where_all_is_as_expected(store: Arc<dyn Store>) {
    let scene = Scene::of(&store, "42").await;
    assert_eq!(scene.finds(&scene.expected).await, vec![]);
    assert_eq!(found(&store, &[]).await, vec![]);
    // A check changes nothing.
    assert_eq!(scene.finds(&scene.expected).await, vec![]);
}

async fn a_record_that_is_not_as_expected_is_found(store: Arc<dyn Store>) {
    let mut scene = Scene::of(&store, "42").await;
    let other_epoch = CheckLive {
        epoch: Epoch(scene.record.epoch.0 + 1),
        ..scene.expected.clone()
    };
    assert_eq!(scene.finds(&other_epoch).await[0], Finding::Record);
    let wish = RemoveUser {
        live: live("42"),
        epoch: scene.record.epoch,
        user: user(3),
        ban: Some(LONG),
        by: None,
        is_told: true,
        message: String::new(),
    };
    store.remove_user(&wish).await.unwrap();
    assert_eq!(scene.finds(&scene.expected).await, [Finding::Record]);
    scene.expected.removals = 1;
    assert_eq!(scene.finds(&scene.expected).await, vec![]);
    store.begin_close(&end(&scene.record)).await.unwrap();
    assert_eq!(scene.finds(&scene.expected).await, [Finding::Record]);
    let unknown = CheckLive {
        live: live("43"),
        slices: vec![],
        ..scene.expected.clone()
    };
    assert_eq!(
        scene.finds(&unknown).await,
        [Finding::Record, Finding::Unlisted]
    );
}

async fn information_and_figures_that_are_not_as_expected_are_found(store: Arc<dyn Store>) {
    let mut scene = Scene::of(&store, "42").await;
    let epoch = scene.record.epoch;
    let wish = ChangeLive {
        live: live("42"),
        epoch,
        change: LiveChange {
            info: Some(Some("{}".into())),
            ..LiveChange::default()
        },
        message: String::new(),
    };
    let ChangeReply::Changed(version) = store.change_live(&wish).await.unwrap() else {
        panic!("not changed")
    };
    assert_eq!(scene.finds(&scene.expected).await, [Finding::Record]);
    scene.expected.version = version;
    assert_eq!(scene.finds(&scene.expected).await, []);
    let figures = Figures {
        viewers: 7,
        fans: 3,
    };
    let (peaks, arrived) = (
        Peaks::default(),
        Arrived {
            joins: 7,
            leaves: 0,
        },
    );
    let count = CountLive {
        live: live("42"),
        epoch,
        figures,
        peaks,
        arrived,
    };
    store.count_live(&count).await.unwrap();
    assert_eq!(scene.finds(&scene.expected).await, [Finding::Counted]);
    for counted in [Some(figures), None] {
        assert_eq!(
            scene
                .finds(&CheckLive {
                    counted,
                    ..scene.expected.clone()
                })
                .await,
            []
        );
    }
    let fewer = CheckLive {
        counted: Some(Figures { fans: 2, ..figures }),
        ..scene.expected.clone()
    };
    assert_eq!(scene.finds(&fewer).await, [Finding::Counted]);
}

async fn a_live_that_is_not_on_the_list_is_found(store: Arc<dyn Store>) {
    let scene = Scene::of(&store, "42").await;
    store.begin_close(&end(&scene.record)).await.unwrap();
    finish_close(&store, &live("42"), scene.record.epoch, LONG)
        .await
        .unwrap();
    assert_eq!(
        scene.finds(&scene.expected).await,
        [Finding::Record, Finding::Unlisted]
    );
    // On the list under any time, it is on the list.
    store.list_live(&live("42"), 77).await.unwrap();
    assert_eq!(scene.finds(&scene.expected).await, [Finding::Record]);
}

async fn a_slice_that_is_not_as_expected_is_found(store: Arc<dyn Store>) {
    let mut scene = Scene::of(&store, "42").await;
    let second = scene.finding(1).await;
    let wrong: [fn(&mut ExpectedSlice); 7] = [
        |slice| slice.entry = Some(5),
        |slice| slice.entry = None,
        |slice| slice.size.card -= 1,
        |slice| slice.size.fans -= 1,
        |slice| slice.size.leaves += 1,
        |slice| slice.size.version += 1_000_000_000,
        |slice| slice.size.incarnation -= 1,
    ];
    for change in wrong {
        assert_eq!(
            scene.finds_with(1, change).await,
            std::slice::from_ref(&second)
        );
    }
    let both = [scene.finding(0).await, scene.finding(1).await];
    let mut expected = scene.expected.clone();
    expected
        .slices
        .iter_mut()
        .for_each(|slice| slice.entry = None);
    assert_eq!(scene.finds(&expected).await, both);
    // A change by the gateway itself moves its number.
    scene.a[0].moves_on().await;
    assert_eq!(scene.finds(&scene.expected).await, [scene.finding(0).await]);
    scene.expected.slices[0] = ExpectedSlice {
        entry: scene.a[0].entry,
        ..scene.expected.slices[0].clone()
    };
    assert_eq!(scene.finds(&scene.expected).await, vec![]);
    // A slice that was closed under one's feet.
    for slice in &scene.expected.slices {
        store
            .close_slice(&slice.slice, scene.record.epoch)
            .await
            .unwrap();
    }
    assert_eq!(
        scene.finds(&scene.expected).await,
        [scene.finding(0).await, scene.finding(1).await]
    );
}

async fn a_slice_in_a_rebuild_is_never_as_expected(store: Arc<dyn Store>) {
    let mut scene = Scene::of(&store, "42").await;
    let complaint = Pass {
        wrong: Some(scene.expected.slices[1].size.incarnation),
        ..scene.a[1].pass()
    };
    let size = passes(&store, complaint).await.unwrap().size;
    scene.a[1].entry = None;
    for size in [size, scene.a[1].registers(&users(0, 3)).await] {
        scene.expected.slices[1].size = size;
        scene.expected.slices[1].entry = scene.a[1].entry;
        assert_eq!(scene.finds(&scene.expected).await, [scene.finding(1).await]);
    }
    // An entry that is not complete is found, too.
    let size = scene.a[0].says_some(&[]).await;
    scene.expected.slices[0].size = size;
    scene.expected.slices[0].entry = scene.a[0].entry;
    let both = [scene.finding(0).await, scene.finding(1).await];
    assert_eq!(scene.finds(&scene.expected).await, both);
}

/// A slice of one live in which the asking gateway has no part.
fn no_part(slice: SliceId, epoch: Epoch, size: SliceSize) -> ExpectedSlice {
    ExpectedSlice {
        slice,
        epoch,
        entry: None,
        size,
    }
}

async fn a_slice_in_which_one_has_no_part_is_as_large_as_expected(store: Arc<dyn Store>) {
    let record = opened(&store, "42").await;
    let check = async |size| {
        let expected = CheckLive {
            live: live("42"),
            epoch: record.epoch,
            listed: false,
            removals: 0,
            version: 0,
            counted: Some(Figures::default()),
            slices: vec![no_part(slice(), record.epoch, size)],
        };
        let mut findings = whole(found(&store, &[expected]).await.remove(0));
        findings.retain(|finding| matches!(finding, Finding::Slice(..)));
        findings.len()
    };
    let nobody = SliceSize::default();
    let one = SliceSize { card: 1, ..nobody };
    assert_eq!(
        (check(nobody).await, check(one).await),
        (0, 1),
        "nobody has used it"
    );
    let mut b = Caller {
        epoch: record.epoch.0,
        ..Caller::new(&store, "b")
    };
    let two = b.registers(&users(0, 2)).await;
    assert_eq!((check(two).await, check(nobody).await), (0, 1));
    store.close_slice(&slice(), record.epoch).await.unwrap();
    assert_eq!(check(two).await, 1, "the epoch is closed");
}

async fn a_list_that_nobody_asks_about_is_not_looked_at(store: Arc<dyn Store>) {
    let scene = Scene::of(&store, "42").await;
    store.begin_close(&end(&scene.record)).await.unwrap();
    finish_close(
        &store,
        &live("42"),
        scene.record.epoch,
        std::time::Duration::from_secs(60),
    )
    .await
    .unwrap();
    let expected = CheckLive {
        listed: false,
        ..scene.expected.clone()
    };
    assert!(!scene.finds(&expected).await.contains(&Finding::Unlisted));
}

async fn each_of_many_lives_has_its_own_answer(store: Arc<dyn Store>) {
    let mut expected = Vec::new();
    for n in 0..200 {
        let record = opened(&store, &format!("L{n}")).await;
        let removals = u64::from(n % 3 == 0);
        let (live, epoch) = (record.live, record.epoch);
        let slice = SliceId::of_live(live.clone(), 1, 1);
        let size = SliceSize {
            card: u64::from(n % 5 == 0),
            ..SliceSize::default()
        };
        let slices = vec![no_part(slice, epoch, size)];
        let counted = None;
        expected.push(CheckLive {
            live,
            epoch,
            listed: true,
            removals,
            version: 0,
            counted,
            slices,
        });
    }
    for (n, answer) in found(&store, &expected).await.into_iter().enumerate() {
        let findings = whole(answer);
        assert_eq!(findings.contains(&Finding::Record), n % 3 == 0, "live {n}");
        assert_eq!(
            findings.iter().any(|f| matches!(f, Finding::Slice(0, _))),
            n % 5 == 0,
            "live {n}"
        );
        assert_eq!(
            findings.len(),
            usize::from(n % 3 == 0) + usize::from(n % 5 == 0),
            "live {n}"
        );
    }
}

/// What another program wrote over a key of a live is an error of that live and no other's, and
/// hides nothing else.
async fn a_garbled_key_is_an_error_of_its_live_only(store: Arc<dyn Store>, run: impl Fn(&[&str])) {
    let scenes = [
        Scene::of(&store, "42").await,
        Scene::of(&store, "43").await,
        Scene::of(&store, "44").await,
    ];
    for garbled in ["live:42", "{online-fans:43_slice1}:gateways"] {
        run(&["DEL", garbled]);
        run(&["SET", garbled, "what"]);
    }
    run(&["DEL", "online-fans:42_slice1"]);
    run(&["DEL", "online-fans:43_slice2"]);
    let lost = [scenes[0].finding(0).await, scenes[1].finding(1).await];
    let expected: Vec<CheckLive> = scenes.iter().map(|scene| scene.expected.clone()).collect();
    let answers = found(&store, &expected).await;
    for (checked, lost) in answers.iter().zip(lost) {
        assert_eq!(checked.findings, [lost]);
        assert!(
            matches!(checked.complete, Err(StoreError::Nonsense(_))),
            "{checked:?}"
        );
    }
    assert_eq!(answers[2], Checked::default());
}

#[tokio::test]
async fn a_garbled_key_on_one_server() {
    let server = RedisServer::start().await;
    let store = Arc::new(connect(&server.url()).await);
    a_garbled_key_is_an_error_of_its_live_only(store, |args| drop(server.cli(args))).await;
}

#[tokio::test]
async fn a_garbled_key_in_a_cluster() {
    let cluster = RedisCluster::start(3, 0).await;
    let store = Arc::new(connect(&cluster.url()).await);
    a_garbled_key_is_an_error_of_its_live_only(store, |args| {
        drop(cluster.nodes[cluster.home(args[1])].cli(args))
    })
    .await;
}

/// Redis lost a set, or a record, or the list: each is found.
#[tokio::test]
async fn a_check_finds_what_redis_lost() {
    let server = RedisServer::start().await;
    let store: Arc<dyn Store> = Arc::new(connect(&server.url()).await);
    let scene = Scene::of(&store, "42").await;
    server.cli(&["DEL", "lives"]);
    assert_eq!(scene.finds(&scene.expected).await, [Finding::Unlisted]);
    server.cli(&["DEL", "online-fans:42_slice2"]);
    let lost = scene.finding(1).await;
    assert_eq!(
        scene.finds(&scene.expected).await,
        [Finding::Unlisted, lost.clone()]
    );
    server.cli(&["DEL", "live:42"]);
    assert_eq!(
        scene.finds(&scene.expected).await,
        [Finding::Record, Finding::Unlisted, lost]
    );
    assert_eq!(
        store.keep_live(&scene.record, "").await.unwrap(),
        Standing::Rewritten
    );
    assert!(
        fans(&store, &scene.expected.slices[1].slice)
            .await
            .is_empty()
    );
}
