//! A pass takes the claims of dead gateways out of a slice, and brings its public sets in line with
//! the claims.

use rollcall::features::WholeStore;
use std::sync::Arc;

use rollcall::base::ids::{Group, UserId};
use rollcall::store::{
    ApplyRefusal, ApplyReply, Drift, Pass, PassCursor, PassPhase, SliceEntry, StoreError,
};

use super::former::redis;
use super::{
    Caller, at, claimed, fans, gateway, is_refused, look, members, on_each, passes, slice, sweep,
    try_look, user, users,
};
use crate::redis_server::RedisServer;

const FANS: &str = "online-fans:42";
const VIEWERS: &str = "{online-fans:42}:viewers";

on_each!(
    a_sweep_goes_in_pages_and_ends_with_the_entry,
    a_sweep_keeps_whom_others_hold,
    a_sweep_of_a_gateway_that_let_go_of_all_takes_its_entry,
    a_gateway_that_is_swept_is_dead_and_then_begins_anew,
    a_sweep_knows_only_the_dead_that_it_is_told_of,
    a_pass_changes_nothing_where_all_is_right,
);

async fn filled(store: &Arc<dyn WholeStore>, name: &str, from: usize, to: usize) -> Caller {
    let mut caller = Caller::new(store, name);
    caller.registers(&[]).await;
    for batch in users(from, to).chunks(1_000) {
        caller.joins(batch).await;
    }
    caller
}

async fn a_sweep_goes_in_pages_and_ends_with_the_entry(store: Arc<dyn WholeStore>) {
    let mut a = filled(&store, "a", 0, 2_500).await;
    let mut pass = Pass {
        dead: vec![(gateway("a"), 0)],
        only_claims: true,
        ..a.pass()
    };
    let (mut released, mut pages) = (0, 0);
    loop {
        let page = store.pass(&pass).await.unwrap().unwrap();
        assert!(page.released <= 700, "{page:?}");
        (released, pages) = (released + page.released, pages + 1);
        assert_eq!(
            (page.size.card, page.size.fans),
            (2_500 - released, 2_500 - released)
        );
        assert_eq!(page.drift, Drift::default());
        pass.from = page.next;
        let Some(next) = page.next else { break };
        assert_eq!(next.phase, PassPhase::Claims);
        // Half swept, the gateway still has its entry.
        let found = look(&store, &slice(), "other").await;
        assert_eq!(found.entries, [(gateway("a"), SliceEntry::Dead)]);
        let reply = a.call(a.entry, &users(7, 8), &[]).await;
        assert_eq!(reply, ApplyReply::Refused(ApplyRefusal::default()));
    }
    assert!(
        pages >= 4 && released == 2_500,
        "{released} in {pages} pages"
    );
    assert!(fans(&store, &slice()).await.is_empty());
    let found = look(&store, &slice(), "other").await;
    assert_eq!((found.size.card, found.entries), (0, vec![]));
    assert!(found.size.is_in_order() && !found.has_keys);
}

async fn a_sweep_keeps_whom_others_hold(store: Arc<dyn WholeStore>) {
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 10)).await;
    b.registers(&users(5, 15)).await;
    let swept = sweep(&store, &slice(), 1, &[("a", 0)]).await;
    assert_eq!((swept.released, swept.size.card), (10, 10));
    assert_eq!(fans(&store, &slice()).await, users(5, 15));
    assert_eq!(claimed(&store, &slice(), &b.name).await, users(5, 15));
    assert_eq!(b.moves_on().await.card, 10);
}

async fn a_sweep_of_a_gateway_that_let_go_of_all_takes_its_entry(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 2)).await;
    a.leaves(&users(0, 2)).await;
    let swept = sweep(&store, &slice(), 1, &[("a", 0)]).await;
    assert_eq!((swept.released, swept.size.card), (0, 0));
    assert_eq!(a.looks().await.entry, None);
    // The epoch is still the slice's own.
    assert!(is_refused(&a.call(a.entry, &[], &[]).await, None));
}

async fn a_gateway_that_is_swept_is_dead_and_then_begins_anew(store: Arc<dyn WholeStore>) {
    let mut a = filled(&store, "a", 0, 1_500).await;
    let first = Pass {
        dead: vec![(gateway("a"), 0)],
        ..a.pass()
    };
    let page = store.pass(&first).await.unwrap().unwrap();
    assert!(page.next.is_some());
    for follows in [a.entry, None] {
        let reply = a.call(follows, &users(0, 3), &[]).await;
        assert_eq!(reply, ApplyReply::Refused(ApplyRefusal::default()));
    }
    passes(&store, first).await;
    assert!(is_refused(&a.call(a.entry, &users(0, 3), &[]).await, None));
    assert_eq!(a.registers(&users(0, 3)).await.card, 3);
}

async fn a_sweep_knows_only_the_dead_that_it_is_told_of(store: Arc<dyn WholeStore>) {
    let mut a = Caller::new(&store, "a");
    a.registers(&users(0, 3)).await;
    let before = a.looks().await;
    let swept = sweep(&store, &slice(), 1, &[("b", 0), ("c", 0)]).await;
    assert_eq!((swept.released, swept.size), (0, before.size));
    assert_eq!(a.looks().await, before);
}

async fn a_pass_changes_nothing_where_all_is_right(store: Arc<dyn WholeStore>) {
    filled(&store, "a", 0, 2_500).await;
    let mut b = filled(&store, "b", 2_400, 2_600).await;
    b.are_no_fans(&users(2_500, 2_600)).await;
    let before = b.looks().await;
    let (mut pass, mut phases) = (b.pass(), vec![PassPhase::Claims]);
    loop {
        let page = store.pass(&pass).await.unwrap().unwrap();
        assert_eq!((page.released, page.drift), (0, Drift::default()));
        assert_eq!(page.size, before.size);
        pass.from = page.next;
        let Some(PassCursor { phase, .. }) = page.next else {
            break;
        };
        phases.push(phase);
    }
    assert!(phases.is_sorted() && phases.len() >= 12, "{phases:?}");
    phases.dedup();
    let all = [PassPhase::Claims, PassPhase::Members, PassPhase::Fans];
    assert_eq!(phases, all);
    assert_eq!(b.looks().await, before);
    assert_eq!(fans(&store, &slice()).await, users(0, 2_500));
    assert_eq!(members(&store, &slice(), Group::All).await, users(0, 2_600));
}

// ----------------------------------------------------------------- what other programs write

/// Makes a pass through the slice of one call after what another program wrote, which the sizes
/// show. Returns who was there and should not have been, and who was missing.
async fn heals(caller: &mut Caller) -> (u64, u64) {
    let size = caller.moves_on().await;
    assert!(size.differs && !size.rebuild, "{size:?}");
    let found = caller.looks().await;
    assert!(found.is_intact && found.size == size, "{found:?}");
    let passed = passes(&caller.store, caller.pass()).await.unwrap();
    assert!(passed.size.is_in_order(), "{passed:?}");
    assert_eq!(passed.size.arrived(), size.arrived(), "the figures stay");
    assert_eq!(passed.size.incarnation, size.incarnation);
    assert!(passed.size.version > size.version, "peers must hear of it");
    (passed.drift.stray, passed.drift.missing)
}

#[tokio::test]
async fn members_who_were_taken_out_or_put_in_by_hand_are_put_right_by_one_pass() {
    let (server, store) = redis().await;
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 10)).await;
    b.are_no_fans(&users(10, 20)).await;
    let is_right = async || {
        assert_eq!(fans(&store, &slice()).await, users(0, 10));
        assert_eq!(members(&store, &slice(), Group::All).await, users(0, 20));
    };
    for (commands, drift) in [
        (&["SREM viewers u000001", "SREM fans u000001"][..], (0, 2)),
        (&["SREM fans u000002"], (0, 1)),
        (&["SADD viewers stranger"], (1, 0)),
        (&["SADD fans stranger u000015"], (2, 0)),
        (&["SREM viewers u000019", "SADD fans stranger"], (1, 1)),
        (&["DEL viewers"], (0, 20)),
        (&["DEL viewers fans"], (0, 30)),
    ] {
        for command in commands {
            other_program(&server, command);
        }
        assert_eq!(heals(&mut b).await, drift, "{commands:?}");
        is_right().await;
    }
    assert_eq!(a.leaves(&users(0, 10)).await.card, 10);
}

/// Another program's command; `fans` and `viewers` stand for the keys.
fn other_program(server: &RedisServer, command: &str) {
    let words: Vec<&str> = command
        .split(' ')
        .map(|word| match word {
            "fans" => FANS,
            "viewers" => VIEWERS,
            word => word,
        })
        .collect();
    server.cli(&words);
}

#[tokio::test]
async fn many_strays_and_many_who_are_missing_are_put_right_page_by_page() {
    let (server, store) = redis().await;
    let mut a = filled(&store, "a", 0, 2_000).await;
    let strays: Vec<String> = (0..2_000).map(|n| format!("stray{n}")).collect();
    for some in strays.chunks(500) {
        let some: Vec<&str> = some.iter().map(String::as_str).collect();
        server.cli(&[&["SADD", FANS], some.as_slice()].concat());
        server.cli(&[&["SADD", VIEWERS], some.as_slice()].concat());
    }
    server.cli(&["SPOP", FANS, "1000"]);
    let (stray, missing) = heals(&mut a).await;
    assert!(
        stray + missing == 4_000 - 1_000 + 2 * missing,
        "{stray} {missing}"
    );
    assert_eq!(fans(&store, &slice()).await, users(0, 2_000));
    assert_eq!(members(&store, &slice(), Group::All).await, users(0, 2_000));
}

/// Nobody can tell which key was written if all sizes are right.
#[tokio::test]
async fn a_difference_that_no_size_shows_makes_the_slice_forget() {
    for commands in [
        ["SREM viewers u000001", "SADD viewers stranger"],
        ["SREM fans u000001", "SADD fans u000004"],
    ] {
        let (server, store) = redis().await;
        let mut a = Caller::new(&store, "a");
        a.registers(&users(0, 3)).await;
        let before = a.are_no_fans(&users(3, 6)).await;
        for command in commands {
            other_program(&server, command);
        }
        assert!(a.moves_on().await.is_in_order(), "the sizes are the same");
        let sets = async || {
            let all = members(&store, &slice(), Group::All).await;
            (all, fans(&store, &slice()).await)
        };
        let wrong = sets().await;
        let passed = passes(&store, a.pass()).await.unwrap();
        assert!(passed.size.rebuild, "{commands:?}");
        assert!(passed.size.incarnation > before.incarnation);
        assert_eq!(passed.size.card, 6);
        assert_eq!(sets().await, wrong, "and nobody is taken out for now");
        assert!(is_refused(&a.call(a.entry, &[], &[]).await, None));
    }
}

#[tokio::test]
async fn keys_of_another_type_are_replaced_by_a_pass_and_by_a_call() {
    for garbled in ["fans", "viewers", "who", "gateways", "fence"] {
        for by_call in [false, true] {
            let (server, store) = redis().await;
            let mut a = Caller::new(&store, "a");
            let before = a.registers(&users(0, 3)).await;
            let key = if garbled == "fans" {
                FANS.to_owned()
            } else {
                format!("{{online-fans:42}}:{garbled}")
            };
            server.cli(&["DEL", &key]);
            let command = if garbled == "fence" { "SADD" } else { "SET" };
            server.cli(&[command, &key, "text"]);
            let looked = try_look(&store, &slice(), "a").await;
            assert!(matches!(looked, Err(StoreError::Nonsense(_))), "{looked:?}");
            let is_public = matches!(garbled, "fans" | "viewers");
            if by_call && is_public {
                a.moves_on().await;
            } else if by_call {
                a.registers(&users(0, 3)).await;
            }
            let passed = passes(&store, a.pass()).await.unwrap();
            assert_eq!(passed.size.rebuild, !is_public, "{garbled}");
            assert_eq!(passed.size.incarnation == before.incarnation, is_public);
            if !is_public && !by_call {
                a.registers(&users(0, 3)).await;
            }
            let found = a.looks().await;
            // Without the fence, nobody knows how many there were.
            let card = if garbled == "fence" { 0 } else { 3 };
            assert_eq!(
                (found.size.card, found.is_intact),
                (card, true),
                "{garbled}"
            );
            assert_eq!(found.entry, Some(at(a.number)));
            assert_eq!(fans(&store, &slice()).await, users(0, 3), "{garbled}");
            let all: Vec<UserId> = members(&store, &slice(), Group::All).await;
            assert_eq!(all, users(0, 3), "{garbled}");
        }
    }
}

/// Somebody else's claim on a user in the place of a gateway's own.
#[tokio::test]
async fn claims_of_nobody_are_dropped() {
    let (server, store) = redis().await;
    let (mut a, mut b) = (Caller::new(&store, "a"), Caller::new(&store, "b"));
    a.registers(&users(0, 3)).await;
    b.registers(&users(0, 1)).await;
    let who = "{online-fans:42}:who";
    server.cli(&["HSET", who, user(0).as_str(), "1 1f 77f"]);
    server.cli(&["HSET", who, user(1).as_str(), "1 what 78f"]);
    let passed = passes(&store, a.pass()).await.unwrap();
    assert_eq!((passed.released, passed.size.card), (0, 2));
    assert_eq!(passed.size.leaves, 1, "nobody holds the second one");
    assert_eq!(fans(&store, &slice()).await, [user(0), user(2)]);
    assert_eq!(server.cli(&["HGET", who, user(0).as_str()]), "1 1f");
}
