//! The state of a store: whether it answers, which server has which key, and when its data must be
//! checked.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Doubts, Health, Parts, Slot};
use crate::base::ids::{LiveId, SliceId};

/// The state of a store.
pub trait Status {
    /// Whether any part of the store answers, as the store's own watchdog sees it.
    fn health(&self) -> watch::Receiver<Health>;

    /// Which part of the store has which slot, and whether that part answers now. A cluster with a
    /// silent master is `Up` but not whole.
    fn parts(&self) -> watch::Receiver<Arc<Parts>>;

    /// The doubts from now on. One event causes one or two doubts; the first comes as soon as its
    /// part of the store answers.
    fn doubts(&self) -> Doubts {
        Doubts::never()
    }

    /// Where the list of open lives lies.
    fn slot_of_list(&self) -> Slot {
        Slot::default()
    }

    /// Where the record of a live lies.
    fn slot_of_live(&self, _live: &LiveId) -> Slot {
        Slot::default()
    }

    /// Where the set of a slice lies, with its companions.
    fn slot_of_slice(&self, _slice: &SliceId) -> Slot {
        Slot::default()
    }

    /// A word for logs and `/healthz`: `memory` or `redis`.
    fn kind(&self) -> &'static str;
}
