//! The guests of a live of several slices who become users: the guest leaves one slice and the user
//! joins another, by two calls. The sizes of both slices are held back until both calls have been
//! made, so that no count shows one without the other. Never awaits.

use parking_lot::Mutex;

use crate::store::SliceSize;

#[derive(Debug, Default)]
pub struct SignIns(Mutex<SignInsState>);

#[derive(Debug, Default)]
struct SignInsState {
    under_way: Vec<SignIn>,
    /// The newest size of a slice, by its place.
    held: Vec<(usize, SliceSize)>,
}

/// How far the flusher is with one of the two slices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SliceTurn {
    /// The slice's next turn makes the call.
    Due,
    Begun,
    /// The turn is over, whatever came of it.
    Over,
}

#[derive(Debug)]
struct SignIn {
    /// The places of the slices that the guest leaves and the user joins.
    turns: [(usize, SliceTurn); 2],
}

impl SignIn {
    fn advance(&mut self, place: usize, from: SliceTurn, to: SliceTurn) {
        for (of, turn) in &mut self.turns {
            if *of == place && *turn == from {
                *turn = to;
            }
        }
    }

    fn is_over(&self) -> bool {
        self.turns.iter().all(|(_, turn)| *turn == SliceTurn::Over)
    }

    /// Whether a call of it may have been made, and the other one not yet.
    fn holds_back(&self, place: usize) -> bool {
        let has_begun = self.turns.iter().any(|(_, turn)| *turn != SliceTurn::Due);
        has_begun && self.turns.iter().any(|(of, _)| *of == place)
    }
}

impl SignIns {
    /// Notes that a guest of the slice at the first place becomes a user of the slice at the second
    /// one. The caller queues both for the flusher next.
    pub(super) fn begin(&self, places: [usize; 2]) {
        let turns = places.map(|place| (place, SliceTurn::Due));
        self.0.lock().under_way.push(SignIn { turns });
    }

    /// Notes that the flusher begins a turn of the slice at this place.
    pub(super) fn turn_begins(&self, place: usize) {
        for sign_in in &mut self.0.lock().under_way {
            sign_in.advance(place, SliceTurn::Due, SliceTurn::Begun);
        }
    }

    /// Holds the size of a slice back, if half of a sign-in may show in it. False if the caller must
    /// note it.
    pub(super) fn hold_back(&self, place: usize, size: SliceSize) -> bool {
        let mut state = self.0.lock();
        if !state.under_way.iter().any(|it| it.holds_back(place)) {
            return false;
        }
        state.held.retain(|(of, _)| *of != place);
        state.held.push((place, size));
        true
    }

    /// Notes that a turn of the slice at this place is over. Returns the sizes that need not be held
    /// back any more.
    pub(super) fn turn_ends(&self, place: usize) -> Vec<(usize, SliceSize)> {
        let mut state = self.0.lock();
        if state.under_way.is_empty() {
            return Vec::new();
        }
        let SignInsState { under_way, held } = &mut *state;
        for sign_in in under_way.iter_mut() {
            sign_in.advance(place, SliceTurn::Begun, SliceTurn::Over);
        }
        under_way.retain(|sign_in| !sign_in.is_over());
        held.extract_if(.., |(of, _)| {
            !under_way.iter().any(|sign_in| sign_in.holds_back(*of))
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(card: u64) -> SliceSize {
        SliceSize {
            card,
            ..SliceSize::default()
        }
    }

    #[test]
    fn the_sizes_of_both_slices_come_together_when_both_turns_are_over() {
        let sign_ins = SignIns::default();
        assert!(!sign_ins.hold_back(0, size(1)), "nobody signs in");
        sign_ins.begin([0, 1]);
        assert!(!sign_ins.hold_back(0, size(1)), "no call was made yet");
        sign_ins.turn_begins(0);
        assert!(sign_ins.hold_back(0, size(2)) && sign_ins.hold_back(0, size(3)));
        assert!(sign_ins.turn_ends(0).is_empty());
        assert!(!sign_ins.hold_back(2, size(9)), "another slice");
        assert!(sign_ins.turn_ends(1).is_empty(), "an earlier turn");
        sign_ins.turn_begins(1);
        assert!(sign_ins.hold_back(1, size(4)));
        let together = sign_ins.turn_ends(1);
        assert_eq!(together, [(0, size(3)), (1, size(4))]);
        assert!(!sign_ins.hold_back(0, size(5)));
    }

    #[test]
    fn a_sign_in_that_waits_for_its_turn_holds_no_earlier_one_back() {
        let sign_ins = SignIns::default();
        sign_ins.begin([0, 1]);
        sign_ins.turn_begins(0);
        sign_ins.turn_begins(1);
        assert!(sign_ins.hold_back(0, size(1)));
        sign_ins.begin([1, 0]);
        assert!(sign_ins.turn_ends(0).is_empty());
        assert_eq!(sign_ins.turn_ends(1), [(0, size(1))]);
    }
}
