//! The key of the hidden users.

use crate::store::redis::family::{Family, KeyType::Set, Names, families};
use crate::store::redis::keys::Keys;

families! {
    /// The users whose profiles say that they are hidden. Nothing else knows it. One key, so that a
    /// page of any list is one question. Never expires.
    HIDDEN, fn hidden() = Family::new(Set, "{users}:hidden").names(Names::Otherwise);
}
