//! Owns the boundary for lives in which nothing is new: what a gateway expects of the store there, said for many lives at
//! a time, and whether it is so.
//!
//! With very many small lives the leases are what a store works on: a record looked at, a lease and a word on viewers
//! renewed, for each live and lease refresh. Where the gateway is alone in a live and has nothing to say, it knows every
//! answer beforehand; so it asks only whether all is as expected. Where it is not, nothing is concluded from that: the
//! gateway goes through the refresh as a whole, whose calls know every case.
//!
//! A renewal brings nothing back that is gone: it only puts a new time to what stands there, unchanged, from the gateway's
//! last call on, and has it stand under the gateway's own lease from then on (see [`crate::store::Leases`]). While that is
//! held, a glance is enough most of the time: is the live open, and are there as many fans?

use async_trait::async_trait;

use crate::clock::UnixMillis;
use crate::ids::{Epoch, GatewayId, LiveId, SliceId};

/// The most lives of one call.
pub const MAX_RENEWALS: usize = 100;

/// A live as its only gateway expects it to stand in the store.
#[derive(Debug, Clone)]
pub struct Renewal {
    /// The live.
    pub live: LiveId,
    /// The epoch, which is open.
    pub epoch: Epoch,
    /// The number of the last removal.
    pub removals: u64,
    /// The streamer was heard on this gateway since it was last said so.
    pub streamer_heard: bool,
    /// When the live opened, if it is to be made sure that it is listed.
    pub relist: Option<UnixMillis>,
    /// Every slice.
    pub slices: Vec<HeldSlice>,
    /// All of it stands under the gateway's own lease: only the record and the number of fans are looked at. Without it all
    /// is, also whether each slice that has fans has its companions: keys are lost one by one where Redis evicts.
    pub glance: bool,
    /// The gateway's last word on its viewers. No other gateway's stands beside it.
    pub viewers: u64,
    /// The number of that word.
    pub word: u64,
}

/// What a [`Renewal`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Found {
    /// All is as expected, and, if it was more than a glance, the leases are renewed.
    Still,
    /// There was no answer, or the store does not renew many lives at a time. Any part may have been renewed, or may be yet.
    Nothing,
    /// Something is new. Any part may have been renewed.
    News,
}

/// A slice in which there are no other fans than the gateway's, and no other gateway's entry.
#[derive(Debug, Clone)]
pub struct HeldSlice {
    /// Which.
    pub slice: SliceId,
    /// How many there are. With none, the gateway has no entry.
    pub fans: u64,
    /// The number of the gateway's last call, as it stands in the entry.
    pub number: u64,
}

/// Leases and words renewed as they stand.
#[async_trait]
pub trait Renewals {
    /// What was found, for each of up to [`MAX_RENEWALS`] lives.
    async fn renew(&self, gateway: &GatewayId, lives: &[Renewal]) -> Vec<Found>;
}
