//! Finds ids in Redis that are no longer valid, because no URL can carry them: `.` and `..`. Only an
//! audit calls it.

use crate::base::ids::{DOTS, Group, SliceId};
use crate::store::StoreResult;
use crate::store::redis::reply::{Reply, number};
use crate::store::redis::{RedisStore, args};

impl RedisStore {
    /// The keys that are named after such an id, or that list one. Each comes with the id.
    pub(crate) async fn keys_of_dots(&self) -> StoreResult<Vec<(String, &'static str)>> {
        let steps = async {
            let mut found = Vec::new();
            for id in DOTS {
                for key in self.keys().named_after(id) {
                    if number(&self.router.command("EXISTS", args![key]).await?)? > 0 {
                        found.push((key, id));
                    }
                }
                let lists = [
                    ("ZSCORE", self.keys().lives()),
                    ("HGET", self.keys().users()),
                ];
                for (command, list) in lists {
                    let listed = self.router.command(command, args![list, id]).await?;
                    if !listed.is_null() {
                        found.push((list, id));
                    }
                }
            }
            Ok(found)
        };
        self.router.call("keys_of_dots", steps).await
    }

    /// The ids of this kind that are in a group of a slice.
    pub(crate) async fn dots_in_slice(
        &self,
        slice: &SliceId,
        group: Group,
    ) -> StoreResult<Vec<&'static str>> {
        let mut args = args![self.keys().members(slice, group)];
        args.extend(DOTS.map(Into::into));
        let steps = async {
            let mut reply = Reply::of(self.router.command("SMISMEMBER", args).await?)?;
            let mut found = Vec::new();
            for id in DOTS {
                if reply.number()? > 0 {
                    found.push(id);
                }
            }
            Ok(found)
        };
        self.router.call("dots_in_slice", steps).await
    }
}
