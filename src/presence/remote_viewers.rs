//! The viewers on other gateways as a room knows them from the messages of these gateways. The
//! values are absolute and numbered by their gateway, so an older value never replaces a newer one.
//! Never awaits.
//!
//! The number of viewers on all gateways comes from the slices, not from here. The messages of the
//! peers decide how many viewers are away or watch, which gateway writes the live's figures, and which
//! leases bear on the figures.
//!
//! A peer's viewers count while the peer has a lease ([`Roster`]), however long it has been silent.
//! While a peer is late with its lease the figures are in doubt, since its viewers may be gone with
//! it. They stay in doubt after its burial until a sweep has removed it from the live's slices,
//! whose sizes count its users until then.

use std::collections::{BTreeSet, HashMap};

use super::gateways::Roster;
use super::tally::ViewerCount;
use crate::base::ids::GatewayId;

/// The most gateways that a room remembers; it ignores further gateways.
const MAX_PEERS: usize = 1_024;

/// The last message of a gateway.
#[derive(Debug, Clone, Copy)]
struct Peer {
    count: ViewerCount,
    /// The number of the message; zero if the gateway sent none.
    number: u64,
    /// Whether the room certainly missed no later message.
    is_sure: bool,
}

impl Peer {
    fn has_viewers(&self) -> bool {
        self.count.viewers > 0
    }
}

/// Viewers on other gateways.
#[derive(Debug, Default)]
pub struct RemoteViewers {
    peers: HashMap<GatewayId, Peer>,
    /// The viewers on the living gateways among the peers.
    sum: ViewerCount,
    /// See [`RemoteViewers::is_peer_late`].
    is_peer_late: bool,
    /// Dead gateways that had viewers and may still have members in the live's slices.
    unswept: BTreeSet<GatewayId>,
}

impl RemoteViewers {
    /// The viewers on the other living gateways, as each of them said.
    pub(crate) fn sum(&self) -> ViewerCount {
        self.sum
    }

    /// Whether a gateway with viewers is late with its lease, or dead and not swept.
    pub(crate) fn is_peer_late(&self) -> bool {
        self.is_peer_late
    }

    /// The dead gateways that may still have members in the live's slices.
    pub(crate) fn unswept(&self) -> BTreeSet<GatewayId> {
        self.unswept.clone()
    }

    /// Notes that these gateways have no members in the live's slices. True as for
    /// [`RemoteViewers::heard`].
    pub(crate) fn swept(&mut self, gone: &BTreeSet<GatewayId>, roster: &Roster) -> bool {
        self.unswept.retain(|gateway| !gone.contains(gateway));
        self.sum_up(roster)
    }

    /// Notes the viewers of a peer. True if how many are away or watch, or
    /// [`RemoteViewers::is_peer_late`], changed.
    pub(crate) fn heard(
        &mut self,
        peer: &GatewayId,
        count: ViewerCount,
        number: u64,
        roster: &Roster,
    ) -> bool {
        // A late message of a dead gateway tells nothing.
        if roster.dead.contains(peer) {
            return false;
        }
        self.note(
            peer,
            Peer {
                count: count.bounded(),
                number,
                is_sure: true,
            },
        );
        self.sum_up(roster)
    }

    /// Notes that peers have an entry in a slice. A peer that sent no message yet may have viewers;
    /// the slices say how many. True as for [`RemoteViewers::heard`].
    pub(crate) fn holds(&mut self, gateways: &[GatewayId], roster: &Roster) -> bool {
        for gateway in gateways {
            self.note_entry(gateway);
        }
        self.sum_up(roster)
    }

    /// Notes that this gateway may have missed messages. Until a peer sends its viewers again, none
    /// of them counts as away or watching, and the peer does not count as a writer of figures. True as for
    /// [`RemoteViewers::heard`].
    pub(crate) fn miss_messages(&mut self, roster: &Roster) -> bool {
        for peer in self.peers.values_mut() {
            peer.count = ViewerCount {
                viewers: peer.count.viewers,
                ..ViewerCount::default()
            };
            peer.is_sure = false;
        }
        self.sum_up(roster)
    }

    /// The other living gateways that certainly have viewers. A gateway that has an entry in a
    /// slice and sent no message may have evicted the live, and would never say that it has no
    /// viewers.
    pub(crate) fn with_viewers(&self, roster: &Roster) -> Vec<GatewayId> {
        let mut with_viewers = Vec::new();
        for (gateway, peer) in &self.peers {
            if peer.is_sure && peer.has_viewers() && roster.counts(gateway) {
                with_viewers.push(gateway.clone());
            }
        }
        with_viewers
    }

    /// Computes the sums again, with this roster. True as for [`RemoteViewers::heard`].
    pub(crate) fn sum_up(&mut self, roster: &Roster) -> bool {
        // The store lost these burials, so the gateways never hear of them and go on.
        let risen: Vec<GatewayId> = self
            .unswept
            .iter()
            .filter(|gateway| roster.counts(gateway))
            .cloned()
            .collect();
        for gateway in risen {
            self.unswept.remove(&gateway);
            self.note_entry(&gateway);
        }
        let dead = self
            .peers
            .extract_if(|gateway, _| roster.dead.contains(gateway));
        for (gateway, peer) in dead {
            if peer.has_viewers() {
                self.unswept.insert(gateway);
            }
        }
        let mut sum = ViewerCount::default();
        let mut is_peer_late = !self.unswept.is_empty();
        for (gateway, peer) in &self.peers {
            if roster.counts(gateway) {
                sum = sum.and(peer.count);
            }
            if peer.has_viewers() && roster.late.contains(gateway) {
                is_peer_late = true;
            }
        }
        let looks = |of: ViewerCount| (of.away, of.watching);
        let changed = looks(sum) != looks(self.sum) || is_peer_late != self.is_peer_late;
        self.sum = sum;
        self.is_peer_late = is_peer_late;
        changed
    }

    /// Notes that a gateway may have viewers, unless it has sent a message.
    fn note_entry(&mut self, gateway: &GatewayId) {
        let count = ViewerCount {
            viewers: 1,
            ..ViewerCount::default()
        };
        self.note(
            gateway,
            Peer {
                count,
                number: 0,
                is_sure: false,
            },
        );
    }

    fn note(&mut self, gateway: &GatewayId, said: Peer) {
        let full = self.peers.len() >= MAX_PEERS;
        match self.peers.get_mut(gateway) {
            Some(there) => {
                if said.number > there.number {
                    *there = said;
                }
            }
            None => {
                if !full {
                    self.peers.insert(gateway.clone(), said);
                }
            }
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
        roster
            .living
            .extend(living.iter().map(|name| gateway(name)));
        roster.late.extend(late.iter().map(|name| gateway(name)));
        roster.dead.extend(dead.iter().map(|name| gateway(name)));
        roster
    }

    fn count(viewers: u64, away: u64) -> ViewerCount {
        ViewerCount {
            viewers,
            away,
            watching: 0,
        }
    }

    #[test]
    fn an_older_value_changes_nothing() {
        let mut peers = RemoteViewers::default();
        let all = roster(&["a", "b"], &[], &[]);
        assert!(peers.heard(&gateway("a"), count(5, 2), 10, &all));
        assert!(!peers.heard(&gateway("a"), count(7, 3), 9, &all));
        assert!(peers.heard(&gateway("b"), count(2, 9), 1, &all));
        assert_eq!(
            peers.sum().away,
            4,
            "no more are away than there are viewers"
        );
    }

    #[test]
    fn dead_and_unknown_gateways_do_not_count_and_late_ones_are_in_doubt() {
        let mut peers = RemoteViewers::default();
        let only_a = roster(&["a"], &[], &[]);
        peers.heard(&gateway("a"), count(5, 5), 1, &only_a);
        peers.heard(&gateway("b"), count(3, 3), 1, &only_a);
        assert_eq!(
            (peers.sum().away, peers.is_peer_late()),
            (5, false),
            "b is not known yet"
        );
        assert!(peers.sum_up(&roster(&["a", "b"], &["a"], &[])));
        assert_eq!((peers.sum().away, peers.is_peer_late()), (8, true));
        let a_died = roster(&["b"], &[], &["a"]);
        assert!(peers.sum_up(&a_died));
        assert_eq!(
            (peers.sum().away, peers.is_peer_late()),
            (3, true),
            "a may have members in the slices"
        );
        assert!(
            !peers.heard(&gateway("a"), count(5, 5), 9, &a_died),
            "a message that comes late"
        );
        assert!(!peers.swept(&BTreeSet::new(), &a_died) && peers.is_peer_late());
        assert!(peers.swept(&peers.unswept(), &a_died) && !peers.is_peer_late());
        assert!(
            !peers.sum_up(&roster(&["a", "b"], &[], &[])),
            "the dead are forgotten"
        );
    }

    #[test]
    fn a_gateway_whose_burial_the_store_forgot_is_in_doubt_no_longer() {
        let mut peers = RemoteViewers::default();
        let both = roster(&["a", "b"], &[], &[]);
        peers.heard(&gateway("a"), count(5, 0), 1, &both);
        assert!(peers.sum_up(&roster(&["b"], &[], &["a"])) && peers.is_peer_late());
        assert!(peers.sum_up(&both) && !peers.is_peer_late());
        assert_eq!(
            peers.with_viewers(&both),
            [],
            "it has not said again what it has"
        );
        assert!(
            peers.sum_up(&roster(&["b"], &[], &["a"])),
            "it may have viewers all the same"
        );
        assert_eq!(peers.unswept(), BTreeSet::from([gateway("a")]));
    }

    #[test]
    fn a_peer_with_an_entry_is_taken_to_have_viewers_when_its_lease_is_late_but_not_to_write_figures()
     {
        let mut peers = RemoteViewers::default();
        let all = roster(&["a", "b"], &[], &[]);
        peers.holds(&[gateway("a"), gateway("b")], &all);
        assert_eq!(peers.with_viewers(&all), []);
        assert!(peers.sum_up(&roster(&["a", "b"], &["a"], &[])) && peers.is_peer_late());
        peers.heard(&gateway("b"), count(1, 0), 7, &all);
        assert_eq!(peers.with_viewers(&all), [gateway("b")]);
        peers.heard(&gateway("b"), count(0, 0), 8, &all);
        assert_eq!(peers.with_viewers(&all), []);
    }

    #[test]
    fn what_peers_said_before_messages_were_missed_counts_when_they_say_it_again() {
        let mut peers = RemoteViewers::default();
        let all = roster(&["a"], &[], &[]);
        peers.heard(&gateway("a"), count(5, 2), 10, &all);
        assert!(peers.miss_messages(&all));
        assert_eq!((peers.sum().away, peers.with_viewers(&all)), (0, vec![]));
        assert!(
            !peers.heard(&gateway("a"), count(5, 3), 9, &all),
            "an older message"
        );
        assert!(peers.heard(&gateway("a"), count(5, 2), 11, &all));
        assert_eq!(
            (peers.sum().away, peers.with_viewers(&all)),
            (2, vec![gateway("a")])
        );
    }
}
