//! The plain contender: one or two commands for each member, without gateways, leases or epochs, as
//! a first version of such a service is often written. The commands of a call go in one pipeline.

use anyhow::ensure;
use fred::clients::Client;
use fred::interfaces::{KeysInterface, SetsInterface, SortedSetsInterface};
use fred::types::Value;

use super::work::{Batch, Work};
use crate::bench::generator::order::{streamer, user};

const EXPIRE_S: i64 = 15;

pub(super) struct Plain {
    pub(super) client: Client,
}

impl Plain {
    /// Puts another member into each set, so that no set becomes empty.
    pub(super) async fn prepare(&self, batch: Batch) -> anyhow::Result<()> {
        for set in 0..batch.calls {
            self.client.sadd::<(), _, _>(key(set), "other").await?;
        }
        Ok(())
    }

    /// Sends the commands of one call.
    pub(super) async fn call(&self, work: Work, set: usize, batch: Batch) -> anyhow::Result<()> {
        let key = key(set);
        if work == Work::Close {
            return Ok(self.client.del::<(), _>(key).await?);
        }
        let pipeline = self.client.pipeline();
        let followers = format!("followers:{}", streamer(0));
        for member in (0..batch.shape.members).map(user) {
            match work {
                Work::Join | Work::JoinAgain | Work::JoinLast => {
                    pipeline.sadd::<(), _, _>(&key, member).await?;
                    pipeline.expire::<(), _>(&key, EXPIRE_S, None).await?;
                }
                Work::Look | Work::ClaimsPage | Work::Pass => {
                    pipeline.sismember::<(), _, _>(&key, member).await?
                }
                Work::FanCheck => pipeline.zscore::<(), _, _>(&followers, member).await?,
                Work::Leave | Work::Sweep => pipeline.srem::<(), _, _>(&key, member).await?,
                Work::Close => {}
            }
        }
        let answers: Vec<Value> = pipeline.all().await?;
        ensure!(
            answers.len() >= batch.shape.members,
            "{} answers for {} members",
            answers.len(),
            batch.shape.members
        );
        Ok(())
    }
}

fn key(set: usize) -> String {
    format!("plain:{set}")
}
