//! Searches slices for strays, which only another program can have written: small slices as a
//! whole, and a page of large ones.

use super::Walk;
use super::slices::WalkedSlice;
use super::state::WalkState;
use crate::base::ids::SliceId;
use crate::store::Holders;

impl Walk {
    /// Searches slices. Many small ones are looked at in one call, because a script that searches a
    /// slice costs Redis ten times as much.
    pub(super) async fn search_slices(&self, memory: &mut WalkState, walked: Vec<WalkedSlice>) {
        let (small, large): (Vec<_>, Vec<_>) = walked.into_iter().partition(WalkedSlice::is_small);
        let asked: Vec<Holders> = small.iter().map(WalkedSlice::holders).collect();
        let differ = self.store.differ_from_held(&asked).await;
        for (slice, differs) in small.iter().zip(differ) {
            if differs == Ok(false) {
                continue;
            }
            if let Err(why) = self.mender.repair(&slice.id, slice.epoch).await {
                tracing::debug!(set = %slice.id.set, error = %why, "could not search a slice");
            }
        }
        for slice in large {
            self.search_page(memory, &slice.id).await;
        }
    }

    /// Searches one page of each group of a slice.
    async fn search_page(&self, memory: &mut WalkState, slice: &SliceId) {
        for group in slice.set.groups() {
            let place = (slice.clone(), *group);
            let cursor = memory.cursors.get(&place).copied().unwrap_or(0);
            match self.sweeper.drop_strays(slice, *group, cursor).await {
                Ok(searched) => match searched.next {
                    Some(next) => {
                        memory.cursors.insert(place, next);
                    }
                    None => {
                        memory.cursors.remove(&place);
                    }
                },
                Err(why) => {
                    tracing::debug!(set = %slice.set, error = %why, "could not search for strays");
                }
            }
        }
    }
}
