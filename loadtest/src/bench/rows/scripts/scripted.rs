//! The store of Rollcall, call by call. Beside the gateway that is measured others have an entry in each slice. All of
//! them hold the same single other fan: whoever leaves is looked for there too, and a slice has no more members for it.

use std::sync::Arc;

use anyhow::ensure;
use futures_util::{StreamExt, TryStreamExt, stream};
use rollcall::base::ids::{Epoch, GatewayId, LiveId, SliceId, UserId};
use rollcall::base::secret::Secret;
use rollcall::store::redis::RedisStore;
use rollcall::store::{Apply, ApplyReply, Follows, MAX_BATCH, Slices, Strays};

use super::{AT_ONCE, Batch, GATEWAYS, Work};
use crate::bench::generator::order::{live, streamer, user};
use crate::bench::servers::Redis;

pub(super) struct Scripted {
    store: RedisStore,
    me: GatewayId,
    peers: Vec<GatewayId>,
}

impl Scripted {
    pub(super) async fn connect(redis: &Redis) -> anyhow::Result<Self> {
        let store = RedisStore::connect(&Secret::new(redis.url()), Arc::default()).await?;
        let peers = GATEWAYS.into_iter().max().map_or(0, |most| most - 1);
        Ok(Self { store, me: GatewayId::random(), peers: (0..peers).map(|_| GatewayId::random()).collect() })
    }

    /// Begins the epoch of each slice: the other gateways are there.
    pub(super) async fn prepare(&self, batch: Batch) -> anyhow::Result<()> {
        let entries = (0..batch.gateways - 1).flat_map(|other| (0..batch.calls).map(move |slice| (other, slice)));
        let enter = |(other, slice): (usize, usize)| async move {
            let gateway = self.peers[other].clone();
            self.apply(&Apply { gateway, joins: vec![UserId::parse("other")?], ..self.join(slice, batch)? }, 1).await
        };
        stream::iter(entries.map(enter)).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
        Ok(())
    }

    /// One call.
    pub(super) async fn call(&self, work: Work, number: usize, batch: Batch) -> anyhow::Result<()> {
        let members = batch.members as u64;
        let slice = slice(number)?;
        let join = self.join(number, batch)?;
        match work {
            Work::Join | Work::JoinAgain | Work::JoinLast => {
                // The sweep takes the entry away, the leaving does not.
                let (number, follows) = match work {
                    Work::JoinAgain => (10, Some(3)),
                    Work::JoinLast => (11, None),
                    _ => (1, None),
                };
                self.apply(&Apply { number, follows, ..join }, members).await?;
            }
            Work::Read => {
                let reading = self.store.read_slice(&slice, &self.me).await?;
                ensure!(reading.held == members, "{reading:?}");
            }
            Work::HeldPage => {
                let page = self.store.held_page(&slice, &self.me, 0).await?;
                ensure!(page.next.is_some() || page.users.len() >= batch.members, "{page:?}");
            }
            Work::CheckPage => {
                let page = self.store.strays(&slice, 0, MAX_BATCH, Strays::Count).await?;
                ensure!(page.card == members + 1 && page.strays == 0, "{page:?}");
            }
            Work::FanCheck => {
                let fans = self.store.follows(&UserId::parse(&streamer(0))?, &join.joins).await?;
                ensure!(fans.iter().all(|fan| *fan), "somebody does not follow");
            }
            Work::Leave => {
                let leave = Apply { number: 3, follows: Some(1), joins: vec![], leaves: join.joins.clone(), ..join };
                self.apply(&leave, 0).await?;
            }
            Work::Sweep => {
                let swept = self.store.sweep(&slice, &self.me, MAX_BATCH).await?;
                ensure!(swept.released == members && swept.done, "{swept:?}");
            }
            Work::Close => self.store.close_slice(&slice, Epoch(batch.turn)).await?,
        }
        Ok(())
    }

    fn join(&self, number: usize, batch: Batch) -> anyhow::Result<Apply> {
        let users = (0..batch.members).map(|number| UserId::parse(&user(number)));
        Ok(Apply {
            slice: slice(number)?,
            epoch: Epoch(batch.turn),
            gateway: self.me.clone(),
            number: 1,
            follows: None,
            joins: users.collect::<Result<_, _>>()?,
            leaves: vec![],
        })
    }

    async fn apply(&self, call: &Apply, holds_then: u64) -> anyhow::Result<()> {
        let reply = self.store.apply(call).await?;
        let held = match &reply {
            ApplyReply::Done(view) => Some(view.held),
            _ => None,
        };
        ensure!(held == Some(holds_then), "{reply:?} instead of {holds_then} held");
        Ok(())
    }
}

fn slice(number: usize) -> anyhow::Result<SliceId> {
    Ok(SliceId { live: LiveId::parse(&live(number))?, index: 1, of: 1 })
}
