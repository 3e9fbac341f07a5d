//! Moderation that lasts: bans of the platform and of streamers, moderators, revoked tokens. All of
//! them are *rules*, which lie in one place in the store, and which every gateway knows.
//!
//! The core asks [`crate::presence::rules`] at each join and each token; this feature tells it. It
//! ends the sessions that a new rule forbids, and has the routes that make rules and lift them.

use std::sync::Arc;

use self::changes::RuleChanges;
use self::keeper::RuleKeeper;
use self::store::ModerationStore;
use super::wired::Wired;

pub(crate) mod changes;
pub(crate) mod http;
pub(crate) mod keeper;
pub(crate) mod keys;
pub(crate) mod memory;
pub(crate) mod redis;
pub(crate) mod scripts;
pub mod store;
#[cfg(test)]
mod tests;

pub(crate) fn feature(store: Arc<dyn ModerationStore>, clients: Arc<dyn ModerationStore>) -> Wired {
    Wired::joins(move |host, added| {
        let keeper = RuleKeeper::new(host.core.clone(), store, host.sessions.clone());
        added.part(Arc::new(RuleChanges {
            core: host.core.clone(),
            store: clients,
            events: host.events.clone(),
        }));
        added.task("rules of moderation", |stop| {
            // Before the listener begins: no join is answered until the rules are known.
            keeper.core.rules.expect();
            keeper.run(stop)
        });
        added.routes(http::routes);
        Ok(())
    })
}
