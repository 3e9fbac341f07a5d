//! Histories of one slice: three gateways, two epochs and more, calls that come late or twice or
//! follow a wrong number, sweeps in batches, closes, lost data. The memory store, the Redis store
//! and a naive model written here on its own must give the same answer at every step, and hold the
//! same members at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;
use rollcall::base::ids::{Epoch, Group, UserId};
use rollcall::store::Fence;
use rollcall::store::{Apply, ApplyReply, SliceSize, Store, Strays};

use super::{Redis, agree_on};
use crate::conformance::{fans, fence, gateway, held, members, memory, slice, user};

const GATEWAYS: [&str; 3] = ["a", "b", "c"];

#[derive(Debug, Clone)]
enum Step {
    /// A gateway's next call, in the epoch that many below the current one.
    Call {
        gateway: usize,
        behind: u64,
        follows: Follows,
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
        follows: Follows,
        joins: BTreeSet<usize>,
    },
    Sweep {
        gateway: usize,
        most: usize,
    },
    Close {
        behind: u64,
    },
    /// The live opens again.
    Reopen,
    Read {
        gateway: usize,
    },
    Look,
    /// Redis comes back empty.
    LoseData,
    /// Redis loses the set and not what it is made of. Memory cannot.
    LoseSet,
}

/// Which number a call follows.
#[derive(Debug, Clone, Copy)]
enum Follows {
    /// None: it makes the entry.
    Nothing,
    /// That of the gateway's entry, if it has one.
    Entry,
    /// One so far from it.
    Other(u64),
}

fn follows() -> impl Strategy<Value = Follows> {
    prop_oneof![3 => Just(Follows::Nothing), 6 => Just(Follows::Entry), 1 => (1..3_u64).prop_map(Follows::Other)]
}

fn some_users() -> impl Strategy<Value = BTreeSet<usize>> {
    prop::collection::btree_set(0..6_usize, 0..4)
}

fn steps(loses_sets: bool) -> impl Strategy<Value = Step> {
    let behind = || prop_oneof![8 => Just(0_u64), 1 => Just(1)];
    let call = (0..3_usize, behind(), follows(), some_users(), some_users());
    let call = call.prop_map(|(gateway, behind, follows, joins, leaves)| {
        let leaves = &leaves - &joins;
        Step::Call {
            gateway,
            behind,
            follows,
            joins,
            leaves,
        }
    });
    let delayed = (0..3_usize, follows(), some_users());
    let loss = move |lost| {
        if loses_sets && lost {
            Step::LoseSet
        } else {
            Step::LoseData
        }
    };
    prop_oneof![
        14 => call,
        2 => any::<prop::sample::Index>().prop_map(|which| Step::Late { which }),
        2 => delayed.prop_map(|(gateway, follows, joins)| Step::Delayed { gateway, follows, joins }),
        2 => (0..3_usize, 1..4_usize).prop_map(|(gateway, most)| Step::Sweep { gateway, most }),
        1 => behind().prop_map(|behind| Step::Close { behind }),
        1 => Just(Step::Reopen),
        2 => (0..3_usize).prop_map(|gateway| Step::Read { gateway }),
        1 => Just(Step::Look),
        1 => prop::bool::weighted(0.7).prop_map(loss),
    ]
}

/// What an answer says, without its version.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Said {
    Done {
        card: usize,
        fans: usize,
        held: usize,
        held_fans: usize,
    },
    Refused(ApplyReply),
    Swept {
        released: usize,
        done: bool,
        card: usize,
    },
    Reading {
        card: usize,
        fence: Option<Fence>,
        entry: Option<u64>,
        held: usize,
        gateways: BTreeSet<String>,
    },
    Looked {
        card: usize,
        held: usize,
        strays: usize,
    },
    Nothing,
}

/// The naive model: who holds whom, nothing clever. The slice is the union, computed each time.
#[derive(Debug, Default)]
struct Model {
    fence: Option<Fence>,
    entries: BTreeMap<String, u64>,
    held: BTreeMap<String, BTreeSet<UserId>>,
    /// Those of them whom a gateway calls fans.
    held_fans: BTreeMap<String, BTreeSet<UserId>>,
    /// Users whom gateways hold and the set has lost.
    missing: BTreeSet<UserId>,
    /// The same of fans.
    missing_fans: BTreeSet<UserId>,
    /// How many came and did not leave. While members are missing, those who come are taken for
    /// them.
    counted: usize,
    /// The same of fans.
    counted_fans: usize,
}

impl Model {
    fn union(&self) -> BTreeSet<UserId> {
        self.held
            .values()
            .flatten()
            .filter(|user| !self.missing.contains(*user))
            .cloned()
            .collect()
    }

    fn fans(&self) -> BTreeSet<UserId> {
        self.held_fans
            .values()
            .flatten()
            .filter(|user| !self.missing_fans.contains(*user))
            .cloned()
            .collect()
    }

    fn entry(&self, name: &str, epoch: u64) -> Option<u64> {
        let open = self.fence == Some(Fence::Open(Epoch(epoch)));
        self.entries.get(name).copied().filter(|_| open)
    }

    fn begins(&mut self, fence: Fence) {
        *self = Self {
            fence: Some(fence),
            ..Self::default()
        };
    }

    fn apply(&mut self, call: &Apply) -> Said {
        let me = call.gateway.to_string();
        let fenced = self.fence.map_or(0, |fence| fence.epoch().0);
        if fenced > call.epoch.0 {
            return Said::Refused(ApplyReply::Newer(Epoch(fenced)));
        }
        if self.fence == Some(Fence::Closed(call.epoch)) {
            return Said::Refused(ApplyReply::Closed);
        }
        let known = self.entry(&me, call.epoch.0);
        match (known, call.follows) {
            (None, Some(_)) => return Said::Refused(ApplyReply::Unknown),
            (Some(known), follows) if follows != Some(known) => {
                return Said::Refused(ApplyReply::Old);
            }
            _ => {}
        }
        if fenced < call.epoch.0 {
            self.begins(Fence::Open(call.epoch));
        }
        let before = self.there();
        self.missing
            .retain(|user| !call.present().any(|there| there == user));
        self.missing_fans.retain(|user| !call.fans.contains(user));
        self.entries.insert(me.clone(), call.number);
        let mine = self.held.entry(me.clone()).or_default();
        mine.extend(call.present().cloned());
        mine.retain(|user| !call.leaves.contains(user));
        let held = mine.len();
        let mine = self.held_fans.entry(me).or_default();
        mine.extend(call.fans.iter().cloned());
        mine.retain(|user| !call.leaves.contains(user) && !call.joins.contains(user));
        let held_fans = mine.len();
        self.forget_missing();
        self.count(&before);
        Said::Done {
            card: self.counted,
            fans: self.counted_fans,
            held,
            held_fans,
        }
    }

    /// The members and the fans.
    fn there(&self) -> [BTreeSet<UserId>; 2] {
        [self.union(), self.fans()]
    }

    fn count(&mut self, before: &[BTreeSet<UserId>; 2]) {
        let now = self.there();
        self.counted = counted(self.counted, &before[0], &now[0]);
        self.counted_fans = counted(self.counted_fans, &before[1], &now[1]);
    }

    fn forget_missing(&mut self) {
        let held: BTreeSet<UserId> = self.held.values().flatten().cloned().collect();
        self.missing.retain(|user| held.contains(user));
        let held: BTreeSet<UserId> = self.held_fans.values().flatten().cloned().collect();
        self.missing_fans.retain(|user| held.contains(user));
    }

    fn close(&mut self, epoch: u64) {
        if self.fence.is_none_or(|fence| fence.epoch().0 <= epoch) {
            self.begins(Fence::Closed(Epoch(epoch)));
        }
    }
}

/// How many there are by the count, after a change.
fn counted(counted: usize, before: &BTreeSet<UserId>, now: &BTreeSet<UserId>) -> usize {
    let (came, left) = (
        now.difference(before).count(),
        before.difference(now).count(),
    );
    let missing = counted.saturating_sub(before.len());
    (counted + came.saturating_sub(missing)).saturating_sub(left)
}

/// Whose turn it is, and what has been sent so far.
#[derive(Default)]
struct Sent {
    epoch: u64,
    numbers: [u64; 3],
    calls: Vec<Apply>,
}

impl Sent {
    fn call(
        &mut self,
        (from, behind): (usize, u64),
        follows: Option<u64>,
        users: [&BTreeSet<usize>; 2],
    ) -> Apply {
        self.numbers[from] += 1;
        let [joins, leaves]: [Vec<UserId>; 2] =
            users.map(|users| users.iter().map(|n| user(*n)).collect());
        let (epoch, number) = (Epoch(self.epoch.saturating_sub(behind)), self.numbers[from]);
        // Each third call calls its users no fans.
        let (joins, fans) = if number.is_multiple_of(3) {
            (joins, Vec::new())
        } else {
            (Vec::new(), joins)
        };
        let call = Apply {
            slice: slice(),
            epoch,
            gateway: gateway(GATEWAYS[from]),
            number,
            follows,
            known: SliceSize::default(),
            uniques: true,
            since: vec![1; joins.len() + fans.len()],
            lives: Vec::new(),
            joins,
            fans,
            left: None,
            leaves,
        };
        self.calls.push(call.clone());
        call
    }
}

enum Ask {
    Apply(Box<Apply>),
    Sweep(usize, usize),
    Close(u64),
    Read(usize),
    Look,
}

impl Ask {
    async fn of(&self, store: &Arc<dyn Store>) -> Said {
        match self {
            Self::Apply(call) => match store.apply(call).await.unwrap() {
                ApplyReply::Done(view) => Said::Done {
                    card: view.size.card as usize,
                    fans: view.size.fans as usize,
                    held: view.held as usize,
                    held_fans: view.held_fans as usize,
                },
                refused => Said::Refused(refused),
            },
            Self::Sweep(who, most) => {
                let swept = store
                    .sweep(&slice(), &gateway(GATEWAYS[*who]), *most, 0)
                    .await
                    .unwrap();
                // Whom a batch takes is chance, and so is how many are left of two gateways'.
                Said::Swept {
                    released: swept.released as usize,
                    done: swept.done,
                    card: swept.size.card as usize,
                }
            }
            Self::Close(epoch) => {
                store.close_slice(&slice(), Epoch(*epoch)).await.unwrap();
                Said::Nothing
            }
            Self::Read(who) => {
                let reading = store
                    .read_slice(&slice(), &gateway(GATEWAYS[*who]))
                    .await
                    .unwrap();
                Said::Reading {
                    card: reading.size.card as usize,
                    fence: reading.fence,
                    entry: reading.entry,
                    held: reading.held as usize,
                    gateways: reading.gateways.iter().map(ToString::to_string).collect(),
                }
            }
            Self::Look => {
                store
                    .strays(&slice(), Group::Fans, 0, 1_000, Strays::Drop)
                    .await
                    .unwrap();
                let page = store
                    .strays(&slice(), Group::All, 0, 1_000, Strays::Drop)
                    .await
                    .unwrap();
                Said::Looked {
                    card: page.size.card as usize,
                    held: page.held as usize,
                    strays: page.strays as usize,
                }
            }
        }
    }

    /// What the model says. Whom a sweep took is chance, so the model hears who is left.
    fn of_model(&self, model: &mut Model, left: Option<Vec<UserId>>) -> Said {
        match self {
            Self::Apply(call) => model.apply(call),
            Self::Sweep(who, most) => {
                let name = GATEWAYS[*who];
                let there = model.there();
                let before = model.held.remove(name).unwrap_or_default();
                let released = before.len().min(*most);
                let left: BTreeSet<UserId> = left.unwrap_or_default().into_iter().collect();
                assert!(left.is_subset(&before) && left.len() == before.len() - released);
                let done = left.is_empty();
                model
                    .held_fans
                    .entry(name.to_owned())
                    .or_default()
                    .retain(|user| left.contains(user));
                if done {
                    model.entries.remove(name);
                } else {
                    model.held.insert(name.to_owned(), left);
                }
                model.forget_missing();
                model.count(&there);
                Said::Swept {
                    released,
                    done,
                    card: model.counted,
                }
            }
            Self::Close(epoch) => {
                model.close(*epoch);
                Said::Nothing
            }
            Self::Read(who) => {
                let name = GATEWAYS[*who];
                Said::Reading {
                    card: model.counted,
                    fence: model.fence,
                    entry: model.entries.get(name).copied(),
                    held: model.held.get(name).map_or(0, BTreeSet::len),
                    gateways: model
                        .entries
                        .keys()
                        .filter(|other| *other != name)
                        .cloned()
                        .collect(),
                }
            }
            Self::Look => {
                let held = model.held.values().map(BTreeSet::len).sum();
                Said::Looked {
                    card: model.counted,
                    held,
                    strays: 0,
                }
            }
        }
    }
}

/// A store with its own model: whom a sweep of a batch takes differs from store to store.
struct Side {
    name: &'static str,
    store: Arc<dyn Store>,
    model: Model,
}

impl Side {
    async fn takes(&mut self, ask: &Ask) -> Result<Said, TestCaseError> {
        let said = ask.of(&self.store).await;
        let left = match ask {
            Ask::Sweep(who, _) => Some(held(&self.store, &slice(), &gateway(GATEWAYS[*who])).await),
            _ => None,
        };
        prop_assert_eq!(&said, &ask.of_model(&mut self.model, left), "{}", self.name);
        Ok(said)
    }

    async fn holds_what_the_model_holds(&self) -> Result<(), TestCaseError> {
        let union: Vec<UserId> = self.model.union().into_iter().collect();
        prop_assert_eq!(
            &members(&self.store, &slice(), Group::All).await,
            &union,
            "{}'s members",
            self.name
        );
        let all_fans: Vec<UserId> = self.model.fans().into_iter().collect();
        prop_assert_eq!(
            &fans(&self.store, &slice()).await,
            &all_fans,
            "{}'s fans",
            self.name
        );
        for who in GATEWAYS {
            let expected: Vec<UserId> = self
                .model
                .held
                .get(who)
                .into_iter()
                .flatten()
                .cloned()
                .collect();
            let there = held(&self.store, &slice(), &gateway(who)).await;
            prop_assert_eq!(there, expected, "{}, held by {}", self.name, who);
        }
        let fence = fence(&self.store, &slice()).await.unwrap();
        prop_assert_eq!(
            fence,
            self.model.fence.map(Fence::epoch),
            "{}'s fence",
            self.name
        );
        Ok(())
    }
}

async fn run(history: &[Step], redis: &Redis, with_memory: bool) -> Result<(), TestCaseError> {
    redis.empty();
    let mut sides = vec![Side {
        name: "redis",
        store: redis.store.clone(),
        model: Model::default(),
    }];
    if with_memory {
        sides.push(Side {
            name: "memory",
            store: memory(),
            model: Model::default(),
        });
    }
    let mut sent = Sent {
        epoch: 2,
        ..Sent::default()
    };
    for step in history {
        // Entries are the same on both sides, save after a sweep of a batch that was chance.
        let entry = |sides: &[Side], who: usize, epoch: u64, follows: Follows| {
            let entry = sides[0].model.entry(GATEWAYS[who], epoch);
            match follows {
                Follows::Nothing => None,
                Follows::Entry => entry.or(Some(1)),
                Follows::Other(far) => Some(entry.map_or(far, |entry| entry + far)),
            }
        };
        let ask = match step {
            Step::Call {
                gateway,
                behind,
                follows,
                joins,
                leaves,
            } => {
                let follows = entry(&sides, *gateway, sent.epoch - behind, *follows);
                Ask::Apply(Box::new(sent.call(
                    (*gateway, *behind),
                    follows,
                    [joins, leaves],
                )))
            }
            Step::Delayed {
                gateway,
                follows,
                joins,
            } => {
                let follows = entry(&sides, *gateway, sent.epoch, *follows);
                sent.call((*gateway, 0), follows, [joins, &BTreeSet::new()]);
                continue;
            }
            Step::Late { .. } if sent.calls.is_empty() => continue,
            Step::Late { which } => Ask::Apply(Box::new(which.get(&sent.calls).clone())),
            Step::Sweep { gateway, most } => Ask::Sweep(*gateway, *most),
            Step::Close { behind } => Ask::Close(sent.epoch - behind),
            Step::Reopen => {
                sent.epoch += 1;
                continue;
            }
            Step::Read { gateway } => Ask::Read(*gateway),
            Step::Look => Ask::Look,
            Step::LoseData => {
                redis.empty();
                for side in &mut sides {
                    side.model = Model::default();
                    if side.name == "memory" {
                        side.store = memory();
                    }
                }
                continue;
            }
            Step::LoseSet => {
                redis
                    .server
                    .cli(&["DEL", "online-fans:42", "{online-fans:42}:viewers"]);
                let model = &mut sides[0].model;
                model.missing = model.held.values().flatten().cloned().collect();
                model.missing_fans = model.held_fans.values().flatten().cloned().collect();
                continue;
            }
        };
        for side in &mut sides {
            side.takes(&ask)
                .await
                .map_err(|failure| TestCaseError::fail(format!("at {step:?}: {failure}")))?;
        }
    }
    for side in &sides {
        side.holds_what_the_model_holds().await?;
    }
    Ok(())
}

#[test]
fn memory_and_redis_agree_with_the_model_on_every_history() {
    agree_on(
        &prop::collection::vec(steps(false), 1..60),
        &async |history, redis| run(&history, redis, true).await,
    );
}

#[test]
fn redis_that_loses_sets_agrees_with_the_model_on_every_history() {
    agree_on(
        &prop::collection::vec(steps(true), 1..60),
        &async |history, redis| run(&history, redis, false).await,
    );
}
