//! Histories of a whole live: opened, kept, closed, lost and written again; gateways that renew
//! leases, end and bury each other, join and leave, are swept, and check what they expect. The
//! memory store and the Redis store must give the same answer at every step and stand alike after
//! it.
//!
//! Epochs, times and versions follow each store's own clock. So a history names epochs by the order
//! in which they began, and answers are compared without times.

use rollcall::features::WholeStore;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use proptest::prelude::*;
use rollcall::base::ids::{Epoch, GatewayId, Group, SliceId, UserId};
use rollcall::store::Fence;
use rollcall::store::{
    Apply, ApplyRefusal, ApplyReply, Burial, CloseLive, CloseReason, CloseReply, Lease, LeaseReply,
    LiveRecord, OpenLive, OpenReply, Pass, Peaks, RecordStanding, RemoveUser, RenewLease,
    SliceEntry, SliceLook, SliceSize,
};

use super::agree_on;
use crate::conformance::{
    Caller, LONG, claims, fans, finish_close, gateway, live, look, members, memory, pass, passes,
    peaks, sweep, user, wish,
};

const GATEWAYS: [&str; 4] = ["a", "b", "c", "d"];
const SLICES: u32 = 2;

#[derive(Debug, Clone)]
enum Step {
    Open {
        streamer: usize,
    },
    BeginClose {
        behind: usize,
        viewers: u64,
        moderated: bool,
    },
    FinishClose {
        behind: usize,
    },
    CloseSlice {
        slice: usize,
        behind: usize,
    },
    /// What a gateway knows, and so many epochs and removals more than that.
    Keep {
        behind: usize,
        ahead: u64,
        removals: u64,
        fans: u64,
    },
    /// All data is lost, and a gateway writes the record again.
    LoseAllAndKeep {
        removals: u64,
    },
    List,
    Delist,
    Remove {
        user: usize,
    },
    Turn {
        gateway: usize,
    },
    Apply {
        gateway: usize,
        slice: usize,
        behind: usize,
        follows: Follows,
        joins: BTreeSet<usize>,
        leaves: BTreeSet<usize>,
    },
    Late {
        which: prop::sample::Index,
    },
    Bye {
        gateway: usize,
        slice: usize,
    },
    Sweep {
        gateway: usize,
        slice: usize,
    },
    Pass {
        slice: usize,
        complains: bool,
    },
    Renew {
        gateway: usize,
        held: Held,
        burials: Vec<(usize, Seen)>,
    },
    End {
        gateway: usize,
    },
}

#[derive(Debug, Clone, Copy)]
enum Follows {
    Nothing,
    Entry,
    Other,
}

/// What a gateway knows of its lease when it renews it.
#[derive(Debug, Clone, Copy)]
enum Held {
    Nothing,
    Last,
    /// An answer was lost.
    Before,
    /// The store fell back.
    Ahead,
    OtherBirth,
}

/// The count at which a gateway is buried.
#[derive(Debug, Clone, Copy)]
enum Seen {
    NoLease,
    Last,
    Before,
    Ahead,
}

fn steps() -> impl Strategy<Value = Step> {
    let behind = || prop_oneof![10 => Just(0_usize), 1 => Just(1), 1 => Just(2)];
    let (who, slice) = (|| 0..4_usize, || 0..SLICES as usize);
    let users = || prop::collection::btree_set(0..8_usize, 0..4);
    let follows = prop_oneof![3 => Just(Follows::Nothing), 6 => Just(Follows::Entry), 1 => Just(Follows::Other)];
    let knows = prop_oneof![
        2 => Just(Held::Nothing), 8 => Just(Held::Last), 1 => Just(Held::Before), 1 => Just(Held::Ahead),
        1 => Just(Held::OtherBirth),
    ];
    let seen = || {
        prop_oneof![
            Just(Seen::NoLease),
            Just(Seen::Last),
            Just(Seen::Before),
            Just(Seen::Ahead)
        ]
    };
    let apply = (who(), slice(), behind(), follows, users(), users()).prop_map(
        |(gateway, slice, behind, follows, joins, leaves)| {
            let leaves = &leaves - &joins;
            Step::Apply {
                gateway,
                slice,
                behind,
                follows,
                joins,
                leaves,
            }
        },
    );
    let burials = prop::collection::vec((who(), seen()), 0..3);
    prop_oneof![
        6 => prop_oneof![6 => Just(9_usize), 1 => Just(8)].prop_map(|streamer| Step::Open { streamer }),
        2 => (behind(), 0..9_u64, any::<bool>())
            .prop_map(|(behind, viewers, moderated)| Step::BeginClose { behind, viewers, moderated }),
        3 => behind().prop_map(|behind| Step::FinishClose { behind }),
        2 => (slice(), behind()).prop_map(|(slice, behind)| Step::CloseSlice { slice, behind }),
        3 => (behind(), prop_oneof![6 => Just(0_u64), 1 => Just(1)], 0..3_u64, 0..9_u64)
            .prop_map(|(behind, ahead, removals, fans)| Step::Keep { behind, ahead, removals, fans }),
        1 => (0..3_u64).prop_map(|removals| Step::LoseAllAndKeep { removals }),
        1 => Just(Step::List),
        2 => Just(Step::Delist),
        2 => (0..4_usize).prop_map(|user| Step::Remove { user }),
        1 => who().prop_map(|gateway| Step::Turn { gateway }),
        14 => apply,
        2 => any::<prop::sample::Index>().prop_map(|which| Step::Late { which }),
        2 => (who(), slice()).prop_map(|(gateway, slice)| Step::Sweep { gateway, slice }),
        1 => (who(), slice()).prop_map(|(gateway, slice)| Step::Bye { gateway, slice }),
        2 => (slice(), prop::bool::weighted(0.2))
            .prop_map(|(slice, complains)| Step::Pass { slice, complains }),
        8 => (who(), knows, burials).prop_map(|(gateway, held, burials)| Step::Renew { gateway, held, burials }),
        1 => who().prop_map(|gateway| Step::End { gateway }),
    ]
}

fn slice(place: usize) -> SliceId {
    SliceId::of_live(live("42"), place as u32 + 1, SLICES)
}

fn number_in(entry: Option<SliceEntry>) -> Option<u64> {
    match entry? {
        SliceEntry::At { number, .. } => Some(number),
        SliceEntry::Dead => None,
    }
}

fn sorted<T: ToString>(all: impl IntoIterator<Item = T>) -> Vec<String> {
    let mut all: Vec<String> = all.into_iter().map(|one| one.to_string()).collect();
    all.sort();
    all
}

/// A store, and what its callers remember of it.
struct Side {
    store: Arc<dyn WholeStore>,
    /// The epochs that the store told of, oldest first.
    epochs: Vec<Epoch>,
    /// The record as it was told last while it was open.
    record: Option<LiveRecord>,
    number: u64,
    sent: Vec<Apply>,
    leases: BTreeMap<usize, Lease>,
}

impl Side {
    fn of(store: Arc<dyn WholeStore>) -> Self {
        let (epochs, sent, leases) = (Vec::new(), Vec::new(), BTreeMap::new());
        Self {
            store,
            epochs,
            record: None,
            number: 0,
            sent,
            leases,
        }
    }

    fn epoch(&self, behind: usize) -> Epoch {
        let place = self.epochs.len().checked_sub(1 + behind);
        place.map_or(Epoch(1), |place| self.epochs[place])
    }

    /// An epoch by its place among those that there were; the first is 1.
    fn name(&self, epoch: Epoch) -> String {
        match self.epochs.iter().position(|known| *known == epoch) {
            Some(place) => (place + 1).to_string(),
            None if epoch == Epoch(1) => "none".to_owned(),
            None => panic!("{epoch} was never told; {:?} were", self.epochs),
        }
    }

    fn learns(&mut self, record: &LiveRecord) {
        if !self.epochs.contains(&record.epoch) {
            assert!(
                self.epochs.last().is_none_or(|last| *last < record.epoch),
                "{record:?} after {:?}",
                self.epochs
            );
            self.epochs.push(record.epoch);
        }
        self.record = Some(record.clone());
    }

    fn record(&self, record: &LiveRecord) -> String {
        let LiveRecord {
            state,
            streamer,
            epoch,
            slices,
            opened_by,
            peaks,
            closure,
            removals,
            ..
        } = record;
        let reason = closure.map(|closure| closure.reason);
        let epoch = self.name(*epoch);
        format!(
            "{state:?} {streamer} {epoch} {slices} {opened_by:?} {peaks:?} {reason:?} {removals}"
        )
    }

    fn look(&self, look: &SliceLook) -> String {
        let SliceLook {
            size,
            fence,
            is_intact,
            has_keys,
            entry,
            entries,
        } = look;
        let fence = fence.map(|fence| match fence {
            Fence::Open(epoch) => format!("open {}", self.name(epoch)),
            Fence::Closed(epoch) => format!("closed {}", self.name(epoch)),
        });
        let size = self.size(size);
        format!("{size} {fence:?} intact {is_intact} keys {has_keys} {entry:?} {entries:?}")
    }

    /// A size without versions.
    fn size(&self, size: &SliceSize) -> String {
        let SliceSize {
            card,
            fans,
            leaves,
            rebuild,
            differs,
            ..
        } = size;
        format!("{card} {fans} -{leaves} rebuild {rebuild} differs {differs}")
    }

    fn applied(&self, reply: &ApplyReply) -> String {
        match reply {
            ApplyReply::Done(size) => format!("done {}", self.size(size)),
            ApplyReply::Refused(ApplyRefusal { entry, size }) => {
                let size = size.map(|size| self.size(&size));
                format!("refused {entry:?} {size:?}")
            }
            other => format!("{other:?}"),
        }
    }

    async fn keep(&mut self, record: &LiveRecord) -> String {
        match self.store.keep_live(record, "").await.unwrap() {
            RecordStanding::Open { removals, .. } => format!("open {removals}"),
            RecordStanding::Rewritten => {
                self.learns(record);
                "rewritten".to_owned()
            }
            RecordStanding::Over(record) => format!("over {}", self.record(&record)),
        }
    }

    async fn renew(&mut self, who: usize, held: Held, burials: &[(usize, Seen)]) -> String {
        let last = self.leases.get(&who).copied();
        let held = match held {
            Held::Nothing => None,
            Held::Last => last,
            Held::Before => last.map(|lease| Lease {
                count: lease.count - 1,
                ..lease
            }),
            Held::Ahead => last.map(|lease| Lease {
                count: lease.count + 1,
                ..lease
            }),
            Held::OtherBirth => last.map(|lease| Lease {
                born: lease.born + 1,
                ..lease
            }),
        };
        let count = |who: usize, seen| {
            let last = self.leases.get(&who).map_or(7, |lease| lease.count);
            match seen {
                Seen::NoLease => None,
                Seen::Last => Some(last),
                Seen::Before => Some(last - 1),
                Seen::Ahead => Some(last + 1),
            }
        };
        // Not always the same for a number that is repeated.
        let unheard = (0..burials.len() as u32).collect();
        let burials = burials.iter().map(|(who, seen)| Burial {
            gateway: gateway(GATEWAYS[*who]),
            count: count(*who, *seen),
        });
        // After one whose answer is taken to be lost, this one repeats the last.
        let number = held.map_or(0, |held| held.count) + 1;
        let renewal = RenewLease {
            gateway: gateway(GATEWAYS[who]),
            held,
            number,
            unheard,
            burials: burials.collect(),
        };
        match self.store.renew_lease(&renewal).await.unwrap() {
            LeaseReply::Dead => "dead".to_owned(),
            LeaseReply::Renewed(mut leases) => {
                self.leases.insert(who, leases.own);
                leases.living.sort();
                let dead: Vec<GatewayId> = leases
                    .dead
                    .into_iter()
                    .map(|(gateway, _)| gateway)
                    .collect();
                format!(
                    "{} {:?} {:?}",
                    leases.own.count,
                    leases.living,
                    sorted(dead)
                )
            }
        }
    }

    /// The next call of a gateway, in the present epoch. It changes nothing yet.
    fn call(&mut self, who: usize, place: usize, follows: Option<u64>) -> Apply {
        self.number += 1;
        let mut caller = Caller {
            slice: slice(place),
            epoch: self.epoch(0).0,
            number: self.number - 1,
            ..Caller::new(&self.store, GATEWAYS[who])
        };
        caller.next(follows, &[], &[])
    }

    async fn take(&mut self, step: &Step) -> String {
        let id = live("42");
        match step {
            Step::Open { streamer } => {
                let wish = OpenLive {
                    slices: SLICES,
                    streamer: user(*streamer),
                    ..wish("42")
                };
                match self.store.open_live(&wish).await.unwrap() {
                    OpenReply::Opened(record) => {
                        self.learns(&record);
                        format!("opened {}", self.record(&record))
                    }
                    OpenReply::AlreadyOpen(record) => format!("already {}", self.record(&record)),
                    OpenReply::Owned(record) => format!("owned {}", self.record(&record)),
                    OpenReply::Closing(record) => format!("closing {}", self.record(&record)),
                    OpenReply::Changed => "changed".to_owned(),
                }
            }
            Step::BeginClose {
                behind,
                viewers,
                moderated,
            } => {
                let reason = if *moderated {
                    CloseReason::Moderated
                } else {
                    CloseReason::Requested
                };
                let peaks = peaks(*viewers, 1);
                let (uniques, message) = (true, String::new());
                let epoch = self.epoch(*behind);
                let wish = CloseLive {
                    live: id,
                    epoch,
                    reason,
                    peaks,
                    uniques,
                    message,
                };
                match self.store.begin_close(&wish).await.unwrap() {
                    CloseReply::Closing(record) => format!("closing {}", self.record(&record)),
                    CloseReply::Closed(record) => format!("closed {}", self.record(&record)),
                    CloseReply::OtherEpoch(record) => format!("other {}", self.record(&record)),
                    CloseReply::Absent => "absent".to_owned(),
                }
            }
            Step::FinishClose { behind } => {
                let record = finish_close(&self.store, &id, self.epoch(*behind), LONG)
                    .await
                    .unwrap();
                format!("{:?}", record.map(|record| self.record(&record)))
            }
            Step::CloseSlice {
                slice: place,
                behind,
            } => {
                // An epoch that never was would be the next one's rival.
                let Some(_) = self.epochs.len().checked_sub(1 + behind) else {
                    return String::new();
                };
                format!(
                    "{:?}",
                    self.store
                        .close_slice(&slice(*place), self.epoch(*behind))
                        .await
                        .unwrap()
                )
            }
            Step::Keep {
                behind,
                ahead,
                removals,
                fans,
            } => {
                let Some(record) = self.record.clone() else {
                    return String::new();
                };
                let epoch = Epoch(self.epoch(*behind).0 + if *behind == 0 { *ahead } else { 0 });
                let peaks = Peaks {
                    fans: *fans,
                    ..record.peaks
                };
                self.keep(&LiveRecord {
                    epoch,
                    removals: *removals,
                    peaks,
                    ..record
                })
                .await
            }
            Step::LoseAllAndKeep { removals } => {
                let Some(record) = self.record.clone() else {
                    return String::new();
                };
                self.keep(&LiveRecord {
                    removals: *removals,
                    ..record
                })
                .await
            }
            Step::List => {
                let since = self.record.as_ref().map_or(5, |record| record.opened_at);
                format!("{:?}", self.store.list_live(&id, since).await.unwrap())
            }
            Step::Delist => format!("{:?}", self.store.delist(&id).await.unwrap()),
            Step::Remove { user: n } => {
                let (epoch, message) = (self.epoch(0), String::new());
                let wish = RemoveUser {
                    live: id,
                    epoch,
                    user: user(*n),
                    ban: None,
                    by: None,
                    is_told: true,
                    message,
                };
                format!("{:?}", self.store.remove_user(&wish).await.unwrap())
            }
            Step::Turn { gateway: who } => {
                format!(
                    "{:?}",
                    self.store
                        .take_walk_turn(&gateway(GATEWAYS[*who]), LONG, &HashSet::new())
                        .await
                        .unwrap()
                )
            }
            Step::Apply {
                gateway: who,
                slice: place,
                behind,
                follows,
                joins,
                leaves,
            } => {
                let Some(_) = self.epochs.len().checked_sub(1 + behind) else {
                    return String::new();
                };
                let found = look(&self.store, &slice(*place), GATEWAYS[*who]).await;
                let entry = number_in(found.entry);
                let follows = match follows {
                    Follows::Nothing => None,
                    Follows::Entry => entry.or(Some(1)),
                    Follows::Other => Some(entry.unwrap_or(0) + 1),
                };
                let [joins, leaves]: [Vec<UserId>; 2] =
                    [joins, leaves].map(|users| users.iter().map(|n| user(*n)).collect());
                let mut call = self.call(*who, *place, follows);
                call.epoch = self.epoch(*behind);
                // Each second call calls its users fans.
                call.since = vec![1; joins.len()];
                if call.number.is_multiple_of(2) {
                    call.joins = joins;
                } else {
                    call.fans = joins;
                }
                call.leaves = leaves;
                let reply = self.store.apply(&call).await.unwrap();
                self.sent.push(call);
                self.applied(&reply)
            }
            Step::Bye {
                gateway: who,
                slice: place,
            } => {
                let found = look(&self.store, &slice(*place), GATEWAYS[*who]).await;
                let mut call = self.call(*who, *place, number_in(found.entry));
                call.bye = true;
                let reply = self.store.apply(&call).await.unwrap();
                self.applied(&reply)
            }
            Step::Late { which } => {
                if self.sent.is_empty() {
                    return String::new();
                }
                let reply = self.store.apply(which.get(&self.sent)).await.unwrap();
                self.applied(&reply)
            }
            Step::Sweep {
                gateway: who,
                slice: place,
            } => {
                let dead = [(GATEWAYS[*who], 0)];
                let swept = sweep(&self.store, &slice(*place), self.epoch(0).0, &dead).await;
                format!("{} {}", swept.released, self.size(&swept.size))
            }
            Step::Pass {
                slice: place,
                complains,
            } => {
                let found = look(&self.store, &slice(*place), "nobody").await;
                let pass = Pass {
                    wrong: complains.then_some(found.size.incarnation),
                    ..pass(&slice(*place), self.epoch(0).0)
                };
                match passes(&self.store, pass).await {
                    Some(passed) => {
                        format!("{:?} {}", passed.drift, self.size(&passed.size))
                    }
                    None => "of another epoch".to_owned(),
                }
            }
            Step::Renew {
                gateway: who,
                held,
                burials,
            } => self.renew(*who, *held, burials).await,
            Step::End { gateway: who } => {
                format!(
                    "{:?}",
                    self.store
                        .end_lease(&gateway(GATEWAYS[*who]))
                        .await
                        .unwrap()
                )
            }
        }
    }

    /// How all stands.
    async fn stands(&self) -> String {
        let record = self
            .store
            .load_live(&live("42"))
            .await
            .unwrap()
            .map(|record| self.record(&record));
        let listed = sorted(
            self.store
                .lives_page(None, 10)
                .await
                .unwrap()
                .into_iter()
                .map(|listed| listed.live),
        );
        let mut all = vec![format!("{record:?}"), format!("{listed:?}")];
        for place in 0..SLICES as usize {
            let found = look(&self.store, &slice(place), "nobody").await;
            all.push(self.look(&found));
            all.push(format!("{:?}", fans(&self.store, &slice(place)).await));
            all.push(format!(
                "{:?}",
                members(&self.store, &slice(place), Group::All).await
            ));
            all.push(format!("{:?}", claims(&self.store, &slice(place)).await));
        }
        all.join("\n")
    }
}

/// Most begin with a live that opens, for most calls do little without.
fn histories() -> impl Strategy<Value = Vec<Step>> {
    let opens = prop::bool::weighted(0.9);
    (opens, prop::collection::vec(steps(), 1..80)).prop_map(|(opens, mut history)| {
        if opens {
            history.insert(0, Step::Open { streamer: 9 });
        }
        history
    })
}

#[test]
fn both_stores_agree_on_the_history_of_a_live() {
    agree_on(&histories(), &async |history, redis| {
        redis.empty();
        let (mut model, mut other) = (Side::of(memory()), Side::of(redis.store.clone()));
        for (at, step) in history.iter().enumerate() {
            if let Step::LoseAllAndKeep { .. } = step {
                redis.empty();
                model.store = memory();
            }
            let (wanted, got) = (model.take(step).await, other.take(step).await);
            prop_assert_eq!(wanted, got, "the answer to step {} of {:?}", at, history);
            let (wanted, got) = (model.stands().await, other.stands().await);
            prop_assert_eq!(wanted, got, "after step {} of {:?}", at, history);
        }
        Ok(())
    });
}
