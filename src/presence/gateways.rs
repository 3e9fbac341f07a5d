//! Tells which gateways are alive, as this one sees it: it reads all leases with each renewal of
//! its own, and judges them by its own monotonic clock. Pure: times and answers come in, burials go
//! out. `sync::lease` makes the calls; all other parts read the [`Roster`].
//!
//! A gateway whose count does not change for [`LeaseObserver::silence`] is to be buried. An observer
//! that could not read the leases for a while starts its observations again: while nobody can reach
//! the leases, nobody can renew one. So only the observer's own clock takes part, and only as the
//! time between two of its own looks.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::own_lease::OwnLease;
use crate::base::clock::{Millis, Moment, UnixMillis, millis};
use crate::base::ids::GatewayId;
use crate::store::{Burial, Leases, LivingGateway};

/// The gateways as the last look at the leases saw them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roster {
    /// Gateways with a lease, this one included, and gateways whose lease vanished less than a
    /// lease ago: the store lost its data, and they have yet to renew.
    pub living: BTreeSet<GatewayId>,
    /// Living gateways that have not renewed for half a lease, or whose lease vanished.
    pub late: BTreeSet<GatewayId>,
    /// Buried gateways.
    pub dead: HashSet<GatewayId>,
    /// Gateways that were unknown in the last look and have sent a message since.
    just_heard: BTreeSet<GatewayId>,
}

impl Roster {
    /// Whether a gateway's viewers count.
    pub fn counts(&self, gateway: &GatewayId) -> bool {
        self.living.contains(gateway) || self.just_heard.contains(gateway)
    }

    /// Whether a gateway is neither living nor buried: its lease was lost, or it is of another
    /// version of this program.
    pub fn is_unknown(&self, gateway: &GatewayId) -> bool {
        !self.counts(gateway) && !self.dead.contains(gateway)
    }
}

/// The gateways, this one among them.
#[derive(Debug)]
pub struct Gateways {
    pub(crate) own: Arc<OwnLease>,
    roster: ArcSwap<Roster>,
    observer: Mutex<LeaseObserver>,
    /// Dead gateways whose members may still be in some slice, and when this gateway learned of the
    /// burial.
    unswept: Mutex<HashMap<GatewayId, Moment>>,
    /// When dead gateways last renewed their leases, by the store's clock.
    renewed: Mutex<HashMap<GatewayId, UnixMillis>>,
    buried: Notify,
}

/// The changes that a look found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RosterChange {
    /// Gateways that were buried since the last look.
    pub died: Vec<GatewayId>,
    /// Whether the roster changed.
    pub roster: bool,
}

impl Gateways {
    /// A state without other gateways. Leases have the length `lease`, and gateways renew them
    /// every `refresh`.
    pub fn new(lease: Duration, refresh: Duration) -> Self {
        Self {
            own: Arc::new(OwnLease::new(lease / 2)),
            roster: ArcSwap::default(),
            observer: Mutex::new(LeaseObserver {
                lease: millis(lease),
                refresh: millis(refresh),
                ..LeaseObserver::default()
            }),
            unswept: Mutex::default(),
            renewed: Mutex::default(),
            buried: Notify::new(),
        }
    }

    pub(crate) fn id(&self) -> GatewayId {
        self.own.life().id.clone()
    }

    pub(crate) async fn next_burial(&self) {
        self.buried.notified().await;
    }

    /// The dead gateways that may still have members somewhere.
    pub(crate) fn unswept(&self) -> HashSet<GatewayId> {
        self.unswept.lock().keys().cloned().collect()
    }

    /// Notes that these gateways were swept from every open live.
    pub(crate) fn swept(&self, dead: &HashSet<GatewayId>) {
        self.unswept
            .lock()
            .retain(|gateway, _| !dead.contains(gateway));
    }

    /// Leaves the sweeps to another gateway.
    pub(crate) fn forget_unswept(&self) {
        self.unswept.lock().clear();
    }

    /// Notes that the store lost data, or came back with older data. The leases that this gateway
    /// knows, and the data of their gateways, are in doubt until each lease was renewed twice: with
    /// the first renewal a gateway discovers the loss, and by the second it has written its data
    /// again.
    pub fn doubt(&self) {
        let mut observer = self.observer.lock();
        observer.doubt();
        self.own.set_peers_unproven(!observer.unproven.is_empty());
    }

    /// When this gateway learned of a burial, if its sweep is not over.
    pub(crate) fn buried_at(&self, gateway: &GatewayId) -> Option<Moment> {
        self.unswept.lock().get(gateway).copied()
    }

    /// When a dead gateway last renewed its lease, by the store's clock. The time only tells people
    /// when the gateway's users were last here; it decides nothing.
    pub(crate) fn renewed_at(&self, gateway: &GatewayId) -> Option<UnixMillis> {
        self.renewed.lock().get(gateway).copied()
    }

    /// The time since the oldest burial whose sweep is not over.
    pub(crate) fn oldest_unswept(&self, now: Moment) -> Duration {
        let oldest = self.unswept.lock().values().min().copied();
        match oldest {
            Some(at) => Duration::from_millis(now.since(at)),
            None => Duration::ZERO,
        }
    }

    pub(crate) fn roster(&self) -> Arc<Roster> {
        self.roster.load_full()
    }

    /// Notes a message of a gateway. An unknown gateway started after the last look, and counts as
    /// living until the next look. True if the gateway was unknown.
    pub(crate) fn heard(&self, gateway: &GatewayId) -> bool {
        if !self.roster.load().is_unknown(gateway) {
            return false;
        }
        let _one_at_a_time = self.observer.lock();
        let mut roster = Roster::clone(&self.roster.load());
        roster.just_heard.insert(gateway.clone());
        self.roster.store(Arc::new(roster));
        true
    }

    /// Notes an unknown gateway that has an entry in a slice but no lease.
    pub fn note_unlisted(&self, gateway: &GatewayId, now: Moment) {
        self.observer
            .lock()
            .unlisted
            .entry(gateway.clone())
            .or_insert(now);
    }

    /// The gateways to bury with the look that is about to be made.
    pub fn burials(&self, now: Moment) -> Vec<Burial> {
        self.observer.lock().burials(now)
    }

    /// When the next look is due, so that no burial is late.
    pub(crate) fn next_look(&self) -> Option<Moment> {
        self.observer.lock().next_look()
    }

    /// Notes the leases, asked for at `asked` and answered at `now`. The walk sweeps the members of
    /// the newly buried gateways.
    pub fn looked(
        &self,
        own: &GatewayId,
        leases: &Leases,
        asked: Moment,
        now: Moment,
    ) -> RosterChange {
        let mut observer = self.observer.lock();
        if now.since(asked) > observer.gap() {
            // The answer is old.
            observer.restart(now);
        }
        observer.looked(own, leases, now);
        self.own.set_peers_unproven(!observer.unproven.is_empty());
        let before = self.roster.load();
        let mut living: BTreeSet<GatewayId> = observer.vanished.keys().cloned().collect();
        for there in &leases.living {
            living.insert(there.gateway.clone());
        }
        let roster = Roster {
            living,
            late: observer.late(now),
            dead: leases
                .dead
                .iter()
                .map(|(gateway, _)| gateway.clone())
                .collect(),
            just_heard: BTreeSet::new(),
        };
        let change = RosterChange {
            died: roster.dead.difference(&before.dead).cloned().collect(),
            roster: roster != **before,
        };
        if change.roster {
            self.roster.store(Arc::new(roster));
        }
        if !change.died.is_empty() {
            *self.renewed.lock() = leases.dead.iter().cloned().collect();
            let mut unswept = self.unswept.lock();
            for gateway in &change.died {
                unswept.entry(gateway.clone()).or_insert(now);
            }
            self.buried.notify_one();
        }
        change
    }
}

/// The observations of the leases.
#[derive(Debug, Default)]
struct LeaseObserver {
    lease: Millis,
    refresh: Millis,
    seen: HashMap<GatewayId, SeenLease>,
    /// Gateways whose lease is gone although nobody buried them, and since when.
    vanished: HashMap<GatewayId, Moment>,
    /// Gateways with an entry in some slice and without a lease, and since when that is known.
    unlisted: HashMap<GatewayId, Moment>,
    /// Gateways whose data is in doubt, and how often each must still renew its lease.
    unproven: HashMap<GatewayId, u8>,
    /// When the last look had its answer.
    answered: Option<Moment>,
}

/// A lease as the last look saw it.
#[derive(Debug, Clone, Copy)]
struct SeenLease {
    count: u64,
    /// When a look first saw this count.
    since: Moment,
}

/// The number of renewals that prove a gateway's data after the store lost data.
const PROOFS: u8 = 2;

impl LeaseObserver {
    fn doubt(&mut self) {
        self.unproven = self
            .seen
            .keys()
            .chain(self.vanished.keys())
            .map(|gateway| (gateway.clone(), PROOFS))
            .collect();
    }

    /// Notes that a gateway has renewed its lease since the last look.
    fn renewed(&mut self, gateway: &GatewayId) {
        let Some(left) = self.unproven.get_mut(gateway) else {
            return;
        };
        *left -= 1;
        if *left == 0 {
            self.unproven.remove(gateway);
        }
    }

    /// How long a count must stay the same until its gateway is dead: half a refresh less than a
    /// lease, since the first look at a count comes up to a whole refresh after the renewal. So the
    /// dead are out within a lease and two seconds.
    fn silence(&self) -> Millis {
        self.lease - self.refresh / 2
    }

    /// Between two looks that are this far apart, anything may have happened to the leases.
    fn gap(&self) -> Millis {
        self.refresh * 5 / 2
    }

    fn restart(&mut self, now: Moment) {
        for lease in self.seen.values_mut() {
            lease.since = now;
        }
        for since in self.vanished.values_mut() {
            *since = now;
        }
        for since in self.unlisted.values_mut() {
            *since = now;
        }
    }

    fn burials(&mut self, now: Moment) -> Vec<Burial> {
        let has_gap = match self.answered {
            Some(answered) => now.since(answered) > self.gap(),
            None => true,
        };
        if has_gap {
            self.restart(now);
            return Vec::new();
        }
        let silence = self.silence();
        let mut burials = Vec::new();
        for (gateway, lease) in &self.seen {
            if now.since(lease.since) >= silence {
                burials.push(Burial {
                    gateway: gateway.clone(),
                    count: Some(lease.count),
                });
            }
        }
        for (gateway, since) in self.without_lease() {
            if now.since(*since) >= self.lease {
                burials.push(Burial {
                    gateway: gateway.clone(),
                    count: None,
                });
            }
        }
        burials
    }

    /// Gateways that have no lease, or have lost it, and since when that is known.
    fn without_lease(&self) -> impl Iterator<Item = (&GatewayId, &Moment)> {
        self.vanished.iter().chain(&self.unlisted)
    }

    fn looked(&mut self, own: &GatewayId, leases: &Leases, now: Moment) {
        let before = std::mem::take(&mut self.seen);
        for LivingGateway { gateway, count, .. } in &leases.living {
            if gateway == own {
                continue;
            }
            let since = match before.get(gateway) {
                Some(known) if known.count == *count => known.since,
                _ => {
                    self.renewed(gateway);
                    now
                }
            };
            let count = *count;
            self.seen
                .insert(gateway.clone(), SeenLease { count, since });
            self.unlisted.remove(gateway);
            self.vanished.remove(gateway);
        }
        for gateway in before.into_keys() {
            if !self.seen.contains_key(&gateway) {
                self.vanished.entry(gateway).or_insert(now);
            }
        }
        for gateway in leases.dead.iter().map(|(gateway, _)| gateway).chain([own]) {
            self.vanished.remove(gateway);
            self.unlisted.remove(gateway);
        }
        self.unproven.retain(|gateway, _| {
            self.seen.contains_key(gateway) || self.vanished.contains_key(gateway)
        });
        self.answered = Some(now);
    }

    fn late(&self, now: Moment) -> BTreeSet<GatewayId> {
        let mut late: BTreeSet<GatewayId> = self.vanished.keys().cloned().collect();
        for (gateway, lease) in &self.seen {
            if now.since(lease.since) >= self.lease / 2 {
                late.insert(gateway.clone());
            }
        }
        late
    }

    fn next_look(&self) -> Option<Moment> {
        let silence = self.silence();
        let silent = self.seen.values().map(|lease| lease.since + silence);
        let lost = self.without_lease().map(|(_, since)| *since + self.lease);
        silent.chain(lost).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;
    use crate::store::Lease;

    fn id(name: &str) -> GatewayId {
        GatewayId::parse(name).unwrap()
    }

    fn leases(living: &[(&str, u64)], dead: &[&str]) -> Leases {
        Leases {
            own: Lease { born: 0, count: 1 },
            living: living
                .iter()
                .map(|(name, count)| LivingGateway {
                    gateway: id(name),
                    count: *count,
                    unheard: BTreeSet::new(),
                })
                .collect(),
            dead: dead.iter().map(|name| (id(name), 0)).collect(),
        }
    }

    /// Leases of 15 s that are renewed each 2 s: 14 s of standing still are death, and 5 s without
    /// a look a gap.
    fn gateways() -> Gateways {
        Gateways::new(Duration::from_secs(15), Duration::from_secs(2))
    }

    fn look(
        gateways: &Gateways,
        now: Moment,
        living: &[(&str, u64)],
        dead: &[&str],
    ) -> (Vec<Burial>, RosterChange) {
        let burials = gateways.burials(now);
        (
            burials,
            gateways.looked(&id("me"), &leases(living, dead), now, now),
        )
    }

    #[test]
    fn a_gateway_whose_count_stands_still_is_buried_by_the_observers_own_clock_and_only_at_that_count()
     {
        let gateways = gateways();
        for now in (0..=12).step_by(2) {
            let (burials, _) = look(
                &gateways,
                moment(now * 1_000),
                &[("me", now), ("a", 7)],
                &[],
            );
            assert_eq!(burials, []);
        }
        assert_eq!(gateways.next_look(), Some(moment(14_000)));
        let (burials, change) = look(&gateways, moment(14_000), &[("me", 9)], &["a"]);
        assert_eq!(
            burials,
            [Burial {
                gateway: id("a"),
                count: Some(7)
            }]
        );
        assert_eq!(change.died, [id("a")]);
        assert!(!gateways.roster().counts(&id("a")) && gateways.roster().counts(&id("me")));
    }

    #[test]
    fn a_gateway_whose_count_grows_is_alive_and_one_that_rests_for_half_a_lease_is_late() {
        let gateways = gateways();
        for now in (0..60).step_by(4) {
            let (burials, _) = look(
                &gateways,
                moment(now * 1_000),
                &[("a", now), ("b", now / 12)],
                &[],
            );
            assert_eq!(burials, [], "{now}");
            let late = gateways.roster().late.contains(&id("b"));
            assert_eq!(late, now % 12 == 8, "{now}");
        }
    }

    #[test]
    fn an_observer_that_could_not_look_starts_again() {
        let gateways = gateways();
        look(&gateways, moment(0), &[("a", 7)], &[]);
        let (burials, _) = look(&gateways, moment(20_000), &[("a", 7)], &[]);
        assert_eq!(
            burials,
            [],
            "the leases may have been away, and with them every renewal"
        );
        for now in (22..34).step_by(2) {
            look(&gateways, moment(now * 1_000), &[("a", 7)], &[]);
        }
        assert_eq!(gateways.burials(moment(34_000)).len(), 1);
    }

    #[test]
    fn a_gateway_with_an_entry_and_no_lease_is_buried_after_a_lease() {
        let gateways = gateways();
        look(&gateways, moment(0), &[], &[]);
        gateways.note_unlisted(&id("lost"), moment(1_000));
        gateways.note_unlisted(&id("back"), moment(1_000));
        for now in (2..16).step_by(2) {
            assert_eq!(
                look(&gateways, moment(now * 1_000), &[("back", now)], &[]).0,
                []
            );
        }
        assert_eq!(
            gateways.burials(moment(16_000)),
            [Burial {
                gateway: id("lost"),
                count: None
            }]
        );
    }

    #[test]
    fn a_gateway_whose_lease_vanished_counts_for_one_more_lease_and_is_buried_then() {
        let gateways = gateways();
        look(&gateways, moment(0), &[("a", 7), ("b", 1)], &[]);
        look(&gateways, moment(2_000), &[], &["b"]);
        let roster = gateways.roster();
        assert!(
            roster.counts(&id("a")) && roster.late.contains(&id("a")) && !roster.counts(&id("b"))
        );
        look(&gateways, moment(4_000), &[("a", 8)], &[]);
        assert!(gateways.roster().late.is_empty());
        for now in (6..22).step_by(2) {
            assert_eq!(look(&gateways, moment(now * 1_000), &[], &[]).0, []);
        }
        assert_eq!(gateways.next_look(), Some(moment(21_000)));
        // Its time came while the store was asked: the next look buries it.
        assert_eq!(gateways.burials(moment(20_990)), []);
        gateways.looked(&id("me"), &leases(&[], &[]), moment(20_990), moment(21_010));
        let (burials, _) = look(&gateways, moment(21_020), &[], &["a"]);
        assert_eq!(
            burials,
            [Burial {
                gateway: id("a"),
                count: None
            }]
        );
        assert!(!gateways.roster().counts(&id("a")));
    }

    #[test]
    fn after_a_loss_every_gateway_is_in_doubt_until_it_renewed_twice_or_was_buried() {
        let gateways = gateways();
        look(
            &gateways,
            moment(0),
            &[("me", 1), ("a", 7), ("b", 7), ("old", 3)],
            &[],
        );
        assert!(!gateways.own.are_peers_unproven());
        gateways.doubt();
        look(
            &gateways,
            moment(2_000),
            &[("me", 2), ("a", 8), ("old", 3)],
            &[],
        );
        look(
            &gateways,
            moment(4_000),
            &[("me", 3), ("a", 9), ("b", 1), ("old", 3)],
            &[],
        );
        look(
            &gateways,
            moment(6_000),
            &[("me", 4), ("a", 10), ("b", 2), ("old", 3)],
            &[],
        );
        assert!(
            gateways.own.are_peers_unproven(),
            "a lease of older data does not move"
        );
        look(
            &gateways,
            moment(8_000),
            &[("me", 5), ("a", 11), ("b", 3)],
            &["old"],
        );
        assert!(!gateways.own.are_peers_unproven());
    }

    #[test]
    fn a_gateway_that_has_just_started_counts_before_its_lease_was_seen() {
        let gateways = gateways();
        look(&gateways, moment(0), &[], &["dead"]);
        assert!(
            gateways.heard(&id("new"))
                && !gateways.heard(&id("new"))
                && !gateways.heard(&id("dead"))
        );
        assert!(gateways.roster().counts(&id("new")) && !gateways.roster().counts(&id("dead")));
        look(&gateways, moment(2_000), &[], &["dead"]);
        assert!(!gateways.roster().counts(&id("new")), "it has no lease");
    }
}
