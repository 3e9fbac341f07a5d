//! Owns the boundary for gateways' own leases, and the model of them: the hash `rollcall:leases`, one field a gateway.
//!
//! With very many small lives a lease for each slice and a word on viewers for each live, renewed every few seconds, are
//! most of what a store does. Where nothing is new (see [`crate::store::Renewals`]) a gateway marks them as standing under
//! a lease of its own, and from then on renews that one. Whoever asks how long a gateway has been quiet takes the later of
//! both times, in the same step as the sweep that depends on it.
//!
//! Only what was marked stands under it, and any other call on a slice, or another word on viewers, takes the mark away:
//! so what a gateway does not know of any more (a call that came late, say) is not kept alive by the gateway's being alive.
//! And it stands there no longer than [`COVERED_LEASES`] without being marked again.
//!
//! Not in a cluster: a sweep may not look at a key in another slot.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use super::StoreResult;
use crate::clock::{UnixMillis, millis};
use crate::ids::GatewayId;

/// For so many leases an entry, or a word on viewers, stands under its gateway's own lease without being looked at.
pub const COVERED_LEASES: u32 = 20;

/// A gateway's own lease, just renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnLease {
    /// Since when it has never been without: it was never found to have run out, to be gone, or to be older than it was
    /// left. Another time than before means that what stood under it may have been swept, or that the store lost data.
    pub since: UnixMillis,
    /// The store's clock: when it was renewed now.
    pub at: UnixMillis,
}

/// Gateways' own leases.
#[async_trait]
pub trait Leases {
    /// Renews the gateway's own lease, of that length, or begins one. `left` is when the gateway knows it was renewed last;
    /// 0 if it does not. `None`: the store has none, and nothing stands under one.
    async fn renew_own_lease(
        &self,
        gateway: &GatewayId,
        lease: Duration,
        left: UnixMillis,
    ) -> StoreResult<Option<OwnLease>>;
}

/// When something was last said by a gateway, and whether it stands under the gateway's own lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Said {
    pub(super) at: UnixMillis,
    pub(super) covered: bool,
}

/// The gateways' own leases: the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct OwnLeases(BTreeMap<GatewayId, (UnixMillis, UnixMillis)>);

impl OwnLeases {
    /// See [`Leases::renew_own_lease`].
    pub fn renew(&mut self, gateway: &GatewayId, lease: Duration, left: UnixMillis, now: UnixMillis) -> OwnLease {
        let lasts = |at: UnixMillis| at >= left && now.saturating_sub(at) < millis(lease);
        let since = self.0.get(gateway).filter(|(at, _)| lasts(*at)).map_or(now, |(_, since)| *since);
        self.0.insert(gateway.clone(), (now, since));
        OwnLease { since, at: now }
    }

    /// Whether a gateway has been quiet for so long, but not for `more` than that.
    pub(super) fn is_anybody_late(&self, lease: Duration, more: Duration, now: UnixMillis) -> bool {
        let late = millis(lease)..millis(lease.saturating_add(more));
        self.0.values().any(|(at, _)| late.contains(&now.saturating_sub(*at)))
    }

    /// For how long a gateway has been quiet that said something then. What is covered is so for `most` at most.
    pub(super) fn quiet(
        &self,
        gateway: &GatewayId,
        Said { at, covered }: Said,
        most: Duration,
        now: UnixMillis,
    ) -> u64 {
        let quiet = now.saturating_sub(at);
        let renewed = self.0.get(gateway).filter(|_| covered && quiet < millis(most));
        renewed.map_or(quiet, |(renewed, _)| quiet.min(now.saturating_sub(*renewed)))
    }
}
