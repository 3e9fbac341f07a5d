//! A gateway's lease, and its look at the others: mirrors `lease::renew` around the real
//! [`Gateways`].
//!
//! The model leaves out time, with one exception: an observer that could look all the while has
//! either seen a count stand still *for a whole lease* or not. The real observer gets the last look
//! again and again, without a gap that would make it start over.

use std::collections::BTreeSet;
use std::time::Duration;

use rollcall::base::clock::Moment;
use rollcall::presence::gateways::{Gateways, Roster};
use rollcall::store::{Lease, Leases, LivingGateway};

use super::budget::Mutation;
use super::shell::LEASE;
use super::store::{Answer, Call};
use super::world::{Gateway, Id, Task, Who, Why, World};

const REFRESH: u64 = 2_000;

/// Less than the gap after which an observer starts over. More looks at the same leases would
/// change nothing.
const LOOK_EVERY: usize = 2 * REFRESH as usize;

impl World {
    /// `lease::renew`. With `judges`, a whole lease passes first, and the gateway looks all the
    /// while. Meanwhile the others may have done anything that leaves no trace.
    pub fn renew(&mut self, at: usize, judges: bool) {
        let id = self.id(at);
        if judges {
            self.store.now += LEASE;
        }
        let asked = self.store.now;
        let gateway = &mut self.gateways[at];
        gateway.renewals += 1;
        let number = gateway.renewals;
        let burials = if judges {
            gateway.burials(id)
        } else {
            Vec::new()
        };
        let call = Call::Renew {
            id,
            held: gateway.lease,
            number,
            burials,
        };
        self.call(at, Who::Lease, Why::Renew { asked, number }, call);
    }

    pub fn hear_lease(
        &mut self,
        Task {
            id, why, answer, ..
        }: Task,
    ) {
        let Why::Renew { asked, number } = why else {
            return;
        };
        let keeps_id = self.rules.lack(Mutation::NoFinality);
        let gateway = &mut self.gateways[id.at];
        match answer {
            Some(Answer::Dead) if keeps_id => {
                (gateway.renewed, gateway.renewal) = (Some(asked), number);
            }
            // `OwnLease::begin_anew`. The gateway tells everything again under its new id.
            Some(Answer::Dead) => {
                (gateway.lease, gateway.renewed) = (None, None);
                gateway.life += 1;
            }
            Some(Answer::Renewed { own, living, dead }) => {
                (gateway.renewed, gateway.in_doubt) = (Some(asked), false);
                gateway.renewal = number;
                if gateway.lease.is_some_and(|before| before.born != own.born)
                    && let Some(room) = &mut gateway.room
                {
                    room.doubt = true;
                }
                gateway.lease = Some(own);
                gateway.seen = living;
                gateway.dead = dead;
                gateway.look(id);
            }
            _ => {}
        }
    }
}

impl Gateway {
    /// The real observer, after a look at the leases that this gateway has seen.
    fn observer(&self, own: Id) -> (Gateways, Leases) {
        let leases = Leases {
            own: self.lease.unwrap_or(Lease { born: 0, count: 0 }),
            living: self
                .seen
                .iter()
                .map(|(id, count)| LivingGateway {
                    gateway: id.name(),
                    count: *count,
                    unheard: BTreeSet::new(),
                })
                .collect(),
            dead: self.dead.iter().map(|id| (id.name(), 0)).collect(),
        };
        let liveness = Gateways::new(Duration::from_millis(LEASE), Duration::from_millis(REFRESH));
        liveness.looked(&own.name(), &leases, Moment::START, Moment::START);
        self.unlisted
            .iter()
            .for_each(|id| liveness.note_unlisted(&id.name(), Moment::START));
        (liveness, leases)
    }

    /// The gateways that it buries when no lease has moved for a whole lease.
    fn burials(&self, own: Id) -> Vec<(Id, Option<u64>)> {
        let (liveness, leases) = self.observer(own);
        for now in (REFRESH..LEASE).step_by(LOOK_EVERY) {
            let now = Moment::START + now;
            liveness.looked(&own.name(), &leases, now, now);
        }
        let mut burials: Vec<_> = liveness
            .burials(Moment::START + LEASE)
            .iter()
            .map(|burial| (Id::of(&burial.gateway), burial.count))
            .collect();
        burials.sort();
        burials
    }

    /// Takes in a look at the leases: an id that is living or dead is no longer unlisted.
    fn look(&mut self, own: Id) {
        let roster = self.roster();
        self.unlisted
            .retain(|id| *id != own && roster.is_unknown(&id.name()));
    }

    /// The real roster.
    pub fn roster(&self) -> Roster {
        let mut roster = Roster::default();
        roster.living.extend(self.seen.keys().map(|id| id.name()));
        roster.dead.extend(self.dead.iter().map(|id| id.name()));
        roster
    }

    /// What `walk::visit_open_live` does about a gateway that has an entry. True if it must be
    /// swept.
    pub fn meets(&mut self, at: usize, other: Id) -> bool {
        let own = Id {
            at,
            life: self.life,
        };
        if !self.dead.contains(&other) && !self.seen.contains_key(&other) && other != own {
            self.unlisted.insert(other);
        }
        self.dead.contains(&other)
    }
}
