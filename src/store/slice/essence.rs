//! Which slices are equal. A model checker uses this to tell states apart.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use super::StoredSlice;
use super::by_hash::Members;
use super::counted::Rebuild;
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, GatewayId, UserId};
use crate::store::Stays;
use crate::store::slices::{Claim, Fence, SliceEntry};

impl StoredSlice {
    /// What decides the answers of the slice from now on.
    fn essence(&self) -> Essence<'_> {
        let mut claims = Vec::new();
        for (user, of_user) in self.who.iter() {
            for (token, claim) in of_user.iter() {
                let gateway = self.owner_of(token).map(|(gateway, _)| gateway);
                claims.push((user, of_user.since, gateway, claim));
            }
        }
        let entries = self.entries.iter();
        Essence {
            members: &self.members,
            fans: &self.fans,
            claims,
            entries: entries.map(|(name, entry)| (name, entry.state)).collect(),
            fence: self.fence,
            counted: [
                self.counted.card(),
                self.counted.fans,
                self.counted.guests,
                self.counted.entries,
            ],
            rebuild: self.counted.rebuild,
            stays: &self.stays,
        }
    }
}

/// A slice without versions, totals and tokens.
#[derive(PartialEq, Eq, Hash)]
struct Essence<'a> {
    members: &'a Members,
    fans: &'a Members,
    claims: Vec<(
        &'a UserId,
        Option<UnixMillis>,
        Option<&'a GatewayId>,
        &'a Claim,
    )>,
    entries: Vec<(&'a GatewayId, SliceEntry)>,
    fence: Option<Fence>,
    /// Members, fans, guests, entries.
    counted: [u64; 4],
    rebuild: Option<Rebuild>,
    stays: &'a BTreeMap<Epoch, Stays>,
}

impl PartialEq for StoredSlice {
    fn eq(&self, other: &Self) -> bool {
        self.essence() == other.essence()
    }
}

impl Eq for StoredSlice {}

impl Hash for StoredSlice {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.essence().hash(state);
    }
}
