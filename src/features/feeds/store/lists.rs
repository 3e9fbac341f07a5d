//! The boundary for users' lists of other users. A list has no timeline of its own: it is read from
//! the timelines of the members.

use crate::base::ids::{ListName, UserId};
use crate::store::StoreResult;
use crate::store::calls::calls;

/// Maximum members of a list.
pub const MAX_LIST: usize = 1_000;

/// The outcome of [`UserLists::put_in_list`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutInList {
    /// The user was not in the list, and is now.
    Added,
    /// The user was in the list.
    There,
    /// The list has [`MAX_LIST`] members; nothing was done.
    Full,
}

calls! {
    /// Users' lists of other users. A list without members does not exist.
    pub trait UserLists {
        /// Puts a user into a list.
        async fn put_in_list(
            &self,
            owner: &UserId,
            list: &ListName,
            member: &UserId,
        ) -> StoreResult<PutInList>, writes at User(owner);

        /// Takes a user out of a list. Returns false if the user was not in it.
        async fn take_out_of_list(
            &self,
            owner: &UserId,
            list: &ListName,
            member: &UserId,
        ) -> StoreResult<bool>, writes at User(owner);

        /// All members of a list, in no order.
        async fn list_members(&self, owner: &UserId, list: &ListName) -> StoreResult<Vec<UserId>>,
            reads at User(owner);
    }
}
