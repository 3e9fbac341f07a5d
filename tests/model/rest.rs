//! Brings a world to rest: faults stop, and everything that repeats in production (retries,
//! renewals, burials, checks) takes place. The promises P1, P2 and P4 say what the world
//! must look like then; P7 says that it comes to rest within a few rounds.

use std::collections::BTreeSet;

use rollcall::base::ids::Epoch;
use rollcall::presence::desired_state::Standing;
use rollcall::store::{Fence, SliceEntry};

use super::budget::{Budget, Mutation};
use super::store::shown;
use super::world::{World, standing};

/// What happens to the calls that nobody waits for any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Late {
    Arrive,
    Vanish,
}

/// A gateway that needs more answers than this makes no progress.
const MAX_STEPS: usize = 80;

/// The most rounds that a world may need to come to rest.
const ROUNDS: usize = 8;

impl World {
    /// What is wrong with this world once it is at rest, whether late calls arrive or vanish.
    pub fn wrong_at_rest(&self) -> Option<&'static str> {
        let fates: &[Late] = if self.late() == 0 {
            &[Late::Vanish]
        } else {
            &[Late::Vanish, Late::Arrive]
        };
        fates
            .iter()
            .find_map(|late| self.comes_to_rest(*late).err())
    }

    fn comes_to_rest(&self, late: Late) -> Result<(), &'static str> {
        let mut world = self.clone();
        world.left = Budget {
            late: 0,
            ..world.left
        };
        for place in (0..world.network.len())
            .rev()
            .filter(|place| !self.network[*place].awaited)
        {
            match late {
                Late::Arrive => world.serve(place),
                Late::Vanish => drop(world.network.remove(place)),
            }
        }
        for at in world.alive() {
            world.gateways[at].frozen = false;
            if world.gateways[at].cut {
                world.mend(at);
            }
        }
        let mut settled = Ok(());
        for _ in 0..ROUNDS {
            world.round()?;
            if let Some(why) = world.wrong_now() {
                return Err(why);
            }
            settled = world.is_settled();
            if settled.is_ok() {
                break;
            }
        }
        settled
    }

    /// Every gateway does once whatever repeats, and a whole lease passes.
    fn round(&mut self) -> Result<(), &'static str> {
        let all: Vec<usize> = self.alive().collect();
        let each = |world: &mut Self, act: &dyn Fn(&mut Self, usize)| {
            all.iter().try_for_each(|at| {
                act(world, *at);
                world.work_off(*at)
            })
        };
        each(self, &|_, _| {})?;
        each(self, &|world, at| world.renew(at, false))?;
        // The first renewal under a new id is made at once.
        each(self, &|world, at| {
            if world.gateways[at].renewed.is_none() {
                world.renew(at, false)
            }
        })?;
        each(self, &|world, at| world.renew(at, true))?;
        each(self, &|world, at| {
            let room = &world.gateways[at].room;
            if room
                .as_ref()
                .is_some_and(|room| room.epoch < world.store.epoch)
            {
                world.end_room(at);
            }
        })?;
        self.walk();
        each(self, &|world, at| {
            if world.is_dirty(at) {
                world.flush(at, true)
            }
        })?;
        let each_minute = self.rules.each_minute;
        each(self, &|world, at| {
            if world.gateways[at]
                .room
                .as_ref()
                .is_some_and(|room| room.doubt || each_minute)
            {
                world.check(at);
            }
        })?;
        Ok(())
    }

    /// Stands for the walk: somebody looks at a slice that is not in order, or has an entry of a dead
    /// gateway, or older data of a gateway without a room.
    fn walk(&mut self) {
        self.store.close_older();
        let alive: Vec<usize> = self.alive().collect();
        let mut finders = Vec::new();
        let found = self.store.look(self.id(alive[0]));
        if !(found.is_intact && found.size.is_in_order()) {
            finders.push(alive[0]);
        }
        for (id, _) in found.entries {
            if !alive.contains(&id.at) || id != self.id(id.at) {
                finders.push(alive[0]);
            } else if self.store.lost && self.gateways[id.at].room.is_none() {
                finders.push(id.at);
            }
        }
        for at in finders {
            match &mut self.gateways[at].room {
                Some(room) => room.doubt = true,
                None => self.find(at),
            }
        }
    }

    fn work_off(&mut self, at: usize) -> Result<(), &'static str> {
        for _ in 0..MAX_STEPS {
            let Some(who) = self.gateways[at].tasks.keys().next().copied() else {
                return Ok(());
            };
            self.hear(at, who);
        }
        Err("a gateway is busy for ever")
    }

    /// Whether a world at rest is as promised.
    fn is_settled(&self) -> Result<(), &'static str> {
        let store = &self.store;
        let rooms = || {
            self.alive()
                .filter_map(|at| self.gateways[at].room.as_ref().map(|room| (at, room)))
        };
        let (living, _) = store.leases();
        // Without this rule gateways lose their leases. The model should find the consequences, not
        // this.
        let is_final = !self.rules.lack(Mutation::NoFinality);
        if is_final && self.alive().any(|at| !living.contains_key(&self.id(at))) {
            return Err("a gateway has no lease");
        }
        if living
            .keys()
            .any(|id| self.gateways[id.at].killed || *id != self.id(id.at))
        {
            return Err("a dead gateway has a lease");
        }
        if rooms().any(|(_, room)| room.epoch != store.epoch) {
            return Err("a room outlived its epoch");
        }
        if rooms().any(|(_, room)| room.desired.is_dirty()) {
            return Err("a desired state is not settled");
        }
        let standings = |seated: &BTreeSet<usize>| {
            seated
                .iter()
                .map(|user| (*user, standing(*user)))
                .collect::<BTreeSet<_>>()
        };
        let mut wanted = BTreeSet::new();
        for (at, room) in rooms() {
            let standings = standings(&room.seated);
            wanted.extend(
                standings
                    .into_iter()
                    .map(|(user, standing)| (Some(self.id(at)), user, standing)),
            );
        }
        let (members, shown_now) = (store.members(), shown(&wanted));
        if !shown_now.is_subset(&members) {
            return Err("a fan is missed");
        }
        if members != shown_now {
            return Err("a ghost is left");
        }
        for (id, entry) in store.entries() {
            if self.gateways[id.at].killed || id != self.id(id.at) {
                return Err("a dead gateway has an entry");
            }
            if store.data.slice.fence() != Some(Fence::Open(Epoch(store.epoch))) {
                return Err("somebody is in a slice of another epoch");
            }
            let SliceEntry::At {
                is_complete: true, ..
            } = entry
            else {
                return Err("an entry is not complete");
            };
        }
        if store.claims() != wanted {
            return Err("the claims are not what the gateways want");
        }
        let size = store.data.slice.size();
        let fans = shown_now
            .iter()
            .filter(|(_, standing)| *standing == Standing::Fan);
        if !size.is_in_order() {
            return Err("the slice is not in order");
        }
        let counted = (size.card, size.fans);
        if counted != (shown_now.len() as u64, fans.count() as u64) {
            return Err("the size is wrong");
        }
        if rooms().any(|(at, room)| {
            !room.seated.is_empty() && !store.entries().iter().any(|(id, _)| *id == self.id(at))
        }) {
            return Err("a gateway has no entry");
        }
        Ok(())
    }

    /// What is wrong with this world now.
    pub fn wrong_now(&mut self) -> Option<&'static str> {
        if let Some(why) = self.store.wrong_now() {
            return Some(why);
        }
        for room in self
            .gateways
            .iter()
            .filter_map(|gateway| gateway.room.as_ref())
        {
            if room.desired.wanted() != room.seated.len()
                || room.desired.unsettled() > super::model::USERS
            {
                return Some("a desired remembers what it should not");
            }
        }
        self.wrong
    }
}
