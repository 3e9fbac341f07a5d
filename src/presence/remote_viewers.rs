//! What a room knows of the viewers on other gateways. The values are absolute and numbered by their gateway, so an
//! older one never replaces a newer one, whether it came by a message or from the store. Never awaits.
//!
//! A peer's viewers count while the peer has a lease ([`Roster`]), however long it has been silent. While a peer is
//! late with its lease the figures are in doubt, since its viewers may be gone with it. They stay in doubt after its
//! burial until it was swept from the live's slices, whose sizes count its users until then.

use std::collections::{BTreeSet, HashMap, HashSet};

use parking_lot::Mutex;

use super::gateways::Roster;
use super::tally::ViewerCount;
use crate::base::ids::GatewayId;
use crate::store::{GatewayViewers, ViewerTotals};

/// The most gateways that a room remembers; further ones are ignored.
const MAX_PEERS: usize = 1_024;

/// The number of a gateway that said nothing. What gateways say has higher numbers.
const SAID_NOTHING: u64 = 0;

/// What a gateway last said.
#[derive(Debug, Clone, Copy)]
struct Peer {
    viewers: u64,
    /// Viewers among them who may be on another gateway by now.
    moving: u64,
    /// Viewers among them who are away.
    away: u64,
    number: u64,
    /// The last reading of the store had nothing of this gateway.
    missing_in_store: bool,
}

/// Viewers on other gateways.
#[derive(Debug, Default)]
pub struct RemoteViewers(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    peers: HashMap<GatewayId, Peer>,
    /// Viewers on the living gateways among them.
    count: ViewerCount,
    /// A gateway with viewers is late with its lease, or dead and not swept.
    doubt: bool,
    /// Dead gateways that had viewers and may still have members in the live's slices.
    unswept: BTreeSet<GatewayId>,
    /// The store could not be read yet.
    unread: bool,
}

impl RemoteViewers {
    /// Viewers on the other living gateways.
    pub fn viewers(&self) -> ViewerCount {
        self.0.lock().count
    }

    /// Whether a gateway with viewers is late with its lease or dead and not swept, or the store could not be read yet.
    pub(crate) fn in_doubt(&self) -> bool {
        let known = self.0.lock();
        known.doubt || known.unread
    }

    /// The dead gateways that may still have members in the live's slices.
    pub(crate) fn unswept(&self) -> BTreeSet<GatewayId> {
        self.0.lock().unswept.clone()
    }

    /// Notes that these gateways have no members in the live's slices. True as for [`RemoteViewers::heard`].
    pub(crate) fn swept(&self, gone: &BTreeSet<GatewayId>, roster: &Roster) -> bool {
        let mut known = self.0.lock();
        known.unswept.retain(|gateway| !gone.contains(gateway));
        known.sum_up(roster)
    }

    /// Notes that the store could not be read when the room was made.
    pub(crate) fn set_unread(&self) {
        self.0.lock().unread = true;
    }

    /// Notes that what the store has adds up to what is known here. True as for [`RemoteViewers::heard`].
    pub(crate) fn confirmed(&self) -> bool {
        std::mem::take(&mut self.0.lock().unread)
    }

    /// Takes in how many viewers a peer has. True if the figures or the doubt changed.
    pub(crate) fn heard(&self, peer: &GatewayId, count: ViewerCount, number: u64, roster: &Roster) -> bool {
        // What comes late from the dead tells nothing.
        if roster.dead.contains(peer) {
            return false;
        }
        let mut known = self.0.lock();
        let ViewerCount { viewers, moving, away } = count;
        let (moving, away) = (moving.min(viewers), away.min(viewers));
        known.note(peer, Peer { viewers, moving, away, number, missing_in_store: false });
        known.sum_up(roster)
    }

    /// Takes in a reading of the store; `said` leaves this gateway out. A peer that is missing in two readings in a row
    /// is forgotten: the store lost its value, and the peer would have announced it again if it still had viewers. True
    /// as for [`RemoteViewers::heard`].
    pub fn read(&self, said: &[GatewayViewers], roster: &Roster) -> bool {
        let mut known = self.0.lock();
        for said in said {
            let GatewayViewers { viewers, number, .. } = *said;
            let (moving, away) = (said.moving.min(viewers), said.away.min(viewers));
            known.note(&said.gateway, Peer { viewers, moving, away, number, missing_in_store: false });
        }
        let there: HashSet<&GatewayId> = said.iter().map(|said| &said.gateway).collect();
        known.peers.retain(|gateway, peer| {
            let was_unsaid = std::mem::replace(&mut peer.missing_in_store, !there.contains(gateway));
            !(was_unsaid && peer.missing_in_store)
        });
        let unread = std::mem::take(&mut known.unread);
        known.sum_up(roster) || unread
    }

    /// Notes that peers have an entry in a slice of all viewers. One that said nothing yet may have viewers; how many,
    /// the slices say. True as for [`RemoteViewers::heard`].
    pub(crate) fn holds(&self, gateways: &[GatewayId], roster: &Roster) -> bool {
        let mut known = self.0.lock();
        for gateway in gateways {
            known.note(gateway, Peer { viewers: 1, moving: 0, away: 0, number: SAID_NOTHING, missing_in_store: false });
        }
        known.sum_up(roster)
    }

    /// Takes in a new roster. True as for [`RemoteViewers::heard`].
    pub(crate) fn roster_changed(&self, roster: &Roster) -> bool {
        self.0.lock().sum_up(roster)
    }

    /// The other living gateways that said they have viewers. A gateway that has an entry in a slice of all viewers and
    /// said nothing may have let go of the live, and would never say that it has none.
    pub(crate) fn with_viewers(&self, roster: &Roster) -> Vec<GatewayId> {
        let known = self.0.lock();
        let with_some = known
            .peers
            .iter()
            .filter(|(gateway, peer)| peer.viewers > 0 && peer.number > SAID_NOTHING && roster.counts(gateway));
        with_some.map(|(gateway, _)| gateway.clone()).collect()
    }

    /// What the living gateways said, added up.
    pub fn said(&self, roster: &Roster) -> ViewerTotals {
        let known = self.0.lock();
        let living = known.peers.iter().filter(|(gateway, _)| roster.living.contains(*gateway));
        living.fold(ViewerTotals::default(), |sum, (_, peer)| ViewerTotals {
            viewers: sum.viewers.saturating_add(peer.viewers),
            numbers: sum.numbers.saturating_add(peer.number),
        })
    }

    /// Forgets everybody: the room has ended.
    pub(crate) fn clear(&self) {
        *self.0.lock() = Known::default();
    }
}

impl Known {
    fn sum_up(&mut self, roster: &Roster) -> bool {
        let dead = self.peers.extract_if(|gateway, _| roster.dead.contains(gateway));
        self.unswept.extend(dead.filter(|(_, peer)| peer.viewers > 0).map(|(gateway, _)| gateway));
        let counted = self.peers.iter().filter(|(gateway, _)| roster.counts(gateway));
        let count = counted.fold(ViewerCount::default(), |sum, (_, peer)| ViewerCount {
            viewers: sum.viewers.saturating_add(peer.viewers),
            moving: sum.moving.saturating_add(peer.moving),
            away: sum.away.saturating_add(peer.away),
        });
        let late = self.peers.iter().any(|(gateway, peer)| peer.viewers > 0 && roster.late.contains(gateway));
        let doubt = late || !self.unswept.is_empty();
        let before = (self.count, self.doubt);
        (self.count, self.doubt) = (count, doubt);
        before != (count, doubt)
    }

    fn note(&mut self, gateway: &GatewayId, said: Peer) {
        let full = self.peers.len() >= MAX_PEERS;
        match self.peers.get_mut(gateway) {
            Some(there) if said.number > there.number => *there = said,
            None if !full => drop(self.peers.insert(gateway.clone(), said)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gateway(name: &str) -> GatewayId {
        GatewayId::parse(name).unwrap()
    }

    fn roster(living: &[&str], late: &[&str], dead: &[&str]) -> Roster {
        let mut roster = Roster::default();
        roster.living.extend(living.iter().map(|name| gateway(name)));
        roster.late.extend(late.iter().map(|name| gateway(name)));
        roster.dead.extend(dead.iter().map(|name| gateway(name)));
        roster
    }

    fn said(name: &str, viewers: u64, number: u64) -> GatewayViewers {
        GatewayViewers { gateway: gateway(name), viewers, away: 0, moving: 0, number }
    }

    fn count(viewers: u64) -> ViewerCount {
        ViewerCount { viewers, moving: 0, away: 0 }
    }

    #[test]
    fn an_older_value_changes_nothing_whichever_way_it_comes() {
        let (peers, all) = (RemoteViewers::default(), roster(&["a", "b"], &[], &[]));
        assert!(peers.heard(&gateway("a"), count(5), 10, &all));
        assert!(!peers.heard(&gateway("a"), count(7), 9, &all));
        assert!(!peers.read(&[said("a", 8, 8)], &all));
        assert!(peers.read(&[said("a", 6, 11), said("b", 2, 1)], &all));
        assert_eq!((peers.viewers().viewers, peers.said(&all)), (8, ViewerTotals { viewers: 8, numbers: 12 }));
    }

    #[test]
    fn dead_and_unknown_gateways_do_not_count_and_late_ones_are_in_doubt() {
        let peers = RemoteViewers::default();
        peers.read(&[said("a", 5, 1), said("b", 3, 1)], &roster(&["a"], &[], &[]));
        assert_eq!((peers.viewers().viewers, peers.in_doubt()), (5, false), "b is not known yet");
        assert!(peers.roster_changed(&roster(&["a", "b"], &["a"], &[])));
        assert_eq!((peers.viewers().viewers, peers.in_doubt()), (8, true));
        let a_died = roster(&["b"], &[], &["a"]);
        assert!(peers.roster_changed(&a_died));
        assert_eq!((peers.viewers().viewers, peers.in_doubt()), (3, true), "a may have members in the slices");
        assert!(!peers.heard(&gateway("a"), count(5), 9, &a_died), "a message that comes late");
        assert!(!peers.swept(&BTreeSet::new(), &a_died) && peers.in_doubt());
        assert!(peers.swept(&peers.unswept(), &a_died) && !peers.in_doubt());
        assert!(!peers.roster_changed(&roster(&["a", "b"], &[], &[])), "the dead are forgotten");
    }

    #[test]
    fn a_peer_that_is_missing_in_two_readings_is_forgotten() {
        let (peers, all) = (RemoteViewers::default(), roster(&["a", "b"], &[], &[]));
        peers.read(&[said("a", 5, 1), said("b", 3, 1)], &all);
        assert!(!peers.read(&[said("b", 3, 1)], &all), "it may be about to say it again");
        assert!(peers.read(&[said("b", 3, 1)], &all));
        assert_eq!((peers.viewers().viewers, peers.said(&all)), (3, ViewerTotals { viewers: 3, numbers: 1 }));
        assert!(!peers.read(&[], &all) && !peers.read(&[said("b", 3, 1)], &all) && !peers.read(&[], &all));
        assert_eq!(peers.viewers().viewers, 3);
    }

    #[test]
    fn a_peer_with_an_entry_is_taken_to_have_viewers_when_its_lease_is_late_but_not_to_write_figures() {
        let (peers, all) = (RemoteViewers::default(), roster(&["a", "b"], &[], &[]));
        peers.holds(&[gateway("a"), gateway("b")], &all);
        assert_eq!(peers.with_viewers(&all), []);
        assert!(peers.roster_changed(&roster(&["a", "b"], &["a"], &[])) && peers.in_doubt());
        peers.heard(&gateway("b"), count(1), 7, &all);
        assert_eq!(peers.with_viewers(&all), [gateway("b")]);
        peers.heard(&gateway("b"), count(0), 8, &all);
        assert_eq!(peers.with_viewers(&all), []);
    }

    #[test]
    fn moving_viewers_are_known_from_messages_and_from_the_store() {
        let (peers, all) = (RemoteViewers::default(), roster(&["a", "b"], &[], &[]));
        peers.heard(&gateway("a"), ViewerCount { viewers: 5, moving: 2, away: 1 }, 1, &all);
        peers.heard(&gateway("b"), ViewerCount { viewers: 3, moving: 1, away: 0 }, 1, &all);
        peers.read(&[GatewayViewers { moving: 4, ..said("a", 5, 2) }, said("b", 0, 2)], &all);
        assert_eq!(peers.viewers(), ViewerCount { viewers: 5, moving: 4, away: 0 });
        assert!(peers.heard(&gateway("a"), count(5), 3, &all));
        assert_eq!(peers.viewers(), count(5));
    }

    #[test]
    fn figures_are_in_doubt_until_the_store_was_read() {
        let (peers, nobody) = (RemoteViewers::default(), Roster::default());
        peers.set_unread();
        assert!(!peers.roster_changed(&nobody) && peers.in_doubt());
        assert!(peers.read(&[], &nobody) && !peers.in_doubt());
        peers.set_unread();
        assert!(peers.confirmed() && !peers.in_doubt(), "a check found the totals that are known");
    }
}
