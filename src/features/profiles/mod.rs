//! Profiles: the logins and names of users. It takes nothing from the core but the users' presence,
//! which a profile shows.

use std::sync::Arc;

use self::store::ProfileStore;
use super::wired::Wired;

pub(crate) mod audit;
pub(crate) mod erasing;
pub(crate) mod http;
pub(crate) mod memory;
pub(crate) mod redis;
pub(crate) mod scripts;
pub mod store;
pub(crate) mod stored;
#[cfg(test)]
mod tests;

pub(crate) fn feature(clients: Arc<dyn ProfileStore>) -> Wired {
    Wired::joins(move |_, added| {
        added.part(clients);
        added.routes(http::routes);
        Ok(())
    })
}
