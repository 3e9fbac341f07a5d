//! Feeds: announcements of users and of lives that open, on the timelines of their followers.
//!
//! It hears of the core: lives that open and end, follows. It takes profiles from
//! [`super::profiles`], because only users with a profile announce.

use std::sync::Arc;

use self::announcements::Feeds;
use self::fanout::Fanout;
use self::store::FeedStore;
use super::profiles::store::CountsStatuses;
use super::wired::Wired;
use crate::peers::core::Core;

pub(crate) mod announcements;
pub(crate) mod audit;
pub(crate) mod fanout;
pub(crate) mod http;
pub(crate) mod keys;
pub(crate) mod memory;
pub(crate) mod redis;
pub(crate) mod scripts;
pub mod store;
#[cfg(test)]
mod tests;

pub(crate) fn feature(
    core: &Arc<Core>,
    store: Arc<dyn FeedStore>,
    clients: Arc<dyn FeedStore>,
) -> Wired {
    let feeds = Arc::new(Feeds::new(clients.clone(), core.clock));
    Wired::hears(feeds.clone(), move |host, added| {
        let fanout = Fanout {
            core: host.core.clone(),
            store,
            feeds: feeds.clone(),
        };
        added.task("fan-out", |stop| fanout.run(stop));
        added.part::<Arc<dyn CountsStatuses>>(feeds.clone());
        added.part(feeds);
        added.part(clients);
        added.routes(http::routes);
        Ok(())
    })
}
