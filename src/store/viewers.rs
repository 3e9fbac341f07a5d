//! Owns the boundary for viewers, counted per gateway, and the model of it: the hash `live-viewers:<live_id>`, one field
//! a gateway. This is the lossless way of figures between gateways: written with each lease refresh, read when a room is
//! made and with each refresh.
//!
//! Values are absolute and numbered by their gateway, so an older one never replaces a newer one, whichever way either
//! came. Ages are by the store's clock. The scripts of the Redis store must agree with [`Board`] at every answer.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use super::leases::{OwnLeases, Said};
use super::{COVERED_LEASES, StoreResult};
use crate::clock::{UnixMillis, millis};
use crate::ids::{Epoch, GatewayId, LiveId};

/// A gateway's word on its viewers of a live.
#[derive(Debug, Clone)]
pub struct SayViewers {
    /// The live.
    pub live: LiveId,
    /// The epoch in which the gateway believes.
    pub epoch: Epoch,
    /// Who says it.
    pub gateway: GatewayId,
    /// How many users are in the live on this gateway.
    pub viewers: u64,
    /// Grows with everything that the gateway says of its viewers; what is not above the last does nothing.
    pub number: u64,
    /// Fields older than this, two leases, are dropped.
    pub keep: Duration,
}

/// What a gateway last said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayViewers {
    /// Who.
    pub gateway: GatewayId,
    /// How many.
    pub viewers: u64,
    /// The number of the word.
    pub number: u64,
    /// How long ago it was said, by the store's clock, or the gateway's own lease renewed under which it stands.
    pub age: Duration,
}

/// Viewers of a live, gateway by gateway, in no particular order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ViewersReply {
    /// As it stands after the call.
    Known {
        /// The store knew nothing of this epoch before: who is missing has not spoken yet.
        begins: bool,
        /// What each gateway said, the caller among them.
        gateways: Vec<GatewayViewers>,
    },
    /// The epoch is closed, or an older one than the store knows. Nothing was done.
    Over,
}

/// Viewers per gateway.
#[async_trait]
pub trait Viewers {
    /// Says how many there are here, and reads the others'.
    async fn say_viewers(&self, say: &SayViewers) -> StoreResult<ViewersReply>;

    /// Reads what the gateways said in an epoch, no older than `keep`.
    async fn view_viewers(&self, live: &LiveId, epoch: Epoch, keep: Duration) -> StoreResult<ViewersReply>;

    /// Takes a gateway's word back, unless it has said something with a higher number since: a 0 with that number stands
    /// there until it is dropped for its age, so that an earlier word which comes late does nothing.
    async fn forget_viewers(&self, live: &LiveId, gateway: &GatewayId, number: u64) -> StoreResult<()>;

    /// Forgets all that was said in an epoch, and refuses what is said late. A newer epoch is left alone.
    async fn close_viewers(&self, live: &LiveId, epoch: Epoch) -> StoreResult<()>;
}

/// Viewers of one live: the model.
#[derive(Debug, Default)]
pub(super) struct Board {
    said: BTreeMap<GatewayId, Word>,
    fence: Option<(Epoch, Phase)>,
}

/// What a gateway said of itself.
#[derive(Debug, Clone, Copy)]
struct Word {
    viewers: u64,
    said: Said,
    number: u64,
}

/// Whether the epoch may still be spoken of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    Closed,
}

impl Board {
    pub(super) fn say(&mut self, say: &SayViewers, own: &OwnLeases, now: UnixMillis) -> ViewersReply {
        if self.is_over(say.epoch) {
            return ViewersReply::Over;
        }
        let begins = self.fence.is_none_or(|(epoch, _)| epoch < say.epoch);
        if begins {
            self.said.clear();
        }
        self.fence = Some((say.epoch, Phase::Open));
        if self.said.get(&say.gateway).is_none_or(|word| word.number < say.number) {
            let said = Said { at: now, covered: false };
            self.said.insert(say.gateway.clone(), Word { viewers: say.viewers, said, number: say.number });
        }
        self.known(begins, say.keep, own, now)
    }

    /// Renews a gateway's word as it stands, if it is this one and the only one; from then on it stands under the gateway's
    /// own lease, unless it says that there are none: nobody would miss it.
    pub(super) fn renew(&mut self, gateway: &GatewayId, viewers: u64, number: u64, now: UnixMillis) -> bool {
        let alone = self.said.len() == 1;
        match self.said.get_mut(gateway) {
            Some(word) if alone && (word.viewers, word.number) == (viewers, number) => {
                word.said = Said { at: now, covered: viewers > 0 };
            }
            _ => return false,
        }
        true
    }

    pub(super) fn view(&mut self, epoch: Epoch, keep: Duration, own: &OwnLeases, now: UnixMillis) -> ViewersReply {
        if self.is_over(epoch) {
            return ViewersReply::Over;
        }
        if self.fence.is_none_or(|(known, _)| known < epoch) {
            return ViewersReply::Known { begins: true, gateways: Vec::new() };
        }
        self.known(false, keep, own, now)
    }

    pub(super) fn forget(&mut self, gateway: &GatewayId, number: u64, now: UnixMillis) {
        if let Some(word) = self.said.get_mut(gateway).filter(|word| word.number <= number) {
            *word = Word { viewers: 0, said: Said { at: now, covered: false }, number };
        }
    }

    /// True if the fence moved.
    pub(super) fn close(&mut self, epoch: Epoch) -> bool {
        if self.is_over(epoch) {
            return false;
        }
        self.said.clear();
        self.fence = Some((epoch, Phase::Closed));
        true
    }

    pub(super) fn is_closed_in(&self, epoch: Epoch) -> bool {
        self.fence == Some((epoch, Phase::Closed))
    }

    fn is_over(&self, epoch: Epoch) -> bool {
        self.fence.is_some_and(|(known, phase)| known > epoch || (known == epoch && phase == Phase::Closed))
    }

    fn known(&mut self, begins: bool, keep: Duration, own: &OwnLeases, now: UnixMillis) -> ViewersReply {
        // `keep` is two leases.
        let most = (keep / 2).saturating_mul(COVERED_LEASES);
        let quiet = |gateway: &GatewayId, word: &Word| own.quiet(gateway, word.said, most, now);
        self.said.retain(|gateway, word| quiet(gateway, word) <= millis(keep));
        let gateways = self.said.iter().map(|(gateway, word)| GatewayViewers {
            gateway: gateway.clone(),
            viewers: word.viewers,
            number: word.number,
            age: Duration::from_millis(quiet(gateway, word)),
        });
        ViewersReply::Known { begins, gateways: gateways.collect() }
    }
}
