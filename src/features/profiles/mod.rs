//! Profiles: the logins and names of users, and who is hidden from other users. It takes nothing from
//! the core but the users' presence, which a profile shows. It tells the core who is hidden.

use std::sync::Arc;

use async_trait::async_trait;

use self::store::ProfileStore;
use super::wired::Wired;
use crate::base::ids::UserId;
use crate::store::StoreResult;
use crate::sync::features::Feature;

pub(crate) mod audit;
pub(crate) mod erasing;
pub(crate) mod http;
pub(crate) mod keys;
pub(crate) mod memory;
pub(crate) mod redis;
pub(crate) mod scripts;
pub mod store;
pub(crate) mod stored;
#[cfg(test)]
mod tests;

struct HidesUsers(Arc<dyn ProfileStore>);

#[async_trait]
impl Feature for HidesUsers {
    async fn are_hidden(&self, users: &[UserId]) -> StoreResult<Vec<bool>> {
        self.0.are_hidden(users).await
    }
}

pub(crate) fn feature(clients: Arc<dyn ProfileStore>) -> Wired {
    Wired::hears(Arc::new(HidesUsers(clients.clone())), move |_, added| {
        added.part(clients);
        added.routes(http::routes);
        Ok(())
    })
}
