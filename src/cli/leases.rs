//! The leases of all gateways at one moment: which gateways are alive, which were buried, and which
//! have no lease.
//!
//! A command never buries a gateway. Only a gateway that has watched a lease stand still for long
//! enough may do that.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::base::clock::{UnixMillis, millis, unix_now};
use crate::base::ids::GatewayId;
use crate::store::StoreResult;
use crate::store::redis::RedisStore;
use crate::store::redis::inspect::LeaseInside;

#[derive(Debug)]
pub(crate) struct LeaseSnapshot {
    leases: BTreeMap<GatewayId, LeaseInside>,
    /// When the command read the leases, or a moment before.
    at: UnixMillis,
}

impl LeaseSnapshot {
    pub(crate) async fn read(store: &RedisStore) -> StoreResult<Self> {
        // The clock is read before the leases, because a "last seen" may be too early, but not too
        // late.
        let at = unix_now();
        Ok(Self {
            leases: store.inspect_leases().await?,
            at,
        })
    }

    pub(crate) fn get(&self, gateway: &GatewayId) -> Option<LeaseInside> {
        self.leases.get(gateway).copied()
    }

    pub(crate) fn is_living(&self, gateway: &GatewayId) -> bool {
        matches!(self.get(gateway), Some(LeaseInside::Living { .. }))
    }

    /// Whether a gateway was buried. A burial is final, so the answer stays true.
    pub(crate) fn is_dead(&self, gateway: &GatewayId) -> bool {
        self.last_heard(gateway).is_some()
    }

    /// When a buried gateway renewed its lease last.
    pub(crate) fn last_heard(&self, gateway: &GatewayId) -> Option<UnixMillis> {
        match self.get(gateway) {
            Some(LeaseInside::Dead { silent, .. }) => Some(self.at.saturating_sub(millis(silent))),
            _ => None,
        }
    }

    /// The living gateways, each with the time since the renewal of its lease.
    pub(crate) fn living(&self) -> impl Iterator<Item = (&GatewayId, Duration)> {
        self.leases
            .iter()
            .filter_map(|(gateway, lease)| match lease {
                LeaseInside::Living { age, .. } => Some((gateway, *age)),
                LeaseInside::Dead { .. } => None,
            })
    }
}

/// A gateway's lease in a report.
#[derive(Debug, Serialize)]
pub(crate) struct LeaseStatus {
    /// `living`, `dead`, or null if the gateway has none.
    pub lease: Option<&'static str>,
    /// The time since the renewal or the burial, by Redis's clock.
    pub lease_age_ms: Option<u64>,
}

impl From<Option<LeaseInside>> for LeaseStatus {
    fn from(lease: Option<LeaseInside>) -> Self {
        match lease {
            Some(LeaseInside::Living { age, .. }) => Self {
                lease: Some("living"),
                lease_age_ms: Some(millis(age)),
            },
            Some(LeaseInside::Dead { age, .. }) => Self {
                lease: Some("dead"),
                lease_age_ms: Some(millis(age)),
            },
            None => Self {
                lease: None,
                lease_age_ms: None,
            },
        }
    }
}

impl fmt::Display for LeaseStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ago = self.lease_age_ms.unwrap_or(0) as f64 / 1_000.0;
        match self.lease {
            Some("living") => write!(f, "lease renewed {ago:.1} s ago"),
            Some(_) => write!(f, "buried {ago:.1} s ago"),
            None => write!(f, "no lease"),
        }
    }
}
