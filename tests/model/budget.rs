//! How much may happen in a history, and which rule is left out.

/// One rule of the protocol left out, to see that the check notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mutation {
    Nothing,
    /// A gateway that was buried keeps its id and goes on.
    NoFinality,
    /// The store takes every call for one that follows the last.
    NoFollows,
    /// An entry may be made however late the call is.
    NoNotAfter,
    /// A check does not look at the size of the slice.
    NoCardInCheck,
    /// Nobody walks.
    NoWalk,
    /// An entry is made without a look at the record.
    NoLookAtRecord,
    /// The word of a change of the record is told by itself, and is lost.
    NoPublishWithWrite,
    /// Who has read back makes no call if nothing differs.
    NoMove,
    /// A close unlinks the keys and leaves no fence.
    NoFence,
    /// A gateway takes `unknown` for any other failure.
    UnknownIgnored,
    /// A room made anew numbers its calls from 1.
    NumbersBeginAnew,
    /// A close is for whichever epoch is open when it arrives.
    CloseWithoutEpoch,
}

/// The rules that are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rules {
    pub without: Mutation,
    /// Each live is checked once a minute; otherwise only where there is reason for doubt.
    pub each_minute: bool,
}

impl Rules {
    pub const ALL: Self = Self { without: Mutation::Nothing, each_minute: true };

    pub fn lack(&self, rule: Mutation) -> bool {
        self.without == rule
    }

    pub fn drops_records(&self) -> bool {
        self.lack(Mutation::NoPublishWithWrite)
    }
}

/// How much of what multiplies the states can happen in one history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Lives opened.
    pub opens: u8,
    /// Closes that somebody asks for.
    pub closes: u8,
    /// Comings and goings of users.
    pub moves: u8,
    /// Rooms that are evicted.
    pub evictions: u8,
    /// Calls that were given up and may still arrive, at a time.
    pub late: u8,
    /// Calls that the network carries twice.
    pub doubles: u8,
    /// Calls that are given up before they are carried out and never arrive, or whose answer is lost.
    pub failures: u8,
    pub kills: u8,
    pub freezes: u8,
    /// Times that a gateway hears no words for a while.
    pub cuts: u8,
    /// Renewals.
    pub renewals: u8,
    /// Times that a gateway has looked on for a whole lease, and buries who stood still.
    pub burials: u8,
    /// Checks that nobody has reason for.
    pub checks: u8,
    pub walks: u8,
    /// Times that the slice, the record, or everything is lost.
    pub losses: u8,
    /// Times that all leases are lost.
    pub lost_leases: u8,
    /// Times that the set of the slice is lost alone.
    pub lost_sets: u8,
    /// Times that everything comes back as it was.
    pub rollbacks: u8,
    /// Times that the slice alone comes back as it was.
    pub failovers: u8,
    /// Times that more time passes than a call may take to make an entry.
    pub pauses: u8,
}

impl Budget {
    pub const NONE: Self = Self {
        opens: 0,
        closes: 0,
        moves: 0,
        evictions: 0,
        late: 0,
        doubles: 0,
        failures: 0,
        kills: 0,
        freezes: 0,
        cuts: 0,
        renewals: 0,
        burials: 0,
        checks: 0,
        walks: 0,
        losses: 0,
        lost_leases: 0,
        lost_sets: 0,
        rollbacks: 0,
        failovers: 0,
        pauses: 0,
    };
}
