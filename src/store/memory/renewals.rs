//! Owns the renewal of many lives at a time in the embedded store.

use async_trait::async_trait;

use super::MemoryStore;
use super::slices::Place;
use crate::ids::GatewayId;
use crate::store::{Found, HeldSlice, Renewal, Renewals};

impl MemoryStore {
    fn renew_live(&self, gateway: &GatewayId, expected: &Renewal) -> Found {
        let now = self.now();
        let Renewal { live, viewers, word, slices, .. } = expected;
        let mut same = self.lives.lock().renew(expected, now);
        for HeldSlice { slice, fans, number } in slices {
            same &= match self.slices.get_mut(&Place::from(slice)) {
                Some(found) if expected.glance => found.card() == *fans,
                Some(mut found) => found.renew(gateway, *fans, *number, now),
                None => *fans == 0,
            };
        }
        if !expected.glance {
            same &= self.boards.lock().renew(live, gateway, (*viewers, *word), now);
        }
        if same { Found::Still } else { Found::News }
    }
}

#[async_trait]
impl Renewals for MemoryStore {
    async fn renew(&self, gateway: &GatewayId, lives: &[Renewal]) -> Vec<Found> {
        lives.iter().map(|live| self.renew_live(gateway, live)).collect()
    }
}
