//! The counts of a live, and how far to trust them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use crate::store::Figures;

/// How far to trust figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Quality {
    /// The store answers, and every gateway with viewers renews its lease, this one among them.
    Exact,
    /// One of the [`Flaws`] is there, and the store is not away: a part of the store does not
    /// answer, a gateway with viewers is late with its lease, or a slice is in a rebuild, for
    /// example.
    Partial,
    /// The store is away: the last known figures.
    Stale,
}

/// The reasons why the figures of a room may be wrong now. Figures without a reason are exact.
///
/// A room knows some of the reasons, in `presence/room/figures.rs`, and notes figures as peaks if
/// none of these is there. `presence/trust.rs` adds the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flaws {
    /// The store does not answer.
    pub store_is_down: bool,
    /// This gateway does not know which peers live, or whether the store has all that they hold.
    pub peers_unknown: bool,
    /// A gateway with viewers is late with its lease, or dead and not swept.
    pub peer_is_late: bool,
    /// A slice is in a rebuild, and so may have a wrong size.
    pub has_rebuild: bool,
    /// The store may have lost data since the last check.
    pub is_unproven: bool,
    /// The record of the live or one of its slices lies where the store does not answer.
    pub is_partly_away: bool,
    /// The messages of some gateway do not arrive, and the last check is too old to make up for
    /// them.
    pub is_unheard: bool,
    /// The store has not taken a change of this gateway for too long.
    pub waits_for_store: bool,
    /// The figures include a newcomer whom the store may know from another gateway already.
    pub adds_newcomer: bool,
}

impl Quality {
    /// The quality of figures with these flaws.
    pub fn of(flaws: Flaws) -> Self {
        if flaws.store_is_down {
            Self::Stale
        } else if flaws == Flaws::default() {
            Self::Exact
        } else {
            Self::Partial
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flaw_alone_makes_figures_partial_and_a_store_that_is_down_makes_them_stale() {
        assert_eq!(Quality::of(Flaws::default()), Quality::Exact);
        let flaws: [fn(&mut Flaws) -> &mut bool; 8] = [
            |flaws| &mut flaws.peers_unknown,
            |flaws| &mut flaws.peer_is_late,
            |flaws| &mut flaws.has_rebuild,
            |flaws| &mut flaws.is_unproven,
            |flaws| &mut flaws.is_partly_away,
            |flaws| &mut flaws.is_unheard,
            |flaws| &mut flaws.waits_for_store,
            |flaws| &mut flaws.adds_newcomer,
        ];
        for (n, flaw) in flaws.into_iter().enumerate() {
            let mut alone = Flaws::default();
            *flaw(&mut alone) = true;
            assert_eq!(Quality::of(alone), Quality::Partial, "flaw {n}");
            let store_is_down = Flaws {
                store_is_down: true,
                ..alone
            };
            assert_eq!(Quality::of(store_is_down), Quality::Stale, "flaw {n}");
        }
    }
}
