//! The kinds of faults, their order and their length. All of it follows from the seed.

use std::time::Duration;

use clap::ValueEnum;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde::Serialize;
use simulation::expectation::Live;
use simulation::timing::Timing;

/// The faults are meant for so many gateways.
pub(crate) const GATEWAYS: usize = 3;

/// A kind of fault. The docs of the variants are the texts of `--list`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ChaosFault {
    /// kill -9 of a gateway, which is started again
    Kill,
    /// kill -9 of every gateway; one is started anew, the others later; a live of a streamer who is
    /// gone closes in time
    KillAll,
    /// SIGSTOP of a gateway for longer than a lease, then SIGCONT
    Freeze,
    /// The same, and meanwhile a live closes, and another one closes and opens again
    FreezeClose,
    /// The same for three leases; a minute after it nothing in Redis names the gateway as it was
    /// called before
    FreezeLong,
    /// SIGTERM of a gateway, which is started again
    Drain,
    /// The link of a gateway to Redis is cut
    LinkCut,
    /// It passes nothing, in either direction, with no connection closed
    LinkStall,
    /// It passes calls, and no answers
    LinkMute,
    /// Its connections pass nothing ever again; new ones are well
    LinkStrand,
    /// A gateway cannot publish for a while: Redis takes its messages, and no other gateway hears
    /// them
    Mute,
    /// It delays everything by 50 to 300 ms
    LinkSlow,
    /// It holds calls back while a live closes, and another closes and opens again; then delivers
    /// them
    LateApply,
    /// SIGSTOP of Redis, then SIGCONT
    RedisFreeze,
    /// Redis is killed, and comes back with nothing but the follow graph
    RedisKill,
    /// FLUSHALL, save the follow graph
    Flushall,
    /// Another program removes, adds, deletes, renames, overwrites and restores what belongs to the
    /// gateways, in lives and among the users online
    ForeignWrite,
    /// Redis, or a master of a cluster, is killed and returns with older data, from before a
    /// gateway was replaced
    SnapshotReturn,
    /// CLIENT KILL TYPE pubsub
    KillPubsub,
    /// CLIENT KILL TYPE normal
    KillNormal,
    /// Redis is full and refuses every write
    RedisFull,
    /// The wall clock of Redis steps by 60 s: ahead, back, behind, back; nobody is ever wrong
    /// because of it
    ClockStep,
    /// The server behind the name becomes a replica, and the name leads to another, old connections
    /// stay; then back again
    ReplicaSwitch,
    /// A third of the crowd vanishes at once
    Vanish,
    /// Every socket of a gateway is cut, and its users come back at once
    Storm,
    /// Lives close and open again, with other numbers of slices, while people come and go
    CloseReopen,
    /// A live is closed while no gateway reaches Redis
    CloseCut,
    /// Cluster: kill -9 of a master that has a replica
    MasterKill,
    /// Cluster: SIGSTOP of the master that has none
    MasterFreeze,
    /// Cluster: kill -9 of the master that has none
    MasterLost,
    /// Cluster: a slot moves to another master
    SlotMove,
}

/// A fault as the seed plans it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Planned {
    pub(crate) kind: ChaosFault,
    /// The time between its begin and its end.
    pub(crate) hold: Duration,
    /// The gateway that it breaks.
    pub(crate) victim: usize,
    /// Two different lives, if there are two.
    pub(crate) lives: [Live; 2],
    /// A random number from 0 to 1 for all other choices of the fault.
    pub(crate) chance: f64,
}

impl ChaosFault {
    /// Whether the fault needs a cluster (true) or one server behind links (false); `None` if
    /// either will do.
    fn cluster(self) -> Option<bool> {
        match self {
            Self::MasterKill | Self::MasterFreeze | Self::MasterLost | Self::SlotMove => Some(true),
            Self::Kill | Self::KillAll | Self::Drain => None,
            Self::Freeze | Self::FreezeClose | Self::FreezeLong => None,
            Self::Vanish
            | Self::Storm
            | Self::CloseReopen
            | Self::KillPubsub
            | Self::KillNormal => None,
            Self::ForeignWrite | Self::SnapshotReturn => None,
            _ => Some(false),
        }
    }

    /// All kinds that can run with, or without, a cluster.
    pub(crate) fn all(cluster: bool) -> Vec<Self> {
        Self::value_variants()
            .iter()
            .filter(|kind| kind.cluster().is_none_or(|needs| needs == cluster))
            .copied()
            .collect()
    }

    /// The name on the command line.
    pub(crate) fn name(self) -> String {
        match self.to_possible_value() {
            Some(value) => value.get_name().to_owned(),
            None => String::new(),
        }
    }

    /// The line of `--list`.
    pub(crate) fn help(self) -> String {
        let value = self.to_possible_value();
        value
            .and_then(|value| value.get_help().map(ToString::to_string))
            .unwrap_or_default()
    }

    fn hold(self, timing: &Timing, at: f64) -> Duration {
        match self {
            Self::Kill => timing.leases(0.1, 0.5, at),
            Self::KillAll => Duration::from_millis(300 + (1_200.0 * at) as u64),
            // Longer than the bound for a killed gateway, so that the run can check that bound.
            Self::Freeze | Self::FreezeClose => timing.killed() + timing.leases(0.1, 0.85, at),
            Self::FreezeLong => timing.leases(3.0, 3.3, at),
            // The time from each step to the next.
            Self::ClockStep => timing.leases(0.6, 1.0, at),
            // Longer than the bound for recovery, so that the run can check that bound.
            Self::ReplicaSwitch => timing.rebuilt() + timing.leases(0.2, 0.6, at),
            Self::LinkCut => timing.leases(0.3, 2.0, at),
            Self::LinkStall | Self::LinkMute => timing.leases(0.3, 1.5, at),
            Self::LinkStrand => Duration::from_secs(5),
            // Longer than it takes to notice, and then to look.
            Self::Mute => timing.leases(1.0, 2.0, at),
            Self::LinkSlow => timing.leases(0.4, 1.0, at),
            Self::RedisFreeze => timing.leases(0.2, 1.3, at),
            Self::RedisKill => timing.leases(0.0, 0.6, at),
            // People come and go until the bound is over, so that joins and leaves may hide what is
            // wrong.
            Self::ForeignWrite => timing.repaired(),
            Self::SnapshotReturn => timing.leases(0.0, 0.3, at),
            Self::RedisFull => timing.leases(0.2, 1.0, at),
            Self::CloseCut => timing.leases(0.2, 0.6, at),
            Self::LateApply => timing.leases(0.15, 0.5, at),
            Self::Drain => timing.leases(0.0, 0.2, at),
            Self::MasterFreeze | Self::MasterLost => timing.leases(0.5, 1.5, at),
            Self::MasterKill | Self::SlotMove => timing.leases(0.1, 0.3, at),
            _ => timing.leases(0.0, 0.1, at),
        }
    }
}

/// The endless sequence of a seed: every kind once in random order, then every kind again in
/// another order.
pub(crate) struct Sequence {
    rng: StdRng,
    kinds: Vec<ChaosFault>,
    bag: Vec<ChaosFault>,
    timing: Timing,
    lives: usize,
    /// Most viewers are on gateway 0, so that is the one to break.
    crowded: bool,
}

impl Sequence {
    pub(crate) fn new(
        seed: u64,
        kinds: Vec<ChaosFault>,
        timing: Timing,
        lives: usize,
        crowded: bool,
    ) -> Self {
        Self {
            rng: StdRng::seed_from_u64(seed),
            kinds,
            bag: Vec::new(),
            timing,
            lives,
            crowded,
        }
    }
}

impl Iterator for Sequence {
    type Item = Planned;

    fn next(&mut self) -> Option<Planned> {
        if self.bag.is_empty() {
            self.bag.clone_from(&self.kinds);
            self.bag.shuffle(&mut self.rng);
        }
        let kind = self.bag.pop()?;
        let any = self.rng.random_range(0..GATEWAYS);
        let first = self.rng.random_range(0..self.lives);
        let other = self.rng.random_range(1..self.lives.max(2));
        Some(Planned {
            kind,
            hold: kind.hold(&self.timing, self.rng.random()),
            victim: if self.crowded { 0 } else { any },
            lives: [first, (first + other) % self.lives],
            chance: self.rng.random(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(seed: u64, steps: usize) -> Vec<Planned> {
        Sequence::new(seed, ChaosFault::all(false), Timing::NORMAL, 6, false)
            .take(steps)
            .collect()
    }

    #[test]
    fn a_seed_is_a_sequence() {
        assert_eq!(first(7, 100), first(7, 100));
        assert_ne!(first(7, 100), first(8, 100));
    }

    #[test]
    fn every_kind_comes_once_before_any_comes_twice() {
        let kinds = ChaosFault::all(false);
        let mut round: Vec<ChaosFault> = first(3, kinds.len())
            .iter()
            .map(|planned| planned.kind)
            .collect();
        round.sort_unstable();
        let mut all = kinds;
        all.sort_unstable();
        assert_eq!(round, all);
    }

    #[test]
    fn lives_differ_and_gateways_exist() {
        for planned in first(1, 500) {
            assert!(planned.victim < GATEWAYS);
            assert!(
                planned.lives[0] != planned.lives[1] && planned.lives.iter().all(|live| *live < 6)
            );
        }
        let one = Sequence::new(1, ChaosFault::all(false), Timing::NORMAL, 1, true).take(50);
        assert!(
            one.into_iter()
                .all(|planned| planned.lives == [0, 0] && planned.victim == 0)
        );
    }

    #[test]
    fn each_kind_has_a_place() {
        let single = ChaosFault::all(false);
        let cluster = ChaosFault::all(true);
        assert!(single.contains(&ChaosFault::LinkCut) && !cluster.contains(&ChaosFault::LinkCut));
        assert!(cluster.contains(&ChaosFault::SlotMove) && !single.contains(&ChaosFault::SlotMove));
        assert!(single.contains(&ChaosFault::Kill) && cluster.contains(&ChaosFault::Kill));
        assert!(
            ChaosFault::value_variants()
                .iter()
                .all(|kind| !kind.help().is_empty())
        );
    }
}
