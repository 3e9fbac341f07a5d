//! The position at which a listing of a live's fans or viewers goes on.
//!
//! Such a listing shows each user at most once, although the store's scan may repeat members and
//! the set changes between pages. A user stays in one slice, the listing takes one slice after the
//! other, each in the order of user ids, and the cursor is a position in that order.

use super::paging::{Listing, Paging, bad_cursor};
use super::problem::Problem;
use super::state::AppState;
use crate::base::ids::{Epoch, UserId};
use crate::store::{LiveRecord, LiveState};

/// A position in a listing: after this user of this slice.
pub(crate) struct Position {
    /// When the listing began. It shows no copy of a slice that was read before.
    pub(crate) began: u64,
    epoch: Epoch,
    pub(crate) slice: u32,
    pub(crate) after: Option<UserId>,
}

impl Position {
    pub(crate) fn cursor(&self, listing: Listing) -> String {
        let after = self.after.as_ref().map_or("", UserId::as_str);
        listing.cursor(&[&self.began, &self.epoch, &self.slice, &after])
    }

    /// Reads the cursor of a request; `None` for the first page.
    pub(crate) fn read(listing: Listing, paging: &Paging) -> Result<Option<Self>, Problem> {
        paging.position(|cursor| listing.resume(cursor, Self::parse))
    }

    fn parse([began, epoch, slice, after]: [&str; 4]) -> Option<Self> {
        Some(Self {
            began: began.parse().ok()?,
            epoch: Epoch(epoch.parse().ok()?),
            slice: slice.parse().ok()?,
            after: Some(UserId::read(after).ok()?),
        })
    }

    /// The position in a live, which is the first one if the request has none. `None` if the live
    /// has closed, or if the epoch in which the listing began has ended.
    pub(crate) fn in_epoch(
        position: Option<Self>,
        state: &AppState,
        record: &LiveRecord,
    ) -> Result<Option<Self>, Problem> {
        let position = match position {
            Some(position) => position,
            None => Self {
                began: state.snapshots.stamp(),
                epoch: record.epoch,
                slice: 1,
                after: None,
            },
        };
        if record.state != LiveState::Open || position.epoch != record.epoch {
            return Ok(None);
        }
        if !(1..=record.slices).contains(&position.slice) {
            return Err(bad_cursor("the live has no such slice"));
        }
        Ok(Some(position))
    }
}
