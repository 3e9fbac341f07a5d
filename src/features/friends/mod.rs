//! Friends: which of the users whom a viewer follows are online, or in the same live.
//!
//! The index of the friends in a room lies in [`crate::presence::friends_here`].

use self::room_friends::FriendsTask;
use super::wired::Wired;
use crate::base::clock::AtomicMoment;

pub(crate) mod http;
pub mod online;
pub(crate) mod room_friends;
#[cfg(test)]
mod tests;

pub(crate) fn feature() -> Wired {
    Wired::joins(|host, added| {
        let friends = FriendsTask {
            core: host.core.clone(),
            features: host.features.clone(),
            budgets: host.sessions.budgets.clone(),
            doubts_from: AtomicMoment::default(),
        };
        added.task("friends", |stop| friends.run(stop));
        added.routes(http::routes);
        Ok(())
    })
}
