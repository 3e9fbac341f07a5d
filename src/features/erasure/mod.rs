//! Erasure: takes out of the store all that names a user, and proves it.
//!
//! The core asks [`crate::presence::erasing`] whether a user is being erased, and lets nobody be that
//! user; this feature tells it. It hears when this gateway was cut off, and may have missed an
//! erasure.

use std::sync::Arc;

use self::eraser::Eraser;
use self::store::ErasureStore;
use self::worker::ErasureWorker;
use super::wired::Wired;
use crate::peers::core::Core;
use crate::sync::seen::SeenUsers;

pub(crate) mod core_keys;
pub(crate) mod eraser;
pub(crate) mod http;
pub(crate) mod keys;
pub(crate) mod memory;
pub(crate) mod memory_jobs;
pub(crate) mod redis;
pub(crate) mod redis_jobs;
pub(crate) mod scripts;
pub(crate) mod sessions;
pub mod store;
#[cfg(test)]
mod tests;
pub(crate) mod worker;

pub(crate) fn feature(
    core: &Arc<Core>,
    store: Arc<dyn ErasureStore>,
    clients: Arc<dyn ErasureStore>,
    seen: &Arc<SeenUsers>,
) -> Wired {
    core.erasing.expect_news();
    let eraser = Arc::new(Eraser {
        core: core.clone(),
        store: store.clone(),
        store_for_clients: clients.clone(),
        seen: seen.clone(),
        started: core.clock.unix(),
    });
    Wired::hears(eraser.clone(), move |host, added| {
        let worker = ErasureWorker {
            core: host.core.clone(),
            store,
            eraser: eraser.clone(),
            lives: host.lives.clone(),
        };
        let sessions = host.sessions.clone();
        added.task("erasure", |stop| worker.run(stop));
        added.task("sessions of erased users", |stop| {
            sessions::run(sessions, stop)
        });
        added.part(eraser);
        added.part(clients);
        added.routes(http::routes);
        Ok(())
    })
}
