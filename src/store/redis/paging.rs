//! Reads a sorted set page by page. The platform may write some of these sets, so the reader skips
//! a member that is no id of this program: it must not hide the rest.

use super::{RedisCalls, args, scripts};
use crate::base::clock::UnixMillis;
use crate::store::{MAX_BATCH, StoreResult};

#[derive(Debug, Clone, Copy)]
pub(crate) enum PageOrder {
    /// Lowest score first.
    Up,
    /// Highest score first.
    Down,
}

/// A member and its score.
pub(crate) type Scored = (String, UnixMillis);

impl RedisCalls {
    /// Up to `limit` entries after the given one; skips those that `read` cannot read.
    pub(crate) async fn page<T>(
        &self,
        key: &str,
        order: PageOrder,
        mut after: Option<Scored>,
        limit: usize,
        read: impl Fn(Scored) -> Option<T>,
    ) -> StoreResult<Vec<T>> {
        let mut found = Vec::new();
        while found.len() < limit {
            let wanted = (limit - found.len()).min(MAX_BATCH);
            let order = match order {
                PageOrder::Up => "up",
                PageOrder::Down => "down",
            };
            let mut args = args![order, wanted];
            if let Some((member, score)) = after {
                args.extend(args![score, member]);
            }
            let page = self
                .router
                .script(&scripts::PAGE_SORTED_SET, vec![key.to_owned()], args)
                .await?
                .scored()?;
            let at_end = page.len() < wanted;
            after = page.last().cloned();
            for entry in page {
                found.extend(read(entry));
            }
            if at_end {
                break;
            }
        }
        Ok(found)
    }
}
