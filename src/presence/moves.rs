//! The users who came to a live through this gateway or left it since the last message to the other
//! gateways. A gateway needs these messages only if one of its viewers asked for friends in the
//! live. So a room stops its messages when one reaches no gateway, and begins again when a gateway
//! says that it wants to hear.

use std::collections::HashSet;

use parking_lot::Mutex;

use crate::base::ids::UserId;

/// Maximum users per message: with the longest ids they fit [`crate::store::MAX_MESSAGE`]. If more
/// users moved since the last message, the message says that anybody may have moved.
pub const MOST_USERS: usize = 500;

#[derive(Debug, Default)]
pub struct Moves(Mutex<MovesState>);

#[derive(Debug, Default)]
struct MovesState {
    /// The last message reached no gateway, and no gateway has asked since.
    quiet: bool,
    /// How often a gateway said that it wants to hear.
    asked: u64,
    waiting: MovesBatch,
}

/// The content of a message.
#[derive(Debug, Default)]
pub struct MovesBatch {
    pub users: HashSet<UserId>,
    /// Any user may have moved.
    pub anybody: bool,
    /// [`MovesState::asked`] when the batch was taken.
    asked: u64,
}

impl MovesBatch {
    fn is_empty(&self) -> bool {
        self.users.is_empty() && !self.anybody
    }

    fn add(&mut self, user: UserId) {
        if self.anybody {
            return;
        }
        self.users.insert(user);
        if self.users.len() > MOST_USERS {
            self.set_anybody();
        }
    }

    fn set_anybody(&mut self) {
        self.users = HashSet::new();
        self.anybody = true;
    }
}

impl Moves {
    /// Notes that a user came or left. True if a message is due.
    pub fn note(&self, user: UserId) -> bool {
        let mut state = self.0.lock();
        if !state.quiet {
            state.waiting.add(user);
        }
        !state.quiet
    }

    /// As [`Self::note`], if any user may have moved.
    pub fn note_anybody(&self) -> bool {
        let mut state = self.0.lock();
        if !state.quiet {
            state.waiting.set_anybody();
        }
        !state.quiet
    }

    /// Notes that a gateway wants to hear, or that this gateway may have missed such a wish. True
    /// if a message is due, because the room may not have told a move.
    pub fn note_asked(&self) -> bool {
        let mut state = self.0.lock();
        state.asked += 1;
        let was_quiet = std::mem::take(&mut state.quiet);
        if was_quiet {
            state.waiting.set_anybody();
        }
        was_quiet
    }

    /// Takes the content of the next message. [`Self::told`] or [`Self::failed`] follows.
    pub fn take(&self) -> Option<MovesBatch> {
        let mut state = self.0.lock();
        let batch = std::mem::take(&mut state.waiting);
        if batch.is_empty() {
            return None;
        }
        Some(MovesBatch {
            asked: state.asked,
            ..batch
        })
    }

    /// Notes the number of gateways that a message reached.
    pub fn told(&self, batch: &MovesBatch, reached: u64) {
        let mut state = self.0.lock();
        // A gateway that asked meanwhile may have subscribed just after the message.
        if reached == 0 && state.asked == batch.asked {
            state.quiet = true;
            state.waiting = MovesBatch::default();
        }
    }

    /// Puts back a batch whose message failed.
    pub fn failed(&self, batch: MovesBatch) {
        let mut state = self.0.lock();
        if batch.anybody {
            state.waiting.set_anybody();
        }
        for user in batch.users {
            state.waiting.add(user);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(n: usize) -> UserId {
        UserId::parse(&format!("u{n}")).unwrap()
    }

    #[test]
    fn a_room_is_quiet_while_nobody_listens_and_makes_up_for_it_when_somebody_does() {
        let moves = Moves::default();
        assert!(moves.note(user(1)));
        let batch = moves.take().unwrap();
        moves.told(&batch, 0);
        assert!(!moves.note(user(2)) && !moves.note_anybody() && moves.take().is_none());
        assert!(moves.note_asked());
        assert!(moves.take().unwrap().anybody, "the second user went untold");
        assert!(!moves.note_asked(), "nothing went untold since");
        assert!(moves.take().is_none());
        assert!(moves.note(user(3)));
        let batch = moves.take().unwrap();
        assert_eq!((batch.users.len(), batch.anybody), (1, false));
        moves.told(&batch, 1);
        assert!(moves.note(user(4)));
    }

    #[test]
    fn a_gateway_that_asks_while_a_message_reaches_nobody_is_told_all_the_same() {
        let moves = Moves::default();
        moves.note(user(1));
        let batch = moves.take().unwrap();
        moves.note_asked();
        moves.told(&batch, 0);
        assert!(moves.note(user(2)));
    }

    #[test]
    fn what_was_not_told_waits_and_many_become_anybody() {
        let moves = Moves::default();
        for n in 0..MOST_USERS {
            moves.note(user(n));
        }
        let batch = moves.take().unwrap();
        assert_eq!((batch.users.len(), batch.anybody), (MOST_USERS, false));
        moves.note(user(MOST_USERS));
        moves.failed(batch);
        let batch = moves.take().unwrap();
        assert_eq!((batch.users.len(), batch.anybody), (0, true));
    }
}
