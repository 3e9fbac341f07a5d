//! Histories of removals: bans, liftings, lost numbers, restorings, closes and openings, late calls
//! of an older epoch. The memory store and the Redis store must give the same answer at every step.
//! Bans are endless, so no answer hangs on the time.

use rollcall::features::WholeStore;
use std::sync::Arc;

use proptest::prelude::*;
use rollcall::base::ids::Epoch;
use rollcall::store::{ChangeKind, LiveRecord, LiveState, OpenReply, RecordStanding, RemoveReply};

use super::agree_on;
use crate::conformance::{LONG, end, finish_close, lifting, live, memory, removal, user, wish};

#[derive(Debug, Clone)]
enum Step {
    Open,
    BeginClose,
    FinishClose,
    Remove {
        user: usize,
        ban: bool,
        behind: u64,
    },
    Lift {
        user: usize,
        behind: u64,
    },
    Restore {
        users: Vec<usize>,
        behind: u64,
    },
    Since {
        number: u64,
        behind: u64,
    },
    /// A gateway knows of so many more, or fewer, removals than there are.
    Keep {
        known: i64,
        ahead: u64,
    },
}

fn steps() -> impl Strategy<Value = Step> {
    let behind = || prop_oneof![8 => Just(0_u64), 1 => Just(1)];
    let users = prop::collection::vec(0..6_usize, 1..4);
    prop_oneof![
        2 => Just(Step::Open),
        1 => Just(Step::BeginClose),
        1 => Just(Step::FinishClose),
        8 => (0..6_usize, any::<bool>(), behind()).prop_map(|(user, ban, behind)| Step::Remove { user, ban, behind }),
        4 => (0..6_usize, behind()).prop_map(|(user, behind)| Step::Lift { user, behind }),
        2 => (users, behind()).prop_map(|(users, behind)| Step::Restore { users, behind }),
        3 => (0..12_u64, behind()).prop_map(|(number, behind)| Step::Since { number, behind }),
        2 => (-3..3_i64, prop_oneof![6 => Just(0_u64), 1 => Just(1)])
            .prop_map(|(known, ahead)| Step::Keep { known, ahead }),
    ]
}

/// A record without its times. An epoch follows the time too, so it is not told.
fn record_said(record: &LiveRecord) -> String {
    format!("{} {}", record.state.as_str(), record.removals)
}

/// The answer to a step, and how the live stands after it, without times.
async fn take(store: &Arc<dyn WholeStore>, step: &Step) -> String {
    let id = live("42");
    let record = store.load_live(&id).await.unwrap();
    let present = record.as_ref().map_or(0, |record| record.epoch.0);
    let of = |behind: u64| Epoch(present.saturating_sub(behind));
    let said = match step {
        Step::Open => match store.open_live(&wish("42")).await.unwrap() {
            OpenReply::Opened(record) => format!("opened {}", record_said(&record)),
            OpenReply::AlreadyOpen(record) => format!("already {}", record_said(&record)),
            other => format!("{other:?}").split('(').next().unwrap().to_owned(),
        },
        Step::BeginClose => match &record {
            None => "no record".to_owned(),
            Some(record) => {
                let reply = store.begin_close(&end(record)).await.unwrap();
                format!("{reply:?}").split('(').next().unwrap().to_owned()
            }
        },
        Step::FinishClose => {
            let record = finish_close(store, &id, of(0), LONG).await.unwrap();
            record.map_or_else(String::new, |record| record_said(&record))
        }
        Step::Remove {
            user: n,
            ban,
            behind,
        } => {
            let (epoch, ban) = (of(*behind), ban.then_some(LONG));
            let wish = removal(epoch, *n, ban);
            match store.remove_user(&wish).await.unwrap() {
                RemoveReply::Done { number, until, .. } => {
                    format!("done {number} {}", until.is_some())
                }
                other => format!("{other:?}"),
            }
        }
        Step::Lift { user: n, behind } => {
            let wish = lifting(of(*behind), *n);
            format!("{:?}", store.lift_ban(&wish).await.unwrap())
        }
        Step::Restore { users, behind } => {
            let bans: Vec<_> = users.iter().map(|n| (user(*n), LONG)).collect();
            format!(
                "{:?}",
                store.restore_bans(&id, of(*behind), &bans).await.unwrap()
            )
        }
        Step::Since { number, behind } => changes(store, of(*behind), *number).await,
        Step::Keep { known, ahead } => {
            let Some(record) = record else {
                return "no record".to_owned();
            };
            let removals = record.removals.saturating_add_signed(*known);
            let epoch = Epoch(record.epoch.0 + ahead);
            let record = LiveRecord {
                removals,
                epoch,
                state: LiveState::Open,
                ..record
            };
            match store.keep_live(&record, "").await.unwrap() {
                RecordStanding::Open { removals, .. } => format!("open {removals}"),
                RecordStanding::Rewritten => "rewritten".to_owned(),
                RecordStanding::Over(record) => format!("over {}", record_said(&record)),
            }
        }
    };
    let mut bans: Vec<_> = store
        .bans_page(&id, None, 100)
        .await
        .unwrap()
        .into_iter()
        .map(|ban| ban.user)
        .collect();
    bans.sort();
    let record = store.load_live(&id).await.unwrap();
    let all = changes(
        store,
        Epoch(record.as_ref().map_or(0, |record| record.epoch.0)),
        0,
    )
    .await;
    format!(
        "{said}; {:?}; {all}; {bans:?}",
        record.as_ref().map(record_said)
    )
}

async fn changes(store: &Arc<dyn WholeStore>, epoch: Epoch, since: u64) -> String {
    let Some(read) = store
        .removals_since(&live("42"), epoch, since)
        .await
        .unwrap()
    else {
        return "over".to_owned();
    };
    let word = |kind| match kind {
        ChangeKind::Removed(None) => "removed",
        ChangeKind::Removed(Some(_)) => "banned",
        ChangeKind::Lifted => "lifted",
    };
    let each = read
        .changes
        .iter()
        .map(|change| format!("{} {} {}", change.number, change.user, word(change.kind)));
    format!("{} {:?}", read.last, each.collect::<Vec<_>>())
}

#[test]
fn both_stores_agree_on_random_removals() {
    agree_on(
        &prop::collection::vec(steps(), 1..40),
        &async |history, redis| {
            redis.empty();
            let model = memory();
            for (at, step) in history.iter().enumerate() {
                let (wanted, got) = (take(&model, step).await, take(&redis.store, step).await);
                prop_assert_eq!(wanted, got, "after step {} of {:?}", at, history);
            }
            Ok(())
        },
    );
}
