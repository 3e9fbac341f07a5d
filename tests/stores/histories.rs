//! Random histories: three gateways, two epochs and more, late and repeated calls, sweeps, closes, lost data. The memory
//! store, the Redis store and a naive model written here on its own must give the same answer at every step, and hold
//! the same members at the end. Leases are either endless or over at once, so no answer hangs on the time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use rollcall::ids::{Epoch, UserId};
use rollcall::store::{Apply, ApplyReply, Entry, Store};

use crate::conformance::{LONG, fans, gateway, held, memory, redis, slice, user};
use crate::redis_server::RedisServer;

const GATEWAYS: [&str; 3] = ["a", "b", "c"];
const CASES: u32 = 128;

#[derive(Debug, Clone)]
enum Step {
    /// A gateway's next call, in the epoch that many below the current one.
    Call {
        gateway: usize,
        behind: u64,
        entry: Entry,
        joins: BTreeSet<usize>,
        leaves: BTreeSet<usize>,
    },
    /// An earlier call arrives again, or for the first time.
    Late {
        which: prop::sample::Index,
    },
    /// A call is numbered and sent, but arrives only as a `Late` one.
    Delayed {
        gateway: usize,
        entry: Entry,
        joins: BTreeSet<usize>,
    },
    Sweep {
        gateway: usize,
        run_out: bool,
    },
    Close {
        behind: u64,
    },
    /// The live opens again.
    Reopen,
    View {
        run_out: bool,
    },
    /// Redis comes back empty.
    LoseData,
}

fn entries() -> impl Strategy<Value = Entry> {
    prop_oneof![3 => Just(Entry::Keep), 3 => Just(Entry::Register), 1 => Just(Entry::Release)]
}

fn some_users() -> impl Strategy<Value = BTreeSet<usize>> {
    prop::collection::btree_set(0..6_usize, 0..4)
}

fn steps() -> impl Strategy<Value = Step> {
    let behind = || prop_oneof![8 => Just(0_u64), 1 => Just(1)];
    let call = (0..3_usize, behind(), entries(), some_users(), some_users());
    let call = call.prop_map(|(gateway, behind, entry, joins, leaves)| {
        let leaves = &leaves - &joins;
        Step::Call { gateway, behind, entry, joins, leaves }
    });
    let delayed = (0..3_usize, entries(), some_users());
    prop_oneof![
        12 => call,
        2 => any::<prop::sample::Index>().prop_map(|which| Step::Late { which }),
        2 => delayed.prop_map(|(gateway, entry, joins)| Step::Delayed { gateway, entry, joins }),
        2 => (0..3_usize, any::<bool>()).prop_map(|(gateway, run_out)| Step::Sweep { gateway, run_out }),
        1 => behind().prop_map(|behind| Step::Close { behind }),
        1 => Just(Step::Reopen),
        2 => any::<bool>().prop_map(|run_out| Step::View { run_out }),
        1 => Just(Step::LoseData),
    ]
}

/// What an answer says, without its time.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    Done { card: usize, held: usize, silent: Vec<String> },
    Refused(ApplyReply),
    Swept { released: usize, done: bool, card: usize },
    Nothing,
}

fn said(reply: ApplyReply) -> Said {
    match reply {
        ApplyReply::Done(view) => {
            let mut silent: Vec<String> = view.silent.iter().map(|silent| silent.gateway.to_string()).collect();
            silent.sort();
            Said::Done { card: view.card as usize, held: view.held as usize, silent }
        }
        refused => Said::Refused(refused),
    }
}

/// The naive model: who holds whom, nothing clever. The slice is the union, computed each time.
#[derive(Debug, Default)]
struct Model {
    fence: Option<(u64, &'static str)>,
    entries: BTreeMap<String, u64>,
    held: BTreeMap<String, BTreeSet<UserId>>,
}

impl Model {
    fn union(&self) -> BTreeSet<UserId> {
        self.held.values().flatten().cloned().collect()
    }

    fn apply(&mut self, call: &Apply) -> Said {
        let me = call.gateway.to_string();
        let epoch = call.epoch.0;
        let (fenced, phase) = self.fence.unwrap_or((0, "none"));
        if fenced > epoch {
            return Said::Refused(ApplyReply::Newer(Epoch(fenced)));
        }
        if fenced == epoch && phase == "closed" {
            return Said::Refused(ApplyReply::Closed);
        }
        let known = if fenced == epoch { self.entries.get(&me).copied() } else { None };
        if known.is_some_and(|last| last >= call.number) {
            return Said::Refused(ApplyReply::Stale);
        }
        if known.is_none() && call.entry != Entry::Register {
            return Said::Refused(ApplyReply::Unknown);
        }
        if fenced < epoch {
            *self = Self { fence: Some((epoch, "open")), ..Self::default() };
        }
        self.entries.insert(me.clone(), call.number);
        let mine = self.held.entry(me.clone()).or_default();
        mine.extend(call.joins.iter().cloned());
        mine.retain(|user| !call.leaves.contains(user));
        let held = mine.len();
        if call.entry == Entry::Release && held == 0 {
            self.entries.remove(&me);
        }
        let quiet = call.joins.is_empty() && call.leaves.is_empty() && call.lease == Duration::ZERO;
        let others = || self.entries.keys().filter(|name| **name != me).cloned().collect();
        Said::Done { card: self.union().len(), held, silent: if quiet { others() } else { Vec::new() } }
    }

    fn sweep(&mut self, name: &str, lease: Duration) -> Said {
        if lease != Duration::ZERO && self.entries.contains_key(name) {
            return Said::Swept { released: 0, done: true, card: self.union().len() };
        }
        self.entries.remove(name);
        let released = self.held.remove(name).map_or(0, |held| held.len());
        Said::Swept { released, done: true, card: self.union().len() }
    }

    fn close(&mut self, epoch: u64) -> Said {
        if self.fence.is_none_or(|(fenced, _)| fenced <= epoch) {
            *self = Self { fence: Some((epoch, "closed")), ..Self::default() };
        }
        Said::Nothing
    }

    fn view(&self, lease: Duration) -> Said {
        let silent = if lease == Duration::ZERO { self.entries.keys().cloned().collect() } else { Vec::new() };
        Said::Done { card: self.union().len(), held: 0, silent }
    }
}

/// Whose turn it is, and what has been sent so far.
#[derive(Default)]
struct Sent {
    epoch: u64,
    numbers: [u64; 3],
    calls: Vec<Apply>,
}

impl Sent {
    fn call(&mut self, from: usize, behind: u64, entry: Entry, users: [&BTreeSet<usize>; 2]) -> Apply {
        self.numbers[from] += 1;
        let [joins, leaves] = users.map(|users| users.iter().map(|n| user(*n)).collect());
        let call = Apply {
            slice: slice(),
            epoch: Epoch(self.epoch.saturating_sub(behind)),
            gateway: gateway(GATEWAYS[from]),
            number: self.numbers[from],
            entry,
            joins,
            leaves,
            // Every other call asks who is silent.
            lease: if self.numbers[from].is_multiple_of(2) { Duration::ZERO } else { LONG },
        };
        self.calls.push(call.clone());
        call
    }
}

enum Ask {
    Apply(Apply),
    Sweep(usize, Duration),
    Close(u64),
    View(Duration),
}

impl Ask {
    async fn of(&self, store: &Arc<dyn Store>) -> Said {
        match self {
            Self::Apply(call) => said(store.apply(call).await.unwrap()),
            Self::Sweep(who, lease) => {
                let swept = store.sweep(&slice(), &gateway(GATEWAYS[*who]), *lease).await.unwrap();
                Said::Swept { released: swept.released as usize, done: swept.done, card: swept.card as usize }
            }
            Self::Close(epoch) => {
                store.close_slice(&slice(), Epoch(*epoch)).await.unwrap();
                Said::Nothing
            }
            Self::View(lease) => said(ApplyReply::Done(store.view_slice(&slice(), *lease).await.unwrap())),
        }
    }

    fn of_model(&self, model: &mut Model) -> Said {
        match self {
            Self::Apply(call) => model.apply(call),
            Self::Sweep(who, lease) => model.sweep(GATEWAYS[*who], *lease),
            Self::Close(epoch) => model.close(*epoch),
            Self::View(lease) => model.view(*lease),
        }
    }
}

async fn run(history: &[Step], server: &RedisServer, on_redis: &Arc<dyn Store>) -> Result<(), TestCaseError> {
    server.cli(&["FLUSHALL"]);
    let mut on_memory = memory();
    let mut model = Model::default();
    let mut sent = Sent { epoch: 2, ..Sent::default() };
    let lease = |run_out: bool| if run_out { Duration::ZERO } else { LONG };
    for step in history {
        let ask = match step {
            Step::Call { gateway, behind, entry, joins, leaves } => {
                Ask::Apply(sent.call(*gateway, *behind, *entry, [joins, leaves]))
            }
            Step::Delayed { gateway, entry, joins } => {
                sent.call(*gateway, 0, *entry, [joins, &BTreeSet::new()]);
                continue;
            }
            Step::Late { which } if sent.calls.is_empty() => {
                let _ = which;
                continue;
            }
            Step::Late { which } => Ask::Apply(which.get(&sent.calls).clone()),
            Step::Sweep { gateway, run_out } => Ask::Sweep(*gateway, lease(*run_out)),
            Step::Close { behind } => Ask::Close(sent.epoch - behind),
            Step::Reopen => {
                sent.epoch += 1;
                continue;
            }
            Step::View { run_out } => Ask::View(lease(*run_out)),
            Step::LoseData => {
                server.cli(&["FLUSHALL"]);
                on_memory = memory();
                model = Model::default();
                continue;
            }
        };
        let expected = ask.of_model(&mut model);
        prop_assert_eq!(&ask.of(&on_memory).await, &expected, "memory, at {:?}", step);
        prop_assert_eq!(&ask.of(on_redis).await, &expected, "redis, at {:?}", step);
    }
    let union: Vec<UserId> = model.union().into_iter().collect();
    for (name, store) in [("memory", &on_memory), ("redis", on_redis)] {
        prop_assert_eq!(&fans(store, &slice()).await, &union, "{}'s fans", name);
        for who in GATEWAYS {
            let expected: Vec<UserId> = model.held.get(who).into_iter().flatten().cloned().collect();
            prop_assert_eq!(held(store, &slice(), &gateway(who)).await, expected, "{}, held by {}", name, who);
        }
        let fence = store.fence(&slice()).await.unwrap().map(|epoch| epoch.0);
        prop_assert_eq!(fence, model.fence.map(|(epoch, _)| epoch), "{}'s fence", name);
    }
    Ok(())
}

#[test]
fn memory_redis_and_the_model_agree_on_every_history() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (server, on_redis) = runtime.block_on(async {
        let server = RedisServer::start().await;
        let store = redis(&server).await;
        (server, store)
    });
    // PROPTEST_CASES asks for more or fewer.
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let config = Config { cases: asked.unwrap_or(CASES), failure_persistence: None, ..Config::default() };
    let histories = prop::collection::vec(steps(), 1..60);
    let agreed = TestRunner::new(config).run(&histories, |history| runtime.block_on(run(&history, &server, &on_redis)));
    if let Err(error) = agreed {
        panic!("{error}");
    }
}
