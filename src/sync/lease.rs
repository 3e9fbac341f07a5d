//! Renews this gateway's lease each `lease-refresh`. The lease alone says that the gateway lives.
//! With each renewal the gateway looks at all leases ([`crate::presence::gateways`]).
//!
//! A gateway that finds itself buried registers everything again under a new id
//! ([`crate::presence::own_lease`]), once it has heard who was erased meanwhile. A lost lease begins
//! again under the same id; the store may have lost anything with it, so everything is checked at
//! once.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::base::clock::{Clock, Moment};
use crate::base::metrics::Metrics;
use crate::presence::Rooms;
use crate::presence::checks::Checks;
use crate::presence::gateways::Gateways;
use crate::presence::own_lease::LeaseState;
use crate::store::{Lease, LeaseReply, RenewLease, Store};
use crate::sync::eraser::Eraser;
use crate::sync::seen::SeenUsers;

/// A renewal that takes longer was not waiting for the store: its call has a shorter deadline.
const SLOWEST_CALL: Duration = Duration::from_secs(3);

pub struct LeaseKeeper {
    pub gateways: Arc<Gateways>,
    pub store: Arc<dyn Store>,
    pub rooms: Arc<Rooms>,
    pub checks: Arc<Checks>,
    pub seen: Arc<SeenUsers>,
    pub eraser: Arc<Eraser>,
    pub metrics: Arc<Metrics>,
    pub clock: Clock,
    pub refresh: Duration,
}

impl LeaseKeeper {
    pub async fn run(self, stop: CancellationToken) {
        let mut held: Option<Lease> = None;
        let mut number = 0;
        let mut was_late = false;
        loop {
            let asked = self.clock.now();
            number += 1;
            let wait = self.renew(&mut held, number).await;
            // An attempt that took much longer than a call may take tells only that the process
            // stood still meanwhile.
            let took = Duration::from_millis(self.clock.now().since(asked));
            if took <= SLOWEST_CALL + self.refresh {
                self.gateways.own.note_attempt(self.clock.now());
            }
            let state = self.gateways.own.state(self.clock.now());
            let is_late = state != LeaseState::InTime;
            if was_late != is_late {
                was_late = is_late;
                self.rooms.count_all();
                Self::report(state);
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                () = self.gateways.own.renewal_wanted() => {}
            }
        }
    }

    fn report(state: LeaseState) {
        match state {
            LeaseState::InTime => tracing::info!("this gateway renewed its lease"),
            LeaseState::Late => tracing::warn!(
                "this gateway has not renewed its lease in time, so its counts are partial"
            ),
            LeaseState::NoneUnderThisId | LeaseState::NeverAny => tracing::warn!(
                "this gateway has no lease: its counts are partial, and its fans are not in the store"
            ),
        }
    }

    /// Renews once; `number` numbers the renewals. Returns the wait until the next one.
    async fn renew(&self, held: &mut Option<Lease>, number: u64) -> Duration {
        let asked = self.clock.now();
        let own = self.gateways.own.life();
        let burials = self.gateways.burials(asked);
        let renewal = RenewLease {
            gateway: own.id.clone(),
            held: *held,
            number,
            unheard: self.store.echo(&own.id, number),
            burials,
        };
        let leases = match self.store.renew_lease(&renewal).await {
            Ok(LeaseReply::Renewed(leases)) => leases,
            Ok(LeaseReply::Dead) => {
                if let Err(why) = self.eraser.hear().await {
                    // Whom it still has then, although erased, is erased once more when it hears.
                    tracing::warn!(error = %why, "this gateway could not hear who was erased meanwhile");
                }
                *held = None;
                let next = self.gateways.own.begin_anew();
                tracing::warn!(
                    former = %own.id, gateway_id = %next.id,
                    "this gateway was buried; it continues under a new id"
                );
                self.metrics.buried_itself.inc();
                // The lease may be one of older data with which the store came back.
                self.checks.doubt_all();
                self.rooms.tell_all_again();
                // The first renewal under a new id is made at once.
                return Duration::ZERO;
            }
            Err(why) => {
                tracing::debug!(error = %why, "the lease was not renewed, will try again");
                return self.refresh / 4;
            }
        };
        let was_lost = held.is_some_and(|held| held.born != leases.own.born);
        if was_lost {
            tracing::warn!("this gateway's lease was lost; checking everything that it holds");
            self.metrics.lease_lost.inc();
            self.checks.doubt_all();
            self.seen.forget();
        }
        self.gateways.own.note_renewal(asked);
        let were_unproven = self.gateways.own.are_peers_unproven();
        let is_anew = held.is_none() && own.number > 1;
        *held = Some(leases.own);
        let change = self
            .gateways
            .looked(&own.id, &leases, asked, self.clock.now());
        if was_lost || is_anew {
            self.gateways.doubt();
        }
        if self.gateways.own.are_peers_unproven() != were_unproven {
            self.rooms.count_all();
        }
        for gateway in &change.died {
            if renewal
                .burials
                .iter()
                .any(|burial| burial.gateway == *gateway)
            {
                tracing::warn!(
                    gateway_id = %gateway,
                    "a gateway has not renewed its lease; it is buried"
                );
                self.metrics.buried.inc();
            }
        }
        if change.roster {
            self.checks.roster_changed(&self.gateways.roster());
        }
        let due = self
            .gateways
            .next_look()
            .unwrap_or(Moment::NEVER)
            .since(self.clock.now());
        self.refresh
            .mul_f64(rand::random_range(0.9..1.0))
            .min(Duration::from_millis(due.max(20)))
    }
}
