//! Types with which the HTTP edge and the listener tell each other whether a connection may serve
//! another request.

/// An extension of an answer whose status does not say whether the connection goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionEnding {
    /// The caller showed good credentials, and may be refused as often as the caller's budget
    /// allows.
    Spared,
    /// The address has no budget left.
    BudgetSpent,
}

/// An extension of a request that came through a trusted proxy: the address that the proxy names
/// has as many requests under way as it may have connections.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crowded;
