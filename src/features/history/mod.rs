//! History: how the figures of a live moved, and the past lives of a streamer.
//!
//! It hears of lives that close. The points are written with the counts, by the core.

use std::sync::Arc;

use self::past_lives::PastLives;
use self::store::HistoryStore;
use super::wired::Wired;
use crate::peers::core::Core;

pub(crate) mod http;
pub(crate) mod keys;
pub(crate) mod memory;
pub(crate) mod past_lives;
pub(crate) mod redis;
pub(crate) mod scripts;
pub mod store;

pub(crate) fn feature(core: &Core, clients: Arc<dyn HistoryStore>) -> Wired {
    let past_lives = PastLives {
        store: clients.clone(),
        keep: core.config.closed_ttl,
    };
    Wired::hears(Arc::new(past_lives), move |_, added| {
        added.part(clients);
        added.routes(http::routes);
        Ok(())
    })
}
