//! Reads what gateways claim in a slice, page by page. Claims that change meanwhile may be missed.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::sleep;

use crate::base::ids::{GatewayId, Group, SliceId, UserId};
use crate::store::redis::RedisStore;
use crate::store::{Claim, ClaimedUser, Slices, StoreResult};

/// The pause after each page, which leaves Redis time for gateways.
pub(crate) const PAUSE: Duration = Duration::from_millis(1);

/// The claims of a slice.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    pub users: HashMap<UserId, Claimed>,
    /// What each gateway with a claim holds.
    pub held: BTreeMap<GatewayId, Held>,
}

/// What the claims on a user say.
#[derive(Debug, Default)]
pub(crate) struct Claimed {
    pub is_fan: bool,
    /// Whether a claim is by a gateway that has no entry.
    pub lacks_entry: bool,
}

/// How many users a gateway holds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Held {
    pub members: u64,
    /// The fans among them.
    pub fans: u64,
}

impl Claims {
    pub(crate) async fn read(store: &RedisStore, slice: &SliceId) -> StoreResult<Self> {
        let mut claims = Self::default();
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let page = store.claims_page(slice, from).await?;
            for user in page.users {
                claims.add(user);
            }
            cursor = page.next;
            sleep(PAUSE).await;
        }
        Ok(claims)
    }

    /// Adds a user, unless an earlier page had the same one.
    fn add(&mut self, user: ClaimedUser) {
        let Entry::Vacant(place) = self.users.entry(user.user) else {
            return;
        };
        let mut claimed = Claimed {
            is_fan: false,
            lacks_entry: user.by.is_empty(),
        };
        for (gateway, claim) in user.by {
            let is_fan = claim == Claim::Fan;
            claimed.is_fan |= is_fan;
            match gateway {
                Some(gateway) => {
                    let held = self.held.entry(gateway).or_default();
                    held.members += 1;
                    held.fans += u64::from(is_fan);
                }
                None => claimed.lacks_entry = true,
            }
        }
        place.insert(claimed);
    }

    /// Whether a claim says that a user is in the set of a group. No set has guests.
    pub(crate) fn say(&self, user: &UserId, group: Group) -> bool {
        match self.users.get(user) {
            Some(claimed) => match group {
                Group::All => !user.is_guest(),
                Group::Fans => claimed.is_fan,
            },
            None => false,
        }
    }

    pub(crate) fn held_by(&self, gateway: &GatewayId) -> Held {
        self.held.get(gateway).copied().unwrap_or_default()
    }

    /// How many users are fans.
    pub(crate) fn fans(&self) -> u64 {
        self.users.values().filter(|user| user.is_fan).count() as u64
    }

    /// How many users are guests.
    pub(crate) fn guests(&self) -> u64 {
        self.users.keys().filter(|user| user.is_guest()).count() as u64
    }
}
