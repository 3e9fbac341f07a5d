//! Declares the traits of the boundary. Each call is written once: [`calls!`] makes of it the call
//! of the trait, and the call of every store that only stands before another one, a [`Door`].

use futures_util::future::BoxFuture;

pub(crate) use super::arguments::{Argument, plain_arguments};
use super::{StoreError, StoreResult};
use crate::base::ids::{LiveId, SliceId, UserId};

/// A store that stands before another one. It does something with every call, such as setting its
/// deadline, and passes it on.
pub trait Door: Sync {
    /// The store that does the work.
    type Behind: Send + Sync + 'static;

    /// The store behind.
    fn behind(&self) -> &Self::Behind;

    /// Passes a call on: the store behind begins it when `answer` is awaited. A door that lets a
    /// call go on when its caller has given up makes a copy of it instead.
    fn through<T: Send + 'static>(
        &self,
        call: Call<'_>,
        answer: impl Future<Output = StoreResult<T>> + Send,
        copy: impl FnOnce() -> CallCopy<Self::Behind, T> + Send,
    ) -> impl Future<Output = StoreResult<T>> + Send;

    /// What stands in the place of an answer about something that lies on a part of the store that
    /// is away; `None` if it is there, or if the store behind answers so by itself.
    fn away(&self, _what: Location<'_>) -> Option<StoreError> {
        None
    }
}

/// A call on its way through a [`Door`].
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    /// The name of the call.
    pub name: &'static str,
    /// The store behind makes several of it. Each has a deadline of its own, and may fail while
    /// the others do not.
    pub is_in_parts: bool,
    /// A store that takes no writes refuses the call.
    pub writes: bool,
    /// What the call is about.
    pub at: Location<'a>,
}

/// A call with arguments of its own, which can be carried out at any time, and again.
pub type CallCopy<S, T> = Box<dyn for<'a> Fn(&'a S) -> BoxFuture<'a, StoreResult<T>> + Send + Sync>;

/// What a call is about, as far as it decides which part of the store has it.
#[derive(Debug, Clone, Copy)]
pub enum Location<'a> {
    /// What all gateways share: the list of open lives, the leases, the stream of events.
    Shared,
    /// A live.
    Live(&'a LiveId),
    /// A slice of an online set.
    Slice(&'a SliceId),
    /// A user.
    User(&'a UserId),
    /// The slice of the users of the platform that has this number.
    UserSlice(u32),
    /// The slices of these users.
    UserSlices(&'a [UserId]),
}

/// Declares a trait of the boundary. After its signature, each call says whether it `reads` or
/// `writes`, and `at` which [`Location`]; if it names none, at what all gateways share. The calls
/// stand in this order; a label begins each kind but the first:
///
/// - calls that end as one;
/// - `in_parts:` calls that the Redis store carries out as several, see [`Call::is_in_parts`];
/// - `each:` the same, with an answer about each item of the first argument. They name the location
///   of an item;
/// - `known:` what a store answers without a call;
/// - `provided:` what is made of the other calls.
///
/// Every door passes the calls on. A trait that some doors answer by themselves names the trait of
/// those that do not: `passed on by`. An argument is lent, or its type is one of
/// [`plain_arguments!`].
macro_rules! calls {
    (
        $(#[$about:meta])*
        pub trait $trait:ident $(, passed on by $door:ident)? {
            $($(#[$doc:meta])*
            async fn $whole:ident(&self $(, $arg:ident: $type:ty)* $(,)?)
                -> StoreResult<$reply:ty>, $does:ident $(at $at:ident($of:expr))?;)*

            $(in_parts:
            $($(#[$parts_doc:meta])*
            async fn $parts:ident(&self $(, $parts_arg:ident: $parts_type:ty)* $(,)?)
                -> StoreResult<$parts_reply:ty>, $parts_does:ident $(at $parts_at:ident($parts_of:expr))?;)*)?

            $(each:
            $($(#[$each_doc:meta])*
            async fn $each:ident(&self, $items:ident: $items_type:ty $(, $each_arg:ident: $each_type:ty)* $(,)?)
                -> Vec<$each_reply:ty>, $each_does:ident
                $(at |$item:pat_param| $each_at:ident($each_of:expr))?;)*)?

            $(known:
            $($(#[$known_doc:meta])*
            fn $known:ident(&self) -> $known_reply:ty;)*)?

            $(provided:
            $($provided:tt)*)?
        }
    ) => {
        $(#[$about])*
        #[async_trait::async_trait]
        pub trait $trait: Sync {
            $($(#[$doc])*
            async fn $whole(&self $(, $arg: $type)*) -> StoreResult<$reply>;)*

            $($($(#[$parts_doc])*
            async fn $parts(&self $(, $parts_arg: $parts_type)*) -> StoreResult<$parts_reply>;)*)?

            $($($(#[$each_doc])*
            async fn $each(&self, $items: $items_type $(, $each_arg: $each_type)*)
                -> Vec<$each_reply>;)*)?

            $($($(#[$known_doc])*
            fn $known(&self) -> $known_reply;)*)?

            $($($provided)*)?
        }

        #[async_trait::async_trait]
        impl<D> $trait for D
        where
            D: $crate::store::calls::Door $(+ $door)?,
            D::Behind: $trait,
        {
            $(async fn $whole(&self $(, $arg: $type)*) -> StoreResult<$reply> {
                let at = calls!(@at $($at($of))?);
                calls!(@pass self, $whole($($arg),*), false, $does, at)
            })*

            $($(async fn $parts(&self $(, $parts_arg: $parts_type)*) -> StoreResult<$parts_reply> {
                let at = calls!(@at $($parts_at($parts_of))?);
                calls!(@pass self, $parts($($parts_arg),*), true, $parts_does, at)
            })*)?

            $($(async fn $each(&self, $items: $items_type $(, $each_arg: $each_type)*)
                -> Vec<$each_reply>
            {
                let places = || calls!(@each_at $items $(, $item, $each_at($each_of))?);
                let at = places().find(|at| self.away(*at).is_none());
                let at = at.unwrap_or($crate::store::calls::Location::Shared);
                let call = calls!(@call $each, true, $each_does, at);
                let answer = async { Ok(self.behind().$each($items $(, $each_arg)*).await) };
                let copy = calls!(@copy store, ($items $(, $each_arg)*),
                    Ok(store.$each($items $(, $each_arg)*).await));
                let mut answers: Vec<$each_reply> = match self.through(call, answer, copy).await {
                    Ok(answers) => answers,
                    Err(why) => $items.iter().map(|_| Err(why.clone())).collect(),
                };
                for (answer, at) in answers.iter_mut().zip(places()) {
                    if let Some(why) = self.away(at) {
                        *answer = Err(why);
                    }
                }
                answers
            })*)?

            $($(fn $known(&self) -> $known_reply {
                self.behind().$known()
            })*)?
        }
    };

    (@pass $self:ident, $name:ident($($arg:ident),*), $is_in_parts:literal, $does:ident, $at:ident) => {{
        let call = calls!(@call $name, $is_in_parts, $does, $at);
        let answer = $self.behind().$name($($arg),*);
        let copy = calls!(@copy store, ($($arg),*), store.$name($($arg),*).await);
        $self.through(call, answer, copy).await
    }};

    (@call $name:ident, $is_in_parts:literal, $does:ident, $at:ident) => {
        $crate::store::calls::Call {
            name: stringify!($name),
            is_in_parts: $is_in_parts,
            writes: calls!(@$does),
            at: $at,
        }
    };

    (@reads) => { false };
    (@writes) => { true };

    (@at) => { $crate::store::calls::Location::Shared };
    (@at $at:ident($of:expr)) => { $crate::store::calls::Location::$at($of) };

    (@each_at $items:ident) => { $items.iter().map(|_| calls!(@at)) };
    (@each_at $items:ident, $item:pat_param, $at:ident($of:expr)) => {
        $items.iter().map(|$item| calls!(@at $at($of)))
    };

    (@copy $store:ident, ($($arg:ident),*), $call:expr) => {
        || -> $crate::store::calls::CallCopy<D::Behind, _> {
            let copies = std::sync::Arc::new(($($crate::store::calls::Argument::copy($arg),)*));
            Box::new(move |$store| {
                let copies = copies.clone();
                Box::pin(async move {
                    let ($($arg,)*) = &*copies;
                    $(let $arg = $crate::store::calls::Argument::lend($arg);)*
                    $call
                })
            })
        }
    };
}

pub(crate) use calls;
