//! A gateway's entry in a slice, as both stores keep it.

use crate::store::slices::SliceEntry;

/// Stands for a gateway in the claims of a slice. A gateway that makes a new entry gets a new
/// token, so the claims of its former entry are never taken for those of the new one.
pub(crate) type EntryToken = u64;

/// An entry, with the token of its gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GatewayEntry {
    pub(crate) token: EntryToken,
    pub(crate) state: SliceEntry,
}

impl GatewayEntry {
    /// Whether its gateway lives and has said all that it holds.
    pub(crate) fn is_complete(&self) -> bool {
        match self.state {
            SliceEntry::At { is_complete, .. } => is_complete,
            SliceEntry::Dead => false,
        }
    }
}
