//! Declares the traits of the boundary. Each call is written once: [`calls!`] makes of it the call
//! of the trait, and the call of every store that only stands before another one, a [`Door`].

use super::StoreResult;

/// A store that stands before another one. It does something with every call, such as setting its
/// deadline, and passes it on.
pub trait Door: Sync {
    /// The store that does the work.
    type Behind: Sync;

    /// The store behind.
    fn behind(&self) -> &Self::Behind;

    /// Passes a call on: the store behind begins it when `answer` is awaited.
    fn through<T: Send>(
        &self,
        call: Call,
        answer: impl Future<Output = StoreResult<T>> + Send,
    ) -> impl Future<Output = StoreResult<T>> + Send;
}

/// Says that a [`Door`] passes on the calls of a trait, `dyn History` for example. A door that
/// answers some of them by itself implements that trait by hand instead.
pub trait Passes<Calls: ?Sized> {}

/// A call on its way through a [`Door`], by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// It ends as one.
    Whole(&'static str),
    /// The store behind makes several of it. Each has a deadline of its own, and may fail while
    /// the others do not.
    InParts(&'static str),
}

impl Call {
    /// The name of the call.
    pub fn name(self) -> &'static str {
        match self {
            Self::Whole(name) | Self::InParts(name) => name,
        }
    }
}

/// Declares a trait of the boundary. Its calls stand in this order; a label begins each kind but
/// the first:
///
/// - calls that end as one;
/// - `in_parts:` calls that the Redis store carries out as several, see [`Call::InParts`];
/// - `each:` the same, with an answer about each item of the first argument;
/// - `known:` what a store answers without a call;
/// - `provided:` what is made of the other calls.
macro_rules! calls {
    (
        $(#[$about:meta])*
        pub trait $trait:ident {
            $($(#[$doc:meta])*
            async fn $whole:ident(&self $(, $arg:ident: $type:ty)* $(,)?) -> StoreResult<$reply:ty>;)*

            $(in_parts:
            $($(#[$parts_doc:meta])*
            async fn $parts:ident(&self $(, $parts_arg:ident: $parts_type:ty)* $(,)?)
                -> StoreResult<$parts_reply:ty>;)*)?

            $(each:
            $($(#[$each_doc:meta])*
            async fn $each:ident(&self, $items:ident: $items_type:ty $(, $each_arg:ident: $each_type:ty)* $(,)?)
                -> Vec<$each_reply:ty>;)*)?

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
            D: $crate::store::calls::Door + $crate::store::calls::Passes<dyn $trait>,
            D::Behind: $trait,
        {
            $(async fn $whole(&self $(, $arg: $type)*) -> StoreResult<$reply> {
                let call = $crate::store::calls::Call::Whole(stringify!($whole));
                self.through(call, self.behind().$whole($($arg),*)).await
            })*

            $($(async fn $parts(&self $(, $parts_arg: $parts_type)*) -> StoreResult<$parts_reply> {
                let call = $crate::store::calls::Call::InParts(stringify!($parts));
                self.through(call, self.behind().$parts($($parts_arg),*)).await
            })*)?

            $($(async fn $each(&self, $items: $items_type $(, $each_arg: $each_type)*)
                -> Vec<$each_reply>
            {
                let call = $crate::store::calls::Call::InParts(stringify!($each));
                let answers = async { Ok(self.behind().$each($items $(, $each_arg)*).await) };
                match self.through(call, answers).await {
                    Ok(answers) => answers,
                    Err(why) => $items.iter().map(|_| Err(why.clone())).collect(),
                }
            })*)?

            $($(fn $known(&self) -> $known_reply {
                self.behind().$known()
            })*)?
        }
    };
}

pub(crate) use calls;
