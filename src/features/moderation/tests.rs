//! What a gateway does with rules when the store fails, loses them, or drops what it had lifted.

use std::sync::Arc;
use std::time::Duration;

use super::keeper::RuleKeeper;
use super::store::{LiftRule, PutReply, PutRule, RULES_PAGE, RuleStore};
use crate::base::ids::UserId;
use crate::config::Config;
use crate::presence::conn::{Conn, Signals};
use crate::presence::rules::RuleName;
use crate::store::memory::states::StateErasure;
use crate::testing;
use crate::testing::{FaultyStore, parts_on};

fn user(id: &str) -> UserId {
    UserId::parse(id).unwrap()
}

fn ban(id: &str) -> RuleName {
    RuleName::Ban(user(id))
}

async fn make(store: &FaultyStore, name: RuleName) {
    let wish = PutRule {
        name,
        lasts: None,
        by: None,
        reason: String::new(),
        as_moderator: false,
    };
    let reply = store.put_rule(&wish).await.unwrap();
    assert!(matches!(reply, PutReply::Done { .. }));
}

async fn lift(store: &FaultyStore, name: RuleName) {
    let wish = LiftRule {
        name,
        as_moderator: false,
    };
    store.lift_rule(&wish).await.unwrap();
}

/// A gateway on the store, none of whose tasks runs.
fn keeper(store: &Arc<FaultyStore>) -> RuleKeeper {
    let parts = parts_on(&Config::default(), store.clone());
    let sessions = parts.app.sessions.clone();
    RuleKeeper::new(parts.app.core.clone(), store.clone(), sessions)
}

fn is_banned(keeper: &RuleKeeper, id: &str) -> bool {
    let now = keeper.core.clock.now();
    keeper.core.rules.ban(&user(id), now).is_some()
}

#[tokio::test]
async fn a_gateway_learns_of_each_change_and_writes_back_what_the_store_lost() {
    let store = Arc::new(FaultyStore::new());
    let empty = store.memory().back_up();
    let gateway = keeper(&store);
    gateway.look_and_carry_out().await;
    make(&store, ban("ann")).await;
    make(&store, ban("bob")).await;
    gateway.look_and_carry_out().await;
    assert!(is_banned(&gateway, "ann") && is_banned(&gateway, "bob"));
    lift(&store, ban("bob")).await;
    store.fails_once("rules_since", 0);
    gateway.look_and_carry_out().await;
    assert!(is_banned(&gateway, "bob"), "the store had no answer");
    gateway.look_and_carry_out().await;
    assert!(!is_banned(&gateway, "bob"));
    // The store comes back empty, and somebody makes a rule before the gateway looks.
    let old = store.memory().back_up();
    store.memory().restore(empty);
    make(&store, ban("max")).await;
    store.fails_once("restore_rules", 0);
    gateway.look_and_carry_out().await;
    assert!(is_banned(&gateway, "ann") && !is_banned(&gateway, "max"));
    gateway.look_and_carry_out().await;
    assert!(is_banned(&gateway, "ann") && is_banned(&gateway, "max"));
    let other = keeper(&store);
    other.look_and_carry_out().await;
    assert!(is_banned(&other, "ann") && !is_banned(&other, "bob"));
    // It comes back with older data.
    store.memory().restore(old);
    gateway.look_and_carry_out().await;
    other.look_and_carry_out().await;
    assert!(is_banned(&gateway, "max") && is_banned(&other, "max"));
}

#[tokio::test]
async fn a_loss_is_found_even_if_as_many_changes_were_made_since_as_were_lost() {
    let store = Arc::new(FaultyStore::new());
    let gateway = keeper(&store);
    make(&store, ban("ann")).await;
    gateway.look_and_carry_out().await;
    let old = store.memory().back_up();
    make(&store, ban("bob")).await;
    gateway.look_and_carry_out().await;
    store.memory().restore(old);
    make(&store, ban("max")).await;
    gateway.look_and_carry_out().await;
    assert!(is_banned(&gateway, "bob") && is_banned(&gateway, "max"));
    let other = keeper(&store);
    other.look_and_carry_out().await;
    assert!(is_banned(&other, "bob"), "it was given back");
    // What is over may be dropped: that is no loss.
    lift(&store, ban("max")).await;
    gateway.look_and_carry_out().await;
    gateway.look_and_carry_out().await;
    assert!(is_banned(&gateway, "ann") && !is_banned(&gateway, "max"));
}

#[tokio::test]
async fn more_rules_than_a_page_are_read_and_a_gateway_far_behind_reads_all() {
    let store = Arc::new(FaultyStore::new());
    for n in 0..RULES_PAGE + 5 {
        make(&store, ban(&format!("u{n}"))).await;
    }
    let gateway = keeper(&store);
    gateway.look_and_carry_out().await;
    assert_eq!(gateway.core.rules.total(), RULES_PAGE + 5);
    for n in 0..RULES_PAGE + 5 {
        make(&store, ban(&format!("v{n}"))).await;
    }
    gateway.look_and_carry_out().await;
    assert_eq!(gateway.core.rules.total(), 2 * RULES_PAGE + 10);
    // What an erasure takes away has no trace by which a gateway could learn of it.
    let ann = user("u7");
    let mut erasure = StateErasure {
        user: &ann,
        lives: Default::default(),
        closed: Vec::new(),
        forgotten: Vec::new(),
        step: Default::default(),
    };
    store.memory().states.erase(&mut erasure);
    gateway.look_and_carry_out().await;
    assert!(!is_banned(&gateway, "u7") && is_banned(&gateway, "u8"));
    assert_eq!(gateway.core.rules.total(), 2 * RULES_PAGE + 9);
}

#[tokio::test]
async fn sessions_of_banned_users_end_and_a_joins_seat_is_refused() {
    let store = Arc::new(FaultyStore::new());
    let parts = parts_on(&Config::default(), store.clone());
    let sessions = parts.app.sessions.clone();
    let gateway = RuleKeeper::new(parts.app.core.clone(), store.clone(), sessions.clone());
    gateway.look_and_carry_out().await;
    let room = testing::open_live(&sessions, "42").await;
    let conns = ["ann", "bob"].map(|id| {
        let conn = Arc::new(Conn::new(testing::viewer(id), gateway.core.clock.now()));
        sessions.reaper.admit(&conn);
        conn
    });
    let rate = sessions.limits.joins;
    let now = gateway.core.clock.now();
    room.join(&conns[0], rate, now, 0).unwrap();
    make(&store, ban("ann")).await;
    let streamer = user("s1");
    let by_streamer = RuleName::StreamerBan {
        streamer: streamer.clone(),
        user: user("bob"),
    };
    make(&store, by_streamer).await;
    make(
        &store,
        RuleName::Moderator {
            streamer,
            user: user("bob"),
        },
    )
    .await;
    gateway.look_and_carry_out().await;
    assert!(!conns[0].take(Signals::REMOVED).is_empty());
    assert!(
        conns[1].take(Signals::REMOVED).is_empty(),
        "from one streamer only"
    );
    assert!(!conns[1].take(Signals::YOU).is_empty());
    for conn in &conns {
        assert!(room.join(conn, rate, now, 0).is_err());
    }
}

#[tokio::test]
async fn a_ban_is_carried_out_even_if_the_changes_after_it_could_not_be_read() {
    let store = Arc::new(FaultyStore::new());
    let parts = parts_on(&Config::default(), store.clone());
    let sessions = parts.app.sessions.clone();
    let gateway = RuleKeeper::new(parts.app.core.clone(), store.clone(), sessions.clone());
    make(&store, ban("first")).await;
    gateway.look_and_carry_out().await;
    let conn = Arc::new(Conn::new(testing::viewer("u3"), gateway.core.clock.now()));
    sessions.reaper.admit(&conn);
    for n in 0..RULES_PAGE + 5 {
        make(&store, ban(&format!("u{n}"))).await;
    }
    store.fails_once("rules_since", 1);
    gateway.look_and_carry_out().await;
    assert!(is_banned(&gateway, "u3") && !conn.take(Signals::REMOVED).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_join_waits_for_a_look_when_the_last_one_is_old_and_the_store_answers() {
    let store = Arc::new(FaultyStore::new());
    let parts = parts_on(&Config::default(), store.clone());
    let sessions = parts.app.sessions.clone();
    let gateway = RuleKeeper::new(parts.app.core.clone(), store.clone(), sessions.clone());
    assert!(sessions.know_rules().await, "no task reads the rules");
    gateway.core.rules.expect();
    let known = tokio::join!(sessions.know_rules(), gateway.look_and_carry_out());
    assert!(known.0);
    store.breaks();
    tokio::time::advance(Duration::from_secs(60)).await;
    let began = gateway.core.clock.now();
    assert!(sessions.know_rules().await, "what is known decides");
    assert_eq!(gateway.core.clock.now(), began, "at once");
    store.heals();
    make(&store, ban("ann")).await;
    tokio::join!(sessions.know_rules(), gateway.look_and_carry_out());
    assert!(is_banned(&gateway, "ann"));
}
