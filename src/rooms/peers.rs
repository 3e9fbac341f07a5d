//! Owns what a room knows of the viewers on other gateways. Absolute values, numbered by their gateway: whichever way one
//! came (a word, or the store's hash), an older one never replaces a newer one. Never awaits; the sum is an atomic, so
//! that a heartbeat takes no lock for it.
//!
//! A peer that has not been heard of for `lease` counts for nothing. Until it has been silent for twice as long, the
//! figures are in doubt: its viewers may be gone with it, or be cut off together with it. A goodbye is a 0, of which
//! nothing is in doubt. While the store is away nobody can be heard: nobody's silence counts until it has been back for a
//! lease, and who has not spoken again by then is in doubt.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::tally::Heads;
use crate::clock::{Millis, millis};
use crate::ids::GatewayId;
use crate::store::GatewayViewers;

/// Gateways remembered per room; more are not listened to.
const MAX_PEERS: usize = 1_024;

/// By which times silence is judged, in ms on the gateway's clock.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    /// Now.
    pub now: Millis,
    /// After so long a silence counts.
    pub lease: Millis,
    /// Since when peers can be heard; silence before then is excused. `i64::MIN`: always, `i64::MAX`: not now.
    pub audible: i64,
}

/// What is known of one gateway.
#[derive(Debug)]
struct Peer {
    viewers: u64,
    /// Those among them who may be elsewhere by now; only words say so.
    moving: u64,
    /// Of the word that said so.
    number: u64,
    /// On the gateway's clock; before its start, if the store says so.
    heard: i64,
    /// The store has had it, so that its absence there is a goodbye.
    stored: bool,
}

/// What a peer says of itself, in a word or in the store.
#[derive(Clone, Copy)]
struct Said {
    viewers: u64,
    moving: Option<u64>,
    number: u64,
    heard: i64,
    stored: bool,
}

/// Viewers on other gateways.
#[derive(Debug)]
pub struct Peers {
    known: Mutex<HashMap<GatewayId, Peer>>,
    sum: AtomicU64,
    moving: AtomicU64,
    doubt: AtomicBool,
    /// What the store knows of other gateways could not be read yet.
    unread: AtomicBool,
    /// When somebody looks at this again because time alone can change it; never is [`Millis::MAX`].
    filed: AtomicU64,
}

/// What came of hearing of peers, or of not hearing of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// The figures, or how far to trust them, are not what they were.
    pub changed: bool,
    /// To be looked at again then, by whoever asked.
    pub look_at: Option<Millis>,
}

impl Default for Peers {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            sum: AtomicU64::new(0),
            moving: AtomicU64::new(0),
            doubt: AtomicBool::new(false),
            unread: AtomicBool::new(false),
            filed: AtomicU64::new(Millis::MAX),
        }
    }
}

impl Peers {
    /// Viewers on the gateways that were heard of within the lease.
    pub fn viewers(&self) -> Heads {
        Heads { viewers: self.sum.load(Ordering::Relaxed), moving: self.moving.load(Ordering::Relaxed) }
    }

    /// Whether any other gateway is known to be in the live, or to have been not long ago.
    pub fn are_known(&self) -> bool {
        !self.known.lock().is_empty()
    }

    /// Whether a gateway with viewers has fallen silent without a goodbye, not long ago, or whether there are others at all
    /// could not be read yet.
    pub fn in_doubt(&self) -> bool {
        self.doubt.load(Ordering::Relaxed) || self.unread.load(Ordering::Relaxed)
    }

    /// The store could not be read when the room was made.
    pub fn set_unread(&self) {
        self.unread.store(true, Ordering::Relaxed);
    }

    /// A peer said how many viewers it has, and the number of its word.
    pub fn heard(&self, peer: &GatewayId, Heads { viewers, moving }: Heads, number: u64, times: Times) -> Turn {
        let mut known = self.known.lock();
        note(&mut known, peer, Said { viewers, moving: Some(moving), number, heard: times.now as i64, stored: false });
        self.sum_up(&mut known, times)
    }

    /// The store was read. `complete`: who is missing there, and was there before, has said goodbye.
    pub fn read(&self, fields: &[GatewayViewers], complete: bool, times: Times) -> Turn {
        let Times { now, lease, .. } = times;
        let mut known = self.known.lock();
        if complete {
            for (peer, there) in known.iter_mut() {
                // What is older than the store keeps is missing there without a goodbye.
                let kept = now as i64 - there.heard < lease as i64 * 2;
                if there.stored && kept && !fields.iter().any(|field| field.gateway == *peer) {
                    (there.viewers, there.moving) = (0, 0);
                }
            }
        }
        for field in fields {
            let heard = now as i64 - millis(field.age) as i64;
            let said = Said { viewers: field.viewers, moving: None, number: field.number, heard, stored: true };
            note(&mut known, &field.gateway, said);
        }
        let unread = self.unread.swap(false, Ordering::Relaxed);
        let turn = self.sum_up(&mut known, times);
        Turn { changed: turn.changed || unread, ..turn }
    }

    /// Time has passed.
    pub fn look(&self, times: Times) -> Turn {
        let mut known = self.known.lock();
        if self.filed.load(Ordering::Relaxed) <= times.now {
            self.filed.store(Millis::MAX, Ordering::Relaxed);
        }
        self.sum_up(&mut known, times)
    }

    /// Forgets everybody: the room has ended.
    pub fn clear(&self) {
        self.known.lock().clear();
        self.sum.store(0, Ordering::Relaxed);
        self.moving.store(0, Ordering::Relaxed);
        self.doubt.store(false, Ordering::Relaxed);
    }

    /// Under the lock, so that all of it is of the same state.
    fn sum_up(&self, known: &mut HashMap<GatewayId, Peer>, times: Times) -> Turn {
        let Times { now, lease, audible } = times;
        let since = |peer: &Peer| peer.heard.max(audible.min(now as i64));
        let age = |peer: &Peer| (now as i64 - since(peer)).max(0) as Millis;
        let unheard = |peer: &Peer| now as i64 - peer.heard >= lease as i64;
        known.retain(|_, peer| age(peer) < if peer.viewers == 0 { lease } else { lease * 2 });
        let fresh = known.values().filter(|peer| age(peer) < lease);
        let heads = fresh.fold(Heads::default(), |sum, peer| Heads {
            viewers: sum.viewers.saturating_add(peer.viewers),
            moving: sum.moving.saturating_add(peer.moving),
        });
        let doubt = known.values().any(|peer| peer.viewers > 0 && unheard(peer));
        let before = Heads {
            viewers: self.sum.swap(heads.viewers, Ordering::Relaxed),
            moving: self.moving.swap(heads.moving, Ordering::Relaxed),
        };
        let doubted = self.doubt.swap(doubt, Ordering::Relaxed);
        // A look that is due earlier than the one that is filed is filed too; the later one then finds nothing to do.
        let turns = known
            .values()
            .flat_map(|peer| [peer.heard + lease as i64, since(peer) + lease as i64, since(peer) + lease as i64 * 2]);
        let next = turns.filter(|at| *at > now as i64).min().map(|at| at as Millis);
        let look_at = next.filter(|at| *at < self.filed.load(Ordering::Relaxed));
        if let Some(at) = look_at {
            self.filed.store(at, Ordering::Relaxed);
        }
        Turn { changed: (before, doubted) != (heads, doubt), look_at }
    }
}

fn note(known: &mut HashMap<GatewayId, Peer>, peer: &GatewayId, said: Said) {
    let full = known.len() >= MAX_PEERS;
    match known.get_mut(peer) {
        Some(there) => {
            // Even an old word is a sign of life, as old as it is.
            there.heard = there.heard.max(said.heard);
            there.stored |= said.stored;
            if said.number > there.number {
                (there.viewers, there.number) = (said.viewers, said.number);
                there.moving = said.moving.unwrap_or(there.moving).min(said.viewers);
            }
        }
        None if full => {}
        None => {
            let Said { viewers, moving, number, heard, stored } = said;
            let moving = moving.unwrap_or(0).min(viewers);
            known.insert(peer.clone(), Peer { viewers, moving, number, heard, stored });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LEASE: Millis = 1_000;

    fn at(now: Millis) -> Times {
        Times { now, lease: LEASE, audible: i64::MIN }
    }

    fn gateway(name: &str) -> GatewayId {
        GatewayId::parse(name).unwrap()
    }

    fn field(name: &str, viewers: u64, number: u64, age_ms: u64) -> GatewayViewers {
        GatewayViewers { gateway: gateway(name), viewers, number, age: Duration::from_millis(age_ms) }
    }

    fn heads(viewers: u64) -> Heads {
        Heads { viewers, moving: 0 }
    }

    fn turn(changed: bool, look_at: Option<Millis>) -> Turn {
        Turn { changed, look_at }
    }

    #[test]
    fn an_older_word_changes_nothing_whichever_way_it_comes() {
        let peers = Peers::default();
        assert!(peers.heard(&gateway("a"), heads(5), 10, at(0)).changed);
        assert!(!peers.heard(&gateway("a"), heads(7), 9, at(10)).changed);
        assert!(!peers.read(&[field("a", 8, 8, 0)], true, at(20)).changed);
        assert!(peers.read(&[field("a", 6, 11, 0), field("b", 2, 1, 0)], true, at(30)).changed);
        assert_eq!(peers.viewers().viewers, 8);
    }

    #[test]
    fn a_silent_peer_leaves_the_sum_and_then_the_doubt() {
        let peers = Peers::default();
        assert_eq!(peers.heard(&gateway("a"), heads(5), 1, at(0)), turn(true, Some(1_000)));
        assert_eq!(peers.look(at(1_000)), turn(true, Some(2_000)));
        assert_eq!((peers.viewers().viewers, peers.in_doubt()), (0, true));
        assert_eq!(peers.look(at(2_000)), turn(true, None));
        assert!(!peers.in_doubt());
    }

    #[test]
    fn a_look_is_filed_once_for_each_time_and_an_earlier_one_besides() {
        let peers = Peers::default();
        assert_eq!(peers.heard(&gateway("a"), heads(5), 1, at(100)), turn(true, Some(1_100)));
        assert_eq!(peers.heard(&gateway("a"), heads(5), 2, at(600)), turn(false, None));
        assert_eq!(peers.read(&[field("b", 1, 1, 900)], true, at(700)), turn(true, Some(800)));
        assert_eq!(peers.look(at(800)), turn(true, Some(1_600)), "b left the sum; next is a");
        assert_eq!(peers.look(at(1_100)), turn(false, None), "the first look finds another filed");
        assert_eq!(peers.look(at(1_600)), turn(true, Some(1_800)));
    }

    #[test]
    fn who_moves_is_known_by_words_and_stays_so_when_the_store_is_read() {
        let peers = Peers::default();
        peers.heard(&gateway("a"), Heads { viewers: 5, moving: 2 }, 1, at(0));
        peers.heard(&gateway("b"), Heads { viewers: 3, moving: 1 }, 1, at(0));
        peers.read(&[field("a", 5, 2, 0), field("b", 0, 2, 0)], true, at(10));
        assert_eq!(peers.viewers(), Heads { viewers: 5, moving: 2 });
        assert!(peers.heard(&gateway("a"), heads(5), 3, at(20)).changed);
        assert_eq!(peers.viewers(), heads(5));
    }

    #[test]
    fn what_could_not_be_read_is_in_doubt_until_it_is() {
        let peers = Peers::default();
        peers.set_unread();
        assert!(!peers.look(at(5_000)).changed);
        assert!(peers.in_doubt());
        assert!(peers.read(&[], true, at(5_010)).changed);
        assert!(!peers.in_doubt());
    }

    #[test]
    fn a_goodbye_leaves_no_doubt() {
        let peers = Peers::default();
        peers.heard(&gateway("a"), heads(5), 1, at(0));
        peers.heard(&gateway("a"), heads(0), 2, at(100));
        assert_eq!(peers.look(at(1_500)), turn(false, None));
        assert_eq!((peers.viewers().viewers, peers.in_doubt()), (0, false));
    }

    #[test]
    fn who_was_in_the_store_and_is_not_any_more_has_gone() {
        let peers = Peers::default();
        // The one that only spoke has not got round to the store; a store that begins anew says nothing of anybody.
        peers.heard(&gateway("spoke"), heads(3), 1, at(0));
        peers.read(&[field("wrote", 4, 1, 0)], true, at(10));
        peers.read(&[], false, at(20));
        assert_eq!(peers.viewers().viewers, 7);
        peers.read(&[], true, at(30));
        assert_eq!((peers.viewers().viewers, peers.in_doubt()), (3, false));
    }

    #[test]
    fn what_the_store_kept_is_as_old_as_it_says() {
        let peers = Peers::default();
        // Also older than this gateway.
        peers.read(&[field("dead", 4, 1, 1_200), field("alive", 2, 1, 900)], true, at(50));
        assert_eq!((peers.viewers().viewers, peers.in_doubt()), (2, true));
        assert!(peers.look(at(150)).changed);
        assert_eq!(peers.viewers().viewers, 0);
    }

    #[test]
    fn while_nobody_can_be_heard_the_last_known_viewers_stay() {
        let peers = Peers::default();
        peers.heard(&gateway("a"), heads(5), 1, at(0));
        // The store is away from 100 to 10,000.
        let deaf = |now| Times { now, lease: LEASE, audible: i64::MAX };
        assert!(peers.look(deaf(1_000)).changed, "in doubt");
        peers.look(deaf(9_000));
        assert_eq!((peers.viewers().viewers, peers.in_doubt()), (5, true));
        let back = |now| Times { now, lease: LEASE, audible: 10_000 };
        // The store has dropped the field meanwhile: that is no goodbye.
        peers.read(&[], true, back(10_100));
        assert_eq!((peers.viewers().viewers, peers.in_doubt()), (5, true));
        peers.heard(&gateway("a"), heads(6), 2, back(10_200));
        assert_eq!((peers.viewers().viewers, peers.in_doubt()), (6, false));
        // A peer that does not come back leaves as any that died.
        peers.look(back(11_200));
        assert_eq!((peers.viewers().viewers, peers.in_doubt()), (0, true));
    }
}
