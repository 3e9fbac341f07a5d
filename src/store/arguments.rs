//! The arguments of a call that may be carried out when its caller is gone: what the caller lends is
//! copied, and lent again to the store.

use std::borrow::Borrow;
use std::time::Duration;

use tokio::time::Instant;

use crate::base::ids::{Epoch, Group};
use crate::config::{AttendanceForm, SeenIds};

/// An argument of a call of the store.
pub(crate) trait Argument<'a> {
    /// What is kept of it.
    type Copy: Send + Sync + 'static;

    /// Copies the argument.
    fn copy(self) -> Self::Copy;

    /// The argument again.
    fn lend(copy: &'a Self::Copy) -> Self;
}

impl<'a, T> Argument<'a> for &'a T
where
    T: ToOwned + ?Sized,
    T::Owned: Borrow<T> + Send + Sync + 'static,
{
    type Copy = T::Owned;

    fn copy(self) -> Self::Copy {
        self.to_owned()
    }

    fn lend(copy: &'a Self::Copy) -> Self {
        copy.borrow()
    }
}

impl<'a, A: Argument<'a>> Argument<'a> for Option<A> {
    type Copy = Option<A::Copy>;

    fn copy(self) -> Self::Copy {
        self.map(A::copy)
    }

    fn lend(copy: &'a Self::Copy) -> Self {
        copy.as_ref().map(A::lend)
    }
}

/// Declares types whose values are passed to calls as they are.
macro_rules! plain_arguments {
    ($($type:ty),* $(,)?) => {
        $(impl $crate::store::calls::Argument<'_> for $type {
            type Copy = Self;

            fn copy(self) -> Self {
                self
            }

            fn lend(copy: &Self) -> Self {
                *copy
            }
        })*
    };
}

pub(crate) use plain_arguments;

plain_arguments!(u32, u64, usize, Duration, Instant, Epoch, Group);
plain_arguments!(AttendanceForm, SeenIds);
