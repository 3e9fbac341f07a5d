//! The calls on users' lists.

use crate::features::feeds::scripts;
use async_trait::async_trait;

use crate::base::ids::{ListName, UserId};
use crate::features::feeds::store::lists::{MAX_LIST, PutInList, UserLists};
use crate::store::StoreResult;
use crate::store::redis::reply::{Reply, flag, nonsense};
use crate::store::redis::{RedisCalls, args};

#[async_trait]
impl UserLists for RedisCalls {
    async fn put_in_list(
        &self,
        owner: &UserId,
        list: &ListName,
        member: &UserId,
    ) -> StoreResult<PutInList> {
        let keys = vec![self.keys().list_of(owner, list)];
        let args = args![member, MAX_LIST];
        let mut reply = self
            .router
            .script(&scripts::PUT_IN_LIST, keys, args)
            .await?;
        match reply.text()?.as_str() {
            "added" => Ok(PutInList::Added),
            "there" => Ok(PutInList::There),
            "full" => Ok(PutInList::Full),
            other => Err(nonsense(format!("a list answered {other}"))),
        }
    }

    async fn take_out_of_list(
        &self,
        owner: &UserId,
        list: &ListName,
        member: &UserId,
    ) -> StoreResult<bool> {
        let args = args![self.keys().list_of(owner, list), member];
        flag(&self.router.command("ZREM", args).await?)
    }

    async fn list_members(&self, owner: &UserId, list: &ListName) -> StoreResult<Vec<UserId>> {
        let args = args![self.keys().list_of(owner, list), 0, MAX_LIST - 1];
        let members = self.router.command("ZRANGE", args).await?;
        Ok(Reply::of(members)?.users())
    }
}
