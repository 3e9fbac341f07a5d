//! Repairs slices in doubt: another program wrote to them, or the store lost writes. The mender
//! removes members that no gateway holds, puts back members that a gateway holds and the slice
//! lacks, and then ends the doubt. The checks and the walk call it.
//!
//! Several gateways may repair the same slice at the same time. Each of their steps is right at any
//! moment, and the doubt ends only if no program has written past the scripts since the repair
//! began.

use std::sync::Arc;

use crate::base::clock::Millis;
use crate::base::ids::{Epoch, GatewayId, Group, SliceId};
use crate::base::metrics::Metrics;
use crate::presence::gateways::Gateways;
use crate::store::{HeldFrom, MAX_BATCH, Settled, SliceSize, Store, StoreError, StoreResult};
use crate::sync::sweep::Sweeper;

/// Maximum repairs in a row. If each of them found something, another program writes all the time,
/// and the next look at the slice goes on.
const MAX_REPAIRS: u32 = 3;

/// A doubt that has just begun is repaired after this time, in ms. By then all gateways that hold
/// the slice have heard of it, and look at what they hold.
const UNTIL_HEARD: Millis = 1_000;

pub struct Mender {
    pub gateways: Arc<Gateways>,
    pub store: Arc<dyn Store>,
    pub sweeper: Arc<Sweeper>,
    pub metrics: Arc<Metrics>,
}

impl Mender {
    /// Repairs a slice if it is in doubt, or if it is older than the size `known` here. Returns
    /// after which time, in ms, it may be repaired; 0 if the slice is in no doubt, or may be
    /// repaired at any time.
    pub async fn mend(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        known: SliceSize,
    ) -> StoreResult<Millis> {
        for _ in 0..MAX_REPAIRS {
            let Some(compared) = self.store.compare(slice, epoch, known).await? else {
                // Without an open fence of this epoch there is no doubt to end; strays go all the
                // same.
                self.repair(slice, epoch).await?;
                return Ok(0);
            };
            self.sweeper.note_size(slice, compared.size);
            if compared.began {
                return Ok(UNTIL_HEARD);
            }
            if !compared.size.in_doubt || compared.wait > 0 {
                return Ok(compared.wait);
            }
            if self.repair(slice, epoch).await? > 0 {
                continue;
            }
            if let Settled::Settled(size) =
                self.store.settle(slice, epoch, compared.surplus).await?
            {
                tracing::info!(
                    set = %slice.set, slice = slice.index,
                    "a slice is in doubt no longer"
                );
                self.sweeper.note_size(slice, size);
            }
            return Ok(0);
        }
        Ok(0)
    }

    /// Compares a slice with what the living gateways hold. Returns how many members were wrong.
    pub async fn repair(&self, slice: &SliceId, epoch: Epoch) -> StoreResult<u64> {
        let mut wrong = 0;
        for group in slice.set.groups() {
            let mut cursor = Some(0);
            while let Some(from) = cursor {
                let searched = self.sweeper.drop_strays(slice, *group, from).await?;
                wrong += searched.strays;
                cursor = searched.next;
            }
        }
        let found = self.store.survey(std::slice::from_ref(slice)).await;
        let Some(survey) = found.into_iter().next() else {
            return Ok(wrong);
        };
        let survey = survey?;
        let roster = self.gateways.roster();
        for part in survey
            .parts
            .iter()
            .filter(|part| !roster.dead.contains(&part.gateway))
        {
            for group in slice.set.groups() {
                wrong += self.put_back(slice, epoch, &part.gateway, *group).await?;
            }
        }
        if slice.set.keeps_notes() {
            self.drop_notes(slice).await?;
        }
        Ok(wrong)
    }

    /// Puts back the members of a group that a gateway holds and the slice lacks. Returns how many.
    async fn put_back(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        gateway: &GatewayId,
        group: Group,
    ) -> StoreResult<u64> {
        let mut put_back = 0;
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let from = HeldFrom {
                group,
                cursor: from,
                most: MAX_BATCH,
            };
            let page = self.store.put_back(slice, epoch, gateway, from).await?;
            if page.put_back > 0 {
                self.metrics.drifted("missing", page.put_back);
                tracing::warn!(
                    set = %slice.set, group = group.name(), slice = slice.index,
                    members = page.put_back,
                    "put members back who were missing"
                );
                self.sweeper.note_size(slice, page.size);
                self.sweeper.tell_platform(slice);
            }
            put_back += page.put_back;
            cursor = page.next;
        }
        Ok(put_back)
    }

    /// Removes what a slice notes of users who are not there.
    pub async fn drop_notes(&self, slice: &SliceId) -> StoreResult<()> {
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let page = self.store.drop_notes(slice, from).await?;
            if page.dropped > 0 {
                self.metrics.drifted("stray", page.dropped);
                tracing::warn!(
                    set = %slice.set, slice = slice.index, users = page.dropped,
                    "removed what was noted of users who are not there"
                );
            }
            cursor = page.next;
        }
        Ok(())
    }

    /// Removes foreign keys after a failed call on a slice. If the store answered nonsense, another
    /// program may have put keys in the place of the slice's, and no call is answered as long as
    /// they are there. The checks find later what the slice lacks. True if there were such keys.
    pub async fn heal(&self, slice: &SliceId, why: &StoreError) -> bool {
        if !matches!(why, StoreError::Nonsense(_)) {
            return false;
        }
        match self
            .store
            .drop_foreign_keys(slice, &self.gateways.id())
            .await
        {
            Ok(keys) if keys.is_empty() => false,
            Ok(keys) => {
                tracing::warn!(
                    set = %slice.set, slice = slice.index, ?keys,
                    "removed keys that another program wrote"
                );
                true
            }
            Err(why) => {
                tracing::debug!(
                    set = %slice.set, slice = slice.index, error = %why,
                    "could not look for foreign keys"
                );
                false
            }
        }
    }
}
