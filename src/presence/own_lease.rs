//! This gateway's own lease and its ids, as the parts of the gateway read them, and whether the
//! gateway knows its peers. `sync::lease` renews the lease.
//!
//! Peers may bury a gateway that does not renew its lease. A buried gateway never comes back under
//! the same id: it goes on under a new one, which is a new [`Life`].

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::base::clock::{Moment, millis};
use crate::base::ids::GatewayId;
use crate::store::Health;

/// One life of this gateway: from one id to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Life {
    pub id: GatewayId,
    /// Counts the lives of this process, from 1.
    pub number: u32,
}

/// The state of this gateway's own lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseState {
    /// The gateway renewed it in time, or has just started.
    InTime,
    /// The gateway did not renew it in time, and so does not see which peers live.
    Late,
    /// Late, and the gateway never had a lease under its present id. So it makes no entries, and
    /// its users are not in the store.
    NoneUnderThisId,
    /// The same, and the gateway never had a lease under a former id either.
    NeverAny,
}

/// No heartbeat takes the lock.
#[derive(Debug)]
pub struct OwnLease {
    /// The time without a renewal after which the lease is late.
    late_after: Duration,
    state: Mutex<OwnLeaseState>,
    /// The lease is to be renewed before its time.
    wanted: Notify,
}

#[derive(Debug, Default)]
struct OwnLeaseState {
    life: Arc<Life>,
    /// The ids under which this gateway was buried.
    former: Vec<GatewayId>,
    /// When the gateway asked for the last renewal that had an answer, under the present id.
    renewed: Option<Moment>,
    /// The same under a former id.
    renewed_before: Option<Moment>,
    /// When the last renewal ended, with an answer or without.
    tried: Option<Moment>,
    /// How often the lease was renewed, under all ids.
    renewals: u64,
    /// A slice answered that it has no entry of this gateway, and the lease was not renewed since.
    entry_lost: bool,
    store_is_down: bool,
    /// Since this gateway last found that the store lost data, some other gateway has not renewed
    /// its lease twice.
    peers_unproven: bool,
}

impl Default for Life {
    fn default() -> Self {
        Self {
            id: GatewayId::random(),
            number: 1,
        }
    }
}

impl OwnLease {
    /// A lease that was never renewed, and is late after this time without a renewal.
    pub fn new(late_after: Duration) -> Self {
        Self {
            late_after,
            state: Mutex::default(),
            wanted: Notify::new(),
        }
    }

    // ------------------------------------------------------------------------------------- the ids

    /// Gives the first life its id, before any call is made under another one.
    pub fn begin_as(&self, id: GatewayId) {
        self.state.lock().life = Arc::new(Life { id, number: 1 });
    }

    pub fn life(&self) -> Arc<Life> {
        self.state.lock().life.clone()
    }

    /// Whether an id is, or was, this gateway's.
    pub fn is_own(&self, gateway: &GatewayId) -> bool {
        let state = self.state.lock();
        state.life.id == *gateway || state.former.contains(gateway)
    }

    /// Takes a new id, and returns the life that begins with it.
    pub fn begin_anew(&self) -> Arc<Life> {
        let mut state = self.state.lock();
        let next = Arc::new(Life {
            id: GatewayId::random(),
            number: state.life.number + 1,
        });
        let former = std::mem::replace(&mut state.life, next.clone());
        state.former.push(former.id.clone());
        let renewed = state.renewed.take();
        state.renewed_before = state.renewed_before.max(renewed);
        next
    }

    // ----------------------------------------------------------------------------------- the lease

    /// The state of the lease at `now`. A gateway without a lease is late when its process has run
    /// for as long.
    pub fn state(&self, now: Moment) -> LeaseState {
        let state = self.state.lock();
        if !state.is_late(now, self.late_after) {
            LeaseState::InTime
        } else if state.renewed.is_some() {
            LeaseState::Late
        } else if state.renewed_before.is_some() {
            LeaseState::NoneUnderThisId
        } else {
            LeaseState::NeverAny
        }
    }

    /// When the gateway asked for the last renewal under its present id; [`Moment::START`] is
    /// never.
    pub fn renewed_at(&self) -> Moment {
        self.state.lock().renewed.unwrap_or_default()
    }

    /// How often the lease was renewed, under all ids.
    pub fn renewals(&self) -> u64 {
        self.state.lock().renewals
    }

    /// Notes that the renewal asked for at `asked` succeeded. Peaks noted before become sure, so a
    /// caller that found a loss with this renewal must note the doubt first.
    pub fn note_renewal(&self, asked: Moment) {
        let mut state = self.state.lock();
        state.renewals += 1;
        state.entry_lost = false;
        state.renewed = Some(asked);
    }

    /// Notes that a renewal ended, with an answer or without.
    pub fn note_attempt(&self, now: Moment) {
        self.state.lock().tried = Some(now);
    }

    /// Notes that a slice has no entry of this gateway: a peer may have buried the gateway, or the
    /// store lost data.
    pub fn note_entry_lost(&self) {
        self.state.lock().entry_lost = true;
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
    pub fn may_register(&self, now: Moment, fresh: Duration) -> bool {
        let state = self.state.lock();
        let tries_in_vain = state.renewed.is_some() && is_recent(state.tried, now, fresh);
        is_recent(state.renewed, now, fresh) || (tries_in_vain && !state.entry_lost)
    }

    // ----------------------------------------------------------------------------------- the peers

    /// Whether this gateway knows which peers live, and they know what the store holds.
    pub fn knows_peers(&self, now: Moment) -> bool {
        let state = self.state.lock();
        // A gateway that cannot renew its lease cannot see which peers live. A store that lost its
        // data may lack what other gateways hold, or have what they hold no longer.
        !state.is_late(now, self.late_after) && !state.peers_unproven
    }

    /// Notes whether other gateways may not have found yet that the store lost data.
    pub(super) fn set_peers_unproven(&self, unproven: bool) {
        self.state.lock().peers_unproven = unproven;
    }

    /// Whether other gateways may not have found yet that the store lost data.
    pub fn are_peers_unproven(&self) -> bool {
        self.state.lock().peers_unproven
    }

    /// Notes whether the store answers. A caller that found that the store is back must have noted
    /// first what is in doubt.
    pub fn note_store(&self, health: Health) {
        self.state.lock().store_is_down = health == Health::Down;
    }

    pub fn is_store_down(&self) -> bool {
        self.state.lock().store_is_down
    }
}

impl OwnLeaseState {
    fn is_late(&self, now: Moment, after: Duration) -> bool {
        let last = self.renewed.max(self.renewed_before).unwrap_or_default();
        now.since(last) > millis(after)
    }
}

fn is_recent(at: Option<Moment>, now: Moment, within: Duration) -> bool {
    at.is_some_and(|at| now.since(at) <= millis(within))
}

#[cfg(test)]
impl Default for OwnLease {
    fn default() -> Self {
        Self::new(Duration::from_millis(7_500))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;

    const FRESH: Duration = Duration::from_secs(5);

    fn lease() -> OwnLease {
        OwnLease::new(Duration::from_secs(7))
    }

    #[test]
    fn a_gateway_makes_entries_with_a_fresh_lease_or_while_it_tries_in_vain_to_renew_it() {
        let lease = lease();
        lease.note_attempt(moment(1_000));
        assert!(
            !lease.may_register(moment(1_000), FRESH),
            "it never had a lease"
        );
        lease.note_renewal(moment(1_000));
        assert!(lease.may_register(moment(6_000), FRESH));
        lease.note_attempt(moment(20_000));
        assert!(
            lease.may_register(moment(20_000), FRESH),
            "the node of the leases is away"
        );
        lease.note_entry_lost();
        assert!(
            !lease.may_register(moment(20_000), FRESH),
            "a slice knew nothing of this gateway"
        );
    }

    #[test]
    fn a_lease_is_late_too_if_it_was_never_renewed() {
        let lease = lease();
        assert_eq!(
            lease.state(moment(7_000)),
            LeaseState::InTime,
            "the gateway has just started"
        );
        assert_eq!(lease.state(moment(7_001)), LeaseState::NeverAny);
        lease.note_renewal(moment(8_000));
        assert_eq!(lease.state(moment(15_000)), LeaseState::InTime);
        assert_eq!(lease.state(moment(15_001)), LeaseState::Late);
        lease.begin_anew();
        assert_eq!(lease.state(moment(15_000)), LeaseState::InTime);
        assert_eq!(
            lease.state(moment(15_001)),
            LeaseState::NoneUnderThisId,
            "a new id is no lease"
        );
    }

    #[test]
    fn a_gateway_knows_its_peers_while_its_lease_is_in_time_and_they_have_proven_their_data() {
        let lease = lease();
        lease.note_renewal(moment(1_000));
        assert!(lease.knows_peers(moment(8_000)) && !lease.knows_peers(moment(8_001)));
        lease.set_peers_unproven(true);
        assert!(!lease.knows_peers(moment(8_000)));
    }

    #[test]
    fn a_gateway_that_was_frozen_makes_no_entry_before_it_tried_to_renew_its_lease() {
        let lease = lease();
        lease.note_renewal(moment(1_000));
        lease.note_attempt(moment(1_000));
        assert!(
            !lease.may_register(moment(50_000), FRESH),
            "it may have been buried meanwhile"
        );
    }
}
