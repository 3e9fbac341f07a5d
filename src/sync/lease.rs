//! Renews this gateway's lease each `lease-refresh`. The lease alone says that the gateway lives.
//! With each renewal the gateway looks at all leases ([`crate::presence::gateways`]).
//!
//! A gateway that finds itself buried registers everything again under a new id
//! ([`crate::presence::own_lease`]), once the features know that it was cut off. A lost lease begins
//! again under the same id; the store may have lost anything with it, so everything is checked at
//! once.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::base::clock::Moment;
use crate::peers::core::Core;
use crate::presence::own_lease::LeaseState;
use crate::store::{Lease, LeaseReply, RenewLease};
use crate::sync::features::Features;
use crate::sync::seen::SeenUsers;

/// A renewal that takes longer was not waiting for the store: its call has a shorter deadline.
const SLOWEST_CALL: Duration = Duration::from_secs(3);

pub struct LeaseKeeper {
    pub core: Arc<Core>,
    pub seen: Arc<SeenUsers>,
    pub features: Features,
}

impl LeaseKeeper {
    pub async fn run(self, stop: CancellationToken) {
        let mut held: Option<Lease> = None;
        let mut number = 0;
        let mut was_late = false;
        loop {
            let asked = self.core.clock.now();
            number += 1;
            let wait = self.renew(&mut held, number).await;
            // An attempt that took much longer than a call may take tells only that the process
            // stood still meanwhile.
            let took = Duration::from_millis(self.core.clock.now().since(asked));
            if took <= SLOWEST_CALL + self.core.config.lease_refresh {
                self.core.gateways.own.note_attempt(self.core.clock.now());
            }
            let state = self.core.gateways.own.state(self.core.clock.now());
            let is_late = state != LeaseState::InTime;
            if was_late != is_late {
                was_late = is_late;
                self.core.rooms.count_all();
                Self::report(state);
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
                () = self.core.gateways.own.renewal_wanted() => {}
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
        let asked = self.core.clock.now();
        let own = self.core.gateways.own.life();
        let burials = self.core.gateways.burials(asked);
        let renewal = RenewLease {
            gateway: own.id.clone(),
            held: *held,
            number,
            unheard: self.core.store.echo(&own.id, number),
            burials,
        };
        let leases = match self.core.store.renew_lease(&renewal).await {
            Ok(LeaseReply::Renewed(leases)) => leases,
            Ok(LeaseReply::Dead) => {
                self.features.buried().await;
                *held = None;
                let next = self.core.gateways.own.begin_anew();
                tracing::warn!(
                    former = %own.id, gateway_id = %next.id,
                    "this gateway was buried; it continues under a new id"
                );
                self.core.metrics.buried_itself.inc();
                // The lease may be one of older data with which the store came back.
                self.core.checks.doubt_all();
                self.core.rooms.tell_all_again();
                // The first renewal under a new id is made at once.
                return Duration::ZERO;
            }
            Err(why) => {
                tracing::debug!(error = %why, "the lease was not renewed, will try again");
                return self.core.config.lease_refresh / 4;
            }
        };
        let was_lost = held.is_some_and(|held| held.born != leases.own.born);
        if was_lost {
            tracing::warn!("this gateway's lease was lost; checking everything that it holds");
            self.core.metrics.lease_lost.inc();
            self.core.checks.doubt_all();
            self.seen.forget();
        }
        self.core.gateways.own.note_renewal(asked);
        let were_unproven = self.core.gateways.own.are_peers_unproven();
        let is_anew = held.is_none() && own.number > 1;
        *held = Some(leases.own);
        let change = self
            .core
            .gateways
            .looked(&own.id, &leases, asked, self.core.clock.now());
        if was_lost || is_anew {
            self.core.gateways.doubt();
        }
        if self.core.gateways.own.are_peers_unproven() != were_unproven {
            self.core.rooms.count_all();
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
                self.core.metrics.buried.inc();
            }
        }
        if change.roster {
            self.core
                .checks
                .roster_changed(&self.core.gateways.roster());
        }
        let due = self
            .core
            .gateways
            .next_look()
            .unwrap_or(Moment::NEVER)
            .since(self.core.clock.now());
        self.core
            .config
            .lease_refresh
            .mul_f64(rand::random_range(0.9..1.0))
            .min(Duration::from_millis(due.max(20)))
    }
}
