//! How much may happen in a history, and which rule of the protocol it leaves out.

/// A rule of the protocol to leave out. The model must notice that it is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutation {
    Nothing,
    /// A gateway that was buried keeps its id and goes on.
    NoFinality,
    /// The store accepts every call as if it followed the last one.
    NoFollows,
    /// A call may make an entry however late it arrives.
    NoNotAfter,
    /// Only the claims of the dead are passed through, whatever else is not in order.
    NoPass,
    /// A gateway does not say that somebody else changed its entry.
    NoComplaint,
    /// A gateway makes an entry without looking at the record.
    NoLookAtRecord,
    /// A close unlinks the keys and leaves no fence.
    NoFence,
    /// A gateway treats a refusal like any other failure.
    RefusalIgnored,
    /// A new room numbers its calls from 1.
    NumbersBeginAnew,
}

/// The rules that a history follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rules {
    pub without: Mutation,
    /// Each gateway checks the slice once a minute, and otherwise only when there is reason for
    /// doubt.
    pub each_minute: bool,
}

impl Rules {
    pub const ALL: Self = Self {
        without: Mutation::Nothing,
        each_minute: true,
    };

    pub fn lack(&self, rule: Mutation) -> bool {
        self.without == rule
    }
}

/// How often each action that multiplies the states may happen in one history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// Times that the live closes and opens again.
    pub closes: u8,
    /// Joins and leaves of users.
    pub moves: u8,
    /// Times that a room is let go of, or evicted.
    pub evictions: u8,
    /// Turns in which the flusher says nobody again yet.
    pub slow: u8,
    /// The most calls at a time that were given up and may still arrive.
    pub late: u8,
    /// Calls that the network carries twice.
    pub doubles: u8,
    /// Calls that never arrive, or whose answer is lost.
    pub failures: u8,
    pub kills: u8,
    pub freezes: u8,
    /// Times that a gateway hears no messages for a while.
    pub cuts: u8,
    /// Renewals.
    pub renewals: u8,
    /// Times that a gateway has looked on for a whole lease and buries those whose leases stood
    /// still.
    pub burials: u8,
    /// Checks without a reason for doubt.
    pub checks: u8,
    /// Times that the slice is lost.
    pub losses: u8,
    /// Times that all leases are lost.
    pub lost_leases: u8,
    /// Times that the slice comes back as it was.
    pub failovers: u8,
    /// Times that a pause is longer than a call that makes an entry may take.
    pub pauses: u8,
}
