//! What a room knows of the viewers on other gateways. Absolute values, numbered by their gateway: whichever way one
//! came (a message, or the store's hash), an older one never replaces a newer one. Never awaits; the sum is an atomic,
//! so that a heartbeat takes no lock for it.
//!
//! A peer's viewers count while the peer lives: that is a matter of its lease ([`Roster`]), never of when it last
//! spoke. While a peer is late with its lease the figures are in doubt: its viewers may be gone with it.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::gateways::Roster;
use super::tally::Heads;
use crate::base::ids::GatewayId;
use crate::store::{GatewayViewers, ViewerTotals};

/// Gateways remembered per room; more are not listened to.
const MAX_PEERS: usize = 1_024;

/// What a gateway last said.
#[derive(Debug, Clone, Copy)]
struct Peer {
    viewers: u64,
    /// Those among them who may be elsewhere by now; only messages say so.
    moving: u64,
    number: u64,
    /// The store knew nothing of it when it was read last.
    unsaid: bool,
}

/// Viewers on other gateways.
#[derive(Debug, Default)]
pub struct RemoteViewers {
    known: Mutex<HashMap<GatewayId, Peer>>,
    sum: AtomicU64,
    moving: AtomicU64,
    doubt: AtomicBool,
    /// What the store knows of other gateways could not be read yet.
    unread: AtomicBool,
}

impl RemoteViewers {
    /// Viewers on the other gateways that live.
    pub fn viewers(&self) -> Heads {
        Heads { viewers: self.sum.load(Ordering::Relaxed), moving: self.moving.load(Ordering::Relaxed) }
    }

    /// Whether a gateway with viewers is late with its lease, or whether there are others at all could not be read yet.
    pub fn in_doubt(&self) -> bool {
        self.doubt.load(Ordering::Relaxed) || self.unread.load(Ordering::Relaxed)
    }

    /// The store could not be read when the room was made.
    pub fn set_unread(&self) {
        self.unread.store(true, Ordering::Relaxed);
    }

    /// A peer said how many viewers it has, under this number. True if the figures, or how far to trust them, changed.
    pub fn heard(&self, peer: &GatewayId, heads: Heads, number: u64, roster: &Roster) -> bool {
        let mut known = self.known.lock();
        let moving = heads.moving.min(heads.viewers);
        note(&mut known, peer, Peer { viewers: heads.viewers, moving, number, unsaid: false });
        self.sum_up(&mut known, roster)
    }

    /// The store was read; `said` leaves this gateway out. A peer is forgotten of whom the store knows nothing for the
    /// second time: the store lost its word, and it has nothing to say any more, or would have said it again. True as
    /// for [`RemoteViewers::heard`].
    pub fn read(&self, said: &[GatewayViewers], roster: &Roster) -> bool {
        let mut known = self.known.lock();
        for GatewayViewers { gateway, viewers, number } in said {
            let moving = known.get(gateway).map_or(0, |there| there.moving.min(*viewers));
            note(&mut known, gateway, Peer { viewers: *viewers, moving, number: *number, unsaid: false });
        }
        let there: HashSet<&GatewayId> = said.iter().map(|word| &word.gateway).collect();
        known.retain(|gateway, peer| {
            let was_unsaid = std::mem::replace(&mut peer.unsaid, !there.contains(gateway));
            !(was_unsaid && peer.unsaid)
        });
        let unread = self.unread.swap(false, Ordering::Relaxed);
        self.sum_up(&mut known, roster) || unread
    }

    /// The roster changed. True as for [`RemoteViewers::heard`].
    pub fn look(&self, roster: &Roster) -> bool {
        self.sum_up(&mut self.known.lock(), roster)
    }

    /// What the living said, added up.
    pub fn said(&self, roster: &Roster) -> ViewerTotals {
        let known = self.known.lock();
        let living = known.iter().filter(|(gateway, _)| roster.living.contains(*gateway));
        living.fold(ViewerTotals::default(), |sum, (_, peer)| ViewerTotals {
            viewers: sum.viewers.saturating_add(peer.viewers),
            numbers: sum.numbers.saturating_add(peer.number),
        })
    }

    /// Forgets everybody: the room has ended.
    pub fn clear(&self) {
        self.known.lock().clear();
        self.sum.store(0, Ordering::Relaxed);
        self.moving.store(0, Ordering::Relaxed);
        self.doubt.store(false, Ordering::Relaxed);
    }

    /// Under the lock, so that all of it is of the same state.
    fn sum_up(&self, known: &mut HashMap<GatewayId, Peer>, roster: &Roster) -> bool {
        known.retain(|gateway, _| !roster.dead.contains(gateway));
        let counted = known.iter().filter(|(gateway, _)| roster.counts(gateway));
        let heads = counted.fold(Heads::default(), |sum, (_, peer)| Heads {
            viewers: sum.viewers.saturating_add(peer.viewers),
            moving: sum.moving.saturating_add(peer.moving),
        });
        let doubt = known.iter().any(|(gateway, peer)| peer.viewers > 0 && roster.late.contains(gateway));
        let before = Heads {
            viewers: self.sum.swap(heads.viewers, Ordering::Relaxed),
            moving: self.moving.swap(heads.moving, Ordering::Relaxed),
        };
        let doubted = self.doubt.swap(doubt, Ordering::Relaxed);
        (before, doubted) != (heads, doubt)
    }
}

fn note(known: &mut HashMap<GatewayId, Peer>, gateway: &GatewayId, said: Peer) {
    let full = known.len() >= MAX_PEERS;
    match known.get_mut(gateway) {
        Some(there) if said.number > there.number => *there = said,
        Some(_) => {}
        None if full => {}
        None => drop(known.insert(gateway.clone(), said)),
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
        GatewayViewers { gateway: gateway(name), viewers, number }
    }

    fn heads(viewers: u64) -> Heads {
        Heads { viewers, moving: 0 }
    }

    #[test]
    fn an_older_word_changes_nothing_whichever_way_it_comes() {
        let (peers, all) = (RemoteViewers::default(), roster(&["a", "b"], &[], &[]));
        assert!(peers.heard(&gateway("a"), heads(5), 10, &all));
        assert!(!peers.heard(&gateway("a"), heads(7), 9, &all));
        assert!(!peers.read(&[said("a", 8, 8)], &all));
        assert!(peers.read(&[said("a", 6, 11), said("b", 2, 1)], &all));
        assert_eq!((peers.viewers().viewers, peers.said(&all)), (8, ViewerTotals { viewers: 8, numbers: 12 }));
    }

    #[test]
    fn the_dead_and_the_unknown_count_for_nothing_and_the_late_are_in_doubt() {
        let peers = RemoteViewers::default();
        peers.read(&[said("a", 5, 1), said("b", 3, 1)], &roster(&["a"], &[], &[]));
        assert_eq!((peers.viewers().viewers, peers.in_doubt()), (5, false), "b is not known yet");
        assert!(peers.look(&roster(&["a", "b"], &["a"], &[])));
        assert_eq!((peers.viewers().viewers, peers.in_doubt()), (8, true));
        assert!(peers.look(&roster(&["b"], &[], &["a"])));
        assert_eq!((peers.viewers().viewers, peers.in_doubt()), (3, false));
        assert!(!peers.look(&roster(&["a", "b"], &[], &[])), "the dead are forgotten");
    }

    #[test]
    fn of_whom_the_store_knows_nothing_twice_is_forgotten() {
        let (peers, all) = (RemoteViewers::default(), roster(&["a", "b"], &[], &[]));
        peers.read(&[said("a", 5, 1), said("b", 3, 1)], &all);
        assert!(!peers.read(&[said("b", 3, 1)], &all), "it may be about to say it again");
        assert!(peers.read(&[said("b", 3, 1)], &all));
        assert_eq!((peers.viewers().viewers, peers.said(&all)), (3, ViewerTotals { viewers: 3, numbers: 1 }));
        assert!(!peers.read(&[], &all) && !peers.read(&[said("b", 3, 1)], &all) && !peers.read(&[], &all));
        assert_eq!(peers.viewers().viewers, 3);
    }

    #[test]
    fn who_moves_is_known_by_messages_and_stays_so_when_the_store_is_read() {
        let (peers, all) = (RemoteViewers::default(), roster(&["a", "b"], &[], &[]));
        peers.heard(&gateway("a"), Heads { viewers: 5, moving: 2 }, 1, &all);
        peers.heard(&gateway("b"), Heads { viewers: 3, moving: 1 }, 1, &all);
        peers.read(&[said("a", 5, 2), said("b", 0, 2)], &all);
        assert_eq!(peers.viewers(), Heads { viewers: 5, moving: 2 });
        assert!(peers.heard(&gateway("a"), heads(5), 3, &all));
        assert_eq!(peers.viewers(), heads(5));
    }

    #[test]
    fn what_could_not_be_read_is_in_doubt_until_it_is() {
        let (peers, nobody) = (RemoteViewers::default(), Roster::default());
        peers.set_unread();
        assert!(!peers.look(&nobody) && peers.in_doubt());
        assert!(peers.read(&[], &nobody) && !peers.in_doubt());
    }
}
