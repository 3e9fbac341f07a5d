//! What the store's scripts cost Redis, beside plain commands that do the same for each member, by
//! the number of members in a call.
//!
//! The cost is the CPU time of Redis above idle. Scripts are called without waiting for replies,
//! and plain commands go in one pipeline per call, so neither pays for round trips. Another gateway
//! has an entry in each slice of a script. The plain commands know neither gateways nor leases nor
//! epochs, as a first version of such a service is often written.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use fred::clients::Client;
use fred::interfaces::{KeysInterface, SetsInterface, SortedSetsInterface};
use fred::types::Value;
use futures_util::{StreamExt, TryStreamExt, stream};
use rollcall::base::ids::{Epoch, GatewayId, LiveId, SliceId, UserId};
use rollcall::store::redis::RedisStore;
use rollcall::store::{Apply, ApplyReply, Follows, Pass, SliceSize, Slices};

use super::holder::first_call;
use crate::bench::figures::Who;
use crate::bench::generator::order::{live, streamer, user};
use crate::bench::servers::Redis;
use crate::bench::settings::Bench;

const SIZES: [usize; 4] = [1, 10, 100, 1_000];
/// Most calls of one measurement, and most members of all of them.
const CALLS: usize = 500;
const MEMBERS: usize = 5_000;
/// Fewer calls would let the fixed cost of a measurement show.
const FEWEST_CALLS: usize = 30;
const AT_ONCE: usize = 32;
const EXPIRE_S: i64 = 15;
/// The background thread of Redis needs this long to free unlinked keys.
const FREED_AFTER: Duration = Duration::from_millis(3);
/// No further round begins after this time.
const NO_ROUND_AFTER: Duration = Duration::from_secs(20);

/// What a call does. Every batch does all of it to the same slices, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallKind {
    Join,
    FanCheck,
    Leave,
    /// Fills the slice for the sweep.
    JoinAgain,
    Sweep,
    /// Fills the slice for the close.
    JoinLast,
    Close,
}

/// With the names in the table; work without one only prepares the next.
const ALL: [(CallKind, Option<&str>); 7] = [
    (CallKind::Join, Some("apply with joins")),
    (CallKind::FanCheck, Some("fan check")),
    (CallKind::Leave, Some("apply with leaves")),
    (CallKind::JoinAgain, None),
    (CallKind::Sweep, Some("sweep")),
    (CallKind::JoinLast, None),
    (CallKind::Close, Some("close of a slice")),
];

/// The calls of one measurement, each to a slice of its own.
#[derive(Clone, Copy)]
struct Batch {
    /// In each call.
    members: usize,
    calls: usize,
    /// Each batch opens its slices in a new epoch.
    epoch: u64,
}

pub(super) async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let redis = Redis::start().await?;
    redis.follow(SIZES[SIZES.len() - 1], 1).await?;
    let idle = redis.idle(bench.pick_ms(1_000, 100)).await?;
    let scripted = Scripted {
        store: redis.store().await?,
        me: GatewayId::random(),
        other: GatewayId::random(),
    };
    let began = Instant::now();
    let mut epoch = 0;
    // The first round only loads the scripts and opens the connections.
    for round in 0..=bench.rounds() {
        if round > 1 && began.elapsed() > NO_ROUND_AFTER {
            break;
        }
        for members in SIZES {
            epoch += 1;
            let most = bench.pick(MEMBERS, 20) / members;
            let calls = most.clamp(bench.pick(FEWEST_CALLS, 2), CALLS);
            let batch = Batch {
                members,
                calls: if round == 0 { 1 } else { calls },
                epoch,
            };
            scripted.prepare(batch).await?;
            prepare_plain(&redis.client, batch).await?;
            for (work, name) in ALL {
                let ours = per_call(&redis, idle, batch, |number| {
                    scripted.call(work, number, batch)
                });
                let ours = ours.await?;
                let theirs = per_call(&redis, idle, batch, |number| {
                    plain(&redis.client, work, number, batch)
                });
                let theirs = theirs.await?;
                let Some(name) = name.filter(|_| round > 0) else {
                    continue;
                };
                for (who, a_call) in [(Who::Rollcall, ours), (Who::Naive, theirs)] {
                    bench.note(who, &format!("{name}, {members}: a call, µs"), a_call);
                    let a_member = a_call / members as f64;
                    bench.note(who, &format!("{name}, {members}: a member, µs"), a_member);
                }
            }
        }
    }
    Ok(())
}

/// Makes the calls and returns the microseconds of Redis's CPU time for each, above idle.
async fn per_call<F: Future<Output = anyhow::Result<()>>>(
    redis: &Redis,
    idle: f64,
    batch: Batch,
    call: impl Fn(usize) -> F,
) -> anyhow::Result<f64> {
    let cpu = redis.server.cpu()?;
    let began = Instant::now();
    at_once((0..batch.calls).map(call)).await?;
    tokio::time::sleep(FREED_AFTER).await;
    let seconds = began.elapsed().as_secs_f64();
    Ok((redis.server.cpu()? - cpu - idle * seconds) * 1e6 / batch.calls as f64)
}

async fn at_once<F: Future<Output = anyhow::Result<()>>>(
    calls: impl Iterator<Item = F>,
) -> anyhow::Result<()> {
    let calls = stream::iter(calls).buffer_unordered(AT_ONCE);
    calls.try_collect::<Vec<()>>().await.map(drop)
}

/// Rollcall's contender: the scripts of its Redis store.
struct Scripted {
    store: RedisStore,
    me: GatewayId,
    other: GatewayId,
}

impl Scripted {
    /// Begins a new epoch in each slice and writes the entry of the other gateway.
    async fn prepare(&self, batch: Batch) -> anyhow::Result<()> {
        let calls = (0..batch.calls).map(|number| async move {
            self.apply(&Apply {
                gateway: self.other.clone(),
                fans: vec![UserId::parse("other")?],
                since: vec![1],
                ..self.join(number, batch)?
            })
            .await
        });
        at_once(calls).await
    }

    /// Makes one call.
    async fn call(&self, work: CallKind, number: usize, batch: Batch) -> anyhow::Result<()> {
        let slice = slice(number)?;
        let join = self.join(number, batch)?;
        match work {
            CallKind::Join => self.apply(&join).await?,
            // A sweep removes the gateway's entry, and with it the number of its last call; a leave
            // keeps both.
            CallKind::JoinAgain => {
                let again = Apply {
                    number: 10,
                    follows: Some(3),
                    ..join
                };
                self.apply(&again).await?;
            }
            CallKind::JoinLast => self.apply(&Apply { number: 11, ..join }).await?,
            CallKind::FanCheck => {
                let streamer = UserId::parse(&streamer(0))?;
                let fans = self.store.follows(&streamer, &join.fans).await?;
                ensure!(fans.iter().all(|fan| *fan), "a member is not a follower");
            }
            CallKind::Leave => {
                let leave = Apply {
                    number: 3,
                    follows: Some(1),
                    leaves: join.fans.clone(),
                    fans: Vec::new(),
                    since: Vec::new(),
                    ..join
                };
                self.apply(&leave).await?;
            }
            CallKind::Sweep => self.sweep(slice, batch).await?,
            CallKind::Close => drop(self.store.close_slice(&slice, Epoch(batch.epoch)).await?),
        }
        Ok(())
    }

    async fn sweep(&self, slice: SliceId, batch: Batch) -> anyhow::Result<()> {
        let mut pass = Pass {
            slice,
            epoch: Epoch(batch.epoch),
            known: SliceSize::default(),
            wrong: None,
            dead: [(self.me.clone(), 1)].into_iter().collect(),
            from: None,
            only_claims: true,
        };
        let mut released = 0;
        loop {
            let passed = self.store.pass(&pass).await?.context("another epoch")?;
            released += passed.released;
            pass.from = passed.next;
            if pass.from.is_none() {
                break;
            }
        }
        let members = batch.members as u64;
        ensure!(released == members, "{released} of {members} swept");
        Ok(())
    }

    fn join(&self, number: usize, batch: Batch) -> anyhow::Result<Apply> {
        let users = (0..batch.members).map(|number| UserId::parse(&user(number)));
        Ok(Apply {
            fans: users.collect::<Result<_, _>>()?,
            since: vec![1; batch.members],
            ..first_call(slice(number)?, Epoch(batch.epoch), self.me.clone())
        })
    }

    async fn apply(&self, call: &Apply) -> anyhow::Result<()> {
        let reply = self.store.apply(call).await?;
        ensure!(matches!(reply, ApplyReply::Done(_)), "{reply:?}");
        Ok(())
    }
}

fn slice(number: usize) -> anyhow::Result<SliceId> {
    Ok(SliceId::of_live(LiveId::parse(&live(number))?, 1, 1))
}

fn plain_key(set: usize) -> String {
    format!("plain:{set}")
}

/// Puts another member into each plain set, so that no set becomes empty.
async fn prepare_plain(client: &Client, batch: Batch) -> anyhow::Result<()> {
    for set in 0..batch.calls {
        client.sadd::<(), _, _>(plain_key(set), "other").await?;
    }
    Ok(())
}

/// Sends the plain commands of one call.
async fn plain(client: &Client, work: CallKind, set: usize, batch: Batch) -> anyhow::Result<()> {
    let key = plain_key(set);
    let pipeline = client.pipeline();
    let followers = format!("followers:{}", streamer(0));
    for member in (0..batch.members).map(user) {
        match work {
            CallKind::Join | CallKind::JoinAgain | CallKind::JoinLast => {
                pipeline.sadd::<(), _, _>(&key, member).await?;
                pipeline.expire::<(), _>(&key, EXPIRE_S, None).await?;
            }
            CallKind::FanCheck => pipeline.zscore::<(), _, _>(&followers, member).await?,
            CallKind::Leave | CallKind::Sweep => pipeline.srem::<(), _, _>(&key, member).await?,
            CallKind::Close => return Ok(client.del::<(), _>(key).await?),
        }
    }
    let answers: Vec<Value> = pipeline.all().await?;
    ensure!(
        answers.len() >= batch.members,
        "{} answers for {} members",
        answers.len(),
        batch.members
    );
    Ok(())
}
