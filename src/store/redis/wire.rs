//! Owns the words between gateways over Redis: told through the ordinary door, heard by the [`super::ear`].

use async_trait::async_trait;
use fred::types::Value;

use super::{RedisStore, keys};
use crate::ids::LiveId;
use crate::store::{Channel, Hearing, StoreResult, Wire};

#[async_trait]
impl Wire for RedisStore {
    async fn tell(&self, on: &Channel, word: String) -> StoreResult<()> {
        let args = vec![Value::from(keys::channel(on)), Value::from(word)];
        // How many heard it on this node says nothing of the others.
        let steps = async { self.door.command("SPUBLISH", args).await.map(drop) };
        self.door.call("tell", steps).await
    }

    fn listen(&self, live: &LiveId) {
        self.ear.board().want(live);
    }

    fn unlisten(&self, live: &LiveId) {
        self.ear.board().unwant(live);
    }

    fn hear(&self) -> Hearing {
        self.ear.board().hear()
    }
}
