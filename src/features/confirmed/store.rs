//! The boundary for confirmed viewers.

use std::time::Duration;

use crate::base::ids::{Epoch, SliceId, UserId};
use crate::presence::confirmed::SliceConfirmed;
use crate::store::calls::calls;
use crate::store::{Store, StoreResult};

/// How long a confirmation is good.
pub const WINDOW: Duration = Duration::from_secs(60);

calls! {
    /// Viewers whom a back end confirmed.
    pub trait Confirmations {
        /// Confirms those of these users, at most [`crate::store::MAX_BATCH`] of the slice, who are in a
        /// live now, and counts the viewers whose last confirmation is not older than [`WINDOW`]. Without
        /// users, it only counts. Forgets some older ones. A slice of another epoch has none.
        async fn confirm(
            &self,
            slice: &SliceId,
            epoch: Epoch,
            users: &[UserId],
        ) -> StoreResult<SliceConfirmed>, writes at Slice(slice);
    }
}

/// The calls of the core, and those about confirmed viewers.
pub trait ConfirmationStore: Store + Confirmations {}

impl<T: Store + Confirmations + ?Sized> ConfirmationStore for T {}
