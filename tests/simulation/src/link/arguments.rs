//! Arguments of calls that travel: what the caller lends is copied, and lent again to the store
//! when the call arrives.

use std::borrow::Borrow;
use std::time::Duration;

use rollcall::base::ids::{Epoch, Group};
use rollcall::config::{AttendanceForm, SeenIds};
use rollcall::features::attendance::store::Attending;
use rollcall::store::{ClaimLimits, Edge, Entries, EntryId, Rank, Span};
use tokio::time::Instant;

pub(super) trait Argument<'a> {
    /// The copy that travels.
    type Owned: Send + Sync + 'static;

    fn own(self) -> Self::Owned;

    fn lend(owned: &'a Self::Owned) -> Self;
}

impl<'a, T> Argument<'a> for &'a T
where
    T: ToOwned + ?Sized,
    T::Owned: Borrow<T> + Send + Sync + 'static,
{
    type Owned = T::Owned;

    fn own(self) -> Self::Owned {
        self.to_owned()
    }

    fn lend(owned: &'a Self::Owned) -> Self {
        owned.borrow()
    }
}

impl<'a, T> Argument<'a> for Option<&'a T>
where
    T: Clone + Send + Sync + 'static,
{
    type Owned = Option<T>;

    fn own(self) -> Self::Owned {
        self.cloned()
    }

    fn lend(owned: &'a Self::Owned) -> Self {
        owned.as_ref()
    }
}

impl<'a, A: Argument<'a>, B: Argument<'a>> Argument<'a> for (A, B) {
    type Owned = (A::Owned, B::Owned);

    fn own(self) -> Self::Owned {
        (self.0.own(), self.1.own())
    }

    fn lend(owned: &'a Self::Owned) -> Self {
        (A::lend(&owned.0), B::lend(&owned.1))
    }
}

macro_rules! plain {
    ($($type:ty),* $(,)?) => {
        $(impl Argument<'_> for $type {
            type Owned = Self;

            fn own(self) -> Self {
                self
            }

            fn lend(owned: &Self) -> Self {
                owned.clone()
            }
        })*
    };
}

plain! {
    u32, u64, i64, usize, bool, Duration, Epoch, Instant, Option<EntryId>, Option<u64>, AttendanceForm, SeenIds,
    Attending, ClaimLimits, Edge, Entries, EntryId, Group, Rank, Span,
}
