//! Every gateway's lease as one look found it: which gateways live, which were buried, and which have none. An audit
//! buries no gateway: only a gateway that has watched a lease stand still for long enough may do that.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use super::finding::{Finding, Kind};
use crate::base::clock::millis;
use crate::base::ids::GatewayId;
use crate::store::redis::inspect::LeaseInside;
use crate::store::redis::{RedisStore, keys};
use crate::store::{MAX_BATCH, StoreResult};

#[derive(Debug)]
pub(super) struct LeaseSnapshot(BTreeMap<GatewayId, LeaseInside>);

impl LeaseSnapshot {
    pub(super) async fn read(store: &RedisStore) -> StoreResult<Self> {
        store.inspect_leases().await.map(Self)
    }

    pub(super) fn get(&self, gateway: &GatewayId) -> Option<LeaseInside> {
        self.0.get(gateway).copied()
    }

    pub(super) fn is_living(&self, gateway: &GatewayId) -> bool {
        matches!(self.get(gateway), Some(LeaseInside::Living { .. }))
    }

    /// Whether a gateway was buried. A burial is final, so this stays true however old the look is.
    pub(super) fn is_dead(&self, gateway: &GatewayId) -> bool {
        matches!(self.get(gateway), Some(LeaseInside::Dead { .. }))
    }

    pub(super) fn living(&self) -> impl Iterator<Item = &GatewayId> {
        self.0.keys().filter(|gateway| self.is_living(gateway))
    }

    /// The most members that one call looks for at every gateway.
    pub(super) fn page(&self) -> usize {
        (MAX_BATCH / self.living().count().max(1)).max(10)
    }

    /// Finds the leases that were not renewed for longer than `overdue` and whose gateways nobody has buried.
    pub(super) fn expired(&self, overdue: Duration) -> Vec<Finding> {
        let expired = self.0.iter().filter_map(|(gateway, lease)| match lease {
            LeaseInside::Living { age, .. } if *age > overdue => {
                let detail = format!("its lease was renewed {} ago, and no gateway has buried it", seconds(*age));
                Some(Finding::new(Kind::ExpiredLease, detail).gateway(gateway).key(keys::LEASES))
            }
            _ => None,
        });
        expired.collect()
    }
}

/// A gateway's lease in a report.
#[derive(Debug, Serialize)]
pub(super) struct LeaseStatus {
    /// `living`, `dead`, or null: the gateway has none.
    pub lease: Option<&'static str>,
    /// The time since the renewal or the burial, by the clock of Redis.
    pub lease_age_ms: Option<u64>,
}

impl From<Option<LeaseInside>> for LeaseStatus {
    fn from(lease: Option<LeaseInside>) -> Self {
        let (lease, age) = match lease {
            Some(LeaseInside::Living { age, .. }) => (Some("living"), Some(age)),
            Some(LeaseInside::Dead { age }) => (Some("dead"), Some(age)),
            None => (None, None),
        };
        Self { lease, lease_age_ms: age.map(millis) }
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

/// A span in whole seconds, for people.
pub(super) fn seconds(span: Duration) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_secs(span.as_secs()))
}
