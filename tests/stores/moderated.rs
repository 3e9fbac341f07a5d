//! Random histories of removals: bans, liftings, lost numbers, restorings, closes and openings, late calls of an older
//! epoch. The memory store and the Redis store must give the same answer at every step. Bans are endless, so no answer
//! hangs on the time.

use std::sync::Arc;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rollcall::ids::Epoch;
use rollcall::store::{
    ChangeKind, CloseLive, CloseReason, LiveRecord, LiveState, OpenLive, OpenReply, OpenedBy, Peaks, RemoveReply,
    RemoveUser, Standing, Store, TouchLive,
};

use crate::conformance::{LONG, live, memory, redis, user};
use crate::redis_server::RedisServer;

const CASES: u32 = 128;

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
    Touch {
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
            .prop_map(|(known, ahead)| Step::Touch { known, ahead }),
    ]
}

fn record_said(record: &LiveRecord) -> String {
    format!("{} {} {}", record.state.as_str(), record.epoch, record.removals)
}

/// The answer to a step, and how the live stands after it, without times.
async fn take(store: &Arc<dyn Store>, step: &Step) -> String {
    let id = live("42");
    let record = store.load_live(&id).await.unwrap();
    let present = record.as_ref().map_or(0, |record| record.epoch.0);
    let of = |behind: u64| Epoch(present.saturating_sub(behind));
    let said = match step {
        Step::Open => {
            let wish = OpenLive { live: id.clone(), streamer: user(9), slices: 1, by: OpenedBy::Service };
            match store.open_live(&wish).await.unwrap() {
                OpenReply::Opened(record) => format!("opened {}", record_said(&record)),
                OpenReply::AlreadyOpen(record) => format!("already {}", record_said(&record)),
                other => format!("{other:?}").split('(').next().unwrap().to_owned(),
            }
        }
        Step::BeginClose => {
            let peaks = Peaks::default();
            let end = CloseLive { live: id.clone(), epoch: of(0), reason: CloseReason::Requested, peaks };
            format!("{:?}", store.begin_close(&end).await.unwrap()).split('(').next().unwrap().to_owned()
        }
        Step::FinishClose => {
            let record = store.finish_close(&id, of(0)).await.unwrap();
            record.map_or_else(String::new, |record| record_said(&record))
        }
        Step::Remove { user: n, ban, behind } => {
            let wish = RemoveUser { live: id.clone(), epoch: of(*behind), user: user(*n), ban: ban.then_some(LONG) };
            match store.remove_user(&wish).await.unwrap() {
                RemoveReply::Done { number, until } => format!("done {number} {}", until.is_some()),
                other => format!("{other:?}"),
            }
        }
        Step::Lift { user: n, behind } => {
            format!("{:?}", store.lift_ban(&id, of(*behind), &user(*n)).await.unwrap())
        }
        Step::Restore { users, behind } => {
            let bans: Vec<_> = users.iter().map(|n| (user(*n), LONG)).collect();
            format!("{:?}", store.restore_bans(&id, of(*behind), &bans).await.unwrap())
        }
        Step::Since { number, behind } => changes(store, of(*behind), *number).await,
        Step::Touch { known, ahead } => {
            let Some(record) = record else { return "no record".to_owned() };
            let removals = record.removals.saturating_add_signed(*known);
            let epoch = Epoch(record.epoch.0 + ahead);
            let record = LiveRecord { removals, epoch, state: LiveState::Open, ..record };
            match store.touch_live(&TouchLive { record, streamer_heard: false, relist: false }).await.unwrap() {
                Standing::Open { removals, .. } => format!("open {removals}"),
                Standing::Rewritten => "rewritten".to_owned(),
                Standing::Over(record) => format!("over {}", record_said(&record)),
            }
        }
    };
    let mut bans: Vec<_> = store.bans_page(&id, None, 100).await.unwrap().into_iter().map(|ban| ban.user).collect();
    bans.sort();
    let record = store.load_live(&id).await.unwrap();
    let all = changes(store, Epoch(record.as_ref().map_or(0, |record| record.epoch.0)), 0).await;
    format!("{said}; {:?}; {all}; {bans:?}", record.as_ref().map(record_said))
}

async fn changes(store: &Arc<dyn Store>, epoch: Epoch, since: u64) -> String {
    let Some(read) = store.removals_since(&live("42"), epoch, since).await.unwrap() else {
        return "over".to_owned();
    };
    let word = |kind| match kind {
        ChangeKind::Removed(None) => "removed",
        ChangeKind::Removed(Some(_)) => "banned",
        ChangeKind::Lifted => "lifted",
    };
    let each = read.changes.iter().map(|change| format!("{} {} {}", change.number, change.user, word(change.kind)));
    format!("{} {:?}", read.last, each.collect::<Vec<_>>())
}

#[test]
fn both_stores_agree_on_random_removals() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (server, store) = runtime.block_on(async {
        let server = RedisServer::start().await;
        let store = redis(&server).await;
        (server, store)
    });
    let mut runner = TestRunner::new(Config { cases: CASES, failure_persistence: None, ..Config::default() });
    let done = runner.run(&prop::collection::vec(steps(), 1..40), |history| {
        runtime.block_on(async {
            server.cli(&["FLUSHALL"]);
            let model = memory();
            for (at, step) in history.iter().enumerate() {
                let (wanted, got) = (take(&model, step).await, take(&store, step).await);
                prop_assert_eq!(wanted, got, "after step {} of {:?}", at, history);
            }
            Ok(())
        })
    });
    done.unwrap_or_else(|failure| panic!("{failure}"));
}
