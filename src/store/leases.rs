//! The boundary for gateways' leases, and their model: the hash `rollcall:leases`, with one field
//! per gateway.
//!
//! Only the lease says whether a gateway lives. Each renewal has a number, which becomes the count
//! of the lease. If another gateway sees the same count for too long, by its own clock, it buries
//! the gateway. A burial is final: a gateway that finds itself buried goes on under a new id. So no
//! decision depends on a clock of the store.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::time::Duration;

use super::StoreResult;
use super::calls::calls;
use crate::base::clock::{UnixMillis, millis};
use crate::base::ids::GatewayId;

/// How long the store remembers a burial. No gateway uses a buried id again, so this only has to
/// outlast delayed calls and processes.
pub const DEATH_TTL: Duration = Duration::from_secs(24 * 3600);

/// A lease as its gateway knows it from the last answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Lease {
    /// When it began, by the store's clock. Distinguishes a new lease from the one before.
    pub born: UnixMillis,
    /// The number of the last renewal.
    pub count: u64,
}

/// A gateway renews its lease, buries the gateways whose leases stood still, and reads all leases.
#[derive(Debug, Clone)]
pub struct RenewLease {
    /// The renewing gateway.
    pub gateway: GatewayId,
    /// Its lease in the last answer; `None` at first.
    pub held: Option<Lease>,
    /// The number of the renewal, among all that this gateway asked for, answered or not, from 1.
    pub number: u64,
    /// Where the gateway is not heard, see [`LivingGateway::unheard`].
    pub unheard: BTreeSet<u32>,
    /// The gateways that it buries.
    pub burials: Vec<Burial>,
}

/// A request to bury a gateway.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Burial {
    /// The gateway.
    pub gateway: GatewayId,
    /// The count at which its lease stood still: the gateway is buried only if it still has that
    /// count. `None` if the gateway was found in a slice and had no lease: it is buried only if it
    /// still has none.
    pub count: Option<u64>,
}

/// The outcome of a [`RenewLease`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeaseReply {
    /// The gateway is dead: another one buried it, or the store was restored from a backup. Nothing
    /// else was done.
    Dead,
    /// The lease is renewed.
    Renewed(Leases),
}

/// Every lease, right after a renewal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leases {
    /// The caller's own.
    pub own: Lease,
    /// The living gateways, the caller among them.
    pub living: Vec<LivingGateway>,
    /// The gateways that were buried within [`DEATH_TTL`], each with the time, by the store's
    /// clock, of the last renewal of its lease, or of its burial if it had none.
    pub dead: Vec<(GatewayId, UnixMillis)>,
}

/// A living gateway, as its lease has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LivingGateway {
    /// The gateway.
    pub gateway: GatewayId,
    /// The number of its last renewal.
    pub count: u64,
    /// The numbers of the channels on which the gateway is not heard: its own words did not come
    /// back before that renewal.
    pub unheard: BTreeSet<u32>,
}

calls! {
    /// Gateways' leases.
    pub trait LeaseStore {
        /// Renews a gateway's lease, see [`RenewLease`]. An absent lease begins anew. A lease that
        /// began at another time, or has a smaller count than the last answer, comes from a backup: the
        /// store buries its gateway, and says so. A renewal that arrives a second time, or after a
        /// later one, renews nothing.
        async fn renew_lease(&self, renewal: &RenewLease) -> StoreResult<LeaseReply>, writes;

        /// Buries a gateway at once, because it ends.
        async fn end_lease(&self, gateway: &GatewayId) -> StoreResult<()>, writes;
    }
}

/// A gateway's field.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Field {
    Living {
        lease: Lease,
        unheard: BTreeSet<u32>,
    },
    Dead {
        at: UnixMillis,
    },
}

/// The leases of all gateways: the model.
///
/// Two tables are equal if they have the same living leases and the same dead gateways. The times
/// of renewals do not count, because they decide nothing.
#[derive(Debug, Clone, Default)]
pub struct LeaseTable {
    fields: BTreeMap<GatewayId, Field>,
    renewed: BTreeMap<GatewayId, UnixMillis>,
}

impl PartialEq for LeaseTable {
    fn eq(&self, other: &Self) -> bool {
        self.fields == other.fields
    }
}

impl Eq for LeaseTable {}

impl Hash for LeaseTable {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fields.hash(state);
    }
}

impl LeaseTable {
    /// See [`LeaseStore::end_lease`].
    pub fn end(&mut self, gateway: &GatewayId, now: UnixMillis) {
        self.fields.insert(gateway.clone(), Field::Dead { at: now });
        self.renewed.remove(gateway);
    }

    /// See [`LeaseStore::renew_lease`].
    pub fn renew(&mut self, renewal: &RenewLease, now: UnixMillis) -> LeaseReply {
        let RenewLease {
            gateway,
            held,
            number,
            unheard,
            burials,
        } = renewal;
        let there = match (self.fields.get(gateway), held) {
            (Some(Field::Dead { .. }), _) => return LeaseReply::Dead,
            (Some(Field::Living { lease, .. }), Some(held))
                if lease.born == held.born && lease.count >= held.count =>
            {
                Some(*lease)
            }
            (Some(Field::Living { .. }), _) => {
                self.fields.insert(gateway.clone(), Field::Dead { at: now });
                return LeaseReply::Dead;
            }
            (None, _) => None,
        };
        let own = match there {
            // A later renewal came before this one.
            Some(lease) if lease.count >= *number => lease,
            _ => {
                let lease = Lease {
                    born: there.map_or(now, |lease| lease.born),
                    count: *number,
                };
                let unheard = unheard.clone();
                self.fields
                    .insert(gateway.clone(), Field::Living { lease, unheard });
                self.renewed.insert(gateway.clone(), now);
                lease
            }
        };
        for Burial { gateway, count } in burials {
            let there = match self.fields.get(gateway) {
                Some(Field::Living { lease, .. }) => Some(lease.count),
                Some(Field::Dead { .. }) => continue,
                None => None,
            };
            if there == *count {
                self.fields.insert(gateway.clone(), Field::Dead { at: now });
            }
        }
        self.fields.retain(|_, field| match field {
            Field::Living { .. } => true,
            Field::Dead { at } => now.saturating_sub(*at) <= millis(DEATH_TTL),
        });
        self.renewed
            .retain(|gateway, _| self.fields.contains_key(gateway));
        let mut leases = Leases {
            own,
            living: Vec::new(),
            dead: Vec::new(),
        };
        for (gateway, field) in &self.fields {
            match field {
                Field::Living { lease, unheard } => leases.living.push(LivingGateway {
                    gateway: gateway.clone(),
                    count: lease.count,
                    unheard: unheard.clone(),
                }),
                Field::Dead { at } => {
                    leases.dead.push((
                        gateway.clone(),
                        self.renewed.get(gateway).copied().unwrap_or(*at),
                    ));
                }
            }
        }
        LeaseReply::Renewed(leases)
    }
}
