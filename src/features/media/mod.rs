//! Media servers: what they say of streams opens and closes lives.
//!
//! A callback is read by pure code ([`callbacks`]); `signature` proves that the server sent it,
//! `publisher` decides who may publish, and `intake` lets the live follow. [`store::Streams`] decides
//! what a message means, the `keeper` carries it out, the `poller` asks servers that do not call.
//!
//! It hears of the core: rooms that are made, lives that are open, records that were lost.

mod callbacks;
pub(crate) mod fields;
mod forms;
pub(crate) mod http;
pub(crate) mod intake;
mod json;
pub(crate) mod keeper;
pub(crate) mod keys;
mod mapped;
pub(crate) mod memory;
pub(crate) mod memory_records;
pub(crate) mod poller;
mod polls;
pub(crate) mod publisher;
pub(crate) mod redis;
pub(crate) mod room_streams;
pub(crate) mod scripts;
pub(crate) mod servers;
pub mod setup_error;
pub mod signature;
pub mod store;
pub(crate) mod stream_keys;
pub(crate) mod streams_http;
#[cfg(test)]
mod tests;
pub(crate) mod watched_streams;

use std::sync::Arc;

pub use self::callbacks::read;
use super::wired::Wired;
use crate::config::Config;
use crate::features::media::keeper::StreamKeeper;
use crate::features::media::poller::Poller;
use crate::features::media::poller::PollerParts;
use crate::features::media::room_streams::RoomStreams;
use crate::features::media::servers::MediaServers;
use crate::features::media::store::MediaStore;
use crate::features::media::watched_streams::WatchedStreams;
use crate::peers::core::Core;
pub use fields::Unreadable;

/// The mistake in the files of media servers, if there is one.
pub(crate) fn wrong_files(config: &Config) -> Option<String> {
    let why = MediaServers::open(config).err()?;
    Some(why.to_string())
}

pub(crate) fn feature(
    core: &Arc<Core>,
    store: Arc<dyn MediaStore>,
    clients: Arc<dyn MediaStore>,
) -> Wired {
    let config = &core.config;
    let watched = Arc::new(WatchedStreams::new(
        config.stream_grace,
        config.streamer_timeout,
    ));
    let rooms = RoomStreams {
        core: core.clone(),
        store: store.clone(),
        store_for_clients: clients.clone(),
        watched: watched.clone(),
    };
    Wired::hears(Arc::new(rooms), move |host, added| {
        let servers = Arc::new(MediaServers::open(&host.core.config)?);
        let keeper = Arc::new(StreamKeeper::new(
            host.core.clone(),
            store.clone(),
            host.lives.clone(),
            watched,
        ));
        let parts = PollerParts {
            core: host.core.clone(),
            tokens: host.tokens.clone(),
            store,
            streams: keeper.clone(),
        };
        if let Some(poller) = Poller::of(&servers, parts)? {
            added.task("media poller", |stop| poller.run(stop));
        }
        let streams = keeper.clone();
        added.task("streams", |stop| streams.run(stop));
        added.files.push(servers.clone());
        added.part(servers);
        added.part(keeper);
        added.part(clients);
        added.routes(http::routes);
        Ok(())
    })
}
