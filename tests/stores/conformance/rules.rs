//! Rules of moderation: numbered changes, what a moderator must leave alone, what is restored, and
//! what an erasure takes away.

use rollcall::features::WholeStore;
use std::sync::Arc;
use std::time::Duration;

use rollcall::base::actor::Actor;
use rollcall::base::identity::Role;
use rollcall::features::moderation::store::{
    EndReply, LiftRule, PutReply, PutRule, RULES_PAGE, RulesPage, RulesPlace,
};
use rollcall::presence::rules::{RuleName, RuleTerms};

use super::{LONG, on_each, user};

on_each!(
    changes_are_numbered_and_read_from_a_number_on,
    a_rule_says_who_made_it_and_why,
    a_moderator_leaves_alone_what_others_made,
    what_is_over_is_dropped_and_can_be_made_again,
    a_store_without_rules_has_no_name_and_gets_one,
    what_is_restored_never_overrides_what_is_there,
    rules_of_an_older_state_get_another_name,
    an_erasure_takes_the_rules_of_a_user_and_the_name_from_others,
);

fn ban(n: usize) -> RuleName {
    RuleName::Ban(user(n))
}

fn by_streamer(n: usize) -> RuleName {
    RuleName::StreamerBan {
        streamer: user(9),
        user: user(n),
    }
}

fn bearer(role: Role, n: usize) -> Option<Actor> {
    Some(Actor::Bearer(role, user(n)))
}

fn wish(name: RuleName) -> PutRule {
    PutRule {
        name,
        lasts: None,
        by: None,
        reason: String::new(),
        as_moderator: false,
    }
}

async fn put(store: &Arc<dyn WholeStore>, wish: PutRule) -> (bool, RuleTerms) {
    match store.put_rule(&wish).await.unwrap() {
        PutReply::Done { is_new, terms } => (is_new, terms),
        PutReply::Kept => panic!("{wish:?} was refused"),
    }
}

async fn lift(store: &Arc<dyn WholeStore>, name: RuleName) -> bool {
    let wish = LiftRule {
        name,
        as_moderator: false,
    };
    store.lift_rule(&wish).await.unwrap() == EndReply::Done(true)
}

async fn since(store: &Arc<dyn WholeStore>, since: u64) -> RulesPage {
    store.rules_since(since, RULES_PAGE).await.unwrap()
}

/// The names of changed rules, with `-` before those that are lifted.
fn names(page: &RulesPage) -> Vec<String> {
    let changes = page.changes.iter();
    changes
        .map(|(name, says)| match says {
            Some(_) => name.clone(),
            None => format!("-{name}"),
        })
        .collect()
}

async fn changes_are_numbered_and_read_from_a_number_on(store: Arc<dyn WholeStore>) {
    assert!(put(&store, wish(ban(1))).await.0);
    let first = since(&store, 0).await;
    assert_eq!(names(&first), ["b u000001"]);
    assert_eq!(first.read_to, first.place.last);
    assert!(put(&store, wish(by_streamer(2))).await.0);
    assert!(!put(&store, wish(ban(1))).await.0, "it was there");
    assert!(lift(&store, by_streamer(2)).await);
    assert!(!lift(&store, by_streamer(3)).await);
    let later = since(&store, first.place.last).await;
    assert_eq!(
        names(&later),
        ["b u000001", "-s u000009 u000002", "-s u000009 u000003"]
    );
    assert_eq!(later.place.name, first.place.name);
    assert_eq!((later.floor, later.read_to), (0, later.place.last));
    let one = store.rules_since(first.place.last, 1).await.unwrap();
    assert_eq!(names(&one), ["b u000001"]);
    assert!(one.read_to < one.place.last);
    assert_eq!(names(&since(&store, one.read_to).await).len(), 2);
    let none = since(&store, later.place.last).await;
    assert!(none.changes.is_empty() && none.read_to == later.place.last);
}

async fn a_rule_says_who_made_it_and_why(store: Arc<dyn WholeStore>) {
    let rule = PutRule {
        lasts: Some(LONG),
        by: bearer(Role::Viewer, 7),
        reason: "much  noise: ä".to_owned(),
        ..wish(ban(1))
    };
    let (_, terms) = put(&store, rule.clone()).await;
    assert_eq!(terms.until, Some(terms.at + 3_600_000));
    let page = since(&store, 0).await;
    let says = page.changes[0].1.clone().unwrap();
    assert_eq!(RuleTerms::parse(&says), Some(terms.clone()));
    assert_eq!(
        (terms.by, terms.reason.as_deref()),
        (rule.by, Some("much  noise: ä"))
    );
    assert!(terms.at <= page.at);
    let later = PutRule {
        lasts: Some(Duration::from_secs(99)),
        ..wish(ban(1))
    };
    let (_, terms) = put(&store, later).await;
    assert_eq!((terms.by, terms.reason), (None, None));
    let says = since(&store, 0).await.changes[0].1.clone().unwrap();
    let read = RuleTerms::parse(&says).unwrap();
    assert_eq!(
        (read.until, read.by, read.reason),
        (terms.until, None, None)
    );
}

async fn a_moderator_leaves_alone_what_others_made(store: Arc<dyn WholeStore>) {
    let key = Some(Actor::Key("backend".into()));
    let theirs = [
        bearer(Role::Streamer, 9),
        bearer(Role::Service, 5),
        key,
        None,
    ];
    for by in theirs {
        put(
            &store,
            PutRule {
                by,
                ..wish(by_streamer(1))
            },
        )
        .await;
        let again = PutRule {
            by: bearer(Role::Viewer, 7),
            as_moderator: true,
            ..wish(by_streamer(1))
        };
        assert_eq!(store.put_rule(&again).await.unwrap(), PutReply::Kept);
        let lift = LiftRule {
            name: by_streamer(1),
            as_moderator: true,
        };
        assert_eq!(store.lift_rule(&lift).await.unwrap(), EndReply::Kept);
    }
    // A moderator may be a streamer elsewhere.
    for by in [bearer(Role::Viewer, 7), bearer(Role::Streamer, 8)] {
        put(
            &store,
            PutRule {
                by,
                ..wish(by_streamer(1))
            },
        )
        .await;
        let lift = LiftRule {
            name: by_streamer(1),
            as_moderator: true,
        };
        let lifted = store.lift_rule(&lift).await.unwrap();
        assert_eq!(lifted, EndReply::Done(true));
    }
}

async fn what_is_over_is_dropped_and_can_be_made_again(store: Arc<dyn WholeStore>) {
    let short = PutRule {
        lasts: Some(Duration::from_millis(30)),
        ..wish(ban(1))
    };
    put(&store, short).await;
    tokio::time::sleep(Duration::from_millis(60)).await;
    assert!(!lift(&store, ban(1)).await, "it is over");
    put(&store, wish(ban(2))).await;
    assert_eq!(names(&since(&store, 0).await), ["-b u000001", "b u000002"]);
    assert!(put(&store, wish(ban(1))).await.0);
}

async fn a_store_without_rules_has_no_name_and_gets_one(store: Arc<dyn WholeStore>) {
    let empty = since(&store, 0).await;
    assert_eq!((empty.place, empty.floor), (RulesPlace::default(), 0));
    assert!(empty.changes.is_empty() && empty.at > 1_600_000_000_000);
    lift(&store, ban(1)).await;
    assert!(!since(&store, 0).await.place.name.is_empty());
}

async fn what_is_restored_never_overrides_what_is_there(store: Arc<dyn WholeStore>) {
    put(&store, wish(ban(1))).await;
    lift(&store, ban(2)).await;
    let before = since(&store, 0).await;
    let known = RulesPlace {
        name: "another".to_owned(),
        last: before.place.last + 50,
    };
    let rules: Vec<(String, String)> = [1, 2, 3]
        .map(|n| (ban(n).to_string(), "0 5 - told".to_owned()))
        .into();
    for _ in 0..2 {
        store.restore_rules(&known, &rules).await.unwrap();
        let after = since(&store, 0).await;
        assert_eq!(after.place.name, before.place.name);
        assert_eq!(names(&after), ["b u000001", "-b u000002", "b u000003"]);
        assert_ne!(after.changes[0].1.as_deref(), Some("0 5 - told"));
        assert_eq!(after.changes[2].1.as_deref(), Some("0 5 - told"));
    }
}

async fn rules_of_an_older_state_get_another_name(store: Arc<dyn WholeStore>) {
    put(&store, wish(ban(1))).await;
    let old = since(&store, 0).await.place;
    let known = RulesPlace {
        name: old.name.clone(),
        last: old.last + 7,
    };
    let rules = [(ban(2).to_string(), "0 5 -".to_owned())];
    store.restore_rules(&known, &rules).await.unwrap();
    let new = since(&store, 0).await;
    assert!(new.place.name != old.name && new.place.last > known.last);
    assert_eq!(names(&new), ["b u000001", "b u000002"]);
}

async fn an_erasure_takes_the_rules_of_a_user_and_the_name_from_others(store: Arc<dyn WholeStore>) {
    let ours = [
        ban(1),
        by_streamer(1),
        RuleName::Revoked(user(1)),
        RuleName::Moderator {
            streamer: user(1),
            user: user(4),
        },
    ];
    for name in ours {
        put(&store, wish(name)).await;
    }
    let made = PutRule {
        by: bearer(Role::Viewer, 1),
        reason: "noise".to_owned(),
        ..wish(by_streamer(2))
    };
    put(&store, made).await;
    put(&store, wish(ban(12))).await;
    lift(
        &store,
        RuleName::Moderator {
            streamer: user(9),
            user: user(1),
        },
    )
    .await;
    let before = since(&store, 0).await;
    let mut place = String::new();
    loop {
        let step = store.erase_some(&user(1), &place).await.unwrap();
        match step.next {
            Some(next) => place = next,
            None => break,
        }
    }
    let after = since(&store, 0).await;
    let mut left = names(&after);
    left.sort();
    assert_eq!(left, ["b u000012", "s u000009 u000002"]);
    assert!(
        after.floor > before.place.last,
        "gateways read all rules again"
    );
    for (_, says) in &after.changes {
        assert!(!says.as_deref().unwrap_or_default().contains("u000001"));
    }
    let says = &after
        .changes
        .iter()
        .find(|(name, _)| name.starts_with('s'))
        .unwrap()
        .1;
    assert!(says.as_deref().unwrap().ends_with(" - noise"), "{says:?}");
}
