//! Rollcall's contender: the scripts of its Redis store. Other gateways have an entry in each
//! slice, too. All of them hold the same one fan.

use std::sync::Arc;

use anyhow::{Context, ensure};
use futures_util::{StreamExt, TryStreamExt, stream};
use rollcall::base::ids::{Epoch, GatewayId, LiveId, SliceId, UserId};
use rollcall::base::secret::Secret;
use rollcall::store::redis::RedisStore;
use rollcall::store::{Apply, ApplyReply, Entries, Follows, Pass, SliceSize, Slices};

use super::work::{AT_ONCE, Batch, GATEWAYS, Work};
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
        Ok(Self {
            store,
            me: GatewayId::random(),
            peers: (0..peers).map(|_| GatewayId::random()).collect(),
        })
    }

    /// Begins a new epoch in each slice and writes the entries of the other gateways.
    pub(super) async fn prepare(&self, batch: Batch) -> anyhow::Result<()> {
        let entries = (0..batch.shape.gateways - 1)
            .flat_map(|other| (0..batch.calls).map(move |slice| (other, slice)));
        let calls = entries.map(|(other, slice)| async move {
            let gateway = self.peers[other].clone();
            let fans = vec![UserId::parse("other")?];
            let since = vec![1];
            self.apply(&Apply {
                gateway,
                fans,
                since,
                ..self.join(slice, batch)?
            })
            .await
        });
        stream::iter(calls)
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
        Ok(())
    }

    /// Makes one call.
    pub(super) async fn call(&self, work: Work, number: usize, batch: Batch) -> anyhow::Result<()> {
        let members = batch.shape.members as u64;
        let others = u64::from(batch.shape.gateways > 1);
        let slice = slice(number)?;
        let join = self.join(number, batch)?;
        match work {
            Work::Join | Work::JoinAgain | Work::JoinLast => {
                // A sweep removes the gateway's entry, and with it the number of its last call; a
                // leave keeps both.
                let (number, follows) = match work {
                    Work::JoinAgain => (10, Some(3)),
                    Work::JoinLast => (11, None),
                    _ => (1, None),
                };
                self.apply(&Apply {
                    number,
                    follows,
                    ..join
                })
                .await?;
            }
            Work::Look => {
                let slices = std::slice::from_ref(&slice);
                let looks = self.store.look(slices, &self.me, Entries::Own).await;
                let look = looks.into_iter().next().context("no look")??;
                ensure!(look.entry.is_some() && look.is_intact, "{look:?}");
            }
            Work::ClaimsPage => {
                let page = self.store.claims_page(&slice, 0).await?;
                ensure!(
                    page.next.is_some() || page.users.len() >= batch.shape.members,
                    "{page:?}"
                );
            }
            Work::Pass => {
                let passed = self.store.pass(&pass(slice, batch, None)).await?;
                let passed = passed.context("another epoch")?;
                ensure!(passed.size.card == others + members, "{passed:?}");
            }
            Work::FanCheck => {
                let fans = self
                    .store
                    .follows(&UserId::parse(&streamer(0))?, &join.fans)
                    .await?;
                ensure!(fans.iter().all(|fan| *fan), "a member is not a follower");
            }
            Work::Leave => {
                let fans = vec![];
                let since = vec![];
                let leaves = join.fans.clone();
                let leave = Apply {
                    number: 3,
                    follows: Some(1),
                    fans,
                    since,
                    leaves,
                    ..join
                };
                self.apply(&leave).await?;
            }
            Work::Sweep => {
                let mut pass = pass(slice, batch, Some(&self.me));
                let mut released = 0;
                loop {
                    let passed = self.store.pass(&pass).await?.context("another epoch")?;
                    released += passed.released;
                    pass.from = passed.next;
                    if pass.from.is_none() {
                        break;
                    }
                }
                ensure!(released == members, "{released} of {members} swept");
            }
            Work::Close => drop(self.store.close_slice(&slice, Epoch(batch.epoch)).await?),
        }
        Ok(())
    }

    fn join(&self, number: usize, batch: Batch) -> anyhow::Result<Apply> {
        let users = (0..batch.shape.members).map(|number| UserId::parse(&user(number)));
        Ok(Apply {
            slice: slice(number)?,
            epoch: Epoch(batch.epoch),
            gateway: self.me.clone(),
            number: 1,
            follows: None,
            known: SliceSize::default(),
            more: false,
            bye: false,
            uniques: false,
            joins: Vec::new(),
            fans: users.collect::<Result<_, _>>()?,
            since: vec![1; batch.shape.members],
            lives: Vec::new(),
            left: None,
            leaves: vec![],
        })
    }

    async fn apply(&self, call: &Apply) -> anyhow::Result<()> {
        let reply = self.store.apply(call).await?;
        ensure!(matches!(reply, ApplyReply::Done(_)), "{reply:?}");
        Ok(())
    }
}

/// A pass through the claims, which sweeps this gateway.
fn pass(slice: SliceId, batch: Batch, dead: Option<&GatewayId>) -> Pass {
    Pass {
        slice,
        epoch: Epoch(batch.epoch),
        known: SliceSize::default(),
        wrong: None,
        dead: dead
            .map(|gateway| (gateway.clone(), 1))
            .into_iter()
            .collect(),
        from: None,
        only_claims: true,
    }
}

fn slice(number: usize) -> anyhow::Result<SliceId> {
    Ok(SliceId::of_live(LiveId::parse(&live(number))?, 1, 1))
}
