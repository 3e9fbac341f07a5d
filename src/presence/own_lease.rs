//! This gateway's own lease and its ids, as the parts of the gateway read them. `sync::lease`
//! renews the lease.
//!
//! Peers may bury a gateway that does not renew its lease. A buried gateway never comes back under
//! the same id: it goes on under a new one, which is a new [`Incarnation`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::base::clock::{Millis, millis};
use crate::base::ids::GatewayId;

/// One life of this gateway: from one id to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incarnation {
    pub id: GatewayId,
    /// Counts the lives of this process, from 1.
    pub number: u32,
}

#[derive(Debug, Default)]
pub struct OwnLease {
    incarnation: ArcSwap<Incarnation>,
    /// The ids under which this gateway was buried.
    former: Mutex<Vec<GatewayId>>,
    /// When the gateway asked for the last renewal that had an answer, under the present id; 0 is
    /// never.
    renewed: AtomicU64,
    /// The same under a former id.
    renewed_before: AtomicU64,
    /// When the last renewal ended, with an answer or without; 0 is never.
    tried: AtomicU64,
    /// How often the lease was renewed, under all ids.
    renewals: AtomicU64,
    /// Since this gateway last found that the store lost data, some other gateway has not renewed
    /// its lease twice.
    peers_unproven: AtomicBool,
    /// The lease is late, or the store is away: this gateway does not know the state of the others.
    out_of_touch: AtomicBool,
    /// A slice answered that it has no entry of this gateway, and the lease was not renewed since.
    in_doubt: AtomicBool,
    /// The lease is to be renewed before its time.
    wanted: Notify,
}

impl Default for Incarnation {
    fn default() -> Self {
        Self {
            id: GatewayId::random(),
            number: 1,
        }
    }
}

impl OwnLease {
    /// Gives the first incarnation its id, before any call is made under another one.
    pub fn begin_as(&self, id: GatewayId) {
        self.incarnation
            .store(Arc::new(Incarnation { id, number: 1 }));
    }

    pub fn incarnation(&self) -> Arc<Incarnation> {
        self.incarnation.load_full()
    }

    pub fn id(&self) -> GatewayId {
        self.incarnation.load().id.clone()
    }

    /// Whether an id is, or was, this gateway's.
    pub fn is_own(&self, gateway: &GatewayId) -> bool {
        self.incarnation.load().id == *gateway || self.former.lock().contains(gateway)
    }

    /// Whether the lease was renewed less than `within` ago.
    pub fn is_fresh(&self, now: Millis, within: Duration) -> bool {
        let renewed = self.renewed_at();
        renewed != 0 && now.saturating_sub(renewed) <= millis(within)
    }

    /// Whether the gateway renewed no lease for the time `after`, under this id or a former one. If
    /// it never renewed one, the time counts from the start.
    pub fn is_late(&self, now: Millis, after: Duration) -> bool {
        let last = self
            .renewed_at()
            .max(self.renewed_before.load(Ordering::Relaxed));
        now.saturating_sub(last) > millis(after)
    }

    /// Whether the lease was ever renewed under the present id.
    pub fn was_ever_renewed(&self) -> bool {
        self.renewed_at() != 0
    }

    /// The same under this id or a former one.
    pub fn was_ever_renewed_at_all(&self) -> bool {
        self.was_ever_renewed() || self.renewed_before.load(Ordering::Relaxed) != 0
    }

    pub fn renewed_at(&self) -> Millis {
        self.renewed.load(Ordering::Relaxed)
    }

    /// Notes that a slice has no entry of this gateway: a peer may have buried the gateway, or the
    /// store lost data.
    pub fn doubt(&self) {
        self.in_doubt.store(true, Ordering::Relaxed);
    }

    /// Has the lease renewed at once: a slice refused a call, so the gateway may have been buried.
    pub fn renew_now(&self) {
        self.wanted.notify_one();
    }

    /// Returns when the lease is to be renewed at once.
    pub async fn renewal_wanted(&self) {
        self.wanted.notified().await;
    }

    /// Whether this gateway may make entries: it has just renewed its lease; or the lease's node is
    /// away, and no slice has answered since that it has no entry of this gateway. A gateway that
    /// was frozen has not tried to renew. A peer may have buried it meanwhile, so it must try
    /// first.
    pub fn may_register(&self, now: Millis, fresh: Duration) -> bool {
        let tried = now.saturating_sub(self.tried.load(Ordering::Relaxed)) <= millis(fresh);
        self.is_fresh(now, fresh)
            || (tried && self.was_ever_renewed() && !self.in_doubt.load(Ordering::Relaxed))
    }

    /// Notes that a renewal ended, with an answer or without.
    pub fn note_attempt(&self, now: Millis) {
        self.tried.store(now, Ordering::Relaxed);
    }

    /// How often the lease was renewed, under all ids.
    pub fn renewals(&self) -> u64 {
        self.renewals.load(Ordering::Relaxed)
    }

    /// Notes whether other gateways may not have found yet that the store lost data.
    pub fn set_peers_unproven(&self, unproven: bool) {
        self.peers_unproven.store(unproven, Ordering::Relaxed);
    }

    /// Whether other gateways may not have found yet that the store lost data: figures are in
    /// doubt.
    pub fn are_peers_unproven(&self) -> bool {
        self.peers_unproven.load(Ordering::Relaxed)
    }

    /// Notes whether the lease is late, or the store away.
    pub fn set_out_of_touch(&self, is_out: bool) {
        self.out_of_touch.store(is_out, Ordering::SeqCst);
    }

    /// Whether this gateway knows which peers live, and they know what the store holds.
    pub fn sees_peers(&self) -> bool {
        !self.are_peers_unproven() && !self.out_of_touch.load(Ordering::SeqCst)
    }

    /// Notes that the renewal asked for at `asked` succeeded. Peaks noted before become sure, so a
    /// caller that found a loss with this renewal must note the doubt first.
    pub fn note_renewal(&self, asked: Millis) {
        self.renewals.fetch_add(1, Ordering::Relaxed);
        self.in_doubt.store(false, Ordering::Relaxed);
        self.renewed.store(asked.max(1), Ordering::Relaxed);
    }

    /// Takes a new id, and returns the incarnation that begins with it.
    pub fn begin_anew(&self) -> Arc<Incarnation> {
        let former = self.incarnation();
        let next = Arc::new(Incarnation {
            id: GatewayId::random(),
            number: former.number + 1,
        });
        self.former.lock().push(former.id.clone());
        self.renewed_before
            .fetch_max(self.renewed_at(), Ordering::Relaxed);
        self.renewed.store(0, Ordering::Relaxed);
        self.incarnation.store(next.clone());
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESH: Duration = Duration::from_secs(5);

    #[test]
    fn a_gateway_makes_entries_with_a_fresh_lease_or_while_it_tries_in_vain_to_renew_it() {
        let lease = OwnLease::default();
        lease.note_attempt(1_000);
        assert!(!lease.may_register(1_000, FRESH), "it never had a lease");
        lease.note_renewal(1_000);
        assert!(lease.may_register(6_000, FRESH));
        lease.note_attempt(20_000);
        assert!(
            lease.may_register(20_000, FRESH),
            "the node of the leases is away"
        );
        lease.doubt();
        assert!(
            !lease.may_register(20_000, FRESH),
            "a slice knew nothing of this gateway"
        );
    }

    #[test]
    fn a_lease_is_late_too_if_it_was_never_renewed() {
        let (lease, late) = (OwnLease::default(), Duration::from_secs(7));
        assert!(!lease.is_late(7_000, late), "the gateway has just started");
        assert!(lease.is_late(7_001, late));
        lease.note_renewal(8_000);
        assert!(!lease.is_late(15_000, late) && lease.is_late(15_001, late));
        lease.begin_anew();
        assert!(
            !lease.is_late(15_000, late) && lease.is_late(15_001, late),
            "a new id is no lease"
        );
    }

    #[test]
    fn a_gateway_that_was_frozen_makes_no_entry_before_it_tried_to_renew_its_lease() {
        let lease = OwnLease::default();
        lease.note_renewal(1_000);
        lease.note_attempt(1_000);
        assert!(
            !lease.may_register(50_000, FRESH),
            "it may have been buried meanwhile"
        );
    }
}
