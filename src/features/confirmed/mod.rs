//! Confirmed viewers: a back end, or the log of a CDN, says who really got parts of the stream, and each
//! gateway shows how many of the viewers who are there were confirmed within the last minute.
//!
//! The store has them beside the viewers of a slice ([`crate::store::redis::keys`]), and takes out who
//! leaves. The figure lies in [`crate::presence::confirmed`].

use std::sync::Arc;

use self::counting::ConfirmedCounter;
use self::store::ConfirmationStore;
use super::wired::Wired;

pub(crate) mod counting;
pub(crate) mod http;
pub(crate) mod memory;
pub(crate) mod redis;
pub(crate) mod scripts;
pub mod store;

pub(crate) fn feature(clients: Arc<dyn ConfirmationStore>) -> Wired {
    Wired::joins(move |host, added| {
        let counter = Arc::new(ConfirmedCounter {
            core: host.core.clone(),
            store: clients,
        });
        added.part(counter.clone());
        added.task("confirmed", |stop| counter.run(stop));
        added.routes(http::routes);
        Ok(())
    })
}
