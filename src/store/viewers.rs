//! The boundary for viewers, counted per gateway, and its model: the hash `{live:<live_id>}:viewers`, one field a
//! gateway, beside the live's record and only while that is open. A gateway writes its field when its count changes, in
//! the step that publishes the change. Gateways read the hash when a room is made and when a check finds a difference.
//!
//! Values are absolute and numbered by their gateway, so an older value never replaces a newer one, in the store or in
//! a message. Whether a gateway's value counts depends on its lease, not on a time. The scripts of the Redis store must
//! agree with [`AnnouncedViewers`] at every answer.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::StoreResult;
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, GatewayId, LiveId};

/// A gateway announces how many viewers it has in a live.
#[derive(Debug, Clone)]
pub struct AnnounceViewers {
    /// The live.
    pub live: LiveId,
    /// The epoch in which the gateway believes.
    pub epoch: Epoch,
    /// The announcing gateway.
    pub gateway: GatewayId,
    /// How many users are in the live on this gateway.
    pub viewers: u64,
    /// How many of them are away: all their sockets there said so.
    pub away: u64,
    /// How many of them were sent to another gateway, and may be counted there by now.
    pub moving: u64,
    /// Grows with each announcement of the gateway; one that is not above the last stores nothing.
    pub number: u64,
    /// What the live's channel is told in the same step.
    pub message: String,
}

/// What became of a [`AnnounceViewers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnnounceReply {
    /// It is stored, or an announcement with a higher number was stored before.
    Announced,
    /// The epoch is not open: it closed, a newer one began, or the record is lost. Nothing was done.
    NotOpen,
}

/// What a gateway announced last.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GatewayViewers {
    /// The gateway.
    pub gateway: GatewayId,
    /// Its viewers.
    pub viewers: u64,
    /// How many of them are away.
    pub away: u64,
    /// How many of them may be counted on another gateway, too.
    pub moving: u64,
    /// The number of the announcement.
    pub number: u64,
}

/// Viewers per gateway.
#[async_trait]
pub trait Viewers {
    /// Stores how many viewers a gateway has and publishes it on the live's channel, in one step.
    async fn announce_viewers(&self, call: &AnnounceViewers) -> StoreResult<AnnounceReply>;

    /// What every gateway announced, the dead among them, in no particular order; `None` if the epoch is not open.
    async fn view_viewers(&self, live: &LiveId, epoch: Epoch) -> StoreResult<Option<Vec<GatewayViewers>>>;

    /// What every gateway announced in each of many lives, whatever their state; not in one step. An error for one live
    /// is no error for another.
    async fn survey_viewers(&self, lives: &[LiveId]) -> Vec<StoreResult<Vec<GatewayViewers>>>;

    /// Forgets what dead gateways announced; answers how many of them had announced anything.
    async fn forget_viewers(&self, live: &LiveId, dead: &[GatewayId]) -> StoreResult<u64>;
}

/// Viewers of one epoch of a live: the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct AnnouncedViewers(BTreeMap<GatewayId, GatewayViewers>);

impl AnnouncedViewers {
    /// See [`Viewers::announce_viewers`], of an epoch that is open. False if a gateway's first announcement comes after
    /// `not_after`: the gateway may have let go of the live since.
    pub fn announce(&mut self, call: &AnnounceViewers, not_after: UnixMillis, now: UnixMillis) -> bool {
        match self.0.get(&call.gateway) {
            Some(last) if last.number >= call.number => {}
            None if now > not_after => return false,
            _ => {
                let AnnounceViewers { viewers, away, moving, number, .. } = *call;
                let announced = GatewayViewers { gateway: call.gateway.clone(), viewers, away, moving, number };
                self.0.insert(call.gateway.clone(), announced);
            }
        }
        true
    }

    /// See [`Viewers::view_viewers`].
    pub fn view(&self) -> Vec<GatewayViewers> {
        self.0.values().cloned().collect()
    }

    /// See [`Viewers::forget_viewers`].
    pub fn forget(&mut self, dead: &[GatewayId]) -> u64 {
        let before = self.0.len();
        self.0.retain(|gateway, _| !dead.contains(gateway));
        (before - self.0.len()) as u64
    }
}
