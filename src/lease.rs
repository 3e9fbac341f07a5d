//! This gateway's lease: the one thing that says that it lives. Renewed each `lease-refresh`, whatever else there is to do;
//! with each renewal the gateway looks at all leases ([`crate::liveness`]).
//!
//! A gateway that finds itself buried goes on under a new id, and says everything anew under it: who was buried never
//! comes back, so whoever sweeps its members harms nobody. A lease that was lost begins anew under the same id; with it
//! anything may be lost, so everything is checked at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::clock::{Millis, millis};
use crate::core::Core;
use crate::ids::GatewayId;
use crate::store::{Lease, LeaseReply, RenewLease};

/// One life of this gateway: from one id to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incarnation {
    /// The id.
    pub id: GatewayId,
    /// Which life this is, from 1.
    pub number: u32,
}

/// This gateway's lease and ids.
#[derive(Debug)]
pub struct OwnLease {
    present: Arc<ArcSwap<Incarnation>>,
    /// Ids that were buried.
    former: Mutex<Vec<GatewayId>>,
    /// When the last renewal was asked for that was answered; 0 is never.
    renewed: AtomicU64,
    /// When the last renewal ended, with an answer or without; 0 is never.
    tried: AtomicU64,
    /// Some slice knew nothing of this gateway, and the lease was not renewed since.
    in_doubt: AtomicBool,
}

impl Default for OwnLease {
    fn default() -> Self {
        Self {
            present: Arc::new(ArcSwap::from_pointee(Incarnation { id: GatewayId::random(), number: 1 })),
            former: Mutex::default(),
            renewed: AtomicU64::new(0),
            tried: AtomicU64::new(0),
            in_doubt: AtomicBool::new(false),
        }
    }
}

impl OwnLease {
    /// The id of now, and which life it is.
    pub fn incarnation(&self) -> Arc<Incarnation> {
        self.present.load_full()
    }

    /// The same, for who reads it often.
    pub fn present(&self) -> Arc<ArcSwap<Incarnation>> {
        self.present.clone()
    }

    /// Whether an id is, or was, this gateway's.
    pub fn is_own(&self, gateway: &GatewayId) -> bool {
        self.present.load().id == *gateway || self.former.lock().contains(gateway)
    }

    /// The ids under which this gateway was buried.
    pub fn former(&self) -> Vec<GatewayId> {
        self.former.lock().clone()
    }

    /// Whether the lease was renewed within so long.
    pub fn is_fresh(&self, now: Millis, within: Duration) -> bool {
        let renewed = self.renewed.load(Ordering::Relaxed);
        renewed != 0 && now.saturating_sub(renewed) <= millis(within)
    }

    /// Whether there ever was a lease under the id of now.
    pub fn had_any(&self) -> bool {
        self.renewed_at() != 0
    }

    /// When the last renewal was asked for that was answered; 0 is never.
    pub fn renewed_at(&self) -> Millis {
        self.renewed.load(Ordering::Relaxed)
    }

    /// A slice knew nothing of this gateway: it may have been buried, or the store lost data.
    pub fn doubt(&self) {
        self.in_doubt.store(true, Ordering::Relaxed);
    }

    /// Whether this gateway may make entries: its lease was just renewed; or the lease's node is away, and no slice has
    /// answered since that it knows nothing of this gateway. A gateway that was frozen has not tried to renew: it may have
    /// been buried meanwhile, so it tries first.
    pub fn may_register(&self, now: Millis, fresh: Duration) -> bool {
        let tried = now.saturating_sub(self.tried.load(Ordering::Relaxed)) <= millis(fresh);
        self.is_fresh(now, fresh) || (tried && self.had_any() && !self.in_doubt.load(Ordering::Relaxed))
    }

    fn note_renewal(&self, asked: Millis) {
        self.in_doubt.store(false, Ordering::Relaxed);
        self.renewed.store(asked.max(1), Ordering::Relaxed);
    }

    /// Takes a new id.
    fn begin_anew(&self) -> Arc<Incarnation> {
        let former = self.incarnation();
        let next = Arc::new(Incarnation { id: GatewayId::random(), number: former.number + 1 });
        self.former.lock().push(former.id.clone());
        self.renewed.store(0, Ordering::Relaxed);
        self.present.store(next.clone());
        next
    }
}

/// Runs until told to stop.
pub async fn run(core: Arc<Core>, stop: CancellationToken) {
    let refresh = core.config.lease_refresh;
    let mut held: Option<Lease> = None;
    let mut was_fresh = true;
    loop {
        let renewal = renew(&core, &mut held).await;
        core.own_lease.tried.store(core.clock.now(), Ordering::Relaxed);
        let fresh = core.own_lease.is_fresh(core.clock.now(), core.config.lease / 2);
        if std::mem::replace(&mut was_fresh, fresh) != fresh {
            // How far figures can be trusted is another matter now.
            core.rooms.all().iter().for_each(|room| core.changed.mark(room));
        }
        let wait = match renewal {
            // The first renewal under a new id is made at once.
            Renewal::Buried => Duration::ZERO,
            Renewal::Failed => refresh / 4,
            Renewal::Done => {
                let due = core.liveness.next_look().unwrap_or(Millis::MAX).saturating_sub(core.clock.now());
                refresh.mul_f64(rand::random_range(0.9..1.0)).min(Duration::from_millis(due.max(20)))
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

enum Renewal {
    Done,
    Failed,
    Buried,
}

async fn renew(core: &Arc<Core>, held: &mut Option<Lease>) -> Renewal {
    let asked = core.clock.now();
    let own = core.own_lease.incarnation();
    let renewal = RenewLease { gateway: own.id.clone(), held: *held, burials: core.liveness.burials(asked) };
    let leases = match core.store.renew_lease(&renewal).await {
        Ok(LeaseReply::Renewed(leases)) => leases,
        Ok(LeaseReply::Dead) => {
            *held = None;
            let next = core.own_lease.begin_anew();
            tracing::warn!(former = %own.id, gateway_id = %next.id, "this gateway was buried; it goes on under a new id");
            core.metrics.buried_itself.inc();
            core.say_everything_anew();
            return Renewal::Buried;
        }
        Err(why) => {
            tracing::debug!(error = %why, "the lease was not renewed, will try again");
            return Renewal::Failed;
        }
    };
    core.own_lease.note_renewal(asked);
    if held.is_some_and(|held| held.born != leases.own.born) {
        tracing::warn!("this gateway's lease was lost; checking everything that it holds");
        core.metrics.lease_lost.inc();
        core.doubt_everything();
    }
    *held = Some(leases.own);
    let change = core.liveness.looked(&own.id, &leases, (asked, core.clock.now()));
    for gateway in &change.died {
        if renewal.burials.iter().any(|burial| burial.gateway == *gateway) {
            tracing::warn!(gateway_id = %gateway, "a gateway has not renewed its lease; it is buried");
            core.metrics.buried.inc();
        }
    }
    if change.roster {
        core.roster_changed();
    }
    if !change.died.is_empty() {
        core.walk.bury(&change.died, core.clock.now());
    }
    Renewal::Done
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: Duration = Duration::from_secs(5);

    #[test]
    fn a_gateway_makes_entries_with_a_fresh_lease_or_while_it_tries_in_vain_to_renew_it() {
        let lease = OwnLease::default();
        lease.tried.store(1_000, Ordering::Relaxed);
        assert!(!lease.may_register(1_000, FRESH), "it never had a lease");
        lease.note_renewal(1_000);
        assert!(lease.may_register(6_000, FRESH));
        lease.tried.store(20_000, Ordering::Relaxed);
        assert!(lease.may_register(20_000, FRESH), "the node of the leases is away");
        lease.doubt();
        assert!(!lease.may_register(20_000, FRESH), "a slice knew nothing of this gateway");
    }

    #[test]
    fn a_gateway_that_was_frozen_makes_no_entry_before_it_tried_to_renew_its_lease() {
        let lease = OwnLease::default();
        lease.note_renewal(1_000);
        lease.tried.store(1_000, Ordering::Relaxed);
        assert!(!lease.may_register(50_000, FRESH), "it may have been buried meanwhile");
    }
}
