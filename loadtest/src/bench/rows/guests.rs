//! What a viewer costs Redis who is a fan, another user, or a guest: CPU to come and to go, and
//! memory while there. Each kind has a live of its own, and the kinds take turns.

use anyhow::ensure;
use rollcall::base::ids::{Epoch, GatewayId, LiveId, SliceId, UserId};
use rollcall::store::redis::RedisStore;
use rollcall::store::{Apply, ApplyReply, Slices};

use super::holder::first_call;
use crate::bench::servers::{Redis, RedisWork};
use crate::bench::settings::{Bench, turns};

/// As many come and go in one call as in a busy live within one flush.
const IN_A_CALL: usize = 100;

const KINDS: [ViewerKind; 3] = [ViewerKind::Fan, ViewerKind::User, ViewerKind::Guest];

#[derive(Debug, Clone, Copy)]
enum ViewerKind {
    Fan,
    /// A user who is no fan.
    User,
    Guest,
}

impl ViewerKind {
    fn name(self) -> &'static str {
        match self {
            Self::Fan => "a fan",
            Self::User => "another user",
            Self::Guest => "a guest",
        }
    }

    /// Ids of the same length for all kinds.
    fn viewer(self, number: usize) -> anyhow::Result<UserId> {
        Ok(match self {
            Self::Fan | Self::User => UserId::parse(&format!("u{number:011}"))?,
            Self::Guest => UserId::guest(&format!("{number:011}"))?,
        })
    }
}

pub(super) async fn run(bench: &mut Bench) -> anyhow::Result<()> {
    let redis = Redis::start().await?;
    let store = redis.store().await?;
    let idle = redis.idle(bench.pick_ms(1_000, 100)).await?;
    let count = bench.pick(20_000, 200);
    // Round 0 only loads the scripts.
    for (round, turn) in turns(bench.rounds() + 1, KINDS.len()) {
        let kind = KINDS[turn];
        let viewers = (0..count).map(|number| kind.viewer(number));
        let viewers = viewers.collect::<anyhow::Result<Vec<_>>>()?;
        let live = LiveId::parse(&format!("guests-{turn}-{round}"))?;
        let mut crowd = KindCrowd {
            store: &store,
            kind,
            slice: SliceId::of_live(live, 1, 1),
            gateway: GatewayId::random(),
            calls: 0,
        };
        let empty = redis.used_memory().await?;
        let before = redis.read().await?;
        for some in viewers.chunks(IN_A_CALL) {
            crowd.come(some).await?;
        }
        let coming = redis.since(&before).await?;
        let full = redis.used_memory().await?;
        let before = redis.read().await?;
        for some in viewers.chunks(IN_A_CALL) {
            crowd.go(some).await?;
        }
        let going = redis.since(&before).await?;
        if round == 0 {
            continue;
        }
        let name = kind.name();
        let each = |work: &RedisWork| (work.cpu - idle * work.seconds) * 1e6 / count as f64;
        bench.ours(&format!("{name} comes: Redis CPU, µs"), each(&coming));
        bench.ours(&format!("{name} goes: Redis CPU, µs"), each(&going));
        let memory = (full - empty) / count as f64;
        bench.ours(&format!("{name} is there: Redis memory, B"), memory);
    }
    Ok(())
}

/// The viewers of one kind, whom a gateway holds.
struct KindCrowd<'a> {
    store: &'a RedisStore,
    kind: ViewerKind,
    slice: SliceId,
    gateway: GatewayId,
    calls: u64,
}

impl KindCrowd<'_> {
    async fn come(&mut self, viewers: &[UserId]) -> anyhow::Result<()> {
        let viewers = viewers.to_vec();
        let since = vec![1_700_000_000_000; viewers.len()];
        let (joins, fans) = match self.kind {
            ViewerKind::Fan => (Vec::new(), viewers),
            ViewerKind::User | ViewerKind::Guest => (viewers, Vec::new()),
        };
        let call = Apply {
            joins,
            fans,
            since,
            ..self.next()
        };
        self.make(&call).await
    }

    async fn go(&mut self, viewers: &[UserId]) -> anyhow::Result<()> {
        let call = Apply {
            leaves: viewers.to_vec(),
            ..self.next()
        };
        self.make(&call).await
    }

    fn next(&mut self) -> Apply {
        self.calls += 1;
        Apply {
            number: self.calls,
            follows: (self.calls > 1).then(|| self.calls - 1),
            uniques: true,
            ..first_call(self.slice.clone(), Epoch(1), self.gateway.clone())
        }
    }

    async fn make(&self, call: &Apply) -> anyhow::Result<()> {
        let reply = self.store.apply(call).await?;
        ensure!(matches!(reply, ApplyReply::Done(_)), "{reply:?}");
        Ok(())
    }
}
