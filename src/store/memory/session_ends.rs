//! The ends of sessions without a socket that the embedded store remembers.

use async_trait::async_trait;

use super::MemoryStore;
use crate::base::clock::millis;
use crate::base::session_key::{ENDS_KEPT, SessionKey};
use crate::store::{Bus, Channel, EndedSession, SessionEnds, StoreResult};

#[async_trait]
impl SessionEnds for MemoryStore {
    async fn end_sessions(&self, ended: &[EndedSession], message: &str) -> StoreResult<()> {
        let now = self.now();
        {
            let mut ends = self.session_ends.lock();
            for end in ended {
                let there = ends.get(&end.key, now);
                if there.is_none_or(|there| there.below < end.below) {
                    ends.put(&end.key, *end, now + millis(ENDS_KEPT));
                }
            }
        }
        if !message.is_empty() {
            self.publish(&Channel::Gateways, message.to_owned()).await?;
        }
        Ok(())
    }

    async fn ended_sessions(&self, keys: &[SessionKey]) -> StoreResult<Vec<EndedSession>> {
        let now = self.now();
        let mut ends = self.session_ends.lock();
        Ok(keys.iter().filter_map(|key| ends.get(key, now)).collect())
    }
}
