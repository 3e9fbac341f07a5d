//! What the scripts of Rollcall's own store cost Redis: by how many members a call has, beside the plain commands that
//! do as much member by member; and by how many gateways have an entry in the slice, of which plain commands know
//! nothing.
//!
//! CPU time of Redis, above what it takes with nothing to do. Calls follow each other without waiting, and so do the
//! plain commands, in a pipeline per call: neither pays for round trips.

mod plain;
mod scripted;

use std::time::{Duration, Instant};

use anyhow::Context;
use futures_util::{StreamExt, TryStreamExt, stream};

use crate::bench::figures::{Figures, Who};
use crate::bench::servers::Redis;
use crate::bench::settings::Bench;
use plain::Plain;
use scripted::Scripted;

pub(super) const NAME: &str = "scripts";
const SIZES: [usize; 4] = [1, 10, 100, 1_000];
const FEW_GATEWAYS: usize = 2;
const GATEWAYS: [usize; 4] = [2, 10, 40, 100];
/// Of a call, where it is the gateways that differ.
const FEW_MEMBERS: usize = 10;
/// Calls of one measure, at most, and members, or gateways' entries, of all of them together.
const CALLS: usize = 500;
const THINGS: usize = 5_000;
/// What comes once with each measure is small beside so many.
const FEWEST_CALLS: usize = 30;
const AT_ONCE: usize = 32;
/// By then the background thread of Redis has freed what it was given.
const SETTLE: Duration = Duration::from_millis(3);
/// No round begins after it.
const ENOUGH: Duration = Duration::from_secs(20);

/// What is measured. All of them are done to the same slices, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Join,
    Read,
    HeldPage,
    CheckPage,
    FanCheck,
    Leave,
    /// To be swept.
    JoinAgain,
    Sweep,
    /// To be closed.
    JoinLast,
    Close,
}

const WORKS: [Work; 10] = [
    Work::Join,
    Work::Read,
    Work::HeldPage,
    Work::CheckPage,
    Work::FanCheck,
    Work::Leave,
    Work::JoinAgain,
    Work::Sweep,
    Work::JoinLast,
    Work::Close,
];

impl Work {
    /// As the table names it; `None`: it only prepares the next.
    fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::Join => "apply with joins",
            Self::Read => "reading of a slice",
            Self::HeldPage => "held page",
            Self::CheckPage => "strays page",
            Self::FanCheck => "fan check",
            Self::Leave => "apply with leaves",
            Self::Sweep => "sweep",
            Self::Close => "close of a slice",
            Self::JoinAgain | Self::JoinLast => return None,
        })
    }

    /// Whether it looks at what other gateways hold.
    fn asks_of_others(self) -> bool {
        matches!(self, Self::Join | Self::Leave | Self::Sweep | Self::CheckPage)
    }
}

/// What differs between the columns of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Members,
    Gateways,
}

/// A column: calls that have so many members each, to slices in which so many gateways have an entry.
#[derive(Debug, Clone, Copy)]
struct Shape {
    by: By,
    members: usize,
    gateways: usize,
}

impl Shape {
    fn all() -> impl Iterator<Item = Self> {
        let by_members = SIZES.map(|members| Self { by: By::Members, members, gateways: FEW_GATEWAYS });
        let by_gateways = GATEWAYS.map(|gateways| Self { by: By::Gateways, members: FEW_MEMBERS, gateways });
        by_members.into_iter().chain(by_gateways)
    }

    /// How many calls make a measure.
    fn calls(self, bench: &Bench) -> usize {
        let things = self.members.max(self.gateways);
        (bench.pick(THINGS, 20) / things).clamp(bench.pick(FEWEST_CALLS, 2), CALLS)
    }

    /// As the table names the column.
    fn name(self) -> String {
        match self.by {
            By::Members => self.members.to_string(),
            By::Gateways => format!("{} gateways", self.gateways),
        }
    }

    fn measures(self, work: Work) -> bool {
        self.by == By::Members || work.asks_of_others()
    }
}

/// The calls of one measure.
#[derive(Debug, Clone, Copy)]
struct Batch {
    calls: usize,
    members: usize,
    /// How many have an entry in each slice, the one that calls among them.
    gateways: usize,
    /// Which of the batches it is, from 1 on.
    turn: u64,
}

pub(super) async fn run(bench: &Bench, figures: &mut Figures) -> anyhow::Result<()> {
    let redis = Redis::start().await?;
    redis.follow(SIZES.into_iter().max().context("no size")?, 1).await?;
    let meter = Meter::start(&redis, bench.pick(Duration::from_secs(1), Duration::from_millis(100))).await?;
    let scripted = Scripted::connect(&redis).await?;
    let plain = Plain { client: redis.client.clone() };
    let (began, mut epoch) = (Instant::now(), 0);
    // The first round loads scripts and opens connections: it is not looked at.
    for turn in 0..=bench.rounds as u64 {
        if turn > 1 && began.elapsed() > ENOUGH {
            break;
        }
        for shape in Shape::all() {
            epoch += 1;
            let calls = if turn == 0 { 1 } else { shape.calls(bench) };
            let batch = Batch { calls, members: shape.members, gateways: shape.gateways, turn: epoch };
            scripted.prepare(batch).await?;
            plain.prepare(batch).await?;
            for work in WORKS {
                let ours = meter.of(calls, |slice| scripted.call(work, slice, batch)).await?;
                let name = work.name().filter(|_| turn > 0 && shape.measures(work));
                let mut note = |who, a_call| {
                    let Some(name) = name else { return };
                    let column = shape.name();
                    figures.note(NAME, who, (&format!("{name}, {column}: a call"), "µs"), a_call);
                    if shape.members > 1 {
                        let a_member = format!("{name}, {column}: a member");
                        figures.note(NAME, who, (&a_member, "µs"), a_call / shape.members as f64);
                    }
                };
                note(Who::Rollcall, ours);
                if shape.by == By::Members {
                    note(Who::Naive, meter.of(calls, |slice| plain.call(work, slice, batch)).await?);
                }
            }
        }
    }
    Ok(())
}

/// Reads Redis's CPU time.
struct Meter<'a> {
    redis: &'a Redis,
    /// Cores that Redis takes with nothing to do.
    idle: f64,
}

impl<'a> Meter<'a> {
    async fn start(redis: &'a Redis, span: Duration) -> anyhow::Result<Self> {
        Ok(Self { redis, idle: redis.idle(span).await? })
    }

    /// Microseconds of Redis's time for each of so many calls.
    async fn of<F: Future<Output = anyhow::Result<()>>>(
        &self,
        calls: usize,
        call: impl Fn(usize) -> F,
    ) -> anyhow::Result<f64> {
        let (cpu, began) = (self.redis.server.cpu()?, Instant::now());
        stream::iter((0..calls).map(call)).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
        tokio::time::sleep(SETTLE).await;
        let seconds = began.elapsed().as_secs_f64();
        Ok((self.redis.server.cpu()? - cpu - self.idle * seconds) * 1e6 / calls as f64)
    }
}
