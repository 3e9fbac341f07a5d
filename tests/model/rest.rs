//! Brings a world to rest: nothing goes wrong any more, and all that repeats in production (retries, lease refreshes,
//! sweeps, the minute's reading, the finishing of closes) takes place. What the world must look like then is P1, P2 and
//! P4; that it comes to rest at all within a few rounds is P7.

use std::collections::BTreeSet;

use super::store::State;
use super::world::{Budget, Due, Mutation, Who, World};

/// What becomes of the calls that nobody waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    Arrive,
    Vanish,
}

/// Which gateways refresh all of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refresh {
    /// Those that see with a glance that something is new, or may not leave it at a glance and cannot renew their lease as
    /// it stands.
    Glance,
    /// Those that cannot renew their lease as it stands: something is new. This happens once a minute.
    WhereNew,
    /// All.
    Everywhere,
}

/// A turn that takes more steps than this makes no progress.
const MAX_STEPS: usize = 40;

/// Rounds of all that repeats. The worst history needs one to learn that an epoch is over, one to close it for all, and
/// one for what is left of it.
const ROUNDS: usize = 4;

impl World {
    pub fn at_rest(&self, late: Late) -> Result<Self, &'static str> {
        let mut world = self.clone();
        world.left = Budget { late: 0, ..world.left };
        for place in (0..world.network.len()).rev().filter(|place| !self.network[*place].awaited) {
            match late {
                Late::Arrive => world.serve(place),
                Late::Vanish => drop(world.network.remove(place)),
            }
        }
        for _ in 0..ROUNDS {
            world.round(Refresh::Glance)?;
        }
        if matches!(world.mutation, Mutation::OnlyGlances | Mutation::LapseIgnored) {
            return Ok(world);
        }
        world.round(Refresh::WhereNew)?;
        if (0..world.gateways.len()).any(|at| world.gateways[at].dead && !world.store.held(at).is_empty()) {
            return Err("nobody swept a gateway that died");
        }
        // What is left after that only a reading of the store finds; what it finds is put right with the next turn.
        if !matches!(world.mutation, Mutation::NoReconcile | Mutation::RenewedBlindly) {
            world.round(Refresh::Everywhere)?;
            world.round(Refresh::WhereNew)?;
        }
        Ok(world)
    }

    /// One of each: every living gateway finishes what it is at, every lease that is not refreshed runs out. A gateway
    /// that finds nothing new renews its lease and looks at nothing else.
    fn round(&mut self, refresh: Refresh) -> Result<(), &'static str> {
        for at in self.living() {
            self.work_off(at)?;
        }
        if let (Some(record), Some(at)) = (self.store.record, self.living().next())
            && record.state == State::Closing
        {
            self.finish(at, record);
            self.work_off(at)?;
        }
        self.store.late = (0..self.gateways.len()).filter(|at| self.store.has_entry(*at)).collect();
        if refresh == Refresh::Everywhere {
            self.store.outlast_own_leases();
        }
        let gateways = &self.gateways;
        self.store.own.retain(|at, _| !gateways[*at].dead);
        let mut anybody_looked = false;
        for at in self.living() {
            if refresh != Refresh::Everywhere {
                self.renew_own(at, true);
            }
            let mut expected = self.expected(at).filter(|_| refresh != Refresh::Everywhere);
            if let (Refresh::WhereNew, Some(expected)) = (refresh, &mut expected) {
                expected.glance = false;
            }
            if let (Some(expected), Some(room)) = (expected, &mut self.gateways[at].room)
                && self.store.renew(at, expected, self.mutation)
            {
                room.covered = expected.number;
                continue;
            }
            // Who refreshes is told who is silent; and who has no room looks after the live as one that nobody holds.
            anybody_looked = true;
            self.start(at, Due { refresh: true, reconcile: true });
            self.work_off(at)?;
        }
        if anybody_looked {
            for at in self.store.late.clone() {
                self.store.sweep(at);
            }
        }
        Ok(())
    }

    fn work_off(&mut self, at: usize) -> Result<(), &'static str> {
        for _ in 0..MAX_STEPS {
            if let Some(place) = self.network.iter().position(|message| message.awaited && message.from == at) {
                self.serve(place);
            } else if self.gateways[at].job.is_some() {
                self.hear(at, Who::Job);
            } else if self.gateways[at].closer.is_some() {
                self.hear(at, Who::Closer);
            } else {
                return Ok(());
            }
        }
        Err("a gateway is busy for ever")
    }

    /// Whether a world at rest is as promised.
    pub fn is_settled(&self) -> Result<(), &'static str> {
        let rooms = || self.living().filter_map(|at| self.gateways[at].room.as_ref().map(|room| (at, room)));
        let epoch = self.store.record.filter(|record| record.state == State::Open).map(|record| record.epoch);
        if self.store.is(State::Closing) {
            return Err("a close was not finished");
        }
        if rooms().any(|(_, room)| Some(room.epoch) != epoch) {
            return Err("a room outlived its epoch");
        }
        if rooms().any(|(_, room)| room.ledger.unsettled() > 0) {
            return Err("a ledger is not settled");
        }
        // The known limits: where nothing says of a closed epoch that it is closed but its record, or where nothing
        // says that there is a live, what a late call left goes with the lifetime of its keys.
        if self.store.record.is_none_or(|record| epoch.is_none() && record.epoch <= self.store.unfenced) {
            return Ok(());
        }
        let wanted: BTreeSet<usize> = rooms().flat_map(|(_, room)| room.seated.clone()).collect();
        if !wanted.is_subset(&self.store.members()) {
            return Err("a fan is missed");
        }
        if !self.store.members().is_subset(&wanted) {
            return Err("a ghost is left");
        }
        if rooms().any(|(at, room)| room.seated != self.store.held(at)) {
            return Err("a gateway holds other users than its own");
        }
        Ok(())
    }

    /// What is wrong with this world once it comes to rest, whatever becomes of late calls.
    pub fn wrong_at_rest(&self) -> Option<&'static str> {
        let fates: &[Late] = if self.late() == 0 { &[Late::Vanish] } else { &[Late::Vanish, Late::Arrive] };
        fates.iter().find_map(|late| match self.at_rest(*late) {
            Ok(rest) => rest.wrong.or(rest.store.wrong).or(rest.is_settled().err()),
            Err(why) => Some(why),
        })
    }

    /// What is wrong with it now.
    pub fn wrong_now(&self) -> Option<&'static str> {
        let held: BTreeSet<usize> = (0..self.gateways.len()).flat_map(|at| self.store.held(at)).collect();
        if self.store.members() != held {
            return Some("the slice is not the union of what is held");
        }
        if let Some(why) = self.store.resurrected() {
            return Some(why);
        }
        if let Some(record) = self.store.record
            && record.state != State::Open
            && !self.store.asked.contains(&record.epoch)
        {
            return Some("an epoch was closed for which nobody asked");
        }
        for room in self.gateways.iter().filter_map(|gateway| gateway.room.as_ref()) {
            if room.ledger.wanted() != room.seated.len() || room.ledger.unsettled() > super::model::USERS {
                return Some("a ledger remembers what it should not");
            }
        }
        self.wrong.or(self.store.wrong)
    }
}
