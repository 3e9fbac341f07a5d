//! The boundary for viewers, counted per gateway, and the model of it: the hash `{live:<live_id>}:viewers`, one field a
//! gateway, beside the live's record and only while that is open. Written on change, in the step that tells the other
//! gateways; read when a room is made and when a check finds that it is not what was heard.
//!
//! Values are absolute and numbered by their gateway, so an older one never replaces a newer one, whichever way either
//! came. Whether a gateway's value counts is a matter of its lease, not of a time. The scripts of the Redis store must
//! agree with [`ViewerBoard`] at every answer.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::StoreResult;
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, GatewayId, LiveId};

/// A gateway says how many viewers it has in a live.
#[derive(Debug, Clone)]
pub struct AnnounceViewers {
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
    /// What the live's channel is told in the same step.
    pub message: String,
}

/// What became of a [`AnnounceViewers`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnnounceReply {
    /// It is said, or something with a higher number was said before.
    Announced,
    /// The epoch is not open: it closed, a newer one began, or the record is lost. Nothing was done.
    NotOpen,
}

/// What a gateway last said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayViewers {
    /// Who.
    pub gateway: GatewayId,
    /// How many.
    pub viewers: u64,
    /// The number under which it was said.
    pub number: u64,
}

/// Viewers per gateway.
#[async_trait]
pub trait Viewers {
    /// Says how many there are on a gateway, to the store and on the live's channel in one step.
    async fn announce_viewers(&self, call: &AnnounceViewers) -> StoreResult<AnnounceReply>;

    /// What every gateway said, the dead among them, in no particular order; `None` if the epoch is not open.
    async fn view_viewers(&self, live: &LiveId, epoch: Epoch) -> StoreResult<Option<Vec<GatewayViewers>>>;

    /// Forgets what dead gateways said.
    async fn forget_viewers(&self, live: &LiveId, dead: &[GatewayId]) -> StoreResult<()>;
}

/// Viewers of one epoch of a live: the model.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ViewerBoard(BTreeMap<GatewayId, (u64, u64)>);

impl ViewerBoard {
    /// See [`Viewers::say_viewers`], of an epoch that is open. What would be a gateway's first word and comes after
    /// `not_after` is too late to be one: the gateway may have let go of the live since. Then this answers false.
    pub fn announce(&mut self, call: &AnnounceViewers, not_after: UnixMillis, now: UnixMillis) -> bool {
        match self.0.get(&call.gateway) {
            Some((_, number)) if *number >= call.number => {}
            None if now > not_after => return false,
            _ => drop(self.0.insert(call.gateway.clone(), (call.viewers, call.number))),
        }
        true
    }

    /// See [`Viewers::view_viewers`].
    pub fn view(&self) -> Vec<GatewayViewers> {
        let said = self.0.iter();
        said.map(|(gateway, (viewers, number))| GatewayViewers {
            gateway: gateway.clone(),
            viewers: *viewers,
            number: *number,
        })
        .collect()
    }

    /// See [`Viewers::forget_viewers`].
    pub fn forget(&mut self, dead: &[GatewayId]) {
        self.0.retain(|gateway, _| !dead.contains(gateway));
    }
}
