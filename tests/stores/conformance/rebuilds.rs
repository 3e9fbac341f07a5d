//! A slice forgets its claims if it is older than a gateway knows, or if somebody else wrote there.
//! Then gateways say again whom they hold: a rebuild. The public sets stay meanwhile.

use rollcall::features::WholeStore;
use std::sync::Arc;
use std::time::Duration;

use rollcall::base::ids::{Epoch, Group, SliceId, UserId};
use rollcall::store::{Apply, ApplyRefusal, ApplyReply, Fence, Pass, REBUILD, SliceSize};
use tokio::time::sleep;

use super::former::redis;
use super::slices::counted;
use super::{
    Caller, claims, fans, gateway, is_refused, live, members, on_each, pass, passes, slice, sweep,
    user, users,
};
use crate::redis_server::RedisServer;

const FENCE: &str = "{online-fans:42}:fence";

on_each!(
    a_slice_that_only_gateways_change_forgets_nothing,
    a_slice_that_is_older_than_a_gateway_knows_forgets,
    a_complaint_makes_the_slice_forget_once,
    a_slice_that_was_lost_goes_on_from_what_a_gateway_knows,
    nobody_leaves_in_a_rebuild_and_the_figures_stand_still,
    a_rebuild_goes_with_its_epoch,
    a_rebuild_ends_after_a_while_when_all_have_said_all,
);

async fn a_slice_that_only_gateways_change_forgets_nothing(store: Arc<dyn WholeStore>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    let first = a.registers(&users(0, 5)).await;
    let mut sizes = vec![
        first,
        b.registers(&users(3, 8)).await,
        a.leaves(&users(2, 4)).await,
        a.are_no_fans(&users(4, 5)).await,
        sweep(&store, &slice(), 1, &[("b", 0)]).await.size,
        a.says_bye().await,
    ];
    // Each gateway knows what it was told last.
    for name in ["c", "d"] {
        let mut caller = Caller::new(&store, name);
        let call = Apply {
            known: sizes[sizes.len() - 1],
            ..caller.next(None, &users(0, 5), &[])
        };
        sizes.push(caller.makes(&call).await);
        let known = sizes[sizes.len() - 1];
        let pass = Pass {
            known,
            ..caller.pass()
        };
        sizes.push(passes(&store, pass).await.unwrap().size);
    }
    for size in sizes {
        assert!(size.is_in_order() && size.incarnation == first.incarnation);
    }
}

/// Gateways that know of writes that the slice lacks, each in its own way.
fn newer_than(size: SliceSize) -> [SliceSize; 3] {
    [
        SliceSize {
            version: size.version + 1_000_000_000,
            ..size
        },
        SliceSize {
            card: size.card + 1,
            ..size
        },
        SliceSize {
            card: size.card - 1,
            leaves: size.leaves + 1,
            ..size
        },
    ]
}

async fn a_slice_that_is_older_than_a_gateway_knows_forgets(store: Arc<dyn WholeStore>) {
    for by_call in [true, false] {
        for case in 0..3 {
            let slice = SliceId::of_live(live(&format!("L{case}{by_call}")), 1, 1);
            let [mut a, mut b] =
                ["a", "b"].map(|name| Caller::new(&store, name).in_slice(slice.clone()));
            let before = a.registers(&users(0, 5)).await;
            let known = newer_than(before)[case];
            let size = if by_call {
                let call = Apply {
                    known,
                    ..b.next(None, &users(4, 6), &[])
                };
                b.makes(&call).await
            } else {
                let pass = Pass { known, ..b.pass() };
                passes(&store, pass).await.unwrap().size
            };
            assert!(size.rebuild && size.incarnation > known.version, "{size:?}");
            let joins = known.arrived().joins.max(5);
            assert_eq!(counted(size), (joins, known.leaves, joins - known.leaves));
            // The claims are gone, those of the other gateway too; the public sets stay.
            let said = claims(&store, &slice).await;
            assert_eq!(said.len(), if by_call { 2 } else { 0 });
            let there = if by_call { 6 } else { 5 };
            assert_eq!(fans(&store, &slice).await, users(0, there));
            let size = a.looks().await.size;
            let refusal = ApplyRefusal {
                entry: None,
                size: Some(size),
            };
            let reply = a.call(a.entry, &users(9, 10), &[]).await;
            assert_eq!(reply, ApplyReply::Refused(refusal));
            // Who knows no more than that changes nothing.
            let call = Apply {
                known: size,
                ..a.next(None, &users(0, 5), &[])
            };
            assert_eq!(a.makes(&call).await.incarnation, size.incarnation);
        }
    }
}

async fn a_complaint_makes_the_slice_forget_once(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a");
    let before = a.registers(&users(0, 5)).await;
    let complain = async |wrong| {
        let pass = Pass {
            wrong: Some(wrong),
            ..pass(&slice(), 1)
        };
        passes(&store, pass).await.unwrap().size
    };
    assert_eq!(complain(before.incarnation + 1).await, before);
    let size = complain(before.incarnation).await;
    assert!(size.rebuild && size.incarnation > before.incarnation);
    assert!(is_refused(&a.call(a.entry, &[], &[]).await, None));
    a.registers(&users(0, 5)).await;
    // Another gateway found the same.
    assert_eq!(
        complain(before.incarnation).await.incarnation,
        size.incarnation
    );
    assert_eq!(claims(&store, &slice()).await.len(), 5);
}

async fn a_slice_that_was_lost_goes_on_from_what_a_gateway_knows(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a");
    // As if the store had lost a slice with ten members, of whom three are told again first.
    let known = SliceSize {
        card: 10,
        fans: 10,
        leaves: 4,
        version: 1_000,
        ..SliceSize::default()
    };
    let call = Apply {
        known,
        ..a.next(None, &users(0, 3), &[])
    };
    let size = a.makes(&call).await;
    assert_eq!((counted(size), size.rebuild), ((14, 4, 10), true));
    assert_eq!(size.fans, 10, "the figures stand still");
    assert_eq!(fans(&store, &slice()).await, users(0, 3));
    let size = a.joins(&users(3, 12)).await;
    assert_eq!(counted(size), (14, 4, 10), "the rebuild is not over");
    // A gateway without users there makes no call, but passes.
    let lost = SliceId::of_live(live("lost"), 1, 1);
    let pass = Pass {
        known,
        ..pass(&lost, 1)
    };
    let size = passes(&store, pass).await.unwrap().size;
    assert_eq!((counted(size), size.rebuild), ((14, 4, 10), true));
}

async fn nobody_leaves_in_a_rebuild_and_the_figures_stand_still(store: Arc<dyn WholeStore>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 3)).await;
    let before = b.registers(&users(3, 6)).await;
    let forgets = Pass {
        wrong: Some(before.incarnation),
        ..a.pass()
    };
    passes(&store, forgets).await;
    // The first one is gone since, another one has come; the next is no fan any more.
    a.registers(&users(1, 3)).await;
    a.joins(&users(7, 8)).await;
    let size = a.are_no_fans(&users(1, 2)).await;
    assert_eq!((counted(size), size.fans), ((6, 0, 6), 6));
    let there = [users(0, 6), users(7, 8)].concat();
    let is_there = async || {
        assert_eq!(members(&store, &slice(), Group::All).await, there);
        assert_eq!(fans(&store, &slice()).await, there);
    };
    is_there().await;
    a.leaves(&users(2, 3)).await;
    // A pass takes nobody out either, and ends with the claims; nor does a sweep.
    let passed = passes(&store, a.pass()).await.unwrap();
    assert_eq!((passed.drift.stray, passed.size.rebuild), (0, true));
    b.registers(&users(3, 6)).await;
    let swept = sweep(&store, &slice(), 1, &[("b", 0)]).await;
    assert_eq!((swept.released, counted(swept.size)), (3, (6, 0, 6)));
    is_there().await;
    let said: Vec<UserId> = claims(&store, &slice())
        .await
        .into_iter()
        .map(|claimed| claimed.user)
        .collect();
    assert_eq!(said, [user(1), user(7)]);
}

async fn a_rebuild_goes_with_its_epoch(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a");
    let call = Apply {
        known: SliceSize {
            version: 1,
            ..SliceSize::default()
        },
        ..a.next(None, &users(0, 5), &[])
    };
    assert!(a.makes(&call).await.rebuild, "what was there is lost");
    store.close_slice(&slice(), Epoch(1)).await.unwrap();
    let found = a.looks().await;
    assert_eq!(found.fence, Some(Fence::Closed(Epoch(1))));
    assert!(found.size.is_in_order());
    let mut next = Caller::new(&store, "a").in_epoch(2);
    assert!(!next.registers(&users(0, 5)).await.rebuild);
}

/// Puts a slice of a live into a rebuild, in which three of ten are said again.
async fn rebuilding(store: &Arc<dyn WholeStore>, name: &str) -> Caller {
    let slice = SliceId::of_live(live(name), 1, 1);
    let mut a = Caller::new(store, "a").in_slice(slice);
    let size = a.registers(&users(0, 10)).await;
    let forgets = Pass {
        wrong: Some(size.incarnation),
        ..a.pass()
    };
    assert!(passes(store, forgets).await.unwrap().size.rebuild);
    assert!(a.registers(&users(0, 3)).await.rebuild);
    a
}

async fn a_rebuild_ends_after_a_while_when_all_have_said_all(store: Arc<dyn WholeStore>) {
    let mut complete = rebuilding(&store, "complete").await;
    let mut with_more = rebuilding(&store, "more").await;
    with_more.says_some(&[]).await;
    let mut wrong = rebuilding(&store, "wrong").await;
    let incarnation = wrong.looks().await.size.incarnation;
    let complaint = Pass {
        wrong: Some(incarnation),
        ..wrong.pass()
    };
    let noted = passes(&store, complaint).await.unwrap().size;
    assert_eq!(noted.incarnation, incarnation, "one rebuild at a time");
    let mut nobody = rebuilding(&store, "nobody").await;
    nobody.leaves(&users(0, 3)).await;
    nobody.says_bye().await;
    let with_dead = rebuilding(&store, "dead").await;
    let mut grown = rebuilding(&store, "grown").await;
    grown.joins(&users(3, 20)).await;
    for caller in [&mut complete, &mut grown] {
        assert!(caller.moves_on().await.rebuild, "it is too early");
        let passed = passes(&store, caller.pass()).await.unwrap();
        assert!(passed.size.rebuild, "it is too early");
    }
    sleep(REBUILD + Duration::from_millis(50)).await;

    // Who was not said again has left.
    let size = complete.moves_on().await;
    assert_eq!((counted(size), size.rebuild), ((10, 7, 3), false));
    assert!(size.differs, "they are still in the public sets");
    let passed = passes(&store, complete.pass()).await.unwrap();
    assert_eq!((passed.drift.stray, passed.size.is_in_order()), (14, true));
    assert_eq!(fans(&store, &complete.slice).await, users(0, 3));
    assert_eq!(passed.size.leaves, 7, "they are counted once");
    // More are there than were known.
    let size = grown.moves_on().await;
    assert_eq!((counted(size), size.is_in_order()), ((20, 0, 20), true));

    assert!(passes(&store, with_more.pass()).await.unwrap().size.rebuild);
    assert!(
        with_more.joins(&users(3, 5)).await.rebuild,
        "not before that call"
    );
    assert_eq!(counted(with_more.moves_on().await), (10, 5, 5));

    let passed = passes(&store, wrong.pass()).await.unwrap();
    assert!(passed.size.rebuild && passed.size.incarnation > incarnation);
    assert!(is_refused(&wrong.call(wrong.entry, &[], &[]).await, None));

    // One gateway ends the rebuild of a slice in which nobody is.
    let passed = passes(&store, nobody.pass()).await.unwrap();
    assert_eq!(counted(passed.size), (10, 10, 0));
    assert_eq!((passed.drift.stray, passed.size.is_in_order()), (20, true));
    assert!(members(&store, &nobody.slice, Group::All).await.is_empty());

    // The sweep of the last gateway ends it, too.
    let dead = Pass {
        dead: vec![(gateway("a"), 0)],
        ..with_dead.pass()
    };
    let first = passes(&store, dead.clone()).await.unwrap();
    assert_eq!((first.released, counted(first.size)), (3, (10, 10, 0)));
    assert!(first.size.is_in_order(), "{first:?}");
    assert_eq!(with_dead.looks().await.entry, None);
}

// ----------------------------------------------------------------- what other programs write

/// A slice of two gateways, of three users each.
async fn written_by_others() -> (RedisServer, Arc<dyn WholeStore>, Caller, Caller) {
    let (server, store) = redis().await;
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 3)).await;
    b.registers(&users(2, 5)).await;
    (server, store, a, b)
}

#[tokio::test]
async fn what_another_program_writes_beside_the_public_sets_makes_the_slice_forget() {
    for command in [
        "HDEL {online-fans:42}:who u000001",
        "HSET {online-fans:42}:who stranger 1_1f",
        "DEL {online-fans:42}:who",
        "HDEL {online-fans:42}:gateways a",
        "HSET {online-fans:42}:gateways stranger 9:1",
        "DEL {online-fans:42}:gateways",
        "DEL {online-fans:42}:fence",
        "SET {online-fans:42}:fence what",
        // As the former version wrote it.
        "SET {online-fans:42}:fence open:1:1795309809000000:3-0:3",
    ] {
        let (server, store, mut a, mut b) = written_by_others().await;
        let before = a.looks().await.size;
        let words: Vec<String> = command
            .split(' ')
            .map(|word| word.replace('_', " "))
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        server.cli(&words);
        let is_lost = command.contains(":fence");
        // The gateway knows what it was told last.
        let known = Pass {
            known: before,
            ..a.pass()
        };
        let size = passes(&store, known).await.unwrap().size;
        assert!(
            size.rebuild && size.incarnation > before.incarnation,
            "{command}"
        );
        assert_eq!(counted(size), (5, 0, 5), "{command}");
        assert!(claims(&store, &slice()).await.is_empty(), "{command}");
        assert_eq!(fans(&store, &slice()).await, users(0, 5), "{command}");
        // Once more in the rebuild, it is only noted: the slice forgets again at its end.
        a.registers(&users(0, 3)).await;
        server.cli(&words);
        let size = if is_lost {
            b.registers(&users(2, 5)).await
        } else {
            passes(&store, b.pass()).await.unwrap().size
        };
        assert!(size.rebuild, "{command}");
        if !is_lost {
            assert_eq!(server.cli(&["GET", FENCE]).split(':').nth(8), Some("-1"));
        }
        assert_eq!(fans(&store, &slice()).await, users(0, 5), "{command}");
        assert!(a.looks().await.size.rebuild);
    }
}

#[tokio::test]
async fn a_call_finds_what_another_program_wrote_before_it_does_anything() {
    let (server, store, mut a, mut b) = written_by_others().await;
    server.cli(&["HDEL", "{online-fans:42}:who", user(1).as_str()]);
    assert!(is_refused(&b.call(b.entry, &[], &users(2, 5)).await, None));
    assert_eq!(fans(&store, &slice()).await, users(0, 5), "nobody has left");
    // The refused call has written that the slice forgot.
    let found = a.looks().await;
    assert!(found.size.rebuild && found.is_intact);
    a.registers(&users(0, 3)).await;
    assert_eq!(b.registers(&users(2, 5)).await.card, 5);
}

#[tokio::test]
async fn a_call_of_a_gateway_that_knows_nothing_keeps_the_public_sets_if_the_fence_is_lost() {
    let (server, store, mut a, _) = written_by_others().await;
    server.cli(&["DEL", FENCE]);
    assert!(is_refused(&a.call(a.entry, &[], &[]).await, None));
    let size = a.registers(&users(0, 3)).await;
    assert_eq!(
        (size.rebuild, size.card),
        (true, 0),
        "nobody knows how many"
    );
    assert_eq!(fans(&store, &slice()).await, users(0, 5));
}

#[tokio::test]
async fn a_clock_that_goes_back_makes_no_rebuild_longer() {
    let (server, store, mut a, _) = written_by_others().await;
    server.cli(&["DEL", "{online-fans:42}:who"]);
    passes(&store, a.pass()).await;
    a.registers(&users(0, 3)).await;
    let set_since = |since: &str| {
        let fence = server.cli(&["GET", FENCE]);
        let (rest, _) = fence.trim().rsplit_once(':').unwrap();
        server.cli(&["SET", FENCE, &format!("{rest}:{since}")]);
    };
    let since = || {
        let fence = server.cli(&["GET", FENCE]);
        fence.trim().rsplit(':').next().unwrap().parse::<u64>()
    };
    let now = server.cli(&["TIME"]);
    let now = now.lines().next().unwrap().parse::<u64>().unwrap() * 1_000;
    set_since(&(now + 31_536_000_000).to_string());
    let looks = [
        a.moves_on().await,
        passes(&store, a.pass()).await.unwrap().size,
    ];
    assert!(looks.iter().all(|size| size.rebuild));
    assert!(since().unwrap() < now + 60_000, "{:?}", since());
    set_since(&(now - 60_000).to_string());
    assert!(!a.moves_on().await.rebuild, "it is long over");
}
